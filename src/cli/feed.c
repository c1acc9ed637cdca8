/* SPDX-License-Identifier: Apache-2.0 */
#include "feed.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Records of one process that wait for the others: 224 KiB each. */
#define BUFFER_RECORDS 4096U
/* How far processes may be apart in what the analysis has seen; far below its horizon of 2 s, and long enough
 * that a slice holds many records. */
#define SLICE_NS (50 * CS_NS_PER_MS)
/* A writer in full mode never lets a reader catch up for good: one poll ends after this many times the
 * largest ring's records. */
#define POLL_RECORDS_MAX (4ULL * 1048576)

/* From the end of a process until it is forgotten. Its peers' records of the last horizon still come
 * meanwhile, and `top` shows that it has ended. */
#define FORGET_NS (CS_ANALYSIS_HORIZON_NS + 3 * CS_NS_PER_S)

/* Clocks are set back now and then; what a ring says beyond that is nonsense. */
#define SET_BACK_MAX 16U

struct source {
	struct cs_target *target;
	uint32_t id; /* the analysis's */
	bool added;
	size_t next;
	size_t count;
	uint64_t taken;            /* in this poll */
	bool dry;                  /* nothing more is read of the ring in this poll */
	bool emptied;              /* as there was nothing more */
	uint64_t let_go_ns;        /* CLOCK_MONOTONIC, since when its file is closed; 0: it is open */
	uint64_t newest_ns;        /* of what tells the time, since the clock was last set back */
	struct cs_record *records; /* BUFFER_RECORDS; NULL once the file is closed */
};

struct cs_feed {
	struct cs_targets *targets;
	struct cs_analysis *analysis;
	struct source **sources;
	size_t count;
	int failure; /* -ENOMEM met while reading */
	unsigned int set_back_count;
	uint64_t polled_ns; /* CLOCK_REALTIME when the last poll began: what came until then has been read */
};

const struct cs_target *
cs_feed_borrow_target(const struct cs_feed *feed, uint32_t source)
{
	for (size_t i = 0; i < feed->count; i++) {
		if (feed->sources[i]->id == source && feed->sources[i]->added)
			return feed->sources[i]->target;
	}
	return NULL;
}

static void
destroy_source(struct source *source)
{
	if (!source)
		return;
	free(source->records);
	free(source);
}

static int
add_source(struct cs_feed *feed, struct cs_target *target)
{
	struct source **grown = reallocarray(feed->sources, feed->count + 1, sizeof(*grown));
	struct source *source;
	int result = -ENOMEM;

	if (!grown)
		return -ENOMEM;
	feed->sources = grown;
	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	source->target = target;
	source->records = calloc(BUFFER_RECORDS, sizeof(*source->records));
	if (source->records)
		result = cs_analysis_add_source(feed->analysis, target->dictionary, &source->id);
	if (result) {
		destroy_source(source);
		return result;
	}
	source->added = true;
	feed->sources[feed->count++] = source;
	return 0;
}

int
cs_feed_update(struct cs_feed *feed)
{
	for (size_t i = 0; i < feed->targets->count; i++) {
		struct cs_target *target = feed->targets->items[i];
		bool known = target->broken;
		int result;

		for (size_t j = 0; j < feed->count && !known; j++)
			known = feed->sources[j]->target == target;
		if (known)
			continue;
		result = add_source(feed, target);
		if (result)
			return result;
	}
	return 0;
}

int
cs_feed_new(struct cs_targets *targets, const char *steps_file, const struct cs_analysis_sink *sink,
	struct cs_feed **feed)
{
	struct cs_analysis_options options = {.steps_file = steps_file};
	char complaint[512] = "";
	struct cs_feed *made = calloc(1, sizeof(*made));
	int result;

	*feed = NULL;
	if (!made)
		return -ENOMEM;
	made->targets = targets;
	result = cs_analysis_new(&options, sink, &made->analysis, complaint, sizeof(complaint));
	if (result && result != -ENOMEM)
		cs_log_error("Cannot use the step rules: %s", complaint[0] ? complaint : strerror(-result));
	if (result == 0)
		result = cs_feed_update(made);
	if (result) {
		cs_feed_destroy(made);
		return result;
	}
	*feed = made;
	return 0;
}

/* The last results of the source are handed out by the analysis on the way. */
static void
forget(struct cs_feed *feed, struct source *source)
{
	if (!source->added)
		return;
	cs_analysis_remove_source(feed->analysis, source->id);
	source->added = false;
}

void
cs_feed_destroy(struct cs_feed *feed)
{
	if (!feed)
		return;
	for (size_t i = 0; i < feed->count; i++)
		destroy_source(feed->sources[i]);
	free(feed->sources);
	cs_analysis_destroy(feed->analysis);
	free(feed);
}

static void
refill(struct cs_feed *feed, struct source *source)
{
	struct cs_target *target = source->target;
	int result;

	if (source->next < source->count || source->dry || !source->added || source->let_go_ns)
		return;
	source->next = source->count = 0;
	if (source->taken >= POLL_RECORDS_MAX) {
		source->dry = true;
		return;
	}
	result = cs_segment_reader_read(target->reader, source->records, BUFFER_RECORDS, &source->count);
	if (result == -ENOMEM)
		feed->failure = result;
	if (result) {
		source->count = 0;
		cs_target_break(target, result);
		forget(feed, source);
	}
	if (source->count && cs_segment_reader_gap(target->reader))
		cs_analysis_note_gap(feed->analysis, source->id);
	source->taken += source->count;
	source->dry = source->emptied = source->count == 0;
}

/* What is written soon after its end; others may wait for long for what they tell. */
static bool
tells_time(const struct cs_record *record)
{
	return record->type == CS_RECORD_COLLECTIVE || record->type == CS_RECORD_BUSY ||
	       record->type == CS_RECORD_GRAPH_LAUNCH || record->type == CS_RECORD_WINDOW_OPEN;
}

/* Between this record and those before it the clock was set back. */
static bool
is_set_back(const struct cs_feed *feed, const struct source *source, const struct cs_record *record)
{
	return feed->set_back_count < SET_BACK_MAX && tells_time(record) &&
	       source->newest_ns > CS_ANALYSIS_STEP_BACK_NS &&
	       record->end_ns < source->newest_ns - CS_ANALYSIS_STEP_BACK_NS;
}

/* The records at the head of the buffer that ended by until_ns. Order in a ring is nearly that of end times;
 * what is a little late is within the analysis's horizon. */
static size_t
slice(const struct cs_feed *feed, struct source *source, uint64_t until_ns)
{
	size_t end = source->next;

	for (; end < source->count && source->records[end].end_ns <= until_ns; end++) {
		const struct cs_record *record = &source->records[end];

		if (is_set_back(feed, source, record))
			break;
		if (tells_time(record) && record->end_ns > source->newest_ns)
			source->newest_ns = record->end_ns;
	}
	return end - source->next;
}

/* The first end of any that waits, on either side of a moment at which the clock was set back. */
static bool
earliest(const struct cs_feed *feed, bool after_set_back, uint64_t *end_ns)
{
	bool any = false;

	*end_ns = UINT64_MAX;
	for (size_t i = 0; i < feed->count; i++) {
		const struct source *source = feed->sources[i];

		if (source->next >= source->count ||
			is_set_back(feed, source, &source->records[source->next]) != after_set_back)
			continue;
		any = true;
		if (source->records[source->next].end_ns < *end_ns)
			*end_ns = source->records[source->next].end_ns;
	}
	return any;
}

/* All that is from before the clock was set back has been taken: all sources go on together from the time of
 * the first that waits. */
static void
turn_back(struct cs_feed *feed, uint64_t first_ns)
{
	uint64_t newest_ns = 0;

	for (size_t i = 0; i < feed->count; i++) {
		if (feed->sources[i]->newest_ns > newest_ns)
			newest_ns = feed->sources[i]->newest_ns;
		feed->sources[i]->newest_ns = 0;
	}
	feed->set_back_count++;
	cs_analysis_tell_clock(feed->analysis, feed->polled_ns);
	cs_analysis_advance(feed->analysis, newest_ns);
	cs_analysis_advance(feed->analysis, first_ns);
}

int
cs_feed_poll(struct cs_feed *feed, uint64_t *record_count)
{
	uint64_t until_ns;
	uint64_t total = 0;

	feed->polled_ns = cs_clock_realtime_ns();
	if (feed->set_back_count)
		cs_analysis_tell_clock(feed->analysis, feed->polled_ns);
	for (size_t i = 0; i < feed->count; i++) {
		feed->sources[i]->dry = feed->sources[i]->emptied = false;
		feed->sources[i]->taken = 0;
	}
	for (;;) {
		for (size_t i = 0; i < feed->count; i++)
			refill(feed, feed->sources[i]);
		if (feed->failure)
			return feed->failure;
		if (!earliest(feed, false, &until_ns)) {
			if (!earliest(feed, true, &until_ns))
				break;
			turn_back(feed, until_ns);
		}
		until_ns = until_ns > UINT64_MAX - SLICE_NS ? UINT64_MAX : until_ns + SLICE_NS;
		for (size_t i = 0; i < feed->count; i++) {
			struct source *source = feed->sources[i];
			size_t count = slice(feed, source, until_ns);
			int result;

			if (count == 0)
				continue;
			result = cs_analysis_ingest(
				feed->analysis, source->id, &source->records[source->next], count);
			if (result)
				return result;
			source->next += count;
			total += count;
		}
	}
	if (record_count)
		*record_count = total;
	return 0;
}

void
cs_feed_advance(struct cs_feed *feed)
{
	cs_analysis_advance(feed->analysis, feed->polled_ns);
}

/* Nothing more will come of it. */
static bool
is_over(const struct source *source)
{
	return source->target->broken || (source->emptied && !source->target->alive);
}

/* true: the source has been destroyed. */
static bool
let_go(struct cs_feed *feed, struct source *source, uint64_t now_ns)
{
	if (source->let_go_ns == 0 && is_over(source)) {
		cs_target_let_go(source->target);
		free(source->records);
		source->records = NULL;
		source->next = source->count = 0;
		source->let_go_ns = now_ns;
	}
	if (source->let_go_ns == 0 || now_ns - source->let_go_ns < FORGET_NS)
		return false;
	forget(feed, source);
	/* Else it would be taken for a new one. */
	if (cs_targets_retire(feed->targets, source->target))
		return false;
	destroy_source(source);
	return true;
}

void
cs_feed_let_go(struct cs_feed *feed)
{
	uint64_t now_ns = cs_clock_monotonic_ns();
	size_t at = 0;

	while (at < feed->count) {
		if (!let_go(feed, feed->sources[at], now_ns)) {
			at++;
			continue;
		}
		/* At once: results that the next one hands out look for their source in the list. */
		feed->count--;
		memmove(&feed->sources[at], &feed->sources[at + 1],
			(feed->count - at) * sizeof(struct source *));
	}
}

uint64_t
cs_feed_polled_ns(const struct cs_feed *feed)
{
	return feed->polled_ns;
}

size_t
cs_feed_list_stalls(struct cs_feed *feed, uint64_t threshold_ns,
	void (*take)(void *context, const struct cs_stall *stall), void *context)
{
	for (size_t i = 0; i < feed->count; i++) {
		if (feed->sources[i]->added && !feed->sources[i]->target->alive)
			cs_analysis_end_source(feed->analysis, feed->sources[i]->id);
	}
	return cs_analysis_list_stalls(feed->analysis, feed->polled_ns, threshold_ns, take, context);
}

void
cs_feed_drain(struct cs_feed *feed)
{
	struct cs_analysis_counts counts;

	cs_analysis_drain(feed->analysis);
	cs_analysis_read_counts(feed->analysis, &counts);
	if (counts.dropped)
		cs_log_warn("%" PRIu64 " record%s left out, as %s time cannot be, or for want of memory",
			counts.dropped, counts.dropped == 1 ? " is" : "s are",
			counts.dropped == 1 ? "its" : "their");
}
