/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan: when every operation of every rank runs. Each rank computes it for all, from the same seed, so
 * that processes that never speak to each other agree on when the last one arrives at a collective.
 *
 * Streams: items follow each other on the main stream; what runs beside an item starts with it on the second
 * one. A collective begins on a rank when that rank arrives and ends on all ranks of the communicator at
 * once, its transfer time after the last arrival.
 */
#include "scenario.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_GAP_NS 1000U  /* between two kernels of a stream, as seen on an H200 inside graphs */
#define LAUNCH_GAP_NS 20000U /* between two launches of a step */

/* Uniform in [0, limit]; the same for the same place in the scenario. */
static uint64_t
draw(const struct scenario_plan *plan, uint64_t launch, uint64_t item, uint64_t rank, uint64_t limit)
{
	uint64_t x = plan->scenario->seed + 0x9e3779b97f4a7c15U * (plan->step * 4096 + launch);

	x += 0xbf58476d1ce4e5b9U * (item * 64 + rank + 1);
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
	x = (x ^ x >> 27) * 0x94d049bb133111ebU;
	x ^= x >> 31;
	return limit ? x % (limit + 1) : 0;
}

static uint64_t
op_duration(const struct scenario_plan *plan, const struct scenario_op *op, uint64_t launch, uint64_t item,
	uint64_t rank, bool contended)
{
	return (contended ? op->contended_ns : op->base_ns) + draw(plan, launch, item, rank, op->jitter_ns);
}

static uint64_t
lateness(const struct scenario_plan *plan, uint32_t rank)
{
	const struct scenario_rank *who = &plan->scenario->rank[rank];
	int64_t late_ns = (int64_t)who->late_ns + who->late_growth_ns * (int64_t)plan->step;

	return late_ns > 0 ? (uint64_t)late_ns : 0;
}

/* Spans of one operation on all ranks, given when each may begin. Collectives are matched within a
 * communicator. */
static void
place(const struct scenario_plan *plan, const struct scenario_op *op, uint64_t launch, uint64_t item,
	bool contended, const uint64_t *begin_ns, struct scenario_planned *placed)
{
	const struct scenario *scenario = plan->scenario;
	const struct scenario_comm *comm = &scenario->comms[op->comm];
	uint32_t r, first, last;

	for (r = 0; r < scenario->ranks; r++) {
		placed[r].span.start_ns = begin_ns[r];
		if (op->type == SCENARIO_COLLECTIVE)
			placed[r].span.start_ns += lateness(plan, r);
		else
			placed[r].span.end_ns =
				begin_ns[r] + op_duration(plan, op, launch, item, r, contended);
	}
	for (first = 0; op->type == SCENARIO_COLLECTIVE && first < scenario->ranks; first++) {
		if (scenario_comm_rank(comm, first) != 0)
			continue;
		last = 0;
		for (r = 1; r < comm->size; r++)
			if (placed[first + r * comm->stride].span.start_ns >
				placed[first + last * comm->stride].span.start_ns)
				last = r;
		for (r = 0; r < comm->size; r++) {
			struct scenario_planned *own = &placed[first + r * comm->stride];

			own->ready_ns = placed[first + last * comm->stride].span.start_ns;
			own->last_rank = last;
			own->span.end_ns = own->ready_ns + op_duration(plan, op, launch, item,
								   SCENARIO_RANKS_MAX + first, contended);
		}
	}
}

static void
keep(struct scenario_launch *launch, const struct scenario_planned *planned, const struct scenario_item *item,
	bool beside)
{
	struct scenario_planned *own = &launch->planned[launch->count];

	*own = *planned;
	own->op = beside ? (uint32_t)item->beside : item->op;
	own->beside = beside;
	launch->two_streams |= beside;
	own->group = beside ? 0 : item->group;
	if (launch->count == 0 || own->span.start_ns < launch->start_ns)
		launch->start_ns = own->span.start_ns;
	launch->count++;
}

static void
plan_launch(struct scenario_plan *plan, uint64_t ordinal, struct scenario_launch *launch)
{
	const struct scenario *scenario = plan->scenario;
	const struct scenario_sequence *sequence = &scenario->sequences[launch->sequence];
	struct scenario_planned placed[SCENARIO_RANKS_MAX];
	uint64_t beside_ns[SCENARIO_RANKS_MAX] = {0};
	uint64_t begin_ns[SCENARIO_RANKS_MAX];
	const struct scenario_item *item;
	uint32_t i, r;

	launch->count = 0;
	launch->two_streams = false;
	launch->half = scenario_half(sequence, plan->step);
	for (i = 0; i < sequence->count; i++) {
		item = &sequence->items[i];
		if (item->beside >= 0) {
			for (r = 0; r < scenario->ranks; r++)
				begin_ns[r] =
					beside_ns[r] > plan->cursor_ns[r] ? beside_ns[r] : plan->cursor_ns[r];
			memset(placed, 0, sizeof(placed));
			place(plan, &scenario->ops[item->beside], ordinal, (1U << 24) + i, true, begin_ns,
				placed);
			for (r = 0; r < scenario->ranks; r++)
				beside_ns[r] = placed[r].span.end_ns + KERNEL_GAP_NS;
			keep(launch, &placed[plan->rank], item, true);
		}
		memset(placed, 0, sizeof(placed));
		place(plan, &scenario->ops[item->op], ordinal, i, item->beside >= 0, plan->cursor_ns, placed);
		for (r = 0; r < scenario->ranks; r++)
			plan->cursor_ns[r] = placed[r].span.end_ns + KERNEL_GAP_NS;
		keep(launch, &placed[plan->rank], item, false);
	}
	/* The streams join at the end of a launch. */
	for (r = 0; r < scenario->ranks; r++) {
		if (beside_ns[r] > plan->cursor_ns[r])
			plan->cursor_ns[r] = beside_ns[r];
		plan->cursor_ns[r] += LAUNCH_GAP_NS;
	}
}

bool
scenario_plan_open(
	struct scenario_plan *plan, const struct scenario *scenario, uint32_t rank, uint64_t epoch_ns)
{
	uint32_t entry, times, at = 0;

	memset(plan, 0, sizeof(*plan));
	plan->scenario = scenario;
	plan->rank = rank;
	plan->epoch_ns = epoch_ns;
	plan->launches = calloc(scenario->launches, sizeof(*plan->launches));
	if (!plan->launches)
		return false;
	for (entry = 0; entry < scenario->entry_count; entry++) {
		for (times = 0; times < scenario->entries[entry].times; times++, at++) {
			plan->launches[at].sequence = scenario->entries[entry].sequence;
			plan->launches[at].planned =
				calloc(scenario->sequences[plan->launches[at].sequence].operations,
					sizeof(struct scenario_planned));
			if (!plan->launches[at].planned)
				return false;
		}
	}
	return true;
}

/* So that what is planned next begins at pause_clock_ns past a multiple of pause_every_ns of the clock. */
static void
pause_for_clock(struct scenario_plan *plan)
{
	const struct scenario *scenario = plan->scenario;
	uint64_t due_ns = plan->epoch_ns + plan->step * scenario->period_ns;
	uint32_t i;

	for (i = 0; i < scenario->ranks; i++)
		if (due_ns < plan->cursor_ns[i])
			due_ns = plan->cursor_ns[i];
	scenario_plan_delay(plan,
		(scenario->pause_clock_ns + scenario->pause_every_ns - due_ns % scenario->pause_every_ns) %
			scenario->pause_every_ns);
}

void
scenario_plan_step(struct scenario_plan *plan)
{
	uint64_t due_ns;
	uint32_t i;

	if (plan->step == plan->scenario->pause_step) {
		scenario_plan_delay(plan, plan->scenario->pause_ns);
		if (plan->scenario->pause_every_ns)
			pause_for_clock(plan);
	}
	due_ns = plan->epoch_ns + plan->step * plan->scenario->period_ns;
	for (i = 0; i < plan->scenario->ranks; i++)
		if (plan->cursor_ns[i] < due_ns)
			plan->cursor_ns[i] = due_ns;
	for (i = 0; i < plan->scenario->launches; i++)
		plan_launch(plan, i, &plan->launches[i]);
	plan->step++;
}

void
scenario_plan_delay(struct scenario_plan *plan, uint64_t delay_ns)
{
	uint32_t i;

	plan->epoch_ns += delay_ns;
	for (i = 0; i < plan->scenario->ranks; i++)
		plan->cursor_ns[i] += delay_ns;
}

void
scenario_plan_close(struct scenario_plan *plan)
{
	uint32_t i;

	for (i = 0; plan->launches && i < plan->scenario->launches; i++)
		free(plan->launches[i].planned);
	free(plan->launches);
	plan->launches = NULL;
}
