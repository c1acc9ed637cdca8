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

enum scenario_op_type { SCENARIO_COMPUTE, SCENARIO_COLLECTIVE, SCENARIO_COPY };
enum scenario_direction { SCENARIO_TO_HOST, SCENARIO_FROM_HOST, SCENARIO_PEER };

/* How an implementation of a collective looks to the driver. */
struct scenario_impl {
	const char *name;       /* as in the scenario */
	const char *label;      /* as in the metrics */
	const char *format;     /* mangled kernel name; %d: ranks of the group */
	const char *parameters; /* as a fake module's `params` */
	void (*fill)(void **parameters, uint64_t bytes, int rank, int world);
	bool nccl;        /* announced to NCCL's profiler plugin and in NVTX */
	const char *func; /* NCCL's name of the operation */
	const char *op;
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
};

struct scenario_item {
	uint32_t op;
	int beside; /* op that runs on the second stream at the same time; -1: none */
};

struct scenario_sequence {
	char name[SCENARIO_NAME_MAX];
	char phase[SCENARIO_NAME_MAX];
	bool eager;   /* launched one by one instead of as a graph */
	bool updated; /* captured with half the bytes first, the executable updated from a second capture */
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
	uint32_t group; /* ranks of one communicator; ranks / group groups */
	uint64_t steps;
	uint64_t period_ns;
	uint64_t seed;
	uint32_t capture_threads; /* that capture graphs at once; 0: the main thread does */
	struct scenario_rank rank[SCENARIO_RANKS_MAX];
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

/* impl.c */
const struct scenario_impl *scenario_impl_find(const char *name);

/* -- plan.c -------------------------------------------------------------------------------------------------
 */

/* One operation of one rank in one launch. */
struct scenario_planned {
	uint32_t op;
	bool beside;              /* on the second stream */
	struct cs_fake_span span; /* true time */
	uint64_t ready_ns;        /* COLLECTIVE: when the last rank of the group arrived */
	uint32_t last_rank;       /* COLLECTIVE: which one that was */
};

struct scenario_launch {
	uint32_t sequence;
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
void scenario_plan_close(struct scenario_plan *plan);

/* -- truth.c ------------------------------------------------------------------------------------------------
 */

struct scenario_truth;
struct scenario_truth *scenario_truth_new(const struct scenario *scenario, uint32_t rank);
/* When step 0 begins and the GPU's clock starts to drift. */
void scenario_truth_set_epoch(struct scenario_truth *truth, uint64_t epoch_ns);
/* Counts a launch that has been made. events: NULL, or where each collective is written, one JSON object a
 * line. */
void scenario_truth_add(
	struct scenario_truth *truth, const struct scenario_launch *launch, uint64_t step, FILE *events);
void scenario_truth_write(
	const struct scenario_truth *truth, uint64_t steps, uint64_t late_launches, FILE *out);
void scenario_truth_free(struct scenario_truth *truth);

/* -- gpu.c, capture.c: the program's CUDA side ------------------------------------------------------------
 */

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
	CUmodule module;
	CUlibrary library;
	CUfunction *functions; /* by op; NULL for copies */
	void ***parameters;    /* by op */
	CUgraph *graphs;       /* by sequence; NULL for eager ones */
	CUgraphExec *execs;    /* by sequence */
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
/* Launches one op as its implementation does; on any thread. */
void scenario_gpu_run(struct scenario_gpu *gpu, uint32_t op, CUstream stream, bool captured);
void scenario_streams_open(struct scenario_streams *on);
void scenario_streams_close(struct scenario_streams *on);
/* The GPU's clock drifts from then on. Before the first launch. */
void scenario_gpu_set_clock(struct scenario_gpu *gpu, uint64_t epoch_ns);
/* Launches what was planned, at the planned times. */
void scenario_gpu_launch(struct scenario_gpu *gpu, const struct scenario_launch *launch);
void scenario_gpu_wait(struct scenario_gpu *gpu);
void scenario_gpu_close(struct scenario_gpu *gpu);

/* -- nccl.c: what NCCL tells its profiler plugin and NVTX around a launch
 * ------------------------------------- */

/* Loads the plugin that NCCL_PROFILER_PLUGIN names, as ncclCommInitRank does; without one, does nothing. */
void scenario_nccl_open(int rank, int world, uint64_t comm_hash);
void scenario_nccl_before(const struct scenario_impl *impl, uint64_t bytes, void *stream, bool captured);
void scenario_nccl_after(const struct scenario_impl *impl, uint64_t bytes, bool captured);
void scenario_nccl_close(void);
const char *scenario_nccl_plugin(void); /* "v5", "none": what was found */

/* -- profiler.c: torch.profiler's place in the program
 * ----------------------------------------------------------- */

void scenario_profiler_open(void *library); /* libcupti */
bool scenario_profiler_subscribe(void);
void scenario_profiler_start(void);
/* Kernels that it recorded; and how many buffers that it never gave away came back to it. */
uint64_t scenario_profiler_stop(uint64_t *buffers_of_others);

#endif
