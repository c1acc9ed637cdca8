/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake NCCL's insides. What it tells, and when, is read from the sources of the releases:
 *
 *   release      plugin  what an eager call and a captured one bring on one node
 *   2.23         v1      eager: Group and Coll after the launch, unless a captured graph is alive; captured:
 * nothing 2.24 - 2.26  v2, v3  eager: Group and Coll after the launch; captured: nothing 2.27         v4
 * both: Group and Coll after the launch 2.28 - 2.31  v5 - v7 both: GroupApi and CollApi before it,
 * KernelLaunch around it, Group and Coll after it
 *
 * Kernels on symmetric memory bring their API events alone, and nothing at all before v5; since 2.31 they
 * bring everything. NVTX ranges come around every call, in every release; the communicator is in them
 * since 2.25.
 */
#ifndef CS_SCENARIO_NCCL_H
#define CS_SCENARIO_NCCL_H

#include "scenario.h"

#include <pthread.h>

#define NCCL_FUNCTIONS  5U
#define NCCL_CHANNELS   8U /* of every kernel */
#define NCCL_ARGS_BYTES 4096U

/* A communicator on this rank. */
struct nccl_comm {
	pthread_mutex_t lock; /* the program makes one call at a time on it */
	uint64_t hash;
	int rank;
	int world;
	void *context; /* the plugin's */
	uint64_t sequence[NCCL_FUNCTIONS];
};

/* One collective call. */
struct nccl_call {
	struct nccl_comm *comm;
	const struct scenario_op *op;
	uint64_t bytes; /* the whole message */
	void *stream;
	bool captured;
};

/* What the caller passes: all-gather's message is what all ranks get, reduce-scatter's what all have; each
 * call is made with one rank's part. */
uint64_t nccl_part_bytes(const struct nccl_call *call);
uint8_t nccl_function(const struct scenario_impl *impl); /* ncclFunc_t */

/* libnccl.c: what its ncclGetVersion says from now on. */
void fake_nccl_set_release(int number);

/* -- nccl_kernel.c ------------------------------------------------------------------------------------- */

/* The block of the launch of a kernel that holds these calls. Returns its bytes. */
size_t nccl_args_fill(uint32_t nccl, const struct nccl_call *calls, uint32_t count, unsigned char *block);

/* -- nccl_plugin.c: events in the descriptors of the interface version --------------------------------- */

void nccl_plugin_open(uint32_t nccl);
void nccl_plugin_close(void);
unsigned int nccl_plugin_version(void); /* 0: none */
void nccl_plugin_comm(struct nccl_comm *comm);
void nccl_plugin_comm_end(struct nccl_comm *comm);
/* Each returns the event's handle, NULL when the plugin wants no such event. */
void *nccl_plugin_group_api(const struct nccl_comm *comm, bool captured, int depth);
void *nccl_plugin_coll_api(const struct nccl_call *call, void *group_api);
void *nccl_plugin_launch(const struct nccl_call *call, void *group_api);
void *nccl_plugin_group(const struct nccl_call *call);
/* head: the first of its kernel. */
void *nccl_plugin_coll(const struct nccl_call *call, void *coll_api, void *group, bool head);
void nccl_plugin_group_started(void *group_api);
void nccl_plugin_group_ends(void *group_api);
void nccl_plugin_stop(void *handle);

/* -- nccl_nvtx.c: ranges in the domain NCCL ------------------------------------------------------------ */

/* NCCL_NVTX_DISABLE=1 silences it, whatever the release: as a build without NVTX does. */
void nccl_nvtx_open(uint32_t nccl);
void nccl_nvtx_comm(const struct nccl_comm *comm);
void nccl_nvtx_push(const struct nccl_call *call);
void nccl_nvtx_push_group(bool start); /* ncclGroupStart, ncclGroupEnd */
void nccl_nvtx_pop(void);

#endif
