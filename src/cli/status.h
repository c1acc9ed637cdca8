/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three views of `collscope status`: a table, a long form, and JSON (docs/dump.md describes its members).
 * Thread context: main thread.
 */
#ifndef CS_STATUS_H
#define CS_STATUS_H

#include "page.h"
#include "stalls.h"
#include "summary.h"
#include "targets.h"

#include <stdio.h>

/* 0 or -ENOMEM. */
int cs_status_print_table(const struct cs_targets *targets, FILE *stream, struct cs_page *page);
int cs_status_print_long(
	const struct cs_targets *targets, const struct cs_phase_rules *phase_rules, FILE *stream);
/* Who serves the metrics: `exporter: serving ADDRESS`, or that there is none and why. A traced process starts
 * the exporter behind everybody's back: here is where people look. */
void cs_status_print_exporter(const struct cs_targets *targets, FILE *stream);
/* One object and a newline. `phase_rules` and `summary` may be NULL: left out. */
int cs_status_print_json(const struct cs_targets *targets, const struct cs_phase_rules *phase_rules,
	const struct cs_summary *summary, const struct cs_stalls *stalls, FILE *stream);

/* What the last exporter of the directory said when it ended, if somebody should be served now and nobody is;
 * else -ENOENT. *started (may be NULL): as cs_exporter_last_words has it. */
int cs_status_why_no_exporter(const struct cs_targets *targets, char *text, size_t text_bytes, bool *started);

/* Sums over causes and reasons. */
uint64_t cs_status_records(const struct cs_target *target);
uint64_t cs_status_unlabelled(const struct cs_target *target);
/* As segment/segment_state.h says. */
const char *cs_status_state(const struct cs_target *target);
uint64_t cs_status_request_until_ns(const struct cs_target *target);

#endif
