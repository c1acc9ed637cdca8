/* SPDX-License-Identifier: Apache-2.0 */
#include "chain.h"

#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Nesting of NCCL's events on one thread: group API, collective API, kernel launch, group, collective. */
#define CS_NCCL_OPEN_EVENTS 8

struct open_event {
	void *theirs;
	const void *mine;
};

static const void *tables[CS_NCCL_VERSIONS + 1];
static char plugin_name[256];
static _Atomic unsigned int complained;
static __thread struct open_event open_events[CS_NCCL_OPEN_EVENTS] __attribute__((tls_model("initial-exec")));

static void *
load_plugin(const char *plugin)
{
	char name[300];
	void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

	if (library != NULL || strchr(plugin, '/') != NULL)
		return library;
	snprintf(name, sizeof(name), "libnccl-profiler-%s.so", plugin);
	return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

int
cs_nccl_chain_load(const char *plugin)
{
	void *library = load_plugin(plugin);
	char symbol[32];
	unsigned int found = 0;

	if (library == NULL) {
		const char *reason = dlerror();

		cs_log_warn("Cannot forward to the NCCL profiler plugin \"%s\": %s", plugin,
			reason != NULL ? reason : "it cannot be loaded");
		return -ENOENT;
	}
	snprintf(plugin_name, sizeof(plugin_name), "%s", plugin);
	for (unsigned int version = 1; version <= CS_NCCL_VERSIONS; version++) {
		snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", version);
		tables[version] = dlsym(library, symbol);
		found += tables[version] != NULL;
	}
	if (found == 0) {
		cs_log_warn("Cannot forward to \"%s\": it exports no ncclProfiler_v1 ... ncclProfiler_v7",
			plugin);
		return -ENOENT;
	}
	return 0;
}

const void *
cs_nccl_chain_table(unsigned int version)
{
	if (tables[version] == NULL && plugin_name[0] != '\0' &&
		atomic_exchange_explicit(&complained, 1, memory_order_relaxed) == 0)
		cs_log_warn("This NCCL speaks profiler interface %u, which \"%s\" lacks: nothing is "
			    "forwarded to it",
			version, plugin_name);
	return tables[version];
}

void
cs_nccl_chain_remember(void *theirs, const void *mine)
{
	for (size_t i = 0; i < CS_NCCL_OPEN_EVENTS; i++)
		if (open_events[i].theirs == NULL) {
			open_events[i] = (struct open_event){.theirs = theirs, .mine = mine};
			return;
		}
}

const void *
cs_nccl_chain_recall(void *theirs)
{
	for (size_t i = CS_NCCL_OPEN_EVENTS; i-- > 0;)
		if (open_events[i].theirs == theirs) {
			open_events[i].theirs = NULL;
			return open_events[i].mine;
		}
	return NULL;
}
