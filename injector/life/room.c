/* SPDX-License-Identifier: Apache-2.0 */
#include "room.h"

#include "proc_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t
left(uint64_t limit_bytes, uint64_t used_bytes)
{
	if (limit_bytes == UINT64_MAX)
		return UINT64_MAX;
	return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
}

uint64_t
cs_room_left_of(const char *statm, uint64_t page_bytes, uint64_t address_space_bytes, uint64_t data_bytes,
	const char **limit)
{
	uint64_t size_pages, data_pages, space_left, data_left;

	/* proc(5): size resident shared text lib data dirty. */
	if (sscanf(statm, "%" SCNu64 " %*u %*u %*u %*u %" SCNu64, &size_pages, &data_pages) != 2)
		return UINT64_MAX;
	space_left = left(address_space_bytes, size_pages * page_bytes);
	data_left = left(data_bytes, data_pages * page_bytes);
	*limit = space_left <= data_left ? "the limit of address space (ulimit -v)"
					 : "the limit of data (ulimit -d)";
	return space_left <= data_left ? space_left : data_left;
}

static uint64_t
limit_of(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return (uint64_t)limit.rlim_cur;
}

uint64_t
cs_room_left_bytes(const char **limit)
{
	uint64_t space_bytes = limit_of(RLIMIT_AS);
	uint64_t data_bytes = limit_of(RLIMIT_DATA);
	long page_bytes = sysconf(_SC_PAGESIZE);
	char statm[256];

	if ((space_bytes == UINT64_MAX && data_bytes == UINT64_MAX) || page_bytes <= 0)
		return UINT64_MAX;
	if (cs_proc_file_read("/proc/self/statm", statm, sizeof(statm)) <= 0)
		return UINT64_MAX;
	return cs_room_left_of(statm, (uint64_t)page_bytes, space_bytes, data_bytes, limit);
}
