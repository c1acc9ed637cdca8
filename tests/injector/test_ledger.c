/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger and the table of eager launches as tables. */
#include "eager.h"
#include "ledger.h"

/* must come before cmocka.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS        4
#define LIVE_NODES     262144U
#define GRAPH_NODES    854U
#define GRAPH_LABELLED 244U
#define PER_THREAD     20000U

static uint64_t
value_of(uint64_t id)
{
	return id * 0x9e3779b97f4a7c15ULL | 1;
}

static void
test_put_find_remove(void **state)
{
	struct cs_ledger *ledger;
	uint64_t value = 0;

	(void)state;
	assert_int_equal(cs_ledger_create(1024, &ledger), 0);
	assert_false(cs_ledger_find(ledger, 0x200000004, &value));
	assert_int_equal(cs_ledger_put(ledger, 0x200000004, 7), 1);
	assert_true(cs_ledger_find(ledger, 0x200000004, &value));
	assert_int_equal(value, 7);
	assert_int_equal(cs_ledger_put(ledger, 0x200000004, 8), 0);
	assert_int_equal(cs_ledger_count(ledger), 1);
	assert_true(cs_ledger_replace(ledger, 0x200000004, 9));
	assert_false(cs_ledger_replace(ledger, 0x200000005, 9));
	assert_true(cs_ledger_find(ledger, 0x200000004, &value));
	assert_int_equal(value, 9);
	assert_true(cs_ledger_remove(ledger, 0x200000004));
	assert_false(cs_ledger_remove(ledger, 0x200000004));
	assert_false(cs_ledger_find(ledger, 0x200000004, &value));
	assert_int_equal(cs_ledger_count(ledger), 0);
	cs_ledger_destroy(ledger);
	cs_ledger_destroy(NULL);
}

static void
test_refuses_what_is_no_id_and_no_size(void **state)
{
	struct cs_ledger *ledger;
	uint64_t value;

	(void)state;
	assert_int_equal(cs_ledger_create(1000, &ledger), -EINVAL);
	assert_null(ledger);
	assert_int_equal(cs_ledger_create(8, &ledger), -EINVAL);
	assert_int_equal(cs_ledger_create(16, &ledger), 0);
	assert_int_equal(cs_ledger_put(ledger, 0, 1), -EINVAL);
	assert_int_equal(cs_ledger_put(ledger, UINT64_MAX, 1), -EINVAL);
	assert_false(cs_ledger_find(ledger, 0, &value));
	assert_false(cs_ledger_remove(ledger, UINT64_MAX));
	cs_ledger_destroy(ledger);
}

/* Every id as CUPTI makes them: graph << 32 | ordinal. */
static void
put_and_check(struct cs_ledger *ledger, uint64_t (*id_of)(uint32_t), uint32_t count)
{
	uint64_t value;

	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(cs_ledger_put(ledger, id_of(i), value_of(id_of(i))), 1);
	assert_int_equal(cs_ledger_count(ledger), count);
	for (uint32_t i = 0; i < count; i++) {
		assert_true(cs_ledger_find(ledger, id_of(i), &value));
		assert_int_equal(value, value_of(id_of(i)));
	}
	for (uint32_t i = 0; i < count; i++)
		assert_true(cs_ledger_remove(ledger, id_of(i)));
	assert_int_equal(cs_ledger_count(ledger), 0);
}

static uint64_t
one_graph(uint32_t i)
{
	return 7ULL << 32 | i;
}

static uint64_t
decode_graphs(uint32_t i)
{
	/* every third and fourth node of a step of 854 */
	uint32_t ordinal = i % GRAPH_LABELLED / 2 * 7 + i % 2 + 2;

	return (uint64_t)(i / GRAPH_LABELLED * 2 + 2) << 32 | (ordinal % GRAPH_NODES);
}

static uint64_t
tiny_graphs(uint32_t i)
{
	return (uint64_t)(i + 1) << 32;
}

static void
test_holds_what_it_promises(void **state)
{
	struct cs_ledger *ledger;

	(void)state;
	assert_int_equal(cs_ledger_create(CS_LEDGER_SLOTS, &ledger), 0);
	assert_true(cs_ledger_mapped_bytes(ledger) <= (8U << 20) + 4096);
	put_and_check(ledger, one_graph, LIVE_NODES);
	put_and_check(ledger, decode_graphs, LIVE_NODES);
	put_and_check(ledger, tiny_graphs, LIVE_NODES);
	cs_ledger_destroy(ledger);
}

static void
test_full_says_so_and_recovers(void **state)
{
	struct cs_ledger *ledger;
	uint32_t held = 0;
	uint64_t value;
	int result = 1;

	(void)state;
	assert_int_equal(cs_ledger_create(64, &ledger), 0);
	while (result == 1 && held < 1000) {
		result = cs_ledger_put(ledger, one_graph(held + 1), held);
		held += result == 1;
	}
	assert_int_equal(result, -ENOSPC);
	assert_in_range(held, 32, 64);
	assert_int_equal(cs_ledger_count(ledger), held);
	/* What is there can still be changed, and a removal makes room for the one that had none. */
	assert_int_equal(cs_ledger_put(ledger, one_graph(1), 99), 0);
	for (uint32_t i = 1; i <= held; i++)
		assert_true(cs_ledger_remove(ledger, one_graph(i)));
	assert_int_equal(cs_ledger_put(ledger, one_graph(held + 1), 5), 1);
	assert_true(cs_ledger_find(ledger, one_graph(held + 1), &value));
	cs_ledger_destroy(ledger);
}

/* Re-capturing for ever in a half-full table: nothing wears out. */
static void
test_churn_leaves_nothing_behind(void **state)
{
	struct cs_ledger *ledger;
	uint64_t value;

	(void)state;
	assert_int_equal(cs_ledger_create(2048, &ledger), 0);
	for (uint32_t i = 0; i < 1024; i++)
		assert_int_equal(cs_ledger_put(ledger, one_graph(i), i), 1);
	for (uint32_t i = 1024; i < 400000; i++) {
		assert_true(cs_ledger_remove(ledger, one_graph(i - 1024)));
		assert_int_equal(cs_ledger_put(ledger, one_graph(i), i), 1);
	}
	for (uint32_t i = 400000 - 1024; i < 400000; i++) {
		assert_true(cs_ledger_find(ledger, one_graph(i), &value));
		assert_int_equal(value, i);
	}
	assert_int_equal(cs_ledger_count(ledger), 1024);
	cs_ledger_destroy(ledger);
}

struct worker {
	struct cs_ledger *ledger;
	_Atomic bool *stop;
	uint32_t number;
	uint64_t wrong;
	uint64_t found;
};

static void *
put_remove_and_put(void *argument)
{
	struct worker *worker = argument;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < PER_THREAD; i++) {
			uint64_t id = (uint64_t)(worker->number + 1) << 32 | i;

			worker->wrong += cs_ledger_put(worker->ledger, id, value_of(id)) != 1;
		}
		for (uint32_t i = 0; i < PER_THREAD && round < 2; i++)
			worker->wrong +=
				!cs_ledger_remove(worker->ledger, (uint64_t)(worker->number + 1) << 32 | i);
	}
	return NULL;
}

/* Whatever is found must be that id's value, however the slots change hands. */
static void *
look_up(void *argument)
{
	struct worker *worker = argument;

	for (uint32_t i = 0; !atomic_load(worker->stop) || worker->found == 0; i = (i + 1) % PER_THREAD) {
		for (uint32_t thread = 0; thread < THREADS; thread++) {
			uint64_t id = (uint64_t)(thread + 1) << 32 | i;
			uint64_t value;

			if (!cs_ledger_find(worker->ledger, id, &value))
				continue;
			worker->found++;
			worker->wrong += value != value_of(id);
		}
	}
	return NULL;
}

static void
test_threads_share_it(void **state)
{
	struct worker workers[THREADS + 1] = {0};
	pthread_t threads[THREADS + 1];
	struct cs_ledger *ledger;
	_Atomic bool stop = false;
	uint64_t value;

	(void)state;
	assert_int_equal(cs_ledger_create(CS_LEDGER_SLOTS / 2, &ledger), 0);
	for (uint32_t i = 0; i <= THREADS; i++) {
		workers[i] = (struct worker){.ledger = ledger, .stop = &stop, .number = i};
		assert_int_equal(pthread_create(&threads[i], NULL, i < THREADS ? put_remove_and_put : look_up,
					 &workers[i]),
			0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop, true);
	pthread_join(threads[THREADS], NULL);
	for (uint32_t i = 0; i <= THREADS; i++)
		assert_int_equal(workers[i].wrong, 0);
	assert_int_equal(cs_ledger_count(ledger), THREADS * PER_THREAD);
	for (uint32_t thread = 0; thread < THREADS; thread++) {
		for (uint32_t i = 0; i < PER_THREAD; i++) {
			assert_true(cs_ledger_find(ledger, (uint64_t)(thread + 1) << 32 | i, &value));
			assert_int_equal(value, value_of((uint64_t)(thread + 1) << 32 | i));
		}
	}
	cs_ledger_destroy(ledger);
}

static void
test_eager_keeps_the_newest(void **state)
{
	struct cs_eager *eager = calloc(1, sizeof(*eager));
	uint32_t start = UINT32_MAX - 500000; /* ids wrap around on the way */
	uint32_t kept = 0;
	uint64_t value;

	(void)state;
	assert_non_null(eager);
	for (uint32_t i = 0; i < 1000000; i += 10)
		cs_eager_put(eager, start + i, i);
	/* The last 16,384 of 100,000: half of the slots. */
	for (uint32_t i = 1000000 - 163840; i < 1000000; i += 10)
		kept += cs_eager_find(eager, start + i, &value) && value == i;
	assert_true(kept > 16384 * 99 / 100);
	assert_false(cs_eager_find(eager, start, &value));
	assert_false(cs_eager_find(eager, start + 999995, &value));
	assert_true(cs_eager_replace(eager, start + 999990, 5));
	assert_true(cs_eager_find(eager, start + 999990, &value));
	assert_int_equal(value, 5);
	assert_false(cs_eager_replace(eager, start, 5));
	cs_eager_put(eager, 0, 1);
	assert_false(cs_eager_find(eager, 0, &value));
	free(eager);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_find_remove),
		cmocka_unit_test(test_refuses_what_is_no_id_and_no_size),
		cmocka_unit_test(test_holds_what_it_promises),
		cmocka_unit_test(test_full_says_so_and_recovers),
		cmocka_unit_test(test_churn_leaves_nothing_behind),
		cmocka_unit_test(test_threads_share_it),
		cmocka_unit_test(test_eager_keeps_the_newest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
