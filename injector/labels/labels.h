/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label side of the injector: from driver and graph callbacks to "this kernel record is that collective".
 *
 * Learning happens on application threads, inside CUPTI callbacks: a launch of a kernel that the catalogue
 * calls a collective gets a label (announced by NCCL's plugin or NVTX, else decoded from its parameters, else
 * by name), which is filed under the graph node that CUPTI creates inside the same call, or under the
 * correlation id of an eager launch. Clones of nodes get copies. Looking up happens on whichever thread
 * parses activity records.
 *
 * All memory is taken in cs_labels_init and never grows: when a table is full, that is counted
 * (STATUS unlabelled[LEDGER_FULL]) and records say "unknown".
 */
#ifndef CS_LABELS_H
#define CS_LABELS_H

#include "catalog/catalog.h"
#include "cupti/cupti_api.h"
#include "records/activity_layout.h"
#include "segment/segment_writer.h"

#include <stdbool.h>
#include <stdint.h>

/* Once per process, at the first context, before any of the functions below; start-up context (allocates).
 * All pointers are borrowed for the life of the process. 0 or -errno (-ENOMEM: nothing allocated). Registers
 * with injector/labels/announce.h for late facts. */
int cs_labels_init(
	const struct cs_cupti_api *cupti, struct cs_segment_writer *writer, const struct cs_catalog *catalog);

/* Host memory held, for STATUS. */
uint64_t cs_labels_mapped_bytes(void);

/* Enables (or disables) on the subscriber exactly the driver and resource callback ids that the label side
 * needs: the launch family, cuGraphLaunch, graph and node events, module unload. 0, or -EIO with CUPTI's
 * result in *failure (may be NULL). Not from inside a callback that CUPTI forbids; start-up, worker or
 * CONTEXT_CREATED. */
int cs_labels_enable(CUpti_SubscriberHandle subscriber, bool enable, CUptiResult *failure);

/* The subscription is gone, and with it all callbacks. Any thread. */
void cs_labels_stop_listening(void);

/* Writes GRAPH records of executables with collectives that were made or changed since the last call; once a
 * second is enough. now_ns: CLOCK_REALTIME. Where CUPTI has no ids of executables (before CUDA 12.3) there
 * are none. true: there was too much for once, or something is not known yet; call again. The worker. */
bool cs_labels_tell_graphs(uint64_t now_ns);

/*
 * Correlation ids number calls in 32 bits, and begin anew when CUPTI leaves and comes back. So what is known
 * by the id of a call must not outlive the ids: what two of these calls have seen is forgotten (eager
 * launches), or taken to be before all that comes (changes of nodes, graphs in doubt). Every
 * CS_LABELS_AGE_NS: long after the last record of a launch, and long before ids come again. The worker.
 */
void cs_labels_age_calls(void);
#define CS_LABELS_AGE_NS 600000000000ULL

/* Which GPU (index in the segment's table) a context, by CUPTI's id, is on: goes into HOST_LAUNCH records.
 * Launches in a context that nobody has told of get none. Any thread; host-safe. */
void cs_labels_set_gpu(uint32_t context_id, uint8_t gpu);

/* Callbacks, dispatched by injector/cupti/subscription.c. Application threads; host-safe: no allocation, no
 * lock and no system call but at a thread's first call (life/thread_slot.h) and at the first launch of a
 * kernel (the segment's name table, segment_writer.h; the driver is asked for its parameters). errno is kept
 * by the dispatcher. */
void cs_labels_on_driver_api(CUpti_CallbackId cbid, const CUpti_CallbackData *data);
void cs_labels_on_resource(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

/* CLOCK_MONOTONIC of the last node, clone or executable graph that was seen, 0 none yet: what "no new graph
 * for a while" is measured from. Any thread. */
uint64_t cs_labels_last_graph_ns(void);
/* Eager collective launches seen by callbacks. Any thread. */
uint64_t cs_labels_eager_collectives(void);

struct cs_kernel_key {
	const char
		*name; /* as in the activity record: CUPTI's memory, valid while its buffer is; may be NULL */
	uint64_t graph_node_id; /* 0 outside graphs */
	uint32_t correlation_id;
	uint32_t context_id;
	uint32_t stream_id;
};

struct cs_kernel_identity {
	uint8_t kind;         /* enum cs_catalog_kind: NONE = an ordinary kernel */
	uint8_t record_flags; /* CS_RECORD_FUSED, CS_RECORD_PART */
	uint32_t ref;         /* COLLECTIVE: label id (0 none); MARKER: name id */
	uint64_t bytes;       /* COLLECTIVE: CS_BYTES_UNKNOWN when unknown */
	uint32_t sequence;    /* COLLECTIVE: of its communicator, 0 unknown */
	bool wait;            /* hold it (cs_labels_hold): what is known of it may come later */
};

/* What a kernel record is. Counts STATUS unlabelled[] by reason when a collective's size is not known. The
 * caller is the activity parser: calls are serialised by its lock; runs beside the callbacks above. Fast path
 * (an ordinary kernel): one hash lookup by the name's address, checked against the name's first bytes, since
 * CUPTI before 13.4.1 may reuse an address after a module was unloaded. */
void cs_labels_resolve(const struct cs_kernel_key *key, struct cs_kernel_identity *identity);

/*
 * Eager launches of NCCL's kernels without a subscription (told.h). Callers: the activity parser, and the
 * worker under the parser's lock, unless stated.
 */

/* Whether the next window should switch the kind DRIVER on: no callback tells of launches, and NCCL's plugin
 * told of some in the last minute. now_ns: CLOCK_REALTIME. Any thread. */
bool cs_labels_wants_calls(uint64_t now_ns);
/* Whether it is on, said before kernels are traced. Any thread. */
void cs_labels_expect_calls(bool expect);
/* The record of a driver call. */
void cs_labels_on_call(const struct cs_activity_call *call);
/* Keeps a record whose identity says `wait`. false: no room, write it as it is (counted as unlabelled). */
bool cs_labels_hold(const struct cs_kernel_key *key, const struct cs_record *record);
/* Writes the kept records whose calls have come, and those that waited too long, as they are (counted).
 * now_ns: CLOCK_MONOTONIC, UINT64_MAX: all have. After each flush. Start of the oldest that is still kept,
 * UINT64_MAX none. */
uint64_t cs_labels_settle(uint64_t now_ns);

#endif
