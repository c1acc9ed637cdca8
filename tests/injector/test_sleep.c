/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's sleep. A lost wake-up shows as a test that does not end: an alarm ends it. */
#include "life/instance.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#define HOUR_NS  3600000000000ULL
#define DEADLINE 60U /* a failure, not a speed */

/* What comes after the worker has looked, and before it sleeps, makes it look again. */
static void
nudged_before(void **state)
{
	uint32_t wakes = cs_instance_wakes();

	(void)state;
	cs_instance_nudge();
	cs_instance_sleep(HOUR_NS, wakes);
}

static void *
nudge(void *argument)
{
	(void)argument;
	usleep(1000);
	cs_instance_nudge();
	return NULL;
}

static void
nudged_within(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 50; i++) {
		uint32_t wakes = cs_instance_wakes();
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, nudge, NULL), 0);
		cs_instance_sleep(HOUR_NS, wakes);
		pthread_join(thread, NULL);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nudged_before), cmocka_unit_test(nudged_within)};

	alarm(DEADLINE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
