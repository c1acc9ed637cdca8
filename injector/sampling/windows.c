/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <string.h>

void
cs_windows_init(struct cs_windows *windows, struct cs_segment_writer *writer, uint64_t now_ns)
{
	memset(windows, 0, sizeof(*windows));
	windows->writer = writer;
	windows->open.start_ns = now_ns;
}

static void
write_window(struct cs_windows *windows, const struct cs_window *window, uint64_t launches, bool foreign)
{
	struct cs_record record = {
		.type = CS_RECORD_WINDOW,
		.flags = (uint8_t)(window->depth | (foreign ? CS_RECORD_WINDOW_FOREIGN : 0)),
		.ref = window->ordinal,
		.start_ns = window->start_ns,
		.end_ns = window->end_ns,
		.value = launches,
	};
	struct cs_status *status = cs_segment_writer_status(windows->writer);

	cs_segment_writer_append(windows->writer, &record);
	atomic_fetch_add_explicit(&status->windows[window->depth], 1, memory_order_relaxed);
	if (foreign)
		atomic_fetch_add_explicit(&status->foreign_windows, 1, memory_order_relaxed);
}

static void
write_opening(struct cs_windows *windows, const struct cs_window *window)
{
	struct cs_record record = {
		.type = CS_RECORD_WINDOW_OPEN,
		.flags = (uint8_t)window->depth,
		.ref = window->ordinal,
		.start_ns = window->start_ns,
		.end_ns = window->start_ns,
	};

	cs_segment_writer_append(windows->writer, &record);
}

static void
settle_one(struct cs_windows *windows, const struct cs_window *window, uint64_t launches, bool foreign)
{
	struct cs_status *status = cs_segment_writer_status(windows->writer);
	enum cs_depth seen = foreign ? CS_DEPTH_OFF : window->depth;

	atomic_fetch_add_explicit(&status->trace_ns[seen],
		window->end_ns - window->start_ns - window->idle_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&status->trace_ns[CS_DEPTH_OFF], window->idle_ns, memory_order_relaxed);
	if (window->depth == CS_DEPTH_OFF)
		return;
	write_window(windows, window, launches - windows->launches_reported, foreign);
	windows->launches_reported = launches;
}

void
cs_windows_settle(struct cs_windows *windows, uint64_t launches, bool foreign)
{
	for (uint32_t i = 0; i < windows->pending_count; i++)
		settle_one(windows, &windows->pending[i], launches, foreign);
	windows->pending_count = 0;
}

void
cs_windows_settle_begun(struct cs_windows *windows, uint64_t launches, uint64_t evidence_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < windows->pending_count; i++)
		if (windows->pending[i].start_ns <= evidence_ns)
			count = i + 1;
	for (uint32_t i = 0; i < count; i++)
		settle_one(windows, &windows->pending[i], launches, false);
	memmove(&windows->pending[0], &windows->pending[count],
		(windows->pending_count - count) * sizeof(windows->pending[0]));
	windows->pending_count -= count;
}

void
cs_windows_wait(struct cs_windows *windows, uint64_t now_ns)
{
	struct cs_status *status = cs_segment_writer_status(windows->writer);

	if (windows->waiting_ns != 0)
		return;
	windows->waiting_ns = now_ns;
	atomic_store_explicit(&status->depth, CS_DEPTH_OFF, memory_order_relaxed);
	atomic_store_explicit(&status->depth_since_ns, now_ns, memory_order_relaxed);
}

static void
end_waiting(struct cs_windows *windows, uint64_t until_ns)
{
	uint64_t since_ns = windows->waiting_ns;

	windows->waiting_ns = 0;
	if (since_ns >= windows->open.start_ns && until_ns > since_ns)
		windows->open.idle_ns += until_ns - since_ns;
}

void
cs_windows_work(struct cs_windows *windows, uint64_t work_ns, uint64_t now_ns)
{
	struct cs_status *status = cs_segment_writer_status(windows->writer);

	if (windows->waiting_ns == 0)
		return;
	if (work_ns > now_ns || work_ns < windows->waiting_ns)
		work_ns = work_ns > now_ns ? now_ns : windows->waiting_ns;
	end_waiting(windows, work_ns);
	atomic_store_explicit(&status->depth, (uint64_t)windows->open.depth, memory_order_relaxed);
	atomic_store_explicit(&status->depth_since_ns, work_ns, memory_order_relaxed);
}

void
cs_windows_turn_idle(
	struct cs_windows *windows, enum cs_depth depth, uint32_t ordinal, uint64_t now_ns, uint64_t work_ns)
{
	end_waiting(windows, work_ns != 0 && work_ns < now_ns ? work_ns : now_ns);
	cs_windows_turn(windows, depth, ordinal, now_ns);
}

static void
close_open(struct cs_windows *windows, uint64_t end_ns)
{
	struct cs_window *open = &windows->open;

	/* The clock may have been set back by less than is noticed. */
	open->end_ns = end_ns > open->start_ns ? end_ns : open->start_ns;
	if (open->idle_ns > open->end_ns - open->start_ns)
		open->idle_ns = open->end_ns - open->start_ns;
	windows->waiting_ns = 0;
	if (open->end_ns == open->start_ns && open->depth == CS_DEPTH_OFF)
		return;
	if (windows->pending_count == CS_WINDOWS_PENDING) {
		settle_one(windows, &windows->pending[0], windows->launches_reported, false);
		memmove(&windows->pending[0], &windows->pending[1],
			(CS_WINDOWS_PENDING - 1) * sizeof(windows->pending[0]));
		windows->pending_count--;
	}
	windows->pending[windows->pending_count++] = *open;
}

static void
begin(struct cs_windows *windows, enum cs_depth depth, uint32_t ordinal, uint64_t start_ns)
{
	struct cs_status *status = cs_segment_writer_status(windows->writer);

	windows->open = (struct cs_window){.depth = depth, .ordinal = ordinal, .start_ns = start_ns};
	if (depth != CS_DEPTH_OFF)
		write_opening(windows, &windows->open);
	atomic_store_explicit(&status->depth, (uint64_t)depth, memory_order_relaxed);
	atomic_store_explicit(&status->depth_since_ns, start_ns, memory_order_relaxed);
}

void
cs_windows_turn(struct cs_windows *windows, enum cs_depth depth, uint32_t ordinal, uint64_t now_ns)
{
	close_open(windows, now_ns);
	begin(windows, depth, ordinal, now_ns);
}

void
cs_windows_set_clock(struct cs_windows *windows, uint64_t before_ns, uint64_t now_ns)
{
	struct cs_window open = windows->open;
	bool waits = windows->waiting_ns != 0;

	end_waiting(windows, before_ns);
	close_open(windows, before_ns);
	begin(windows, open.depth, open.ordinal, now_ns);
	if (waits)
		cs_windows_wait(windows, now_ns);
}
