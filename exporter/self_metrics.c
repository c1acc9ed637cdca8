/* SPDX-License-Identifier: Apache-2.0 */
#include "self_metrics.h"

#include "clock.h"
#include "proc_file.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Boot time in Unix seconds, from the "btime" line of /proc/stat; 0 unknown. */
static uint64_t
boot_time_s(void)
{
	FILE *file = fopen("/proc/stat", "re");
	char line[256];
	uint64_t seconds = 0;

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "btime %" SCNu64, &seconds) == 1)
			break;
	}
	fclose(file);
	return seconds;
}

static uint64_t
open_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	uint64_t count = 0;

	if (!directory)
		return 0;
	for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count - 1; /* the one that readdir goes through */
}

/* /proc/self/stat, proc(5): after the name in parentheses come fields 3, 4, ...; 14 utime, 15 stime, 22 start
 * time in clock ticks, 23 virtual size in bytes, 24 resident pages. */
static void
collect_stat(struct cs_snapshot *snapshot)
{
	uint64_t ticks_per_s = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t ns_per_tick = CS_NS_PER_S / ticks_per_s;
	uint64_t boot_s = boot_time_s();
	uint64_t fields[25] = {0};
	char text[1024];
	char *at;

	if (cs_proc_file_read("/proc/self/stat", text, sizeof(text)) <= 0)
		return;
	at = strrchr(text, ')');
	if (!at || !at[1] || !at[2])
		return;
	at += 3; /* over ") S" to the blank before field 4 */
	for (size_t field = 4; field < 25 && *at; field++)
		fields[field] = strtoull(at, &at, 10);
	cs_snapshot_plain(
		snapshot, CS_FAMILY_PROCESS_CPU, cs_value_ns((fields[14] + fields[15]) * ns_per_tick));
	cs_snapshot_plain(snapshot, CS_FAMILY_PROCESS_VIRTUAL, cs_value_integer(fields[23]));
	cs_snapshot_plain(snapshot, CS_FAMILY_PROCESS_RESIDENT,
		cs_value_integer(fields[24] * (uint64_t)sysconf(_SC_PAGESIZE)));
	if (boot_s)
		cs_snapshot_plain(snapshot, CS_FAMILY_PROCESS_START,
			cs_value_ns(boot_s * CS_NS_PER_S + fields[22] * ns_per_tick));
}

void
cs_self_metrics_collect(struct cs_snapshot *snapshot)
{
	struct rlimit limit;

	collect_stat(snapshot);
	cs_snapshot_plain(snapshot, CS_FAMILY_PROCESS_OPEN_FDS, cs_value_integer(open_fds()));
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		cs_snapshot_plain(snapshot, CS_FAMILY_PROCESS_MAX_FDS, cs_value_integer(limit.rlim_cur));
}
