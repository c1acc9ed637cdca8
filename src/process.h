/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process has ended that is not ours to wait for. Three system calls; allocates nothing, waits for
 * nobody. Any thread that may make system calls: the worker, the command. errno is not kept.
 */
#ifndef CS_PROCESS_H
#define CS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Also when nobody has waited for it yet: orphans may go to a process that never does (process 1 of a
 * container, a subreaper). That takes a pidfd; where there is none to have (Linux before 5.3, a seccomp
 * filter, no descriptor left) such a zombie counts as alive. So does another process that has got the number
 * since: ask about one that was started a short while ago. pid is above 0.
 */
bool cs_process_has_ended(pid_t pid);

#endif
