/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. The first one brings everything to life: segment, label tables, buffers, worker. Each one names
 * the device whose identity the worker then looks up (CUDA calls are forbidden where we hear of contexts).
 */
#ifndef CS_CONTEXT_H
#define CS_CONTEXT_H

#include "instance.h"

/* From CUPTI's CONTEXT_CREATED callback, on the thread that creates it. Allocates and does file work once. */
void cs_context_created(CUcontext context);

/* The same without a context at hand, when callbacks are not to be had. Start-up or worker. 0 or -errno. */
int cs_context_bring_to_life(struct cs_instance *instance);

/* From CUPTI's CONTEXT_DESTROY_STARTING callback. */
void cs_context_destroyed(void);

/* Contexts that came while we were subscribed, less those that went. Any thread. */
uint32_t cs_context_count(void);

/* The next device whose context came up since the last call. Worker. */
bool cs_context_take_device(uint32_t *device, uint32_t *context_id);

/* Around fork: no segment is being made meanwhile, so the child finds the one that it must let go of. */
void cs_context_hold_life(bool hold);

#endif
