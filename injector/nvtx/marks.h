/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of host threads whose names match COLLSCOPE_NVTX_RANGES, as MARK records: how an engine says which
 * step is which.
 *
 * Thread context: any application thread; host-safe. All bounded: nesting per thread, open start/end ranges,
 * registered strings. A range whose name is wanted and that has no room is lost, which the segment counts
 * (LOSS MARKS_FULL); a registered string without room counts once.
 */
#ifndef CS_NVTX_MARKS_H
#define CS_NVTX_MARKS_H

#include <stdbool.h>
#include <stdint.h>

/* Patterns, borrowed for the life of the process; "" = none, then no other function is called. */
void cs_marks_setup(const char *patterns);
bool cs_marks_wanted(void);

/* Begin and end of a nested range of this thread in a domain (NULL = default). name NULL = not known: only
 * the nesting counts. */
void cs_marks_push(const void *domain, const char *name);
void cs_marks_pop(const void *domain);

/* A range that may end on another thread. id: unique in the process, 0 = none. */
void cs_marks_start(uint64_t id, const char *name);
void cs_marks_end(uint64_t id);

/* Strings that a module registers once and names by handle. handle NULL: *our* handle is returned for the
 * text. Returns the handle, NULL when there is no room. */
const void *cs_marks_register_string(const void *handle, const char *text);
/* Text of a handle, NULL unknown. */
const char *cs_marks_string(const void *handle);

#endif
