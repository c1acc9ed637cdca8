/* SPDX-License-Identifier: Apache-2.0 */
#include "traced.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Give pages of the mapping back after 1 MiB of ring: eight rings of 8 MiB would otherwise stay resident. */
#define TRIM_RECORDS (1024U * 1024U / (unsigned int)sizeof(struct cs_ring_slot))

static int16_t
process_gpu(const struct cs_dictionary *dictionary)
{
	/* A process with several GPUs has counters of its own, not of one of them. */
	if (dictionary->gpu_count != 1)
		return -1;
	return cs_feed_gpu(dictionary, 0);
}

static uint64_t
load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/* -- counters of the status words ------------------------------------------------------------------------ */

struct counter_place {
	enum cs_family_id family;
	uint8_t part;
};

static struct counter_place
place_of(unsigned int index)
{
	static const uint8_t single[] = {
		CS_FAMILY_WINDOWS_SKIPPED, CS_FAMILY_TRACING_RESTS, CS_FAMILY_INJECTOR_CPU};

	if (index < CS_TRACED_DEPTHS)
		return (struct counter_place){CS_FAMILY_TRACE_SECONDS, (uint8_t)index};
	index -= CS_TRACED_DEPTHS;
	if (index < CS_TRACED_KINDS)
		return (struct counter_place){CS_FAMILY_RECORDS, (uint8_t)(index + 1)};
	index -= CS_TRACED_KINDS;
	if (index < CS_TRACED_CAUSES)
		return (struct counter_place){CS_FAMILY_RECORDS_LOST, (uint8_t)index};
	index -= CS_TRACED_CAUSES;
	if (index < CS_TRACED_REASONS)
		return (struct counter_place){CS_FAMILY_LABEL_FAILURES, (uint8_t)index};
	index -= CS_TRACED_REASONS;
	return (struct counter_place){single[index], 0};
}

static struct cs_series *
take_counter(struct cs_traced *traced, unsigned int index)
{
	struct counter_place place = place_of(index);
	struct cs_series_key key = {.gpu = traced->gpu, .rank = traced->rank, .part = place.part};

	return cs_series_take(traced->table, place.family, &key);
}

/* GPU or rank have become known (or were set anew): what this process has counted moves to the series of its
 * new labels. Where another process shares the old series its value stays, since values never fall. */
static void
relabel(struct cs_traced *traced)
{
	for (unsigned int i = 0; i < CS_TRACED_COUNTERS; i++) {
		struct cs_traced_counter *counter = &traced->counters[i];
		bool alone = counter->series && counter->series->references == 1;

		if (counter->series)
			cs_series_drop(traced->table, counter->series);
		counter->series = take_counter(traced, i);
		if (alone)
			cs_series_add(traced->table, counter->series, counter->seen);
	}
}

static void
bring_forward(struct cs_traced *traced, unsigned int index, uint64_t value)
{
	struct cs_traced_counter *counter = &traced->counters[index];
	uint64_t more;

	if (value <= counter->seen)
		return;
	more = value - counter->seen;
	counter->seen = value;
	/* A writer of nonsense must not make a sum that others share run over. */
	if (counter->series && more <= UINT64_MAX / 2 && counter->series->counter <= UINT64_MAX / 2)
		cs_series_add(traced->table, counter->series, more);
}

/*
 * Closed stretches at the depth, and the one that is still open, as far as the worker's last turn. Not up to
 * our own time: when the clock is set forward, that is ahead of the worker's by the whole step until the
 * worker has begun the stretch anew, and what a counter has been given it keeps.
 */
static uint64_t
trace_ns(const struct cs_traced *traced, unsigned int depth, uint64_t now_ns)
{
	const struct cs_status *status = &traced->status;
	uint64_t total_ns = load(&status->trace_ns[depth]);
	uint64_t since_ns = load(&status->depth_since_ns);
	uint64_t beat_ns = load(&status->heartbeat_ns);
	uint64_t until_ns = beat_ns < now_ns ? beat_ns : now_ns;

	if (traced->stage == CS_TRACED_LIVE && load(&status->depth) == depth && since_ns &&
		since_ns < until_ns)
		total_ns += until_ns - since_ns;
	return total_ns;
}

static uint64_t
lost(const struct cs_traced *traced, unsigned int cause, const struct cs_reader_losses *losses)
{
	uint64_t count = load(&traced->status.lost[cause]);

	if (cause == CS_LOSS_RING_OVERRUN)
		count += losses->overrun;
	else if (cause == CS_LOSS_RING_HOLE)
		count += losses->hole;
	else if (cause == CS_LOSS_INVALID_RECORD)
		count += losses->invalid;
	return count;
}

static void
bring_all_forward(struct cs_traced *traced, uint64_t now_ns)
{
	const struct cs_status *status = &traced->status;
	struct cs_reader_losses losses;
	unsigned int at = 0;

	cs_segment_reader_losses(traced->reader, &losses);
	for (unsigned int depth = 0; depth < CS_TRACED_DEPTHS; depth++)
		bring_forward(traced, at++, trace_ns(traced, depth, now_ns));
	for (unsigned int kind = 1; kind <= CS_TRACED_KINDS; kind++)
		bring_forward(traced, at++, load(&status->records[kind]));
	for (unsigned int cause = 0; cause < CS_TRACED_CAUSES; cause++)
		bring_forward(traced, at++, lost(traced, cause, &losses));
	for (unsigned int reason = 0; reason < CS_TRACED_REASONS; reason++)
		bring_forward(traced, at++, load(&status->unlabelled[reason]));
	bring_forward(traced, at++, load(&status->windows_skipped));
	bring_forward(traced, at++, load(&status->tracing_rests));
	bring_forward(traced, at, load(&status->cpu_ns));
}

int
cs_traced_refresh(struct cs_traced *traced, uint64_t now_realtime_ns)
{
	int16_t gpu;
	int32_t rank;
	int result;

	if (!traced->reader)
		return 0;
	result = cs_segment_reader_refresh(traced->reader);
	if (result == 0)
		result = cs_segment_reader_status(traced->reader, &traced->status);
	if (result < 0)
		return result;
	gpu = process_gpu(traced->dictionary);
	rank = traced->dictionary->process.rank;
	if (!traced->counters[0].series || gpu != traced->gpu || rank != traced->rank) {
		traced->gpu = gpu;
		traced->rank = rank;
		relabel(traced);
	}
	bring_all_forward(traced, now_realtime_ns);
	return 0;
}

/* -- life ------------------------------------------------------------------------------------------------ */

int
cs_traced_open(struct cs_traced **traced, const char *path, const char *name, struct cs_analysis *analysis,
	struct cs_series_table *table, struct cs_error *error)
{
	struct cs_traced *made = calloc(1, sizeof(*made));
	int result;

	*traced = NULL;
	if (!made)
		return cs_error_set(error, -ENOMEM, "cannot open segment %s: out of memory", path);
	result = cs_segment_reader_open(path, true, &made->reader, error);
	if (result < 0)
		goto fail;
	made->dictionary = cs_segment_reader_borrow_dictionary(made->reader);
	result = cs_analysis_add_source(analysis, made->dictionary, &made->source);
	if (result < 0) {
		cs_error_set(error, result, "cannot analyse segment %s: %s", path, strerror(-result));
		goto fail;
	}
	strncpy(made->name, name, sizeof(made->name) - 1);
	made->analysis = analysis;
	made->table = table;
	cs_feed_init(&made->feed, table);
	*traced = made;
	return 0;
fail:
	cs_segment_reader_close(made->reader);
	free(made);
	return result;
}

int
cs_traced_read(struct cs_traced *traced, struct cs_record *records, size_t capacity, size_t *count)
{
	int result;

	*count = 0;
	if (!traced->reader)
		return 0;
	result = cs_segment_reader_read(traced->reader, records, capacity, count);
	if (result < 0)
		return result;
	/* Without memory the analysis counts what it could not take; the rest goes on. */
	if (*count && cs_segment_reader_gap(traced->reader))
		cs_analysis_note_gap(traced->analysis, traced->source);
	if (*count)
		cs_analysis_ingest(traced->analysis, traced->source, records, *count);
	traced->read_since_trim += *count;
	if (traced->read_since_trim >= TRIM_RECORDS) {
		cs_segment_reader_trim(traced->reader);
		traced->read_since_trim = 0;
	}
	return 0;
}

bool
cs_traced_has_more(const struct cs_traced *traced)
{
	return traced->reader && cs_segment_reader_gap_ahead(traced->reader);
}

/* What is served after the segment: all but names and labels, which only records need. */
static void
keep_dictionary(struct cs_traced *traced)
{
	struct cs_dictionary *kept = malloc(sizeof(*kept));

	if (kept) {
		*kept = *traced->dictionary;
		kept->names = NULL;
		kept->name_count = 0;
		kept->labels = NULL;
		kept->label_count = 0;
	}
	traced->kept = kept;
	traced->dictionary = kept;
}

void
cs_traced_retire(struct cs_traced *traced)
{
	if (!traced->reader)
		return;
	cs_analysis_remove_source(traced->analysis, traced->source);
	keep_dictionary(traced);
	cs_segment_reader_close(traced->reader);
	traced->reader = NULL;
	traced->stage = CS_TRACED_RETIRED;
}

void
cs_traced_forget(struct cs_traced *traced)
{
	cs_traced_retire(traced);
	for (unsigned int i = 0; i < CS_TRACED_COUNTERS; i++) {
		cs_series_drop(traced->table, traced->counters[i].series);
		traced->counters[i].series = NULL;
	}
	cs_feed_fini(&traced->feed);
	traced->stage = CS_TRACED_FORGOTTEN;
}

void
cs_traced_destroy(struct cs_traced *traced)
{
	if (!traced)
		return;
	cs_traced_forget(traced);
	free(traced->kept);
	free(traced);
}

enum cs_state
cs_traced_state(const struct cs_traced *traced)
{
	uint64_t state = load(&traced->status.state);

	if (traced->stage != CS_TRACED_LIVE)
		return CS_STATE_EXITED;
	return state < CS_STATE_COUNT ? (enum cs_state)state : CS_STATE_STARTING;
}
