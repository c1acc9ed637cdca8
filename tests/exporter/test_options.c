/* SPDX-License-Identifier: Apache-2.0 */
/* Flags, variables, defaults, and what the user is told. */
#include "options.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>

static struct cs_options options;
static enum cs_options_action action;
static struct cs_error error;

/* line: the words behind the program's name. */
static int
parse(const char *line, char *const *environment)
{
	static char words[512];
	static char *arguments[16];
	int count = 0;

	snprintf(words, sizeof(words), "exporter %s", line);
	for (char *word = strtok(words, " "); word && count < 15; word = strtok(NULL, " "))
		arguments[count++] = word;
	arguments[count] = NULL;
	return cs_options_parse(&options, count, arguments, environment, &action, &error);
}

static char listen_variable[] = "COLLSCOPE_LISTEN=:1";
static char directory_variable[] = "COLLSCOPE_DIR=/from/variable";
static char home_variable[] = "HOME=/";
static char *environment_with[] = {listen_variable, directory_variable, NULL};
static char *environment_without[] = {home_variable, NULL};

static void
test_defaults(void **state)
{
	char *const *environment = environment_without;

	(void)state;
	assert_int_equal(parse("", environment), 0);
	assert_int_equal(action, CS_OPTIONS_RUN);
	assert_int_equal(options.listen_count, 1);
	assert_string_equal(options.listen[0], "127.0.0.1:19400");
	assert_string_equal(options.telemetry_path, "/metrics");
	assert_int_equal(options.retention_ns, 300000000000ULL);
	assert_int_equal(options.log_level, CS_LOG_INFO);
	assert_true(options.exporter_metrics);
	assert_false(options.automatic);
}

static void
test_precedence(void **state)
{
	char *const *environment = environment_with;

	(void)state;
	assert_int_equal(parse("", environment), 0);
	assert_string_equal(options.listen[0], ":1");
	assert_string_equal(options.directory, "/from/variable");
	assert_int_equal(
		parse("--web.listen-address=:2 --web.listen-address :3 --collscope.dir=/d", environment), 0);
	assert_int_equal(options.listen_count, 2);
	assert_string_equal(options.listen[0], ":2");
	assert_string_equal(options.listen[1], ":3");
	assert_string_equal(options.directory, "/d");
}

/* What a variable says is taken as the library and the command take it: a wrong value leaves the default. */
static void
test_wrong_variables(void **state)
{
	static const char *const stalls[] = {"abc", "2m", "0", "100000", "5s", ""};
	char stall[64], listen[256], steps[600], directory[600];
	char *const environment[] = {stall, listen, steps, directory, NULL};

	(void)state;
	snprintf(listen, sizeof(listen), "COLLSCOPE_LISTEN=%0200d:1", 0);
	snprintf(steps, sizeof(steps), "COLLSCOPE_STEPS=/%0540d", 0);
	strcpy(directory, "COLLSCOPE_DIR=");
	for (size_t i = 0; i < sizeof(stalls) / sizeof(stalls[0]); i++) {
		snprintf(stall, sizeof(stall), "COLLSCOPE_STALL_S=%s", stalls[i]);
		assert_int_equal(parse("", environment), 0);
		assert_int_equal(options.stall_ns, 10000000000ULL);
		assert_int_equal(options.listen_count, 1);
		assert_string_equal(options.listen[0], "127.0.0.1:19400");
		assert_string_equal(options.steps, "");
	}
	strcpy(stall, "COLLSCOPE_STALL_S=20");
	assert_int_equal(parse("", environment), 0);
	assert_int_equal(options.stall_ns, 20000000000ULL);
	assert_int_equal(parse("--collscope.stall=2m", environment), 0);
	assert_int_equal(options.stall_ns, 120000000000ULL);
	/* But not another directory. */
	snprintf(directory, sizeof(directory), "COLLSCOPE_DIR=/%0540d", 0);
	assert_int_equal(parse("", environment), -EINVAL);
	assert_non_null(strstr(error.text, "COLLSCOPE_DIR is longer than 511 bytes"));
	assert_int_equal(parse("--collscope.dir=/d", environment), 0);
	assert_string_equal(options.directory, "/d");
}

/* Those whose values hold. */
static void
test_variables_to_complain_of(void **state)
{
	static const char *const all[] = {
		"COLLSCOPE_LISTEN", "COLLSCOPE_DIR", "COLLSCOPE_STEPS", "COLLSCOPE_STALL_S"};

	(void)state;
	assert_int_equal(parse("", environment_without), 0);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(options.variables[i], all[i]);
	assert_null(options.variables[4]);
	assert_int_equal(
		parse("--collscope.stall=5s --web.listen-address=:1 --collscope.dir /d", environment_without),
		0);
	assert_string_equal(options.variables[0], "COLLSCOPE_STEPS");
	assert_null(options.variables[1]);
}

/* What a traced process starts it with. */
static void
test_automatic(void **state)
{
	char *const *environment = environment_without;

	(void)state;
	assert_int_equal(
		parse("--collscope.auto --collscope.dir=/d --web.listen-address=127.0.0.1:0", environment),
		0);
	assert_true(options.automatic);
	assert_int_equal(options.log_level, CS_LOG_WARN);
	assert_int_equal(
		parse("--collscope.auto --log.level=debug --no-web.exporter-metrics", environment), 0);
	assert_int_equal(options.log_level, CS_LOG_DEBUG);
	assert_false(options.exporter_metrics);
}

static void
test_complaints(void **state)
{
	char *const *environment = environment_without;

	(void)state;
	assert_int_equal(parse("--web.listen-adress=:1", environment), -EINVAL);
	assert_non_null(strstr(error.text, "did you mean --web.listen-address?"));
	assert_int_equal(parse("--log.level=loud", environment), -EINVAL);
	assert_non_null(strstr(error.text, "error, warn, info, debug"));
	assert_int_equal(parse("--collscope.retention=5", environment), -EINVAL);
	assert_non_null(strstr(error.text, "90s, 5m"));
	assert_int_equal(parse("--collscope.retention", environment), -EINVAL);
	assert_int_equal(parse("--collscope.stall=0", environment), -EINVAL);
	assert_int_equal(parse("--collscope.stall=soon", environment), -EINVAL);
	assert_non_null(strstr(error.text, "30s or 2m"));
	assert_int_equal(parse("--collscope.auto=yes", environment), -EINVAL);
	assert_int_equal(parse("--no-collscope.dir", environment), -EINVAL);
	assert_int_equal(parse("--web.telemetry-path=metrics", environment), -EINVAL);
	assert_int_equal(parse("--web.max-requests=-1", environment), -EINVAL);
	assert_int_equal(parse("extra", environment), -EINVAL);
	assert_int_equal(parse("--help --nonsense", environment), 0);
	assert_int_equal(action, CS_OPTIONS_HELP);
}

static void
test_durations(void **state)
{
	uint64_t ns;

	(void)state;
	assert_int_equal(cs_duration_parse("90s", &ns), 0);
	assert_int_equal(ns, 90000000000ULL);
	assert_int_equal(cs_duration_parse("1h30m", &ns), 0);
	assert_int_equal(ns, 5400000000000ULL);
	assert_int_equal(cs_duration_parse("250ms", &ns), 0);
	assert_int_equal(ns, 250000000ULL);
	assert_int_equal(cs_duration_parse("", &ns), -EINVAL);
	assert_int_equal(cs_duration_parse("5", &ns), -EINVAL);
	assert_int_equal(cs_duration_parse("s", &ns), -EINVAL);
	assert_int_equal(cs_duration_parse("-5s", &ns), -EINVAL);
	assert_int_equal(cs_duration_parse("999999999d", &ns), -EINVAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_wrong_variables),
		cmocka_unit_test(test_variables_to_complain_of),
		cmocka_unit_test(test_automatic),
		cmocka_unit_test(test_complaints),
		cmocka_unit_test(test_durations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
