/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats of `collscope dump`. A new format is one more table; nothing else changes. Losses have a function
 * of their own, so that no format can leave them out.
 *
 * Thread context: main thread.
 */
#ifndef CS_DUMP_H
#define CS_DUMP_H

#include "analysis/analysis.h"
#include "targets.h"

#include <stdio.h>

struct cs_dump_format {
	const char *name;
	/* Who the records are from; once per process, before its first record. */
	void (*process)(FILE *stream, const struct cs_target *target);
	void (*step)(FILE *stream, const struct cs_target *target, const struct cs_step *step);
	void (*collective)(
		FILE *stream, const struct cs_target *target, const struct cs_collective *collective);
	/* CS_RECORD_WINDOW, _MARK, _HOST_LAUNCH. */
	void (*other)(FILE *stream, const struct cs_target *target, const struct cs_record *record);
	/* Records that are missing: by the writer (when: the record that says so), or by this reader (NULL:
	 * not known when). */
	void (*loss)(FILE *stream, const struct cs_target *target, unsigned int cause, uint64_t count,
		const struct cs_record *when);
};

extern const struct cs_dump_format cs_dump_jsonl;
extern const struct cs_dump_format cs_dump_text;

/* Rank a collective ran as: its label's, else its process's, else CS_RANK_UNKNOWN. World size likewise. */
int32_t cs_dump_rank(const struct cs_target *target, const struct cs_label *label);
int32_t cs_dump_world(const struct cs_target *target, const struct cs_label *label);

#endif
