/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: graph node -> what is known of it, one word. A fixed table; nothing here allocates, locks or
 * waits after creation.
 *
 * Every node has two buckets of eight slots, by two hashes, and goes into the emptier one; so a lookup reads
 * at most 256 bytes, found or not, and a removed entry leaves nothing behind. With twice as many slots as
 * entries a pair of buckets is never full in practice (tests fill it with ids as CUPTI makes them).
 *
 * Thread context: any thread, all functions at once; host-safe. Two threads must not put the same id at the
 * same time: CUDA lets only one thread work on a graph.
 */
#ifndef CS_LEDGER_H
#define CS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_ledger;

/* Slots, 8 MiB: for 262,144 live nodes. */
#define CS_LEDGER_SLOTS 524288U

/* slots: a power of two, at least 16. 0, -EINVAL, -ENOMEM. Start-up context (maps memory). */
int cs_ledger_create(uint32_t slots, struct cs_ledger **ledger);
void cs_ledger_destroy(struct cs_ledger *ledger);

/* *value is set on true. A node that another thread is replacing right now is waited for a few loads, then
 * reported missing. */
bool cs_ledger_find(const struct cs_ledger *ledger, uint64_t id, uint64_t *value);

/* 1: new; 0: replaced; -ENOSPC: both buckets are full; -EINVAL: no id (0 or all ones). */
int cs_ledger_put(struct cs_ledger *ledger, uint64_t id, uint64_t value);

/* Replaces the value of an id that is there; false when it is not. */
bool cs_ledger_replace(struct cs_ledger *ledger, uint64_t id, uint64_t value);

/* Whether it was there. */
bool cs_ledger_remove(struct cs_ledger *ledger, uint64_t id);

struct cs_ledger_entry {
	uint64_t id, value;
};

/* Entries whose ids' upper halves are among graph_ids, which rise: at most `room`, in no order. Returns how
 * many there are. Reads the whole table: for the worker. What changes meanwhile is in it or not. */
uint32_t cs_ledger_collect(const struct cs_ledger *ledger, const uint32_t *graph_ids, uint32_t graph_count,
	struct cs_ledger_entry *entries, uint32_t room);

/* Replaces each value by what `rewrite`, a pure function, makes of it, unless it is being replaced meanwhile.
 * Reads the whole table: for the worker. */
void cs_ledger_rewrite(struct cs_ledger *ledger, uint64_t (*rewrite)(uint64_t value));

uint64_t cs_ledger_count(const struct cs_ledger *ledger);
size_t cs_ledger_mapped_bytes(const struct cs_ledger *ledger);

#endif
