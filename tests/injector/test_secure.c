/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up in a set-user-ID program: nothing happens. The kernel's word (AT_SECURE) is replaced at the
 * linker. */
#include "life/instance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);

static unsigned long secure;
static char parent[] = "/tmp/collscope-test-XXXXXX";
static char directory[64];

unsigned long
__wrap_getauxval(unsigned long type)
{
	return type == AT_SECURE ? secure : __real_getauxval(type);
}

static int
set_up(void **state)
{
	(void)state;
	if (!mkdtemp(parent))
		return -1;
	snprintf(directory, sizeof(directory), "%s/run", parent);
	setenv("COLLSCOPE_DIR", directory, 1);
	setenv("COLLSCOPE_CUPTI_PATH", "/nonexistent/libcupti.so", 1);
	setenv("COLLSCOPE_LOG", "error", 1);
	unsetenv("NCCL_PROFILER_PLUGIN");
	unsetenv("NVTX_INJECTION64_PATH");
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	rmdir(directory);
	return rmdir(parent);
}

static void
test_secure(void **state)
{
	struct cs_instance *instance = cs_instance_get();
	struct stat status;

	(void)state;
	secure = 1;
	errno = E2BIG;
	cs_instance_start();
	assert_int_equal(errno, E2BIG);
	assert_string_equal(instance->settings.directory, ""); /* the environment was not read */
	assert_false(atomic_load(&instance->dormant));
	assert_null(atomic_load(&instance->writer));
	assert_null(getenv("NCCL_PROFILER_PLUGIN"));
	assert_null(getenv("NVTX_INJECTION64_PATH"));
	assert_int_equal(stat(directory, &status), -1);
}

/* The same start otherwise: as far as a missing CUPTI lets it come. */
static void
test_not_secure(void **state)
{
	struct cs_instance *instance = cs_instance_get();
	struct stat status;

	(void)state;
	secure = 0;
	cs_instance_start();
	assert_string_equal(instance->settings.directory, directory);
	assert_true(atomic_load(&instance->dormant));
	assert_int_equal(stat(directory, &status), 0);
	unlink(cs_segment_writer_path(atomic_load(&instance->writer)));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secure),
		cmocka_unit_test(test_not_secure),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
