/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.prometheus.client.MetricFamily, length-delimited: the one exposition that carries native histograms
 * today. Field numbers are those of client_model's metrics.proto:
 *
 *   MetricFamily  1 name, 2 help, 3 type, 4 metric, 5 unit
 *   Metric        1 label, 2 gauge, 3 counter, 7 histogram
 *   LabelPair     1 name, 2 value
 *   Gauge         1 value
 *   Counter       1 value, 3 created_timestamp
 *   Histogram     1 sample_count, 2 sample_sum, 3 bucket, 5 schema (sint32), 6 zero_threshold, 7 zero_count,
 *                 12 positive_span, 13 positive_delta (sint64), 15 created_timestamp
 *   Bucket        1 cumulative_count, 2 upper_bound
 *   BucketSpan    1 offset (sint32), 2 length
 *   Timestamp     1 seconds, 2 nanos
 *
 * A nested message needs its length first, so each is written behind a gap for the longest length and moved
 * down when the length is known.
 */
#include "clock.h"
#include "exposition.h"

#include <stdio.h>
#include <stdlib.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };
enum metric_type { METRIC_COUNTER = 0, METRIC_GAUGE = 1, METRIC_HISTOGRAM = 4 };

#define VARINT_BYTES_MAX 10U

static size_t
encode_varint(uint8_t bytes[VARINT_BYTES_MAX], uint64_t value)
{
	size_t length = 0;

	while (value >= 0x80) {
		bytes[length++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	bytes[length++] = (uint8_t)value;
	return length;
}

static void
put_varint(struct cs_buffer *buffer, uint64_t value)
{
	uint8_t bytes[VARINT_BYTES_MAX] = {0};
	size_t length = encode_varint(bytes, value);

	cs_buffer_bytes(buffer, bytes, length);
}

static void
put_key(struct cs_buffer *buffer, unsigned int field, enum wire_type type)
{
	put_varint(buffer, field << 3 | type);
}

static uint64_t
zigzag(int64_t value)
{
	return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static void
put_unsigned(struct cs_buffer *buffer, unsigned int field, uint64_t value)
{
	put_key(buffer, field, WIRE_VARINT);
	put_varint(buffer, value);
}

static void
put_signed(struct cs_buffer *buffer, unsigned int field, int64_t value)
{
	put_unsigned(buffer, field, zigzag(value));
}

static void
put_double(struct cs_buffer *buffer, unsigned int field, double value)
{
	put_key(buffer, field, WIRE_FIXED64);
	cs_buffer_bytes(buffer, &value, sizeof(value)); /* little-endian, as the hosts are */
}

static void
put_string(struct cs_buffer *buffer, unsigned int field, const char *text)
{
	size_t length = strlen(text);

	put_key(buffer, field, WIRE_BYTES);
	put_varint(buffer, length);
	cs_buffer_bytes(buffer, text, length);
}

/* Starts a nested message (field 0: the outermost, which has a length and no key). Returns where its content
 * is. */
static size_t
open_message(struct cs_buffer *buffer, unsigned int field)
{
	static const uint8_t gap[VARINT_BYTES_MAX];

	if (field)
		put_key(buffer, field, WIRE_BYTES);
	cs_buffer_bytes(buffer, gap, sizeof(gap));
	return buffer->length;
}

static void
close_message(struct cs_buffer *buffer, size_t content)
{
	uint8_t bytes[VARINT_BYTES_MAX];
	size_t length, prefix;

	if (buffer->failed)
		return;
	length = buffer->length - content;
	prefix = encode_varint(bytes, length);
	memcpy(buffer->data + content - VARINT_BYTES_MAX, bytes, prefix);
	memmove(buffer->data + content - VARINT_BYTES_MAX + prefix, buffer->data + content, length);
	buffer->length = content - VARINT_BYTES_MAX + prefix + length;
}

static void
put_timestamp(struct cs_buffer *buffer, unsigned int field, uint64_t ns)
{
	size_t message;

	if (!ns)
		return;
	message = open_message(buffer, field);
	put_unsigned(buffer, 1, ns / CS_NS_PER_S);
	put_unsigned(buffer, 2, ns % CS_NS_PER_S);
	close_message(buffer, message);
}

static void
put_classic_bucket(struct cs_buffer *buffer, uint64_t count, double bound)
{
	size_t message = open_message(buffer, 3);

	put_unsigned(buffer, 1, count);
	put_double(buffer, 2, bound);
	close_message(buffer, message);
}

static void
put_span(struct cs_buffer *buffer, int64_t offset, uint64_t length)
{
	size_t message = open_message(buffer, 12);

	put_signed(buffer, 1, offset);
	put_unsigned(buffer, 2, length);
	close_message(buffer, message);
}

/* The next run of native buckets at or after `from`. Short gaps stay inside a run, as empty buckets: a span
 * costs more than they do. */
static bool
next_run(const struct cs_histogram_copy *copy, uint32_t from, uint32_t *start, uint32_t *end)
{
	static const uint32_t short_gap = 2;

	while (from < copy->native_count && !copy->native[from])
		from++;
	if (from == copy->native_count)
		return false;
	*start = from;
	*end = from + 1;
	for (uint32_t at = *end; at < copy->native_count && at - *end <= short_gap; at++) {
		if (copy->native[at])
			*end = at + 1;
	}
	return true;
}

/* The first span's offset is a bucket index, later ones count the buckets left out before them. The deltas
 * run through all spans. */
static void
put_native_buckets(struct cs_buffer *buffer, const struct cs_histogram_copy *copy)
{
	uint32_t start, end, previous_end = 0;
	int64_t previous = 0;
	size_t deltas;

	if (!copy->native_count) {
		put_span(buffer, 0, 0); /* says "native" of a histogram without buckets */
		return;
	}
	for (uint32_t from = 0; next_run(copy, from, &start, &end); from = previous_end = end)
		put_span(buffer, from ? start - previous_end : copy->native_first + (int64_t)start,
			end - start);
	put_key(buffer, 13, WIRE_BYTES);
	deltas = open_message(buffer, 0);
	for (uint32_t from = 0; next_run(copy, from, &start, &end); from = end) {
		for (uint32_t at = start; at < end; at++) {
			put_varint(buffer, zigzag((int64_t)copy->native[at] - previous));
			previous = (int64_t)copy->native[at];
		}
	}
	close_message(buffer, deltas);
}

static void
put_histogram(struct cs_buffer *buffer, const struct cs_sample *sample)
{
	const struct cs_histogram_copy *copy = sample->histogram;
	const struct cs_histogram_class *bounds = copy->histogram_class;
	size_t message = open_message(buffer, 7);

	put_unsigned(buffer, 1, copy->count);
	put_double(buffer, 2, cs_value_double(copy->sum));
	for (size_t i = 0; i < bounds->bound_count; i++) {
		/* The text's value, so that both formats make the same series. */
		put_classic_bucket(buffer, copy->cumulative[i], strtod(bounds->bound_texts[i], NULL));
	}
	put_signed(buffer, 5, CS_HISTOGRAM_SCHEMA);
	put_double(buffer, 6, 0);
	put_unsigned(buffer, 7, copy->zero_count);
	put_native_buckets(buffer, copy);
	put_timestamp(buffer, 15, sample->created_ns);
	close_message(buffer, message);
}

static void
put_metric(struct cs_buffer *buffer, const struct cs_family *family, const struct cs_sample *sample)
{
	size_t message = open_message(buffer, 4);

	for (unsigned int i = 0; i < family->label_count; i++) {
		size_t pair = open_message(buffer, 1);

		put_string(buffer, 1, family->labels[i]);
		put_string(buffer, 2, sample->labels[i]);
		close_message(buffer, pair);
	}
	if (sample->histogram) {
		put_histogram(buffer, sample);
	} else if (family->type == CS_TYPE_COUNTER) {
		size_t counter = open_message(buffer, 3);

		put_double(buffer, 1, cs_value_double(sample->value));
		put_timestamp(buffer, 3, sample->created_ns);
		close_message(buffer, counter);
	} else {
		size_t gauge = open_message(buffer, 2);

		put_double(buffer, 1, cs_value_double(sample->value));
		close_message(buffer, gauge);
	}
	close_message(buffer, message);
}

void
cs_protobuf_family(
	struct cs_buffer *buffer, const struct cs_family *family, const struct cs_sample_list *samples)
{
	static const enum metric_type types[] = {
		METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_GAUGE, METRIC_GAUGE};
	char name[128];
	size_t message;

	if (!samples->count)
		return;
	snprintf(name, sizeof(name), "%s%s", family->name, cs_family_suffix(family));
	message = open_message(buffer, 0);
	put_string(buffer, 1, name);
	put_string(buffer, 2, family->help);
	put_unsigned(buffer, 3, types[family->type]);
	for (size_t i = 0; i < samples->count; i++)
		put_metric(buffer, family, &samples->samples[i]);
	if (*family->unit)
		put_string(buffer, 5, family->unit);
	close_message(buffer, message);
}
