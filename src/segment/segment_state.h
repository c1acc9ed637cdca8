/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the status words of a segment (docs/segment-format.md) come to for people: one state and one number of
 * losses, the same in `collscope status` and on the exporter's page. Thread context: any.
 */
#ifndef CS_SEGMENT_STATE_H
#define CS_SEGMENT_STATE_H

#include "segment_layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Sum over causes, without cs_segment_cut. */
uint64_t cs_segment_lost(const struct cs_status *status);
/* Records without an end because their window ended first: CUPTI gives none to a kernel that runs then, about
 * one a window (docs/metrics.md). More than that is a loss like any other, and none is cut. */
uint64_t cs_segment_cut(const struct cs_status *status);
/* When the trace on request ends that runs or waits to begin (CLOCK_REALTIME); 0: there is none. */
uint64_t cs_segment_request_until_ns(const struct cs_status *status, bool alive, uint64_t now_ns);
/* What the writer is doing; "ended" once it has gone without having said so (killed, crashed), "tracing" all
 * through a trace on request, "sampling" between the windows of sample mode. */
const char *cs_segment_state_word(const struct cs_status *status, bool alive, uint64_t now_ns);
/* For how long the worker of a living writer has given no sign, from 5 s on; 0: it does, or has none that
 * could. The worker beats several times a second: the process is stopped, or its machine is drowning. */
uint64_t cs_segment_silent_ns(const struct cs_status *status, bool alive, uint64_t now_ns);
#define CS_SEGMENT_STATE_ENDED "ended"

#endif
