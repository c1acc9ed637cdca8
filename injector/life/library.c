/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

void *
cs_library_open(const char *name, int flags, const char **why)
{
	struct stat status;
	void *library;

	/* A name without a slash is looked for in the loader's folders. */
	if (strchr(name, '/') && stat(name, &status) == 0 && !S_ISREG(status.st_mode)) {
		*why = "it is not a regular file";
		return NULL;
	}
	library = dlopen(name, flags);
	if (!library) {
		*why = dlerror();
		if (!*why)
			*why = "it cannot be loaded";
	}
	return library;
}
