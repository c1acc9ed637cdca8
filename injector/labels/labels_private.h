/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the label side share. See labels.h for what it does. */
#ifndef CS_LABELS_PRIVATE_H
#define CS_LABELS_PRIVATE_H

#include "eager.h"
#include "execs.h"
#include "function_cache.h"
#include "history.h"
#include "label_table.h"
#include "labels.h"
#include "ledger.h"
#include "life/thread_slot.h"
#include "name_cache.h"
#include "told.h"

/* -- the word that is filed ---------------------------------------------------------------------------- */

/*
 * Bits 0-15 number in the label table, 16 filled in (a word is never 0), 17-18 record flags, 19-22 why the
 * size is unknown (reason
 * + 1; 0: known, or not to be counted), 23 clone with the ordinal of its original, 24 the graph's labels are
 * in doubt, 25 changed since the node was made, 26 not a collective any more, 27 told by the plugin alone, so
 * that the label lacks what the kernel's name tells, 28 old, 29 aged (cs_labels_age_calls; in told.h's ring
 * 28-31 are its own), 32-63 sequence number, or of a changed node and a graph in doubt the correlation id of
 * the call that made it so.
 */
#define CS_FILED          (1ULL << 16)
#define CS_FILED_FUSED    (1ULL << 17)
#define CS_FILED_PART     (1ULL << 18)
#define CS_FILED_REASON   (15ULL << 19)
#define CS_FILED_ORDINAL  (1ULL << 23)
#define CS_FILED_DOUBT    (1ULL << 24)
#define CS_FILED_CHANGED  (1ULL << 25)
#define CS_FILED_EMPTY    (1ULL << 26)
#define CS_FILED_TOLD     (1ULL << 27)
#define CS_FILED_OLD      (1ULL << 28)
#define CS_FILED_AGED     (1ULL << 29)
#define CS_FILED_SEQUENCE (UINT32_MAX * (1ULL << 32))

static inline uint32_t
cs_filed_label(uint64_t filed)
{
	return (uint32_t)filed & UINT16_MAX;
}

static inline unsigned int
cs_filed_reason(uint64_t filed)
{
	return (unsigned int)(filed >> 19 & 15);
}

/* What stays true of a node when it is copied. */
#define CS_FILED_COPIED (CS_FILED_ORDINAL - 1)

static inline uint32_t
cs_filed_call(uint64_t filed)
{
	return (uint32_t)(filed >> 32);
}

/* Of a changed node or a graph in doubt: whether call `correlation_id` was made before that. */
static inline bool
cs_filed_after(uint64_t filed, uint32_t correlation_id)
{
	return (filed & CS_FILED_AGED) == 0 && cs_call_before(correlation_id, cs_filed_call(filed));
}

/* Key for announce.h: node ids as they are (their top bit is free: graph ids count from 1), correlation ids
 * with the top bit, numbers of launches that were told with the next. */
#define CS_KEY_EAGER (1ULL << 63)
#define CS_KEY_TOLD  (1ULL << 62)

/* Stands in the ledger for "labels of this executable graph are in doubt": no node has this ordinal. */
#define CS_NODE_DOUBT UINT32_MAX

/* Stands there for "nodes of its child graphs found no room when they moved". */
#define CS_NODE_CROWDED (UINT32_MAX - 1)

/* Nodes of child graphs in an instantiation that is under way, in all threads. */
#define CS_MOVED_NODES_MAX 1024U

struct cs_moved_node {
	_Atomic uint64_t owner; /* CS_PAIR_FREE, or the address of the owner's struct cs_call */
	CUgraphNode node;
	uint64_t id;
	uint32_t epoch; /* of cs_labels_enable: an older one's handle may be gone */
};

/*
 * Nodes of destroyed graphs whose labels are kept, the last so many: records of their last launches are still
 * on their way (0.1 s, 1 s at worst on an H200), and at exit a server destroys all its graphs at once. Ids
 * are never given twice, so what is kept too long harms nobody.
 */
#define CS_RETIRED_NODES 28672U

/* Version of CUPTI since which changes of nodes are events. */
#define CS_VERSION_NODE_EVENTS 130000U

/* So long after the plugin told of an eager launch do windows record calls. */
#define CS_LABELS_CALLS_NS 60000000000ULL

/* Kernels that wait for the record of their call: until the flush after the next, as a rule. Half of what the
 * analysis waits. */
#define CS_HELD_MAX 512U
#define CS_HELD_NS  1000000000ULL

struct cs_held {
	struct cs_record record; /* with what its name tells */
	struct cs_kernel_name name;
	uint64_t since_ns; /* CLOCK_MONOTONIC */
};

/* Contexts whose GPU is known, by CUPTI's context id modulo this. */
#define CS_LABELS_CONTEXTS 64U

/* Graphs and nodes that one walk over the ledger tells of. */
#define CS_TELL_GRAPHS 128U
#define CS_TELL_NODES  16384U

struct cs_labels {
	const struct cs_cupti_api *cupti;
	struct cs_segment_writer *writer;
	struct cs_status *status;
	const struct cs_catalog *catalog;
	struct cs_ledger *ledger;
	size_t mapped_bytes; /* of this block */
	/* Counts cs_labels_enable calls: what a thread began before the last one is void. */
	_Alignas(64) _Atomic uint32_t epoch;
	_Atomic uint64_t last_graph_ns;
	_Atomic uint64_t eager_collectives;
	_Atomic uint32_t doubts;                       /* graphs under CS_NODE_DOUBT, of all time */
	_Atomic uint32_t crowded;                      /* nodes without room to move, of all time */
	_Atomic uint32_t ledger_full;                  /* nodes that found no room, of all time */
	_Atomic uint32_t contexts[CS_LABELS_CONTEXTS]; /* context id << 8 | GPU + 1 */
	_Atomic bool listening;                        /* launch callbacks are on */
	_Atomic bool calls_expected;                   /* records of calls come, or came in the last window */
	struct cs_moved_node moved[CS_MOVED_NODES_MAX];
	_Atomic uint32_t retired_count; /* of all time */
	_Atomic uint64_t retired[CS_RETIRED_NODES];
	struct cs_label_table table;
	struct cs_history history;
	struct cs_eager eager;
	struct cs_told told;
	struct cs_execs execs;
	struct cs_function_cache functions;
	struct cs_name_cache names;
	/* The worker's: what has been told of executables (labels_tell.c). */
	uint32_t tell_changes;
	bool tell_more;
	struct cs_ledger_entry tell[CS_TELL_NODES];
	uint32_t held_count; /* the parser's, as the names are */
	struct cs_held held[CS_HELD_MAX];
};

/* NULL before cs_labels_init. */
struct cs_labels *cs_labels_borrow(void);

/* -- the call that this thread is in ------------------------------------------------------------------- */

enum cs_call_kind {
	CS_CALL_NONE = 0,
	CS_CALL_LAUNCH,      /* a kernel: eager, or captured into a node */
	CS_CALL_ADD_NODE,    /* a kernel node is made by hand */
	CS_CALL_SET_NODE,    /* a graph's kernel node gets other parameters */
	CS_CALL_SET_EXEC,    /* an executable graph's kernel node does */
	CS_CALL_UPDATE_EXEC, /* an executable graph, or a child graph in it, takes over another graph's
				parameters */
	CS_CALL_INSTANTIATE,
	CS_CALL_GRAPH_LAUNCH
};

/* Between enter and exit of one driver call of this thread; they do not nest. */
struct cs_call {
	struct cs_thread_slot slot;
	uint32_t epoch;
	uint32_t correlation_id;
	uint32_t name_id;    /* of the kernel, 0 unknown */
	uint32_t root_graph; /* INSTANTIATE: id of the graph that is being made, 0 not seen yet */
	uint32_t moved_count;
	uint64_t filed;   /* what is known of the kernel; 0: an ordinary one */
	uint64_t node_id; /* where it was filed last */
	uint64_t start_ns;
	uint8_t kind; /* enum cs_call_kind */
	bool collective;
	bool nccl;
	bool node_seen; /* an event named a node of this call */
	bool labelled;  /* INSTANTIATE: a node got a label */
	bool asking;    /* the driver is being asked something: a callback from inside that is not the
			   application's */
};

/* A kernel with its parameters, whichever call it comes in. */
struct cs_kernel_request {
	const void *handle; /* NULL: no kernel */
	void **kernel_params;
	void **extra;
	uint32_t grid[3];
	uint32_t block[3];
};

/* NULL: more threads than slots. */
struct cs_call *cs_call_borrow(void);

/* The same if this thread is in a call of kind `kind`, else NULL. */
struct cs_call *cs_call_current(const struct cs_labels *labels, enum cs_call_kind kind);

/* -- between the files --------------------------------------------------------------------------------- */

/* Files under a node; counts. filed 0: takes away what is there. */
void cs_labels_file_node(struct cs_labels *labels, uint64_t node_id, uint64_t filed);
/* The same for an executable's node that call `correlation_id` changes: launches before it keep what they
 * had. */
void cs_labels_change_node(
	struct cs_labels *labels, uint64_t node_id, uint64_t filed, uint32_t correlation_id);
void cs_labels_touch_graph(struct cs_labels *labels);
/* The node (or what stands for an executable) is gone: what is filed under the id goes after CS_RETIRED_NODES
 * more. */
void cs_labels_retire(struct cs_labels *labels, uint64_t id);

/* labels_read.c */
/* The word for the collective kernel `function` that is about to be launched, or made a node of, with these
 * parameters; takes what NCCL announced on this thread. Inside the call's enter, where the parameters are
 * valid. */
uint64_t cs_labels_read(struct cs_labels *labels, const struct cs_function *function,
	const struct cs_kernel_request *request);
/* announce.h's amend callback. */
void cs_labels_amend(uint64_t key, const struct cs_label *facts, uint32_t sequence);
/* The word for a label of this number (0: no room). decoded: cs_catalog_decode's answer, or -ENOBUFS when
 * what NCCL told had no room. */
uint64_t cs_labels_pack(uint32_t number, const struct cs_label *label, int decoded, uint32_t sequence);

void cs_labels_count_unlabelled(struct cs_labels *labels, enum cs_unlabelled_reason reason);

/* labels_told.c. resolve_told: false: this kernel is not what was told of. */
void cs_labels_told_begin(void);
void cs_labels_told_end(void);
bool cs_labels_resolve_told(struct cs_labels *labels, const struct cs_kernel_name *name, uint64_t filed,
	struct cs_kernel_identity *identity);

/* labels_graph.c */
void cs_labels_finish_set_node(struct cs_labels *labels, const struct cs_call *call, CUgraphNode node);
void cs_labels_finish_set_exec(
	struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, CUgraphNode node);
/* child: the call replaced a child graph alone. */
void cs_labels_finish_update(
	struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, bool child);
void cs_labels_finish_instantiate(struct cs_labels *labels, struct cs_call *call);
/* After that, if the call has succeeded: there is something to tell of this executable, made in a context. */
void cs_labels_note_exec(
	struct cs_labels *labels, const struct cs_call *call, CUgraphExec exec, uint32_t context_id);

#endif
