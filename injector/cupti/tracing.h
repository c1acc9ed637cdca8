/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Switches CUPTI's activity kinds: deep = CONCURRENT_KERNEL, MEMCPY and MEMSET. A change takes 10 to 110 us
 * on the worker and holds for graphs that were instantiated before, too.
 *
 * GRAPH_TRACE, which depth light would need, is never switched on: after a graph was instantiated without it,
 * it ends the process at the next launch (steps.h).
 *
 * Records of driver calls (kind DRIVER) are wanted where eager launches of NCCL's kernels are to be told
 * apart without a subscription.
 *
 * MEMCPY and MEMSET are on for the copies, and because CUPTI before 13.3 leaks when graphs hold such nodes
 * that are not traced.
 *
 * Worker, but for begin_early (start-up) and depth (any thread). The caller is between
 * cs_instance_enter_cupti and _leave_.
 */
#ifndef CS_TRACING_H
#define CS_TRACING_H

#include "life/instance.h"
#include "record.h"

/* Registers our buffer callbacks (again). CUPTI's result. */
CUptiResult cs_tracing_register(struct cs_instance *instance);
/* Full mode, before the first context. Failure is left for the worker to meet. */
void cs_tracing_begin_early(struct cs_instance *instance);

enum cs_depth cs_tracing_depth(void);
/* How often tracing was switched on or off in this process. Any thread. */
uint32_t cs_tracing_switches(void);
/* Whether the next switch to DEEP has records of driver calls, too (labels/told.h). Worker. */
void cs_tracing_want_calls(bool want);
/* To OFF or DEEP. 0, or -EIO with CUPTI's result in *failure and depth OFF. */
int cs_tracing_switch(struct cs_instance *instance, enum cs_depth depth, CUptiResult *failure);
/* At depth DEEP: the same kinds once more. A tool that ends its session switches them off for everybody, and
 * CUPTI tells nobody; one that is on already stays as it is. */
void cs_tracing_insist(struct cs_instance *instance);
/* Somebody else's kinds now: forget, without touching CUPTI. */
void cs_tracing_forget(void);
/* Whether kinds that we switched on were left on so, and nobody switched them off since, as far as we know.
 * sweep: off with them, when it is known that the buffers are ours after all; depth OFF. */
bool cs_tracing_left_on(void);
void cs_tracing_sweep(struct cs_instance *instance);

#endif
