/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/segment-format.md against the headers, in both directions: every field of every struct and every value
 * of every enum is a row there with the right numbers, and no row is there that the headers do not have.
 */
#include "collective.h"
#include "segment/segment.h"
#include "segment/segment_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One row of the document: two numbers and a name (structs: offset, size, field), or one (enums: value). */
struct row {
	const char *name;
	unsigned long first;
	unsigned long second;
};

struct table {
	const char *heading;
	unsigned long bytes; /* of a struct; 0 for an enum */
	const struct row *rows;
	size_t row_count;
};

/* clang-format off */
static const struct row cs_segment_header_rows[] = {
#define F(field) {#field, offsetof(struct cs_segment_header, field), sizeof(((struct cs_segment_header *)0)->field)}
	F(magic),
	F(endian),
	F(major),
	F(minor),
	F(header_bytes),
	F(section_count),
	F(file_bytes),
	F(generation_begin),
	F(generation_end),
	F(pid),
	F(uid),
	F(start_time_ticks),
	F(pid_namespace_inode),
	F(boot_id),
	F(created_ns),
	F(injector_version),
	F(parent_pid),
	F(reserved_identity),
	F(reserved),
	F(sections),
	F(padding),
#undef F
};
static const struct row cs_section_rows[] = {
#define F(field) {#field, offsetof(struct cs_section, field), sizeof(((struct cs_section *)0)->field)}
	F(type),
	F(stride_bytes),
	F(offset_bytes),
	F(length_bytes),
	F(capacity),
#undef F
};
static const struct row cs_control_rows[] = {
#define F(field) {#field, offsetof(struct cs_control, field), sizeof(((struct cs_control *)0)->field)}
	F(request_sequence),
	F(command),
	F(from_ns),
	F(until_ns),
	F(argument),
	F(reserved),
#undef F
};
static const struct row cs_status_rows[] = {
#define F(field) {#field, offsetof(struct cs_status, field), sizeof(((struct cs_status *)0)->field)}
	F(heartbeat_ns),
	F(state),
	F(mode),
	F(depth),
	F(depth_since_ns),
	F(host_memory_bytes),
	F(device_memory_bytes),
	F(control_done),
	F(control_result),
	F(period_ns),
	F(window_ns),
	F(delivered_until_ns),
	F(last_record_end_ns),
	F(step_ratio_ppm),
	F(trace_max_ns),
	F(subscribed),
	F(request_until_ns),
	F(reserved_gauges),
	F(cpu_ns),
	F(trace_ns),
	F(records),
	F(kernels_seen),
	F(lost),
	F(unlabelled),
	F(graph_launches),
	F(nodes_labelled),
	F(buffers_requested),
	F(buffers_completed),
	F(flushes),
	F(windows),
	F(foreign_windows),
	F(windows_skipped),
	F(tracing_rests),
	F(reserved_counters),
	F(step_ratios),
#undef F
};
static const struct row cs_process_rows[] = {
#define F(field) {#field, offsetof(struct cs_process, field), sizeof(((struct cs_process *)0)->field)}
	F(sequence),
	F(comm),
	F(command_line),
	F(reason),
	F(cuda_driver),
	F(cupti),
	F(cupti_path),
	F(nccl),
	F(driver),
	F(pod),
	F(rank),
	F(world),
	F(reserved),
#undef F
};
static const struct row cs_table_head_rows[] = {
#define F(field) {#field, offsetof(struct cs_table_head, field), sizeof(((struct cs_table_head *)0)->field)}
	F(count),
	F(refused),
	F(reserved),
#undef F
};
static const struct row cs_gpu_rows[] = {
#define F(field) {#field, offsetof(struct cs_gpu, field), sizeof(((struct cs_gpu *)0)->field)}
	F(nvml_index),
	F(cuda_ordinal),
	F(pci_domain),
	F(pci_bus),
	F(pci_device),
	F(context_id),
	F(uuid),
	F(name),
	F(memory_bytes),
	F(multiprocessors),
	F(compute_capability),
	F(link),
	F(link_nvlinks),
	F(reserved),
#undef F
};
static const struct row cs_communicator_rows[] = {
#define F(field) {#field, offsetof(struct cs_communicator, field), sizeof(((struct cs_communicator *)0)->field)}
	F(hash),
	F(rank),
	F(world),
	F(nodes),
	F(impl),
	F(name),
	F(reserved),
#undef F
};
static const struct row cs_name_rows[] = {
#define F(field) {#field, offsetof(struct cs_name, field), sizeof(((struct cs_name *)0)->field)}
	F(offset_bytes),
	F(length_bytes),
#undef F
};
static const struct row cs_label_rows[] = {
#define F(field) {#field, offsetof(struct cs_label, field), sizeof(((struct cs_label *)0)->field)}
	F(op),
	F(impl),
	F(dtype),
	F(reduction),
	F(algorithm),
	F(protocol),
	F(source),
	F(flags),
	F(name_id),
	F(rule_id),
	F(rank),
	F(world),
	F(comm_id),
	F(channels),
	F(works),
	F(bytes),
	F(count),
	F(reserved),
#undef F
};
static const struct row cs_environment_rows[] = {
#define F(field) {#field, offsetof(struct cs_environment, field), sizeof(((struct cs_environment *)0)->field)}
	F(name),
	F(value),
#undef F
};
static const struct row cs_ring_head_rows[] = {
#define F(field) {#field, offsetof(struct cs_ring_head, field), sizeof(((struct cs_ring_head *)0)->field)}
	F(head),
	F(reserved),
#undef F
};
static const struct row cs_ring_slot_rows[] = {
#define F(field) {#field, offsetof(struct cs_ring_slot, field), sizeof(((struct cs_ring_slot *)0)->field)}
	F(sequence),
	F(words),
#undef F
};
static const struct row cs_record_rows[] = {
#define F(field) {#field, offsetof(struct cs_record, field), sizeof(((struct cs_record *)0)->field)}
	F(type),
	F(flags),
	F(gpu),
	F(klass),
	F(ref),
	F(start_ns),
	F(end_ns),
	F(value),
	F(graph_node_id),
	F(correlation_id),
	F(graph_id),
	F(stream_id),
	F(sequence),
#undef F
};
static const struct row cs_section_type_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_SECTION_NONE),
	V(CS_SECTION_CONTROL),
	V(CS_SECTION_STATUS),
	V(CS_SECTION_PROCESS),
	V(CS_SECTION_GPU),
	V(CS_SECTION_COMMUNICATOR),
	V(CS_SECTION_NAME),
	V(CS_SECTION_TEXT),
	V(CS_SECTION_LABEL),
	V(CS_SECTION_ENVIRONMENT),
	V(CS_SECTION_RING),
#undef V
};
_Static_assert(sizeof(cs_section_type_rows) / sizeof(cs_section_type_rows[0]) == CS_SECTION_TYPE_COUNT - 0, "every value is listed");
static const struct row cs_command_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_COMMAND_NONE),
	V(CS_COMMAND_TRACE),
	V(CS_COMMAND_PAUSE),
	V(CS_COMMAND_RESUME),
	V(CS_COMMAND_CANCEL),
#undef V
};
_Static_assert(sizeof(cs_command_rows) / sizeof(cs_command_rows[0]) == CS_COMMAND_COUNT - 0, "every value is listed");
static const struct row cs_mode_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_MODE_OFF),
	V(CS_MODE_DEMAND),
	V(CS_MODE_SAMPLE),
	V(CS_MODE_FULL),
#undef V
};
_Static_assert(sizeof(cs_mode_rows) / sizeof(cs_mode_rows[0]) == CS_MODE_COUNT - 0, "every value is listed");
static const struct row cs_state_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_STATE_STARTING),
	V(CS_STATE_LEARNING),
	V(CS_STATE_TRACING),
	V(CS_STATE_IDLE),
	V(CS_STATE_YIELDED),
	V(CS_STATE_PAUSED),
	V(CS_STATE_DORMANT),
	V(CS_STATE_EXITED),
#undef V
};
_Static_assert(sizeof(cs_state_rows) / sizeof(cs_state_rows[0]) == CS_STATE_COUNT - 0, "every value is listed");
static const struct row cs_unlabelled_reason_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_UNLABELLED_NO_LEDGER),
	V(CS_UNLABELLED_NO_RULE),
	V(CS_UNLABELLED_CHECK_FAILED),
	V(CS_UNLABELLED_LEDGER_FULL),
	V(CS_UNLABELLED_NO_LAUNCH),
	V(CS_UNLABELLED_ANNOUNCE_FULL),
	V(CS_UNLABELLED_CHILD_FULL),
#undef V
};
_Static_assert(sizeof(cs_unlabelled_reason_rows) / sizeof(cs_unlabelled_reason_rows[0]) == CS_UNLABELLED_REASON_COUNT - 0, "every value is listed");
static const struct row cs_link_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_LINK_UNKNOWN),
	V(CS_LINK_SELF),
	V(CS_LINK_NVLINK),
	V(CS_LINK_PCIE_SWITCH),
	V(CS_LINK_PCIE_HOST_BRIDGE),
	V(CS_LINK_PCIE_NODE),
	V(CS_LINK_PCIE_SYSTEM),
#undef V
};
_Static_assert(sizeof(cs_link_rows) / sizeof(cs_link_rows[0]) == CS_LINK_COUNT - 0, "every value is listed");
static const struct row cs_record_type_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_RECORD_COLLECTIVE),
	V(CS_RECORD_BUSY),
	V(CS_RECORD_GRAPH_LAUNCH),
	V(CS_RECORD_WINDOW),
	V(CS_RECORD_MARK),
	V(CS_RECORD_LOSS),
	V(CS_RECORD_MARKER),
	V(CS_RECORD_HOST_LAUNCH),
	V(CS_RECORD_STILL),
	V(CS_RECORD_GRAPH),
	V(CS_RECORD_WINDOW_OPEN),
#undef V
};
_Static_assert(sizeof(cs_record_type_rows) / sizeof(cs_record_type_rows[0]) == CS_RECORD_TYPE_COUNT - 1, "every value is listed");
static const struct row cs_depth_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_DEPTH_OFF),
	V(CS_DEPTH_LIGHT),
	V(CS_DEPTH_DEEP),
#undef V
};
_Static_assert(sizeof(cs_depth_rows) / sizeof(cs_depth_rows[0]) == CS_DEPTH_COUNT - 0, "every value is listed");
static const struct row cs_loss_cause_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_LOSS_CUPTI_DROPPED),
	V(CS_LOSS_BAD_TIMESTAMP),
	V(CS_LOSS_POOL_EMPTY),
	V(CS_LOSS_RING_CONTENDED),
	V(CS_LOSS_RING_OVERRUN),
	V(CS_LOSS_RING_HOLE),
	V(CS_LOSS_TABLE_FULL),
	V(CS_LOSS_FOREIGN_OWNER),
	V(CS_LOSS_INVALID_RECORD),
	V(CS_LOSS_TABLE_BUSY),
	V(CS_LOSS_UNKNOWN_DEVICE),
	V(CS_LOSS_MARKS_FULL),
#undef V
};
_Static_assert(sizeof(cs_loss_cause_rows) / sizeof(cs_loss_cause_rows[0]) == CS_LOSS_CAUSE_COUNT - 0, "every value is listed");
static const struct row cs_op_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_OP_UNKNOWN),
	V(CS_OP_ALL_REDUCE),
	V(CS_OP_ALL_GATHER),
	V(CS_OP_REDUCE_SCATTER),
	V(CS_OP_BROADCAST),
	V(CS_OP_REDUCE),
	V(CS_OP_ALL_TO_ALL),
	V(CS_OP_SEND_RECV),
	V(CS_OP_SEND),
	V(CS_OP_RECV),
	V(CS_OP_GATHER),
	V(CS_OP_SCATTER),
	V(CS_OP_BARRIER),
#undef V
};
_Static_assert(sizeof(cs_op_rows) / sizeof(cs_op_rows[0]) == CS_OP_COUNT - 0, "every value is listed");
static const struct row cs_impl_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_IMPL_UNKNOWN),
	V(CS_IMPL_NCCL),
	V(CS_IMPL_NCCL_SYMMETRIC),
	V(CS_IMPL_VLLM_CUSTOM),
	V(CS_IMPL_SGLANG_CUSTOM),
	V(CS_IMPL_FLASHINFER),
	V(CS_IMPL_TRTLLM),
	V(CS_IMPL_TORCH_SYMM_MEM),
	V(CS_IMPL_NVSHMEM),
	V(CS_IMPL_MSCCLPP),
	V(CS_IMPL_DEEP_EP),
#undef V
};
_Static_assert(sizeof(cs_impl_rows) / sizeof(cs_impl_rows[0]) == CS_IMPL_COUNT - 0, "every value is listed");
static const struct row cs_dtype_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_DTYPE_UNKNOWN),
	V(CS_DTYPE_INT8),
	V(CS_DTYPE_UINT8),
	V(CS_DTYPE_INT32),
	V(CS_DTYPE_UINT32),
	V(CS_DTYPE_INT64),
	V(CS_DTYPE_UINT64),
	V(CS_DTYPE_FLOAT16),
	V(CS_DTYPE_FLOAT32),
	V(CS_DTYPE_FLOAT64),
	V(CS_DTYPE_BFLOAT16),
	V(CS_DTYPE_FLOAT8_E4M3),
	V(CS_DTYPE_FLOAT8_E5M2),
#undef V
};
_Static_assert(sizeof(cs_dtype_rows) / sizeof(cs_dtype_rows[0]) == CS_DTYPE_COUNT - 0, "every value is listed");
static const struct row cs_reduction_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_REDUCTION_UNKNOWN),
	V(CS_REDUCTION_SUM),
	V(CS_REDUCTION_PROD),
	V(CS_REDUCTION_MAX),
	V(CS_REDUCTION_MIN),
	V(CS_REDUCTION_AVG),
	V(CS_REDUCTION_PREMUL_SUM),
#undef V
};
_Static_assert(sizeof(cs_reduction_rows) / sizeof(cs_reduction_rows[0]) == CS_REDUCTION_COUNT - 0, "every value is listed");
static const struct row cs_algorithm_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_ALGORITHM_UNKNOWN),
	V(CS_ALGORITHM_TREE),
	V(CS_ALGORITHM_RING),
	V(CS_ALGORITHM_COLLNET_DIRECT),
	V(CS_ALGORITHM_COLLNET_CHAIN),
	V(CS_ALGORITHM_NVLS),
	V(CS_ALGORITHM_NVLS_TREE),
	V(CS_ALGORITHM_PAT),
	V(CS_ALGORITHM_ONE_SHOT),
	V(CS_ALGORITHM_TWO_SHOT),
	V(CS_ALGORITHM_MULTIMEM),
#undef V
};
_Static_assert(sizeof(cs_algorithm_rows) / sizeof(cs_algorithm_rows[0]) == CS_ALGORITHM_COUNT - 0, "every value is listed");
static const struct row cs_protocol_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_PROTOCOL_UNKNOWN),
	V(CS_PROTOCOL_LL),
	V(CS_PROTOCOL_LL128),
	V(CS_PROTOCOL_SIMPLE),
#undef V
};
_Static_assert(sizeof(cs_protocol_rows) / sizeof(cs_protocol_rows[0]) == CS_PROTOCOL_COUNT - 0, "every value is listed");
static const struct row cs_label_source_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_LABEL_SOURCE_NONE),
	V(CS_LABEL_SOURCE_NCCL_PROFILER),
	V(CS_LABEL_SOURCE_NVTX),
	V(CS_LABEL_SOURCE_LAUNCH_PARAMETERS),
	V(CS_LABEL_SOURCE_KERNEL_NAME),
#undef V
};
_Static_assert(sizeof(cs_label_source_rows) / sizeof(cs_label_source_rows[0]) == CS_LABEL_SOURCE_COUNT - 0, "every value is listed");
static const struct row cs_busy_class_rows[] = {
#define V(value) {#value, value, 0}
	V(CS_BUSY_COMPUTE),
	V(CS_BUSY_COPY),
	V(CS_BUSY_COLLECTIVE),
#undef V
};
_Static_assert(sizeof(cs_busy_class_rows) / sizeof(cs_busy_class_rows[0]) == CS_BUSY_CLASS_COUNT - 0, "every value is listed");

#define ROWS(rows) rows, sizeof(rows) / sizeof((rows)[0])
static const struct table tables[] = {
	{"struct cs_segment_header", sizeof(struct cs_segment_header), ROWS(cs_segment_header_rows)},
	{"struct cs_section", sizeof(struct cs_section), ROWS(cs_section_rows)},
	{"struct cs_control", sizeof(struct cs_control), ROWS(cs_control_rows)},
	{"struct cs_status", sizeof(struct cs_status), ROWS(cs_status_rows)},
	{"struct cs_process", sizeof(struct cs_process), ROWS(cs_process_rows)},
	{"struct cs_table_head", sizeof(struct cs_table_head), ROWS(cs_table_head_rows)},
	{"struct cs_gpu", sizeof(struct cs_gpu), ROWS(cs_gpu_rows)},
	{"struct cs_communicator", sizeof(struct cs_communicator), ROWS(cs_communicator_rows)},
	{"struct cs_name", sizeof(struct cs_name), ROWS(cs_name_rows)},
	{"struct cs_label", sizeof(struct cs_label), ROWS(cs_label_rows)},
	{"struct cs_environment", sizeof(struct cs_environment), ROWS(cs_environment_rows)},
	{"struct cs_ring_head", sizeof(struct cs_ring_head), ROWS(cs_ring_head_rows)},
	{"struct cs_ring_slot", sizeof(struct cs_ring_slot), ROWS(cs_ring_slot_rows)},
	{"struct cs_record", sizeof(struct cs_record), ROWS(cs_record_rows)},
	{"enum cs_section_type", 0, ROWS(cs_section_type_rows)},
	{"enum cs_command", 0, ROWS(cs_command_rows)},
	{"enum cs_mode", 0, ROWS(cs_mode_rows)},
	{"enum cs_state", 0, ROWS(cs_state_rows)},
	{"enum cs_unlabelled_reason", 0, ROWS(cs_unlabelled_reason_rows)},
	{"enum cs_link", 0, ROWS(cs_link_rows)},
	{"enum cs_record_type", 0, ROWS(cs_record_type_rows)},
	{"enum cs_depth", 0, ROWS(cs_depth_rows)},
	{"enum cs_loss_cause", 0, ROWS(cs_loss_cause_rows)},
	{"enum cs_op", 0, ROWS(cs_op_rows)},
	{"enum cs_impl", 0, ROWS(cs_impl_rows)},
	{"enum cs_dtype", 0, ROWS(cs_dtype_rows)},
	{"enum cs_reduction", 0, ROWS(cs_reduction_rows)},
	{"enum cs_algorithm", 0, ROWS(cs_algorithm_rows)},
	{"enum cs_protocol", 0, ROWS(cs_protocol_rows)},
	{"enum cs_label_source", 0, ROWS(cs_label_source_rows)},
	{"enum cs_busy_class", 0, ROWS(cs_busy_class_rows)},
};
/* clang-format on */

#define TABLES (sizeof(tables) / sizeof(tables[0]))

/* -- the document ---------------------------------------------------------------------------------------- */

static char document[256 * 1024];

static int
load_document(void **state)
{
	FILE *file = fopen(CS_TEST_DOCS_DIR "/segment-format.md", "r");
	size_t length;

	(void)state;
	if (!file)
		return -1;
	length = fread(document, 1, sizeof(document) - 1, file);
	fclose(file);
	document[length] = '\0';
	return length > 0 && length < sizeof(document) - 1 ? 0 : -1;
}

static const char *
next_line(const char *at)
{
	const char *end = strchr(at, '\n');

	return end ? end + 1 : NULL;
}

/* The line after "### HEADING" or "### HEADING, N bytes". */
static const char *
find_table(const struct table *table)
{
	char wanted[128];

	if (table->bytes != 0)
		snprintf(wanted, sizeof(wanted), "\n### %s, %lu bytes\n", table->heading, table->bytes);
	else
		snprintf(wanted, sizeof(wanted), "\n### %s\n", table->heading);
	if (!strstr(document, wanted))
		fail_msg("docs/segment-format.md has no heading '%s'", wanted + 1);
	return strstr(document, wanted) + strlen(wanted);
}

static bool
parse_row(const char *line, bool is_struct, struct row *row, char *name, size_t name_bytes)
{
	char text[64];

	row->second = 0;
	if (is_struct ? sscanf(line, "| %lu | %lu | `%63[^`]` |", &row->first, &row->second, text) != 3
		      : sscanf(line, "| %lu | `%63[^`]` |", &row->first, text) != 2)
		return false;
	snprintf(name, name_bytes, "%s", text);
	row->name = name;
	return true;
}

static void
check_row(const struct table *table, size_t index, const struct row *got)
{
	const struct row *wanted;

	if (index >= table->row_count)
		fail_msg("%s: '%s' is in the document, not in the header", table->heading, got->name);
	wanted = &table->rows[index];
	if (strcmp(wanted->name, got->name) != 0)
		fail_msg("%s: the document has '%s' where the header has '%s'", table->heading, got->name,
			wanted->name);
	if (wanted->first != got->first || wanted->second != got->second)
		fail_msg("%s: %s is at %lu (%lu bytes), not %lu (%lu)", table->heading, got->name,
			wanted->first, wanted->second, got->first, got->second);
}

static void
check_table(const struct table *table)
{
	size_t count = 0;

	for (const char *line = find_table(table); line && strncmp(line, "#", 1) != 0;
		line = next_line(line)) {
		struct row row;
		char name[64];

		if (parse_row(line, table->bytes != 0, &row, name, sizeof(name)))
			check_row(table, count++, &row);
	}
	if (count < table->row_count)
		fail_msg("%s: '%s' is missing in the document", table->heading, table->rows[count].name);
}

static void
test_document(void **state)
{
	(void)state;
	for (size_t i = 0; i < TABLES; i++)
		check_table(&tables[i]);
}

/* The lists above leave no byte of a struct out, so a field that is new in a header is new here. */
static void
test_lists_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < TABLES; i++) {
		unsigned long at = 0;

		for (size_t j = 0; tables[i].bytes != 0 && j < tables[i].row_count; j++) {
			assert_int_equal(tables[i].rows[j].first, at);
			at += tables[i].rows[j].second;
		}
		assert_int_equal(at, tables[i].bytes);
	}
}

/* Rows "| `NAME` | value |". */
static void
test_constants(void **state)
{
#define CONSTANT(name)                                                                                       \
	{                                                                                                    \
#name, name, 0                                                                               \
	}
	static const struct row constants[] = {
		CONSTANT(CS_SEGMENT_MAJOR),
		CONSTANT(CS_SEGMENT_MINOR),
		CONSTANT(CS_SEGMENT_ENDIAN),
		CONSTANT(CS_SEGMENT_PAGE_BYTES),
		CONSTANT(CS_SEGMENT_SECTIONS_MAX),
		CONSTANT(CS_GPUS_MAX),
		CONSTANT(CS_COMMUNICATORS_MAX),
		CONSTANT(CS_NAMES_MAX),
		CONSTANT(CS_LABELS_MAX),
		CONSTANT(CS_ENVIRONMENT_MAX),
		CONSTANT(CS_TEXT_BYTES),
		CONSTANT(CS_NAME_BYTES_MAX),
		CONSTANT(CS_RING_SLOTS_MIN),
		CONSTANT(CS_RING_SLOTS_DEFAULT),
		CONSTANT(CS_RING_SLOTS_MAX),
		CONSTANT(CS_RECORD_IN_GRAPH),
		CONSTANT(CS_RECORD_FUSED),
		CONSTANT(CS_RECORD_PART),
		CONSTANT(CS_RECORD_COPY_TO_HOST),
		CONSTANT(CS_RECORD_COPY_FROM_HOST),
		CONSTANT(CS_RECORD_COPY_PEER),
		CONSTANT(CS_RECORD_WINDOW_FOREIGN),
		CONSTANT(CS_LABEL_FUSED),
		CONSTANT(CS_LABEL_PART),
		CONSTANT(CS_LABEL_BOUND),
		CONSTANT(CS_BUSY_GAP_NS),
	};
#undef CONSTANT

	(void)state;
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
		char wanted[128];

		snprintf(wanted, sizeof(wanted), "\n| `%s` | %lu |", constants[i].name, constants[i].first);
		if (!strstr(document, wanted))
			fail_msg("docs/segment-format.md lacks the row '%s'", wanted + 1);
	}
}

/* Rows "| TYPE | least | most |" under "## Sections". */
static void
test_section_rules(void **state)
{
	static const char *const names[CS_SECTION_TYPE_COUNT] = {"", "CONTROL", "STATUS", "PROCESS", "GPU",
		"COMMUNICATOR", "NAME", "TEXT", "LABEL", "ENVIRONMENT", "RING"};

	(void)state;
	for (uint32_t type = CS_SECTION_NONE + 1; type < CS_SECTION_TYPE_COUNT; type++) {
		const struct cs_section_rule *rule = cs_section_rule(type);
		char wanted[128];

		snprintf(wanted, sizeof(wanted), "\n| %s | %u | %u | %llu | %llu |", names[type],
			rule->head_bytes, rule->stride_bytes, (unsigned long long)rule->capacity_min,
			(unsigned long long)rule->capacity_max);
		if (!strstr(document, wanted))
			fail_msg("docs/segment-format.md lacks the row '%s'", wanted + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_lists_are_whole),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_section_rules),
	};

	return cmocka_run_group_tests(tests, load_document, NULL);
}
