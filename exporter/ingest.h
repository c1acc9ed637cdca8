/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node: run directory, analysis and series under one lock. One thread turns it; scrapes copy from it.
 *
 * The lock is held for the records of one read at a time (CS_INGEST_BATCH, about a millisecond), and a scrape
 * that waits is let in before the next one.
 *
 * Thread context: cs_ingest_turn from one thread; the rest from any.
 */
#ifndef CS_EXPORTER_INGEST_H
#define CS_EXPORTER_INGEST_H

#include "buffer.h"
#include "error.h"
#include "processes.h"
#include "snapshot.h"
#include "traced.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_INGEST_BATCH 4096U /* records */

struct cs_ingest; /* opaque */

struct cs_ingest_options {
	const char *directory; /* exists */
	const char *steps;     /* rule file; NULL none */
	uint64_t stall_ns;     /* a rank that stands still for so long is said; 0: CS_STALL_NS */
	uint64_t linger_ns;
	uint64_t retention_ns;
	uint64_t max_series;
	bool read_only; /* the run directory is not ours to change */
};

/* Settings of malloc for the whole process, before it has threads. Steps come and go in pieces of tens of
 * kilobytes, ten times a second: what they free is kept for the next ones, whereas a scrape's large buffers
 * go back to the system. */
void cs_ingest_tune_memory(void);

/* 0; -EINVAL for a bad rule file; -ENOMEM. The directory's name is copied. */
int cs_ingest_new(const struct cs_ingest_options *options, struct cs_ingest **ingest, struct cs_error *error);
void cs_ingest_destroy(struct cs_ingest *ingest);

/* Reads everything new; once a second looks into the run directory and at the writers. Returns how many
 * records it read. */
size_t cs_ingest_turn(struct cs_ingest *ingest);
/* Looks now; before leaving, so that segments whose linger time has just ended go, too. */
void cs_ingest_look(struct cs_ingest *ingest);
/* The run directory; of the ingest. */
const char *cs_ingest_directory(const struct cs_ingest *ingest);
/* Since how long no writer has been alive; 0: one is. */
uint64_t cs_ingest_alone_ns(struct cs_ingest *ingest);

/* Copies everything that is served about the node, but not about the exporter's process. Unfinished. */
void cs_ingest_collect(struct cs_ingest *ingest, struct cs_snapshot *snapshot);
/* Calls visit for each process, under the lock. */
void cs_ingest_each(struct cs_ingest *ingest, void (*visit)(void *context, const struct cs_traced *traced),
	void *context);
void cs_ingest_rejections(struct cs_ingest *ingest, struct cs_rejections *rejections);

#endif
