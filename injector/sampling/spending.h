/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the last minute: what tracing has cost, in step time. A window is entered in advance at what
 * it is expected to cost, and corrected to what it did cost when its records are in. No window that would
 * overdraw the account is opened, so what any 60 s hold never exceeds the allowance, as far as costs were
 * told right: windows are booked at their end, in seconds that are forgotten once all of them is over 60 s
 * old. One kind of window is booked without having been reserved: the look for who has CUPTI's buffers
 * (coexist.h), which another tool needs more than the budget does; it lasts until the first buffer comes, 3 s
 * at most.
 *
 * Times are CLOCK_MONOTONIC. Pure; one thread.
 */
#ifndef CS_SPENDING_H
#define CS_SPENDING_H

#include <stdbool.h>
#include <stdint.h>

#define CS_SPENDING_SECONDS 60U

/* What was traced, for when it turns out that it has cost more than was thought. */
struct cs_spending_work {
	uint64_t active_ns; /* time with work */
	uint64_t bound_ns;  /* the most that its kernels can have cost */
};

struct cs_spending {
	struct cs_spending_entry {
		uint64_t second; /* since boot */
		uint64_t cost_ns;
		struct cs_spending_work work;
	} booked[CS_SPENDING_SECONDS + 4];
	uint64_t reserved_ns; /* of the window that is not settled yet */
};

/* Step time that was lost in the last minute, what is reserved included. */
uint64_t cs_spending_total_ns(const struct cs_spending *spending, uint64_t now_ns);

/* Reserves what a window will cost. false: it does not fit in the allowance, nothing is reserved. Windows
 * come one after the other: a further call replaces what was reserved. */
bool cs_spending_reserve(
	struct cs_spending *spending, uint64_t now_ns, uint64_t cost_ns, uint64_t allowance_ns);

/* The window ended at end_ns and has cost so much; what was reserved is free again. */
void cs_spending_settle(
	struct cs_spending *spending, uint64_t end_ns, uint64_t cost_ns, const struct cs_spending_work *work);

/* All that is booked has cost at least this share of its time with work, and this part of its bound. */
void cs_spending_rebook(struct cs_spending *spending, double share, double part);

#endif
