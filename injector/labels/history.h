/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What executable graphs' nodes were before they were changed. Records come up to seconds after their launch;
 * a change of a node (an update of the executable, new parameters) must not rename the launches before it.
 * Calls are numbered: a record carries the correlation id of its graph launch, and a change is itself a call,
 * so the order of the two is exact.
 *
 * A fixed table that forgets the oldest: 4,096 changes of labelled nodes.
 *
 * Thread context: any thread, all functions at once; host-safe.
 */
#ifndef CS_HISTORY_H
#define CS_HISTORY_H

#include "pair.h"

#define CS_HISTORY_SLOTS 4096U
#define CS_HISTORY_WAYS  8U

struct cs_history_entry {
	struct cs_pair pair; /* node id, what was filed under it */
	_Atomic uint64_t
		calls; /* correlation ids: since which call it held << 32 | the call that changed it */
};

struct cs_history {
	struct cs_history_entry slots[CS_HISTORY_SLOTS]; /* all zero: empty */
};

/* Call `until` changes the node; filed is what held before (0: nothing), since call `since` (0: from the
 * start). */
void cs_history_put(
	struct cs_history *history, uint64_t node_id, uint32_t since, uint32_t until, uint64_t filed);

/* What held when call `correlation_id` was made, for a node that was changed later. false: forgotten. */
bool cs_history_find(
	const struct cs_history *history, uint64_t node_id, uint32_t correlation_id, uint64_t *filed);

/* Whether call `left` was made before call `right`; ids wrap around. */
static inline bool
cs_call_before(uint32_t left, uint32_t right)
{
	return (int32_t)(left - right) < 0;
}

#endif
