/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts collscope-exporter when none runs on this node: `exporter.lock` in the run directory is held by the
 * one that does. The exporter itself settles races between processes that start it at the same time.
 *
 * The new process is no child of the host (unless the host is what orphans go to: process 1 of a container,
 * or a subreaper): it is started by a short-lived intermediate that sends no SIGCHLD and that wait(2) does
 * not see, in a session of its own, with no descriptor, signal mask or handler of the host's. Its environment
 * is empty; what it has to know are arguments. The host's is not to be read here, since one of its threads
 * may be changing it; and there are names in it that the exporter must not follow, such as NOTIFY_SOCKET, by
 * which it would tell the service manager that the host is ready, or stops.
 *
 * Whether it serves is looked at once a second from then on: the first sight of its address in the lock file
 * is "started"; its end, with nobody else's lock, is one warning that names exporter.log, since nothing else
 * of it is seen (a port that is taken, above all).
 *
 * An exporter that dies (killed for memory, crashed) is started again: the worker looks at the lock twice a
 * minute, and who finds it free for long enough starts one, as at the start. One under a service manager has
 * CS_EXPORTER_GRACE_NS to come back by itself. When it dies again and again the looks get rarer.
 *
 * Worker only.
 */
#ifndef CS_EXPORTER_SPAWN_H
#define CS_EXPORTER_SPAWN_H

#include "environment.h"

#include <sys/types.h>

/* Looking is an open and an fcntl. */
#define CS_EXPORTER_LOOK_NS     30000000000ULL
#define CS_EXPORTER_GRACE_NS    5000000000ULL
#define CS_EXPORTER_LOOK_MAX_NS 480000000000ULL

struct cs_exporter_watch {
	uint64_t next_ns;  /* of the next look; 0 not begun */
	uint64_t pause_ns; /* from one look to the next */
	bool gone;         /* it was at the last look */
	pid_t started;     /* what cs_exporter_spawn gave, until it is known what became of it; 0 none */
};

/* 0 started, *pid is the new process (else 0); 1 not wanted or one is running already; -ENOENT no exporter
 * was found; -errno. One line says what failed, the same failure over again is not repeated. */
int cs_exporter_spawn(const struct cs_settings *settings, const char *directory, pid_t *pid);

/* To be called about once a second, with CLOCK_MONOTONIC; looks when it is time to. The first call only
 * begins the wait. As cs_exporter_spawn, 1 also when nothing was due. */
int cs_exporter_watch(struct cs_exporter_watch *watch, const struct cs_settings *settings,
	const char *directory, uint64_t now_ns);

/* Finds the executable: configured, else beside the library and in the usual places around it. 0 or -ENOENT.
 */
int cs_exporter_find(const char *configured, const char *library_path, char *path, size_t path_bytes);

#endif
