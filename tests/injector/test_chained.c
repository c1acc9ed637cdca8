/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that were there before us are told everything, with handles of their own, and we still hear. */
#include "chained_tools.h"
#include "collective.h"
#include "instance_double.h"
#include "labels/announce.h"
#include "nccl/chain.h"
#include "nccl/nccl_activate.h"
#include "nvtx/forward.h"
#include "nvtx/nvtx_activate.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

extern const struct cs_nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;
int InitializeInjectionNvtx2(cs_nvtx_get_export_table get_export_table);

static struct chained_counts *counts;

static int
setup(void **state)
{
	void *library = dlopen(CS_CHAINED_TOOLS, RTLD_NOW | RTLD_LOCAL);

	(void)state;
	assert_non_null(library);
	counts = dlsym(library, "chained_counts");
	assert_non_null(counts);
	return instance_double_open();
}

static int
teardown(void **state)
{
	(void)state;
	instance_double_close();
	return 0;
}

static void
a_chosen_plugin_stays_unless_asked(void **state)
{
	struct cs_settings settings = {.nccl = true};

	(void)state;
	setenv("NCCL_PROFILER_PLUGIN", CS_CHAINED_TOOLS, 1);
	cs_nccl_activate(&settings, "/lib/libcollscope.so");
	assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), CS_CHAINED_TOOLS);
	settings.nccl_chain = true;
	cs_nccl_activate(&settings, "/lib/libcollscope.so");
	assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "/lib/libcollscope.so");
	assert_int_equal(cs_nccl_chain_version(5), 5);
	assert_int_equal(cs_nccl_chain_version(4), 0);
}

static void *
start(void *context, uint64_t type, void *parent)
{
	struct cs_nccl_event event = {.type = type, .parent = parent};
	void *handle = NULL;

	if (type == CS_NCCL_EVENT_COLL_API)
		event.u.coll_api = (struct cs_nccl_coll_api){
			.func = "AllReduce", .count = 10, .datatype = "ncclFloat32"};
	assert_int_equal(ncclProfiler_v5.start_event(context, &handle, &event), 0);
	return handle;
}

static void
every_nccl_event_is_forwarded(void **state)
{
	struct cs_label label = {.bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;
	void *context = NULL, *group, *api, *launch;
	int mask = 0;

	(void)state;
	assert_int_equal(ncclProfiler_v5.init(&context, 0x99, &mask, NULL, 1, 2, 0, NULL), 0);
	assert_int_equal(mask & 1 << 4, 1 << 4);
	assert_int_equal(mask & 0xb00, 0xb00);
	group = start(context, CS_NCCL_EVENT_GROUP_API, NULL);
	ncclProfiler_v5.record_event_state(group, 23, NULL);
	api = start(context, CS_NCCL_EVENT_COLL_API, group);
	ncclProfiler_v5.stop_event(api);
	/* The other plugin gave no handle for this one: it has ours alone, and sees nothing of it. */
	launch = start(context, CS_NCCL_EVENT_KERNEL_LAUNCH, group);
	assert_non_null(launch);
	assert_true(cs_announce_take(&label, &sequence));
	assert_int_equal(label.bytes, 40);
	ncclProfiler_v5.stop_event(launch);
	start(context, CS_NCCL_EVENT_COLL, launch);
	ncclProfiler_v5.stop_event(group);
	assert_false(cs_announce_take(&label, &sequence));
	ncclProfiler_v5.finalize(context);

	assert_int_equal(counts->inits, 1);
	assert_int_equal(counts->starts, 4);
	assert_int_equal(counts->stops, 2);
	assert_int_equal(counts->states, 1);
	assert_int_equal(counts->parents, 2);
	assert_int_equal(counts->finalizes, 1);
	assert_int_equal(counts->wrong_parents + counts->wrong_contexts + counts->foreign_handles, 0);
}

/* NCCL 2.29 to 2.31 with NCCL's Inspector, which has version 5 alone. */
static void
an_older_interface_is_spoken_to(void **state)
{
	struct chained_counts before = *counts;
	struct cs_nccl_event event = {.type = CS_NCCL_EVENT_GROUP_API};
	void *context = NULL, *handle = NULL;
	int mask = 0;

	(void)state;
	assert_int_equal(ncclProfiler_v6.init(&context, 0x98, &mask, NULL, 1, 2, 0, NULL), 0);
	assert_int_equal(mask & 1 << 4, 1 << 4);
	assert_int_equal(ncclProfiler_v6.start_event(context, &handle, &event), 0);
	assert_int_equal(ncclProfiler_v6.stop_event(handle), 0);
	assert_int_equal(ncclProfiler_v6.finalize(context), 0);
	assert_int_equal(counts->inits, before.inits + 1);
	assert_int_equal(counts->starts, before.starts + 1);
	assert_int_equal(counts->stops, before.stops + 1);
	assert_int_equal(counts->finalizes, before.finalizes + 1);
	assert_int_equal(counts->wrong_contexts + counts->foreign_handles, 0);
}

/* NCCL's word for no plugin, and a variable that is not set where there is no default plugin. */
static void
nothing_to_forward_to_is_no_warning(void **state)
{
	struct cs_settings settings = {.nccl = true, .nccl_chain = true};

	(void)state;
	setenv("NCCL_PROFILER_PLUGIN", "none", 1);
	cs_nccl_activate(&settings, "/lib/libcollscope.so");
	assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "/lib/libcollscope.so");
	unsetenv("NCCL_PROFILER_PLUGIN");
	cs_nccl_activate(&settings, "/lib/libcollscope.so");
	assert_string_equal(getenv("NCCL_PROFILER_PLUGIN"), "/lib/libcollscope.so");
	assert_int_equal(cs_nccl_chain_version(7), 0);
}

/* -- NVTX: a module with tables as NVTX's own ---------------------------------------------------------- */

static cs_nvtx_function functions[CS_NVTX_CORE2_SIZE];
static cs_nvtx_function *function_places[CS_NVTX_CORE2_SIZE];

static int
get_module_function_table(int module, cs_nvtx_function ***table, unsigned int *size)
{
	if (module != CS_NVTX_MODULE_CORE2)
		return 0;
	for (unsigned int i = 1; i < CS_NVTX_CORE2_SIZE; i++)
		function_places[i] = &functions[i];
	*table = function_places;
	*size = CS_NVTX_CORE2_SIZE;
	return 1;
}

static const void *
get_export_table(uint32_t id)
{
	static const struct cs_nvtx_export_callbacks callbacks = {
		sizeof(callbacks), get_module_function_table};

	return id == CS_NVTX_EXPORT_CALLBACKS ? &callbacks : NULL;
}

static void
every_nvtx_range_is_forwarded(void **state)
{
	struct cs_settings settings = {.nvtx = true};
	nvtxDomainHandle_t (*create)(const char *);
	int (*push)(nvtxDomainHandle_t, const nvtxEventAttributes_t *);
	int (*pop)(nvtxDomainHandle_t);
	struct {
		uint64_t hash;
		size_t bytes;
		int op;
	} reduce = {.hash = 5, .bytes = 1234, .op = 0};
	nvtxPayloadData_t payload = {.schemaId = NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + 5,
		.size = sizeof(reduce),
		.payload = &reduce};
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.payloadType = NVTX_PAYLOAD_TYPE_EXT,
		.reserved0 = 1,
		.payload.ullValue = (uint64_t)(uintptr_t)&payload};
	struct cs_label label = {.bytes = CS_BYTES_UNKNOWN};
	uint32_t sequence = 0;
	nvtxDomainHandle_t nccl;

	(void)state;
	setenv("NVTX_INJECTION64_PATH", CS_CHAINED_TOOLS, 1);
	cs_nvtx_activate(&settings, "/lib/libcollscope.so");
	assert_string_equal(getenv("NVTX_INJECTION64_PATH"), "/lib/libcollscope.so");
	assert_int_equal(InitializeInjectionNvtx2(get_export_table), 1);
	create = (nvtxDomainHandle_t(*)(const char *))functions[CS_NVTX_DOMAIN_CREATE_A];
	push = (int (*)(
		nvtxDomainHandle_t, const nvtxEventAttributes_t *))functions[CS_NVTX_DOMAIN_RANGE_PUSH_EX];
	pop = (int (*)(nvtxDomainHandle_t))functions[CS_NVTX_DOMAIN_RANGE_POP];
	nccl = create("NCCL");
	assert_int_equal(push(nccl, &attributes), 0);
	assert_true(cs_announce_take(&label, &sequence));
	assert_int_equal(label.bytes, 1234);
	assert_int_equal(pop(nccl), 0);
	assert_int_equal(counts->domains, 1);
	assert_int_equal(counts->pushes, 1);
	assert_int_equal(counts->pops, 1);
	assert_int_equal(counts->foreign_domains, 0);
}

static void
a_missing_tool_is_no_harm(void **state)
{
	(void)state;
	assert_int_equal(cs_nvtx_forward_load("/dev/null/none.so"), -2);
	assert_int_equal(cs_nccl_chain_load("/dev/null/none.so"), -2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_chosen_plugin_stays_unless_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(every_nccl_event_is_forwarded, setup, teardown),
		cmocka_unit_test_setup_teardown(an_older_interface_is_spoken_to, setup, teardown),
		cmocka_unit_test(nothing_to_forward_to_is_no_warning),
		cmocka_unit_test_setup_teardown(every_nvtx_range_is_forwarded, setup, teardown),
		cmocka_unit_test(a_missing_tool_is_no_harm),
	};

	return cmocka_run_group_tests_name("chained tools", tests, NULL, NULL);
}
