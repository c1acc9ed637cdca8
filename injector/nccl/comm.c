/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"

#include "collective.h"
#include "injector.h"

#include <string.h>

enum { COMM_FREE = 0, COMM_FILLING = 1, COMM_USED = 2 };

static struct cs_nccl_comm comms[CS_NCCL_COMMS];
/* Largest world seen: its rank is the process's rank in metrics that are about the process. */
static _Atomic int32_t largest_world;

static bool
comm_in_use(const struct cs_nccl_comm *comm)
{
	/* Pairs with the release in comm_fill: the fields are whole. */
	return atomic_load_explicit(&comm->state, memory_order_acquire) == COMM_USED;
}

static void
comm_fill(struct cs_nccl_comm *comm, uint64_t hash, int rank, int world, int nodes, const char *name)
{
	comm->hash = hash;
	comm->rank = rank;
	comm->world = world;
	comm->nodes = nodes;
	atomic_store_explicit(&comm->told, NULL, memory_order_relaxed);
	comm->chain.open = false;
	comm->chain.context = NULL;
	memset(comm->name, 0, sizeof(comm->name));
	if (name != NULL)
		strncpy(comm->name, name, sizeof(comm->name) - 1);
	atomic_store_explicit(&comm->comm_id, 0, memory_order_relaxed);
	atomic_store_explicit(&comm->p2p_calls, 0, memory_order_relaxed);
	/* Pairs with comm_in_use. */
	atomic_store_explicit(&comm->state, COMM_USED, memory_order_release);
}

struct cs_nccl_comm *
cs_nccl_comm_open(uint64_t hash, int rank, int world, int nodes, const char *name)
{
	for (uint32_t i = 0; i < CS_NCCL_COMMS; i++) {
		struct cs_nccl_comm *comm = &comms[i];

		if (!comm_in_use(comm) || comm->hash != hash || comm->rank != rank)
			continue;
		if (comm->world == CS_RANK_UNKNOWN && world != CS_RANK_UNKNOWN) {
			comm->world = world;
			comm->nodes = nodes;
		}
		return comm;
	}
	for (uint32_t i = 0; i < CS_NCCL_COMMS; i++) {
		uint32_t expected = COMM_FREE;

		if (!atomic_compare_exchange_strong(&comms[i].state, &expected, COMM_FILLING))
			continue;
		comm_fill(&comms[i], hash, rank, world, nodes, name);
		return &comms[i];
	}
	return NULL;
}

void
cs_nccl_comm_close(struct cs_nccl_comm *comm)
{
	atomic_store_explicit(&comm->state, COMM_FREE, memory_order_release);
}

struct cs_nccl_comm *
cs_nccl_comm_find(uint64_t hash)
{
	struct cs_nccl_comm *found = NULL;

	for (uint32_t i = 0; i < CS_NCCL_COMMS; i++) {
		if (!comm_in_use(&comms[i]) || comms[i].hash != hash)
			continue;
		if (found != NULL)
			return NULL;
		found = &comms[i];
	}
	return found;
}

static void
tell_rank(struct cs_segment_writer *writer, const struct cs_nccl_comm *comm)
{
	int32_t known = atomic_load_explicit(&largest_world, memory_order_relaxed);

	while (comm->world > known)
		if (atomic_compare_exchange_weak(&largest_world, &known, comm->world)) {
			cs_segment_writer_rank(writer, comm->rank, comm->world);
			break;
		}
}

uint32_t
cs_nccl_comm_id(struct cs_nccl_comm *comm)
{
	uint32_t id = atomic_load_explicit(&comm->comm_id, memory_order_relaxed);
	struct cs_segment_writer *writer = cs_injector_borrow_writer();
	struct cs_communicator entry = {0};

	if (id != 0 || writer == NULL)
		return id;
	entry.hash = comm->hash;
	entry.rank = comm->rank;
	entry.world = comm->world;
	entry.nodes = comm->nodes;
	entry.impl = CS_IMPL_NCCL;
	memcpy(entry.name, comm->name, sizeof(entry.name));
	/* Two threads may both come here: equal input gives the equal id. */
	id = cs_segment_writer_communicator(writer, &entry);
	atomic_store_explicit(&comm->comm_id, id, memory_order_relaxed);
	tell_rank(writer, comm);
	return id;
}
