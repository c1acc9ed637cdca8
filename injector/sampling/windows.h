/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bookkeeping of windows: the one that is open, and those that have been closed but whose records may still
 * be on their way. A WINDOW record is written when its contents have been handed over or it is clear that
 * there are none, so that a reader that sees it has seen what is in it. That it opens is said at once, by a
 * WINDOW_OPEN record: without it a reader would not know whether anything is traced after the newest end.
 * trace_ns and windows[] of STATUS follow at the same time.
 *
 * Worker's; no CUPTI here.
 */
#ifndef CS_WINDOWS_H
#define CS_WINDOWS_H

#include "segment/segment_writer.h"

/* Slices of a second that wait for a verdict; one more settles the oldest. Fewer than the windows of one
 * process that a reader keeps as opened and not ended (CS_WINDOWS_OPEN_MAX of analysis/window.h), and than
 * the ten seconds after which it looks where a rank stands still. */
#define CS_WINDOWS_PENDING 8U

struct cs_window {
	enum cs_depth depth;
	uint32_t ordinal;
	uint64_t start_ns, end_ns; /* CLOCK_REALTIME */
	uint64_t idle_ns;          /* of it: waiting for work, no tracing time */
};

struct cs_windows {
	struct cs_segment_writer *writer;
	struct cs_window open;
	uint64_t waiting_ns; /* since when, CLOCK_REALTIME; 0: it is not */
	uint32_t pending_count;
	struct cs_window pending[CS_WINDOWS_PENDING];
	uint64_t launches_reported;
};

void cs_windows_init(struct cs_windows *windows, struct cs_segment_writer *writer, uint64_t now_ns);
/* The window that is open should be over and has seen no work yet: from now on readers are told that nothing
 * is traced (STATUS depth), which is what it costs. */
void cs_windows_wait(struct cs_windows *windows, uint64_t now_ns);
/* Work has come, the first of it at work_ns: the waiting was idle time until then. Nothing if it does not
 * wait. */
void cs_windows_work(struct cs_windows *windows, uint64_t work_ns, uint64_t now_ns);
/* The two in one: closes the open stretch, idle from its waiting until work_ns (0: until now), and begins
 * another.
 */
void cs_windows_turn_idle(
	struct cs_windows *windows, enum cs_depth depth, uint32_t ordinal, uint64_t now_ns, uint64_t work_ns);
/* Closes the open stretch and begins another. */
void cs_windows_turn(struct cs_windows *windows, enum cs_depth depth, uint32_t ordinal, uint64_t now_ns);
/* The clock has been set: it is now_ns and would be before_ns. The open stretch is closed by the old clock
 * and goes on as another one by the new, so that none is longer than it was. */
void cs_windows_set_clock(struct cs_windows *windows, uint64_t before_ns, uint64_t now_ns);
/* Writes what is pending. launches: graph launches recorded so far. foreign: they belonged to
 * another tool, so they count as time without tracing. */
void cs_windows_settle(struct cs_windows *windows, uint64_t launches, bool foreign);
/* The same for those alone that had begun at `evidence_ns`, a time at which records came to us; what came
 * before them in order goes too. Not foreign. */
void cs_windows_settle_begun(struct cs_windows *windows, uint64_t launches, uint64_t evidence_ns);

#endif
