/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a file is a library that the CUDA driver can load for us: what --library names is loaded by the
 * driver long after us, which says nothing when it cannot. The file is read, nothing of it is run. Thread
 * context: main thread; no state.
 */
#ifndef CS_LIBRARY_CHECK_H
#define CS_LIBRARY_CHECK_H

/* 0 with *complaint NULL; else a negative errno, and in *complaint (static) what is wrong with the file, NULL
 * where errno says it: -ENOEXEC no shared object for this machine, or it lacks our entry point. */
int cs_library_check(const char *path, const char **complaint);

#endif
