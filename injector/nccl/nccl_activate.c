/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_activate.h"

#include "chain.h"
#include "log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* NCCL 2.26 and later cut a longer path (src/plugin/plugin_open.cc). */
#define CS_NCCL_PATH_MAX 254

static void
point_nccl_to(const char *library_path)
{
	if (library_path[0] == '\0' || strlen(library_path) > CS_NCCL_PATH_MAX) {
		cs_log_warn("NCCL cannot load this library as its profiler plugin: its path is %s; sizes of "
			    "NCCL collectives come "
			    "from NVTX alone. Install it under a path of at most %d bytes",
			library_path[0] == '\0' ? "unknown" : "too long", CS_NCCL_PATH_MAX);
		return;
	}
	setenv("NCCL_PROFILER_PLUGIN", library_path, 1);
}

void
cs_nccl_activate(const struct cs_settings *settings, const char *library_path)
{
	bool chain = settings->nccl_chain || settings->nccl_plugin[0] != '\0';
	const char *chosen =
		settings->nccl_plugin[0] != '\0' ? settings->nccl_plugin : getenv("NCCL_PROFILER_PLUGIN");
	int saved = errno;

	if (!settings->nccl)
		return;
	if (chosen == NULL)
		chosen = "";
	if (chosen[0] != '\0' && !chain && strcmp(chosen, library_path) != 0) {
		cs_log_info("NCCL_PROFILER_PLUGIN is set to %s and stays so; sizes of NCCL collectives come "
			    "from NVTX alone. "
			    "COLLSCOPE_NCCL_CHAIN=1 serves both",
			chosen);
		goto restore;
	}
	/* "none" is NCCL's word for no plugin. */
	if (chain && strcmp(chosen, library_path) != 0 && strcasecmp(chosen, "none") != 0)
		cs_nccl_chain_load(chosen);
	point_nccl_to(library_path);
restore:
	errno = saved;
}
