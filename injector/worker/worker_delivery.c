/* SPDX-License-Identifier: Apache-2.0 */
/* Handing over: when the worker flushes, and what may be said of it afterwards. */
#include "worker_private.h"

#include "clock.h"
#include "cupti/tracing.h"

void
cs_worker_flush(struct cs_worker *w)
{
	if (!atomic_load(&w->instance->callbacks_registered) || !cs_instance_enter_cupti())
		return;
	/* Of a GPU whose first context came up just now: its records would be lost. */
	cs_worker_name_devices(w);
	w->instance->cupti.activity_flush_all(0);
	cs_instance_leave_cupti();
	atomic_fetch_add_explicit(&w->status->flushes, 1, memory_order_relaxed);
}

static void
note_delivered(struct cs_worker *w, uint64_t flush_began_ns)
{
	uint64_t held_from_ns = cs_delivery_settle(cs_clock_monotonic_ns());
	/* A record in a buffer was put there after the buffer was taken; its kernel may have ended some time
	 * before that, at most a flush period as far as seen. */
	uint64_t margin_ns = w->instance->settings.flush_ms * CS_NS_PER_MS;
	uint64_t until_ns = cs_buffers_oldest_ns(cs_delivery_buffers(), w->ignore_before, flush_began_ns);

	until_ns = until_ns > margin_ns ? until_ns - margin_ns : 0;
	if (until_ns > held_from_ns)
		until_ns = held_from_ns;
	if (until_ns > atomic_load_explicit(&w->status->delivered_until_ns, memory_order_relaxed))
		atomic_store_explicit(&w->status->delivered_until_ns, until_ns, memory_order_release);
}

/*
 * A flush returns a buffer only when every record in it is complete, so it has to hit a moment when nothing
 * runs. Steps and flushes of commensurate periods would never meet such a moment, or always miss it: hence
 * the jitter. When a buffer has been held for long the moment is looked for more often.
 */
static uint64_t
flush_pause_ns(struct cs_worker *w)
{
	uint64_t period_ns = w->instance->settings.flush_ms * CS_NS_PER_MS;
	uint64_t oldest_ns = cs_buffers_oldest_ns(cs_delivery_buffers(), w->ignore_before, UINT64_MAX);

	w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
	if (oldest_ns != UINT64_MAX && w->now_ns > oldest_ns + 2 * period_ns)
		period_ns /= 4;
	return period_ns / 4 * 3 + (w->random >> 33) % (period_ns / 4 + 1);
}

/* After a flush that began after they were closed; and not before it is known whose they were: nothing is
 * being judged, or records have come to us since the window began. */
void
cs_worker_settle_when_sure(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	if (counts.completed != w->evidence.completed) {
		w->evidence = counts;
		w->evidence_ns = w->now_ns;
	}
	if (!w->judging)
		cs_windows_settle(&w->windows, counts.launches, false);
	else
		cs_windows_settle_begun(&w->windows, counts.launches, w->evidence_ns);
}

void
cs_worker_flush_when_due(struct cs_worker *w)
{
	bool wanted = cs_tracing_depth() != CS_DEPTH_OFF || w->monotonic_ns < w->drain_until_ns;
	uint64_t began_ns = w->now_ns;

	if (w->yielded)
		cs_delivery_settle(w->monotonic_ns); /* nothing comes any more */
	if (w->yielded || w->monotonic_ns < w->next_flush_ns)
		return;
	w->next_flush_ns = w->monotonic_ns + flush_pause_ns(w);
	if (!wanted || !atomic_load(&w->instance->callbacks_registered)) {
		note_delivered(w, began_ns);
		cs_worker_settle_when_sure(w);
		return;
	}
	cs_worker_flush(w);
	cs_delivery_count(w->ignore_before, &w->flushed);
	note_delivered(w, began_ns);
	cs_worker_settle_when_sure(w);
}
