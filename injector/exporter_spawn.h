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
 * Worker, once, at its start.
 */
#ifndef CS_EXPORTER_SPAWN_H
#define CS_EXPORTER_SPAWN_H

#include "environment.h"

/* 0 started; 1 not wanted or one is running already; -ENOENT no exporter was found (one line says so);
 * -errno. */
int cs_exporter_spawn(const struct cs_settings *settings, const char *directory);

/* Whether somebody holds the lock file of an exporter. */
bool cs_exporter_is_running(const char *directory);

/* Finds the executable: configured, else beside the library and in the usual places around it. 0 or -ENOENT.
 */
int cs_exporter_find(const char *configured, const char *library_path, char *path, size_t path_bytes);

#endif
