/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether tracing makes the process's GPU memory grow. CUPTI before 13.3 is said to leak (NVIDIA's release
 * notes); what shows it from outside is memory that grows while windows are open and never between them.
 *
 * A server's own allocator grows, too, at moments of its own. One that grew at random, with windows a fifth
 * of the time, would hit CS_GROWTH_WINDOWS of them and no moment between with a probability of 3e-6; at the
 * default share of a hundredth with 1e-16. So growth between windows, once, begins everything anew, and
 * windows that fill more than a fifth of the time are not judged. The price: in a server whose memory grows
 * all the time a leak is not noticed, and neither is one in full mode.
 *
 * Pure; one thread.
 */
#ifndef CS_GROWTH_H
#define CS_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

#define CS_GROWTH_WINDOWS 8U

/* GPU memory of this process shortly before a window and right after it; begin and end on CLOCK_MONOTONIC, of
 * the two looks. */
struct cs_growth_window {
	uint64_t before_bytes, after_bytes;
	uint64_t begin_ns, end_ns;
};

struct cs_growth {
	bool running; /* there was a window before */
	uint64_t last_bytes, last_ns;
	uint32_t windows; /* in which it grew, in a row without growth between them */
	uint64_t grown_bytes;
	uint64_t in_ns, between_ns;
};

/* true: it leaks, `threshold_bytes` or more. threshold 0: never. */
bool cs_growth_add(struct cs_growth *growth, const struct cs_growth_window *window, uint64_t threshold_bytes);
/* What comes next has nothing to do with what was: a look failed, or somebody else used CUPTI. */
void cs_growth_forget(struct cs_growth *growth);

#endif
