/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a source's time was seen in full: the deep windows, less the moments at which records were lost.
 *
 * A stretch counts as seen when one deep window (or several without a gap) covers it and no loss touches it.
 * After the newest window that has ended only the windows are seen that were said to have opened and have not
 * been said to have ended, each from its opening on. A source that never says when one opens (a file of
 * format 1.2) is taken to have an open one there; one that never reports windows at all is seen all the time.
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
/* That have opened and not ended, as far as was said: 8 that wait for their records
 * (injector/sampling/windows.h), the one that is open, and room for ends that were lost. */
#define CS_WINDOWS_OPEN_MAX 16U

struct cs_span {
	uint64_t start_ns, end_ns;
};

struct cs_windows {
	struct cs_span deep[CS_WINDOWS_MAX]; /* by start, apart from each other */
	size_t deep_count;
	struct cs_span losses[CS_LOSSES_MAX]; /* ring */
	size_t loss_count;
	uint64_t newest_end_ns;                     /* of any window; 0 none yet */
	bool told;                                  /* it says when windows open */
	struct cs_span opened[CS_WINDOWS_OPEN_MAX]; /* by start, none before newest_end_ns; no end */
	size_t opened_count;
};

/* WINDOW, WINDOW_OPEN and LOSS records; others are ignored. */
void cs_windows_note(struct cs_windows *windows, const struct cs_record *record);
/* Was every kernel that ran at some time in start_ns ... end_ns recorded? */
bool cs_windows_saw(const struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns);
/* The deep window that holds start_ns: [0, ...) when no window was ever reported, until UINT64_MAX when it is
 * still open, as far as was said. false: none. */
bool cs_windows_find(const struct cs_windows *windows, uint64_t start_ns, struct cs_span *span);

#endif
