/* SPDX-License-Identifier: Apache-2.0 */
/* The names are the metrics contract and the values are the file formats: both are written out here again. */
#include "collective.h"
#include "record.h"
#include "segment/segment.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct row {
	unsigned int value;
	const char *name;
};

static void
check(const char *(*name_of)(unsigned int), int (*parse)(const char *), const struct row *rows, size_t count,
	size_t enum_count)
{
	assert_int_equal(count, enum_count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(name_of(rows[i].value), rows[i].name);
		if (parse != NULL)
			assert_int_equal(parse(rows[i].name), rows[i].value);
	}
	assert_string_equal(name_of((unsigned int)enum_count), "unknown");
	assert_string_equal(name_of(UINT_MAX), "unknown");
	if (parse != NULL) {
		assert_int_equal(parse("no such name"), -EINVAL);
		assert_int_equal(parse(""), -EINVAL);
		assert_int_equal(parse(NULL), -EINVAL);
	}
}

#define CHECK(name_of, parse, rows, enum_count)                                                              \
	check(name_of, parse, rows, sizeof(rows) / sizeof((rows)[0]), enum_count)

static void
test_names_of_collectives(void **state)
{
	static const struct row ops[] = {{0, "unknown"}, {1, "all_reduce"}, {2, "all_gather"},
		{3, "reduce_scatter"}, {4, "broadcast"}, {5, "reduce"}, {6, "all_to_all"}, {7, "send_recv"},
		{8, "send"}, {9, "recv"}, {10, "gather"}, {11, "scatter"}, {12, "barrier"}};
	static const struct row impls[] = {{0, "unknown"}, {1, "nccl"}, {2, "nccl_symmetric"},
		{3, "vllm_custom"}, {4, "sglang_custom"}, {5, "flashinfer"}, {6, "trtllm"},
		{7, "torch_symm_mem"}, {8, "nvshmem"}, {9, "mscclpp"}, {10, "deep_ep"}};
	static const struct row dtypes[] = {{0, "unknown"}, {1, "int8"}, {2, "uint8"}, {3, "int32"},
		{4, "uint32"}, {5, "int64"}, {6, "uint64"}, {7, "float16"}, {8, "float32"}, {9, "float64"},
		{10, "bfloat16"}, {11, "float8_e4m3"}, {12, "float8_e5m2"}};
	static const struct row reductions[] = {{0, "unknown"}, {1, "sum"}, {2, "prod"}, {3, "max"},
		{4, "min"}, {5, "avg"}, {6, "premul_sum"}};
	static const struct row algorithms[] = {{0, "unknown"}, {1, "tree"}, {2, "ring"},
		{3, "collnet_direct"}, {4, "collnet_chain"}, {5, "nvls"}, {6, "nvls_tree"}, {7, "pat"},
		{8, "one_shot"}, {9, "two_shot"}, {10, "multimem"}};
	static const struct row protocols[] = {{0, "unknown"}, {1, "ll"}, {2, "ll128"}, {3, "simple"}};
	static const struct row sources[] = {{0, "unknown"}, {1, "nccl_profiler"}, {2, "nvtx"},
		{3, "launch_parameters"}, {4, "kernel_name"}};
	static const struct row phases[] = {{0, "unknown"}, {1, "verify"}, {2, "draft"}, {3, "draft_extend"},
		{4, "decode"}, {5, "prefill"}};
	static const struct row classes[] = {{0, "compute"}, {1, "copy"}, {2, "collective"}};

	(void)state;
	CHECK(cs_op_name, cs_op_parse, ops, CS_OP_COUNT);
	CHECK(cs_impl_name, cs_impl_parse, impls, CS_IMPL_COUNT);
	CHECK(cs_dtype_name, cs_dtype_parse, dtypes, CS_DTYPE_COUNT);
	CHECK(cs_reduction_name, NULL, reductions, CS_REDUCTION_COUNT);
	CHECK(cs_algorithm_name, NULL, algorithms, CS_ALGORITHM_COUNT);
	CHECK(cs_protocol_name, NULL, protocols, CS_PROTOCOL_COUNT);
	CHECK(cs_label_source_name, NULL, sources, CS_LABEL_SOURCE_COUNT);
	CHECK(cs_phase_name, cs_phase_parse, phases, CS_PHASE_COUNT);
	CHECK(cs_busy_class_name, NULL, classes, CS_BUSY_CLASS_COUNT);
}

static void
test_names_of_formats(void **state)
{
	static const struct row types[] = {{0, "unknown"}, {1, "collective"}, {2, "busy"},
		{3, "graph_launch"}, {4, "window"}, {5, "mark"}, {6, "loss"}, {7, "marker"},
		{8, "host_launch"}, {9, "still"}, {10, "graph"}, {11, "window_open"}};
	static const struct row causes[] = {{0, "cupti_dropped"}, {1, "bad_timestamp"}, {2, "pool_empty"},
		{3, "ring_contended"}, {4, "ring_overrun"}, {5, "ring_hole"}, {6, "table_full"},
		{7, "foreign_owner"}, {8, "invalid_record"}, {9, "table_busy"}, {10, "unknown_device"},
		{11, "marks_full"}};
	static const struct row depths[] = {{0, "off"}, {1, "light"}, {2, "deep"}};
	static const struct row modes[] = {{0, "off"}, {1, "demand"}, {2, "sample"}, {3, "full"}};
	static const struct row states[] = {{0, "starting"}, {1, "learning"}, {2, "tracing"}, {3, "idle"},
		{4, "yielded"}, {5, "paused"}, {6, "dormant"}, {7, "exited"}};
	static const struct row reasons[] = {{0, "no_ledger"}, {1, "no_rule"}, {2, "check_failed"},
		{3, "ledger_full"}, {4, "no_launch"}, {5, "announce_full"}, {6, "child_full"}};
	static const struct row links[] = {{0, "unknown"}, {1, "self"}, {2, "nvlink"}, {3, "pcie_switch"},
		{4, "pcie_host_bridge"}, {5, "pcie_node"}, {6, "pcie_system"}};

	(void)state;
	CHECK(cs_record_type_name, NULL, types, CS_RECORD_TYPE_COUNT);
	CHECK(cs_loss_cause_name, NULL, causes, CS_LOSS_CAUSE_COUNT);
	CHECK(cs_depth_name, NULL, depths, CS_DEPTH_COUNT);
	CHECK(cs_mode_name, NULL, modes, CS_MODE_COUNT);
	CHECK(cs_state_name, NULL, states, CS_STATE_COUNT);
	CHECK(cs_unlabelled_reason_name, NULL, reasons, CS_UNLABELLED_REASON_COUNT);
	CHECK(cs_link_name, NULL, links, CS_LINK_COUNT);
}

static void
test_element_sizes(void **state)
{
	(void)state;
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_UNKNOWN), 0);
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_INT8), sizeof(int8_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_UINT8), sizeof(uint8_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_INT32), sizeof(int32_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_UINT32), sizeof(uint32_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_INT64), sizeof(int64_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_UINT64), sizeof(uint64_t));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_FLOAT16), 2);
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_FLOAT32), sizeof(float));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_FLOAT64), sizeof(double));
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_BFLOAT16), 2);
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_FLOAT8_E4M3), 1);
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_FLOAT8_E5M2), 1);
	assert_int_equal(cs_dtype_bytes(CS_DTYPE_COUNT), 0);
	assert_int_equal(cs_dtype_bytes(UINT_MAX), 0);
}

/* nccl-tests' factors, worked out by hand. */
static void
test_bus_bytes(void **state)
{
	(void)state;
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_REDUCE, 8, 43008), 75264);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_REDUCE, 2, 43008), 43008);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_REDUCE, 3, 100), 133);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_GATHER, 8, 8192), 7168);
	assert_int_equal(cs_op_bus_bytes(CS_OP_REDUCE_SCATTER, 4, 8192), 6144);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_TO_ALL, 2, 8192), 4096);
	assert_int_equal(cs_op_bus_bytes(CS_OP_BROADCAST, 8, 8192), 8192);
	assert_int_equal(cs_op_bus_bytes(CS_OP_BARRIER, 8, 4), 0);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_REDUCE, CS_RANK_UNKNOWN, 43008), 0);
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_REDUCE, 1, 43008), 0);
	/* A size that a corrupt segment may have must not wrap around. */
	assert_int_equal(cs_op_bus_bytes(CS_OP_ALL_GATHER, INT32_MAX, UINT64_MAX - 1) >> 63, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_collectives),
		cmocka_unit_test(test_names_of_formats),
		cmocka_unit_test(test_element_sizes),
		cmocka_unit_test(test_bus_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
