/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries with the names and needs of real ones, loaded one after the other: a later one is likelier. */
#include "suspects.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
assert_suspect(const char *wanted)
{
	char text[128];

	assert_int_equal(cs_suspects_name(text, sizeof(text)), wanted[0] != '\0');
	assert_string_equal(text, wanted);
}

static void
test_likelier_ones(void **state)
{
	(void)state;
	unsetenv("NSYS_PROFILING_SESSION_ID");
	assert_suspect("");
	assert_non_null(dlopen(CS_TEST_OTHER, RTLD_NOW));
	assert_suspect("libother_tool.so");
	assert_non_null(dlopen(CS_TEST_TORCH, RTLD_NOW));
	assert_suspect("torch.profiler (libtorch_cpu.so)");
	setenv("NSYS_PROFILING_SESSION_ID", "1", 1);
	assert_suspect("Nsight Systems (NSYS_PROFILING_SESSION_ID is set)");
	unsetenv("NSYS_PROFILING_SESSION_ID");
	assert_non_null(dlopen(CS_TEST_NSIGHT, RTLD_NOW));
	assert_suspect("Nsight Systems (libToolsInjection64.so)");
}

static void
test_cut(void **state)
{
	char text[8];

	(void)state;
	assert_true(cs_suspects_name(text, sizeof(text)));
	assert_string_equal(text, "Nsight ");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_likelier_ones),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
