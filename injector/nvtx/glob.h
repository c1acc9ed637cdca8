/* SPDX-License-Identifier: Apache-2.0 */
/* Shell patterns for range names. fnmatch(3) may allocate and depends on the locale; range pushes are the
 * host's hot path. */
#ifndef CS_NVTX_GLOB_H
#define CS_NVTX_GLOB_H

#include <stdbool.h>

/* Whether `text` matches one of the comma-separated patterns ("step*,verify?"): * ? and [a-z] [!a-z] as in a
 * shell, bytes not characters. No pattern matches nothing. Pure, host-safe. */
bool cs_glob_any(const char *patterns, const char *text);

#endif
