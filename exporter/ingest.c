/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"

#include "clock.h"
#include "collective.h"
#include "log.h"
#include "processes.h"
#include "segment/segment.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_PERIOD_NS CS_NS_PER_S
#define ROUNDS_MAX     64U
/* Record time per step of the analysis: that of a turn. */
#define ADVANCE_STEP_NS (100 * CS_NS_PER_MS)
/* Over twice what eight ranks bring in a turn at the fullest traffic measured (140,000 records/s each). */
#define BACKLOG_RECORDS 262144U

struct cs_ingest {
	pthread_mutex_t lock;
	atomic_uint scrapes_waiting; /* the ingest thread lets them in between two reads */
	char *directory;
	struct cs_analysis *analysis;
	struct cs_series_table table;
	struct cs_processes processes;
	struct cs_traced *last_found;
	uint64_t advanced_ns; /* record time; written by the ingest thread, under the lock */
	uint64_t looked_ns;   /* CLOCK_MONOTONIC; 0 never */
	uint64_t records;
	uint64_t busy_ns;
	uint64_t started_ns; /* CLOCK_REALTIME */
	uint64_t stall_ns;   /* options */
	struct cs_record batch[CS_INGEST_BATCH];
};

/* -- results of the analysis ----------------------------------------------------------------------------- */

static struct cs_traced *
find(struct cs_ingest *ingest, uint32_t source)
{
	/* A step's collectives come together. */
	if (!ingest->last_found || ingest->last_found->source != source)
		ingest->last_found = cs_processes_find(&ingest->processes, source);
	return ingest->last_found;
}

static void
take_collective(void *context, const struct cs_collective *collective)
{
	struct cs_traced *traced = find(context, collective->source);

	if (traced)
		cs_feed_collective(&traced->feed, traced->dictionary, collective);
}

static void
take_step(void *context, const struct cs_step *step)
{
	struct cs_traced *traced = find(context, step->source);

	if (!traced)
		return;
	cs_feed_step(&traced->feed, traced->dictionary, step);
	cs_graph_phases_note(&traced->phases, step);
}

void
cs_ingest_tune_memory(void)
{
	mallopt(M_TRIM_THRESHOLD, 8 * 1024 * 1024);
	mallopt(M_MMAP_THRESHOLD, 512 * 1024);
	mallopt(M_ARENA_MAX, 2);
}

/* -- life ------------------------------------------------------------------------------------------------ */

int
cs_ingest_new(const struct cs_ingest_options *options, struct cs_ingest **ingest, struct cs_error *error)
{
	struct cs_ingest *made = calloc(1, sizeof(*made));
	struct cs_analysis_sink sink = {.context = made, .step = take_step, .collective = take_collective};
	struct cs_analysis_options analysis_options = {.steps_file = options->steps};
	struct cs_processes_options processes_options = {
		.linger_ns = options->linger_ns,
		.retention_ns = options->retention_ns,
		.read_only = options->read_only,
	};
	char complaint[512] = "";
	int result = -ENOMEM;

	*ingest = NULL;
	if (!made)
		return cs_error_set(error, -ENOMEM, "out of memory");
	pthread_mutex_init(&made->lock, NULL);
	made->directory = strdup(options->directory);
	if (!made->directory) {
		cs_error_set(error, result, "out of memory");
		goto fail;
	}
	result = cs_analysis_new(&analysis_options, &sink, &made->analysis, complaint, sizeof(complaint));
	if (result < 0) {
		cs_error_set(error, result, "%s%s", *complaint ? "cannot use the step rules: " : "",
			*complaint ? complaint : strerror(-result));
		goto fail;
	}
	made->started_ns = cs_clock_realtime_ns();
	cs_analysis_tell_clock(made->analysis, made->started_ns);
	made->stall_ns = options->stall_ns;
	cs_series_table_init(&made->table, options->max_series);
	processes_options.directory = made->directory;
	cs_processes_init(&made->processes, &processes_options, made->analysis, &made->table);
	*ingest = made;
	return 0;
fail:
	pthread_mutex_destroy(&made->lock);
	free(made->directory);
	free(made);
	return result;
}

const char *
cs_ingest_directory(const struct cs_ingest *ingest)
{
	return ingest->directory;
}

void
cs_ingest_destroy(struct cs_ingest *ingest)
{
	if (!ingest)
		return;
	ingest->last_found = NULL;
	cs_processes_fini(&ingest->processes);
	cs_analysis_destroy(ingest->analysis);
	cs_series_table_fini(&ingest->table);
	pthread_mutex_destroy(&ingest->lock);
	free(ingest->directory);
	free(ingest);
}

/* -- the ingest thread ----------------------------------------------------------------------------------- */

static void
lock_for_ingest(struct cs_ingest *ingest)
{
	/* A mutex is not fair: without this a scrape could wait for a whole backlog. */
	while (atomic_load_explicit(&ingest->scrapes_waiting, memory_order_relaxed))
		sched_yield();
	pthread_mutex_lock(&ingest->lock);
}

static void
unlock(struct cs_ingest *ingest)
{
	pthread_mutex_unlock(&ingest->lock);
}

static void
fail(struct cs_ingest *ingest, struct cs_traced *traced, int code)
{
	ingest->last_found = NULL;
	cs_processes_fail(&ingest->processes, traced, code, cs_clock_monotonic_ns());
	ingest->last_found = NULL;
}

struct stall_look {
	struct cs_ingest *ingest;
	uint64_t now_ns;
};

/* Once per stall, and once more when it becomes known where it stands. */
static bool
is_said(struct cs_traced *traced, const struct cs_stall *stall)
{
	bool placed = stall->label_id != 0;
	bool said = traced->stalls_said[stall->gpu].work_end_ns == stall->work_end_ns &&
		    (traced->stalls_said[stall->gpu].placed || !placed);

	if (!said) {
		traced->stalls_said[stall->gpu].work_end_ns = stall->work_end_ns;
		traced->stalls_said[stall->gpu].placed = placed;
	}
	return said;
}

static void
log_stall(void *context, const struct cs_stall *stall)
{
	const struct stall_look *look = context;
	struct cs_traced *traced = find(look->ingest, stall->source);
	char bytes[24] = "unknown", collective[16] = "unknown", step[24] = "unknown", ended[16] = "none",
	     last[16] = "none";

	if (!traced || traced->stage != CS_TRACED_LIVE || is_said(traced, stall))
		return;
	if (stall->label_id != 0 && stall->label->bytes != CS_BYTES_UNKNOWN)
		snprintf(bytes, sizeof(bytes), "%" PRIu64, stall->label->bytes);
	if (stall->label_id != 0)
		snprintf(collective, sizeof(collective), "%" PRIu32, stall->ordinal);
	if (stall->step != 0)
		snprintf(step, sizeof(step), "%" PRIu64, stall->step);
	if (stall->last_end_ns != 0)
		snprintf(last, sizeof(last), "%" PRIu32, stall->last_ordinal);
	if (stall->ended_rank != CS_RANK_UNKNOWN)
		snprintf(ended, sizeof(ended), "%" PRId32, stall->ended_rank);
	cs_log_warn("A rank stands still pid=%" PRIu32 " rank=%" PRId32 " seconds=%" PRIu64
		    " step=%s collective=%s op=%s impl=%s bytes=%s graph=%" PRIu32 " node=%" PRIu64
		    " last_collective=%s last_op=%s last_impl=%s last_node=%" PRIu64
		    " others_wait_for_it=%s ended_rank=%s",
		traced->dictionary->process.pid, stall->rank,
		(uint64_t)((look->now_ns - stall->since_ns) / CS_NS_PER_S), step, collective,
		cs_op_name(stall->label->op), cs_impl_name(stall->label->impl), bytes, stall->graph_id,
		stall->graph_node_id, last, cs_op_name(stall->last_label->op),
		cs_impl_name(stall->last_label->impl), stall->last_node_id, stall->behind ? "yes" : "no",
		ended);
}

/* As of what has been read, not of the clock: an exporter that was kept from reading for ten seconds has not
 * seen ranks that stood still for as long. */
static void
look_for_stalls(struct cs_ingest *ingest)
{
	struct stall_look look = {.ingest = ingest, .now_ns = ingest->advanced_ns};

	for (size_t i = 0; i < ingest->processes.count; i++) {
		if (ingest->processes.items[i]->stage == CS_TRACED_DEAD)
			cs_analysis_end_source(ingest->analysis, ingest->processes.items[i]->source);
	}
	cs_analysis_list_stalls(ingest->analysis, look.now_ns, ingest->stall_ns, log_stall, &look);
}

void
cs_ingest_look(struct cs_ingest *ingest)
{
	uint64_t now_ns = cs_clock_monotonic_ns();

	ingest->looked_ns = now_ns;
	lock_for_ingest(ingest);
	cs_processes_look(&ingest->processes, now_ns);
	ingest->last_found = NULL;
	for (size_t i = ingest->processes.count; i-- > 0;) {
		struct cs_traced *traced = ingest->processes.items[i];
		int result = cs_traced_refresh(traced, cs_clock_realtime_ns());

		if (result < 0 && result != -ENOMEM)
			fail(ingest, traced, result);
	}
	look_for_stalls(ingest);
	unlock(ingest);
}

static void
look_when_due(struct cs_ingest *ingest)
{
	if (!ingest->looked_ns || cs_clock_monotonic_ns() - ingest->looked_ns >= LOOK_PERIOD_NS)
		cs_ingest_look(ingest);
}

/* One batch of the process at `index`. Returns whether there may be more, and then lowers *reached_ns to the
 * end of what has been read of it. */
static bool
read_batch(struct cs_ingest *ingest, size_t index, size_t *total, uint64_t *reached_ns)
{
	size_t count = 0;
	uint64_t begin_ns;
	bool more = false;
	int result;

	lock_for_ingest(ingest);
	if (index < ingest->processes.count) {
		struct cs_traced *traced = ingest->processes.items[index];

		begin_ns = cs_clock_monotonic_ns();
		result = cs_traced_read(traced, ingest->batch, CS_INGEST_BATCH, &count);
		if (result < 0 && result != -ENOMEM)
			fail(ingest, traced, result);
		/* Nothing at all was all that there is, also behind a gap: a dead writer's may have no end.
		 */
		more = result == 0 && count > 0 && (count == CS_INGEST_BATCH || cs_traced_has_more(traced));
		if (more && ingest->batch[count - 1].end_ns < *reached_ns)
			*reached_ns = ingest->batch[count - 1].end_ns;
		ingest->records += count;
		ingest->busy_ns += cs_clock_monotonic_ns() - begin_ns;
	}
	unlock(ingest);
	*total += count;
	return more;
}

static void
advance_to(struct cs_ingest *ingest, uint64_t time_ns)
{
	uint64_t begin_ns;

	lock_for_ingest(ingest);
	begin_ns = cs_clock_monotonic_ns();
	cs_analysis_advance(ingest->analysis, time_ns);
	ingest->busy_ns += cs_clock_monotonic_ns() - begin_ns;
	ingest->advanced_ns = time_ns;
	unlock(ingest);
}

static void
tell_clock(struct cs_ingest *ingest, uint64_t clock_ns)
{
	lock_for_ingest(ingest);
	cs_analysis_tell_clock(ingest->analysis, clock_ns);
	unlock(ingest);
}

/* In small steps over the stretch in which records wait: results of one step are freed before those of the
 * next are made, and scrapes get in between. */
static void
advance(struct cs_ingest *ingest, uint64_t target_ns)
{
	uint64_t end_ns = ingest->advanced_ns + CS_ANALYSIS_HORIZON_NS + CS_NS_PER_S;

	while (ingest->advanced_ns + ADVANCE_STEP_NS < target_ns && ingest->advanced_ns < end_ns)
		advance_to(ingest, ingest->advanced_ns + ADVANCE_STEP_NS);
	advance_to(ingest, target_ns);
}

/* After a backlog: what it took does not stay. */
static void
shrink(struct cs_ingest *ingest)
{
	lock_for_ingest(ingest);
	for (size_t i = 0; i < ingest->processes.count; i++) {
		if (ingest->processes.items[i]->reader)
			cs_segment_reader_trim(ingest->processes.items[i]->reader);
	}
	unlock(ingest);
	malloc_trim(0);
}

size_t
cs_ingest_turn(struct cs_ingest *ingest)
{
	bool more = true;
	size_t total = 0;

	look_when_due(ingest);
	/* Round by round, so that ranks stay close to each other in time; bounded, so that looking is not put
	 * off. A backlog is analysed as it comes: it is more than the analysis can hold. */
	for (unsigned int round = 0; more && round < ROUNDS_MAX; round++) {
		uint64_t clock_ns = cs_clock_realtime_ns();
		uint64_t reached_ns = clock_ns;

		more = false;
		for (size_t i = ingest->processes.count; i-- > 0;)
			more |= read_batch(ingest, i, &total, &reached_ns);
		/* Being behind with a process turns no time back; only the clock does. */
		if (reached_ns < ingest->advanced_ns && clock_ns >= ingest->advanced_ns)
			reached_ns = ingest->advanced_ns;
		tell_clock(ingest, clock_ns);
		advance(ingest, reached_ns);
	}
	if (total >= BACKLOG_RECORDS)
		shrink(ingest);
	return total;
}

/* -- scrapes --------------------------------------------------------------------------------------------- */

static void
lock_for_scrape(struct cs_ingest *ingest)
{
	atomic_fetch_add_explicit(&ingest->scrapes_waiting, 1, memory_order_relaxed);
	pthread_mutex_lock(&ingest->lock);
	atomic_fetch_sub_explicit(&ingest->scrapes_waiting, 1, memory_order_relaxed);
}

uint64_t
cs_ingest_alone_ns(struct cs_ingest *ingest)
{
	uint64_t since_ns;

	lock_for_scrape(ingest);
	since_ns = ingest->processes.alone_since_ns;
	unlock(ingest);
	return since_ns ? cs_clock_monotonic_ns() - since_ns : 0;
}

static void
collect_build(struct cs_snapshot *snapshot)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, CS_FAMILY_BUILD_INFO);

	if (!sample)
		return;
	sample->labels[0] = CS_VERSION;
	sample->labels[1] = cs_arena_format(&snapshot->arena, "%d.%d", CS_SEGMENT_MAJOR, CS_SEGMENT_MINOR);
	sample->labels[2] = "gcc-compatible " __VERSION__;
	sample->value = cs_value_integer(1);
}

static void
collect_counter(struct cs_ingest *ingest, struct cs_snapshot *snapshot, enum cs_family_id family,
	struct cs_value value)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, family);

	if (!sample)
		return;
	sample->value = value;
	sample->created_ns = ingest->started_ns;
}

static void
collect_own(struct cs_ingest *ingest, struct cs_snapshot *snapshot)
{
	struct cs_analysis_counts counts;

	cs_analysis_read_counts(ingest->analysis, &counts);
	collect_counter(ingest, snapshot, CS_FAMILY_EXPORTER_RECORDS, cs_value_integer(ingest->records));
	collect_counter(ingest, snapshot, CS_FAMILY_EXPORTER_LATE,
		cs_value_integer(counts.late_records + counts.forced));
	collect_counter(
		ingest, snapshot, CS_FAMILY_EXPORTER_INCOMPLETE, cs_value_integer(counts.incomplete_steps));
	collect_counter(ingest, snapshot, CS_FAMILY_EXPORTER_BUSY, cs_value_ns(ingest->busy_ns));
	cs_snapshot_plain(snapshot, CS_FAMILY_EXPORTER_SERIES, cs_value_integer(ingest->table.lines));
	collect_counter(ingest, snapshot, CS_FAMILY_EXPORTER_FOLDED, cs_value_integer(ingest->table.folded));
	collect_counter(ingest, snapshot, CS_FAMILY_EXPORTER_DROPPED,
		cs_value_integer(ingest->table.dropped + counts.dropped));
}

struct stalls {
	struct cs_ingest *ingest;
	struct cs_snapshot *snapshot;
	uint64_t now_ns;
};

static void
take_stall(void *context, const struct cs_stall *stall)
{
	struct stalls *stalls = context;
	struct cs_traced *traced = find(stalls->ingest, stall->source);
	struct cs_sample *sample;
	int16_t gpu;

	/* The work of a process that has ended was cut, not stalled. */
	if (!traced || traced->stage != CS_TRACED_LIVE)
		return;
	sample = cs_snapshot_add(stalls->snapshot, CS_FAMILY_STALLED);
	if (!sample)
		return;
	gpu = cs_feed_gpu(traced->dictionary, stall->gpu);
	sample->labels[0] = gpu < 0 ? "unknown" : cs_arena_format(&stalls->snapshot->arena, "%d", gpu);
	sample->labels[1] =
		stall->rank < 0 ? "unknown" : cs_arena_format(&stalls->snapshot->arena, "%d", stall->rank);
	sample->labels[2] = cs_op_name(stall->label->op);
	sample->labels[3] = cs_impl_name(stall->label->impl);
	sample->value = cs_value_ns(stalls->now_ns > stall->since_ns ? stalls->now_ns - stall->since_ns : 0);
}

static void
collect_stalls(struct cs_ingest *ingest, struct cs_snapshot *snapshot)
{
	struct stalls stalls = {ingest, snapshot, ingest->advanced_ns};

	cs_analysis_list_stalls(ingest->analysis, stalls.now_ns, ingest->stall_ns, take_stall, &stalls);
}

void
cs_ingest_collect(struct cs_ingest *ingest, struct cs_snapshot *snapshot)
{
	lock_for_scrape(ingest);
	/* Gauges as of now. A segment that fails here is dealt with by the next turn. */
	for (size_t i = 0; i < ingest->processes.count; i++)
		cs_traced_refresh(ingest->processes.items[i], cs_clock_realtime_ns());
	cs_series_collect(&ingest->table, snapshot);
	cs_processes_collect(&ingest->processes, snapshot);
	collect_stalls(ingest, snapshot);
	collect_own(ingest, snapshot);
	unlock(ingest);
	collect_build(snapshot);
}

void
cs_ingest_each(
	struct cs_ingest *ingest, void (*visit)(void *context, const struct cs_traced *traced), void *context)
{
	lock_for_scrape(ingest);
	for (size_t i = 0; i < ingest->processes.count; i++) {
		if (ingest->processes.items[i]->stage != CS_TRACED_FORGOTTEN)
			visit(context, ingest->processes.items[i]);
	}
	unlock(ingest);
}

void
cs_ingest_rejections(struct cs_ingest *ingest, struct cs_rejections *rejections)
{
	lock_for_scrape(ingest);
	cs_processes_count_rejected(&ingest->processes, rejections);
	unlock(ingest);
}
