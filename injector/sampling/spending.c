/* SPDX-License-Identifier: Apache-2.0 */
#include "spending.h"

#include "clock.h"

#include <stddef.h>

#define PLACES (sizeof(((struct cs_spending *)0)->booked) / sizeof(((struct cs_spending *)0)->booked[0]))

uint64_t
cs_spending_total_ns(const struct cs_spending *spending, uint64_t now_ns)
{
	uint64_t now = now_ns / CS_NS_PER_S;
	uint64_t total_ns = spending->reserved_ns;

	for (size_t i = 0; i < PLACES; i++)
		if (spending->booked[i].second + CS_SPENDING_SECONDS >= now)
			total_ns += spending->booked[i].cost_ns;
	return total_ns;
}

bool
cs_spending_reserve(struct cs_spending *spending, uint64_t now_ns, uint64_t cost_ns, uint64_t allowance_ns)
{
	spending->reserved_ns = 0;
	if (cs_spending_total_ns(spending, now_ns) + cost_ns > allowance_ns)
		return false;
	spending->reserved_ns = cost_ns;
	return true;
}

void
cs_spending_settle(
	struct cs_spending *spending, uint64_t end_ns, uint64_t cost_ns, const struct cs_spending_work *work)
{
	uint64_t second = end_ns / CS_NS_PER_S;
	struct cs_spending_entry *entry = &spending->booked[second % PLACES];

	spending->reserved_ns = 0;
	if (entry->second != second)
		*entry = (struct cs_spending_entry){.second = second};
	entry->cost_ns += cost_ns;
	entry->work.active_ns += work->active_ns;
	entry->work.bound_ns += work->bound_ns;
}

void
cs_spending_rebook(struct cs_spending *spending, double share, double part)
{
	for (size_t i = 0; i < PLACES; i++) {
		struct cs_spending_entry *entry = &spending->booked[i];
		double by_share_ns = share * (double)entry->work.active_ns;
		double by_part_ns = part * (double)entry->work.bound_ns;
		uint64_t cost_ns = (uint64_t)(by_share_ns > by_part_ns ? by_share_ns : by_part_ns);

		if (cost_ns > entry->cost_ns)
			entry->cost_ns = cost_ns;
	}
}
