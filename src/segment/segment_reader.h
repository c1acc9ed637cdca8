/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading side of a segment. It trusts nothing in the file: sizes and offsets are checked against fstat
 * at every open, counts at every use, and a file that is truncated while mapped gives -EIO, not SIGBUS
 * (src/segment/bus_guard.h).
 *
 * Errors: 0 or a negative errno; cs_error (error.h) carries the sentence for the user.
 * Thread context: one thread per reader; different readers are independent.
 */
#ifndef CS_SEGMENT_READER_H
#define CS_SEGMENT_READER_H

#include "dictionary.h"
#include "error.h"
#include "segment.h"

#include <stdbool.h>
#include <stddef.h>

struct cs_segment_reader; /* opaque */

/*
 * Opens a segment read-only (O_NOFOLLOW, regular file only). `from_oldest`: start at the oldest record still
 * in the ring, else at the newest. -ENOENT, -EACCES, ...: from open(2). -EAGAIN: not complete yet (generation
 * pair). -EPROTO: other major version. -EBADMSG: not a segment, or one that contradicts itself. -ENOMEM.
 */
int cs_segment_reader_open(
	const char *path, bool from_oldest, struct cs_segment_reader **reader, struct cs_error *error);
void cs_segment_reader_close(struct cs_segment_reader *reader); /* NULL is fine */
/* Gives the file back, mapping and descriptor, before close: for a writer that is gone and a ring that has
 * been read to its end. The dictionary, the path and the losses stay; nothing else may be called but close.
 */
void cs_segment_reader_let_go(struct cs_segment_reader *reader);

struct cs_reader_losses {
	uint64_t overrun; /* overwritten before they were read */
	uint64_t hole;    /* reserved and never published */
	uint64_t invalid; /* contents that no writer writes */
};

/*
 * Copies up to `capacity` complete records, in ring order, into `records` (caller's), after refreshing the
 * dictionary so that every id in them resolves. *count gets how many; 0 means nothing new. Every record
 * handed out has a valid type, a gpu index and ref inside the dictionary, end_ns >= start_ns. A reserved but
 * unpublished record is waited for: later calls return what comes before it, until the writer has
 * died, a quarter of the ring has been reserved after it, or it has been late for a second while others came
 * (then it is counted as a hole).
 * -EIO: the file shrank under us; the reader must be closed.
 */
int cs_segment_reader_read(
	struct cs_segment_reader *reader, struct cs_record *records, size_t capacity, size_t *count);

/*
 * Whether records are missing right before those of the last _read that handed any out: the ring had been
 * written over, also before it was opened, or they were never finished. A _read ends before such a gap, so it
 * may return fewer records than there are.
 */
bool cs_segment_reader_gap(const struct cs_segment_reader *reader);
/* Whether the last _read that handed any out ended for that reason: the next one goes on. It stays so over
 * reads that hand out none, as there is none yet after the gap (or, of a dead writer, ever). */
bool cs_segment_reader_gap_ahead(const struct cs_segment_reader *reader);

/* Brings the dictionary up to date (also done by _read). 0 or -EIO, -ENOMEM, -EBADMSG. */
int cs_segment_reader_refresh(struct cs_segment_reader *reader);

/* Gives the mapped pages back to the system; they come back by themselves when they are read again. For a
 * reader that lives long: the pages of a ring that it went through would stay in its resident memory. */
void cs_segment_reader_trim(struct cs_segment_reader *reader);

/* Borrowed, valid until close. */
const struct cs_dictionary *cs_segment_reader_borrow_dictionary(const struct cs_segment_reader *reader);
const char *cs_segment_reader_path(const struct cs_segment_reader *reader);

/* A copy of the status words: plain integers in a struct of the same shape (use atomic_load_explicit relaxed
 * or copy). 0 or -EIO. */
int cs_segment_reader_status(struct cs_segment_reader *reader, struct cs_status *status);
void cs_segment_reader_losses(const struct cs_segment_reader *reader, struct cs_reader_losses *losses);

/* 1: the writer holds its lock; 0: it is gone; negative errno: cannot tell. Works across PID namespaces. */
int cs_segment_reader_writer_alive(const struct cs_segment_reader *reader);

/* What is asked of a writer: enum cs_command and its operands (segment.h, docs/segment-format.md). */
struct cs_segment_question {
	enum cs_command command;
	uint64_t from_ns, until_ns; /* CLOCK_REALTIME */
	uint64_t argument;
};

/*
 * Asking, in two parts, so that many processes can be asked before the first answer is waited for. An asker
 * is an open segment (write permission on the file is needed) and, from the first post to close, the OFD lock
 * on byte 1 that keeps other askers out. A second post replaces a question that has not been answered: who
 * has several askers takes them in one order everywhere. deadline_ns: CLOCK_MONOTONIC.
 *
 * open: as cs_segment_reader_open. post: -ETIMEDOUT when another asker holds the lock, -ENOTCONN when the
 * writer is gone. collect: 0; -ETIMEDOUT, -ENOTCONN; or the negative of the writer's control_result, which
 * was_answered tells from the former.
 */
struct cs_segment_asker; /* opaque */
int cs_segment_asker_open(const char *path, struct cs_segment_asker **opened, struct cs_error *error);
void cs_segment_asker_close(struct cs_segment_asker *asker); /* NULL is fine */
int cs_segment_post(struct cs_segment_asker *asker, const struct cs_segment_question *question,
	uint64_t deadline_ns, struct cs_error *error);
int cs_segment_collect(struct cs_segment_asker *asker, uint64_t deadline_ns, struct cs_error *error);
bool cs_segment_asker_was_answered(const struct cs_segment_asker *asker);

/* Open, post, collect and close in one: the same errors. */
int cs_segment_request(const char *path, enum cs_command command, uint64_t from_ns, uint64_t until_ns,
	unsigned int timeout_ms, struct cs_error *error);

#endif
