/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan says that was done, counted as the metrics count it, in the GPU's own time. */
#include "scenario.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
	uint64_t lost_ns;
	uint64_t operations[3]; /* by enum scenario_op_type */
	uint64_t *launches;     /* by sequence */
	uint64_t *launch_ns;    /* by sequence: first start to last end, summed */
	struct class *classes;  /* [sequence][op][half] */
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
		calloc((size_t)scenario->sequence_count * scenario->op_count * 2, sizeof(*truth->classes));
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
	class->last_arrivals +=
		planned->last_rank ==
		scenario_comm_rank(
			&truth->scenario->comms[truth->scenario->ops[planned->op].comm], truth->rank);
	class->buckets[bucket]++;
}

static void
write_word(const char *key, const char *text, FILE *out)
{
	fprintf(out, text ? ", \"%s\": \"%s\"" : ", \"%s\": null", key, text);
}

static bool
moves_bytes(const struct scenario_op *op)
{
	return strcmp(op->impl->func, "AllGather") == 0 || strcmp(op->impl->func, "Broadcast") == 0;
}

/* Whether NCCL runs it, or something in its kernel, as a copy of bytes. */
static bool
holds_copies(const struct scenario *scenario, const struct scenario_op *op)
{
	bool copies = moves_bytes(op);
	uint32_t i;

	for (i = 0; i < op->part_count; i++)
		copies |= moves_bytes(&scenario->ops[op->parts[i]]);
	return copies;
}

/* Everything that a label may say of the collective; null where a group's calls differ, and where only NCCL
 * has it. And what the kernel's group is: 0 kernels, if it is of none. */
static void
write_label(const struct scenario_truth *truth, uint32_t number, bool half, FILE *out)
{
	const struct scenario_op *op = &truth->scenario->ops[number];
	const struct scenario_comm *comm = &truth->scenario->comms[op->comm];
	bool symmetric = op->impl->symmetric;
	char hash[24];

	snprintf(hash, sizeof(hash), "%016" PRIx64,
		scenario_comm_hash(truth->scenario, op->comm, truth->rank));
	fprintf(out, "\"op\": \"%s\", \"impl\": \"%s\", \"bytes\": %" PRIu64,
		op->mixed ? "unknown" : op->impl->op, op->impl->label, half ? op->bytes / 2 : op->bytes);
	write_word("dtype", op->dtype ? op->dtype->label : NULL, out);
	if (!op->impl->nccl) {
		write_word("algorithm", op->impl->algorithm, out);
		write_word("protocol", NULL, out);
	} else {
		write_word("algorithm",
			symmetric       ? op->variant->label
			: op->algorithm ? op->algorithm->label
					: NULL,
			out);
		write_word("protocol",
			symmetric      ? op->variant->kernel
			: op->protocol ? op->protocol->label
				       : NULL,
			out);
	}
	write_word("communicator", op->impl->nccl ? hash : NULL, out);
	fprintf(out,
		", \"comm_rank\": %" PRIu32 ", \"world\": %" PRIu32 ", \"works\": %" PRIu32
		", \"group_kernels\": %" PRIu32 ", \"group_comms\": %" PRIu32
		", \"group_mixed\": %s, \"copies\": %s",
		scenario_comm_rank(comm, truth->rank), comm->size, op->part_count ? op->part_count : 1,
		op->group_kernels, op->group_comms, op->group_mixed ? "true" : "false",
		holds_copies(truth->scenario, op) ? "true" : "false");
}

static void
write_event(const struct scenario_truth *truth, const struct scenario_launch *launch,
	const struct scenario_planned *planned, uint64_t step, uint32_t ordinal, FILE *events)
{
	const struct scenario_sequence *sequence = &truth->scenario->sequences[launch->sequence];
	struct cs_fake_span span = in_gpu_time(truth, planned);

	fprintf(events,
		"{\"rank\": %" PRIu32 ", \"step\": %" PRIu64
		", \"graph\": \"%s\", \"phase\": \"%s\", \"eager\": %s, \"ordinal\": %" PRIu32 ", ",
		truth->rank, step, sequence->name, sequence->phase, sequence->eager ? "true" : "false",
		ordinal);
	write_label(truth, planned->op, launch->half, events);
	fprintf(events, ", \"start_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 ", \"wait_ns\": %" PRIu64 "}\n",
		span.start_ns, span.end_ns, planned->ready_ns - planned->span.start_ns);
}

void
scenario_truth_add(
	struct scenario_truth *truth, const struct scenario_launch *launch, uint64_t step, FILE *events)
{
	const struct scenario *scenario = truth->scenario;
	struct class *classes = &truth->classes[(size_t)launch->sequence * scenario->op_count * 2];
	struct class *class;
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
		class = &classes[2 * planned->op + launch->half];
		add_collective(truth, planned, class);
		if (launch->two_streams)
			add_overlap(truth, launch, i, &from[planned->beside], class);
		if (events)
			write_event(truth, launch, planned, step, ordinal, events);
		ordinal++;
	}
	truth->launches[launch->sequence]++;
	truth->launch_ns[launch->sequence] += end_ns - launch->start_ns;
}

static struct class *
find_class(const struct scenario_truth *truth, uint32_t sequence, uint32_t op, bool half)
{
	return &truth->classes[2 * ((size_t)sequence * truth->scenario->op_count + op) + half];
}

static void
write_class(const struct scenario_truth *truth, uint32_t sequence, uint32_t op, bool half, FILE *out)
{
	const struct scenario_sequence *in = &truth->scenario->sequences[sequence];
	const struct class *class = find_class(truth, sequence, op, half);
	const struct scenario_op *what = &truth->scenario->ops[op];
	size_t i;

	fprintf(out, "\n  {\"graph\": \"%s\", \"phase\": \"%s\", \"name\": \"%s\", ", in->name, in->phase,
		what->name);
	write_label(truth, op, half, out);
	fprintf(out,
		",\n   \"count\": %" PRIu64 ", \"bytes_total\": %" PRIu64 ", \"duration_ns\": %" PRIu64
		", \"wait_ns\": %" PRIu64 ", \"last_arrivals\": %" PRIu64
		",\n   \"overlap_ns\": {\"compute\": %" PRIu64 ", \"copy\": %" PRIu64
		", \"collective\": %" PRIu64 "},\n   \"buckets\": [",
		class->count, class->count * (half ? what->bytes / 2 : what->bytes), class->duration_ns,
		class->wait_ns, class->last_arrivals, class->overlap_ns[OVERLAP_COMPUTE],
		class->overlap_ns[OVERLAP_COPY], class->overlap_ns[OVERLAP_COLLECTIVE]);
	for (i = 0; i <= BOUND_COUNT; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "", class->buckets[i]);
	fprintf(out, "]}");
}

void
scenario_truth_lose(struct scenario_truth *truth, uint64_t lost_ns)
{
	truth->lost_ns += lost_ns;
}

void
scenario_truth_write(const struct scenario_truth *truth, uint64_t steps, uint64_t late_launches, FILE *out)
{
	const struct scenario *scenario = truth->scenario;
	uint32_t sequence, op, i;
	bool first = true;

	fprintf(out,
		"{\"rank\": %" PRIu32 ", \"steps\": %" PRIu64 ", \"late_launches\": %" PRIu64
		", \"begin_ns\": %" PRIu64 ", \"lost_ns\": %" PRIu64
		", \"nccl_plugin\": \"%s\",\n \"compute\": %" PRIu64 ", \"collectives\": %" PRIu64
		", \"copies\": %" PRIu64 ",\n \"sequences\": [",
		truth->rank, steps, late_launches, truth->epoch_ns, truth->lost_ns, scenario_nccl_plugin(),
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
	for (i = 0; i < scenario->sequence_count * scenario->op_count * 2; i++) {
		sequence = i / 2 / scenario->op_count;
		op = i / 2 % scenario->op_count;
		if (find_class(truth, sequence, op, i % 2)->count == 0)
			continue;
		fprintf(out, "%s", first ? "" : ",");
		write_class(truth, sequence, op, i % 2, out);
		first = false;
	}
	fprintf(out, "]}\n");
}
