/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include "clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAPACITY 4096U

void
cs_buffer_init(struct cs_buffer *buffer)
{
	*buffer = (struct cs_buffer){0};
}

void
cs_buffer_fini(struct cs_buffer *buffer)
{
	free(buffer->data);
	cs_buffer_init(buffer);
}

bool
cs_buffer_reserve_slow(struct cs_buffer *buffer, size_t bytes)
{
	size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
	char *data;

	if (buffer->failed)
		return false;
	if (buffer->capacity - buffer->length >= bytes)
		return true;
	while (capacity - buffer->length < bytes) {
		if (capacity > SIZE_MAX / 2)
			goto no_memory;
		capacity *= 2;
	}
	data = realloc(buffer->data, capacity);
	if (!data)
		goto no_memory;
	buffer->data = data;
	buffer->capacity = capacity;
	return true;
no_memory:
	buffer->failed = true;
	return false;
}

void
cs_buffer_format(struct cs_buffer *buffer, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	if (length < 0 || !cs_buffer_reserve(buffer, (size_t)length + 1))
		return;
	va_start(arguments, format);
	vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, arguments);
	va_end(arguments);
	buffer->length += (size_t)length;
}

void
cs_buffer_unsigned(struct cs_buffer *buffer, uint64_t value)
{
	char digits[20]; /* 2^64 - 1 has 20 */
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	cs_buffer_bytes(buffer, digits + at, sizeof(digits) - at);
}

void
cs_buffer_nanoseconds(struct cs_buffer *buffer, uint64_t ns)
{
	uint64_t fraction = ns % CS_NS_PER_S;
	char digits[10] = ".000000000";
	size_t length = sizeof(digits);

	cs_buffer_unsigned(buffer, ns / CS_NS_PER_S);
	if (!fraction)
		return;
	for (size_t i = sizeof(digits) - 1; i > 0; i--) {
		digits[i] = (char)('0' + fraction % 10);
		fraction /= 10;
	}
	while (digits[length - 1] == '0')
		length--;
	cs_buffer_bytes(buffer, digits, length);
}

/* Digits and decimal exponent (value = d.ddd * 10^exponent) of the shortest text that reads back as `value`.
 */
static int
shortest_digits(double value, char *digits, size_t digits_bytes)
{
	char text[32];
	size_t count = 0;
	int precision = 0;

	do {
		snprintf(text, sizeof(text), "%.*e", precision, value);
	} while (strtod(text, NULL) != value && ++precision < 17);
	for (const char *at = text; *at != 'e'; at++) {
		if (*at >= '0' && *at <= '9' && count + 1 < digits_bytes)
			digits[count++] = *at;
	}
	while (count > 1 && digits[count - 1] == '0')
		count--;
	digits[count] = '\0';
	return (int)strtol(strchr(text, 'e') + 1, NULL, 10);
}

void
cs_buffer_real(struct cs_buffer *buffer, double value)
{
	char digits[24];
	int count, exponent;

	if (isnan(value)) {
		cs_buffer_text(buffer, "NaN");
		return;
	}
	if (isinf(value)) {
		cs_buffer_text(buffer, value > 0 ? "+Inf" : "-Inf");
		return;
	}
	if (signbit(value))
		cs_buffer_char(buffer, '-');
	exponent = shortest_digits(fabs(value), digits, sizeof(digits));
	count = (int)strlen(digits);
	if (exponent < -4 || exponent >= 6) {
		cs_buffer_char(buffer, digits[0]);
		if (count > 1)
			cs_buffer_format(buffer, ".%s", digits + 1);
		cs_buffer_format(buffer, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
	} else if (exponent < 0) {
		cs_buffer_format(buffer, "0.%.*s%s", -exponent - 1, "000", digits);
	} else if (count <= exponent + 1) {
		cs_buffer_format(buffer, "%s%.*s.0", digits, exponent + 1 - count, "00000");
	} else {
		cs_buffer_format(buffer, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
	}
}
