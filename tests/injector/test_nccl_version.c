/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's version where no plugin of ours is called. */
#include "instance_double.h"
#include "labels/announce.h"
#include "nccl/version.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Nothing while it is not loaded, however often one looks; then it is found, also between two looks. */
static void
found_when_it_comes(void **state)
{
	void *library;

	(void)state;
	cs_nccl_version_watch();
	cs_nccl_version_watch();
	assert_int_equal(cs_announce_nccl_version_number(), 0);
	library = dlopen(CS_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	cs_nccl_version_watch();
	assert_int_equal(cs_announce_nccl_version_number(), 22809);
	assert_string_equal(cs_announce_nccl_version(), "2.28.9");
	/* It is not held: the host may unload it. */
	dlclose(library);
	assert_null(dlopen(CS_NCCL_LIBRARY, RTLD_NOW | RTLD_NOLOAD));
	cs_nccl_version_watch();
	assert_int_equal(cs_announce_nccl_version_number(), 22809);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(found_when_it_comes)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
