/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines choose the implementation of a collective by its size, and by what is on: a log line tells when
 * another one than before runs at a size, of an element type, in a phase; and tells when the first is back.
 *
 * Each such series of collectives has the implementation that the log named last. One that differs is told at
 * once after a quiet time, else when the quiet time is over and it still differs; the quiet time doubles with
 * each line, from 1 s to an hour, and is short again after an hour without change. So a switch and the switch
 * back are both there, and two groups that alternate at one size take a line an hour.
 *
 * Time is that of the records, so what is logged does not depend on when they are read.
 *
 * Thread context: that of the feed.
 */
#ifndef CS_EXPORTER_IMPL_CHANGE_H
#define CS_EXPORTER_IMPL_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One process: more series than that are not watched. Real ones have some tens. */
#define CS_IMPL_SERIES_MAX 512U

struct cs_impl_key {
	int32_t gpu, rank;
	uint8_t op, dtype, size, phase; /* size: as cs_size_bucket */
};

struct cs_impl_series {
	struct cs_impl_key key;
	bool used;
	uint8_t told;     /* the implementation that the log named last, or the first seen */
	uint8_t seen;     /* the last one */
	uint32_t changes; /* since the last line */
	uint64_t quiet_ns, last_line_ns, last_change_ns;
};

struct cs_impl_changes {
	struct cs_impl_series *series; /* CS_IMPL_SERIES_MAX, from the first collective on; NULL: no memory */
	size_t count;
};

/* What there is to tell: `before` ran until now, `changes` counts all since the last line, this one included.
 */
struct cs_impl_line {
	uint8_t before, now;
	uint32_t changes;
};

void cs_impl_changes_fini(struct cs_impl_changes *changes);

/* The series of the key; stays where it is. NULL when there are too many, or no memory. */
struct cs_impl_series *cs_impl_changes_find(struct cs_impl_changes *changes, const struct cs_impl_key *key);

/* A collective through `impl` (not unknown) started at `start_ns`. True: fills the line that is due. */
bool cs_impl_change_see(
	struct cs_impl_series *series, uint8_t impl, uint64_t start_ns, struct cs_impl_line *line);

/* To the log, level info. */
void cs_impl_change_log(const struct cs_impl_series *series, const struct cs_impl_line *line, uint32_t pid);

#endif
