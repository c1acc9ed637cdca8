/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ran beside what on one GPU: a sweep over records in order of start. Exact to the nanosecond on what
 * the records say; a BUSY record is taken as busy from start to end (its joints are at most CS_BUSY_GAP_NS
 * each).
 *
 *   overlap_ns[class]  another stream had something of that class
 *   exposed_ns         no other stream had anything
 *   dependent_ns       the same stream's predecessor, a record that started earlier, still ran (programmatic
 *                      dependent launch). The successor that starts early counts for itself, not here.
 *   share_ns           time with collectives and nothing else on the GPU, given to one of the collectives of
 * a unit, so that the sum over a unit is the measure of the union
 *
 * Work: records times intervals open at once (as many as there are busy streams).
 */
#ifndef CS_OVERLAP_H
#define CS_OVERLAP_H

#include "private.h"

/* A GPU has at most 128 hardware queues; more at once is no GPU's doing. */
#define CS_ACTIVE_MAX 1024U

/* The record starts at or after everything added so far. `unit` and `item` of a collective, else NULL. 0 or
 * -ENOMEM (what is beside it is then not complete; the caller counts it). */
int cs_sweep_add(struct cs_sweep *sweep, const struct cs_record *record, struct cs_unit *unit, uint32_t item);
/* Nothing that starts before now_ns will come any more. */
void cs_sweep_advance(struct cs_sweep *sweep, uint64_t now_ns);
void cs_sweep_fini(struct cs_sweep *sweep);

#endif
