/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the graphs of one process are for. The injected library measures what tracing costs by graph and knows
 * no phases; steps have both. The phase of a graph is that of its latest step with a known one; of a graph
 * that is several steps, that of the first. Id 0 is eager work.
 *
 * Fixed memory: of more graphs than CS_GRAPH_PHASES the one that came first is forgotten. Thread context: one
 * thread at a time, under the lock of the node (ingest.h).
 */
#ifndef CS_EXPORTER_GRAPH_PHASES_H
#define CS_EXPORTER_GRAPH_PHASES_H

#include "analysis/analysis.h"

#include <stdint.h>

#define CS_GRAPH_PHASES 128U

struct cs_graph_phases {
	uint32_t count, oldest;
	struct {
		uint32_t graph_id;
		uint8_t phase; /* enum cs_phase */
	} graphs[CS_GRAPH_PHASES];
};

void cs_graph_phases_note(struct cs_graph_phases *phases, const struct cs_step *step);
/* CS_PHASE_UNKNOWN: no step of it was seen, or none with a phase. */
uint8_t cs_graph_phases_get(const struct cs_graph_phases *phases, uint32_t graph_id);

#endif
