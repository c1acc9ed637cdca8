/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing byte buffer. A failed allocation is remembered in `failed` and later calls do nothing, so a
 * writer of many pieces checks once, at the end. `data` is not NUL-terminated.
 *
 * Thread context: one thread at a time.
 */
#ifndef CS_EXPORTER_BUFFER_H
#define CS_EXPORTER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cs_buffer {
	char *data;
	size_t length;
	size_t capacity;
	bool failed;
};

void cs_buffer_init(struct cs_buffer *buffer);
void cs_buffer_fini(struct cs_buffer *buffer);
/* Room for `bytes` more; false (and `failed`) when there is no memory. */
bool cs_buffer_reserve_slow(struct cs_buffer *buffer, size_t bytes);
void cs_buffer_format(struct cs_buffer *buffer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void cs_buffer_unsigned(struct cs_buffer *buffer, uint64_t value);
/* Nanoseconds as seconds, exactly: 1500000000 -> "1.5", 5 -> "0.000000005", 0 -> "0". */
void cs_buffer_nanoseconds(struct cs_buffer *buffer, uint64_t ns);
/* The shortest text that reads back as the same double, in OpenMetrics' canonical shape: 1.0, 0.0001, 1e-05,
 * 1e+06, +Inf, -Inf, NaN. */
void cs_buffer_real(struct cs_buffer *buffer, double value);

static inline bool
cs_buffer_reserve(struct cs_buffer *buffer, size_t bytes)
{
	if (buffer->capacity - buffer->length >= bytes)
		return !buffer->failed;
	return cs_buffer_reserve_slow(buffer, bytes);
}

static inline void
cs_buffer_bytes(struct cs_buffer *buffer, const void *bytes, size_t length)
{
	if (!length || !cs_buffer_reserve(buffer, length))
		return;
	memcpy(buffer->data + buffer->length, bytes, length);
	buffer->length += length;
}

static inline void
cs_buffer_text(struct cs_buffer *buffer, const char *text)
{
	cs_buffer_bytes(buffer, text, strlen(text));
}

static inline void
cs_buffer_char(struct cs_buffer *buffer, char character)
{
	if (!cs_buffer_reserve(buffer, 1))
		return;
	buffer->data[buffer->length++] = character;
}

#endif
