/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory: where segments and the exporter's lock file are. $COLLSCOPE_DIR if set, else
 * /run/collscope if it exists and is writable (or can be created), else /dev/shm/collscope-<uid>. Thread
 * context: any; errno kept and no allocation except in cs_rundir_each. Safe in the host at start-up.
 */
#ifndef CS_RUNDIR_H
#define CS_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Path without creating anything. configured: value of COLLSCOPE_DIR or NULL. 0, -ENAMETOOLONG, -EINVAL (not
 * absolute). */
int cs_rundir_resolve(const char *configured, char *path, size_t path_bytes);
/* The same, creating the directory when missing (0700; /dev/shm fallback is checked to be a directory, not a
 * link, owned by us). 0 or -errno: -EACCES, -EROFS, -ENOTDIR, -EPERM (someone else's). */
int cs_rundir_prepare(const char *configured, char *path, size_t path_bytes);

/* What is wrong, of an error of either. */
const char *cs_rundir_error_text(int error);

/* One segment file name: "<pid>-<ticks>.seg" -> pid, ticks. 0, or -EINVAL when the name is something else. */
int cs_rundir_parse_name(const char *file_name, uint32_t *pid, uint64_t *start_time_ticks);
int cs_rundir_format_name(uint32_t pid, uint64_t start_time_ticks, char *name, size_t name_bytes);

/* The name of a segment that is being made, which no reader takes for one: ".<pid>-<ticks>.<attempt>.tmp". 0,
 * -ENAMETOOLONG. */
int cs_rundir_format_temporary(
	uint32_t pid, uint64_t start_time_ticks, unsigned int attempt, char *name, size_t name_bytes);
bool cs_rundir_is_temporary(const char *file_name);

/* Calls visit(path of the file, its name, context) for every file with a segment's name, in no particular
 * order; stops and returns the first nonzero result. -errno when the directory cannot be read; -ENOENT when
 * it does not exist. For readers: allocates (opendir). */
int cs_rundir_each(
	const char *path, int (*visit)(const char *path, const char *name, void *context), void *context);

#endif
