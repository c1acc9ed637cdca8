/* SPDX-License-Identifier: Apache-2.0 */
#include "version.h"

#include "announce.h"
#include "injector.h"

#include <dlfcn.h>
#include <string.h>

static int
ask_library(const void *address)
{
	int (*get_version)(int *) = NULL;
	void *symbol;
	void *library;
	Dl_info info;
	int version = 0;

	if (dladdr(address, &info) == 0 || info.dli_fname == NULL)
		return 0;
	library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	symbol = library != NULL ? dlsym(library, "ncclGetVersion") : dlsym(RTLD_DEFAULT, "ncclGetVersion");
	/* ISO C has no conversion from an object pointer to a function pointer. */
	memcpy(&get_version, &symbol, sizeof(get_version));
	if (get_version != NULL && get_version(&version) != 0)
		version = 0;
	if (library != NULL)
		dlclose(library);
	return version;
}

void
cs_nccl_version_find(const void *address)
{
	struct cs_segment_writer *writer = cs_injector_borrow_writer();

	if (cs_announce_nccl_version_number() == 0)
		cs_announce_set_nccl_version(ask_library(address));
	if (writer != NULL && cs_announce_nccl_version_number() != 0)
		cs_segment_writer_text(writer, CS_TEXT_NCCL, cs_announce_nccl_version());
}
