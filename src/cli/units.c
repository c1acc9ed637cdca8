/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include "clock.h"
#include "collective.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nobody has a ring that long; keeps sums of time and duration far from overflow. */
#define CS_DURATION_MAX_NS (366ULL * 24 * 3600 * CS_NS_PER_S)

int
cs_units_parse_duration(const char *text, uint64_t *duration_ns)
{
	static const struct {
		const char *suffix;
		double ns;
	} units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"m", 60e9}, {"h", 3600e9},
		{"d", 86400e9}};
	char *end = NULL;
	double number;

	/* strtod also takes "inf", "nan", "0x1p3" and leading blanks: a duration starts with a decimal digit.
	 */
	if (!isdigit((unsigned char)text[0]) || strpbrk(text, "xX"))
		return -EINVAL;
	number = strtod(text, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].suffix) != 0)
			continue;
		number *= units[i].ns;
		if (!(number >= 1))
			return -EINVAL;
		if (number > (double)CS_DURATION_MAX_NS)
			return -ERANGE;
		*duration_ns = (uint64_t)(number + 1e-6);
		return 0;
	}
	return -EINVAL;
}

/* Three significant digits at least, never an exponent: 1.25, 12.5, 125. */
static int
decimals(double value)
{
	return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

char *
cs_units_format_duration(uint64_t duration_ns, char *text)
{
	static const struct {
		double ns;
		const char *name;
	} units[] = {{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}};
	uint64_t seconds = (duration_ns + CS_NS_PER_S / 2) / CS_NS_PER_S;

	if (duration_ns < 1000) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%" PRIu64 " ns", duration_ns);
	} else if (seconds < 60) {
		size_t unit = duration_ns < 999500 ? 0 : duration_ns < 999500000 ? 1 : 2;
		double value = (double)duration_ns / units[unit].ns;

		/* Microseconds keep a tenth: the difference between two all-reduces is there. */
		snprintf(text, CS_UNITS_TEXT_BYTES, "%.*f %s", unit == 0 ? 1 : decimals(value), value,
			units[unit].name);
	} else if (seconds < 3600) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%u m %02u s", (unsigned int)(seconds / 60),
			(unsigned int)(seconds % 60));
	} else if (seconds < 86400) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%u h %02u m", (unsigned int)(seconds / 3600),
			(unsigned int)(seconds / 60 % 60));
	} else {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%" PRIu64 " d %02u h", seconds / 86400,
			(unsigned int)(seconds / 3600 % 24));
	}
	return text;
}

char *
cs_units_format_bytes(uint64_t bytes, char *text)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	size_t unit = 0;

	if (bytes == CS_BYTES_UNKNOWN) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "unknown");
		return text;
	}
	while (unit + 1 < sizeof(names) / sizeof(names[0]) && bytes >> (10 * (unit + 1)))
		unit++;
	if (bytes % (1ULL << (10 * unit)) == 0) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%" PRIu64 " %s", bytes >> (10 * unit), names[unit]);
	} else {
		double value = (double)bytes / (double)(1ULL << (10 * unit));

		snprintf(text, CS_UNITS_TEXT_BYTES, "%.*f %s", decimals(value), value, names[unit]);
	}
	return text;
}

char *
cs_units_format_count(uint64_t count, char *text)
{
	static const char names[] = {'k', 'M', 'G', 'T', 'P', 'E'};
	double value = (double)count;
	size_t unit = 0;

	if (count < 10000) {
		snprintf(text, CS_UNITS_TEXT_BYTES, "%" PRIu64, count);
		return text;
	}
	for (value /= 1000; value >= 999.5 && unit + 1 < sizeof(names); value /= 1000)
		unit++;
	snprintf(text, CS_UNITS_TEXT_BYTES, "%.*f %c", decimals(value), value, names[unit]);
	return text;
}

char *
cs_units_format_time(uint64_t time_ns, char *text)
{
	time_t seconds = (time_t)(time_ns / CS_NS_PER_S);
	struct tm parts;
	size_t used = 0;

	if (gmtime_r(&seconds, &parts))
		used = strftime(text, CS_UNITS_TEXT_BYTES, "%Y-%m-%d %H:%M:%S", &parts);
	if (used == 0 || used > 19) /* a year of five digits: not a time of ours, show the number */
		snprintf(text, CS_UNITS_TEXT_BYTES, "%" PRIu64 " ns", time_ns);
	else
		snprintf(text + used, CS_UNITS_TEXT_BYTES - used, ".%09u",
			(unsigned int)(time_ns % CS_NS_PER_S));
	return text;
}

char *
cs_units_format_clock(uint64_t time_ns, char *text)
{
	unsigned int seconds = (unsigned int)(time_ns / CS_NS_PER_S % 86400);

	snprintf(text, CS_UNITS_TEXT_BYTES, "%02u:%02u:%02uZ", seconds / 3600, seconds / 60 % 60,
		seconds % 60);
	return text;
}

char *
cs_units_format_when(uint64_t time_ns, uint64_t now_ns, char *text)
{
	const uint64_t day_ns = 86400 * CS_NS_PER_S;
	char *point;

	if (time_ns / day_ns == now_ns / day_ns)
		return cs_units_format_clock(time_ns, text);
	point = strchr(cs_units_format_time(time_ns, text), '.');
	if (point)
		memcpy(point, "Z", sizeof("Z"));
	return text;
}

char *
cs_units_format_moment(uint64_t time_ns, uint64_t now_ns, char *text)
{
	char clock[CS_UNITS_TEXT_BYTES], duration[CS_UNITS_TEXT_BYTES];

	snprintf(text, CS_UNITS_MOMENT_BYTES, "%s (in %s)", cs_units_format_clock(time_ns, clock),
		cs_units_format_duration(time_ns > now_ns ? time_ns - now_ns : 0, duration));
	return text;
}
