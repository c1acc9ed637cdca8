/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/rules.h"

#include "scene.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static char path[] = "/tmp/collscope-rules-XXXXXX";

static int
write_rules(const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	return fclose(file);
}

static int
make_file(void **state)
{
	int descriptor = mkstemp(path);

	(void)state;
	return descriptor < 0 ? -1 : close(descriptor);
}

static int
remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

/* Read to its end, /dev/zero would never be refused. */
static void
test_files_that_are_none(void **state)
{
	static const struct {
		const char *name, *reason;
		int result;
	} files[] = {
		{"/dev/zero", ": this is no regular file", -EINVAL},
		{"/", ": this is no regular file", -EINVAL},
		{path, ": the file is larger than 1 MiB", -EFBIG},
		/* Of size 0, says the inode, and without an end or a line. */
		{"/proc/self/mem", ": Input/output error", -EIO},
		{"/proc/self/pagemap", ": the file is larger than 1 MiB", -EFBIG},
	};
	struct cs_rules *rules;
	char complaint[256], wanted[256];

	(void)state;
	assert_int_equal(write_rules(""), 0);
	assert_int_equal(truncate(path, (1 << 20) + 1), 0);
	for (size_t i = 0; i < COUNT_OF(files); i++) {
		assert_int_equal(
			cs_rules_load(files[i].name, &rules, complaint, sizeof(complaint)), files[i].result);
		assert_null(rules);
		snprintf(wanted, sizeof(wanted), "%s%s", files[i].name, files[i].reason);
		assert_string_equal(complaint, wanted);
	}
	assert_int_equal(write_rules("verify graph=yes\n"), 0);
	assert_int_equal(cs_rules_load(path, &rules, complaint, sizeof(complaint)), 0);
	cs_rules_destroy(rules);
}

static void
test_complaints(void **state)
{
	static const struct {
		const char *text, *complaint;
	} cases[] = {
		{"guess graph=yes\n", ":1: \"guess\" is no phase: want verify, draft, draft_extend, decode, "
				      "prefill or unknown"},
		{"# fine\n\nverify\n", ":3: a rule needs a condition"},
		{"verify graph=maybe\n", ":1: graph: want yes or no, not \"maybe\""},
		{"verify collectives=9..3\n",
			":1: collectives: want a number or a range such as 3..9, 3.. or ..9, not \"9..3\""},
		{"verify bytes=12X\n",
			":1: bytes: want a number or a range such as 3..9, 3.. or ..9, not \"12X\""},
		{"verify tokens=4\n", ":1: tokens: needs a line \"hidden N\" before it"},
		{"hidden\n", ":1: hidden: want one number, the model's hidden size in elements"},
		{"hidden 0\n", ":1: hidden: want one number, the model's hidden size in elements"},
		{"verify color=red\n", ":1: \"color\" is no condition"},
		{"verify at=3\n", ":1: \"at\" is no condition"},
		{"verify big\n", ":1: want key=value, not \"big\""},
		{"verify range=\n", ":1: range: the pattern is empty"},
		{"split verify draft collectives=9\n",
			":1: split needs at=N, how many collectives the first pass has"},
		{"split verify\n",
			":1: \"\" is no phase: want verify, draft, draft_extend, decode, prefill or unknown"},
		{"merge collectives=3\n", ":1: merge takes range= only, not \"collectives\""},
		{"# no end of line\nguess",
			":2: \"guess\" is no phase: want verify, draft, draft_extend, decode, "
			"prefill or unknown"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct cs_rules *rules;
		char complaint[256], expected[512];

		assert_int_equal(write_rules(cases[i].text), 0);
		assert_int_equal(cs_rules_load(path, &rules, complaint, sizeof(complaint)), -EINVAL);
		assert_null(rules);
		snprintf(expected, sizeof(expected), "%s%s", path, cases[i].complaint);
		assert_string_equal(complaint, expected);
	}
}

static void
test_missing_file(void **state)
{
	struct cs_rules *rules;
	char complaint[256];

	(void)state;
	assert_int_equal(cs_rules_load("/nowhere/steps", &rules, complaint, sizeof(complaint)), -ENOENT);
	assert_string_equal(complaint, "/nowhere/steps: No such file or directory");
}

static void
test_conditions(void **state)
{
	struct cs_rules *rules;
	struct cs_step_facts facts = {
		.ranges = {"decode loop 7"},
		.range_count = 1,
		.after = "build_tree_efficient",
		.before = "",
		.collectives = 123,
		.launches = 1,
		.graph = true,
		.bytes = 4 * 7168 * 2,
		.count = 4 * 7168,
	};

	uint32_t line = 0;

	(void)state;
	assert_int_equal(write_rules("hidden 7168\n"
				     "prefill tokens=257..\n"
				     "draft_extend collectives=..9 bytes=56K\n"
				     "draft graph=yes collectives=..9\n"
				     "verify range=decode*\tafter=build_tree* # both must hold\n"
				     "decode launches=1 graph=yes\n"),
		0);
	assert_int_equal(cs_rules_load(path, &rules, NULL, 0), 0);
	assert_int_equal(cs_rules_phase(rules, &facts, &line), CS_PHASE_VERIFY);
	assert_int_equal(line, 5);
	facts.after = "";
	assert_int_equal(cs_rules_phase(rules, &facts, &line), CS_PHASE_DECODE);
	assert_int_equal(line, 6);
	facts.count = 300 * 7168;
	assert_int_equal(cs_rules_phase(rules, &facts, &line), CS_PHASE_PREFILL);
	assert_int_equal(line, 2);
	facts.count = 0;
	facts.collectives = 3;
	assert_int_equal(cs_rules_phase(rules, &facts, &line), CS_PHASE_DRAFT_EXTEND);
	assert_int_equal(line, 3);
	facts.bytes = CS_BYTES_UNKNOWN;
	assert_int_equal(cs_rules_phase(rules, &facts, &line), CS_PHASE_DRAFT);
	assert_int_equal(line, 4);
	facts.graph = false;
	assert_int_equal(cs_rules_phase(rules, &facts, &line), -ENODATA);
	assert_false(cs_rules_merge(rules));
	cs_rules_destroy(rules);
}

/* The user's word wins over markers, cuts launches, and joins what lies in one range. */
static void
test_in_the_analysis(void **state)
{
	const struct cs_analysis_options options = {.steps_file = path};
	struct scene scene;
	uint32_t label;
	uint64_t at_ns;

	(void)state;
	assert_int_equal(write_rules("split verify draft collectives=90 at=81\n"
				     "merge range=forward*\n"
				     "prefill range=forward*\n"
				     "decode collectives=81\n"),
		0);
	scene_open(&scene, 1, &options);
	label = scene_label(&scene, 0, CS_OP_ALL_REDUCE, 4096, 1, 0);
	at_ns = scene_graph(&scene, 0, 21, label, 81, 0, 10 * US, 10 * US);
	scene_marker(&scene, 0, "build_tree_efficient", at_ns + 5 * US);
	at_ns = scene_graph(&scene, 0, 22, label, 90, at_ns + 300 * US, 10 * US, 10 * US) + 400 * US;
	for (unsigned int i = 0; i < 2; i++) {
		scene_put(&scene, 0,
			(struct cs_record){.type = CS_RECORD_HOST_LAUNCH,
				.start_ns = 100 + i,
				.end_ns = 110 + i,
				.value = 77,
				.correlation_id = scene.ranks[0].correlation_id + 1});
		at_ns = scene_graph(&scene, 0, 23 + i, label, 20, at_ns, 10 * US, 10 * US) + 300 * US;
	}
	scene_put(&scene, 0,
		(struct cs_record){.type = CS_RECORD_MARK,
			.ref = scene_name(&scene, 0, "forward 8"),
			.start_ns = 50,
			.end_ns = 500,
			.value = 77});
	scene_play(&scene);
	assert_int_equal(scene.step_count, 4);
	assert_int_equal(scene.steps[0].phase, CS_PHASE_DECODE);
	assert_int_equal(scene.steps[1].phase, CS_PHASE_VERIFY);
	assert_int_equal(scene.steps[1].collectives, 81);
	assert_int_equal(scene.steps[2].phase, CS_PHASE_DRAFT);
	assert_int_equal(scene.steps[2].collectives, 9);
	assert_int_equal(scene.steps[3].phase, CS_PHASE_PREFILL);
	assert_int_equal(scene.steps[3].collectives, 40);
	assert_int_equal(scene.steps[3].launches, 2);
	for (size_t i = 0; i < 4; i++) {
		static const uint32_t lines[] = {4, 1, 1, 3};

		assert_int_equal(scene.steps[i].phase_rule, CS_PHASE_RULE_USER);
		assert_int_equal(scene.steps[i].phase_line, lines[i]);
		assert_int_equal(scene.steps[i].phase_name, 0);
	}
	scene_close(&scene);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_complaints),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_in_the_analysis),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
