/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL communicators of this process, from the profiler plugin's init or from NVTX payloads: a fixed
 * pool, since NCCL holds pointers into it as plugin contexts.
 *
 * Thread context: any application thread; opening scans and claims without a lock, host-safe.
 */
#ifndef CS_NCCL_COMM_H
#define CS_NCCL_COMM_H

#include "segment/segment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CS_NCCL_COMMS CS_COMMUNICATORS_MAX

/* What chain.h knows of it. */
struct cs_nccl_comm_chain {
	bool open;      /* the other plugin's init succeeded: events go to it */
	void *context;  /* which that gave, perhaps NULL */
	int *nccl_mask; /* NCCL's own, for as long as this communicator lives */
	int our_mask;
	_Atomic int their_mask; /* as last written to *nccl_mask */
};

struct cs_nccl_comm {
	_Atomic uint32_t state; /* 0 free, 1 being filled, 2 in use */
	int32_t rank;
	int32_t world; /* CS_RANK_UNKNOWN: plugin interfaces before version 4 do not tell */
	int32_t nodes;
	uint64_t hash;
	char name[64];
	_Atomic uint32_t comm_id; /* in the segment, 0 not yet */
	_Atomic uint32_t p2p_calls;
	/* Versions 1 to 3: an init's context tells no communicator, its first event does. */
	struct cs_nccl_comm *_Atomic told;
	struct cs_nccl_comm_chain chain;
};

/* The communicator of this hash and rank; made when new. name NULL = "". NULL: the pool is full. world
 * unknown: a known one of the same hash and rank is kept; a known one completes an entry that had none. */
struct cs_nccl_comm *cs_nccl_comm_open(uint64_t hash, int rank, int world, int nodes, const char *name);
/* Its place is free again; after the plugin's finalize, when NCCL makes no event of it any more. */
void cs_nccl_comm_close(struct cs_nccl_comm *comm);
/* The only communicator with this hash; NULL when there is none or several ranks of this process share it. */
struct cs_nccl_comm *cs_nccl_comm_find(uint64_t hash);
/* Its id in the segment; enters it there at the first call that finds a segment. 0: none yet, or the table is
 * full. */
uint32_t cs_nccl_comm_id(struct cs_nccl_comm *comm);

#endif
