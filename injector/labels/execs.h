/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executable graphs with collectives whose labels somebody should be told of: made or changed since they
 * were told of last. Application threads note them, the worker tells of them (labels_tell.c).
 *
 * A fixed table of four slots per hash. Where these are full, the newcomer takes the place of one that has
 * been told of, the one with the lowest id, and if there is none it is not noted: then nobody is told of it.
 *
 * Thread context: note and touch any thread, host-safe; the others the worker alone.
 */
#ifndef CS_EXECS_H
#define CS_EXECS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CS_EXECS      4096U
#define CS_EXECS_WAYS 4U

struct cs_exec {
	/* Id of the executable's graph in the upper half, a number that each change raises in the lower: 0
	 * the slot is being filled. */
	_Atomic uint64_t word;
	_Atomic uint64_t told; /* `word` when it was told of last */
	_Atomic uint32_t context_id;
	uint32_t said; /* the worker's: id of which a number of collectives was said last; 0 none */
};

struct cs_execs {
	_Atomic uint32_t changes;       /* of all time */
	struct cs_exec slots[CS_EXECS]; /* all zero: empty */
};

/* One that has collectives was made in a context, by CUPTI's id. graph_id > 0. */
void cs_execs_note(struct cs_execs *execs, uint32_t graph_id, uint32_t context_id);
/* Labels of it, if it is one that was noted, have changed. */
void cs_execs_touch(struct cs_execs *execs, uint32_t graph_id);

static inline uint32_t
cs_exec_graph_id(uint64_t word)
{
	return (uint32_t)(word >> 32);
}

/* Is there something to tell of it? *word: what to put into `told` afterwards. */
static inline bool
cs_exec_is_due(const struct cs_exec *exec, uint64_t *word)
{
	*word = atomic_load_explicit(&exec->word, memory_order_acquire);
	return (uint32_t)*word != 0 && *word != atomic_load_explicit(&exec->told, memory_order_relaxed);
}

#endif
