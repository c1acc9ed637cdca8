/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_phases.h"

/* phases->count: it is not there. */
static uint32_t
find(const struct cs_graph_phases *phases, uint32_t graph_id)
{
	uint32_t at = 0;

	while (at < phases->count && phases->graphs[at].graph_id != graph_id)
		at++;
	return at;
}

void
cs_graph_phases_note(struct cs_graph_phases *phases, const struct cs_step *step)
{
	uint32_t at = find(phases, step->graph_id);

	if (step->phase == CS_PHASE_UNKNOWN || (at < phases->count && step->part))
		return;
	if (at == phases->count) {
		if (phases->count < CS_GRAPH_PHASES) {
			phases->count++;
		} else {
			at = phases->oldest;
			phases->oldest = (phases->oldest + 1) % CS_GRAPH_PHASES;
		}
	}
	phases->graphs[at].graph_id = step->graph_id;
	phases->graphs[at].phase = step->phase;
}

uint8_t
cs_graph_phases_get(const struct cs_graph_phases *phases, uint32_t graph_id)
{
	uint32_t at = find(phases, graph_id);

	return at < phases->count ? phases->graphs[at].phase : CS_PHASE_UNKNOWN;
}
