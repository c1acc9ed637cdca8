/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that were never finished: a process that is killed while it makes its segment leaves some
 * megabytes under a temporary name, for which no reader looks.
 *
 * Thread context: any.
 */
#ifndef CS_EXPORTER_LEFTOVERS_H
#define CS_EXPORTER_LEFTOVERS_H

#include <stdint.h>

/* A writer opens its file first and locks it then: a younger file may be one in between. */
#define CS_LEFTOVERS_AGE_MIN_NS UINT64_C(60000000000)

/* Unlinks the temporary files of the run directory that nobody has locked and that have not changed for
 * age_ns (at least CS_LEFTOVERS_AGE_MIN_NS). Returns how many. */
unsigned int cs_leftovers_remove(const char *directory, uint64_t age_ns);

#endif
