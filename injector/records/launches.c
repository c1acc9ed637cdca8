/* SPDX-License-Identifier: Apache-2.0 */
#include "launches.h"

void
cs_launches_node(struct cs_launches *launches, uint32_t correlation_id, uint32_t graph_id)
{
	uint32_t place;

	for (uint32_t i = 0; i < CS_LAUNCHES_OPEN; i++)
		if (launches->open[i].correlation_id == correlation_id &&
			launches->open[i].graph_id == graph_id)
			return;
	place = launches->next++ % CS_LAUNCHES_OPEN;
	launches->open[place].correlation_id = correlation_id;
	launches->open[place].graph_id = graph_id;
	launches->count++;
}
