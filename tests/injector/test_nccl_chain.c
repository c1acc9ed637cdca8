/* SPDX-License-Identifier: Apache-2.0 */
/* Profiler plugins behind ours that are not as plugins should be, and NCCL's threads. */
#include "chain_world.h"

#include "nccl/chain.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

/* Standard error between the two, into said. */
struct ear {
	char path[sizeof("/tmp/collscope-said-XXXXXX")];
	int file, saved;
};

static void
ear_open(struct ear *ear)
{
	memcpy(ear->path, "/tmp/collscope-said-XXXXXX", sizeof(ear->path));
	ear->file = mkstemp(ear->path);
	assert_true(ear->file >= 0);
	ear->saved = dup(STDERR_FILENO);
	dup2(ear->file, STDERR_FILENO);
}

static void
ear_close(struct ear *ear, char said[512])
{
	ssize_t bytes = pread(ear->file, said, 511, 0);

	dup2(ear->saved, STDERR_FILENO);
	close(ear->saved);
	close(ear->file);
	unlink(ear->path);
	assert_true(bytes >= 0);
	said[bytes] = '\0';
}

static void
assert_one_line(const char *said, const char *text)
{
	assert_non_null(strstr(said, text));
	assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void
a_plugin_that_is_too_new_is_refused_and_ours_works(void **state)
{
	struct ear ear;
	char said[512];
	int mask = 0;
	void *context;

	(void)state;
	chain_load_version(7);
	ear_open(&ear);
	context = nccl_init(5, 2, &mask);
	ours(5)->finalize(nccl_init(5, 3, &mask));
	ear_close(&ear, said);
	assert_one_line(said, "only newer ones (from 7 on)");
	assert_int_equal(mask, 0xf02);
	all_reduce(5, context);
	ours(5)->finalize(context);
	assert_int_equal(plugin->count, 0);
}

static void
a_context_of_null_is_a_context(void **state)
{
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		chain_load_version(nccl);
		plugin->null_context = true;
		context = nccl_init(nccl, 4, &mask);
		all_reduce(nccl, context);
		assert_int_equal(calls(CHAINED_START), nccl < 5 ? 2 : 6);
		assert_null(plugin->records[1].context);
		/* NCCL finalizes no context of NULL. */
		ours(nccl)->finalize(context);
		assert_int_equal(calls(CHAINED_FINALIZE), 0);
	}
}

static void
a_plugin_whose_init_fails_is_left_alone(void **state)
{
	struct ear ear;
	char said[512];
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		chain_load_version(nccl);
		plugin->fail = true;
		ear_open(&ear);
		context = nccl_init(nccl, 5, &mask);
		ear_close(&ear, said);
		assert_one_line(said, "failed (1)");
		assert_int_equal(mask, nccl < 5 ? 0x3 : 0xf02);
		all_reduce(nccl, context);
		ours(nccl)->finalize(context);
		assert_int_equal(plugin->count, 1);
	}
}

/* Plugins that fill the mask at their first init alone rely on NCCL's one integer for all communicators. */
static void
two_communicators_share_a_mask_and_nothing_else(void **state)
{
	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		int our_mask = nccl < 5 ? 0x3 : 0xf02;
		int mask = 0;
		void *one, *two;

		chain_load_version(nccl);
		plugin->mask_once = true;
		plugin->mask = 0x10;
		one = nccl_init(nccl, 6, &mask);
		assert_int_equal(mask, our_mask | 0x10);
		two = nccl_init(nccl, 7, &mask);
		assert_int_equal(mask, our_mask | 0x10);
		assert_ptr_not_equal(one, two);
		all_reduce(nccl, one);
		all_reduce(nccl, two);
		ours(nccl)->finalize(one);
		all_reduce(nccl, two);
		ours(nccl)->finalize(two);
		assert_int_equal(calls(CHAINED_INIT), 2);
		assert_int_equal(calls(CHAINED_FINALIZE), 2);
		for (unsigned int i = 0, starts = 0; i < plugin->count; i++) {
			unsigned int each = nccl < 5 ? 2 : 6;

			if (plugin->records[i].call != CHAINED_START)
				continue;
			assert_ptr_equal(
				plugin->records[i].context, plugin->records[starts++ < each ? 0 : 1].context);
		}
	}
}

/* As NCCL's example plugin does when it is told to start and stop. */
static void
a_mask_that_changes_later_reaches_nccl(void **state)
{
	int mask = 0;
	void *context;

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++) {
		int our_mask = nccl < 5 ? 0x3 : 0xf02;

		chain_load_version(nccl);
		plugin->mask = 0;
		context = nccl_init(nccl, 8, &mask);
		assert_int_equal(mask, our_mask);
		*plugin->mask_place = 0x18;
		all_reduce(nccl, context);
		assert_int_equal(mask, our_mask | 0x18);
		/* Somebody else's change of NCCL's mask (2.31's RAS) stays. */
		mask = 0x1ff;
		all_reduce(nccl, context);
		assert_int_equal(mask, 0x1ff);
		*plugin->mask_place = 0;
		all_reduce(nccl, context);
		assert_int_equal(mask, our_mask);
		ours(nccl)->finalize(context);
	}
}

static void
handles_may_be_anything(void **state)
{
	static const enum chained_handles kinds[] = {CHAINED_SAME, CHAINED_NUMBER, CHAINED_NULL};

	(void)state;
	for (unsigned int nccl = 1; nccl <= 7; nccl++)
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			int mask = 0;
			void *context;

			chain_load_version(nccl);
			plugin->handles = kinds[i];
			context = nccl_init(nccl, 9, &mask);
			all_reduce(nccl, context);
			all_reduce(nccl, context);
			assert_int_equal(calls(CHAINED_START), nccl < 5 ? 4 : 12);
			assert_int_equal(
				calls(CHAINED_STOP), kinds[i] == CHAINED_NULL ? 0 : calls(CHAINED_START));
			for (unsigned int at = 0; at < plugin->count; at++)
				if (plugin->records[at].call == CHAINED_START) {
					const void *parent = get_pointer(&plugin->records[at], 8);

					assert_true(
						parent == NULL ||
						(kinds[i] == CHAINED_SAME && parent == (const void *)plugin));
				}
			ours(nccl)->finalize(context);
		}
}

struct started {
	unsigned int version, count;
	void *handles[100];
};

static void *
stop_all(void *argument)
{
	struct started *started = argument;

	for (unsigned int i = 0; i < started->count; i++)
		stop(started->version, started->handles[i]);
	return NULL;
}

/* KernelCh of a whole graph: started by one thread, stopped by another. */
static void
events_may_end_on_another_thread(void **state)
{
	(void)state;
	for (unsigned int nccl = 3; nccl <= 7; nccl++) {
		struct started started = {.version = nccl};
		int mask = 0;
		void *context;
		pthread_t thread;

		chain_load_version(nccl);
		context = nccl_init(nccl, 10, &mask);
		for (; started.count < 100; started.count++)
			started.handles[started.count] =
				start(nccl, context, descriptor_of(nccl, 0x40, NULL));
		assert_int_equal(pthread_create(&thread, NULL, stop_all, &started), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(calls(CHAINED_STOP), 100);
		all_reduce(nccl, context);
		check_stops();
		ours(nccl)->finalize(context);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_plugin_that_is_too_new_is_refused_and_ours_works, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(a_context_of_null_is_a_context, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			a_plugin_whose_init_fails_is_left_alone, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			two_communicators_share_a_mask_and_nothing_else, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			a_mask_that_changes_later_reaches_nccl, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(handles_may_be_anything, chain_setup, chain_teardown),
		cmocka_unit_test_setup_teardown(
			events_may_end_on_another_thread, chain_setup, chain_teardown),
	};

	return cmocka_run_group_tests_name("nccl chain", tests, NULL, NULL);
}
