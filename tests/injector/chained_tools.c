/* SPDX-License-Identifier: Apache-2.0 */
/* What was there before us: an NCCL profiler plugin of interface version 5 and an NVTX tool in one library,
 * which count what they are told. */
#include "chained_tools.h"

#include <nvtx3/nvToolsExt.h>

#define CS_EXPORT __attribute__((visibility("default")))

CS_EXPORT struct chained_counts chained_counts;

/* -- NCCL ---------------------------------------------------------------------------------------------- */

static int a_context, a_handle[16];

static int
plugin_init(void **context, uint64_t hash, int *mask, const char *name, int nodes, int ranks, int rank,
	cs_nccl_logger logger)
{
	(void)hash;
	(void)name;
	(void)nodes;
	(void)ranks;
	(void)rank;
	(void)logger;
	*context = &a_context;
	*mask = 1 << 4;
	chained_counts.inits++;
	return 0;
}

/* Takes no interest in launches: no handle for them. */
static int
plugin_start(void *context, void **handle, void *event)
{
	const struct cs_nccl_event *descriptor = event;

	chained_counts.wrong_contexts += context != &a_context;
	chained_counts.parents += descriptor->parent != NULL;
	chained_counts.wrong_parents += descriptor->parent != NULL && descriptor->parent != &a_handle[8];
	*handle = NULL;
	for (int bit = 0; bit < 16; bit++)
		if (descriptor->type == 1ULL << bit && bit != 11)
			*handle = &a_handle[bit];
	chained_counts.starts++;
	return 0;
}

static int
plugin_stop(void *handle)
{
	chained_counts.stops++;
	chained_counts.foreign_handles += (int *)handle < a_handle || (int *)handle >= a_handle + 16;
	return 0;
}

static int
plugin_record(void *handle, int state, void *arguments)
{
	(void)handle;
	(void)state;
	(void)arguments;
	chained_counts.states++;
	return 0;
}

static int
plugin_finalize(void *context)
{
	chained_counts.finalizes += context == &a_context;
	return 0;
}

CS_EXPORT extern const struct cs_nccl_profiler_v5 ncclProfiler_v5;
const struct cs_nccl_profiler_v5 ncclProfiler_v5 = {
	"chained", plugin_init, plugin_start, plugin_stop, plugin_record, plugin_finalize};

/* -- NVTX ---------------------------------------------------------------------------------------------- */

static int a_domain;

static nvtxDomainHandle_t
domain_create(const char *name)
{
	(void)name;
	chained_counts.domains++;
	return (nvtxDomainHandle_t)(void *)&a_domain;
}

static int
range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	(void)attributes;
	chained_counts.foreign_domains += (void *)domain != (void *)&a_domain;
	return (int)chained_counts.pushes++;
}

static int
range_pop(nvtxDomainHandle_t domain)
{
	(void)domain;
	return (int)chained_counts.pops++;
}

CS_EXPORT int InitializeInjectionNvtx2(cs_nvtx_get_export_table get_export_table);

int
InitializeInjectionNvtx2(cs_nvtx_get_export_table get_export_table)
{
	const struct cs_nvtx_export_callbacks *callbacks = get_export_table(CS_NVTX_EXPORT_CALLBACKS);
	cs_nvtx_function **table;
	unsigned int size;

	if (!callbacks->get_module_function_table(CS_NVTX_MODULE_CORE2, &table, &size))
		return 0;
	*table[CS_NVTX_DOMAIN_CREATE_A] = (cs_nvtx_function)domain_create;
	*table[CS_NVTX_DOMAIN_RANGE_PUSH_EX] = (cs_nvtx_function)range_push;
	*table[CS_NVTX_DOMAIN_RANGE_POP] = (cs_nvtx_function)range_pop;
	return 1;
}
