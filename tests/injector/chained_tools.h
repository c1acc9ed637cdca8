/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CS_CHAINED_TOOLS_H
#define CS_CHAINED_TOOLS_H

#include "nccl/profiler_abi.h"
#include "nvtx/nvtx_abi.h"

struct chained_counts {
	unsigned long inits, starts, stops, states, finalizes;
	unsigned long parents, wrong_parents, wrong_contexts, foreign_handles;
	unsigned long domains, pushes, pops, foreign_domains;
};

/* In the library, found with dlsym. */
extern struct chained_counts chained_counts;

#endif
