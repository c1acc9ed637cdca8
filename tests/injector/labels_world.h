/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver and a CUPTI of function pointers for the label side's tests: kernels, graphs, executables, and the
 * callbacks of the calls on them in the order that CUPTI 13.0 was measured to give on an H200.
 */
#ifndef CS_LABELS_WORLD_H
#define CS_LABELS_WORLD_H

#include "labels.h"
#include "segment/segment_writer.h"

#include <stdbool.h>
#include <stdint.h>

#define WORLD_PARAMETERS_MAX 8

/* All-reduce of vLLM: (RankData*, RankSignals, Signal*, T* result, int rank, int size in 16-byte packs). */
#define WORLD_VLLM                                                                                           \
	"_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_"     \
	"6SignalEPT_ii"
#define WORLD_NCCL     "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
#define WORLD_NO_RULE  "_Z51ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16_xx20ncclSymkDevWorkArgs4K"
#define WORLD_ORDINARY "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi"
#define WORLD_MARKER   "_Z22build_tree_efficient_xPlS_"

struct world_function {
	const char *name;
	unsigned int parameter_count;
	size_t sizes[WORLD_PARAMETERS_MAX];
	bool is_kernel; /* a CUkernel: cuFuncGetParamInfo refuses it */
};

struct world_node {
	uint64_t id;
	struct world_graph *graph;
	struct world_graph *child;
	bool destroyed;
};

struct world_graph {
	uint32_t id;
	uint32_t node_count, node_capacity;
	uint32_t next_ordinal;
	struct world_node **nodes;
	struct world_graph *original;
};

struct world_launch {
	const struct world_function *function;
	void **kernel_params;
	void **extra;
	bool fails;
};

/* cmocka group set-up and teardown: segment, catalogue, cs_labels_init. */
int world_setup(void **state);
int world_teardown(void **state);

extern struct cs_cupti_api world_cupti;
extern struct cs_segment_writer *world_writer;
extern _Atomic uint32_t world_gone_queries; /* ids asked of destroyed nodes: a crash on the real thing */

struct cs_status *world_status(void);
uint64_t world_unlabelled(enum cs_unlabelled_reason reason);

/* Sets the two parameters that matter of a vLLM all-reduce; params has room for six pointers. */
struct world_vllm {
	void *pointers[3];
	uint64_t signals[16];
	int32_t rank;
	int32_t packs;
	void *params[6];
};
void world_vllm_fill(struct world_vllm *arguments, int32_t rank, int32_t packs);
extern const struct world_function world_vllm, world_vllm_new, world_vllm_kernel, world_vllm_odd,
	world_ordinary, world_nccl;

/* Calls, with their callbacks. Return correlation ids. */
uint32_t world_eager(const struct world_launch *launch);
uint32_t world_eager_ex(const struct world_launch *launch);
struct world_graph *world_graph_create(void);
struct world_node *world_capture(struct world_graph *graph, const struct world_launch *launch);
struct world_node *world_add_node(struct world_graph *graph, const struct world_launch *launch);
struct world_node *world_add_child(struct world_graph *graph, struct world_graph *child);
struct world_graph *world_clone(struct world_graph *graph);
/* The executable's graph: its nodes are what records carry, child graphs opened. */
struct world_graph *world_instantiate(struct world_graph *graph);
uint32_t world_graph_launch(struct world_graph *exec);
void world_set_node(struct world_node *node, const struct world_launch *launch);
/* events: whether CUPTI tells (13.0 on). */
void world_set_exec(struct world_graph *exec, struct world_node *original, const struct world_launch *launch,
	bool events);
void world_update(struct world_graph *exec, struct world_graph *source, bool events);
/* The child graph of node `original` of the graph that `exec` was made from; generic: by
 * cuGraphExecNodeSetParams. */
void world_set_child(struct world_graph *exec, struct world_node *original, struct world_graph *child,
	bool events, bool generic);
/* Kernel nodes in the order of an executable's: child graphs after the graph's own nodes. At most `room`;
 * returns how many. */
uint32_t world_kernel_nodes(struct world_graph *graph, struct world_node **nodes, uint32_t room);
void world_destroy_exec(struct world_graph *exec);
void world_destroy_graph(struct world_graph *graph);
void world_unload_module(void);

/* The id that the next call will have. */
uint32_t world_next_correlation(void);

/* A kernel's record. */
struct cs_kernel_identity world_resolve(const char *name, uint64_t node_id, uint32_t correlation_id);

#endif
