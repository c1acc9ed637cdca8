/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that a variable names. dlopen of a FIFO waits for a writer for ever, of a device who knows: only
 * regular files are opened.
 */
#ifndef CS_LIBRARY_H
#define CS_LIBRARY_H

/* dlopen(name, flags), or NULL and in *why a sentence without its end ("it is not a regular file", dlerror's
 * text). *why lives until the next dl* call of the thread. Start-up, and threads of NCCL's and NVTX's that
 * initialise. */
void *cs_library_open(const char *name, int flags, const char **why);

#endif
