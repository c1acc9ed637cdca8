/* SPDX-License-Identifier: Apache-2.0 */
#include "series.h"

#include "analysis/analysis.h"
#include "clock.h"
#include "collective.h"
#include "record.h"
#include "segment/segment.h"
#include "size.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct cs_series_key) == 16, "keys are compared as bytes: no padding");

void
cs_series_table_init(struct cs_series_table *table, uint64_t limit)
{
	*table = (struct cs_series_table){.limit = limit};
}

static void
series_destroy(struct cs_series *series)
{
	cs_histogram_destroy(series->histogram);
	free(series);
}

void
cs_series_table_fini(struct cs_series_table *table)
{
	for (size_t family = 0; family < CS_FAMILY_SERIES_COUNT; family++) {
		struct cs_series_vector *vector = &table->families[family];

		for (size_t i = 0; i < vector->count; i++)
			series_destroy(vector->items[i]);
		free(vector->items);
	}
	free(table->comms);
	*table = (struct cs_series_table){0};
}

uint32_t
cs_series_comm(struct cs_series_table *table, uint64_t hash)
{
	if (hash == 0)
		return 0;
	/* Newest first: an old one is that of a server that is gone. */
	for (uint32_t i = table->comm_count; i > 0; i--) {
		if (table->comms[i - 1] == hash)
			return i;
	}
	if (table->comm_count == table->comm_capacity) {
		uint32_t capacity = table->comm_capacity ? table->comm_capacity * 2 : 16;
		uint64_t *grown = capacity <= CS_SERIES_COMMS_MAX
					  ? reallocarray(table->comms, capacity, sizeof(*grown))
					  : NULL;

		if (!grown)
			return 0;
		table->comms = grown;
		table->comm_capacity = capacity;
	}
	table->comms[table->comm_count++] = hash;
	return table->comm_count;
}

static const struct cs_histogram_class *
class_of(enum cs_family_id family)
{
	switch (family) {
	case CS_FAMILY_STEP_DURATION:
	case CS_FAMILY_STEP_COLLECTIVE:
	case CS_FAMILY_STEP_EXPOSED:
		return &cs_histogram_step_seconds;
	case CS_FAMILY_STEP_COLLECTIVES:
		return &cs_histogram_count;
	default:
		return &cs_histogram_collective_seconds;
	}
}

/* Time series that one label set of the family is: buckets with +Inf, sum and count; or one. */
static uint64_t
lines_of(enum cs_family_id family)
{
	if (cs_family_borrow(family)->type != CS_TYPE_HISTOGRAM)
		return 1;
	return class_of(family)->bound_count + 3;
}

/* In the order that people read: gpu, rank, op, impl, phase, size, part, communicator; the folded series
 * last. */
static int
key_compare(const struct cs_series_key *a, const struct cs_series_key *b)
{
#define COMPARE(field)                                                                                       \
	if (a->field != b->field)                                                                            \
	return a->field < b->field ? -1 : 1
	COMPARE(other);
	COMPARE(gpu);
	COMPARE(rank);
	COMPARE(op);
	COMPARE(impl);
	COMPARE(phase);
	COMPARE(size);
	COMPARE(part);
	COMPARE(comm);
#undef COMPARE
	return 0;
}

/* Where the key is, or where it would go. */
static size_t
vector_find(const struct cs_series_vector *vector, const struct cs_series_key *key, bool *found)
{
	size_t low = 0;
	size_t high = vector->count;

	*found = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = key_compare(&vector->items[middle]->key, key);

		if (order == 0) {
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct cs_series *
series_new(enum cs_family_id family, const struct cs_series_key *key)
{
	struct cs_series *series = calloc(1, sizeof(*series));

	if (!series)
		return NULL;
	series->key = *key;
	series->family = family;
	series->created_ns = cs_clock_realtime_ns();
	if (cs_family_borrow(family)->type == CS_TYPE_HISTOGRAM) {
		series->histogram = cs_histogram_new(class_of(family));
		if (!series->histogram) {
			free(series);
			return NULL;
		}
	}
	return series;
}

static struct cs_series *
vector_insert(
	struct cs_series_vector *vector, size_t at, enum cs_family_id family, const struct cs_series_key *key)
{
	struct cs_series *series;

	if (vector->count == vector->capacity) {
		size_t capacity = vector->capacity ? vector->capacity * 2 : 32;
		struct cs_series **items = realloc(vector->items, capacity * sizeof(struct cs_series *));

		if (!items)
			return NULL;
		vector->items = items;
		vector->capacity = capacity;
	}
	series = series_new(family, key);
	if (!series)
		return NULL;
	memmove(&vector->items[at + 1], &vector->items[at],
		(vector->count - at) * sizeof(struct cs_series *));
	vector->items[at] = series;
	vector->count++;
	return series;
}

struct cs_series *
cs_series_take(struct cs_series_table *table, enum cs_family_id family, const struct cs_series_key *key)
{
	static const struct cs_series_key other = {.other = 1};
	struct cs_series_vector *vector = &table->families[family];
	bool found;
	size_t at = vector_find(vector, key, &found);
	struct cs_series *series;

	if (!found && !key->other && table->lines + lines_of(family) > table->limit)
		return cs_series_take(table, family, &other);
	series = found ? vector->items[at] : vector_insert(vector, at, family, key);
	if (!series)
		return NULL;
	if (!found && !key->other)
		table->lines += lines_of(family);
	series->references++;
	return series;
}

void
cs_series_drop(struct cs_series_table *table, struct cs_series *series)
{
	struct cs_series_vector *vector;
	bool found;
	size_t at;

	if (!series || --series->references)
		return;
	vector = &table->families[series->family];
	at = vector_find(vector, &series->key, &found);
	if (!found)
		return;
	if (!series->key.other)
		table->lines -= lines_of(series->family);
	vector->count--;
	memmove(&vector->items[at], &vector->items[at + 1],
		(vector->count - at) * sizeof(struct cs_series *));
	series_destroy(series);
}

static const char *
number_text(struct cs_arena *arena, int64_t number)
{
	return number < 0 ? "unknown" : cs_arena_format(arena, "%lld", (long long)number);
}

static const char *
part_text(enum cs_family_id family, uint8_t part)
{
	switch (family) {
	case CS_FAMILY_COLLECTIVE_COPY_OVERLAP:
		return cs_copy_direction_name(part);
	case CS_FAMILY_TRACE_SECONDS:
		return cs_depth_name(part);
	case CS_FAMILY_RECORDS:
		return cs_record_type_name(part);
	case CS_FAMILY_RECORDS_LOST:
		return cs_loss_cause_name(part);
	case CS_FAMILY_LABEL_FAILURES:
		return cs_unlabelled_reason_name(part);
	default:
		return part == CS_WITH_NONE ? "none" : cs_busy_class_name(part);
	}
}

static const char *
label_text(struct cs_arena *arena, const struct cs_series_table *table, const struct cs_series *series,
	const char *label)
{
	const struct cs_series_key *key = &series->key;
	char size[CS_SIZE_TEXT_BYTES];

	if (key->other)
		return "other";
	if (strcmp(label, "gpu") == 0)
		return number_text(arena, key->gpu);
	if (strcmp(label, "rank") == 0)
		return number_text(arena, key->rank);
	if (strcmp(label, "op") == 0)
		return cs_op_name(key->op);
	if (strcmp(label, "impl") == 0)
		return cs_impl_name(key->impl);
	if (strcmp(label, "phase") == 0)
		return cs_phase_name(key->phase);
	if (strcmp(label, "size") == 0) {
		cs_size_text(key->size, size);
		return cs_arena_text(arena, size);
	}
	if (strcmp(label, "comm") == 0)
		return cs_arena_format(arena, "%016llx", (unsigned long long)table->comms[key->comm - 1]);
	return part_text(series->family, key->part);
}

static void
series_collect(
	const struct cs_series_table *table, const struct cs_series *series, struct cs_snapshot *snapshot)
{
	const struct cs_family *family = cs_family_borrow(series->family);
	struct cs_sample *sample = cs_snapshot_add(snapshot, series->family);

	if (!sample)
		return;
	for (unsigned int i = 0; i < family->label_count; i++)
		sample->labels[i] = label_text(&snapshot->arena, table, series, family->labels[i]);
	sample->created_ns = series->created_ns;
	if (series->histogram)
		sample->histogram = cs_snapshot_histogram(snapshot, series->histogram);
	else if (strcmp(family->unit, "seconds") == 0)
		sample->value = cs_value_ns(series->counter);
	else
		sample->value = cs_value_integer(series->counter);
}

void
cs_series_collect(const struct cs_series_table *table, struct cs_snapshot *snapshot)
{
	for (size_t family = 0; family < CS_FAMILY_SERIES_COUNT; family++) {
		for (size_t i = 0; i < table->families[family].count; i++)
			series_collect(table, table->families[family].items[i], snapshot);
	}
}
