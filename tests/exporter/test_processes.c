/* SPDX-License-Identifier: Apache-2.0 */
/* Dead processes in a directory from which nothing can be removed: they are forgotten, and leave room for
 * others. */
#include "processes.h"

#include "clock.h"
#include "segment/segment_writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka.h needs those above first. */
#include <cmocka.h>

#define DEAD 300U
#define PAST (DEAD - CS_PROCESSES_MAX)

struct scene {
	char directory[64];
	struct cs_analysis *analysis;
	struct cs_series_table table;
	struct cs_processes processes;
};

static struct scene scene;

static void
take_nothing(void *context, const struct cs_step *step)
{
	(void)context;
	(void)step;
}

static void
path_of(unsigned int number, char path[128])
{
	snprintf(path, 128, "%s/1-%u.seg", scene.directory, number);
}

static struct cs_segment_writer *
make_writer(void)
{
	struct cs_segment_options options = {
		.version = "1", .directory = scene.directory, .ring_slots = 1024};
	struct cs_segment_writer *writer;

	assert_int_equal(cs_segment_writer_create(&options, &writer), 0);
	return writer;
}

static void
make_dead_ones(void)
{
	struct cs_segment_writer *writer = make_writer();
	char first[128], path[128];

	path_of(0, first);
	assert_int_equal(rename(cs_segment_writer_path(writer), first), 0);
	cs_segment_writer_destroy(writer, false);
	for (unsigned int number = 1; number < DEAD; number++) {
		path_of(number, path);
		assert_int_equal(link(first, path), 0);
	}
}

static void
remove_dead_ones(void)
{
	char path[128];

	for (unsigned int number = 0; number < DEAD; number++) {
		path_of(number, path);
		unlink(path);
	}
}

static int
set_up(void **state)
{
	struct cs_analysis_sink sink = {.step = take_nothing};
	struct cs_analysis_options analysis_options = {0};
	struct cs_processes_options options = {.directory = scene.directory,
		.linger_ns = CS_NS_PER_S,
		.retention_ns = 2 * CS_NS_PER_S,
		.read_only = true};

	(void)state;
	strcpy(scene.directory, "/tmp/collscope-processes-XXXXXX");
	if (!mkdtemp(scene.directory) ||
		cs_analysis_new(&analysis_options, &sink, &scene.analysis, NULL, 0) < 0)
		return -1;
	cs_series_table_init(&scene.table, 1000);
	cs_processes_init(&scene.processes, &options, scene.analysis, &scene.table);
	make_dead_ones();
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	cs_processes_fini(&scene.processes);
	cs_analysis_destroy(scene.analysis);
	cs_series_table_fini(&scene.table);
	remove_dead_ones();
	return rmdir(scene.directory);
}

static void
look_at(unsigned int second)
{
	cs_processes_look(&scene.processes, second * CS_NS_PER_S);
}

static uint64_t
past_the_limit(void)
{
	struct cs_rejections rejections;

	cs_processes_count_rejected(&scene.processes, &rejections);
	return rejections.counts[CS_REJECTION_LIMIT];
}

static void
test_forgotten_leave_room(void **state)
{
	struct cs_segment_writer *writer;
	size_t live = 0;

	(void)state;
	look_at(1);
	assert_int_equal(scene.processes.count, CS_PROCESSES_MAX);
	assert_int_equal(past_the_limit(), PAST);
	look_at(10);
	assert_int_equal(scene.processes.count, 0);
	writer = make_writer();
	look_at(11);
	assert_int_equal(scene.processes.count, PAST + 1);
	assert_int_equal(past_the_limit(), 0);
	for (size_t i = 0; i < scene.processes.count; i++)
		live += scene.processes.items[i]->stage == CS_TRACED_LIVE;
	assert_int_equal(live, 1);
	/* None is found again. */
	for (unsigned int second = 20; second < 24; second++) {
		look_at(second);
		assert_int_equal(scene.processes.count, 1);
		assert_int_equal(scene.processes.forgotten_count, DEAD);
	}
	cs_segment_writer_destroy(writer, true);
}

static void
test_names_go_with_their_files(void **state)
{
	struct cs_segment_writer *writer;
	char path[128];

	(void)state;
	look_at(1);
	look_at(10);
	look_at(11);
	look_at(20);
	assert_int_equal(scene.processes.forgotten_count, DEAD);
	/* Another file of the same name is another process. */
	writer = make_writer();
	path_of(7, path);
	assert_int_equal(rename(cs_segment_writer_path(writer), path), 0);
	look_at(21);
	assert_int_equal(scene.processes.count, 1);
	assert_string_equal(scene.processes.items[0]->name, "1-7.seg");
	assert_int_equal(scene.processes.forgotten_count, DEAD - 1);
	remove_dead_ones();
	look_at(22);
	assert_int_equal(scene.processes.forgotten_count, 0);
	cs_segment_writer_destroy(writer, false);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forgotten_leave_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_names_go_with_their_files, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
