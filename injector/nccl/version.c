/* SPDX-License-Identifier: Apache-2.0 */
#include "version.h"

#include "injector.h"
#include "labels/announce.h"
#include "life/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static int
ask_library(const char *path)
{
	int (*get_version)(int *) = NULL;
	void *symbol;
	void *library;
	int version = 0;

	library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	symbol = library != NULL ? dlsym(library, "ncclGetVersion") : dlsym(RTLD_DEFAULT, "ncclGetVersion");
	/* ISO C has no conversion from an object pointer to a function pointer. */
	memcpy(&get_version, &symbol, sizeof(get_version));
	if (get_version != NULL && get_version(&version) != 0)
		version = 0;
	if (library != NULL)
		dlclose(library);
	return version;
}

static void
tell(const char *path)
{
	struct cs_segment_writer *writer = cs_injector_borrow_writer();

	if (cs_announce_nccl_version_number() == 0)
		cs_announce_set_nccl_version(ask_library(path));
	if (writer != NULL && cs_announce_nccl_version_number() != 0)
		cs_segment_writer_text(writer, CS_TEXT_NCCL, cs_announce_nccl_version());
}

void
cs_nccl_version_find(const void *address)
{
	Dl_info info;

	if (dladdr(address, &info) != 0 && info.dli_fname != NULL)
		tell(info.dli_fname);
}

struct search {
	unsigned long long seen; /* libraries loaded so far, when last looked */
	char path[PATH_MAX];
};

static int
look_at(struct dl_phdr_info *info, size_t size, void *context)
{
	struct search *search = context;
	const char *name = strrchr(info->dlpi_name, '/');

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) && search->seen == info->dlpi_adds)
		return 1;
	name = name ? name + 1 : info->dlpi_name;
	/* Not libnccl-net.so and other plugins. */
	if (strncmp(name, "libnccl.so", strlen("libnccl.so")) != 0)
		return 0;
	snprintf(search->path, sizeof(search->path), "%s", info->dlpi_name);
	return 1;
}

static int
count_loaded(struct dl_phdr_info *info, size_t size, void *context)
{
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs))
		*(unsigned long long *)context = info->dlpi_adds;
	return 1;
}

void
cs_nccl_version_watch(void)
{
	static struct search search;
	unsigned long long loaded = 0;

	if (cs_announce_nccl_version_number() != 0)
		return;
	cs_library_visit(count_loaded, &loaded);
	search.path[0] = '\0';
	cs_library_visit(look_at, &search);
	search.seen = loaded;
	/* Outside the loop: dlopen must not be called under it. */
	if (search.path[0] != '\0')
		tell(search.path);
}
