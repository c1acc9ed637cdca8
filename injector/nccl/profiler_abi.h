/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's profiler plugin interface, as far as it is read here: the head of an event descriptor up to the last
 * field of use, for each version of the interface, and the table of functions. Layouts are facts of NCCL's
 * src/include/plugin/profiler/ profiler_v1.h ... v6.h (2.30.7) and profiler_v7.h (2.31.2); the assertions
 * below state the offsets that were found by compiling those headers for x86-64.
 *
 *   version  NCCL         type   strings   count at (coll)   new
 *   1        2.23         u8     enums     48                name, hash, op
 *   2, 3     2.24 - 2.26  u8     text      48
 *   4        2.27         u8     text      32                init tells the communicator
 *   5 - 7    2.28 - 2.31  u64    text      32                API and launch events
 */
#ifndef CS_NCCL_PROFILER_ABI_H
#define CS_NCCL_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ncclResult_t */
#define CS_NCCL_SUCCESS 0

/* Event types; also the bits of the activation mask. */
#define CS_NCCL_EVENT_GROUP         (1U << 0)
#define CS_NCCL_EVENT_COLL          (1U << 1)
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
	uint32_t op;
	size_t traffic_bytes;
	uint8_t channels_max;
	uint8_t warps;
	uint8_t algorithm;
	uint8_t protocol;
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

struct cs_nccl_coll_v4 { /* and v5 to v7 */
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

struct cs_nccl_coll_api {
	const char *func;
	size_t count;
	const char *datatype;
	int root;
	void *stream;
	bool graph_captured;
};

struct cs_nccl_p2p_api {
	const char *func;
	size_t count;
	const char *datatype;
	void *stream;
	bool graph_captured;
};

struct cs_nccl_event_legacy { /* v1 to v4 */
	uint8_t type;
	void *parent;
	int rank;
	union {
		struct cs_nccl_coll_v1 v1;
		struct cs_nccl_coll_v2 v2;
		struct cs_nccl_coll_v3 v3;
		struct cs_nccl_coll_v4 v4;
	} coll;
};

struct cs_nccl_event { /* v5 to v7 */
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct cs_nccl_coll_api coll_api;
		struct cs_nccl_p2p_api p2p_api;
		struct cs_nccl_coll_v4 coll;
	} u;
};

_Static_assert(offsetof(struct cs_nccl_event_legacy, coll) == 24, "after type, parent, rank");
_Static_assert(offsetof(struct cs_nccl_event, u) == 24, "after type, parent, rank");
_Static_assert(offsetof(struct cs_nccl_coll_v1, count) == 48, "v1");
_Static_assert(offsetof(struct cs_nccl_coll_v1, op) == 64, "v1");
_Static_assert(offsetof(struct cs_nccl_coll_v1, protocol) == 83, "v1");
_Static_assert(offsetof(struct cs_nccl_coll_v2, count) == 48, "v2");
_Static_assert(offsetof(struct cs_nccl_coll_v2, channels_max) == 80, "v2");
_Static_assert(offsetof(struct cs_nccl_coll_v2, protocol) == 96, "v2");
_Static_assert(offsetof(struct cs_nccl_coll_v3, channels_max) == 72, "v3");
_Static_assert(offsetof(struct cs_nccl_coll_v3, protocol) == 88, "v3");
_Static_assert(offsetof(struct cs_nccl_coll_v4, count) == 32, "v4");
_Static_assert(offsetof(struct cs_nccl_coll_v4, channels) == 56, "v4");
_Static_assert(offsetof(struct cs_nccl_coll_v4, protocol) == 72, "v4");
_Static_assert(offsetof(struct cs_nccl_coll_api, datatype) == 16, "v5");
_Static_assert(offsetof(struct cs_nccl_coll_api, graph_captured) == 40, "v5");
_Static_assert(offsetof(struct cs_nccl_p2p_api, datatype) == 16, "v5");

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

_Static_assert(sizeof(struct cs_nccl_profiler_v1) == 6 * sizeof(void *), "name and five functions");
_Static_assert(sizeof(struct cs_nccl_profiler_v4) == 6 * sizeof(void *), "name and five functions");
_Static_assert(sizeof(struct cs_nccl_profiler_v5) == 6 * sizeof(void *), "name and five functions");

#endif
