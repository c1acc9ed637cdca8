/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that a variable names, and those that are loaded. dlopen of a FIFO waits for a writer for ever,
 * of a device who knows: only regular files are opened.
 */
#ifndef CS_LIBRARY_H
#define CS_LIBRARY_H

#include <link.h>
#include <stdbool.h>

/* dlopen(name, flags), or NULL and in *why a sentence without its end ("it is not a regular file", dlerror's
 * text). *why lives until the next dl* call of the thread. Start-up, and threads of NCCL's and NVTX's that
 * initialise. */
void *cs_library_open(const char *name, int flags, const char **why);

/* dl_iterate_phdr, while no thread of the host forks and no signal comes to this one: a child that is made
 * meanwhile finds the loader's lock taken for ever, and waits for it in its next dlopen or exception
 * (glibc 2.36). Start-up and worker. */
void cs_library_visit(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context), void *context);
/* Around fork, on the thread that forks, one fork at a time (cs_context_hold_life). Waits for a second at
 * most, and for nobody then: the host may fork inside a look of its own, which has the loader's lock that
 * ours waits for. errno is not kept. */
void cs_library_hold(bool hold);
/* In the child, instead of letting go: whoever had the lock is not there. */
void cs_library_forget(void);

#endif
