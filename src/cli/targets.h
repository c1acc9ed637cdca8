/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traced processes that a command looks at: the segments of a run directory, opened and chosen by pid.
 *
 * A segment that cannot be read is named on stderr once and counted; the others are shown all the same. Those
 * that another user owns are said in one line, those of all users past a few in one more. Thread context: one
 * thread per struct cs_targets.
 */
#ifndef CS_TARGETS_H
#define CS_TARGETS_H

#include "cmd.h"
#include "segment/segment_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CS_TARGET_PIDS_MAX 64
/* A directory path, a slash, and "<pid>-<ticks>.seg". */
#define CS_TARGET_PATH_BYTES (CS_PATH_BYTES + 64)

struct cs_target_query {
	const char *directory; /* --dir; NULL: the default */
	uint32_t pids[CS_TARGET_PIDS_MAX];
	size_t pid_count; /* 0: all */
	bool ended;       /* also segments whose writer has gone */
	bool from_oldest; /* read from the oldest record in the ring, not from now */
	bool silent;      /* say nothing of segments that cannot be read, and do not count them */
};

struct cs_target {
	char path[CS_TARGET_PATH_BYTES];
	uint32_t pid;
	uint64_t start_time_ticks;
	struct cs_segment_reader *reader;       /* until cs_targets_close */
	const struct cs_dictionary *dictionary; /* borrowed from the reader */
	bool alive;                             /* the writer holds its lock, or nobody can tell */
	bool broken;                            /* has become unreadable (said on stderr) */
	bool let_go;                            /* its file is closed: nothing here changes any more */
	struct cs_status status;                /* copy of the last refresh */
};

/* Users whose segments are told together. */
#define CS_TARGET_OWNERS_MAX 8

struct cs_targets {
	char directory[CS_PATH_BYTES];
	struct cs_target_query query;
	struct cs_target **items; /* readable ones, by rank, then pid; pointers stay valid until close */
	size_t count;
	struct cs_target **retired; /* taken out of items; pointers stay valid until close */
	size_t retired_count;
	size_t ended;      /* left out because their writer has gone */
	bool missing;      /* there is no such directory */
	size_t unreadable; /* could not be opened (said on stderr) */
	/* Paths that were looked at before and are in neither: not opened again by a rescan. */
	char (*rejected)[CS_TARGET_PATH_BYTES];
	size_t rejected_count;
	/* Segments of a scan that may not be opened, as they are another user's; said when it is over. */
	struct {
		uid_t uid;
		size_t count;
	} owners[CS_TARGET_OWNERS_MAX];
	size_t owner_count;
	size_t others_count; /* such segments of still others */
};

/* The argument of --pid; 0 or CS_PARSE_EXIT. */
int cs_target_query_add_pid(struct cs_target_query *query, struct cs_cmd_parser *parser);

/*
 * Finds and opens what the query asks for and copies each status. CS_EXIT_OK with at least one item;
 * CS_EXIT_NOTHING when there is none (said on stderr), CS_EXIT_ERROR when the directory or every segment is
 * unreadable (said). Close it in every case.
 */
int cs_targets_open(struct cs_targets *targets, const struct cs_target_query *query);
/*
 * The processes named, and those that have a communicator with one of them: what has to trace together so
 * that collectives can be matched. Segments of others that cannot be read are left alone. CS_EXIT_NOTHING,
 * said on stderr, when one that was named is not there. Else as cs_targets_open.
 */
int cs_targets_open_groups(struct cs_targets *targets, const struct cs_target_query *query);
/* Looks for new segments: 0, or -errno of the directory or of memory. *added (may be NULL): how many came. */
int cs_targets_rescan(struct cs_targets *targets, size_t *added);
/* How many have become unreadable, items or retired. */
size_t cs_targets_count_broken(const struct cs_targets *targets);
/* Status, texts and sign of life of one: 0, or -EIO once its file has become unreadable. */
int cs_target_refresh(struct cs_target *target);
/* Says once that the file cannot be read any more, and marks the target so. */
void cs_target_break(struct cs_target *target, int error);
/* Of a process that has ended, or is broken: closes the file, which costs memory as long as it is open, also
 * after it was removed. What was read of it stays. */
void cs_target_let_go(struct cs_target *target);
/* Takes one that was let go out of items. 0, or -ENOMEM: it stays there. */
int cs_targets_retire(struct cs_targets *targets, struct cs_target *target);
void cs_targets_close(struct cs_targets *targets);

/* NVML index of a GPU of the process's table, -1 unknown. */
int32_t cs_target_gpu(const struct cs_target *target, uint32_t index);

#endif
