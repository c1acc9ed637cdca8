/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"
#include "units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void
durations_are_parsed(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {{"30s", 30000000000}, {"45", 45000000000}, {"1.5s", 1500000000}, {"500ms", 500000000},
		{"250us", 250000}, {"1ns", 1}, {"2m", 120000000000}, {"1h", 3600000000000},
		{"366d", 31622400000000000}, {"0.1s", 100000000}};
	static const char *const bad[] = {
		"", "s", "-1s", "0", "0s", "1 s", " 1s", "1w", "1sec", "inf", "nan", "0x10", "1e", "+5s"};
	uint64_t ns = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(cs_units_parse_duration(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	ns = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(cs_units_parse_duration(bad[i], &ns), -EINVAL);
	assert_int_equal(cs_units_parse_duration("367d", &ns), -ERANGE);
	assert_int_equal(cs_units_parse_duration("1e300s", &ns), -ERANGE);
	assert_int_equal(ns, 7);
}

static void
durations_are_printed(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0 ns"}, {999, "999 ns"}, {1000, "1.0 us"}, {212400, "212.4 us"},
		{999499, "999.5 us"}, {999500, "1.00 ms"}, {1250000, "1.25 ms"}, {12500000, "12.5 ms"},
		{125000000, "125 ms"}, {3000000000, "3.00 s"}, {59400000000, "59.4 s"},
		{59999000000, "1 m 00 s"}, {125000000000, "2 m 05 s"}, {12000000000000, "3 h 20 m"},
		{352800000000000, "4 d 02 h"}};
	char text[CS_UNITS_TEXT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(cs_units_format_duration(cases[i].ns, text), cases[i].text);
}

static void
sizes_and_counts_are_printed(void **state)
{
	char text[CS_UNITS_TEXT_BYTES];

	(void)state;
	assert_string_equal(cs_units_format_bytes(0, text), "0 B");
	assert_string_equal(cs_units_format_bytes(1023, text), "1023 B");
	assert_string_equal(cs_units_format_bytes(43008, text), "42 KiB");
	assert_string_equal(cs_units_format_bytes(43520, text), "42.5 KiB");
	assert_string_equal(cs_units_format_bytes(1ULL << 30, text), "1 GiB");
	assert_string_equal(cs_units_format_bytes(CS_BYTES_UNKNOWN, text), "unknown");
	assert_string_equal(cs_units_format_bytes(UINT64_MAX - 1, text), "16777216 TiB");
	assert_string_equal(cs_units_format_count(9999, text), "9999");
	assert_string_equal(cs_units_format_count(12345, text), "12.3 k");
	assert_string_equal(cs_units_format_count(999999, text), "1.00 M");
	assert_string_equal(cs_units_format_count(4560000, text), "4.56 M");
	assert_string_equal(cs_units_format_count(UINT64_MAX, text), "18.4 E");
}

static void
times_are_printed(void **state)
{
	char text[CS_UNITS_TEXT_BYTES];

	(void)state;
	/* date -u -d '2026-08-21 10:11:12' +%s = 1787307072 */
	assert_string_equal(
		cs_units_format_time(1787307072345678901ULL, text), "2026-08-21 10:11:12.345678901");
	assert_string_equal(cs_units_format_time(0, text), "1970-01-01 00:00:00.000000000");
	assert_string_equal(
		cs_units_format_when(1787307072345678901ULL, 1787270400000000000ULL, text), "10:11:12Z");
	assert_string_equal(cs_units_format_when(1787307072345678901ULL, 1787270399999999999ULL, text),
		"2026-08-21 10:11:12Z");
	cs_units_format_time(UINT64_MAX, text);
	assert_in_range(text[0], '0', '9');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_are_parsed),
		cmocka_unit_test(durations_are_printed),
		cmocka_unit_test(sizes_and_counts_are_printed),
		cmocka_unit_test(times_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
