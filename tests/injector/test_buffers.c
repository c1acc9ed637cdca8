/* SPDX-License-Identifier: Apache-2.0 */
#include "records/buffers.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct cs_buffers buffers;

static int
setup(void **state)
{
	(void)state;
	memset(&buffers, 0, sizeof(buffers));
	return cs_buffers_init(&buffers, 4);
}

static int
teardown(void **state)
{
	(void)state;
	cs_buffers_destroy(&buffers);
	return 0;
}

static void
test_pool(void **state)
{
	uint8_t *held[4], *again;
	size_t bytes;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		assert_true(cs_buffers_take(&buffers, 100 + i, &held[i], &bytes));
		assert_int_equal(bytes, CS_BUFFER_BYTES);
		assert_int_equal((uintptr_t)held[i] % 8, 0);
		memset(held[i], (int)i, bytes);
	}
	assert_int_equal(cs_buffers_held(&buffers, 0), 4);
	assert_int_equal(cs_buffers_held(&buffers, 2), 2);
	assert_int_equal(cs_buffers_taken(&buffers), 4);
	assert_int_equal(cs_buffers_oldest_ns(&buffers, 0, 999), 100);
	assert_int_equal(cs_buffers_oldest_ns(&buffers, 3, 999), 103);
	assert_int_equal(cs_buffers_oldest_ns(&buffers, 4, 999), 999);
	cs_buffers_give(&buffers, held[0]);
	cs_buffers_give(&buffers, held[0]); /* once is enough */
	assert_int_equal(buffers.completed, 1);
	assert_int_equal(cs_buffers_oldest_ns(&buffers, 0, 999), 101);
	assert_true(cs_buffers_take(&buffers, 200, &again, &bytes));
	assert_ptr_equal(again, held[0]);
}

/* Never empty-handed, never the same buffer twice, and the small ones come back as well. */
/* What is ignored does not depend on the clock: the second was taken after the clock had been set back. */
static void
test_clock_set_back(void **state)
{
	uint8_t *held[2];
	uint64_t ignore_before;
	size_t bytes;

	(void)state;
	assert_true(cs_buffers_take(&buffers, 5000, &held[0], &bytes));
	ignore_before = cs_buffers_taken(&buffers);
	assert_true(cs_buffers_take(&buffers, 1000, &held[1], &bytes));
	assert_int_equal(cs_buffers_held(&buffers, ignore_before), 1);
	assert_int_equal(cs_buffers_oldest_ns(&buffers, ignore_before, 999), 1000);
	cs_buffers_give(&buffers, held[1]);
	assert_int_equal(cs_buffers_held(&buffers, ignore_before), 0);
	cs_buffers_give(&buffers, held[0]);
}

static void
test_beyond_the_pool(void **state)
{
	enum { MANY = 4 + CS_BUFFER_RESERVE_MAX + 20 };
	uint8_t *held[MANY];
	size_t bytes;

	(void)state;
	for (unsigned int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < MANY; i++) {
			assert_true(cs_buffers_take(&buffers, 1, &held[i], &bytes)); /* it will be read */
			assert_int_equal(bytes, i < 4 ? CS_BUFFER_BYTES : CS_BUFFER_RESERVE_BYTES);
			memset(held[i], 0x5a, bytes);
			for (unsigned int j = 0; j < i; j++)
				assert_ptr_not_equal(held[i], held[j]);
			assert_true(cs_buffers_is_held(&buffers, held[i]));
		}
		for (unsigned int i = 0; i < MANY; i++)
			cs_buffers_give(&buffers, held[i]);
		assert_int_equal(cs_buffers_held(&buffers, 0), 0);
	}
	assert_int_equal(buffers.short_requests, 3 * (MANY - 4));
	assert_int_equal(buffers.requested, 3 * MANY);
	assert_int_equal(buffers.completed, 3 * MANY);
}

/* Long before there is nothing left it shows. */
static void
test_run_short(void **state)
{
	enum { SHORT = 4 + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_SHORT };
	uint8_t *held[SHORT];
	size_t bytes;

	(void)state;
	for (unsigned int i = 0; i < SHORT; i++) {
		assert_false(cs_buffers_run_short(&buffers));
		cs_buffers_take(&buffers, 1, &held[i], &bytes);
	}
	assert_true(cs_buffers_run_short(&buffers));
	cs_buffers_give(&buffers, held[SHORT - 1]);
	assert_false(cs_buffers_run_short(&buffers));
	for (unsigned int i = 0; i < SHORT - 1; i++)
		cs_buffers_give(&buffers, held[i]);
}

/* What another tool has got hold of may stay away for good; the same room is left beside it. */
static void
test_disowned(void **state)
{
	enum { SHORT = 4 + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_SHORT };
	uint8_t *lost[SHORT], *held[CS_BUFFER_FRESH_SHORT];
	size_t bytes;

	(void)state;
	for (unsigned int i = 0; i < SHORT; i++)
		cs_buffers_take(&buffers, 1, &lost[i], &bytes);
	assert_true(cs_buffers_run_short(&buffers));
	assert_int_equal(cs_buffers_disown(&buffers), SHORT);
	assert_int_equal(cs_buffers_disown(&buffers), SHORT);
	for (unsigned int i = 0; i < CS_BUFFER_FRESH_SHORT; i++) {
		assert_false(cs_buffers_run_short(&buffers));
		cs_buffers_take(&buffers, 1, &held[i], &bytes);
	}
	assert_true(cs_buffers_run_short(&buffers));
	/* They come back after all. */
	for (unsigned int i = 0; i < SHORT; i++)
		cs_buffers_give(&buffers, lost[i]);
	assert_int_equal(buffers.fresh_lost, 0);
	assert_true(cs_buffers_run_short(&buffers));
	for (unsigned int i = 0; i < CS_BUFFER_FRESH_SHORT; i++)
		cs_buffers_give(&buffers, held[i]);
	assert_false(cs_buffers_run_short(&buffers));
}

/* Takes `count` buffers that nobody else has: each gets its number written into it. Returns how many were
 * refused. */
static unsigned int
take_marked(uint8_t **held, uint32_t first, unsigned int count)
{
	unsigned int refused = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = first + i;
		size_t bytes;
		bool accounted;

		accounted = cs_buffers_take(&buffers, 1, &held[i], &bytes);
		assert_int_equal(accounted, cs_buffers_is_held(&buffers, held[i]));
		if (held[i])
			memcpy(held[i], &number, sizeof(number));
		else
			refused += bytes == 0;
	}
	return refused;
}

static unsigned int
count_overwritten(uint8_t *const *held, uint32_t first, unsigned int count)
{
	unsigned int overwritten = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = first + i;

		overwritten += held[i] && memcmp(held[i], &number, sizeof(number)) != 0;
	}
	return overwritten;
}

enum { ACCOUNTED = 4 + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_MAX, BEYOND = CS_BUFFER_ABANDONED_END + 10 };

static uint8_t *flood[ACCOUNTED + CS_BUFFER_ABANDONED_MAX + BEYOND];

/* Never NULL, and still nobody's but the taker's. */
static void
test_flood_without_account(void **state)
{
	uint64_t mapped_bytes = cs_buffers_mapped_bytes(&buffers);

	(void)state;
	assert_int_equal(take_marked(flood, 0, ACCOUNTED + CS_BUFFER_ABANDONED_END), 0);
	assert_false(cs_buffers_run_out(&buffers));
	assert_int_equal(take_marked(flood + ACCOUNTED + CS_BUFFER_ABANDONED_END,
				 ACCOUNTED + CS_BUFFER_ABANDONED_END, BEYOND - CS_BUFFER_ABANDONED_END),
		0);
	assert_true(cs_buffers_run_out(&buffers));
	for (unsigned int i = 0; i < ACCOUNTED + BEYOND; i++) {
		assert_non_null(flood[i]);
		assert_int_equal(cs_buffers_is_held(&buffers, flood[i]), i < ACCOUNTED);
	}
	assert_int_equal(count_overwritten(flood, 0, ACCOUNTED + BEYOND), 0);
	for (unsigned int i = 0; i < ACCOUNTED + BEYOND; i++)
		cs_buffers_give(&buffers, flood[i]);
	assert_int_equal(count_overwritten(flood + ACCOUNTED, ACCOUNTED, BEYOND), 0);
	assert_int_equal(buffers.completed, ACCOUNTED);
	assert_int_equal(cs_buffers_mapped_bytes(&buffers), mapped_bytes + BEYOND * CS_BUFFER_RESERVE_BYTES);
	assert_int_equal(buffers.shared, 0);
}

/* And that has an end, too: what is left without an account stays mapped, so there is only so much of it. */
static void
test_flood_without_end(void **state)
{
	uint64_t mapped_bytes = cs_buffers_mapped_bytes(&buffers);
	const unsigned int own = ACCOUNTED + CS_BUFFER_ABANDONED_MAX;

	(void)state;
	assert_int_equal(take_marked(flood, 0, own), 0);
	assert_int_equal(count_overwritten(flood, 0, own), 0);
	assert_int_equal(buffers.shared, 0);
	assert_int_equal(take_marked(flood + own, own, BEYOND), 0);
	assert_int_equal(count_overwritten(flood, 0, own), 0);
	assert_int_equal(buffers.shared, BEYOND);
	for (unsigned int i = 0; i < own + BEYOND; i++)
		cs_buffers_give(&buffers, flood[i]);
	assert_int_equal(cs_buffers_mapped_bytes(&buffers),
		mapped_bytes + (uint64_t)CS_BUFFER_ABANDONED_MAX * CS_BUFFER_RESERVE_BYTES);
	/* The next flood finds as many accounts as the first, and no further mappings. */
	take_marked(flood, 0, own);
	assert_int_equal(cs_buffers_held(&buffers, 0), ACCOUNTED);
	assert_int_equal(buffers.shared, BEYOND + CS_BUFFER_ABANDONED_MAX);
	for (unsigned int i = 0; i < own; i++)
		cs_buffers_give(&buffers, flood[i]);
}

enum { FLOOD_THREADS = 16, FLOOD_EACH = 36 }; /* 576 at once: nearly as many as there is an account for */

static pthread_barrier_t flood_barrier;

static void *
take_many(void *argument)
{
	uint32_t first = (uint32_t)(uintptr_t)argument * FLOOD_EACH;
	uint8_t *held[FLOOD_EACH];
	unsigned int overwritten = 0;

	for (unsigned int round = 0; round < 5; round++) {
		take_marked(held, first, FLOOD_EACH);
		pthread_barrier_wait(&flood_barrier);
		overwritten += count_overwritten(held, first, FLOOD_EACH);
		for (unsigned int i = 0; i < FLOOD_EACH; i++)
			cs_buffers_give(&buffers, held[i]);
	}
	return (void *)(uintptr_t)overwritten;
}

static void
test_flood_of_threads(void **state)
{
	pthread_t threads[FLOOD_THREADS];

	(void)state;
	assert_int_equal(pthread_barrier_init(&flood_barrier, NULL, FLOOD_THREADS), 0);
	for (uintptr_t i = 0; i < FLOOD_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_many, (void *)i), 0);
	for (unsigned int i = 0; i < FLOOD_THREADS; i++) {
		void *overwritten;

		pthread_join(threads[i], &overwritten);
		assert_null(overwritten);
	}
	pthread_barrier_destroy(&flood_barrier);
	assert_int_equal(cs_buffers_held(&buffers, 0), 0);
	assert_int_equal(buffers.fresh_mapped, 0);
	assert_int_equal(buffers.requested, 5 * FLOOD_THREADS * FLOOD_EACH);
	assert_int_equal(buffers.completed, buffers.requested);
}

static void
test_foreign_buffers(void **state)
{
	uint8_t foreign[64], *ours;
	size_t bytes;

	(void)state;
	assert_true(cs_buffers_take(&buffers, 1, &ours, &bytes));
	assert_false(cs_buffers_is_held(&buffers, foreign));
	assert_false(cs_buffers_is_held(&buffers, ours + 8));
	assert_false(cs_buffers_is_held(&buffers, NULL));
	cs_buffers_give(&buffers, foreign);
	cs_buffers_give(&buffers, ours + 8);
	cs_buffers_give(&buffers, NULL);
	assert_int_equal(buffers.completed, 0);
}

static void
test_before_init(void **state)
{
	static struct cs_buffers none;
	uint8_t *buffer = NULL;
	size_t bytes;

	(void)state;
	assert_true(cs_buffers_take(&none, 1, &buffer, &bytes));
	assert_non_null(buffer);
	memset(buffer, 0, bytes);
	cs_buffers_give(&none, buffer);
	assert_int_equal(cs_buffers_init(&none, 0), -EINVAL);
	assert_int_equal(cs_buffers_init(&none, CS_BUFFERS_MAX + 1), -EINVAL);
}

/* Threads take and give; a buffer in two hands would show the other's mark. */
static void *
churn(void *argument)
{
	uint8_t mark = (uint8_t)(uintptr_t)argument;

	for (unsigned int i = 0; i < 20000; i++) {
		uint8_t *buffer;
		size_t bytes;

		cs_buffers_take(&buffers, 1, &buffer, &bytes);
		memset(buffer, mark, 64);
		for (unsigned int j = 0; j < 64; j++)
			if (buffer[j] != mark)
				return (void *)1;
		cs_buffers_give(&buffers, buffer);
	}
	return NULL;
}

static void
test_threads(void **state)
{
	pthread_t threads[8];

	(void)state;
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
	for (unsigned int i = 0; i < 8; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	assert_int_equal(cs_buffers_held(&buffers, 0), 0);
	assert_int_equal(buffers.requested, 160000);
	assert_int_equal(buffers.completed, 160000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clock_set_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_beyond_the_pool, setup, teardown),
		cmocka_unit_test_setup_teardown(test_run_short, setup, teardown),
		cmocka_unit_test_setup_teardown(test_disowned, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_without_account, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_of_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_buffers, setup, teardown),
		cmocka_unit_test(test_before_init),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
