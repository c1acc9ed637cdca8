/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX tool that was there before us. NVTX knows one tool only, so it is loaded here, attaches to each
 * module first, and our handlers call what it put into the module's tables.
 */
#ifndef CS_NVTX_FORWARD_H
#define CS_NVTX_FORWARD_H

#include "nvtx_abi.h"

#include <stdatomic.h>

/* Start-up: loads the tool. 0, or -ENOENT with one line on stderr. */
int cs_nvtx_forward_load(const char *path);

/* Lets the tool attach to a module, before our handlers go in. Nothing without a tool. */
void cs_nvtx_forward_attach(cs_nvtx_get_export_table get_export_table);
void cs_nvtx_forward_attach_extension(struct cs_nvtx_extension *extension);

/* What the tool handles itself, NULL nothing; the same in every module. Cast to the function's type. */
struct cs_nvtx_next {
	_Atomic(cs_nvtx_function) core[CS_NVTX_CORE_SIZE];
	_Atomic(cs_nvtx_function) core2[CS_NVTX_CORE2_SIZE];
	_Atomic(intptr_t) payload[CS_NVTX_PAYLOAD_SLOTS];
};
extern struct cs_nvtx_next cs_nvtx_next;

#endif
