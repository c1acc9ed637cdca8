/* SPDX-License-Identifier: Apache-2.0 */
/* How many descriptors this process has open, the one that looks included: what leaks shows in the
 * difference. */
#ifndef CS_TEST_DESCRIPTORS_H
#define CS_TEST_DESCRIPTORS_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline unsigned int
count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

#endif
