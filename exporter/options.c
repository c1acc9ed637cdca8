/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "address.h"
#include "clock.h"
#include "environment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum option_type {
	OPTION_SWITCH,   /* bool; --no-NAME turns it off */
	OPTION_LISTEN,   /* repeatable */
	OPTION_TEXT,     /* char[CS_OPTION_TEXT_BYTES] */
	OPTION_COUNT,    /* uint64_t */
	OPTION_DURATION, /* uint64_t ns */
	OPTION_SECONDS,  /* uint64_t ns above 0; a number alone is seconds, as in the variable */
	OPTION_LEVEL,
	OPTION_FORMAT,
	OPTION_ACTION
};

struct option_row {
	const char *name; /* without the dashes */
	enum option_type type;
	size_t offset;        /* in struct cs_options */
	const char *value;    /* what the value is, for the help */
	const char *fallback; /* "" = none or off */
	const char *variable; /* environment, or NULL */
	const char *help;
};

#define AT(field) offsetof(struct cs_options, field)

static const struct option_row rows[] = {
	{"web.listen-address", OPTION_LISTEN, 0, "ADDRESS:PORT", "127.0.0.1:19400", "COLLSCOPE_LISTEN",
		"Where to serve; may be given several times. \":19400\" is every address of the machine."},
	{"web.telemetry-path", OPTION_TEXT, AT(telemetry_path), "PATH", "/metrics", NULL,
		"Path of the metrics."},
	{"web.max-requests", OPTION_COUNT, AT(max_requests), "N", "40", NULL,
		"Scrapes served at once; further ones get 503. 0 is no limit."},
	{"web.exporter-metrics", OPTION_SWITCH, AT(exporter_metrics), NULL, "on", NULL,
		"Serve process_* of the exporter itself (--no-web.exporter-metrics: do not)."},
	{"log.level", OPTION_LEVEL, AT(log_level), "LEVEL", "info", NULL,
		"Least level of log lines: error, warn, info, debug (warn with --collscope.auto)."},
	{"log.format", OPTION_FORMAT, AT(log_format), "FORMAT", "logfmt", NULL, "logfmt or json."},
	{"collscope.dir", OPTION_TEXT, AT(directory), "DIR", "", "COLLSCOPE_DIR",
		"Run directory with the segments; default /run/collscope, else /dev/shm/collscope-<uid>."},
	{"collscope.auto", OPTION_SWITCH, AT(automatic), NULL, "", NULL,
		"Started by a traced process: exit 0 when another exporter serves the directory, leave when "
		"unused."},
	{"collscope.linger", OPTION_DURATION, AT(linger_ns), "DURATION", "60s", NULL,
		"How long to keep the segment of a dead process, and to stay without a live one under "
		"--collscope.auto; what is kept goes before it leaves."},
	{"collscope.retention", OPTION_DURATION, AT(retention_ns), "DURATION", "5m", NULL,
		"How long to serve the series of a dead process."},
	{"collscope.max-series", OPTION_COUNT, AT(max_series), "N", "50000", NULL,
		"Most time series of traced processes; what is beyond goes to series with the value other."},
	{"collscope.steps", OPTION_TEXT, AT(steps), "FILE", "", "COLLSCOPE_STEPS",
		"Rules that name steps and phases."},
	{"collscope.stall", OPTION_SECONDS, AT(stall_ns), "DURATION", "10s", "COLLSCOPE_STALL_S",
		"How long a rank stands still before it is said."},
	{"collscope.created", OPTION_SWITCH, AT(created), NULL, "", NULL,
		"Write _created samples in OpenMetrics (Prometheus before 3 stores each as a series)."},
	{"version", OPTION_ACTION, CS_OPTIONS_VERSION, NULL, "", NULL, "Print the version and exit."},
	{"help", OPTION_ACTION, CS_OPTIONS_HELP, NULL, "", NULL, "Print this text and exit (also -h)."},
};

#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

int
cs_duration_parse(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ms", CS_NS_PER_MS}, {"s", CS_NS_PER_S}, {"m", 60 * CS_NS_PER_S},
		{"h", 3600 * CS_NS_PER_S}, {"d", 86400 * CS_NS_PER_S}};
	uint64_t total = 0;

	if (!*text)
		return -EINVAL;
	while (*text) {
		size_t digits = strspn(text, "0123456789");
		size_t letters = strcspn(text + digits, "0123456789");
		uint64_t number, factor = 0;

		if (!digits || digits > 9)
			return -EINVAL;
		number = strtoull(text, NULL, 10);
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strlen(units[i].unit) == letters &&
				strncmp(text + digits, units[i].unit, letters) == 0)
				factor = units[i].ns;
		}
		if (!factor || number > (UINT64_MAX / 2 - total) / factor)
			return -EINVAL;
		total += number * factor;
		text += digits + letters;
	}
	*ns = total;
	return 0;
}

static int
set_text(char *field, size_t field_bytes, const char *name, const char *value, struct cs_error *error)
{
	if (strlen(value) >= field_bytes)
		return cs_error_set(
			error, -EINVAL, "the value of --%s is longer than %zu bytes", name, field_bytes - 1);
	memcpy(field, value, strlen(value) + 1);
	return 0;
}

static int
set_count(uint64_t *field, const char *name, const char *value, struct cs_error *error)
{
	char *end;

	errno = 0;
	*field = strtoull(value, &end, 10);
	if (errno || end == value || *end || strspn(value, "0123456789") != strlen(value))
		return cs_error_set(error, -EINVAL, "--%s needs a whole number, not \"%s\"", name, value);
	return 0;
}

static int
set_listen(struct cs_options *options, const char *name, const char *value, struct cs_error *error)
{
	if (options->listen_count == CS_LISTEN_MAX)
		return cs_error_set(
			error, -EINVAL, "--%s may be given %u times at most", name, CS_LISTEN_MAX);
	return set_text(options->listen[options->listen_count++], CS_OPTION_LISTEN_BYTES, name, value, error);
}

static int
set_name(int parsed, void *field, const char *name, const char *value, const char *known,
	struct cs_error *error)
{
	if (parsed < 0)
		return cs_error_set(error, -EINVAL, "--%s is one of %s, not \"%s\"", name, known, value);
	memcpy(field, &parsed, sizeof(parsed));
	return 0;
}

_Static_assert(sizeof(enum cs_log_level) == sizeof(int) && sizeof(enum cs_log_format) == sizeof(int),
	"set_name stores an int");

static int
set_seconds(uint64_t *field, const char *name, const char *value, struct cs_error *error)
{
	char text[32];

	snprintf(text, sizeof(text), "%s%s", value, strspn(value, "0123456789") == strlen(value) ? "s" : "");
	if (strlen(value) + 1 < sizeof(text) && cs_duration_parse(text, field) == 0 && *field > 0)
		return 0;
	return cs_error_set(
		error, -EINVAL, "--%s needs a duration above 0 such as 30s or 2m, not \"%s\"", name, value);
}

static int
set_value(struct cs_options *options, const struct option_row *row, const char *value, struct cs_error *error)
{
	char *field = (char *)options + row->offset;

	switch (row->type) {
	case OPTION_LISTEN:
		return set_listen(options, row->name, value, error);
	case OPTION_TEXT:
		return set_text(field, CS_OPTION_TEXT_BYTES, row->name, value, error);
	case OPTION_COUNT:
		return set_count((uint64_t *)(void *)field, row->name, value, error);
	case OPTION_DURATION:
		if (cs_duration_parse(value, (uint64_t *)(void *)field) < 0)
			return cs_error_set(error, -EINVAL,
				"--%s needs a duration such as 90s, 5m or 1h30m, not \"%s\"", row->name,
				value);
		return 0;
	case OPTION_SECONDS:
		return set_seconds((uint64_t *)(void *)field, row->name, value, error);
	case OPTION_LEVEL:
		return set_name(cs_log_level_parse(value), field, row->name, value,
			"error, warn, info, debug", error);
	case OPTION_FORMAT:
		return set_name(strcmp(value, "plain") == 0 ? -EINVAL : cs_log_format_parse(value), field,
			row->name, value, "logfmt, json", error);
	case OPTION_SWITCH:
		*(bool *)field = strcmp(value, "on") == 0;
		return 0;
	case OPTION_ACTION:
		return 0;
	}
	return 0;
}

static int
set_defaults(struct cs_options *options, struct cs_error *error)
{
	int result = 0;

	*options = (struct cs_options){0};
	for (size_t i = 0; i < ROW_COUNT && result == 0; i++) {
		if (*rows[i].fallback)
			result = set_value(options, &rows[i], rows[i].fallback, error);
	}
	return result;
}

_Static_assert(sizeof(((struct cs_settings *)0)->listen) == CS_OPTION_LISTEN_BYTES &&
		       sizeof(((struct cs_settings *)0)->directory) == CS_OPTION_TEXT_BYTES &&
		       sizeof(((struct cs_settings *)0)->steps) == CS_OPTION_TEXT_BYTES,
	"what variables hold has room");

/* As everybody reads them: what is no value of a variable leaves its default. */
static void
set_from_variables(struct cs_options *options, const struct cs_settings *settings)
{
	memcpy(options->listen[0], settings->listen, sizeof(settings->listen));
	memcpy(options->directory, settings->directory, sizeof(settings->directory));
	memcpy(options->steps, settings->steps, sizeof(settings->steps));
	options->stall_ns = settings->stall_s * CS_NS_PER_S;
}

static int
unknown_flag(const char *word, struct cs_error *error)
{
	const char *names[ROW_COUNT];
	char name[64];
	const char *suggestion;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	for (size_t i = 0; i < ROW_COUNT; i++)
		names[i] = rows[i].name;
	suggestion = cs_suggest(name, names, ROW_COUNT);
	if (suggestion)
		return cs_error_set(
			error, -EINVAL, "unknown flag --%s; did you mean --%s?", name, suggestion);
	return cs_error_set(error, -EINVAL, "unknown flag --%s; --help lists them", name);
}

/* Which flags are on the command line, by row. */
struct given {
	bool rows[ROW_COUNT];
};

static const struct option_row *
find_row(const char *name, size_t length)
{
	for (size_t i = 0; i < ROW_COUNT; i++) {
		if (strlen(rows[i].name) == length && strncmp(rows[i].name, name, length) == 0)
			return &rows[i];
	}
	return NULL;
}

static bool
is_given(const struct given *given, const char *name)
{
	return given->rows[find_row(name, strlen(name)) - rows];
}

/* One flag at argv[*at]; moves *at over its value. */
static int
parse_flag(struct cs_options *options, struct given *given, char *const *argv, int argc, int *at,
	enum cs_options_action *action, struct cs_error *error)
{
	const char *word = argv[*at];
	const char *name = word + 2;
	size_t length = strcspn(name, "=");
	const char *value = name[length] ? name + length + 1 : NULL;
	const struct option_row *row = find_row(name, length);
	bool negated = !row && strncmp(name, "no-", 3) == 0;

	if (negated)
		row = find_row(name + 3, length - 3);
	if (!row || (negated && row->type != OPTION_SWITCH))
		return unknown_flag(word, error);
	/* The first address on the command line takes the place of the default. */
	if (row->type == OPTION_LISTEN && !given->rows[row - rows])
		options->listen_count = 0;
	given->rows[row - rows] = true;
	if (row->type == OPTION_ACTION || row->type == OPTION_SWITCH) {
		if (value)
			return cs_error_set(error, -EINVAL, "--%.*s takes no value", (int)length, name);
		if (row->type == OPTION_ACTION)
			*action = (enum cs_options_action)row->offset;
		return set_value(options, row, negated ? "off" : "on", error);
	}
	if (!value && *at + 1 < argc)
		value = argv[++*at];
	if (!value)
		return cs_error_set(
			error, -EINVAL, "--%s needs a value: --%s=%s", row->name, row->name, row->value);
	return set_value(options, row, value, error);
}

/* Those of the command line. What somebody else's variable says, which a traced process hands on with
 * --collscope.auto, is found out when it listens: then there is a log, where people look. */
static int
check_addresses(const struct cs_options *options, struct cs_error *error)
{
	for (size_t i = 0; i < options->listen_count; i++) {
		if (!cs_address_is_valid(options->listen[i]))
			return cs_error_set(error, -EINVAL,
				"--web.listen-address needs " CS_ADDRESS_FORMS
				" with a port from 0 to 65535, not \"%s\"",
				options->listen[i]);
	}
	return 0;
}

static int
check(const struct cs_options *options, const struct given *given, const struct cs_settings *settings,
	struct cs_error *error)
{
	const char *path = options->telemetry_path;

	/* Who named a directory does not want another one. */
	if (settings->directory_too_long && !is_given(given, "collscope.dir"))
		return cs_error_set(
			error, -EINVAL, "COLLSCOPE_DIR is longer than %u bytes", CS_OPTION_TEXT_BYTES - 1);
	if (path[0] != '/' || strcmp(path, "/") == 0 || strncmp(path, "/-/", 3) == 0)
		return cs_error_set(error, -EINVAL,
			"--web.telemetry-path must start with \"/\" and be none of \"/\", \"/-/...\": \"%s\"",
			path);
	if (is_given(given, "web.listen-address") && !options->automatic)
		return check_addresses(options, error);
	return 0;
}

static void
list_variables(struct cs_options *options, const struct given *given)
{
	size_t count = 0;

	for (size_t i = 0; i < ROW_COUNT && count < CS_OPTION_VARIABLES_MAX; i++) {
		if (rows[i].variable && !given->rows[i])
			options->variables[count++] = rows[i].variable;
	}
}

int
cs_options_parse(struct cs_options *options, int argc, char *const *argv, char *const *envp,
	enum cs_options_action *action, struct cs_error *error)
{
	static struct cs_settings settings; /* large */
	struct given given = {0};
	int result = set_defaults(options, error);

	*action = CS_OPTIONS_RUN;
	cs_settings_load(&settings, envp, NULL, NULL);
	if (result == 0)
		set_from_variables(options, &settings);
	for (int at = 1; at < argc && result == 0; at++) {
		const char *word = argv[at];

		if (strcmp(word, "-h") == 0) {
			*action = CS_OPTIONS_HELP;
			return 0;
		}
		if (strncmp(word, "--", 2) != 0 || !word[2])
			return cs_error_set(
				error, -EINVAL, "unexpected argument \"%s\"; --help lists the flags", word);
		result = parse_flag(options, &given, argv, argc, &at, action, error);
		if (result == 0 && *action != CS_OPTIONS_RUN)
			return 0;
	}
	if (result < 0)
		return result;
	if (options->automatic && !is_given(&given, "log.level"))
		options->log_level = CS_LOG_WARN;
	list_variables(options, &given);
	return check(options, &given, &settings, error);
}

void
cs_options_print_help(FILE *stream)
{
	fputs("Usage: collscope-exporter [flags]\n\n"
	      "Serves what collscope records in the processes of this machine as Prometheus metrics.\n\n"
	      "Examples:\n"
	      "  collscope-exporter\n"
	      "  collscope-exporter --web.listen-address=:19400 --log.format=json\n"
	      "  curl http://127.0.0.1:19400/metrics\n\n"
	      "Flags:\n",
		stream);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		const struct option_row *row = &rows[i];

		fprintf(stream, "  --%s%s%s\n      %s", row->name, row->value ? "=" : "",
			row->value ? row->value : "", row->help);
		if (*row->fallback)
			fprintf(stream, " [default: %s]", row->fallback);
		if (row->variable)
			fprintf(stream, " [environment: %s]", row->variable);
		fputc('\n', stream);
	}
	fputs("\nExit status: 0 after a signal or when no longer needed, 1 when it could not start or serve, "
	      "2 for a wrong\n"
	      "command line.\n",
		stream);
}
