/* SPDX-License-Identifier: Apache-2.0 */
#include "stalls.h"

#include "clock.h"
#include "collective.h"
#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

bool
cs_stalls_suspected(const struct cs_targets *targets, uint64_t now_ns, uint64_t threshold_ns)
{
	for (size_t i = 0; i < targets->count; i++) {
		const struct cs_target *target = targets->items[i];

		uint64_t newest_ns = target->status.last_record_end_ns;

		/* Ahead of the clock it is from before that was set back, and tells nothing of now. */
		if (target->alive && newest_ns != 0 &&
			(now_ns > newest_ns + threshold_ns || newest_ns > now_ns + CS_NS_PER_S))
			return true;
	}
	return false;
}

static void
take(void *context, const struct cs_stall *stall)
{
	struct cs_stalls *stalls = context;
	const struct cs_target *target = cs_feed_borrow_target(stalls->feed, stall->source);
	struct cs_stalled_rank *grown;

	/* The work of a process that has ended was cut, not stalled. */
	if (!target || !target->alive)
		return;
	grown = reallocarray(stalls->ranks, stalls->count + 1, sizeof(*grown));
	if (!grown) {
		stalls->no_memory = true;
		return;
	}
	stalls->ranks = grown;
	stalls->ranks[stalls->count++] = (struct cs_stalled_rank){
		.pid = target->pid,
		.rank = stall->rank,
		.gpu = cs_target_gpu(target, stall->gpu),
		.since_ns = stall->since_ns,
		.for_ns = stalls->now_ns > stall->since_ns ? stalls->now_ns - stall->since_ns : 0,
		.step = stall->step,
		.graph_id = stall->graph_id,
		.node_id = stall->graph_node_id,
		.ordinal = stall->ordinal,
		.ordinal_known = stall->label_id != 0,
		.op = stall->label->op,
		.impl = stall->label->impl,
		.bytes = stall->label_id != 0 ? stall->label->bytes : CS_BYTES_UNKNOWN,
		.last_ordinal = stall->last_ordinal,
		.last_node_id = stall->last_node_id,
		.last_end_ns = stall->last_end_ns,
		.last_op = stall->last_label->op,
		.last_impl = stall->last_label->impl,
		.behind = stall->behind,
		.ended_rank = stall->ended_rank,
	};
}

int
cs_stalls_collect(struct cs_stalls *stalls, struct cs_feed *feed, uint64_t threshold_ns)
{
	*stalls = (struct cs_stalls){.feed = feed, .now_ns = cs_feed_polled_ns(feed)};
	cs_feed_advance(feed);
	cs_feed_list_stalls(feed, threshold_ns, take, stalls);
	return stalls->no_memory ? -ENOMEM : 0;
}

void
cs_stalls_fini(struct cs_stalls *stalls)
{
	free(stalls->ranks);
	*stalls = (struct cs_stalls){0};
}

static void
print_one(const struct cs_stalled_rank *stalled, FILE *stream)
{
	char text[CS_UNITS_TEXT_BYTES];

	fprintf(stream, "%" PRIu32 ": ", stalled->pid);
	if (stalled->rank >= 0)
		fprintf(stream, "rank %" PRId32 " ", stalled->rank);
	fprintf(stream, "stands still for %s", cs_units_format_duration(stalled->for_ns, text));
	if (stalled->ordinal_known)
		fprintf(stream, " before the end of collective %" PRIu32 " of step %" PRIu64 " (%s %s, %s",
			stalled->ordinal, stalled->step, cs_op_name(stalled->op), cs_impl_name(stalled->impl),
			cs_units_format_bytes(stalled->bytes, text));
	else if (stalled->step == 0)
		fputs(" since a moment at which nothing was traced (the GPU works, no kernel ends", stream);
	else
		fprintf(stream, " in step %" PRIu64 " (what it waits for is not known", stalled->step);
	if (stalled->node_id)
		fprintf(stream, ", node %" PRIu64 " of graph %" PRIu32, stalled->node_id, stalled->graph_id);
	if (stalled->last_end_ns == 0) {
		fputs("); none has ended yet", stream);
	} else {
		fprintf(stream, "); ended last: collective %" PRIu32 " (%s %s", stalled->last_ordinal,
			cs_op_name(stalled->last_op), cs_impl_name(stalled->last_impl));
		if (stalled->last_node_id)
			fprintf(stream, ", node %" PRIu64, stalled->last_node_id);
		fputc(')', stream);
	}
	if (stalled->ended_rank >= 0)
		fprintf(stream, "; rank %" PRId32 " of the group has ended", stalled->ended_rank);
	fprintf(stream, "%s\n", stalled->behind ? "; it is behind, the others wait for it" : "");
}

void
cs_stalls_print(const struct cs_stalls *stalls, FILE *stream)
{
	for (size_t i = 0; i < stalls->count; i++)
		print_one(&stalls->ranks[i], stream);
}
