/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as people write and read them. Machine output has plain integers in ns and bytes instead.
 * Thread context: any; no state.
 */
#ifndef CS_UNITS_H
#define CS_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define CS_UNITS_TEXT_BYTES 32

/* "30s", "1.5s", "500ms", "250us", "2m", "1h", "1d", "45" (seconds) -> ns, rounded down. -EINVAL: no such
 * thing, or zero. -ERANGE: over 366 days. */
int cs_units_parse_duration(const char *text, uint64_t *duration_ns);

/* All return `text`, which holds CS_UNITS_TEXT_BYTES. */
/* "212.4 us", "1.25 ms", "3.00 s", "2 m 05 s", "3 h 20 m", "4 d 02 h"; four digits or fewer. */
char *cs_units_format_duration(uint64_t duration_ns, char *text);
/* "42 KiB" where exact, else "42.5 KiB"; "unknown" for CS_BYTES_UNKNOWN. */
char *cs_units_format_bytes(uint64_t bytes, char *text);
/* "1234", "12.3 k", "4.56 M", "7.89 G". */
char *cs_units_format_count(uint64_t count, char *text);
/* CLOCK_REALTIME ns as "2026-08-21 10:11:12.345678901" in UTC. */
char *cs_units_format_time(uint64_t time_ns, char *text);

/* CLOCK_REALTIME ns as "10:11:12Z": today's time of day, UTC. */
char *cs_units_format_clock(uint64_t time_ns, char *text);

/* That for a time of the same day (UTC) as now, else "2026-08-21 10:11:12Z". */
char *cs_units_format_when(uint64_t time_ns, uint64_t now_ns, char *text);

/* "10:11:12Z" with how long it is until then: "10:11:12Z (in 42.0 s)". text holds CS_UNITS_MOMENT_BYTES. */
#define CS_UNITS_MOMENT_BYTES 80
char *cs_units_format_moment(uint64_t time_ns, uint64_t now_ns, char *text);

#endif
