/* SPDX-License-Identifier: Apache-2.0 */
#include "environment.h"

#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct complaints {
	unsigned int count;
	char last[1024];
};

static void
note(const char *sentence, void *context)
{
	struct complaints *complaints = context;

	complaints->count++;
	snprintf(complaints->last, sizeof(complaints->last), "%s", sentence);
}

/* Settings from one assignment; how many complaints. */
static unsigned int
load_one(struct cs_settings *settings, struct complaints *complaints, const char *assignment)
{
	char copy[2048];
	char *envp[] = {(char[]){"HOME=/root"}, copy, NULL};
	unsigned int count;

	snprintf(copy, sizeof(copy), "%s", assignment);
	memset(complaints, 0, sizeof(*complaints));
	count = cs_settings_load(settings, envp, note, complaints);
	assert_int_equal(count, complaints->count);
	assert_int_equal(cs_settings_load(settings, envp, NULL, NULL), count);
	return count;
}

static void
assert_defaults(const struct cs_settings *settings)
{
	assert_int_equal(settings->mode, CS_MODE_SAMPLE);
	assert_true(settings->budget == 0.01);
	assert_string_equal(settings->directory, "");
	assert_true(settings->exporter);
	assert_false(settings->cupti_v2);
	assert_string_equal(settings->exporter_path, "");
	assert_string_equal(settings->listen, "127.0.0.1:19400");
	assert_int_equal(settings->log_level, 1);
	assert_int_equal(settings->ring_mib, 8);
	assert_int_equal(settings->period_ms, 10000);
	assert_int_equal(settings->window_ms, 100);
	assert_int_equal(settings->trace_max_s, 600);
	assert_int_equal(settings->device_growth_mib, 256);
	assert_int_equal(settings->step_back_s, 60);
	assert_int_equal(settings->flush_ms, 100);
	assert_int_equal(settings->buffers, 16);
	assert_int_equal(settings->device_mib, 12);
	assert_string_equal(settings->catalog, "");
	assert_false(settings->nccl_chain);
	assert_true(settings->nccl);
	assert_true(settings->nvtx);
	assert_string_equal(settings->nvtx_ranges, "");
	assert_string_equal(settings->cupti_path, "");
	assert_string_equal(settings->steps, "");
	assert_int_equal(settings->stall_s, 10);
	assert_string_equal(settings->nccl_plugin, "");
	assert_string_equal(settings->nvtx_tool, "");
}

static void
test_defaults(void **state)
{
	char *empty[] = {NULL};
	struct complaints complaints;
	struct cs_settings settings;

	(void)state;
	memset(&settings, 0xFF, sizeof(settings));
	assert_int_equal(cs_settings_load(&settings, empty, note, &complaints), 0);
	assert_defaults(&settings);
	memset(&settings, 0xFF, sizeof(settings));
	assert_int_equal(cs_settings_load(&settings, NULL, NULL, NULL), 0);
	assert_defaults(&settings);
	/* Set but empty is unset. */
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_LISTEN="), 0);
	assert_defaults(&settings);
}

static void
test_choices(void **state)
{
	struct complaints complaints;
	struct cs_settings settings;

	(void)state;
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=off"), 0);
	assert_int_equal(settings.mode, CS_MODE_OFF);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=demand"), 0);
	assert_int_equal(settings.mode, CS_MODE_DEMAND);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=sample"), 0);
	assert_int_equal(settings.mode, CS_MODE_SAMPLE);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=full"), 0);
	assert_int_equal(settings.mode, CS_MODE_FULL);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=ful"), 1);
	assert_int_equal(settings.mode, CS_MODE_SAMPLE);
	assert_string_equal(complaints.last, "COLLSCOPE_MODE is ful, which is not one of its values "
					     "(off|demand|sample|full); using sample.");
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE=off|demand"), 1);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_EXPORTER=off"), 0);
	assert_false(settings.exporter);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_EXPORTER=auto"), 0);
	assert_true(settings.exporter);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_EXPORTER=0"), 1);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_CUPTI_V2=auto"), 0);
	assert_true(settings.cupti_v2);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_LOG=error"), 0);
	assert_int_equal(settings.log_level, 0);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_LOG=debug"), 0);
	assert_int_equal(settings.log_level, 3);
}

static void
test_ratio(void **state)
{
	static const char *const bad[] = {"0", "1.01", "0.00009", "-0.1", "1e-3", "0,1", "", ".", "1%", "nan",
		"0x1", "0.1 ", "99999999999999999999999999999999"};
	struct complaints complaints;
	struct cs_settings settings;

	(void)state;
	/* A host may set a locale with a decimal comma. */
	setlocale(LC_ALL, "de_DE.UTF-8");
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_BUDGET=0.25"), 0);
	assert_true(settings.budget == 0.25);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_BUDGET=1"), 0);
	assert_true(settings.budget == 1);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_BUDGET=0.0001"), 0);
	assert_true(settings.budget == 0.0001);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_BUDGET=.5"), 0);
	assert_true(settings.budget == 0.5);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char assignment[128];

		snprintf(assignment, sizeof(assignment), "COLLSCOPE_BUDGET=%s", bad[i]);
		assert_int_equal(load_one(&settings, &complaints, assignment), bad[i][0] != '\0');
		assert_true(settings.budget == 0.01);
	}
	setlocale(LC_ALL, "C");
}

static void
test_integers(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
		uint32_t low;
		uint32_t high;
	} rows[] = {
		{"COLLSCOPE_RING_MIB", offsetof(struct cs_settings, ring_mib), 1, 16},
		{"COLLSCOPE_PERIOD_MS", offsetof(struct cs_settings, period_ms), 100, 600000},
		{"COLLSCOPE_WINDOW_MS", offsetof(struct cs_settings, window_ms), 1, 60000},
		{"COLLSCOPE_DEVICE_GROWTH_MIB", offsetof(struct cs_settings, device_growth_mib), 0, 65536},
		{"COLLSCOPE_STEP_BACK_S", offsetof(struct cs_settings, step_back_s), 1, 86400},
		{"COLLSCOPE_TRACE_MAX_S", offsetof(struct cs_settings, trace_max_s), 0, 86400},
		{"COLLSCOPE_FLUSH_MS", offsetof(struct cs_settings, flush_ms), 10, 1000},
		{"COLLSCOPE_BUFFERS", offsetof(struct cs_settings, buffers), 4, 32},
		{"COLLSCOPE_DEVICE_MIB", offsetof(struct cs_settings, device_mib), 2, 256},
		{"COLLSCOPE_STALL_S", offsetof(struct cs_settings, stall_s), 1, 86400},
	};
	static const char *const bad[] = {"x", "-1", "1.0", "0x10", "16 ", "+16", "4294967312"};
	struct complaints complaints;
	struct cs_settings settings;
	char assignment[128];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint32_t *value = (const uint32_t *)((const char *)&settings + rows[i].offset);
		uint32_t fallback;

		assert_int_equal(cs_settings_load(&settings, NULL, NULL, NULL), 0);
		fallback = *value;
		snprintf(assignment, sizeof(assignment), "%s=%u", rows[i].name, rows[i].low);
		assert_int_equal(load_one(&settings, &complaints, assignment), 0);
		assert_int_equal(*value, rows[i].low);
		snprintf(assignment, sizeof(assignment), "%s=%u", rows[i].name, rows[i].high);
		assert_int_equal(load_one(&settings, &complaints, assignment), 0);
		assert_int_equal(*value, rows[i].high);
		snprintf(assignment, sizeof(assignment), "%s=%u", rows[i].name, rows[i].low - 1);
		assert_int_equal(load_one(&settings, &complaints, assignment), 1);
		assert_int_equal(*value, fallback);
		snprintf(assignment, sizeof(assignment), "%s=%u", rows[i].name, rows[i].high + 1);
		assert_int_equal(load_one(&settings, &complaints, assignment), 1);
		assert_int_equal(*value, fallback);
		for (size_t j = 0; j < sizeof(bad) / sizeof(bad[0]); j++) {
			snprintf(assignment, sizeof(assignment), "%s=%s", rows[i].name, bad[j]);
			assert_int_equal(load_one(&settings, &complaints, assignment), 1);
			assert_int_equal(*value, fallback);
		}
	}
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_RING_MIB=12"), 1);
	assert_string_equal(complaints.last,
		"COLLSCOPE_RING_MIB is 12, which is not one of its values (1 to 16, power of two); using 8.");
}

static void
test_booleans(void **state)
{
	struct complaints complaints;
	struct cs_settings settings;

	(void)state;
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_NCCL=0"), 0);
	assert_false(settings.nccl);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_NVTX=off"), 0);
	assert_false(settings.nvtx);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_NCCL_CHAIN=1"), 0);
	assert_true(settings.nccl_chain);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_NCCL_CHAIN=yes"), 0);
	assert_true(settings.nccl_chain);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_NCCL=2"), 1);
	assert_true(settings.nccl);
}

static void
test_texts(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
		size_t bytes;
	} rows[] = {
		{"COLLSCOPE_DIR", offsetof(struct cs_settings, directory), CS_PATH_BYTES},
		{"COLLSCOPE_EXPORTER_PATH", offsetof(struct cs_settings, exporter_path), CS_PATH_BYTES},
		{"COLLSCOPE_LISTEN", offsetof(struct cs_settings, listen), 128},
		{"COLLSCOPE_CATALOG", offsetof(struct cs_settings, catalog), CS_PATH_BYTES},
		{"COLLSCOPE_NVTX_RANGES", offsetof(struct cs_settings, nvtx_ranges), 256},
		{"COLLSCOPE_CUPTI_PATH", offsetof(struct cs_settings, cupti_path), CS_PATH_BYTES},
		{"COLLSCOPE_STEPS", offsetof(struct cs_settings, steps), CS_PATH_BYTES},
		{"COLLSCOPE_NCCL_PLUGIN", offsetof(struct cs_settings, nccl_plugin), CS_PATH_BYTES},
		{"COLLSCOPE_NVTX_TOOL", offsetof(struct cs_settings, nvtx_tool), CS_PATH_BYTES},
	};
	struct complaints complaints;
	struct cs_settings settings;
	char assignment[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *value = (const char *)&settings + rows[i].offset;
		size_t start;

		snprintf(assignment, sizeof(assignment), "%s=/a/b=c", rows[i].name);
		assert_int_equal(load_one(&settings, &complaints, assignment), 0);
		assert_string_equal(value, "/a/b=c");
		/* The longest that fits, then one byte more. */
		start = (size_t)snprintf(assignment, sizeof(assignment), "%s=", rows[i].name);
		memset(assignment + start, 'x', rows[i].bytes);
		assignment[start + rows[i].bytes - 1] = '\0';
		assert_int_equal(load_one(&settings, &complaints, assignment), 0);
		assert_int_equal(strlen(value), rows[i].bytes - 1);
		assignment[start + rows[i].bytes - 1] = 'x';
		assignment[start + rows[i].bytes] = '\0';
		assert_int_equal(load_one(&settings, &complaints, assignment), 1);
		assert_non_null(strstr(complaints.last, "is longer than"));
		assert_true(strlen(value) < 20);
	}
}

/* Neither the default directory nor the beginning of a longer one is what was asked for. */
static void
test_directory_too_long(void **state)
{
	char assignment[sizeof("COLLSCOPE_DIR=") + CS_PATH_BYTES];
	struct complaints complaints;
	struct cs_settings settings;
	char path[CS_PATH_BYTES];

	(void)state;
	memset(assignment, 'x', sizeof(assignment) - 1);
	assignment[sizeof(assignment) - 1] = '\0';
	memcpy(assignment, "COLLSCOPE_DIR=/", strlen("COLLSCOPE_DIR=/"));
	assert_int_equal(load_one(&settings, &complaints, assignment), 1);
	assert_string_equal(complaints.last, "COLLSCOPE_DIR is longer than 511 bytes; nothing is recorded.");
	assert_int_equal(cs_settings_prepare_directory(&settings, path, sizeof(path)), -ENAMETOOLONG);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_DIR=relative"), 0);
	assert_int_equal(cs_settings_prepare_directory(&settings, path, sizeof(path)), -EINVAL);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_DIR=/"), 0);
	assert_int_not_equal(cs_settings_prepare_directory(&settings, path, sizeof(path)), -ENAMETOOLONG);
}

/* Of the variables that a program does not read nothing is said, and they are read all the same. */
static void
test_some(void **state)
{
	static const char *const names[] = {"COLLSCOPE_STALL_S", NULL};
	static const char *const none[] = {NULL};
	char mode[] = "COLLSCOPE_MODE=all", stall[] = "COLLSCOPE_STALL_S=x", ring[] = "COLLSCOPE_RING_MIB=4";
	char *const envp[] = {mode, stall, ring, NULL};
	struct complaints complaints = {0};
	struct cs_settings settings;

	(void)state;
	assert_int_equal(cs_settings_load_some(&settings, envp, names, note, &complaints), 1);
	assert_non_null(strstr(complaints.last, "COLLSCOPE_STALL_S is x"));
	assert_int_equal(settings.ring_mib, 4);
	assert_int_equal(cs_settings_load_some(&settings, envp, none, note, &complaints), 0);
	assert_int_equal(cs_settings_load_some(&settings, envp, NULL, note, &complaints), 2);
}

static void
test_unknown_names(void **state)
{
	struct complaints complaints;
	struct cs_settings settings;
	char assignment[1024];

	(void)state;
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_BUGDET=0.5"), 1);
	assert_string_equal(
		complaints.last, "There is no variable COLLSCOPE_BUGDET; did you mean COLLSCOPE_BUDGET?");
	assert_true(settings.budget == 0.01);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_COMPLETELY_DIFFERENT=1"), 1);
	assert_string_equal(
		complaints.last, "There is no variable COLLSCOPE_COMPLETELY_DIFFERENT; it is ignored.");
	/* Names that only look like ours. */
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE=1"), 0);
	assert_int_equal(load_one(&settings, &complaints, "XCOLLSCOPE_MODE=full"), 0);
	assert_int_equal(load_one(&settings, &complaints, "COLLSCOPE_MODE"), 0);
	assert_int_equal(settings.mode, CS_MODE_SAMPLE);
	memset(assignment, 'A', sizeof(assignment));
	memcpy(assignment, "COLLSCOPE_", 10);
	memcpy(assignment + sizeof(assignment) - 3, "=1", 3);
	assert_int_equal(load_one(&settings, &complaints, assignment), 1);
}

static void
test_long_value(void **state)
{
	struct complaints complaints;
	struct cs_settings settings;
	char assignment[1500];

	(void)state;
	memset(assignment, 'z', sizeof(assignment));
	memcpy(assignment, "COLLSCOPE_MODE=", 15);
	assignment[sizeof(assignment) - 1] = '\0';
	assert_int_equal(load_one(&settings, &complaints, assignment), 1);
	assert_non_null(strstr(complaints.last, "zzz..., which is not one of its values"));
}

static void
test_table(void **state)
{
	size_t count;
	const struct cs_variable *variables = cs_variables(&count);

	(void)state;
	assert_int_equal(count, 27);
	for (size_t i = 0; i < count; i++) {
		struct complaints complaints;
		struct cs_settings settings;
		char assignment[512];

		assert_int_equal(strncmp(variables[i].name, "COLLSCOPE_", 10), 0);
		assert_int_equal(variables[i].help[strlen(variables[i].help) - 1], '.');
		assert_true(variables[i].values[0] != '\0');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(variables[i].name, variables[j].name);
		/* Every default is a value that the parser takes. */
		snprintf(assignment, sizeof(assignment), "%s=%s", variables[i].name, variables[i].fallback);
		assert_int_equal(load_one(&settings, &complaints, assignment), 0);
		assert_defaults(&settings);
	}
	assert_string_equal(variables[0].name, "COLLSCOPE_MODE");
	assert_string_equal(variables[0].values, "off|demand|sample|full");
	assert_string_equal(variables[1].values, "0.0001 to 1");
}

static void
test_suggest(void **state)
{
	static const char *const known[] = {"run", "top", "dump", "record", "report", "compare", "status"};
	const size_t count = sizeof(known) / sizeof(known[0]);

	(void)state;
	assert_string_equal(cs_suggest("recrod", known, count), "record");
	assert_string_equal(cs_suggest("stats", known, count), "status");
	assert_string_equal(cs_suggest("comapre", known, count), "compare");
	assert_string_equal(cs_suggest("top", known, count), "top");
	assert_string_equal(cs_suggest("tpo", (const char *const[]){"tops"}, 1), "tops");
	assert_null(cs_suggest("xyz", known, count));
	assert_null(cs_suggest("completely", known, count));
	assert_null(cs_suggest("", known, count));
	assert_null(cs_suggest("run", known, 0));
	assert_null(
		cs_suggest("a-word-that-is-much-longer-than-any-that-a-table-of-names-would-ever-hold-really",
			known, count));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_choices),
		cmocka_unit_test(test_ratio),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_booleans),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_directory_too_long),
		cmocka_unit_test(test_some),
		cmocka_unit_test(test_unknown_names),
		cmocka_unit_test(test_long_value),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_suggest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
