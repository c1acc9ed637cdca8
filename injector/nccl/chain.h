/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler plugin that was there before us (NCCL's Inspector, a vendor's). NCCL knows one plugin only, so
 * with COLLSCOPE_NCCL_CHAIN=1 we load it and tell it what NCCL tells us: every call of init, startEvent,
 * stopEvent, recordEventState and finalize, in the newest interface version that both it and NCCL have
 * (translate.h). It is treated as NCCL treats a plugin:
 *
 *  - the event mask that it fills is one integer for all its communicators, which it may change at any time;
 * NCCL's mask is the union of that (without bits that its version lacks) and ours;
 *  - events go to each communicator whose init succeeded, whatever context it gave; finalize is called only
 * where it gave one;
 *  - it gets events that only we asked for, too.
 *
 * Each function but the first is called inside the plugin call of the same name, on NCCL's thread, and adds
 * no allocation, lock or system call to what the other plugin does.
 */
#ifndef CS_NCCL_CHAIN_H
#define CS_NCCL_CHAIN_H

#include "comm.h"
#include "handle.h"
#include "profiler_abi.h"

/* Start-up. plugin: what NCCL_PROFILER_PLUGIN named, by NCCL's rules: a path, "foo" for
 * libnccl-profiler-foo.so, the beginning of "STATIC_PLUGIN" for the program itself, "" for
 * libnccl-profiler.so. 0; or -ENOENT: nothing will be forwarded, with one line on stderr that says why (none
 * when "" is not installed). A second call replaces the first one's plugin. */
int cs_nccl_chain_load(const char *plugin);

/* Interface version that the loaded plugin is spoken to in when NCCL speaks `version`; 0: nothing is
 * forwarded. */
unsigned int cs_nccl_chain_version(unsigned int version);

/* What NCCL tells a plugin's init; versions 1 to 3 nothing. */
struct cs_nccl_init {
	const char *name;
	uint64_t hash;
	int nodes, ranks, rank;
	cs_nccl_logger logger;
};

/* comm NULL (the pool is full): its events cannot be forwarded. *mask = our_mask and what the plugin asks
 * for. */
void cs_nccl_chain_init(unsigned int version, struct cs_nccl_comm *comm, const struct cs_nccl_init *arguments,
	int our_mask, int *mask);
/* For comm->chain.open. *handle holds ours, of the mark `mark`; becomes what NCCL shall get. The descriptor
 * is NCCL's and may be written to. */
void cs_nccl_chain_start(
	unsigned int version, struct cs_nccl_comm *comm, enum cs_nccl_mark mark, void *event, void **handle);
/* For a handle with something of theirs in it (handle.h). */
void cs_nccl_chain_stop(unsigned int version, void *theirs);
void cs_nccl_chain_state(unsigned int version, void *theirs, int state, void *arguments);
/* For comm->chain.open. */
void cs_nccl_chain_finalize(unsigned int version, struct cs_nccl_comm *comm);

#endif
