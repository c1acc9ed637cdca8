/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI's two buffer callbacks, and what goes on between them and the ring.
 *
 * A completed buffer is parsed right there, on the thread that completes it (CUPTI's own, or our worker
 * inside FlushAll): the buffer is free again at once, so the pool stays small; records reach the ring without
 * waiting for another thread; and no application thread is involved. But a buffer with records of a device
 * that came up just now waits for the worker, which names it. CUPTI spends more time on a record
 * itself than we do. A lock makes parsing one at a time. It is never held while CUPTI is called for anything
 * but the walk.
 */
#ifndef CS_DELIVERY_H
#define CS_DELIVERY_H

#include "activity.h"
#include "buffers.h"

struct cs_instance;

/* Once, before the writer is handed out. 0, -ENOMEM (works on with small buffers). */
int cs_delivery_init(struct cs_instance *instance, struct cs_segment_writer *writer);

/* Registers the callbacks with CUPTI; again whenever somebody else has replaced them. */
CUptiResult cs_delivery_register(const struct cs_cupti_api *cupti);

struct cs_buffers *cs_delivery_buffers(void);
/* cs_activity_note_close, _open; and _set. */
void cs_delivery_note_edge(bool open, uint64_t now_ns);
void cs_delivery_note_set(bool back);
/* cs_labels_settle, under the parser's lock. Worker, after a flush. */
uint64_t cs_delivery_settle(uint64_t now_ns);
void cs_delivery_set_gpu(uint32_t device, int gpu);
int cs_delivery_gpu(uint32_t device);

/* CPU time spent in completed callbacks on threads that are not the worker. */
uint64_t cs_delivery_cpu_ns(void);
/* The worker's own time is counted by itself. */
void cs_delivery_set_worker(pthread_t worker);

struct cs_delivery_counts {
	uint64_t requested, completed;
	uint32_t held;
	uint64_t kernels; /* records of kernels, all times */
	/* records that should have times, those without good ones, those with another clock's (activity.h) */
	uint64_t timed, bad, strange;
	uint64_t launches; /* graph launches that kernel records belong to */
};
/* held leaves out the first `ignore_before` buffers that were taken. */
void cs_delivery_count(uint64_t ignore_before, struct cs_delivery_counts *counts);
/* Of the window that began last (pace.h): cs_pace_begin, _end, _wait; how many kernels it has seen and since
 * when (0: none; while it waits: none since then); a copy. */
void cs_delivery_pace_begin(uint64_t now_ns);
void cs_delivery_pace_end(uint64_t now_ns);
void cs_delivery_pace_wait(uint64_t now_ns);
void cs_delivery_pace_look(uint64_t *kernels, uint64_t *first_ns);
void cs_delivery_pace_take(struct cs_pace *pace);
/* Whether CUPTI was given one of the last buffers (cs_buffers_run_short) since the shortage before was ended.
 * The worker is nudged once per shortage. */
bool cs_delivery_is_short(void);
void cs_delivery_end_shortage(void);
/* Devices that records came from and that nobody has named yet, one bit each; forgets them. Worker. */
uint64_t cs_delivery_take_wanted(void);
/* Reads the buffers that wait for a device's name since before the last cs_delivery_take_wanted: after
 * cs_delivery_set_gpu. What nobody has named by then is lost. Others wait for the next time: naming takes
 * milliseconds. Worker. */
void cs_delivery_parse_parked(void);

#endif
