/* SPDX-License-Identifier: Apache-2.0 */
#include "snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void
cs_snapshot_init(struct cs_snapshot *snapshot, bool native)
{
	*snapshot = (struct cs_snapshot){.native = native};
	cs_arena_init(&snapshot->arena);
}

void
cs_snapshot_fini(struct cs_snapshot *snapshot)
{
	for (size_t i = 0; i < CS_FAMILY_COUNT; i++)
		free(snapshot->families[i].samples);
	cs_arena_fini(&snapshot->arena);
	*snapshot = (struct cs_snapshot){0};
}

static bool
list_grow(struct cs_sample_list *list)
{
	size_t capacity = list->capacity ? list->capacity * 2 : 16;
	struct cs_sample *samples = realloc(list->samples, capacity * sizeof(*samples));

	if (!samples)
		return false;
	list->samples = samples;
	list->capacity = capacity;
	return true;
}

struct cs_sample *
cs_snapshot_add(struct cs_snapshot *snapshot, enum cs_family_id family)
{
	struct cs_sample_list *list = &snapshot->families[family];
	unsigned int label_count = cs_family_borrow(family)->label_count;
	const char **labels = NULL;
	struct cs_sample *sample;

	if (list->count == list->capacity && !list_grow(list))
		goto no_memory;
	if (label_count) {
		labels = cs_arena_take(&snapshot->arena, label_count * sizeof(*labels));
		if (!labels)
			goto no_memory;
		for (unsigned int i = 0; i < label_count; i++)
			labels[i] = "";
	}
	sample = &list->samples[list->count++];
	*sample = (struct cs_sample){.labels = labels};
	return sample;
no_memory:
	snapshot->arena.failed = true;
	return NULL;
}

void
cs_snapshot_plain(struct cs_snapshot *snapshot, enum cs_family_id family, struct cs_value value)
{
	struct cs_sample *sample = cs_snapshot_add(snapshot, family);

	if (sample)
		sample->value = value;
}

static void
copy_native(
	struct cs_snapshot *snapshot, const struct cs_histogram *histogram, struct cs_histogram_copy *copy)
{
	int first, last;
	uint64_t *native;

	if (!cs_histogram_native_range(histogram, &first, &last))
		return;
	native = cs_arena_take(&snapshot->arena, (size_t)(last - first + 1) * sizeof(*native));
	if (!native)
		return;
	for (int i = first; i <= last; i++)
		native[i - first] = cs_histogram_native(histogram, i);
	copy->native = native;
	copy->native_first = first;
	copy->native_count = (uint32_t)(last - first + 1);
}

const struct cs_histogram_copy *
cs_snapshot_histogram(struct cs_snapshot *snapshot, const struct cs_histogram *histogram)
{
	const struct cs_histogram_class *histogram_class = cs_histogram_borrow_class(histogram);
	struct cs_histogram_copy *copy = cs_arena_take(&snapshot->arena,
		sizeof(*copy) + (histogram_class->bound_count + 1) * sizeof(copy->cumulative[0]));
	uint64_t sum = cs_histogram_sum(histogram);

	if (!copy)
		return NULL;
	copy->histogram_class = histogram_class;
	copy->count = cs_histogram_count_total(histogram);
	/* The classes scale by 1e-9 or by 1, and both have an exact text. */
	copy->sum = histogram_class->scale < 1 ? cs_value_ns(sum) : cs_value_integer(sum);
	for (size_t i = 0; i <= histogram_class->bound_count; i++)
		copy->cumulative[i] = cs_histogram_classic(histogram, i);
	copy->zero_count = cs_histogram_zero_count(histogram);
	copy->native_first = 0;
	copy->native_count = 0;
	copy->native = NULL;
	if (snapshot->native)
		copy_native(snapshot, histogram, copy);
	return copy;
}

/* Label texts are compared as numbers when both are digits only, so that size="65536" comes after "8192". */
static int
label_compare(const char *a, const char *b)
{
	size_t a_length = strlen(a);
	size_t b_length = strlen(b);

	if (strspn(a, "0123456789") == a_length && strspn(b, "0123456789") == b_length &&
		a_length != b_length)
		return a_length < b_length ? -1 : 1;
	return strcmp(a, b);
}

static int
sample_compare(const void *a_pointer, const void *b_pointer, void *context)
{
	const struct cs_sample *a = a_pointer;
	const struct cs_sample *b = b_pointer;
	unsigned int label_count = *(const unsigned int *)context;

	for (unsigned int i = 0; i < label_count; i++) {
		int order = label_compare(a->labels[i], b->labels[i]);

		if (order)
			return order;
	}
	return 0;
}

static void
sample_join(struct cs_sample *into, const struct cs_sample *from, enum cs_combine combine)
{
	if (combine == CS_COMBINE_MAX) {
		if (cs_value_double(from->value) > cs_value_double(into->value))
			into->value = from->value;
		return;
	}
	into->value.integer += from->value.integer;
	into->value.real += from->value.real;
}

int
cs_snapshot_finish(struct cs_snapshot *snapshot)
{
	/* Families of the series table come sorted and unique from there. */
	for (unsigned int id = CS_FAMILY_SERIES_COUNT; id < CS_FAMILY_COUNT; id++) {
		const struct cs_family *family = cs_family_borrow(id);
		struct cs_sample_list *list = &snapshot->families[id];
		unsigned int label_count = family->label_count;
		size_t kept = 0;

		if (list->count < 2)
			continue;
		qsort_r(list->samples, list->count, sizeof(*list->samples), sample_compare, &label_count);
		for (size_t i = 1; i < list->count; i++) {
			if (sample_compare(&list->samples[kept], &list->samples[i], &label_count) == 0)
				sample_join(&list->samples[kept], &list->samples[i], family->combine);
			else
				list->samples[++kept] = list->samples[i];
		}
		list->count = kept + 1;
	}
	return snapshot->arena.failed ? -ENOMEM : 0;
}
