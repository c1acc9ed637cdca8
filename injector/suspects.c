/* SPDX-License-Identifier: Apache-2.0 */
#include "suspects.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How sure it is that the library is a tool: one of Nsight is there for that alone, torch has its profiler,
 * and others may use libcupti for anything. */
enum rank { NOBODY, USES_CUPTI, TORCH, NSIGHT_COMPUTE, NSIGHT_SYSTEMS };

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

bool
cs_suspects_name(char *text, size_t text_bytes)
{
	static const char *const names[] = {[TORCH] = "torch.profiler",
		[NSIGHT_COMPUTE] = "Nsight Compute",
		[NSIGHT_SYSTEMS] = "Nsight Systems"};
	struct search search = {.rank = NOBODY};

	text[0] = '\0';
	dl_iterate_phdr(visit, &search);
	if (search.rank < NSIGHT_COMPUTE && getenv("NSYS_PROFILING_SESSION_ID"))
		snprintf(text, text_bytes, "Nsight Systems (NSYS_PROFILING_SESSION_ID is set)");
	else if (search.rank == USES_CUPTI)
		snprintf(text, text_bytes, "%s", search.file);
	else if (search.rank != NOBODY)
		snprintf(text, text_bytes, "%s (%s)", names[search.rank], search.file);
	return text[0] != '\0';
}
