/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"
#include "host.h"

/* Inside a graph that runs, no two collectives are as far apart as this. */
#define PAUSE_NS CS_QUIET_NS
/* Ends that differ by more belong to two collectives. */
#define SAME_END_NS 200000
/* Progress that differs by less is the same: jitter, and the last record of a pass may be a little longer. */
#define NEAR_WORK_NS 5000

/* Tracing was on when the work stopped, and has looked again after the threshold: that nothing came is then
 * seen. */
static bool
was_watched(const struct cs_windows *windows, uint64_t since_ns, uint64_t threshold_ns)
{
	struct cs_span span;

	/* Lost records look like work that stopped. */
	if (!cs_windows_saw(windows, since_ns, since_ns) || !cs_windows_find(windows, since_ns, &span))
		return false;
	if (span.end_ns == UINT64_MAX)
		return true;
	return span.end_ns >= since_ns + PAUSE_NS && windows->newest_end_ns >= since_ns + threshold_ns;
}

/* A launch of which fewer collectives have ended than the graph has: all from `ordinal` on are missing. */
static bool
note_cut(struct cs_lane *lane, uint32_t graph_id, uint32_t correlation_id, uint32_t ordinal,
	struct cs_stall *stall)
{
	const struct cs_graph *graph = cs_graphs_find(lane->graphs, graph_id);

	if (!graph || ordinal >= graph->collectives)
		return false;
	stall->since_ns = lane->busy_until_ns;
	stall->graph_id = graph_id;
	stall->correlation_id = correlation_id;
	stall->ordinal = ordinal;
	if (ordinal < graph->label_count)
		stall->label_id = graph->labels[ordinal];
	return true;
}

static bool
find_cut_launch(struct cs_lane *lane, struct cs_stall *stall)
{
	/* Begun after the last collective: none of its own has ended. */
	if (lane->begun_correlation_id != lane->last_correlation_id && lane->begun_ns >= lane->last_end_ns)
		return note_cut(lane, lane->begun_graph_id, lane->begun_correlation_id, 0, stall);
	return note_cut(lane, lane->last_graph_id, lane->last_correlation_id, lane->last_ordinal + 1, stall);
}

/* A launch call whose work has not begun. Only of graphs known to have collectives, or of a collective:
 * nothing need ever be seen of an empty graph. */
static bool
find_unseen_launch(struct cs_lane *lane, uint64_t before_ns, struct cs_stall *stall)
{
	const struct cs_graph *graph;
	struct cs_record launch;

	if (!cs_host_pending(lane->source->host, lane->gpu, before_ns, &launch))
		return false;
	stall->since_ns = launch.start_ns > lane->busy_until_ns ? launch.start_ns : lane->busy_until_ns;
	stall->graph_id = launch.graph_id;
	stall->correlation_id = launch.correlation_id;
	stall->label_id = launch.ref;
	stall->ordinal = 0;
	graph = cs_graphs_find(lane->graphs, launch.graph_id);
	if (graph && graph->label_count)
		stall->label_id = graph->labels[0];
	return launch.ref != 0 || (graph && graph->collectives > 0);
}

static bool
examine(struct cs_lane *lane, uint64_t now_ns, uint64_t threshold_ns, struct cs_stall *stall)
{
	const struct cs_dictionary *dictionary = lane->source->dictionary;

	if (lane->last_end_ns == 0 || now_ns < threshold_ns ||
		lane->source->newest_ns > now_ns - threshold_ns)
		return false;
	*stall = (struct cs_stall){.source = lane->source->id, .gpu = lane->gpu, .rank = lane->rank};
	if (!find_cut_launch(lane, stall) && !find_unseen_launch(lane, now_ns - threshold_ns, stall))
		return false;
	if (!was_watched(&lane->source->windows, stall->since_ns, threshold_ns))
		return false;
	stall->label = cs_dictionary_borrow_label(dictionary, stall->label_id);
	stall->last_label_id = lane->last_label_id;
	stall->last_label = cs_dictionary_borrow_label(dictionary, lane->last_label_id);
	stall->last_ordinal = lane->last_ordinal;
	stall->last_end_ns = lane->last_end_ns;
	stall->step = lane->source->step_count + 1;
	return true;
}

/* How the lane stands to another of its group: below 0 it has done less. */
static int
compare_progress(const struct cs_member *a, const struct cs_member *b)
{
	int64_t ends_ns =
		(int64_t)(a->lane->last_end_ns - b->lane->last_end_ns) - a->offset_ns + b->offset_ns;
	int64_t work_ns = ends_ns + (int64_t)(a->lane->busy_until_ns - a->lane->last_end_ns) -
			  (int64_t)(b->lane->busy_until_ns - b->lane->last_end_ns);

	if (ends_ns < -SAME_END_NS || ends_ns > SAME_END_NS)
		return ends_ns < 0 ? -1 : 1;
	/* All have ended the same collective: who has not done the work up to the next one? */
	if (work_ns < -NEAR_WORK_NS || work_ns > NEAR_WORK_NS)
		return work_ns < 0 ? -1 : 1;
	return 0;
}

static bool
is_behind(const struct cs_analysis *analysis, const struct cs_lane *lane)
{
	for (const struct cs_group *group = analysis->groups; group; group = group->next) {
		const struct cs_member *self = NULL;

		for (uint32_t i = 0; i < group->member_count; i++) {
			if (group->members[i]->lane == lane)
				self = group->members[i];
		}
		for (uint32_t i = 0; self && !group->ambiguous && i < group->member_count; i++) {
			if (group->members[i] != self && compare_progress(self, group->members[i]) < 0)
				return true;
		}
	}
	return false;
}

size_t
cs_analysis_list_stalls(struct cs_analysis *analysis, uint64_t now_ns, uint64_t threshold_ns,
	void (*take)(void *context, const struct cs_stall *stall), void *context)
{
	size_t count = 0;

	for (uint32_t i = 0; i < analysis->source_count; i++) {
		struct cs_source *source = analysis->sources[i];

		for (uint32_t gpu = 0; source && gpu < CS_GPUS_MAX; gpu++) {
			struct cs_stall stall;

			if (!source->lanes[gpu] || !examine(source->lanes[gpu], now_ns,
							   threshold_ns ? threshold_ns : CS_STALL_NS, &stall))
				continue;
			stall.behind = is_behind(analysis, source->lanes[gpu]);
			take(context, &stall);
			count++;
		}
	}
	return count;
}
