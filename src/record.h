/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record: the one unit of what the injector saw. The ring of a segment, a capture file, the analysis and
 * the tests all use this struct; nothing else carries events. docs/segment-format.md has the same layout as a
 * table, and tests/src/test_segment_format.c compares them.
 *
 * 56 bytes, 8-aligned, native endian (little-endian x86-64 and arm64; the segment header tells). A ring slot
 * puts an 8-byte sequence word before it, so a slot is one cache line.
 *
 * Times are nanoseconds of CLOCK_REALTIME, as CUPTI gives them (its default clock on Linux; no timestamp
 * callback is ever registered: from 12.6 Update 2 to 13.0 one makes kernel times zero).
 */
#ifndef CS_RECORD_H
#define CS_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum cs_record_type {
	/* A collective kernel. ref = label id (0 = none). */
	CS_RECORD_COLLECTIVE = 1,
	/* Kernels that are no collectives, or copies, of one stream, run together while the gap between two
	 * of them is at most CS_BUSY_GAP_NS. ref = number of operations. */
	CS_RECORD_BUSY = 2,
	/* One whole graph launch (a light window). ref = 0. Readers know it; our own writer does not make it,
	 * injector/sampling/steps.h says why. */
	CS_RECORD_GRAPH_LAUNCH = 3,
	/* A stretch of tracing at one depth that has ended. ref = when it was due to begin, ms since 1970
	 * (lower 32 bits), flags = enum cs_depth. */
	CS_RECORD_WINDOW = 4,
	/* An NVTX range of a host thread, or an instant (end_ns == start_ns). ref = name id. */
	CS_RECORD_MARK = 5,
	/* Records that were not kept. ref = enum cs_loss_cause. */
	CS_RECORD_LOSS = 6,
	/* A kernel that the catalogue names as a step marker. ref = name id. */
	CS_RECORD_MARKER = 7,
	/* A graph or eager collective launch call on the host. start/end = the API call. ref = label id (0:
	   graph). */
	CS_RECORD_HOST_LAUNCH = 8,
	/* Tracing is on, and no kernel of the process has ended on its GPUs from start to end. value = share
	   of the time, percent, in which some kernel ran on this one shortly before the end (NVML), or
	   CS_STILL_UNKNOWN: 0 on an idle server, 100 beside a kernel that never ends. */
	CS_RECORD_STILL = 9,
	/* What the labels of captured nodes say of an executable graph, as soon as that is known and again
	   when an update changes it: one record per run of collectives with the same label, in the order of
	   node ids, the first CS_GRAPH_RUNS_MAX. start = end = when it was said. sequence = collectives of
	   the graph, CS_GRAPH_UNKNOWN: what was said before holds no longer. Of the run: correlation_id =
	   position of its first collective, value = how many, ref = label id (0 = none), graph_node_id = node
	   of the first. */
	CS_RECORD_GRAPH = 10,
	/* A window, or slice, of tracing has begun, at start = end: kernels that are launched from now on
	 * leave records. ref and flags as the WINDOW record that will say how it ended. */
	CS_RECORD_WINDOW_OPEN = 11,
	CS_RECORD_TYPE_COUNT
};

#define CS_STILL_UNKNOWN UINT64_MAX

#define CS_GRAPH_UNKNOWN  UINT32_MAX
#define CS_GRAPH_RUNS_MAX 4U

/* Tracing depth, see docs/architecture.md: no records, one per graph launch, one per kernel. */
enum cs_depth { CS_DEPTH_OFF = 0, CS_DEPTH_LIGHT = 1, CS_DEPTH_DEEP = 2, CS_DEPTH_COUNT };

enum cs_loss_cause {
	CS_LOSS_CUPTI_DROPPED = 0,  /* CUPTI said so: cuptiActivityGetNumDroppedRecords */
	CS_LOSS_BAD_TIMESTAMP = 1,  /* start or end zero, end before start, or out of all proportion */
	CS_LOSS_POOL_EMPTY = 2,     /* no buffer left when CUPTI asked for one */
	CS_LOSS_RING_CONTENDED = 3, /* the slot's last writer has not finished, a whole lap later */
	CS_LOSS_RING_OVERRUN = 4,   /* reader side: overwritten before it was read */
	CS_LOSS_RING_HOLE = 5,      /* reader side: reserved, never published (the writer died or stalled) */
	CS_LOSS_TABLE_FULL = 6,     /* a name, label or communicator had no room; its record says "unknown" */
	CS_LOSS_FOREIGN_OWNER = 7,  /* another tool owned CUPTI's buffers during a window */
	CS_LOSS_INVALID_RECORD = 8, /* reader side: contents that no writer writes */
	/* Since 1.2. */
	CS_LOSS_TABLE_BUSY =
		9, /* a table's lock was held by a thread that did not run; asked for again later */
	CS_LOSS_UNKNOWN_DEVICE = 10, /* a kernel or copy of a device that nobody could name yet */
	CS_LOSS_MARKS_FULL = 11,     /* an NVTX range that was wanted had no room: no MARK record */
	CS_LOSS_CAUSE_COUNT
};

/* flags of CS_RECORD_COLLECTIVE, _BUSY, _MARKER */
#define CS_RECORD_IN_GRAPH (1U << 0) /* part of a graph launch: graph_node_id is valid */
#define CS_RECORD_FUSED    (1U << 1) /* the kernel does other work too (norm, quantisation) */
#define CS_RECORD_PART     (1U << 2) /* second kernel of a collective: adds time, no bytes, no count */
/* klass of CS_RECORD_BUSY: enum cs_busy_class; flags of a copy: direction */
#define CS_RECORD_COPY_TO_HOST   (1U << 4)
#define CS_RECORD_COPY_FROM_HOST (1U << 5)
#define CS_RECORD_COPY_PEER      (1U << 6)
/* flags of CS_RECORD_WINDOW, _WINDOW_OPEN: depth in the low 4 bits, then: */
#define CS_RECORD_WINDOW_FOREIGN (1U << 4) /* nobody asked for our buffers: another tool owned CUPTI */

/* Longest gap inside one BUSY record. Kernels that follow each other in a graph start 0.5 to 1.5 us after
 * their predecessor on an H200 (docs/overhead.md); at most this much idle time is counted as busy per joint,
 * and value (the exact busy time) tells how much really was. */
#define CS_BUSY_GAP_NS 2000U

struct cs_record {
	uint8_t type;  /* enum cs_record_type; 0 is never written */
	uint8_t flags; /* CS_RECORD_* above */
	uint8_t gpu;   /* index into the segment's GPU table */
	uint8_t klass; /* BUSY: enum cs_busy_class; else 0 */
	uint32_t ref;  /* see the type */
	uint64_t start_ns;
	uint64_t end_ns; /* >= start_ns */
	uint64_t value;  /* COLLECTIVE: message bytes or CS_BYTES_UNKNOWN; BUSY: exact busy ns (kernels) or
			    bytes (copies);  LOSS: how many; WINDOW: graph launches seen; MARK: host thread id,
			    0 unknown;
			    HOST_LAUNCH: host thread id; GRAPH: collectives of the run */
	uint64_t graph_node_id;  /* CUPTI's id of the instantiated node; 0 outside graphs */
	uint32_t correlation_id; /* CUPTI's; one for all nodes of one graph launch */
	uint32_t graph_id;       /* CUPTI's id of the executable graph; 0 outside graphs */
	uint32_t stream_id;      /* CUPTI's stream id, with the context folded in: unique in the process */
	uint32_t sequence;       /* COLLECTIVE: communicator's sequence number if known, else 0; MARK: nesting
				    depth; GRAPH: collectives of the graph */
};

_Static_assert(sizeof(struct cs_record) == 56, "record size is part of the format");
_Static_assert(_Alignof(struct cs_record) == 8, "record alignment is part of the format");
_Static_assert(offsetof(struct cs_record, ref) == 4, "format");
_Static_assert(offsetof(struct cs_record, start_ns) == 8, "format");
_Static_assert(offsetof(struct cs_record, end_ns) == 16, "format");
_Static_assert(offsetof(struct cs_record, value) == 24, "format");
_Static_assert(offsetof(struct cs_record, graph_node_id) == 32, "format");
_Static_assert(offsetof(struct cs_record, correlation_id) == 40, "format");
_Static_assert(offsetof(struct cs_record, graph_id) == 44, "format");
_Static_assert(offsetof(struct cs_record, stream_id) == 48, "format");
_Static_assert(offsetof(struct cs_record, sequence) == 52, "format");

/* Names for metrics and dumps ("collective", "pool_empty", "deep"); "unknown" outside the enum. Static
 * strings. */
const char *cs_record_type_name(unsigned int type);
const char *cs_loss_cause_name(unsigned int cause);
const char *cs_depth_name(unsigned int depth);

#endif
