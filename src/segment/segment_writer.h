/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing side of a segment; links into the host process, so: libc only, no exit, no assert, no stdio on
 * the hot path, errno kept by every function that an application thread may call (marked "host-safe").
 *
 * Errors: 0 or a negative errno unless stated. Ownership: the writer owns the mapping and, on file systems
 * where a mapping does not keep a lock (overlayfs), one descriptor.
 */
#ifndef CS_SEGMENT_WRITER_H
#define CS_SEGMENT_WRITER_H

#include "segment.h"

#include <stdbool.h>

struct cs_segment_writer; /* opaque */

struct cs_segment_options {
	const char *directory; /* run directory, must exist (cs_rundir_prepare) */
	uint32_t ring_slots;   /* power of two, 1024 ... 1048576; 0 = CS_RING_SLOTS_DEFAULT */
	const char *version;   /* of the injector */
};

/*
 * Creates `<directory>/<pid>-<start time ticks>.seg`, mode 0600: a temporary name first (O_EXCL, O_NOFOLLOW,
 * O_CLOEXEC), blocks reserved with posix_fallocate (a full file system is -ENOSPC here, never SIGBUS later),
 * filled, locked (OFD write lock on byte 0: the sign of life), renamed. An existing file is never replaced:
 * when the name is taken (another PID namespace, or the program that this process was before exec) the next
 * tick is tried; the header has the true one. -ENAMETOOLONG: path over CS_SEGMENT_PATH_BYTES. -EFBIG: over
 * RLIMIT_FSIZE. Thread context:
 * start-up, one thread. May allocate and block; errno kept.
 */
int cs_segment_writer_create(const struct cs_segment_options *options, struct cs_segment_writer **writer);

/* Unmaps (the lock goes); the file stays for readers unless `unlink_file`. NULL is fine. */
void cs_segment_writer_destroy(struct cs_segment_writer *writer, bool unlink_file);

/* For the atfork child handler: the child must not keep the parent's sign of life. A mapping holds the open
 * file description, and so the lock, as a descriptor does; so the mapping is replaced by private zero pages
 * (pointers handed out before stay harmless), and every later call on this writer is a no-op. A descriptor
 * that the writer had to keep is closed. Async-signal-safe. */
void cs_segment_writer_abandon(struct cs_segment_writer *writer);

/* Borrowed pointers into the mapping; valid until destroy. Requests are taken from CONTROL with
 * cs_segment_writer_take_request. */
struct cs_status *cs_segment_writer_status(struct cs_segment_writer *writer);
struct cs_control *cs_segment_writer_control(struct cs_segment_writer *writer);
/* Length of a segment's path, with the NUL. */
#define CS_SEGMENT_PATH_BYTES 1024U
const char *cs_segment_writer_path(const struct cs_segment_writer *writer);
/* Host memory that the writer holds: file and private tables. */
uint64_t cs_segment_writer_mapped_bytes(const struct cs_segment_writer *writer);

/*
 * Appends one record. Lock-free, any number of threads, host-safe, no system call.
 * Returns 0 (also on an abandoned writer, where nothing is done); -EBUSY when the slot's last writer is still
 * in it (counted in lost[RING_CONTENDED]); -EINVAL for a type that is none, which takes no slot. Counts
 * records[type].
 */
int cs_segment_writer_append(struct cs_segment_writer *writer, const struct cs_record *record);

/* Appends a LOSS record and adds to lost[cause]. Host-safe. since: what is missing may be of any time from
 * since_ns to at_ns (or of at_ns, if that is before). */
void cs_segment_writer_lose(
	struct cs_segment_writer *writer, enum cs_loss_cause cause, uint64_t count, uint64_t at_ns);
void cs_segment_writer_lose_since(struct cs_segment_writer *writer, enum cs_loss_cause cause, uint64_t count,
	uint64_t since_ns, uint64_t at_ns);

/*
 * Interning. What is known is found without a lock; an insertion takes a small one (host-safe: spins a
 * bounded time for another insertion, then gives the processor away some times, and gives up; no allocation,
 * no system call but that sched_yield). Callers cache the ids and
 * do not call these per record. Equal input gives the equal id. 0 when the table is full (counted
 * TABLE_FULL), or when another insertion did not end (counted TABLE_BUSY), which _or_again tells by *again:
 * such a 0 is not to be cached, the next try may find room. name: id >= 1; 0 when the table is full. Names
 * longer than CS_NAME_BYTES_MAX are cut. label: id >= 1; 0 when full. communicator: index + 1; 0 when full.
 * Identity is (hash, rank). gpu: index 0 ... 15 by uuid, or by cuda_ordinal when the uuid is all zero;
 * negative errno when full. A later call with the same identity changes nothing. environment: 0, -ENOSPC.
 * These two are for the worker or start-up: they may sleep, 127 ms in all, until another insertion has ended;
 * -EBUSY when it does not.
 */
uint32_t cs_segment_writer_name(struct cs_segment_writer *writer, const char *name);
uint32_t cs_segment_writer_label(struct cs_segment_writer *writer, const struct cs_label *label);
uint32_t cs_segment_writer_name_or_again(struct cs_segment_writer *writer, const char *name, bool *again);
uint32_t cs_segment_writer_label_or_again(
	struct cs_segment_writer *writer, const struct cs_label *label, bool *again);
uint32_t cs_segment_writer_communicator(
	struct cs_segment_writer *writer, const struct cs_communicator *communicator);
int cs_segment_writer_gpu(struct cs_segment_writer *writer, const struct cs_gpu *gpu);
int cs_segment_writer_environment(struct cs_segment_writer *writer, const char *name, const char *value);
/* A label by id, for code that has the id alone. Borrowed, immutable; NULL when there is none. Host-safe. */
const struct cs_label *cs_segment_writer_borrow_label(const struct cs_segment_writer *writer, uint32_t id);

enum cs_process_text {
	CS_TEXT_COMM,
	CS_TEXT_COMMAND_LINE,
	CS_TEXT_REASON,
	CS_TEXT_CUDA_DRIVER,
	CS_TEXT_CUPTI,
	CS_TEXT_CUPTI_PATH,
	CS_TEXT_NCCL,
	CS_TEXT_DRIVER,
	CS_TEXT_POD,
	CS_TEXT_COUNT
};

/* Sets one text of PROCESS (NULL = ""). Not for application threads except at start-up; waits for the lock as
 * gpu does. rank: host-safe. */
void cs_segment_writer_text(struct cs_segment_writer *writer, enum cs_process_text which, const char *text);
void cs_segment_writer_rank(struct cs_segment_writer *writer, int32_t rank, int32_t world);

/* One request from CONTROL, as the reader wrote it; command may be outside enum cs_command. */
struct cs_segment_request {
	uint64_t sequence;
	uint64_t command;
	uint64_t from_ns;
	uint64_t until_ns;
	uint64_t argument;
};

/* true: *request is a whole request that has not been answered. A few loads; for one thread (the worker). */
bool cs_segment_writer_take_request(struct cs_segment_writer *writer, struct cs_segment_request *request);
/* error: 0 or a positive errno. */
void cs_segment_writer_answer(
	struct cs_segment_writer *writer, const struct cs_segment_request *request, int error);

#endif
