/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segment: the shared-memory file of one traced process. This header is the layout only; segment_writer.h
 * and segment_reader.h hold the two sides. docs/segment-format.md carries the same in prose and tables.
 *
 * A segment is a plain file in the run directory, mapped by its one writer and by any number of readers.
 * Nothing in it is trusted by a reader. Everything is little-endian and 8-aligned.
 *
 *   header   4096 bytes: magic, version, generation pair, writer identity, directory; constant once published
 *
 *   CONTROL  4096 bytes: what readers ask of the writer; the only section that a reader may write
 *
 *   STATUS   4096 bytes: counters and gauges, each one atomic 64-bit word; writer-hot
 *
 *   PROCESS  4096 bytes: texts about the process in fixed fields, guarded by one sequence word
 *
 *   GPU, COMMUNICATOR, NAME, LABEL, ENVIRONMENT: append-only tables
 *
 *   TEXT     bytes that NAME points into
 *
 *   RING     record slots of 64 bytes
 *
 * Versioning: a reader refuses another major. A minor only appends fields in reserved space or new section
 * types, and readers skip section types they do not know.
 *
 * Generation pair: the writer sets generation_begin before it fills the file and generation_end (equal) as
 * the last act, then renames the file into place; a reader that finds them unequal or zero leaves the file
 * alone.
 */
#ifndef CS_SEGMENT_H
#define CS_SEGMENT_H

#include "record.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CS_SEGMENT_MAGIC                                                                                     \
	"collscope\r\n\032\nsg" /* 16 bytes with the terminating NUL; catches text-mode copies */
#define CS_SEGMENT_MAJOR        1
#define CS_SEGMENT_MINOR        3
#define CS_SEGMENT_ENDIAN       0x01020304U
#define CS_SEGMENT_PAGE_BYTES   4096U
#define CS_SEGMENT_SECTIONS_MAX 16U
#define CS_SEGMENT_SUFFIX       ".seg"

enum cs_section_type {
	CS_SECTION_NONE = 0,
	CS_SECTION_CONTROL = 1,
	CS_SECTION_STATUS = 2,
	CS_SECTION_PROCESS = 3,
	CS_SECTION_GPU = 4,
	CS_SECTION_COMMUNICATOR = 5,
	CS_SECTION_NAME = 6,
	CS_SECTION_TEXT = 7,
	CS_SECTION_LABEL = 8,
	CS_SECTION_ENVIRONMENT = 9,
	CS_SECTION_RING = 10,
	CS_SECTION_TYPE_COUNT
};

struct cs_section {
	uint32_t type;         /* enum cs_section_type */
	uint32_t stride_bytes; /* one entry; 1 for TEXT; 0 for CONTROL, STATUS, PROCESS */
	uint64_t offset_bytes; /* from the start of the file, page-aligned */
	uint64_t length_bytes; /* whole section, its head included */
	uint64_t capacity;     /* entries (TEXT: bytes) */
};

struct cs_segment_header {
	char magic[16];
	uint32_t endian;
	uint16_t major;
	uint16_t minor;
	uint32_t header_bytes; /* 4096 */
	uint32_t section_count;
	uint64_t file_bytes;
	_Atomic uint64_t generation_begin;
	_Atomic uint64_t generation_end;
	/* The writer. pid is that of its own namespace; (boot_id, pid_namespace_inode, pid, start_time_ticks)
	 * is unique. */
	uint32_t pid;
	uint32_t uid;
	uint64_t start_time_ticks; /* field 22 of /proc/self/stat, clock ticks since boot */
	uint64_t pid_namespace_inode;
	uint8_t boot_id[16];
	uint64_t created_ns; /* CLOCK_REALTIME */
	char injector_version[32];
	uint32_t parent_pid; /* since 1.2: getppid() when the segment was made; 0: outside the PID namespace,
				or not known */
	uint32_t reserved_identity;
	uint64_t reserved[12];
	struct cs_section sections[CS_SEGMENT_SECTIONS_MAX];
	uint8_t padding[4096 - 240 - 32 * CS_SEGMENT_SECTIONS_MAX];
};

/* -- CONTROL ------------------------------------------------------------------------------------------- */

enum cs_command {
	CS_COMMAND_NONE = 0,
	/* Deep tracing from from_ns until until_ns (CLOCK_REALTIME). argument, since 1.2: share of step time
	 * that it may cost, in millionths; 0 no limit. Refused when from_ns is past (ETIME), when it takes
	 * too long (ERANGE), when nothing can be traced now (EBUSY), when traces are not allowed (EPERM),
	 * and, without CS_TRACE_REPLACE in argument, while another one runs or waits to begin (EALREADY). */
	CS_COMMAND_TRACE = 1,
	CS_COMMAND_PAUSE = 2, /* no tracing until CS_COMMAND_RESUME. argument, since 1.2: CS_PAUSE_* */
	CS_COMMAND_RESUME = 3,
	/* Since 1.2: forget the TRACE of just these from_ns and until_ns, if there is one. */
	CS_COMMAND_CANCEL = 4,
	CS_COMMAND_COUNT
};

/* Forget the TRACE that runs or waits, and take this one in its place. */
#define CS_TRACE_REPLACE (1ULL << 32)
/* Give up CUPTI's subscription, too, and with it the labels of graphs that are captured later. */
#define CS_PAUSE_RELEASE (1U << 0)

/*
 * One request at a time: a reader makes request_sequence odd, fills the fields, and makes it even (release);
 * the writer copies the fields between two loads of the same even number that it has not answered, so a
 * request that replaces one whose reader gave up waiting is never mixed with it. It answers by storing
 * control_result and then the same number in STATUS control_done (release). A reader takes byte 1 of the file
 * with an OFD write lock while it does so, so two readers cannot mix; one that dies halfway leaves an odd
 * number, from which the next one goes on.
 */
struct cs_control {
	_Atomic uint64_t request_sequence;
	_Atomic uint64_t command;
	_Atomic uint64_t from_ns;
	_Atomic uint64_t until_ns;
	_Atomic uint64_t argument;
	_Atomic uint64_t reserved[507];
};

/* -- STATUS -------------------------------------------------------------------------------------------- */

enum cs_mode { CS_MODE_OFF = 0, CS_MODE_DEMAND = 1, CS_MODE_SAMPLE = 2, CS_MODE_FULL = 3, CS_MODE_COUNT };

enum cs_state {
	CS_STATE_STARTING = 0, /* loaded, no context yet */
	CS_STATE_LEARNING = 1, /* subscribed: labels of captured graphs are being learnt */
	CS_STATE_TRACING = 2,  /* a deep or light window is open, or windows follow the schedule */
	CS_STATE_IDLE = 3,     /* demand mode, not asked */
	CS_STATE_YIELDED = 4,  /* another tool owns CUPTI */
	CS_STATE_PAUSED = 5,   /* a reader asked for it */
	CS_STATE_DORMANT = 6,  /* off for good; reason says why */
	CS_STATE_EXITED = 7,
	CS_STATE_COUNT
};

enum cs_unlabelled_reason {
	CS_UNLABELLED_NO_LEDGER = 0,    /* node captured before we looked, or lost */
	CS_UNLABELLED_NO_RULE = 1,      /* name known as a collective, no size rule */
	CS_UNLABELLED_CHECK_FAILED = 2, /* a parameter failed its sanity check */
	CS_UNLABELLED_LEDGER_FULL = 3,
	CS_UNLABELLED_NO_LAUNCH = 4, /* eager, launched while no callback was on */
	/* Since 1.2. */
	CS_UNLABELLED_ANNOUNCE_FULL = 5, /* what NCCL told of the launch had no room */
	CS_UNLABELLED_CHILD_FULL = 6,    /* a node of a child graph found no room when it moved */
	CS_UNLABELLED_REASON_COUNT
};

#define CS_STEP_RATIOS 16U

/* Every field one atomic word: no reader ever sees half of one. Counters only grow. */
struct cs_status {
	/* gauges */
	_Atomic uint64_t heartbeat_ns; /* CLOCK_REALTIME of the worker's last turn */
	_Atomic uint64_t state;        /* enum cs_state */
	_Atomic uint64_t mode;         /* enum cs_mode */
	_Atomic uint64_t depth;        /* enum cs_depth now */
	_Atomic uint64_t depth_since_ns;
	_Atomic uint64_t host_memory_bytes;
	_Atomic uint64_t device_memory_bytes;
	_Atomic uint64_t control_done;
	_Atomic uint64_t control_result;     /* 0 or a positive errno */
	_Atomic uint64_t period_ns;          /* of the sampling schedule; 0 when none */
	_Atomic uint64_t window_ns;          /* deep part of a period */
	_Atomic uint64_t delivered_until_ns; /* every record that ended before this time has been written */
	_Atomic uint64_t last_record_end_ns; /* newest end time of any kernel record */
	/* Since 1.1: time of a step under deep tracing over its time without, as the governor measured it, in
	 * millionths; 0 unknown. */
	_Atomic uint64_t step_ratio_ppm;
	/* Since 1.2: longest TRACE that may be asked for; 0 unknown, UINT64_MAX: none at all. */
	_Atomic uint64_t trace_max_ns;
	_Atomic uint64_t subscribed; /* since 1.2: 1 while CUPTI's subscription is held, 0 not */
	/* Since 1.2: end of the TRACE that runs or waits to begin; 0: there is none. */
	_Atomic uint64_t request_until_ns;
	_Atomic uint64_t reserved_gauges[15];
	/* counters */
	_Atomic uint64_t cpu_ns;      /* CPU time of our own thread and of our callbacks as far as measured */
	_Atomic uint64_t trace_ns[4]; /* by enum cs_depth, closed stretches */
	_Atomic uint64_t records[16]; /* written, by enum cs_record_type */
	_Atomic uint64_t kernels_seen;   /* kernel activity records received, of any kind */
	_Atomic uint64_t lost[16];       /* by enum cs_loss_cause */
	_Atomic uint64_t unlabelled[8];  /* by enum cs_unlabelled_reason */
	_Atomic uint64_t graph_launches; /* seen by callback */
	_Atomic uint64_t nodes_labelled; /* live ledger entries */
	_Atomic uint64_t buffers_requested;
	_Atomic uint64_t buffers_completed;
	_Atomic uint64_t flushes;
	_Atomic uint64_t windows[4]; /* by enum cs_depth */
	_Atomic uint64_t foreign_windows;
	_Atomic uint64_t windows_skipped; /* since 1.2: of the sampling plan, or cut short, for their cost */
	_Atomic uint64_t tracing_rests;   /* since 1.2: how often tracing rested as buffers ran short */
	_Atomic uint64_t reserved_counters[406];
	/* Since 1.2, gauges: step_ratio_ppm by graph. Graph id of CUPTI in the upper half (0: eager work),
	 * then 16 bits each of how many steps were timed under tracing and of the ratio in tenths of a
	 * thousandth; 0: none. */
	_Atomic uint64_t step_ratios[CS_STEP_RATIOS];
};

/* -- PROCESS ------------------------------------------------------------------------------------------- */

/* Texts are NUL-terminated, cut to fit at a UTF-8 boundary. The writer makes `sequence` odd, writes, makes it
 * even. */
struct cs_process {
	_Atomic uint64_t sequence;
	char comm[32];          /* /proc/self/comm */
	char command_line[256]; /* first words only: program and script, no option values */
	char reason[256];       /* why the state is what it is; "" when nothing needs saying */
	char cuda_driver[32];   /* "13.0" */
	char cupti[32];         /* "130001" */
	char cupti_path[256];
	char nccl[32];   /* "2.28.9" */
	char driver[32]; /* "580.159.04", from NVML */
	char pod[128];   /* from the environment: POD_NAMESPACE/POD_NAME */
	int32_t rank;    /* of the process, when all its collectives agree; else CS_RANK_UNKNOWN */
	int32_t world;
	uint8_t reserved[3024];
};

/* -- tables -------------------------------------------------------------------------------------------- */

/* Starts every table section and the TEXT section. Entries below `count` are complete and never change
 * (release store of count pairs with the reader's acquire load). */
struct cs_table_head {
	_Atomic uint64_t count;
	_Atomic uint64_t refused; /* entries that had no room */
	uint64_t reserved[6];
};

#define CS_GPUS_MAX          16U
#define CS_COMMUNICATORS_MAX 128U
#define CS_NAMES_MAX         4096U
#define CS_LABELS_MAX        8192U
#define CS_ENVIRONMENT_MAX   64U
#define CS_TEXT_BYTES        (448U * 1024U)
#define CS_NAME_BYTES_MAX    1024U

/* Link to another GPU of the node, by NVML index. */
enum cs_link {
	CS_LINK_UNKNOWN = 0,
	CS_LINK_SELF,
	CS_LINK_NVLINK,
	CS_LINK_PCIE_SWITCH,
	CS_LINK_PCIE_HOST_BRIDGE,
	CS_LINK_PCIE_NODE,
	CS_LINK_PCIE_SYSTEM,
	CS_LINK_COUNT
};

struct cs_gpu {
	int32_t nvml_index; /* -1 unknown */
	int32_t cuda_ordinal;
	uint32_t pci_domain;
	uint32_t pci_bus;
	uint32_t pci_device;
	uint32_t context_id; /* CUPTI's */
	uint8_t uuid[16];
	char name[64];
	uint64_t memory_bytes;
	uint32_t multiprocessors;
	uint32_t compute_capability; /* 90 = 9.0 */
	uint8_t link[32];            /* enum cs_link to the GPU of that NVML index */
	uint8_t link_nvlinks[32];    /* number of NVLinks, 0 when none */
	uint8_t reserved[72];
};

struct cs_communicator {
	uint64_t hash; /* NCCL's commHash; for others a hash of what is known */
	int32_t rank;
	int32_t world;
	int32_t nodes;
	uint32_t impl; /* enum cs_impl */
	char name[64];
	uint8_t reserved[40];
};

struct cs_name {
	uint32_t offset_bytes; /* in TEXT, after its table head */
	uint32_t length_bytes; /* without a NUL; the text has one after it */
};

/* What is known of a collective kernel apart from its times. Identical labels are one entry.
 * Id 0 is reserved: entry 0 of the table is all zero and means "no label". */
struct cs_label {
	uint8_t op;        /* enum cs_op */
	uint8_t impl;      /* enum cs_impl */
	uint8_t dtype;     /* enum cs_dtype */
	uint8_t reduction; /* enum cs_reduction */
	uint8_t algorithm; /* enum cs_algorithm */
	uint8_t protocol;  /* enum cs_protocol */
	uint8_t source;    /* enum cs_label_source: of the size */
	uint8_t flags;     /* CS_LABEL_* */
	uint32_t name_id;  /* kernel name, 0 unknown (name 0 is "") */
	uint32_t rule_id;  /* catalogue row + 1; 0 none */
	int32_t rank;      /* CS_RANK_UNKNOWN */
	int32_t world;     /* CS_RANK_UNKNOWN */
	uint32_t comm_id;  /* index into COMMUNICATOR + 1; 0 unknown */
	uint16_t channels; /* NCCL channels, 0 unknown */
	uint16_t works;    /* collectives that this launch holds (grouped calls); 0 and 1 are one */
	uint64_t bytes;    /* CS_BYTES_UNKNOWN */
	uint64_t count;    /* elements, 0 unknown */
	uint64_t reserved[2];
};

#define CS_LABEL_FUSED (1U << 0) /* with normalisation or quantisation */
#define CS_LABEL_PART  (1U << 1) /* second kernel of a collective (records carry CS_RECORD_PART) */
#define CS_LABEL_BOUND (1U << 2) /* bytes is an upper bound (data-dependent all-to-all) */

struct cs_environment {
	char name[64];
	char value[128];
};

/* -- RING ---------------------------------------------------------------------------------------------- */

/*
 * Slot i of a ring of N (a power of two) holds record number r where r % N == i. `sequence` of a slot:
 *   0             never written
 *   r * 2 + 1     record r is being written
 *   r * 2 + 2     record r is complete
 * Writers reserve r by adding to `head`, move the slot to r * 2 + 1 by compare-and-swap from an even value
 * below it (an odd one is a writer that a whole lap has overtaken, a greater one is the lap that overtook us:
 * in both cases the record is dropped and counted), store the words, then publish r * 2 + 2 with release. A
 * reader copies the words between two loads of `sequence`;
 * unless both are r * 2 + 2 the copy is thrown away, so an overwrite in flight is never taken for a record.
 */
struct cs_ring_slot {
	_Atomic uint64_t sequence;
	_Atomic uint64_t words[7]; /* struct cs_record */
};

struct cs_ring_head {
	_Atomic uint64_t head; /* number of the next record to be reserved */
	uint64_t reserved[7];
};

#define CS_RING_SLOTS_DEFAULT                                                                                \
	131072U /* 8 MiB: 0.6 s of the fullest traffic measured, see docs/overhead.md                        \
		 */

_Static_assert(sizeof(CS_SEGMENT_MAGIC) == 16, "magic");
_Static_assert(sizeof(struct cs_section) == 32, "format");
_Static_assert(sizeof(struct cs_segment_header) == CS_SEGMENT_PAGE_BYTES, "format");
_Static_assert(offsetof(struct cs_segment_header, sections) == 240, "format");
_Static_assert(sizeof(struct cs_control) == CS_SEGMENT_PAGE_BYTES, "format");
_Static_assert(sizeof(struct cs_status) == CS_SEGMENT_PAGE_BYTES, "format");
_Static_assert(sizeof(struct cs_process) == CS_SEGMENT_PAGE_BYTES, "format");
_Static_assert(sizeof(struct cs_table_head) == 64, "format");
_Static_assert(sizeof(struct cs_gpu) == 256, "format");
_Static_assert(sizeof(struct cs_communicator) == 128, "format");
_Static_assert(sizeof(struct cs_name) == 8, "format");
_Static_assert(sizeof(struct cs_label) == 64, "format");
_Static_assert(sizeof(struct cs_environment) == 192, "format");
_Static_assert(sizeof(struct cs_ring_slot) == 64, "format");
_Static_assert(sizeof(struct cs_ring_head) == 64, "format");
_Static_assert(
	sizeof(struct cs_record) == sizeof(((struct cs_ring_slot *)0)->words), "a record fills a slot");

/* Names for metrics and status output; "unknown" outside the enum. Static strings. */
const char *cs_mode_name(unsigned int mode);
const char *cs_state_name(unsigned int state);
const char *cs_unlabelled_reason_name(unsigned int reason);
const char *cs_link_name(unsigned int link);

#endif
