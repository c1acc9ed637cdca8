/* SPDX-License-Identifier: Apache-2.0 */
#include "leftovers.h"

#include "clock.h"
#include "log.h"
#include "segment/rundir.h"
#include "segment/segment_check.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
is_old(const struct stat *status, uint64_t age_ns)
{
	uint64_t changed_ns =
		(uint64_t)status->st_mtim.tv_sec * CS_NS_PER_S + (uint64_t)status->st_mtim.tv_nsec;
	uint64_t now_ns = cs_clock_realtime_ns();

	return now_ns > changed_ns && now_ns - changed_ns >= age_ns;
}

static bool
remove_one(int directory, const char *name, uint64_t age_ns)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool removed = false;
	struct stat status;

	if (fd < 0)
		return false;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && is_old(&status, age_ns) &&
		cs_segment_lock_held(fd) == 0)
		removed = unlinkat(directory, name, 0) == 0;
	close(fd);
	return removed;
}

unsigned int
cs_leftovers_remove(const char *directory, uint64_t age_ns)
{
	DIR *stream = opendir(directory);
	unsigned int count = 0;

	if (!stream)
		return 0;
	if (age_ns < CS_LEFTOVERS_AGE_MIN_NS)
		age_ns = CS_LEFTOVERS_AGE_MIN_NS;
	for (const struct dirent *entry = readdir(stream); entry; entry = readdir(stream))
		if (cs_rundir_is_temporary(entry->d_name))
			count += remove_one(dirfd(stream), entry->d_name, age_ns);
	closedir(stream);
	if (count)
		cs_log_info("Removed unfinished segments of dead processes count=%u", count);
	return count;
}
