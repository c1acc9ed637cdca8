/* SPDX-License-Identifier: Apache-2.0 */
/* Signs that going on would do harm, or no good any more: then we give CUPTI back and say why. */
#include "worker_private.h"

#include "release.h"

/* So many records are looked at together; when most of them have no valid time we give up. */
#define BAD_RECORDS_MIN 1000U

/* When CUPTI's device buffers are no longer recycled all times become zero; after the clock was set by more
 * than a day they are all too far from now. There is nothing more to learn here. */
void
cs_worker_watch_timestamps(struct cs_worker *w)
{
	struct cs_delivery_counts counts;
	uint64_t timed, bad;

	cs_delivery_count(w->ignore_before, &counts);
	timed = counts.timed - w->watched_timed;
	bad = counts.bad - w->watched_bad;
	if (timed < BAD_RECORDS_MIN)
		return;
	w->watched_timed = counts.timed;
	w->watched_bad = counts.bad;
	if (bad > timed / 2) {
		cs_release(w->instance);
		cs_instance_go_dormant(
			"CUPTI's records have no valid times any more (%llu of %llu); restart the "
			"process to profile it, with a newer CUPTI if this comes again",
			(unsigned long long)bad, (unsigned long long)timed);
	}
}

/* CUPTI before 12.9 that took the one buffer which is everybody's (buffers.h): its records are not read any
 * more, and nobody has seen what it does when two of its own users write into it. */
void
cs_worker_watch_buffers(struct cs_worker *w)
{
	uint64_t shared = atomic_load_explicit(&cs_delivery_buffers()->shared, memory_order_relaxed);

	if (shared == 0)
		return;
	cs_release(w->instance);
	cs_instance_go_dormant(
		"CUPTI wanted more buffers at once than there may be (%llu times); restart the process "
		"to profile it, with CUPTI 12.9 or later if this comes again",
		(unsigned long long)shared);
}
