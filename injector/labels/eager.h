/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of collectives that were launched outside graphs, by the launch call's correlation id, until
 * their records arrive. A fixed table that forgets the oldest: 32,768 collective launches, which is seconds
 * of the fullest eager traffic, where records arrive within one (3.4 s at worst across a quiet stretch, which
 * by its nature has few launches).
 *
 * Thread context: any thread, all functions at once; host-safe.
 */
#ifndef CS_EAGER_H
#define CS_EAGER_H

#include "pair.h"

#define CS_EAGER_SLOTS 32768U
#define CS_EAGER_WAYS  8U

struct cs_eager {
	struct cs_pair slots[CS_EAGER_SLOTS]; /* all zero: empty */
};

/* correlation_id 0 is nobody's and not kept. */
void cs_eager_put(struct cs_eager *eager, uint32_t correlation_id, uint64_t value);
/* Replaces the value of a launch that is still there; false when it is not. */
bool cs_eager_replace(struct cs_eager *eager, uint32_t correlation_id, uint64_t value);
/* Forgets the launches whose value has the bit `old`, and gives it to the others. */
void cs_eager_age(struct cs_eager *eager, uint64_t old);
bool cs_eager_find(const struct cs_eager *eager, uint32_t correlation_id, uint64_t *value);

#endif
