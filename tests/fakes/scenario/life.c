/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a graph: cloned, a child of another, its nodes set, its executable updated, captured anew.
 */
#include "scenario.h"

#include <stdlib.h>

#define CHECK(call) scenario_gpu_check((call), #call)

static void
replace_with_clone(CUgraph *graph)
{
	CUgraph clone;

	CHECK(cuGraphClone(&clone, *graph));
	CHECK(cuGraphDestroy(*graph));
	*graph = clone;
}

static void
put_into_another(CUgraph *graph)
{
	CUgraphNode node;
	CUgraph outer;

	CHECK(cuGraphCreate(&outer, 0));
	CHECK(cuGraphAddChildGraphNode(&node, outer, NULL, 0, *graph));
	CHECK(cuGraphDestroy(*graph));
	*graph = outer;
}

/* Gives the collectives of a captured graph their messages' size of now: its own nodes, or those of the
 * executable made from it. The fake lists nodes in the order of capture. */
static void
set_nodes(struct scenario_gpu *gpu, uint32_t number, CUgraph graph, CUgraphExec exec)
{
	const struct scenario_sequence *sequence = &gpu->scenario->sequences[number];
	CUgraphNode *nodes = calloc(sequence->operations, sizeof(CUgraphNode));
	size_t count = sequence->operations;
	CUDA_KERNEL_NODE_PARAMS params;
	uint32_t i, at = 0;
	int both[2];

	if (!nodes)
		abort();
	CHECK(cuGraphGetNodes(graph, nodes, &count));
	for (i = 0; i < 2 * sequence->count; i++) {
		both[0] = sequence->items[i / 2].beside;
		both[1] = (int)sequence->items[i / 2].op;
		if (both[i % 2] < 0)
			continue;
		if (gpu->scenario->ops[both[i % 2]].type == SCENARIO_COLLECTIVE) {
			params = scenario_gpu_node_params(gpu, (uint32_t)both[i % 2]);
			if (exec)
				CHECK(cuGraphExecKernelNodeSetParams(exec, nodes[at], &params));
			else
				CHECK(cuGraphKernelNodeSetParams(nodes[at], &params));
		}
		at++;
	}
	free(nodes);
}

void
scenario_life_begin(struct scenario_gpu *gpu, const struct scenario_streams *on, uint32_t sequence)
{
	enum scenario_life life = gpu->scenario->sequences[sequence].life;
	CUgraph graph;

	scenario_capture(gpu, on, sequence, &graph);
	if (life == SCENARIO_CLONE)
		replace_with_clone(&graph);
	if (life == SCENARIO_CHILD || life == SCENARIO_NESTED)
		put_into_another(&graph);
	if (life == SCENARIO_NESTED)
		put_into_another(&graph);
	if (life == SCENARIO_NODE_SET) {
		scenario_gpu_set_size(gpu, false);
		set_nodes(gpu, sequence, graph, NULL);
	}
	CHECK(cuGraphInstantiateWithFlags(&gpu->execs[sequence], graph, 0));
	/* As torch does: what is launched is all that stays. */
	if (life == SCENARIO_EXEC_SET || life == SCENARIO_UPDATE)
		gpu->graphs[sequence] = graph;
	else
		CHECK(cuGraphDestroy(graph));
}

static void
update(struct scenario_gpu *gpu, uint32_t sequence)
{
	CUgraphExecUpdateResultInfo info;
	CUgraph second;

	scenario_capture(gpu, &gpu->captures, sequence, &second);
	CHECK(cuGraphExecUpdate(gpu->execs[sequence], second, &info));
	CHECK(cuGraphDestroy(second));
}

/* While its last launch may still run. */
static void
recapture(struct scenario_gpu *gpu, uint32_t sequence, bool half)
{
	CHECK(cuGraphExecDestroy(gpu->execs[sequence]));
	scenario_gpu_set_size(gpu, half);
	scenario_life_begin(gpu, &gpu->captures, sequence);
	scenario_gpu_set_size(gpu, false);
}

void
scenario_life_step(struct scenario_gpu *gpu, uint64_t step)
{
	const struct scenario_sequence *sequence;
	uint32_t i;

	for (i = 0; i < gpu->scenario->sequence_count; i++) {
		sequence = &gpu->scenario->sequences[i];
		if (sequence->life == SCENARIO_EXEC_SET && step == sequence->life_step)
			set_nodes(gpu, i, gpu->graphs[i], gpu->execs[i]);
		else if (sequence->life == SCENARIO_UPDATE && step == sequence->life_step)
			update(gpu, i);
		else if (sequence->life == SCENARIO_RECAPTURE && step > 0 && step % sequence->life_step == 0)
			recapture(gpu, i, scenario_half(sequence, step));
	}
}
