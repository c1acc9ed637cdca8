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
cs_spending_settle(struct cs_spending *spending, uint64_t end_ns, uint64_t cost_ns)
{
	uint64_t second = end_ns / CS_NS_PER_S;
	size_t place = second % PLACES;

	spending->reserved_ns = 0;
	if (spending->booked[place].second != second) {
		spending->booked[place].second = second;
		spending->booked[place].cost_ns = 0;
	}
	spending->booked[place].cost_ns += cost_ns;
}

void
cs_spending_scale(struct cs_spending *spending, double factor)
{
	for (size_t i = 0; i < PLACES; i++)
		spending->booked[i].cost_ns = (uint64_t)((double)spending->booked[i].cost_ns * factor + 0.5);
}
