/* SPDX-License-Identifier: Apache-2.0 */
#include "locate.h"

#include "environment.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY_NAME  "libcollscope.so"
#define EXPORTER_NAME "collscope-exporter"

/* From the folder of this command. CS_LIBDIR: the library folder relative to the prefix, as it was installed.
 */
static const char *const library_places[] = {
	"/" LIBRARY_NAME,
	"/../" CS_LIBDIR "/collscope/" LIBRARY_NAME,
	"/../" CS_LIBDIR "/" LIBRARY_NAME,
	"/../lib/collscope/" LIBRARY_NAME,
	"/../lib/" LIBRARY_NAME,
	"/../../injector/" LIBRARY_NAME, /* build/PRESET/src/cli/collscope */
	NULL,
};

static const char *const exporter_places[] = {
	"/" EXPORTER_NAME,
	"/../bin/" EXPORTER_NAME,
	"/../../exporter/" EXPORTER_NAME,
	NULL,
};

static int
own_folder(char *path, size_t path_bytes)
{
	ssize_t length = readlink("/proc/self/exe", path, path_bytes);
	char *slash;

	if (length < 0)
		return -errno;
	if ((size_t)length >= path_bytes)
		return -ENAMETOOLONG;
	path[length] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	*slash = 0;
	return 0;
}

/* The first of folder + places[i] that is a file which `mode` allows, without "..". */
static int
search(const char *folder, const char *const *places, int mode, char *path, size_t path_bytes)
{
	char candidate[PATH_MAX], clean[PATH_MAX];
	struct stat info;

	for (size_t i = 0; places[i]; i++) {
		int length = snprintf(candidate, sizeof(candidate), "%s%s", folder, places[i]);

		if (length < 0 || (size_t)length >= sizeof(candidate) || !realpath(candidate, clean))
			continue;
		if (stat(clean, &info) || !S_ISREG(info.st_mode) || access(clean, mode))
			continue;
		if (strlen(clean) >= path_bytes)
			return -ENAMETOOLONG;
		memcpy(path, clean, strlen(clean) + 1);
		return 0;
	}
	return -ENOENT;
}

int
cs_locate_library(char *path, size_t path_bytes)
{
	char folder[CS_PATH_BYTES];
	int result = own_folder(folder, sizeof(folder));

	return result ? result : search(folder, library_places, R_OK, path, path_bytes);
}

int
cs_locate_exporter(const char *library, char *path, size_t path_bytes)
{
	static const char *const beside[] = {"/" EXPORTER_NAME, NULL};
	char folder[CS_PATH_BYTES];
	int result = -ENOENT;
	const char *slash = strrchr(library, '/');

	if (slash && (size_t)(slash - library) < sizeof(folder)) {
		snprintf(folder, sizeof(folder), "%.*s", (int)(slash - library), library);
		result = search(folder, beside, X_OK, path, path_bytes);
	}
	if (result == 0)
		return 0;
	result = own_folder(folder, sizeof(folder));
	return result ? result : search(folder, exporter_places, X_OK, path, path_bytes);
}

static int
check_executable(const char *path)
{
	struct stat info;

	if (stat(path, &info))
		return -errno;
	if (S_ISDIR(info.st_mode))
		return -EISDIR;
	return access(path, X_OK) ? -errno : 0;
}

int
cs_locate_command(const char *command)
{
	const char *folder = getenv("PATH");
	char path[PATH_MAX];
	int result = -ENOENT;

	if (strchr(command, '/'))
		return check_executable(command);
	if (!folder)
		folder = "/bin:/usr/bin"; /* execvp's own fallback */
	for (;;) {
		size_t length = strcspn(folder, ":");
		int found;

		/* An empty element is the working directory. */
		snprintf(path, sizeof(path), "%.*s%s%s", (int)length, folder, length ? "/" : "./", command);
		found = check_executable(path);
		if (found == 0)
			return 0;
		if (found == -EACCES)
			result = found;
		if (!folder[length])
			return result;
		folder += length + 1;
	}
}
