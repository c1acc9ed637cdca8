/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler plugin interface: event descriptors, state arguments and tables of functions of all
 * versions. Layouts are facts of NCCL's src/include/plugin/profiler/ profiler_v1.h ... v6.h (2.30.7) and
 * profiler_v7.h (2.31.2); profiler_layout.c states the offsets and sizes that were found by compiling those
 * headers for x86-64.
 *
 *   version  NCCL         type   strings   count at   bytes           new
 *   1        2.23         u8     enums     72         120             name, hash, op
 *   2        2.24 - 2.25  u8     text      72         128             no op
 *   3        2.26         u8     text      72         120             kernel channel, network plugin
 *   4        2.27         u8     text      56         104             init tells the communicator
 *   5        2.28         u64    text      56         112             API and launch events, parent_group
 *   6        2.29 - 2.30  u64    text      56         112             copy-engine events
 *   7        2.31         u64    text      56         136             kernel phase, variant, user tag
 *
 * From version 5 on each version's descriptors begin with those of the one before, so an older reader may be
 * handed a newer descriptor. "count at" is that of a Coll event, from the start of the descriptor.
 */
#ifndef CS_NCCL_PROFILER_ABI_H
#define CS_NCCL_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_NCCL_VERSIONS 7

/* ncclResult_t */
#define CS_NCCL_SUCCESS 0

/* Event types; also the bits of the activation mask. Bits 0 to 5 are in every version, 6 and 7 from 3 on, 8
 * to 11 from 5, 12 to 14 from 6, 15 from 7. */
#define CS_NCCL_EVENT_GROUP         (1U << 0)
#define CS_NCCL_EVENT_COLL          (1U << 1)
#define CS_NCCL_EVENT_P2P           (1U << 2)
#define CS_NCCL_EVENT_PROXY_OP      (1U << 3)
#define CS_NCCL_EVENT_PROXY_STEP    (1U << 4)
#define CS_NCCL_EVENT_PROXY_CONTROL (1U << 5)
#define CS_NCCL_EVENT_KERNEL_CH     (1U << 6)
#define CS_NCCL_EVENT_NET_PLUGIN    (1U << 7)
#define CS_NCCL_EVENT_GROUP_API     (1U << 8)
#define CS_NCCL_EVENT_COLL_API      (1U << 9)
#define CS_NCCL_EVENT_P2P_API       (1U << 10)
#define CS_NCCL_EVENT_KERNEL_LAUNCH (1U << 11)

/*
 * What is asked for. API events make no graph node, no proxy traffic and change no kernel; KernelCh (bit 6)
 * would put a host node into every captured graph, so it is never set. Before version 5 a Coll event comes
 * only inside a Group event that got a handle.
 */
#define CS_NCCL_MASK_LEGACY (CS_NCCL_EVENT_GROUP | CS_NCCL_EVENT_COLL)
#define CS_NCCL_MASK_MODERN                                                                                  \
	(CS_NCCL_EVENT_COLL | CS_NCCL_EVENT_GROUP_API | CS_NCCL_EVENT_COLL_API | CS_NCCL_EVENT_P2P_API |     \
		CS_NCCL_EVENT_KERNEL_LAUNCH)

/* -- versions 1 to 4 */

struct cs_nccl_coll_v1 {
	const char *name; /* of the communicator */
	uint64_t comm_hash;
	uint64_t sequence;
	uint8_t func; /* ncclFunc_t */
	const void *send;
	void *receive;
	size_t count;
	int root;
	uint8_t datatype; /* ncclDataType_t */
	uint32_t op;      /* ncclRedOp_t; from its fifth value on the program's own */
	size_t traffic_bytes;
	uint8_t channels_max;
	uint8_t warps;
	uint8_t algorithm;
	uint8_t protocol;
	int collnet;
	int nvls;
};

struct cs_nccl_coll_v2 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic_bytes;
	uint8_t channels_max;
	uint8_t warps;
	const char *algorithm;
	const char *protocol;
};

struct cs_nccl_coll_v3 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels_max;
	uint8_t warps;
	const char *algorithm;
	const char *protocol;
};

struct cs_nccl_coll_v4 {
	uint64_t sequence;
	const char *func;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels;
	uint8_t warps;
	const char *algorithm;
	const char *protocol;
};

struct cs_nccl_p2p_v1 {
	const char *name;
	uint64_t comm_hash;
	uint8_t func;
	void *buffer;
	uint8_t datatype;
	size_t count;
	int peer;
};

struct cs_nccl_p2p_v2 { /* and v3 */
	const char *name;
	uint64_t comm_hash;
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};

struct cs_nccl_p2p_v4 {
	const char *func;
	void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
};

/* What has one layout in all versions that have the event. */
struct cs_nccl_proxy_op {
	int pid;
	uint8_t channel;
	int peer;
	int steps;
	int chunk_bytes;
	int is_send;
};

struct cs_nccl_proxy_step {
	int step;
};

struct cs_nccl_kernel_ch {
	uint8_t channel;
	uint64_t start_timer; /* from v4 on */
};

struct cs_nccl_net_plugin {
	int64_t id;
	void *data;
};

struct cs_nccl_event_legacy { /* v1 to v4 */
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct cs_nccl_coll_v1 coll_v1;
		struct cs_nccl_coll_v2 coll_v2;
		struct cs_nccl_coll_v3 coll_v3;
		struct cs_nccl_coll_v4 coll_v4;
		struct cs_nccl_p2p_v1 p2p_v1;
		struct cs_nccl_p2p_v2 p2p_v2;
		struct cs_nccl_p2p_v4 p2p_v4;
		struct cs_nccl_proxy_op proxy_op;
		struct cs_nccl_proxy_step proxy_step;
		struct cs_nccl_kernel_ch kernel_ch;
		struct cs_nccl_net_plugin net_plugin;
	} u;
};

/* -- versions 5 to 7 */

struct cs_nccl_group_api {
	bool graph_captured;
	int depth;
};

struct cs_nccl_coll_api {
	const char *func;
	size_t count;
	const char *datatype;
	int root;
	void *stream;
	bool graph_captured;
	uint64_t user_tag; /* v7 */
};

struct cs_nccl_p2p_api {
	const char *func;
	size_t count;
	const char *datatype;
	void *stream;
	bool graph_captured;
	uint64_t user_tag; /* v7 */
};

struct cs_nccl_kernel_launch {
	void *stream;
};

struct cs_nccl_coll_v5 {
	struct cs_nccl_coll_v4 head;
	void *parent_group;
	const char *kernel_variant; /* v7, and below */
	bool symmetric;
	uint64_t user_tag;
};

struct cs_nccl_p2p_v5 {
	struct cs_nccl_p2p_v4 head;
	void *parent_group;
	uint64_t user_tag; /* v7 */
};

struct cs_nccl_event { /* v5 to v7; what a comment calls v7 lies behind the end of a v5 descriptor */
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct cs_nccl_group_api group_api;
		struct cs_nccl_coll_api coll_api;
		struct cs_nccl_p2p_api p2p_api;
		struct cs_nccl_kernel_launch kernel_launch;
		struct cs_nccl_coll_v4 coll; /* the head of coll_v5 */
		struct cs_nccl_coll_v5 coll_v5;
		struct cs_nccl_p2p_v5 p2p_v5;
		struct cs_nccl_proxy_op proxy_op;
		struct cs_nccl_proxy_step proxy_step;
		struct cs_nccl_kernel_ch kernel_ch;
		struct cs_nccl_net_plugin net_plugin;
	} u;
};

/* The exported tables. Five functions after the name in every version; only init differs. The logger is
 * NCCL's and not used. */
typedef void (*cs_nccl_logger)(
	int level, unsigned long flags, const char *file, int line, const char *format, ...);

/* event: struct cs_nccl_event_legacy for v1 to v4, struct cs_nccl_event from v5 on. */
#define CS_NCCL_PROFILER_TAIL                                                                                \
	int (*start_event)(void *context, void **handle, void *event);                                       \
	int (*stop_event)(void *handle);                                                                     \
	int (*record_event_state)(void *handle, int state, void *arguments);                                 \
	int (*finalize)(void *context);

struct cs_nccl_profiler_v1 { /* v1 to v3 */
	const char *name;
	int (*init)(void **context, int *mask);
	CS_NCCL_PROFILER_TAIL
};

struct cs_nccl_profiler_v4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes,
		int ranks, int rank, cs_nccl_logger logger);
	CS_NCCL_PROFILER_TAIL
};

struct cs_nccl_profiler_v5 { /* v5 to v7 */
	const char *name;
	int (*init)(void **context, uint64_t comm_hash, int *mask, const char *comm_name, int nodes,
		int ranks, int rank, cs_nccl_logger logger);
	CS_NCCL_PROFILER_TAIL
};

#endif
