/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traced processes of one run directory, as their segments come and go.
 *
 * A new segment is opened when it is found. A process is dead when its lock is free. Its segment then stays
 * for the linger time, for the command line and late readers, and is unlinked; its series stay for the
 * retention time. A segment that cannot be used is counted by reason, logged once, and tried again when the
 * file has changed. One that nobody can use and whose writer is gone is unlinked after the retention time, so
 * that the run directory (memory, as a rule) does not fill up; so is one whose writer died while it made it
 * (leftovers.h).
 *
 * A segment that cannot be unlinked (a read-only directory) is forgotten all the same, but for its name: it
 * is not opened again.
 *
 * Bounded: at most CS_PROCESSES_MAX processes and as many unusable files are held, and of forgotten ones the
 * names of those that are in the directory. Of unusable files past
 * those the last look knows how many there are, and tries each again; none is named in the log, or unlinked
 * before there is room for it.
 *
 * Thread context: one thread at a time, under the lock of the node (ingest.h).
 */
#ifndef CS_EXPORTER_PROCESSES_H
#define CS_EXPORTER_PROCESSES_H

#include "traced.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define CS_PROCESSES_MAX 256U

enum cs_rejection {
	CS_REJECTION_INCOMPLETE, /* not filled yet, or its writer died while it did so */
	CS_REJECTION_VERSION,    /* of another major version */
	CS_REJECTION_CORRUPT,    /* no segment, or one that contradicts itself, or that shrank */
	CS_REJECTION_PERMISSION,
	CS_REJECTION_LIMIT, /* more than CS_PROCESSES_MAX */
	CS_REJECTION_OTHER,
	CS_REJECTION_COUNT
};
const char *cs_rejection_name(unsigned int rejection);

struct cs_rejected {
	char name[CS_TRACED_NAME_BYTES];
	dev_t device;
	ino_t inode;
	struct timespec changed;
	enum cs_rejection reason;
	uid_t owner;
	uint64_t found_ns; /* CLOCK_MONOTONIC */
	bool in_directory;
	bool removal_tried;
};

/* A dead process whose series are gone and whose file is still there. */
struct cs_forgotten {
	char name[CS_TRACED_NAME_BYTES];
	dev_t device;
	ino_t inode;
	bool in_directory;
};

/* Those of the run directory that cannot be used. */
struct cs_rejections {
	uint64_t counts[CS_REJECTION_COUNT];
	uint64_t unusable;  /* all but CS_REJECTION_INCOMPLETE */
	uid_t owner;        /* of one that is counted under CS_REJECTION_PERMISSION */
	bool owners_differ; /* another one has another */
};

struct cs_processes_options {
	const char *directory;
	uint64_t linger_ns;
	uint64_t retention_ns;
	bool read_only; /* unlink nothing */
};

struct cs_processes {
	struct cs_processes_options options;
	struct cs_analysis *analysis;
	struct cs_series_table *table;
	struct cs_traced *items[CS_PROCESSES_MAX];
	size_t count;
	struct cs_forgotten *forgotten; /* sorted between two looks */
	size_t forgotten_count, forgotten_room;
	struct cs_rejected rejected[CS_PROCESSES_MAX];
	size_t rejected_count;
	struct cs_rejections past; /* that the last look, and failures since, found no room for */
	bool past_said;            /* in the log */
	bool directory_failed;     /* said so already */
	uint64_t swept_ns;         /* CLOCK_MONOTONIC; last look at leftovers */
	uint64_t alone_since_ns;   /* CLOCK_MONOTONIC; since when no writer has been alive; 0: one is */
};

/* Borrows options.directory, analysis and table until fini. */
void cs_processes_init(struct cs_processes *processes, const struct cs_processes_options *options,
	struct cs_analysis *analysis, struct cs_series_table *table);
void cs_processes_fini(struct cs_processes *processes);

/* Looks into the directory, at the locks and at the clock. */
void cs_processes_look(struct cs_processes *processes, uint64_t now_monotonic_ns);
/* The segment behaves as no segment does (an error of cs_traced_read or _refresh): closes and rejects it. */
void cs_processes_fail(
	struct cs_processes *processes, struct cs_traced *traced, int code, uint64_t now_monotonic_ns);
/* The process of an analysis source; NULL when there is none. */
struct cs_traced *cs_processes_find(struct cs_processes *processes, uint32_t source);
void cs_processes_count_rejected(const struct cs_processes *processes, struct cs_rejections *rejections);
/* exporter_processes, exporter_segments_rejected, and what each process says. */
void cs_processes_collect(const struct cs_processes *processes, struct cs_snapshot *snapshot);

#endif
