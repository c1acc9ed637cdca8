/* SPDX-License-Identifier: Apache-2.0 */
/* Built with -DCHAINED_VN for each version N that it shall have. */
#include "chained_plugin.h"

#include "nccl/profiler_abi.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CS_EXPORT __attribute__((visibility("default")))

CS_EXPORT struct chained_plugin chained_plugin = {.mask = 0x2};

static struct chained_record spare;
static int contexts[16];

/* sizeof(ncclProfilerEventDescr_vN_t) */
static const size_t event_bytes[] = {0, 120, 128, 120, 104, 112, 112, 136};

static struct chained_record *
record(enum chained_call call, unsigned int version)
{
	unsigned int at = chained_plugin.count++;
	struct chained_record *entry = at < 256 ? &chained_plugin.records[at] : &spare;

	memset(entry, 0, sizeof(*entry));
	entry->call = call;
	entry->version = version;
	return entry;
}

static int
init(unsigned int version, void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
	int rank)
{
	struct chained_record *entry = record(CHAINED_INIT, version);
	unsigned int number = chained_plugin.inits++;

	snprintf(entry->name, sizeof(entry->name), "%s", name != NULL ? name : "");
	entry->hash = hash;
	entry->nodes = nodes;
	entry->ranks = ranks;
	entry->rank = rank;
	if (!chained_plugin.mask_once || number == 0)
		*mask = chained_plugin.mask;
	chained_plugin.mask_place = mask;
	if (!chained_plugin.null_context)
		*context = &contexts[number % 16];
	entry->context = *context;
	return chained_plugin.fail ? 1 : 0;
}

static int
start(unsigned int version, void *context, void **handle, const void *event)
{
	struct chained_record *entry = record(CHAINED_START, version);

	memcpy(entry->event, event, event_bytes[version]);
	entry->context = context;
	switch (chained_plugin.handles) {
	case CHAINED_OWN:
		entry->handle = entry;
		break;
	case CHAINED_SAME:
		entry->handle = &chained_plugin;
		break;
	case CHAINED_NUMBER:
		entry->handle = (void *)UINTPTR_MAX;
		break;
	case CHAINED_NULL:
		break;
	}
	*handle = entry->handle;
	return 0;
}

static int
stop(unsigned int version, void *handle)
{
	record(CHAINED_STOP, version)->handle = handle;
	return 0;
}

static int
change_state(unsigned int version, void *handle, int state, const void *arguments)
{
	struct chained_record *entry = record(CHAINED_STATE, version);

	entry->handle = handle;
	entry->state = state;
	entry->has_arguments = arguments != NULL;
	if (arguments != NULL)
		memcpy(entry->arguments, arguments, version < 4 ? 16 : 8);
	return 0;
}

/* At the end one line for tests of whole processes: what there was of each call. */
static void
report(void)
{
	const char *path = getenv("CHAINED_REPORT");
	FILE *file = path != NULL ? fopen(path, "a") : NULL;
	unsigned int calls[5] = {0};

	if (file == NULL)
		return;
	for (unsigned int i = 0; i < chained_plugin.count && i < 256; i++)
		calls[chained_plugin.records[i].call]++;
	fprintf(file, "version %u init %u start %u stop %u state %u finalize %u\n",
		chained_plugin.records[0].version, calls[CHAINED_INIT], calls[CHAINED_START],
		calls[CHAINED_STOP], calls[CHAINED_STATE], calls[CHAINED_FINALIZE]);
	fclose(file);
}

static int
finalize(unsigned int version, void *context)
{
	record(CHAINED_FINALIZE, version)->context = context;
	report();
	return 0;
}

#define FUNCTIONS(version)                                                                                   \
	static int start_v##version(void *context, void **handle, void *event)                               \
	{                                                                                                    \
		return start(version, context, handle, event);                                               \
	}                                                                                                    \
	static int stop_v##version(void *handle)                                                             \
	{                                                                                                    \
		return stop(version, handle);                                                                \
	}                                                                                                    \
	static int state_v##version(void *handle, int state, void *arguments)                                \
	{                                                                                                    \
		return change_state(version, handle, state, arguments);                                      \
	}                                                                                                    \
	static int finalize_v##version(void *context)                                                        \
	{                                                                                                    \
		return finalize(version, context);                                                           \
	}

#define TABLE(type, version)                                                                                 \
	CS_EXPORT extern const struct type ncclProfiler_v##version;                                          \
	const struct type ncclProfiler_v##version = {"chained", init_v##version, start_v##version,           \
		stop_v##version, state_v##version, finalize_v##version};

#define PLUGIN_V1(version)                                                                                   \
	FUNCTIONS(version)                                                                                   \
	static int init_v##version(void **context, int *mask)                                                \
	{                                                                                                    \
		return init(version, context, mask, NULL, 0, 0, 0, 0);                                       \
	}                                                                                                    \
	TABLE(cs_nccl_profiler_v1, version)

#define PLUGIN_V4(version)                                                                                   \
	FUNCTIONS(version)                                                                                   \
	static int init_v##version(void **context, int *mask, const char *name, uint64_t hash, int nodes,    \
		int ranks, int rank, cs_nccl_logger logger)                                                  \
	{                                                                                                    \
		(void)logger;                                                                                \
		return init(version, context, mask, name, hash, nodes, ranks, rank);                         \
	}                                                                                                    \
	TABLE(cs_nccl_profiler_v4, version)

#define PLUGIN_V5(version)                                                                                   \
	FUNCTIONS(version)                                                                                   \
	static int init_v##version(void **context, uint64_t hash, int *mask, const char *name, int nodes,    \
		int ranks, int rank, cs_nccl_logger logger)                                                  \
	{                                                                                                    \
		(void)logger;                                                                                \
		return init(version, context, mask, name, hash, nodes, ranks, rank);                         \
	}                                                                                                    \
	TABLE(cs_nccl_profiler_v5, version)

#ifdef CHAINED_V1
PLUGIN_V1(1)
#endif
#ifdef CHAINED_V2
PLUGIN_V1(2)
#endif
#ifdef CHAINED_V3
PLUGIN_V1(3)
#endif
#ifdef CHAINED_V4
PLUGIN_V4(4)
#endif
#ifdef CHAINED_V5
PLUGIN_V5(5)
#endif
#ifdef CHAINED_V6
PLUGIN_V5(6)
#endif
#ifdef CHAINED_V7
PLUGIN_V5(7)
#endif
