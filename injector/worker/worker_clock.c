/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's two clocks. What is on record is on CLOCK_REALTIME, which may be set at any moment; how long
 * something took is told by CLOCK_MONOTONIC alone. So each turn looks whether the one has moved against the
 * other.
 */
#include "worker_private.h"

#include "clock.h"

/* From one turn to the next; a daemon that slews the clock moves it by a twelfth of that at most. */
#define SET_NS (50 * CS_NS_PER_MS)

void
cs_worker_take_clocks(struct cs_worker *w, uint64_t now_ns, uint64_t monotonic_ns)
{
	uint64_t ahead_ns = now_ns - monotonic_ns;
	int64_t moved_ns = (int64_t)(ahead_ns - w->ahead_ns);
	bool known = w->ahead_ns != 0;

	w->now_ns = now_ns;
	w->monotonic_ns = monotonic_ns;
	w->ahead_ns = ahead_ns;
	if (!known || (moved_ns <= (int64_t)SET_NS && moved_ns >= -(int64_t)SET_NS))
		return;
	w->clock_set |= w->sampling;
	cs_worker_note_clock_set(w, moved_ns > 0);
	cs_delivery_note_set(moved_ns < 0);
	cs_windows_set_clock(&w->windows, now_ns - (uint64_t)moved_ns, now_ns);
}

void
cs_worker_read_clocks(struct cs_worker *w)
{
	uint64_t now_ns, monotonic_ns;
	int tries = 0;

	/* At one moment: this thread may be put aside between the two. */
	do {
		monotonic_ns = cs_clock_monotonic_ns();
		now_ns = cs_clock_realtime_ns();
	} while (cs_clock_monotonic_ns() - monotonic_ns > CS_NS_PER_MS && ++tries < 4);
	cs_worker_take_clocks(w, now_ns, monotonic_ns);
}
