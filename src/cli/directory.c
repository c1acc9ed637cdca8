/* SPDX-License-Identifier: Apache-2.0 */
#include "directory.h"

#include "environment.h"
#include "segment/rundir.h"

#include <string.h>

/* Of a path that is too long to be one. */
#define SHOWN_BYTES 60

void
cs_directory_say_unusable(enum cs_log_level level, const char *path, const char *consequence, int error)
{
	bool cut = strlen(path) >= CS_PATH_BYTES;

	cs_log(level,
		"Cannot use the run directory \"%.*s%s\"%s: %s; name another with --dir or COLLSCOPE_DIR",
		cut ? SHOWN_BYTES : CS_PATH_BYTES, path, cut ? "..." : "", consequence,
		cs_rundir_error_text(error));
}
