/* SPDX-License-Identifier: Apache-2.0 */
#include "nvtx_activate.h"

#include "forward.h"
#include "log.h"
#include "marks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CS_NVTX_VARIABLE "NVTX_INJECTION64_PATH"

void
cs_nvtx_activate(const struct cs_settings *settings, const char *library_path)
{
	const char *chosen = getenv(CS_NVTX_VARIABLE);
	int saved = errno;

	if (!settings->nvtx)
		return;
	if (library_path[0] == '\0') {
		cs_log_warn("NVTX cannot load this library as its tool: its own path is unknown; ranges are "
			    "not read");
		return;
	}
	if (settings->nvtx_tool[0] != '\0')
		chosen = settings->nvtx_tool;
	/* A tool that cannot be loaded would not have worked without us either. */
	if (chosen != NULL && chosen[0] != '\0' && strcmp(chosen, library_path) != 0)
		cs_nvtx_forward_load(chosen);
	cs_marks_setup(settings->nvtx_ranges);
	setenv(CS_NVTX_VARIABLE, library_path, 1);
	errno = saved;
}
