/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan says that was done, counted as the metrics count it, in the GPU's own time. */
#include "scenario.h"

#include <inttypes.h>
#include <stdlib.h>

/* Upper bounds of collective_duration_seconds, docs/metrics.md, in nanoseconds. */
static const uint64_t bounds_ns[] = {5000, 10000, 20000, 30000, 50000, 75000, 100000, 150000, 200000, 250000,
	300000, 400000, 500000, 750000, 1000000, 2500000, 5000000, 10000000, 100000000, 1000000000};
#define BOUND_COUNT (sizeof(bounds_ns) / sizeof(bounds_ns[0]))

enum overlap { OVERLAP_COMPUTE, OVERLAP_COPY, OVERLAP_COLLECTIVE, OVERLAP_COUNT };

/* One op in one sequence. */
struct class
{
	uint64_t count;
	uint64_t duration_ns;
	uint64_t wait_ns;
	uint64_t last_arrivals;
	uint64_t overlap_ns[OVERLAP_COUNT];
	uint64_t buckets[BOUND_COUNT + 1]; /* not cumulative; the last: above all bounds */
};

struct scenario_truth {
	const struct scenario *scenario;
	uint32_t rank;
	uint64_t epoch_ns;
	uint64_t operations[3]; /* by enum scenario_op_type */
	uint64_t *launches;     /* by sequence */
	uint64_t *launch_ns;    /* by sequence: first start to last end, summed */
	struct class *classes;  /* [sequence][op] */
};

struct scenario_truth *
scenario_truth_new(const struct scenario *scenario, uint32_t rank)
{
	struct scenario_truth *truth = calloc(1, sizeof(*truth));

	if (!truth)
		abort();
	truth->scenario = scenario;
	truth->rank = rank;
	truth->launches = calloc(scenario->sequence_count, sizeof(*truth->launches));
	truth->launch_ns = calloc(scenario->sequence_count, sizeof(*truth->launch_ns));
	truth->classes =
		calloc((size_t)scenario->sequence_count * scenario->op_count, sizeof(*truth->classes));
	if (!truth->launches || !truth->launch_ns || !truth->classes)
		abort();
	return truth;
}

void
scenario_truth_set_epoch(struct scenario_truth *truth, uint64_t epoch_ns)
{
	truth->epoch_ns = epoch_ns;
}

void
scenario_truth_free(struct scenario_truth *truth)
{
	free(truth->launches);
	free(truth->launch_ns);
	free(truth->classes);
	free(truth);
}

static struct cs_fake_span
in_gpu_time(const struct scenario_truth *truth, const struct scenario_planned *planned)
{
	const struct scenario_rank *rank = &truth->scenario->rank[truth->rank];

	return (struct cs_fake_span){cs_fake_clock_apply(planned->span.start_ns, rank->clock_offset_ns,
					     rank->clock_drift_ppb, truth->epoch_ns),
		cs_fake_clock_apply(
			planned->span.end_ns, rank->clock_offset_ns, rank->clock_drift_ppb, truth->epoch_ns)};
}

static enum overlap
overlap_class(const struct scenario_truth *truth, const struct scenario_planned *planned)
{
	switch (truth->scenario->ops[planned->op].type) {
	case SCENARIO_COLLECTIVE:
		return OVERLAP_COLLECTIVE;
	case SCENARIO_COPY:
		return OVERLAP_COPY;
	default:
		return OVERLAP_COMPUTE;
	}
}

/* Time that the other stream was busy during operation `at`. Operations of one stream follow each other in
 * time, so `from` (the first of the other stream that may still overlap) only moves forward. */
static void
add_overlap(const struct scenario_truth *truth, const struct scenario_launch *launch, uint32_t at,
	uint32_t *from, struct class *class)
{
	struct cs_fake_span own = in_gpu_time(truth, &launch->planned[at]);
	struct cs_fake_span other;
	uint32_t i;
	bool passed = true;

	for (i = *from; i < launch->count; i++) {
		if (launch->planned[i].beside == launch->planned[at].beside)
			continue;
		other = in_gpu_time(truth, &launch->planned[i]);
		if (other.start_ns >= own.end_ns)
			break;
		if (other.end_ns <= own.start_ns) {
			if (passed)
				*from = i + 1;
			continue;
		}
		passed = false;
		class->overlap_ns[overlap_class(truth, &launch->planned[i])] +=
			(other.end_ns < own.end_ns ? other.end_ns : own.end_ns) -
			(other.start_ns > own.start_ns ? other.start_ns : own.start_ns);
	}
}

static void
add_collective(struct scenario_truth *truth, const struct scenario_planned *planned, struct class *class)
{
	struct cs_fake_span span = in_gpu_time(truth, planned);
	uint64_t duration_ns = span.end_ns - span.start_ns;
	size_t bucket = 0;

	while (bucket < BOUND_COUNT && duration_ns > bounds_ns[bucket])
		bucket++;
	class->count++;
	class->duration_ns += duration_ns;
	class->wait_ns += planned->ready_ns - planned->span.start_ns;
	class->last_arrivals += planned->last_rank == truth->rank % truth->scenario->group;
	class->buckets[bucket]++;
}

static void
write_event(const struct scenario_truth *truth, const struct scenario_sequence *sequence,
	const struct scenario_planned *planned, uint64_t step, uint32_t ordinal, FILE *events)
{
	const struct scenario_op *op = &truth->scenario->ops[planned->op];
	struct cs_fake_span span = in_gpu_time(truth, planned);

	fprintf(events,
		"{\"rank\": %" PRIu32 ", \"step\": %" PRIu64
		", \"graph\": \"%s\", \"phase\": \"%s\", \"ordinal\": %" PRIu32
		", \"op\": \"%s\", \"impl\": \"%s\", \"bytes\": %" PRIu64 ", \"start_ns\": %" PRIu64
		", \"end_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 "}\n",
		truth->rank, step, sequence->name, sequence->phase, ordinal, op->impl->op, op->impl->label,
		op->bytes, span.start_ns, span.end_ns, planned->ready_ns - planned->span.start_ns);
}

void
scenario_truth_add(
	struct scenario_truth *truth, const struct scenario_launch *launch, uint64_t step, FILE *events)
{
	const struct scenario *scenario = truth->scenario;
	const struct scenario_sequence *sequence = &scenario->sequences[launch->sequence];
	struct class *classes = &truth->classes[(size_t)launch->sequence * scenario->op_count];
	uint32_t from[2] = {0, 0};
	uint32_t i, ordinal = 0;
	uint64_t end_ns = 0;
	const struct scenario_planned *planned;

	for (i = 0; i < launch->count; i++) {
		planned = &launch->planned[i];
		truth->operations[scenario->ops[planned->op].type]++;
		if (planned->span.end_ns > end_ns)
			end_ns = planned->span.end_ns;
		if (scenario->ops[planned->op].type != SCENARIO_COLLECTIVE)
			continue;
		add_collective(truth, planned, &classes[planned->op]);
		add_overlap(truth, launch, i, &from[planned->beside], &classes[planned->op]);
		if (events)
			write_event(truth, sequence, planned, step, ordinal, events);
		ordinal++;
	}
	truth->launches[launch->sequence]++;
	truth->launch_ns[launch->sequence] += end_ns - launch->start_ns;
}

static void
write_class(const struct scenario_truth *truth, uint32_t sequence, uint32_t op, bool first, FILE *out)
{
	const struct scenario *scenario = truth->scenario;
	const struct class *class = &truth->classes[(size_t)sequence * scenario->op_count + op];
	const struct scenario_op *what = &scenario->ops[op];
	size_t i;

	fprintf(out,
		"%s\n  {\"graph\": \"%s\", \"phase\": \"%s\", \"name\": \"%s\", \"op\": \"%s\", \"impl\": "
		"\"%s\","
		" \"bytes\": %" PRIu64 ",\n   \"count\": %" PRIu64 ", \"bytes_total\": %" PRIu64
		", \"duration_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 ", \"last_arrivals\": %" PRIu64
		",\n   \"overlap_ns\": {\"compute\": %" PRIu64 ", \"copy\": %" PRIu64
		", \"collective\": %" PRIu64 "},\n   \"buckets\": [",
		first ? "" : ",", scenario->sequences[sequence].name, scenario->sequences[sequence].phase,
		what->name, what->impl->op, what->impl->label, what->bytes, class->count,
		class->count * what->bytes, class->duration_ns, class->wait_ns, class->last_arrivals,
		class->overlap_ns[OVERLAP_COMPUTE], class->overlap_ns[OVERLAP_COPY],
		class->overlap_ns[OVERLAP_COLLECTIVE]);
	for (i = 0; i <= BOUND_COUNT; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "", class->buckets[i]);
	fprintf(out, "]}");
}

void
scenario_truth_write(const struct scenario_truth *truth, uint64_t steps, uint64_t late_launches, FILE *out)
{
	const struct scenario *scenario = truth->scenario;
	uint32_t sequence, op;
	bool first = true;

	fprintf(out,
		"{\"rank\": %" PRIu32 ", \"steps\": %" PRIu64 ", \"late_launches\": %" PRIu64
		", \"nccl_plugin\": \"%s\",\n \"compute\": %" PRIu64 ", \"collectives\": %" PRIu64
		", \"copies\": %" PRIu64 ",\n \"sequences\": [",
		truth->rank, steps, late_launches, scenario_nccl_plugin(),
		truth->operations[SCENARIO_COMPUTE], truth->operations[SCENARIO_COLLECTIVE],
		truth->operations[SCENARIO_COPY]);
	for (sequence = 0; sequence < scenario->sequence_count; sequence++)
		fprintf(out,
			"%s\n  {\"name\": \"%s\", \"phase\": \"%s\", \"eager\": %s, \"launches\": %" PRIu64
			", \"operations\": %" PRIu32 ", \"collectives\": %" PRIu32 ", \"launch_ns\": %" PRIu64
			"}",
			sequence ? "," : "", scenario->sequences[sequence].name,
			scenario->sequences[sequence].phase,
			scenario->sequences[sequence].eager ? "true" : "false", truth->launches[sequence],
			scenario->sequences[sequence].operations, scenario->sequences[sequence].collectives,
			truth->launch_ns[sequence]);
	fprintf(out, "],\n \"classes\": [");
	for (sequence = 0; sequence < scenario->sequence_count; sequence++) {
		for (op = 0; op < scenario->op_count; op++) {
			if (truth->classes[(size_t)sequence * scenario->op_count + op].count == 0)
				continue;
			write_class(truth, sequence, op, first, out);
			first = false;
		}
	}
	fprintf(out, "]}\n");
}
