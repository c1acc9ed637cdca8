/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command line of collscope-exporter. One table drives parsing, defaults, --help and the suggestion for a
 * mistyped flag. Precedence: flag, then COLLSCOPE_* variable (where the table names one), then default. A
 * wrong flag is an error; variables are read as by everybody else (environment.h): a wrong one leaves the
 * default, but for a COLLSCOPE_DIR that is too long.
 *
 * Thread context: start-up.
 */
#ifndef CS_EXPORTER_OPTIONS_H
#define CS_EXPORTER_OPTIONS_H

#include "error.h"
#include "log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CS_LISTEN_MAX           8U
#define CS_OPTION_TEXT_BYTES    512U
#define CS_OPTION_LISTEN_BYTES  128U
#define CS_OPTION_VARIABLES_MAX 7U

struct cs_options {
	char listen[CS_LISTEN_MAX][CS_OPTION_LISTEN_BYTES]; /* "host:port", ":port" */
	size_t listen_count;
	char telemetry_path[CS_OPTION_TEXT_BYTES];
	uint64_t max_requests; /* 0: no limit */
	bool exporter_metrics; /* process_* of the exporter itself */
	enum cs_log_level log_level;
	enum cs_log_format log_format;
	char directory[CS_OPTION_TEXT_BYTES]; /* "" = the default run directory */
	bool automatic;
	uint64_t linger_ns;
	uint64_t retention_ns;
	uint64_t max_series;
	char steps[CS_OPTION_TEXT_BYTES]; /* "" none */
	uint64_t stall_ns;
	bool created;
	/* Whose place no flag has taken; NULL after the last. The caller complains of their values, once it
	 * has a log. */
	const char *variables[CS_OPTION_VARIABLES_MAX + 1];
};

enum cs_options_action { CS_OPTIONS_RUN, CS_OPTIONS_HELP, CS_OPTIONS_VERSION };

/* Fills options from defaults, environment and argv. 0 with *action set; -EINVAL with a sentence for the
 * user. */
int cs_options_parse(struct cs_options *options, int argc, char *const *argv, char *const *envp,
	enum cs_options_action *action, struct cs_error *error);
void cs_options_print_help(FILE *stream);

/* "90s", "1m30s", "500ms", "2h": nanoseconds; a bare number is not a duration. -EINVAL. */
int cs_duration_parse(const char *text, uint64_t *ns);

#endif
