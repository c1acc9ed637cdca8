/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX tool under the real NVTX 3 header: this program is a module that uses NVTX, with NCCL's domain,
 * registered function names and payload structs (src/include/nvtx.h, nvtx_payload_schemas.h), and the header
 * attaches the tool by its static injection.
 */
#include "collective.h"
#include "instance_double.h"
#include "labels/announce.h"
#include "nccl/comm.h"
#include "nvtx/glob.h"
#include "nvtx/marks.h"
#include "segment/segment_reader.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);
int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t *module);
/* What the header looks for. */
extern NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr;
extern NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr;
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = InitializeInjectionNvtx2;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = InitializeInjectionNvtxExtension;

#define SCHEMA(number) (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + (number))

static nvtxDomainHandle_t nccl;

static struct cs_label
unknown_label(void)
{
	return (struct cs_label){
		.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};
}

static int
setup(void **state)
{
	(void)state;
	cs_marks_setup("step*,verify");
	nccl = nvtxDomainCreateA("NCCL");
	return instance_double_open();
}

static int
teardown(void **state)
{
	(void)state;
	instance_double_close();
	return 0;
}

static nvtxEventAttributes_t
attributes_of(nvtxStringHandle_t name, const nvtxPayloadData_t *payload)
{
	nvtxEventAttributes_t attributes = {0};

	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = name;
	if (payload != NULL) {
		attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
		attributes.reserved0 = 1;
		attributes.payload.ullValue = (uint64_t)(uintptr_t)payload;
	}
	return attributes;
}

static void
push(const char *function, const void *data, size_t bytes, uint64_t schema)
{
	nvtxPayloadData_t payload = {.schemaId = schema, .size = bytes, .payload = data};
	nvtxEventAttributes_t attributes =
		attributes_of(nvtxDomainRegisterStringA(nccl, function), data != NULL ? &payload : NULL);

	nvtxDomainRangePushEx(nccl, &attributes);
}

static bool
take(struct cs_label *label)
{
	uint32_t sequence = 0;

	*label = unknown_label();
	return cs_announce_take(label, &sequence);
}

struct reduce_payload {
	uint64_t hash;
	size_t bytes;
	int op;
};

struct old_reduce_payload {
	size_t bytes;
	int op;
};

static void
both_layouts_by_size(void **state)
{
	struct reduce_payload payload = {.hash = 1, .bytes = 43008, .op = 0};
	struct old_reduce_payload old = {.bytes = 77, .op = 2};
	struct cs_label label;

	(void)state;
	push("ncclAllReduce", &payload, sizeof(payload), SCHEMA(5));
	assert_true(take(&label));
	nvtxDomainRangePop(nccl);
	assert_int_equal(label.op, CS_OP_ALL_REDUCE);
	assert_int_equal(label.bytes, 43008);
	assert_int_equal(label.reduction, CS_REDUCTION_SUM);
	assert_int_equal(label.source, CS_LABEL_SOURCE_NVTX);

	push("ncclAllReduce", &old, sizeof(old), SCHEMA(5));
	assert_true(take(&label));
	nvtxDomainRangePop(nccl);
	assert_int_equal(label.bytes, 77);
	assert_int_equal(label.reduction, CS_REDUCTION_MAX);
}

static void
a_payload_of_another_size_is_not_read(void **state)
{
	unsigned char bytes[40] = {1};
	struct cs_label label;

	(void)state;
	push("ncclAllReduce", bytes, sizeof(bytes), SCHEMA(5));
	assert_false(take(&label));
	nvtxDomainRangePop(nccl);
	push("ncclAllReduce", bytes, 3, SCHEMA(5));
	assert_false(take(&label));
	nvtxDomainRangePop(nccl);
}

/* A registered schema wins over the size: here with the fields in another order. */
static void
a_registered_schema_tells_the_layout(void **state)
{
	struct {
		int op;
		uint64_t hash;
		size_t bytes;
	} payload = {.op = 3, .hash = 9, .bytes = 4096};
	nvtxPayloadSchemaEntry_t entries[] = {
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Reduction operation", .offset = 0},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID", .offset = 8},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE, .name = "Message size [bytes]", .offset = 16},
	};
	nvtxPayloadSchemaAttr_t schema = {
		.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID,
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
		.entries = entries,
		.numEntries = 3,
		.payloadStaticSize = sizeof(payload),
		.schemaId = SCHEMA(8),
	};
	struct cs_label label;

	(void)state;
	assert_int_equal(nvtxPayloadSchemaRegister(nccl, &schema), SCHEMA(8));
	push("ncclReduce", &payload, sizeof(payload), SCHEMA(8));
	assert_true(take(&label));
	nvtxDomainRangePop(nccl);
	assert_int_equal(label.op, CS_OP_REDUCE);
	assert_int_equal(label.bytes, 4096);
	assert_int_equal(label.reduction, CS_REDUCTION_MIN);
}

/* The communicator's payload comes at the end of ncclCommInitRank; all-gather's bytes are one rank's part. */
static void
communicators_come_from_init_calls(void **state)
{
	struct {
		uint64_t hash;
		int ranks, rank, device;
	} init = {.hash = 0xc0ffee, .ranks = 4, .rank = 2, .device = 0};
	nvtxPayloadSchemaEntry_t entries[] = {
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID", .offset = 0},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "No. of ranks", .offset = 8},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Rank", .offset = 12},
	};
	nvtxPayloadSchemaAttr_t schema = {
		.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID,
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
		.entries = entries,
		.numEntries = 3,
		.schemaId = SCHEMA(0),
	};
	nvtxPayloadData_t payload = {.schemaId = SCHEMA(0), .size = sizeof(init), .payload = &init};
	struct {
		uint64_t hash;
		size_t bytes;
	} gather = {.hash = 0xc0ffee, .bytes = 100};
	struct cs_label label;

	(void)state;
	nvtxPayloadSchemaRegister(nccl, &schema);
	push("ncclCommInitRank", NULL, 0, 0);
	nvtxRangePopPayload(nccl, &payload, 1);
	assert_non_null(cs_nccl_comm_find(0xc0ffee));
	push("ncclAllGather", &gather, sizeof(gather), SCHEMA(4));
	assert_true(take(&label));
	nvtxDomainRangePop(nccl);
	assert_int_equal(label.bytes, 400);
	assert_int_equal(label.rank, 2);
	assert_int_equal(label.world, 4);
}

static void
a_group_is_held_until_its_end(void **state)
{
	struct reduce_payload payload = {.hash = 1, .bytes = 500, .op = 0};
	struct cs_label label;

	(void)state;
	push("ncclGroupStart", NULL, 0, 0);
	nvtxDomainRangePop(nccl);
	push("ncclAllReduce", &payload, sizeof(payload), SCHEMA(5));
	nvtxDomainRangePop(nccl);
	push("ncclGroupEnd", NULL, 0, 0);
	assert_true(take(&label));
	assert_int_equal(label.bytes, 500);
	nvtxDomainRangePop(nccl);
	/* Nothing lives on behind the group. */
	push("ncclAllReduce", NULL, 0, 0);
	assert_false(take(&label));
	nvtxDomainRangePop(nccl);
}

/* torch and the engines push ranges around and inside of NCCL's, some with payloads and names that look like
 * NCCL's: only NCCL's own domain is read. */
static void
other_domains_do_not_disturb(void **state)
{
	nvtxDomainHandle_t torch = nvtxDomainCreateA("torch");
	struct reduce_payload theirs = {.hash = 7, .bytes = 999, .op = 1};
	struct reduce_payload ours = {.hash = 1, .bytes = 43008, .op = 2};
	nvtxPayloadData_t payload = {.schemaId = SCHEMA(5), .size = sizeof(theirs), .payload = &theirs};
	nvtxEventAttributes_t attributes =
		attributes_of(nvtxDomainRegisterStringA(torch, "ncclAllReduce"), &payload);
	nvtxEventAttributes_t group = attributes_of(nvtxDomainRegisterStringA(torch, "ncclGroupStart"), NULL);
	struct cs_label label;

	(void)state;
	nvtxRangePushA("c10d::allreduce_");
	nvtxDomainRangePushEx(torch, &group);
	nvtxDomainRangePushEx(torch, &attributes);
	nvtxRangePushEx(&attributes);
	assert_false(take(&label));
	push("ncclAllReduce", &ours, sizeof(ours), SCHEMA(5));
	nvtxDomainRangePushEx(torch, &attributes);
	nvtxDomainMarkEx(torch, &attributes);
	nvtxDomainRangePop(torch);
	assert_true(take(&label));
	assert_int_equal(label.bytes, 43008);
	assert_int_equal(label.reduction, CS_REDUCTION_MAX);
	assert_int_equal(label.works, 1);
	nvtxDomainRangePop(nccl);
	nvtxRangePop();
	nvtxDomainRangePop(torch);
	nvtxDomainRangePop(torch);
	nvtxRangePop();
	/* A call that was not launched is forgotten at its own end, whatever else is open. */
	nvtxRangePushA("c10d::allreduce_");
	push("ncclAllReduce", &ours, sizeof(ours), SCHEMA(5));
	nvtxDomainRangePop(nccl);
	assert_false(take(&label));
	nvtxRangePop();
}

/* -- marks --------------------------------------------------------------------------------------------- */

struct marks {
	struct cs_record records[16];
	size_t count;
};

static struct marks
read_marks(char names[16][32])
{
	struct cs_segment_reader *reader = NULL;
	struct marks marks = {0};

	assert_int_equal(cs_segment_reader_open(
				 cs_segment_writer_path(cs_injector_borrow_writer()), true, &reader, NULL),
		0);
	assert_int_equal(cs_segment_reader_read(reader, marks.records, 16, &marks.count), 0);
	for (size_t i = 0; i < marks.count; i++) {
		assert_int_equal(marks.records[i].type, CS_RECORD_MARK);
		snprintf(names[i], 32, "%s",
			cs_dictionary_borrow_name(
				cs_segment_reader_borrow_dictionary(reader), marks.records[i].ref));
	}
	cs_segment_reader_close(reader);
	return marks;
}

static void
ranges_that_match_become_marks(void **state)
{
	nvtxDomainHandle_t engine = nvtxDomainCreateA("engine");
	nvtxEventAttributes_t attributes = attributes_of(nvtxDomainRegisterStringA(engine, "verify"), NULL);
	char names[16][32];
	struct marks marks;
	nvtxRangeId_t id;

	(void)state;
	nvtxRangePushA("step 1");
	nvtxRangePushA("attention");
	nvtxDomainRangePushEx(engine, &attributes);
	nvtxRangePop();
	nvtxRangePop();
	nvtxDomainRangePop(engine);
	id = nvtxRangeStartA("step 2");
	nvtxRangeEnd(id);
	marks = read_marks(names);
	assert_int_equal(marks.count, 3);
	assert_string_equal(names[0], "step 1");
	assert_string_equal(names[1], "verify");
	assert_string_equal(names[2], "step 2");
	for (size_t i = 0; i < 3; i++)
		assert_true(marks.records[i].end_ns >= marks.records[i].start_ns &&
			    marks.records[i].start_ns > 0);
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
static _Atomic unsigned int system_calls;

long
__wrap_syscall(long number, ...)
{
	va_list arguments;
	long a, b, c;

	atomic_fetch_add(&system_calls, 1);
	va_start(arguments, number);
	a = va_arg(arguments, long);
	b = va_arg(arguments, long);
	c = va_arg(arguments, long);
	va_end(arguments);
	return __real_syscall(number, a, b, c);
}

#define THREADS 100 /* more than have ranges of their own */

struct crowd {
	pthread_barrier_t barrier;
};

static void *
push_and_pop(void *argument)
{
	struct crowd *crowd = argument;

	nvtxRangePushA("step of many");
	pthread_barrier_wait(
		&crowd->barrier); /* all alive, those that found a place and those that did not */
	nvtxRangePop();
	nvtxRangeEnd(nvtxRangeStartA("step without nesting"));
	if (pthread_barrier_wait(&crowd->barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
		atomic_store(&system_calls, 0);
	pthread_barrier_wait(&crowd->barrier);
	for (unsigned int i = 0; i < 10; i++) {
		nvtxRangePushA("step of many");
		nvtxRangePop();
		nvtxRangeEnd(nvtxRangeStartA("step without nesting"));
	}
	pthread_barrier_wait(&crowd->barrier);
	return NULL;
}

static void
threads_make_system_calls_at_their_first_range_only(void **state)
{
	struct crowd crowd;
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(pthread_barrier_init(&crowd.barrier, NULL, THREADS), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, push_and_pop, &crowd), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&crowd.barrier);
	assert_int_equal(atomic_load(&system_calls), 0);
}

static void
ranges_of_two_domains_may_cross(void **state)
{
	nvtxDomainHandle_t engine = nvtxDomainCreateA("engine"), sampler = nvtxDomainCreateA("sampler");
	nvtxEventAttributes_t verify = attributes_of(nvtxDomainRegisterStringA(engine, "verify"), NULL);
	nvtxEventAttributes_t step =
		attributes_of(nvtxDomainRegisterStringA(sampler, "step of sampler"), NULL);
	char names[16][32];
	struct marks marks;

	(void)state;
	nvtxDomainRangePushEx(engine, &verify);
	nvtxDomainRangePushEx(sampler, &step);
	nvtxDomainRangePop(engine);
	nvtxDomainRangePop(sampler);
	marks = read_marks(names);
	assert_int_equal(marks.count, 2);
	assert_string_equal(names[0], "verify");
	assert_string_equal(names[1], "step of sampler");
}

/* STATUS lost[MARKS_FULL]. */
static uint64_t
marks_lost(void)
{
	return atomic_load(&cs_segment_writer_status(cs_injector_borrow_writer())->lost[CS_LOSS_MARKS_FULL]);
}

static void
what_has_no_room_is_counted_if_it_was_wanted(void **state)
{
	enum { OPEN = 256, NESTING = 32 };
	nvtxRangeId_t ids[OPEN];
	uint64_t before = marks_lost();

	(void)state;
	for (int i = 0; i < NESTING; i++)
		nvtxRangePushA("deep");
	nvtxRangePushA("deeper");
	assert_int_equal(marks_lost(), before);
	nvtxRangePushA("step too deep");
	assert_int_equal(marks_lost(), before + 1);
	for (int i = 0; i < NESTING + 2; i++)
		nvtxRangePop();
	for (int i = 0; i < OPEN; i++)
		ids[i] = nvtxRangeStartA("step open");
	assert_int_equal(marks_lost(), before + 1);
	nvtxRangeEnd(nvtxRangeStartA("step without room"));
	assert_int_equal(marks_lost(), before + 2);
	nvtxRangeEnd(nvtxRangeStartA("other"));
	assert_int_equal(marks_lost(), before + 2);
	for (int i = 0; i < OPEN; i++)
		nvtxRangeEnd(ids[i]);
}

static void
deep_nesting_is_bounded(void **state)
{
	char names[16][32];
	struct marks marks;

	(void)state;
	for (int i = 0; i < 1000; i++)
		nvtxRangePushA("deep");
	for (int i = 0; i < 1000; i++)
		nvtxRangePop();
	nvtxRangePop();
	nvtxRangePushA("step 3");
	nvtxRangePop();
	marks = read_marks(names);
	assert_int_equal(marks.count, 1);
	assert_string_equal(names[0], "step 3");
}

static void
patterns(void **state)
{
	(void)state;
	assert_true(cs_glob_any("step*", "step 17"));
	assert_true(cs_glob_any("a,step*,b", "b"));
	assert_false(cs_glob_any("step*", "my step"));
	assert_true(cs_glob_any("*step*1?", "my step 12"));
	assert_false(cs_glob_any("", "x"));
	assert_false(cs_glob_any(",,", ""));
	assert_true(cs_glob_any("v[0-3]", "v2"));
	assert_false(cs_glob_any("v[!0-3]", "v2"));
	assert_true(cs_glob_any("v[", "v["));
	assert_true(cs_glob_any("**", ""));
	assert_false(cs_glob_any("?", ""));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(both_layouts_by_size, setup, teardown),
		cmocka_unit_test_setup_teardown(a_payload_of_another_size_is_not_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_registered_schema_tells_the_layout, setup, teardown),
		cmocka_unit_test_setup_teardown(communicators_come_from_init_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(a_group_is_held_until_its_end, setup, teardown),
		cmocka_unit_test_setup_teardown(other_domains_do_not_disturb, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_that_match_become_marks, setup, teardown),
		cmocka_unit_test_setup_teardown(
			threads_make_system_calls_at_their_first_range_only, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_of_two_domains_may_cross, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_has_no_room_is_counted_if_it_was_wanted, setup, teardown),
		cmocka_unit_test_setup_teardown(deep_nesting_is_bounded, setup, teardown),
		cmocka_unit_test(patterns),
	};

	return cmocka_run_group_tests_name("nvtx", tests, NULL, NULL);
}
