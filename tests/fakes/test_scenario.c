/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a scenario holds what the scenario promises, and all ranks compute the same one. */
/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "scenario/scenario.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* scenario.h wants it of nccl.c, which these tests leave out. */
const char *
scenario_nccl_plugin(void)
{
	return "none";
}

static void
parse_text(const char *text, struct scenario *scenario)
{
	char path[] = "/tmp/collscope-scenario-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	assert_true(scenario_parse(path, scenario));
	unlink(path);
}

static bool
parses(const char *text)
{
	char path[] = "/tmp/collscope-scenario-XXXXXX";
	struct scenario scenario;
	int fd = mkstemp(path);
	bool good;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	good = scenario_parse(path, &scenario);
	unlink(path);
	if (good)
		scenario_free(&scenario);
	return good;
}

#define TWO_GROUPS                                                                                           \
	"ranks 4\ngroup 2\nsteps 5\nperiod_us 1000\nseed 9\n"                                                \
	"op work compute us 10 jitter 5\n"                                                                   \
	"op ar collective impl vllm_custom bytes 4096 us 20 jitter 8 contended 60\n"                         \
	"op out copy direction to_host bytes 65536 us 30\n"                                                  \
	"rank 3 late_us 80\n"                                                                                \
	"graph g phase decode\n repeat 3\n  run work\n  run ar\n end\n run ar beside out\nend\n"             \
	"step\n launch g\nend\n"

static void
test_ranks_of_a_group_end_together(void **state)
{
	struct scenario scenario;
	struct scenario_plan plans[4];
	const struct scenario_planned *a, *b;
	uint32_t r, i, step;

	(void)state;
	parse_text(TWO_GROUPS, &scenario);
	assert_int_equal(scenario.sequences[0].operations, 8);
	assert_int_equal(scenario.sequences[0].collectives, 4);
	for (r = 0; r < 4; r++)
		assert_true(scenario_plan_open(&plans[r], &scenario, r, 1000000000));
	for (step = 0; step < 5; step++) {
		for (r = 0; r < 4; r++)
			scenario_plan_step(&plans[r]);
		for (i = 0; i < 8; i++) {
			a = &plans[2].launches[0].planned[i];
			b = &plans[3].launches[0].planned[i];
			if (scenario.ops[a->op].type != SCENARIO_COLLECTIVE)
				continue;
			assert_int_equal(a->span.end_ns, b->span.end_ns);
			assert_int_equal(a->ready_ns, b->ready_ns);
			/* Rank 3 is 80 us late at every collective, more than any jitter: always the last. */
			assert_int_equal(a->last_rank, 1);
			assert_int_equal(b->ready_ns, b->span.start_ns);
			assert_in_range(a->ready_ns - a->span.start_ns, 75000, 85000);
			/* Transfer: 20 to 28 us alone, 60 to 68 beside the copy. */
			if (i < 6)
				assert_in_range(b->span.end_ns - b->ready_ns, 20000, 28000);
			else
				assert_in_range(b->span.end_ns - b->ready_ns, 60000, 68000);
		}
		/* The other group does not wait for rank 3. */
		a = &plans[0].launches[0].planned[1];
		assert_true(a->ready_ns - a->span.start_ns < 6000);
	}
	for (r = 0; r < 4; r++)
		scenario_plan_close(&plans[r]);
	scenario_free(&scenario);
}

static void
test_truth_counts_what_was_planned(void **state)
{
	struct scenario scenario;
	struct scenario_plan plan;
	struct scenario_truth *truth;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	uint32_t step;

	(void)state;
	parse_text(TWO_GROUPS, &scenario);
	assert_true(scenario_plan_open(&plan, &scenario, 3, 1000000000));
	truth = scenario_truth_new(&scenario, 3);
	for (step = 0; step < 5; step++) {
		scenario_plan_step(&plan);
		scenario_truth_add(truth, &plan.launches[0], step, NULL);
	}
	scenario_truth_write(truth, 5, 0, out);
	fclose(out);
	assert_non_null(strstr(text, "\"collectives\": 20, \"copies\": 5"));
	assert_non_null(strstr(text, "\"count\": 20, \"bytes_total\": 81920"));
	assert_non_null(strstr(text, "\"wait_ns\": 0, \"last_arrivals\": 20"));
	/* The copy starts 80 us before the late all-reduce and is over by then. */
	assert_non_null(strstr(text, "\"copy\": 0,"));
	free(text);
	scenario_truth_free(truth);
	scenario_plan_close(&plan);
	scenario_free(&scenario);
}

static void
test_overlap_is_the_shared_time(void **state)
{
	struct scenario scenario;
	struct scenario_plan plan;
	struct scenario_truth *truth;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	/* One rank: the copy of 30 us lies wholly beside the all-reduce of 60. */
	parse_text("op ar collective impl nccl bytes 4096 us 20 contended 60\n"
		   "op out copy direction to_host bytes 65536 us 30\n"
		   "graph g\n run ar\n run ar beside out\nend\nstep\n launch g\nend\n",
		&scenario);
	assert_true(scenario_plan_open(&plan, &scenario, 0, 1000000000));
	truth = scenario_truth_new(&scenario, 0);
	scenario_plan_step(&plan);
	scenario_truth_add(truth, &plan.launches[0], 0, NULL);
	scenario_truth_write(truth, 1, 0, out);
	fclose(out);
	assert_non_null(strstr(text, "\"duration_ns\": 80000, "));
	assert_non_null(strstr(text, "\"copy\": 30000,"));
	/* 20 us: third bucket (up to 20); 60 us: sixth (up to 75). */
	assert_non_null(strstr(text, "\"buckets\": [0, 0, 1, 0, 0, 1, 0,"));
	free(text);
	scenario_truth_free(truth);
	scenario_plan_close(&plan);
	scenario_free(&scenario);
}

/* Ranks 0, 1 and 2, 3 are one communicator each, 0, 2 and 1, 3 the others'. */
static void
test_communicators_and_groups(void **state)
{
	struct scenario scenario;
	struct scenario_plan plans[4];
	const struct scenario_op *kernel;
	uint32_t r;

	(void)state;
	parse_text("ranks 4\ncomm near size 2\ncomm far size 2 stride 2\nrank 3 late_us 50\n"
		   "op a collective impl nccl bytes 4096 us 10 comm near\n"
		   "op b collective impl nccl_all_gather bytes 8192 us 20 comm far\n"
		   "graph g\n group kernels 2\n  run a times 3\n  run b\n end\nend\nstep\n launch g\nend\n",
		&scenario);
	/* near: two of three calls, then one; far: its one */
	assert_int_equal(scenario.sequences[0].count, 3);
	assert_int_equal(scenario.sequences[0].items[0].group, 3);
	kernel = &scenario.ops[scenario.sequences[0].items[0].op];
	assert_int_equal(kernel->part_count, 2);
	assert_int_equal(kernel->bytes, 8192);
	kernel = &scenario.ops[scenario.sequences[0].items[2].op];
	assert_int_equal(kernel->part_count, 1);
	assert_int_equal(kernel->places[0], 3);
	assert_int_equal(scenario_comm_rank(&scenario.comms[2], 2), 1);
	assert_true(scenario_comm_hash(&scenario, 2, 0) == scenario_comm_hash(&scenario, 2, 2));
	assert_true(scenario_comm_hash(&scenario, 2, 0) != scenario_comm_hash(&scenario, 2, 1));
	assert_true(scenario_comm_hash(&scenario, 1, 0) != scenario_comm_hash(&scenario, 2, 0));
	for (r = 0; r < 4; r++) {
		assert_true(scenario_plan_open(&plans[r], &scenario, r, 1000000000));
		scenario_plan_step(&plans[r]);
	}
	/* The late rank 3 keeps 2 waiting in `near` and 1 in `far`. */
	assert_int_equal(
		plans[2].launches[0].planned[0].span.end_ns, plans[3].launches[0].planned[0].span.end_ns);
	assert_true(
		plans[0].launches[0].planned[0].span.end_ns < plans[2].launches[0].planned[0].span.end_ns);
	assert_int_equal(
		plans[1].launches[0].planned[2].span.end_ns, plans[3].launches[0].planned[2].span.end_ns);
	assert_int_equal(plans[1].launches[0].planned[2].last_rank, 1);
	for (r = 0; r < 4; r++)
		scenario_plan_close(&plans[r]);
	scenario_free(&scenario);
}

static void
test_lives_change_the_size(void **state)
{
	struct scenario scenario;
	struct scenario_plan plan;
	struct scenario_truth *truth;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	uint32_t step;

	(void)state;
	parse_text("op a collective impl vllm_custom bytes 4096 us 10\n"
		   "graph g life recapture step 2\n run a\nend\nstep\n launch g\nend\n",
		&scenario);
	assert_true(scenario_plan_open(&plan, &scenario, 0, 1000000000));
	truth = scenario_truth_new(&scenario, 0);
	for (step = 0; step < 7; step++) {
		scenario_plan_step(&plan);
		scenario_truth_add(truth, &plan.launches[0], step, NULL);
	}
	scenario_truth_write(truth, 7, 0, out);
	fclose(out);
	/* steps 0, 1, 4, 5 and 2, 3, 6 */
	assert_non_null(strstr(text, "\"count\": 4, \"bytes_total\": 16384"));
	assert_non_null(strstr(text, "\"count\": 3, \"bytes_total\": 6144"));
	free(text);
	scenario_truth_free(truth);
	scenario_plan_close(&plan);
	scenario_free(&scenario);
}

static void
test_wrong_scenarios_are_refused(void **state)
{
	static const char *const wrong[] = {
		"steps 1\n",                                                 /* launches nothing */
		"op a compute us x\n",                                       /* no number */
		"op a collective impl nothing bytes 16\n",                   /* no such implementation */
		"op a collective impl nccl bytes 17\n",                      /* no multiple of 16 */
		"op a compute us 1\nop a compute us 1\n",                    /* twice */
		"op a compute\ngraph g\n run b\nend\nstep\nlaunch g\nend\n", /* no such op */
		"op a compute\ngraph g\n run a\nstep\nlaunch g\nend\n",      /* end missing */
		"ranks 3\ngroup 2\nop a compute\ngraph g\n run a\nend\nstep\nlaunch g\nend\n",
		"op a compute color 3\n",
		"capture_threads 99\nop a compute\ngraph g\n run a\nend\nstep\nlaunch g\nend\n",
		"nccl 2.22.3\nop a compute\ngraph g\n run a\nend\nstep\nlaunch g\nend\n",
		"op a collective impl nccl bytes 16 comm none\n",
		"op a collective impl nccl bytes 16 algorithm none\n",
		"op a collective impl vllm_custom bytes 16 dtype f16\n",
		"op a compute\ngraph g\n group\n run a\n end\nend\nstep\nlaunch g\nend\n",
		"op a collective impl nccl bytes 16\ngraph g\n group\n end\nend\nstep\nlaunch g\nend\n",
		"ranks 2\ncomm c size 2 stride 2\nop a compute\ngraph g\n run a\nend\nstep\nlaunch g\nend\n",
		"op a compute\ngraph g life recapture\n run a\nend\nstep\nlaunch g\nend\n",
		"op a compute\ngraph g life clone step 3\n run a\nend\nstep\nlaunch g\nend\n",
		"op a compute\neager g life update\n run a\nend\nstep\nlaunch g\nend\n",
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(parses(wrong[i]));
	assert_true(parses("op a compute\ngraph g\n run a\nend\nstep\nlaunch g\nend\n"));
	assert_true(parses(
		"capture_threads 4\nop a compute\ngraph g life update\n run a\nend\nstep\nlaunch g\nend\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks_of_a_group_end_together),
		cmocka_unit_test(test_truth_counts_what_was_planned),
		cmocka_unit_test(test_overlap_is_the_shared_time),
		cmocka_unit_test(test_communicators_and_groups),
		cmocka_unit_test(test_lives_change_the_size),
		cmocka_unit_test(test_wrong_scenarios_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
