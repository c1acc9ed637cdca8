/* SPDX-License-Identifier: Apache-2.0 */
#include "graphs.h"
#include "host.h"

/* Inside a graph that runs, no two collectives are as far apart as this. */
#define PAUSE_NS CS_QUIET_NS
/* Before the end of a window that is closed it has to be quiet for longer: what is under way when tracing
 * goes off is left out, so a launch that went on may look cut, and a busy machine makes it late. */
#define CLOSED_PAUSE_NS (5 * PAUSE_NS)
/* Ends that differ by more belong to two collectives. */
#define SAME_END_NS 200000
/* So many launches that were alike make the next one's number of collectives certain. */
#define ALIKE_MIN 2U
/* Progress that differs by less is the same: jitter, and the last record of a pass may be a little longer. */
#define NEAR_WORK_NS 5000

/* Shares of the time, percent, that are as good as all and nothing: NVML looks back over some 100 ms. */
#define BUSY_PERCENT 95U
#define REST_PERCENT 5U

void
cs_stillness_note(struct cs_stillness *stillness, const struct cs_record *record, uint64_t newest_ns)
{
	if (record->value == CS_STILL_UNKNOWN)
		return;
	if (record->value <= REST_PERCENT) {
		stillness->rest_ns = record->end_ns;
		stillness->busy_since_ns = 0;
	} else if (record->value < BUSY_PERCENT || stillness->busy_since_ns < newest_ns) {
		stillness->busy_since_ns = record->value >= BUSY_PERCENT ? record->end_ns : 0;
	}
	stillness->busy_until_ns = record->end_ns;
}

/* It has worked for so long without ending anything. */
static bool
works_in_vain(const struct cs_lane *lane, uint64_t threshold_ns)
{
	const struct cs_stillness *stillness = &lane->stillness;

	return stillness->busy_since_ns > lane->source->newest_ns &&
	       stillness->busy_until_ns - stillness->busy_since_ns >= threshold_ns;
}

/* Tracing was on when the work stopped, and has looked again after the threshold: that nothing came is then
 * seen. */
static bool
was_watched(const struct cs_lane *lane, uint64_t since_ns, uint64_t threshold_ns)
{
	const struct cs_windows *windows = &lane->source->windows;
	uint64_t looked_ns = windows->newest_end_ns;
	struct cs_span span;

	if (looked_ns < lane->stillness.busy_until_ns)
		looked_ns = lane->stillness.busy_until_ns;
	/* Lost records look like work that stopped. */
	if (!cs_windows_saw(windows, since_ns, since_ns) || !cs_windows_find(windows, since_ns, &span))
		return false;
	if (span.end_ns == UINT64_MAX)
		return true;
	return span.end_ns >= since_ns + CLOSED_PAUSE_NS && looked_ns >= since_ns + threshold_ns;
}

static bool
are_alike(const struct cs_label *a, const struct cs_label *b)
{
	return a->op == b->op && a->bytes == b->bytes;
}

/* The graph's nodes were captured in some order, which need not be that of a launch: the collective before
 * has to agree. */
static void
name_by_capture(const struct cs_lane *lane, const struct cs_captured *captured, uint32_t ordinal,
	struct cs_stall *stall)
{
	const struct cs_dictionary *dictionary = lane->source->dictionary;
	uint32_t label_id, before_id;
	uint64_t node_id, ignored;

	if (captured->contradicted)
		return;
	cs_captured_find(captured, ordinal, &label_id, &node_id);
	if (ordinal > 0) {
		cs_captured_find(captured, ordinal - 1, &before_id, &ignored);
		if (lane->last_ordinal != ordinal - 1 || !before_id ||
			!are_alike(cs_dictionary_borrow_label(dictionary, before_id),
				cs_dictionary_borrow_label(dictionary, lane->last_label_id)))
			return;
	}
	stall->label_id = label_id;
	stall->graph_node_id = node_id;
}

/* What the rank stands at, of a graph's collectives. */
static void
name_collective(
	const struct cs_lane *lane, const struct cs_graph *graph, uint32_t ordinal, struct cs_stall *stall)
{
	stall->ordinal = ordinal;
	if (!graph)
		return;
	if (ordinal >= graph->item_count) {
		name_by_capture(lane, &graph->captured, ordinal, stall);
		return;
	}
	stall->label_id = graph->items[ordinal].label_id;
	stall->graph_node_id = graph->items[ordinal].node_id;
}

/* The newest launch of which fewer collectives have ended than its graph has, and after which nothing came on
 * its stream. */
static const struct cs_replay *
find_cut_launch(const struct cs_lane *lane)
{
	const struct cs_replay *found = NULL;

	for (uint32_t i = 0; i < CS_REPLAYS_KEPT; i++) {
		const struct cs_replay *replay = &lane->recent[i];
		const struct cs_graph *graph = cs_graphs_find(lane->graphs, replay->graph_id);

		if (replay->known && !replay->over && graph && replay->ended < graph->collectives &&
			(!found || replay->start_ns > found->start_ns))
			found = replay;
	}
	return found;
}

/*
 * Fewer collectives than last time may also be all there were: an updated executable, a conditional node. So
 * something has to say that there is more to come: what the launch began after its last collective, or that
 * the graph always had as many, or that it was captured with as many and no launch showed otherwise.
 */
static bool
is_pending(const struct cs_lane *lane, const struct cs_replay *replay)
{
	const struct cs_graph *graph = cs_graphs_find(lane->graphs, replay->graph_id);

	if (replay->trailing || (!graph->varies && graph->alike >= ALIKE_MIN))
		return true;
	return graph->captured.collectives == graph->collectives && !graph->captured.contradicted;
}

static void
describe_cut_launch(const struct cs_lane *lane, const struct cs_replay *replay, struct cs_stall *stall)
{
	stall->since_ns = lane->busy_until_ns;
	stall->graph_id = replay->graph_id;
	stall->correlation_id = replay->correlation_id;
	stall->step = replay->step ? replay->step : lane->source->step_count + 1;
	name_collective(lane, cs_graphs_find(lane->graphs, replay->graph_id), replay->ended, stall);
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
	stall->step = lane->source->step_count + 1;
	graph = cs_graphs_find(lane->graphs, launch.graph_id);
	name_collective(lane, graph, 0, stall);
	return launch.ref != 0 || (graph && graph->collectives > 0);
}

static int64_t
ends_apart_ns(const struct cs_member *a, const struct cs_member *b)
{
	return (int64_t)(a->lane->last_end_ns - b->lane->last_end_ns) - a->offset_ns + b->offset_ns;
}

/* How the lane stands to another of its group: below 0 it has done less. */
static int
compare_progress(const struct cs_member *a, const struct cs_member *b)
{
	int64_t ends_ns = ends_apart_ns(a, b);
	int64_t work_ns = ends_ns + (int64_t)(a->lane->busy_until_ns - a->lane->last_end_ns) -
			  (int64_t)(b->lane->busy_until_ns - b->lane->last_end_ns);

	if (ends_ns < -SAME_END_NS || ends_ns > SAME_END_NS)
		return ends_ns < 0 ? -1 : 1;
	/* All have ended the same collective: who has not done the work up to the next one? */
	if (work_ns < -NEAR_WORK_NS || work_ns > NEAR_WORK_NS)
		return work_ns < 0 ? -1 : 1;
	return 0;
}

static const struct cs_member *
find_member(const struct cs_group *group, const struct cs_lane *lane)
{
	for (uint32_t i = 0; i < group->member_count; i++) {
		if (group->members[i]->lane == lane)
			return group->members[i];
	}
	return NULL;
}

static bool
is_behind(const struct cs_analysis *analysis, const struct cs_lane *lane)
{
	for (const struct cs_group *group = analysis->groups; group; group = group->next) {
		const struct cs_member *self = find_member(group, lane);

		for (uint32_t i = 0; self && !group->ambiguous && i < group->member_count; i++) {
			if (group->members[i] != self && compare_progress(self, group->members[i]) < 0)
				return true;
		}
	}
	return false;
}

/* Ranks of a server that has come to rest have ended the same collective last, and stand inside nothing. */
static bool
do_peers_differ(const struct cs_analysis *analysis, const struct cs_lane *lane)
{
	for (const struct cs_group *group = analysis->groups; group; group = group->next) {
		const struct cs_member *self = find_member(group, lane);

		for (uint32_t i = 0; self && !group->ambiguous && i < group->member_count; i++) {
			const struct cs_member *peer = group->members[i];
			const struct cs_replay *replay = find_cut_launch(peer->lane);

			int64_t ends_ns = ends_apart_ns(self, peer);

			if (peer != self && ((replay && is_pending(peer->lane, replay)) ||
						    ends_ns < -SAME_END_NS || ends_ns > SAME_END_NS))
				return true;
		}
	}
	return false;
}

/* A rank of the lane's groups whose process is no more, and in whose place no other has come. */
static int32_t
find_ended_rank(const struct cs_analysis *analysis, const struct cs_lane *lane)
{
	for (const struct cs_group *group = analysis->groups; group; group = group->next) {
		bool replaced = false;

		if (!find_member(group, lane))
			continue;
		for (uint32_t i = 0; i < group->member_count; i++) {
			if (group->members[i]->lane->source->ended)
				return group->members[i]->rank;
			replaced |= (uint32_t)group->members[i]->rank + 1 == group->gone;
		}
		if (group->gone && !replaced)
			return (int32_t)(group->gone - 1);
	}
	return CS_RANK_UNKNOWN;
}

/* Is the window still open in which that was? */
static bool
is_open_at(const struct cs_lane *lane, uint64_t since_ns)
{
	struct cs_span span;

	return cs_windows_find(&lane->source->windows, since_ns, &span) && span.end_ns == UINT64_MAX;
}

/* Where it stands, if that was traced. A launch of which nothing was seen may have begun after its window,
 * and then the server went on for long before it stopped. */
static bool
find_place(struct cs_lane *lane, uint64_t now_ns, uint64_t threshold_ns, struct cs_stall *stall)
{
	const struct cs_analysis *analysis = lane->source->analysis;
	const struct cs_replay *replay = find_cut_launch(lane);

	if (replay && (is_pending(lane, replay) || do_peers_differ(analysis, lane) ||
			      find_ended_rank(analysis, lane) != CS_RANK_UNKNOWN ||
			      lane->stillness.busy_since_ns > lane->source->newest_ns))
		describe_cut_launch(lane, replay, stall);
	else if (!find_unseen_launch(lane, now_ns - threshold_ns, stall) ||
		 !is_open_at(lane, stall->since_ns))
		return false;
	return was_watched(lane, stall->since_ns, threshold_ns);
}

static bool
examine(struct cs_lane *lane, uint64_t now_ns, uint64_t threshold_ns, struct cs_stall *stall)
{
	const struct cs_source *source = lane->source;
	const struct cs_stall nowhere = {.source = source->id,
		.gpu = lane->gpu,
		.rank = lane->rank,
		.since_ns = lane->stillness.busy_since_ns};

	if (now_ns < threshold_ns || source->newest_ns > now_ns - threshold_ns)
		return false;
	*stall = nowhere;
	if (!find_place(lane, now_ns, threshold_ns, stall)) {
		*stall = nowhere;
		/* A GPU that loads weights, or compiles, has had no collective yet. */
		if (lane->last_end_ns == 0 || !works_in_vain(lane, threshold_ns))
			return false;
	} else if (lane->stillness.rest_ns > stall->since_ns) {
		return false;
	}
	stall->label = cs_dictionary_borrow_label(source->dictionary, stall->label_id);
	stall->last_label_id = lane->last_label_id;
	stall->last_label = cs_dictionary_borrow_label(source->dictionary, lane->last_label_id);
	stall->last_ordinal = lane->last_ordinal;
	stall->last_node_id = lane->last_node_id;
	stall->last_end_ns = lane->last_end_ns;
	stall->work_end_ns = lane->busy_until_ns;
	stall->behind = stall->step != 0 && is_behind(source->analysis, lane);
	stall->ended_rank = find_ended_rank(source->analysis, lane);
	return true;
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
			take(context, &stall);
			count++;
		}
	}
	return count;
}
