/* SPDX-License-Identifier: Apache-2.0 */
#include "suspects.h"

#include "injector.h"
#include "life/library.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* How sure it is that it is a tool: one of NVIDIA's is there for that alone, an injected library most likely,
 * torch has its profiler, and others may use libcupti for anything. */
enum rank { NOBODY, USES_CUPTI, TORCH, INJECTED, SANITIZER, NSIGHT_COMPUTE, NSIGHT_SYSTEMS };

struct search {
	enum rank rank;
	char file[128];
};

static const char *
file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The loader has added the base to DT_STRTAB, except in the vDSO. */
static const char *
find_strings(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic)
{
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		uintptr_t at = (uintptr_t)dynamic->d_un.d_ptr;

		if (dynamic->d_tag == DT_STRTAB)
			return (const char *)(at < info->dlpi_addr ? at + info->dlpi_addr : at);
	}
	return NULL;
}

static bool
needs_cupti(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *dynamic = NULL;
	const char *strings;

	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic =
				(const ElfW(Dyn) *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	strings = dynamic ? find_strings(info, dynamic) : NULL;
	for (; strings && dynamic->d_tag != DT_NULL; dynamic++)
		if (dynamic->d_tag == DT_NEEDED &&
			strncmp(strings + dynamic->d_un.d_val, "libcupti.so", 11) == 0)
			return true;
	return false;
}

static enum rank
rank_of(const struct dl_phdr_info *info)
{
	const char *file = file_name(info->dlpi_name);

	if (strstr(info->dlpi_name, "nsight-systems"))
		return NSIGHT_SYSTEMS;
	if (strstr(info->dlpi_name, "nsight-compute"))
		return NSIGHT_COMPUTE;
	if (!needs_cupti(info))
		return NOBODY;
	return strncmp(file, "libtorch", 8) == 0 ? TORCH : USES_CUPTI;
}

static int
visit(struct dl_phdr_info *info, size_t bytes, void *argument)
{
	struct search *search = argument;
	enum rank rank;

	(void)bytes;
	if (!info->dlpi_name || !strchr(info->dlpi_name, '/'))
		return 0; /* the program and the vDSO */
	rank = rank_of(info);
	if (rank > search->rank) {
		search->rank = rank;
		snprintf(search->file, sizeof(search->file), "%s", file_name(info->dlpi_name));
	}
	return 0;
}

/* What the launchers leave in the environment of the program. */
static const struct {
	const char *variable;
	enum rank rank;
} left_behind[] = {
	{"NSYS_PROFILING_SESSION_ID", NSIGHT_SYSTEMS},
	{"NV_NSIGHT_INJECTION_PORT_BASE", NSIGHT_COMPUTE},
	{"NV_COMPUTE_PROFILER_PERFWORKS_DIR", NSIGHT_COMPUTE},
	{"NV_SANITIZER_INJECTION_PORT_RANGE", SANITIZER},
};

static bool
is_this_library(const char *path)
{
	struct stat theirs, ours;

	return stat(path, &theirs) == 0 && stat(cs_injector_library_path(), &ours) == 0 &&
	       theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* Of the environment at start-up. */
static bool left[sizeof(left_behind) / sizeof(left_behind[0])];
static char injection_path[512]; /* a longer one is nobody's that we know */

void
cs_suspects_keep_environment(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");

	for (size_t i = 0; i < sizeof(left_behind) / sizeof(left_behind[0]); i++)
		left[i] = getenv(left_behind[i].variable) != NULL;
	snprintf(injection_path, sizeof(injection_path), "%s", path ? path : "");
}

/* The driver loads one library by that name. `none` is how some say that there is no such library. */
static const char *
other_injection(void)
{
	if (!injection_path[0] || strcmp(injection_path, "none") == 0 || is_this_library(injection_path))
		return NULL;
	return injection_path;
}

static void
look_at_environment(struct search *search)
{
	const char *injection = other_injection();

	for (size_t i = 0; i < sizeof(left_behind) / sizeof(left_behind[0]); i++)
		if (left_behind[i].rank > search->rank && left[i]) {
			search->rank = left_behind[i].rank;
			snprintf(search->file, sizeof(search->file), "%s is set", left_behind[i].variable);
		}
	if (!injection)
		return;
	if (strstr(injection, "nsight-systems") && search->rank < NSIGHT_SYSTEMS)
		search->rank = NSIGHT_SYSTEMS;
	else if (strstr(injection, "nsight-compute") && search->rank < NSIGHT_COMPUTE)
		search->rank = NSIGHT_COMPUTE;
	else if (search->rank < INJECTED)
		search->rank = INJECTED;
	else
		return;
	snprintf(search->file, sizeof(search->file), "CUDA_INJECTION64_PATH is %.100s", file_name(injection));
}

bool
cs_suspects_name(char *text, size_t text_bytes)
{
	static const char *const names[] = {[TORCH] = "torch.profiler",
		[INJECTED] = "an injected library",
		[SANITIZER] = "Compute Sanitizer",
		[NSIGHT_COMPUTE] = "Nsight Compute",
		[NSIGHT_SYSTEMS] = "Nsight Systems"};
	struct search search = {.rank = NOBODY};
	int saved_errno = errno;

	text[0] = '\0';
	cs_library_visit(visit, &search);
	look_at_environment(&search);
	if (search.rank == USES_CUPTI)
		snprintf(text, text_bytes, "%s", search.file);
	else if (search.rank != NOBODY)
		snprintf(text, text_bytes, "%s (%s)", names[search.rank], search.file);
	errno = saved_errno;
	return text[0] != '\0';
}
