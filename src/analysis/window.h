/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a source's time was seen in full: the deep windows, less the moments at which records were lost.
 *
 * A stretch counts as seen when one deep window (or several without a gap) covers it and no loss touches it.
 * After the newest window that has ended an open one is assumed: that is where records come from in full
 * mode, and a window of sample mode has ended long before the horizon. A source that never reports windows is
 * seen all the time.
 */
#ifndef CS_WINDOW_H
#define CS_WINDOW_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Older ones are forgotten; 30 s of light and deep windows at the shortest period (100 ms). */
#define CS_WINDOWS_MAX 600U
#define CS_LOSSES_MAX  64U

struct cs_span {
	uint64_t start_ns, end_ns;
};

struct cs_windows {
	struct cs_span deep[CS_WINDOWS_MAX]; /* by start, apart from each other */
	size_t deep_count;
	struct cs_span losses[CS_LOSSES_MAX]; /* ring */
	size_t loss_count;
	uint64_t newest_end_ns; /* of any window; 0 none yet */
};

/* WINDOW and LOSS records; others are ignored. */
void cs_windows_note(struct cs_windows *windows, const struct cs_record *record);
/* Was every kernel that ran at some time in start_ns ... end_ns recorded? */
bool cs_windows_saw(const struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns);
/* The deep window that holds start_ns: [0, ...) when no window was ever reported, until UINT64_MAX when it is
 * still open. false: none. */
bool cs_windows_find(const struct cs_windows *windows, uint64_t start_ns, struct cs_span *span);

#endif
