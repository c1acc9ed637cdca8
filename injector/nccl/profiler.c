/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported profiler plugins, interface versions 1 to 7. NCCL takes the newest that it knows.
 *
 * Every function returns success whatever happens: an error would make NCCL log, or fail the communicator.
 * Nothing here allocates, locks or makes a system call after init. Events come on the thread that calls NCCL
 * (or, for a captured collective that goes over the network, on the driver's host-function thread, where no
 * launch follows and late facts go nowhere).
 */
#include "chain.h"
#include "collective.h"
#include "comm.h"
#include "facts.h"
#include "handle.h"
#include "injector.h"
#include "labels/announce.h"
#include "profiler_abi.h"
#include "version.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#define CS_PLUGIN_NAME "collscope"
#define CS_EXPORT      __attribute__((visibility("default")))

/* -- what the events say ------------------------------------------------------------------------------- */

static void
announce_coll_api(struct cs_nccl_comm *comm, const struct cs_nccl_coll_api *event)
{
	struct cs_label label;

	cs_nccl_label_init(&label, comm, cs_nccl_op(event->func), CS_LABEL_SOURCE_NCCL_PROFILER);
	cs_nccl_label_count(&label, cs_nccl_dtype(event->datatype), event->count);
	cs_announce_collective(&label, 0);
}

/* An all-to-all comes as 2 * world events, a gather or scatter as 1 or 1 + world, each with the whole call's
 * name: the first one stands for the call. How many a gather makes depends on the root, which is not told, so
 * its size is left to NVTX. */
static bool
p2p_event_is_repeated(struct cs_nccl_comm *comm, uint8_t op)
{
	uint32_t calls;

	if (op != CS_OP_ALL_TO_ALL || comm == NULL || comm->world <= 0)
		return false;
	calls = atomic_fetch_add_explicit(&comm->p2p_calls, 1, memory_order_relaxed);
	return calls % (2U * (uint32_t)comm->world) != 0;
}

static void
announce_p2p_api(struct cs_nccl_comm *comm, const struct cs_nccl_p2p_api *event)
{
	uint8_t op = cs_nccl_op(event->func);
	struct cs_label label;

	if (p2p_event_is_repeated(comm, op))
		return;
	cs_nccl_label_init(&label, comm, op, CS_LABEL_SOURCE_NCCL_PROFILER);
	if (op != CS_OP_GATHER && op != CS_OP_SCATTER)
		cs_nccl_label_count(&label, cs_nccl_dtype(event->datatype), event->count);
	cs_announce_collective(&label, 0);
}

/* NCCL turns some collectives into byte copies before this event: then type and count are not the caller's.
 */
static bool
counts_bytes(uint8_t op)
{
	return op == CS_OP_ALL_GATHER || op == CS_OP_BROADCAST;
}

struct late_fields {
	const char *func, *datatype, *algorithm, *protocol;
	uint64_t count;
	uint64_t sequence;
	uint8_t channels;
};

static void
announce_late(struct cs_nccl_comm *comm, const struct late_fields *fields)
{
	uint8_t op = cs_nccl_op(fields->func);
	struct cs_label label;

	cs_nccl_label_init(&label, comm, op, CS_LABEL_SOURCE_NCCL_PROFILER);
	cs_nccl_label_count(&label, cs_nccl_dtype(fields->datatype), fields->count);
	if (counts_bytes(op)) {
		label.dtype = CS_DTYPE_UNKNOWN;
		label.count = 0;
	}
	label.algorithm = cs_nccl_algorithm(fields->algorithm);
	label.protocol = cs_nccl_protocol(fields->protocol);
	label.channels = fields->channels;
	cs_announce_late(&label, (uint32_t)fields->sequence);
}

/* Which communicator the context stands for; looked up once. */
static struct cs_nccl_comm *
comm_told(struct cs_nccl_comm *context, uint64_t hash, int rank, const char *name)
{
	struct cs_nccl_comm *comm =
		context != NULL ? atomic_load_explicit(&context->told, memory_order_relaxed) : NULL;

	if (comm != NULL && comm->hash == hash && comm->rank == rank)
		return comm;
	comm = cs_nccl_comm_open(hash, rank, CS_RANK_UNKNOWN, CS_RANK_UNKNOWN, name);
	if (context != NULL)
		atomic_store_explicit(&context->told, comm, memory_order_relaxed);
	return comm;
}

static void
announce_late_v1(struct cs_nccl_comm *context, const struct cs_nccl_event_legacy *event)
{
	const struct cs_nccl_coll_v1 *coll = &event->u.coll_v1;
	struct cs_nccl_comm *comm = comm_told(context, coll->comm_hash, event->rank, coll->name);
	uint8_t op = cs_nccl_op_by_number(coll->func);
	struct cs_label label;

	cs_nccl_label_init(&label, comm, op, CS_LABEL_SOURCE_NCCL_PROFILER);
	cs_nccl_label_count(&label, cs_nccl_dtype_by_number(coll->datatype), coll->count);
	if (counts_bytes(op)) {
		label.dtype = CS_DTYPE_UNKNOWN;
		label.count = 0;
	}
	label.reduction = cs_nccl_reduction_by_number(coll->op);
	label.algorithm = cs_nccl_algorithm_by_number(coll->algorithm);
	label.protocol = cs_nccl_protocol_by_number(coll->protocol);
	/* The most that may be used, not what is: channels stay unknown before version 4. */
	cs_announce_late(&label, (uint32_t)coll->sequence);
}

static void
announce_late_v2(unsigned int version, struct cs_nccl_comm *context, const struct cs_nccl_event_legacy *event)
{
	const struct cs_nccl_coll_v2 *v2 = &event->u.coll_v2;
	const struct cs_nccl_coll_v3 *v3 = &event->u.coll_v3;
	struct late_fields fields = {
		.func = v2->func, .datatype = v2->datatype, .count = v2->count, .sequence = v2->sequence};

	fields.algorithm = version == 2 ? v2->algorithm : v3->algorithm;
	fields.protocol = version == 2 ? v2->protocol : v3->protocol;
	announce_late(comm_told(context, v2->comm_hash, event->rank, v2->name), &fields);
}

static void
announce_late_v4(struct cs_nccl_comm *comm, const struct cs_nccl_coll_v4 *coll)
{
	announce_late(comm, &(struct late_fields){.func = coll->func,
				    .datatype = coll->datatype,
				    .algorithm = coll->algorithm,
				    .protocol = coll->protocol,
				    .count = coll->count,
				    .sequence = coll->sequence,
				    .channels = coll->channels});
}

/* -- events -------------------------------------------------------------------------------------------- */

static enum cs_nccl_mark
take_event(struct cs_nccl_comm *comm, const struct cs_nccl_event *event)
{
	switch (event->type) {
	case CS_NCCL_EVENT_GROUP_API:
		cs_announce_begin();
		return CS_NCCL_MARK_GROUP_API;
	case CS_NCCL_EVENT_COLL_API:
		announce_coll_api(comm, &event->u.coll_api);
		break;
	case CS_NCCL_EVENT_P2P_API:
		announce_p2p_api(comm, &event->u.p2p_api);
		break;
	case CS_NCCL_EVENT_KERNEL_LAUNCH:
		cs_announce_launch(comm != NULL ? cs_nccl_comm_id(comm) : 0);
		return CS_NCCL_MARK_LAUNCH;
	case CS_NCCL_EVENT_GROUP:
		return CS_NCCL_MARK_GROUP;
	case CS_NCCL_EVENT_COLL:
		announce_late_v4(comm, &event->u.coll);
		break;
	default:
		break;
	}
	return CS_NCCL_MARK_OTHER;
}

static enum cs_nccl_mark
take_event_legacy(unsigned int version, struct cs_nccl_comm *comm, const struct cs_nccl_event_legacy *event)
{
	if (event->type == CS_NCCL_EVENT_GROUP)
		return CS_NCCL_MARK_GROUP;
	if (event->type == CS_NCCL_EVENT_COLL) {
		if (version == 1)
			announce_late_v1(comm, event);
		else if (version < 4)
			announce_late_v2(version, comm, event);
		else
			announce_late_v4(comm, &event->u.coll_v4);
	}
	return CS_NCCL_MARK_OTHER;
}

/* Off (no segment: dormant, or a forked child) is decided per event; begin and end stay paired since both are
 * cheap. */
static void
start_event(unsigned int version, struct cs_nccl_comm *comm, void **handle, void *event)
{
	enum cs_nccl_mark mark =
		version >= 5 ? take_event(comm, event) : take_event_legacy(version, comm, event);

	*handle = cs_nccl_handle(mark, NULL);
	if (comm != NULL && comm->chain.open)
		cs_nccl_chain_start(version, comm, mark, event, handle);
}

static void
stop_event(unsigned int version, void *handle)
{
	enum cs_nccl_mark mark = cs_nccl_handle_mark(handle);
	void *theirs = cs_nccl_handle_theirs(handle);

	if (mark == CS_NCCL_MARK_GROUP_API)
		cs_announce_end();
	else if (mark == CS_NCCL_MARK_GROUP)
		cs_announce_late_end();
	else if (mark == CS_NCCL_MARK_LAUNCH)
		cs_announce_launch_end();
	if (theirs != NULL)
		cs_nccl_chain_stop(version, theirs);
}

static void
record_event_state(unsigned int version, void *handle, int state, void *arguments)
{
	void *theirs = cs_nccl_handle_theirs(handle);

	if (theirs != NULL)
		cs_nccl_chain_state(version, theirs, state, arguments);
}

static void
finalize(unsigned int version, struct cs_nccl_comm *comm)
{
	struct cs_nccl_comm *told;

	if (comm == NULL)
		return;
	if (comm->chain.open)
		cs_nccl_chain_finalize(version, comm);
	told = atomic_load_explicit(&comm->told, memory_order_relaxed);
	if (told != NULL)
		cs_nccl_comm_close(told);
	cs_nccl_comm_close(comm);
}

/* -- init ---------------------------------------------------------------------------------------------- */

/* Versions 1 to 3 do not tell the communicator in init: a context of no communicator, so that calls are
 * forwarded with the other plugin's own context. */
static struct cs_nccl_comm *
anonymous_comm(void)
{
	static _Atomic int next;

	return cs_nccl_comm_open(0, -2 - atomic_fetch_add(&next, 1), CS_RANK_UNKNOWN, CS_RANK_UNKNOWN, NULL);
}

static void
init(unsigned int version, void **context, int *mask, const struct cs_nccl_init *arguments)
{
	int our_mask = version >= 5 ? (int)CS_NCCL_MASK_MODERN : (int)CS_NCCL_MASK_LEGACY;
	struct cs_nccl_comm *comm = version >= 4
					    ? cs_nccl_comm_open(arguments->hash, arguments->rank,
						      arguments->ranks, arguments->nodes, arguments->name)
					    : anonymous_comm();

	cs_nccl_chain_init(version, comm, arguments, our_mask, mask);
	if (comm != NULL && version >= 4)
		cs_nccl_comm_id(comm);
	*context = comm;
}

/* -- the tables ---------------------------------------------------------------------------------------- */

/* The functions that all versions have, with errno kept for NCCL's caller. */
#define CS_PLUGIN_FUNCTIONS(version)                                                                         \
	static int start_v##version(void *context, void **handle, void *event)                               \
	{                                                                                                    \
		int saved = errno;                                                                           \
		start_event(version, context, handle, event);                                                \
		errno = saved;                                                                               \
		return CS_NCCL_SUCCESS;                                                                      \
	}                                                                                                    \
	static int stop_v##version(void *handle)                                                             \
	{                                                                                                    \
		int saved = errno;                                                                           \
		stop_event(version, handle);                                                                 \
		errno = saved;                                                                               \
		return CS_NCCL_SUCCESS;                                                                      \
	}                                                                                                    \
	static int record_v##version(void *handle, int state, void *arguments)                               \
	{                                                                                                    \
		int saved = errno;                                                                           \
		record_event_state(version, handle, state, arguments);                                       \
		errno = saved;                                                                               \
		return CS_NCCL_SUCCESS;                                                                      \
	}                                                                                                    \
	static int finalize_v##version(void *context)                                                        \
	{                                                                                                    \
		int saved = errno;                                                                           \
		finalize(version, context);                                                                  \
		errno = saved;                                                                               \
		return CS_NCCL_SUCCESS;                                                                      \
	}

#define CS_PLUGIN_INIT(version, ...)                                                                         \
	int saved = errno;                                                                                   \
	cs_nccl_version_find(__builtin_return_address(0));                                                   \
	init(version, context, mask, &(const struct cs_nccl_init){__VA_ARGS__});                             \
	errno = saved;                                                                                       \
	return CS_NCCL_SUCCESS

#define CS_PLUGIN_TABLE(type, version)                                                                       \
	CS_EXPORT const struct type ncclProfiler_v##version;                                                 \
	const struct type ncclProfiler_v##version = {CS_PLUGIN_NAME, init_v##version, start_v##version,      \
		stop_v##version, record_v##version, finalize_v##version};

#define CS_PLUGIN_V1(version)                                                                                \
	CS_PLUGIN_FUNCTIONS(version)                                                                         \
	static int init_v##version(void **context, int *mask)                                                \
	{                                                                                                    \
		CS_PLUGIN_INIT(version, .name = NULL);                                                       \
	}                                                                                                    \
	CS_PLUGIN_TABLE(cs_nccl_profiler_v1, version)

#define CS_PLUGIN_V5(version)                                                                                \
	CS_PLUGIN_FUNCTIONS(version)                                                                         \
	static int init_v##version(void **context, uint64_t hash, int *mask, const char *name, int nodes,    \
		int ranks, int rank, cs_nccl_logger logger)                                                  \
	{                                                                                                    \
		CS_PLUGIN_INIT(version, name, hash, nodes, ranks, rank, logger);                             \
	}                                                                                                    \
	CS_PLUGIN_TABLE(cs_nccl_profiler_v5, version)

CS_PLUGIN_V1(1)
CS_PLUGIN_V1(2)
CS_PLUGIN_V1(3)

CS_PLUGIN_FUNCTIONS(4)

static int
init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes, int ranks, int rank,
	cs_nccl_logger logger)
{
	CS_PLUGIN_INIT(4, name, hash, nodes, ranks, rank, logger);
}

CS_PLUGIN_TABLE(cs_nccl_profiler_v4, 4)

CS_PLUGIN_V5(5)
CS_PLUGIN_V5(6)
CS_PLUGIN_V5(7)
