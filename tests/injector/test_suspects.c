/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries with the names and needs of real ones, loaded one after the other: a later one is likelier. */
#include "cupti/suspects.h"

#include "injector.h"

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

	cs_suspects_keep_environment();
	assert_int_equal(cs_suspects_name(text, sizeof(text)), wanted[0] != '\0');
	assert_string_equal(text, wanted);
}

static void
forget_environment(void)
{
	unsetenv("NSYS_PROFILING_SESSION_ID");
	unsetenv("NV_NSIGHT_INJECTION_PORT_BASE");
	unsetenv("NV_COMPUTE_PROFILER_PERFWORKS_DIR");
	unsetenv("NV_SANITIZER_INJECTION_PORT_RANGE");
	unsetenv("CUDA_INJECTION64_PATH");
}

/* Before any library is loaded: by what the launchers set. */
static void
test_environment(void **state)
{
	(void)state;
	forget_environment();
	setenv("CUDA_INJECTION64_PATH", "/opt/tools/libother.so", 1);
	assert_suspect("an injected library (CUDA_INJECTION64_PATH is libother.so)");
	setenv("NV_SANITIZER_INJECTION_PORT_RANGE", "64", 1);
	assert_suspect("Compute Sanitizer (NV_SANITIZER_INJECTION_PORT_RANGE is set)");
	setenv("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/tmp", 1);
	assert_suspect("Nsight Compute (NV_COMPUTE_PROFILER_PERFWORKS_DIR is set)");
	setenv("CUDA_INJECTION64_PATH", "/opt/nvidia/nsight-systems/2025.3.1/target/libToolsInjection64.so",
		1);
	assert_suspect("Nsight Systems (CUDA_INJECTION64_PATH is libToolsInjection64.so)");
	forget_environment();
	setenv("NV_NSIGHT_INJECTION_PORT_BASE", "49152", 1);
	assert_suspect("Nsight Compute (NV_NSIGHT_INJECTION_PORT_BASE is set)");
	forget_environment();
	setenv("CUDA_INJECTION64_PATH", "/opt/nvidia/nsight-compute/2025.3.1/target/libcuda-injection.so", 1);
	assert_suspect("Nsight Compute (CUDA_INJECTION64_PATH is libcuda-injection.so)");
	forget_environment();
}

/* Nobody else: the library itself, and the word for none. */
static void
test_own_injection(void **state)
{
	(void)state;
	setenv("CUDA_INJECTION64_PATH", cs_injector_library_path(), 1);
	assert_suspect("");
	setenv("CUDA_INJECTION64_PATH", "none", 1);
	assert_suspect("");
	unsetenv("CUDA_INJECTION64_PATH");
}

static void
test_likelier_ones(void **state)
{
	(void)state;
	forget_environment();
	assert_suspect("");
	assert_non_null(dlopen(CS_TEST_OTHER, RTLD_NOW));
	assert_suspect("libother_tool.so");
	assert_non_null(dlopen(CS_TEST_TORCH, RTLD_NOW));
	assert_suspect("torch.profiler (libtorch_cpu.so)");
	setenv("NSYS_PROFILING_SESSION_ID", "1", 1);
	assert_suspect("Nsight Systems (NSYS_PROFILING_SESSION_ID is set)");
	forget_environment();
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
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_own_injection),
		cmocka_unit_test(test_likelier_ones),
		cmocka_unit_test(test_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
