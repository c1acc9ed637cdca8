/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scenario: what the GPUs of a node do, as text (tests/fakes/README.md has the grammar), as a plan in time
 * that every rank computes alike from it, and as the truth about it.
 */
#ifndef CS_SCENARIO_H
#define CS_SCENARIO_H

#include "../fake.h"

#include <stdio.h>

#define SCENARIO_RANKS_MAX   16
#define SCENARIO_NAME_MAX    64
#define SCENARIO_THREADS_MAX 16
#define SCENARIO_COMMS_MAX   32
#define SCENARIO_GROUP_MAX   64 /* calls in one NCCL group */

enum scenario_op_type { SCENARIO_COMPUTE, SCENARIO_COLLECTIVE, SCENARIO_COPY };
enum scenario_direction { SCENARIO_TO_HOST, SCENARIO_FROM_HOST, SCENARIO_PEER };

/* How an implementation of a collective looks to the driver. */
struct scenario_impl {
	const char *name;  /* as in the scenario */
	const char *label; /* as in the metrics */
	const char *
		format; /* mangled kernel name, %d: ranks of the communicator; NULL: nccl_kernel.c makes it */
	const char *parameters; /* as a fake module's `params` */
	void (*fill)(void **parameters, uint64_t bytes, int rank, int world); /* NULL: NCCL's own block */
	bool nccl;             /* announced to NCCL's profiler plugin and in NVTX */
	bool symmetric;        /* one of NCCL's kernels on symmetric memory */
	const char *func;      /* NCCL's name of the operation */
	const char *op;        /* as in the metrics */
	const char *algorithm; /* as in `collscope dump`, what the kernel is made for; NULL: NCCL's have one
				  per call */
};

/* A word of NCCL's in its several spellings. */
struct scenario_word {
	const char *name;  /* as in the scenario */
	const char *text;  /* in the plugin's events since interface v2 */
	uint8_t number;    /* in those of v1: ncclDataType_t, NCCL_ALGO_*, NCCL_PROTO_* */
	const char *label; /* as in `collscope dump` */
	/* Element types alone. */
	uint8_t bytes;
	const char *kernel; /* in kernel names: signed ones run under the unsigned one's */
};

/* Ranks that work together: rank, rank + stride, ... (`size` many); the ranks of the scenario are shared out.
 */
struct scenario_comm {
	char name[SCENARIO_NAME_MAX];
	uint32_t size;
	uint32_t stride;
};

struct scenario_op {
	char name[SCENARIO_NAME_MAX];
	enum scenario_op_type type;
	const struct scenario_impl *impl; /* COLLECTIVE */
	char kernel[256];                 /* mangled; COMPUTE may name its own */
	enum scenario_direction direction;
	uint64_t bytes; /* COLLECTIVE: message; COPY: copied */
	uint64_t base_ns;
	uint64_t jitter_ns;
	uint64_t contended_ns; /* instead of base when it runs beside something */

	/* COLLECTIVE: */
	uint32_t comm; /* place in the scenario's communicators */
	/* NULL where the parts of a group differ */
	const struct scenario_word *dtype;
	const struct scenario_word *algorithm;
	const struct scenario_word *protocol;
	const struct scenario_word *variant; /* of a symmetric kernel */
	bool profiled;                       /* NCCL 2.31's second kernel of a variant */
	/* A kernel of an NCCL group: which ops it holds, and the place of each among the group's calls. */
	uint32_t part_count;
	uint32_t parts[SCENARIO_GROUP_MAX];
	uint32_t places[SCENARIO_GROUP_MAX];
	bool mixed; /* the parts are different operations */
	/* What else the group holds: its kernels, their communicators, and whether all its calls are one
	 * operation. */
	uint32_t group_kernels;
	uint32_t group_comms;
	bool group_mixed;
};

struct scenario_item {
	uint32_t op;
	int beside;     /* op that runs on the second stream at the same time; -1: none */
	uint32_t group; /* the first kernel of an NCCL group: how many it launches; else 0 */
};

/* What becomes of a graph between its capture and its launches. */
enum scenario_life {
	SCENARIO_PLAIN,
	SCENARIO_CLONE,     /* what runs is made from a clone */
	SCENARIO_CHILD,     /* from a graph that has it as a child */
	SCENARIO_NESTED,    /* from one that has it as a child's child */
	SCENARIO_NODE_SET,  /* captured with half the bytes, its nodes set before it is instantiated */
	SCENARIO_EXEC_SET,  /* instantiated with half the bytes, the executable's nodes set */
	SCENARIO_UPDATE,    /* instantiated with half the bytes, updated from a second capture */
	SCENARIO_RECAPTURE, /* destroyed and captured again, with half the bytes every other time */
};

struct scenario_sequence {
	char name[SCENARIO_NAME_MAX];
	char phase[SCENARIO_NAME_MAX];
	bool eager; /* launched one by one instead of as a graph */
	enum scenario_life life;
	uint64_t life_step; /* EXEC_SET, UPDATE: before which step; RECAPTURE: after how many, again and again
			     */
	uint32_t count;
	struct scenario_item *items;
	uint32_t operations; /* items and what runs beside them */
	uint32_t collectives;
};

/* One entry of a step: a sequence, launched `times` times. */
struct scenario_entry {
	uint32_t sequence;
	uint32_t times;
};

struct scenario_rank {
	uint64_t late_ns;       /* comes that much later to every collective */
	int64_t late_growth_ns; /* and each step this much more */
	int64_t clock_offset_ns;
	int64_t clock_drift_ppb;
	uint64_t die_step;        /* SIGKILL to itself before this step; UINT64_MAX: never */
	uint64_t hang_step;       /* a kernel that never ends, in this step; UINT64_MAX: never */
	uint32_t hang_collective; /* ordinal in the step's first sequence before which it hangs */
};

struct scenario {
	char name[SCENARIO_NAME_MAX];
	uint32_t ranks;
	uint32_t group; /* ranks of the first communicator; ranks / group groups */
	uint32_t nccl;  /* release, as ncclGetVersion says it: 22809 */
	uint64_t steps;
	uint64_t period_ns;
	uint64_t trace_cost_ns; /* that a traced kernel costs the program; one rank */
	uint64_t pause_step;    /* before it nothing happens for pause_ns */
	uint64_t pause_ns;
	/* And then until the clock is pause_clock_ns past a multiple of pause_every_ns; 0: no longer. */
	uint64_t pause_every_ns, pause_clock_ns;
	uint64_t seed;
	uint32_t capture_threads; /* that capture graphs at once; 0: the main thread does */
	struct scenario_rank rank[SCENARIO_RANKS_MAX];
	uint32_t comm_count;
	struct scenario_comm comms[SCENARIO_COMMS_MAX]; /* the first has no name: the ranks of a group */
	uint32_t op_count;
	struct scenario_op *ops;
	uint32_t sequence_count;
	struct scenario_sequence *sequences;
	uint32_t entry_count;
	struct scenario_entry *entries;
	uint32_t launches; /* of one step: sum of the entries' times */
};

/* parse.c: false after one line on stderr that names file and line. */
bool scenario_parse(const char *path, struct scenario *scenario);
void scenario_free(struct scenario *scenario);
/* "2.28.9" as ncclGetVersion says it; 0: none that the fake knows. */
uint32_t scenario_parse_nccl(const char *text);

/* impl.c */
const struct scenario_impl *scenario_impl_find(const char *name);
/* NULL: no such word. */
const struct scenario_word *scenario_dtype_find(const char *name);
const struct scenario_word *scenario_algorithm_find(const char *name);
const struct scenario_word *scenario_protocol_find(const char *name);
const struct scenario_word *scenario_variant_find(const char *name);

/* Who is who in a communicator. The hash is the same on all ranks of one, and on no others. */
static inline uint32_t
scenario_comm_rank(const struct scenario_comm *comm, uint32_t rank)
{
	return rank / comm->stride % comm->size;
}

static inline uint64_t
scenario_comm_hash(const struct scenario *scenario, uint32_t comm, uint32_t rank)
{
	const struct scenario_comm *of = &scenario->comms[comm];
	uint32_t first = rank - scenario_comm_rank(of, rank) * of->stride;

	return 0x5ce0a71000000000U + ((uint64_t)comm << 16) + first;
}

/* Whether the sequence has messages of half the size in this step. */
static inline bool
scenario_half(const struct scenario_sequence *sequence, uint64_t step)
{
	switch (sequence->life) {
	case SCENARIO_EXEC_SET:
	case SCENARIO_UPDATE:
		return step < sequence->life_step;
	case SCENARIO_RECAPTURE:
		return step / sequence->life_step % 2 == 1;
	default:
		return false;
	}
}

/* -- plan.c -------------------------------------------------------------------------------------------- */

/* One operation of one rank in one launch. */
struct scenario_planned {
	uint32_t op;
	bool beside;              /* on the second stream */
	uint32_t group;           /* as in struct scenario_item */
	struct cs_fake_span span; /* true time */
	uint64_t ready_ns;        /* COLLECTIVE: when the last rank of the group arrived */
	uint32_t last_rank;       /* COLLECTIVE: which one that was */
};

struct scenario_launch {
	uint32_t sequence;
	bool half;        /* with messages of half the size */
	bool two_streams; /* something in it runs beside something */
	uint32_t count;
	struct scenario_planned
		*planned;  /* in the order of launch: what runs beside an item, then the item */
	uint64_t start_ns; /* the earliest start in it */
};

struct scenario_plan {
	const struct scenario *scenario;
	uint32_t rank;                          /* whose */
	uint64_t epoch_ns;                      /* step 0 begins then */
	uint64_t step;                          /* the next to be computed */
	uint64_t cursor_ns[SCENARIO_RANKS_MAX]; /* when each rank's main stream is free */
	struct scenario_launch *launches;       /* of the step computed last; scenario->launches many */
};

bool scenario_plan_open(
	struct scenario_plan *plan, const struct scenario *scenario, uint32_t rank, uint64_t epoch_ns);
/* Computes the next step of all ranks, keeps that of the plan's own. */
void scenario_plan_step(struct scenario_plan *plan);
/* Everything that is still to be planned comes later. */
void scenario_plan_delay(struct scenario_plan *plan, uint64_t delay_ns);
void scenario_plan_close(struct scenario_plan *plan);

/* -- truth.c ------------------------------------------------------------------------------------------- */

struct scenario_truth;
struct scenario_truth *scenario_truth_new(const struct scenario *scenario, uint32_t rank);
/* When step 0 begins and the GPU's clock starts to drift. */
void scenario_truth_set_epoch(struct scenario_truth *truth, uint64_t epoch_ns);
/* The launches of a step were traced, so that all that follows comes so much later. */
void scenario_truth_lose(struct scenario_truth *truth, uint64_t lost_ns);
/* Counts a launch that has been made. events: NULL, or where each collective is written, one JSON object a
 * line. */
void scenario_truth_add(
	struct scenario_truth *truth, const struct scenario_launch *launch, uint64_t step, FILE *events);
void scenario_truth_write(
	const struct scenario_truth *truth, uint64_t steps, uint64_t late_launches, FILE *out);
void scenario_truth_free(struct scenario_truth *truth);

/* -- gpu.c, capture.c, life.c: the program's CUDA side ------------------------------------------------- */

/* What a thread launches and captures on. */
struct scenario_streams {
	CUstream streams[2]; /* main, and what runs beside */
	CUevent fork;
	CUevent join;
};

struct scenario_gpu {
	const struct scenario *scenario;
	uint32_t rank;
	CUcontext context;
	struct scenario_streams own;
	struct scenario_streams captures; /* of graphs that are captured while others run */
	CUmodule module;
	CUlibrary library;
	CUfunction *functions; /* by op; NULL for copies */
	void ***parameters;    /* by op */
	CUgraph *graphs; /* by sequence; NULL for eager ones, and where the executable is all that is left */
	CUgraphExec *execs; /* by sequence */
	CUdeviceptr memory;
	void *host_memory;
	const struct cs_fake_driver *driver;
	bool half; /* messages of half the size */
};

/* All from cuInit to the captured graphs. CUDA errors end the process with one line and status 1. */
void scenario_gpu_open(struct scenario_gpu *gpu, const struct scenario *scenario, uint32_t rank);
void scenario_gpu_capture(struct scenario_gpu *gpu);
void scenario_gpu_check(CUresult result, const char *what);
void scenario_gpu_set_size(struct scenario_gpu *gpu, bool half);
uint64_t scenario_gpu_bytes(const struct scenario_gpu *gpu, uint32_t op);
/* Launches one op as its implementation does, or the kernels of an NCCL group (count > 1); on any thread.
 * spans: NULL, or when each of them runs. */
void scenario_gpu_run(struct scenario_gpu *gpu, const uint32_t *ops, uint32_t count, CUstream stream,
	bool captured, const struct cs_fake_span *spans);
/* An NCCL kernel, its one parameter by `extra`. span as above. */
void scenario_gpu_launch_block(struct scenario_gpu *gpu, uint32_t op, void *block, size_t bytes,
	CUstream stream, const struct cs_fake_span *span);
/* Grid, block and parameters of an op, for the calls on graph nodes; borrowed until the next call on this
 * thread. */
CUDA_KERNEL_NODE_PARAMS scenario_gpu_node_params(struct scenario_gpu *gpu, uint32_t op);
void scenario_streams_open(struct scenario_streams *on);
void scenario_streams_close(struct scenario_streams *on);
/* The GPU's clock drifts from then on. Before the first launch. */
void scenario_gpu_set_clock(struct scenario_gpu *gpu, uint64_t epoch_ns);
/* Launches what was planned, at the planned times. */
void scenario_gpu_launch(struct scenario_gpu *gpu, const struct scenario_launch *launch);
void scenario_gpu_wait(struct scenario_gpu *gpu);
void scenario_gpu_close(struct scenario_gpu *gpu);

void scenario_capture(
	struct scenario_gpu *gpu, const struct scenario_streams *on, uint32_t sequence, CUgraph *graph);
/* Captures and makes what is launched; leaves gpu->graphs NULL unless a later change needs the graph. */
void scenario_life_begin(struct scenario_gpu *gpu, const struct scenario_streams *on, uint32_t sequence);
/* What changes before this step. On the thread that launches. */
void scenario_life_step(struct scenario_gpu *gpu, uint64_t step);

/* -- nccl.c: what NCCL does around its launches, as tools see it --------------------------------------- */

/* The library comes with the program: which release it is. Before cuInit. */
void scenario_nccl_load(uint32_t nccl);
/* Makes this rank's communicators as ncclCommInitRank does, and loads the plugin that NCCL_PROFILER_PLUGIN
 * names. */
void scenario_nccl_open(const struct scenario *scenario, uint32_t rank);
/* One call, or a group of calls: announces, launches the kernels `ops`, tells what comes after each launch.
 * Calls on one communicator are made one after the other, those on different ones at the same time. */
void scenario_nccl_call(struct scenario_gpu *gpu, const uint32_t *ops, uint32_t count, CUstream stream,
	bool captured, const struct cs_fake_span *spans);
/* The block of a launch of one ungrouped op, for the calls on graph nodes. Returns its bytes; block has 4096.
 */
size_t scenario_nccl_block(const struct scenario_gpu *gpu, uint32_t op, unsigned char *block);
void scenario_nccl_kernel_name(uint32_t nccl, const struct scenario_op *op, char *name, size_t size);
void scenario_nccl_close(void);
const char *scenario_nccl_plugin(void); /* "v5", "none": what was found */

/* -- profiler.c: torch.profiler's place in the program ------------------------------------------------- */

void scenario_profiler_open(void *library);        /* libcupti */
void scenario_profiler_open_shared(void *library); /* then it shares CUPTI, which has to be 13.3 */
bool scenario_profiler_subscribe(void);
/* own_clock: it registers a timestamp callback, which stays when it stops. */
void scenario_profiler_start(bool own_clock);
/* Kernels that it recorded in all; and how many of them had times of another clock than its own. */
uint64_t scenario_profiler_stop(uint64_t *times_of_others);

#endif
