/* SPDX-License-Identifier: Apache-2.0 */
/* Which clock a CUPTI has, of which only the two functions are there that matter. */
#include "cupti/timebase.h"

#include "clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static CUpti_TimestampCallbackFunc registered;
static int64_t off_ns;
static CUptiResult answer, answer_to_registration;

static CUptiResult
get_timestamp(uint64_t *timestamp)
{
	*timestamp = registered ? registered() : cs_clock_realtime_ns() + (uint64_t)off_ns;
	return answer;
}

static CUptiResult
register_callback(CUpti_TimestampCallbackFunc function)
{
	assert_non_null(function); /* the real one refuses it */
	if (answer_to_registration == CUPTI_SUCCESS)
		registered = function;
	return answer_to_registration;
}

static const struct cs_cupti_api cupti = {
	.get_timestamp = get_timestamp,
	.activity_register_timestamp_callback = register_callback,
};

static int
setup(void **state)
{
	(void)state;
	registered = NULL;
	off_ns = 0;
	answer = CUPTI_SUCCESS;
	answer_to_registration = CUPTI_SUCCESS;
	return 0;
}

static void
test_whose(void **state)
{
	(void)state;
	assert_true(cs_timebase_is_ours(&cupti));
	off_ns = 37000000000; /* CLOCK_TAI */
	assert_false(cs_timebase_is_ours(&cupti));
	off_ns = -37000000000;
	assert_false(cs_timebase_is_ours(&cupti));
	off_ns = -(int64_t)cs_clock_realtime_ns(); /* ticks since the machine started */
	assert_false(cs_timebase_is_ours(&cupti));
	answer = CUPTI_ERROR_NOT_INITIALIZED;
	assert_true(cs_timebase_is_ours(&cupti));
}

static void
test_restore(void **state)
{
	(void)state;
	off_ns = -1000000000000;
	assert_true(cs_timebase_restore(&cupti));
	assert_true(cs_timebase_is_ours(&cupti));
	assert_true(registered() <= cs_clock_realtime_ns());
}

static void
test_refused(void **state)
{
	const struct cs_cupti_api old = {.get_timestamp = get_timestamp};

	(void)state;
	off_ns = -1000000000000;
	answer_to_registration = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	assert_false(cs_timebase_restore(&cupti));
	assert_false(cs_timebase_restore(&old));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_whose, setup),
		cmocka_unit_test_setup(test_restore, setup),
		cmocka_unit_test_setup(test_refused, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
