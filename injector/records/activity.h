/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a completed activity buffer to ring records.
 *
 *   kernel, collective   one COLLECTIVE record
 *   kernel, step marker  one MARKER record
 *   other kernels        BUSY, class compute, coalesced per stream
 *   driver calls         none; told to whoever wants them
 *   copies, sets         BUSY, class copy, coalesced per stream and direction; value = bytes
 *
 * Nothing is held back: all runs are closed at the end of a buffer. Records with impossible times are counted
 * (LOSS BAD_TIMESTAMP) and left out: zero, end before start, lasting over an hour, or more than a day from
 * now, which is what another tool's clock looks like (timebase.h) and counted as strange. So are those that a
 * clock which was set puts between two windows (cs_activity_note_set).
 *
 * stream_id of a record has CUPTI's context id folded into its top 8 bits, since stream ids are unique per
 * context only.
 *
 * Thread context: cs_activity_parse by one thread at a time; the device map from any.
 */
#ifndef CS_ACTIVITY_H
#define CS_ACTIVITY_H

#include "coalesce.h"
#include "labels/labels.h"
#include "launches.h"
#include "sampling/pace.h"

#include <stdatomic.h>

#define CS_DEVICES_MAX 64U

struct cs_activity {
	struct cs_segment_writer *writer;
	void (*resolve)(const struct cs_kernel_key *key, struct cs_kernel_identity *identity);
	/* NULL, or who takes records of driver calls, and kernels whose identity says `wait` (false: write it
	 * now). Set between init and the first buffer. */
	void (*call)(const struct cs_activity_call *call);
	bool (*hold)(const struct cs_kernel_key *key, const struct cs_record *record);
	_Atomic int8_t gpu_of_device[CS_DEVICES_MAX]; /* CUDA ordinal -> GPU index + 1; 0 unknown */
	uint64_t closed_ns;              /* when tracing was last switched off, UINT64_MAX never */
	uint64_t reopened_ns;            /* when it was switched on after that, UINT64_MAX not yet */
	bool set_forward;                /* CLOCK_REALTIME was, at some time */
	_Atomic uint64_t wanted_devices; /* one bit per device that records named in vain */
	struct cs_coalesce coalesce;
	struct cs_launches launches;
	struct cs_pace pace; /* of the window that the worker has begun */
	uint64_t now_ns;
	uint64_t since_ns; /* what CUPTI lost and is noticed now may be that old */
	/* of the buffer being parsed */
	uint64_t kernels, timed, bad, strange, last_end_ns;
	uint64_t unknown_device, unknown_from_ns, unknown_until_ns;
	bool waits, stopped; /* it may end at a device that nobody has named yet; it has */
	/* of all; for the watchdog: records that should have times, those without good ones, and of these the
	 * ones that may be good by another clock */
	_Atomic uint64_t kernels_total, timed_total, bad_total, strange_total;
};

typedef CUptiResult (*cs_activity_next)(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);

void cs_activity_init(struct cs_activity *activity, struct cs_segment_writer *writer,
	void (*resolve)(const struct cs_kernel_key *key, struct cs_kernel_identity *identity));

/* Says which GPU index of the segment a CUDA device is. Records of devices without one are left for later or
 * lost (cs_activity_parse). */
void cs_activity_set_gpu(struct cs_activity *activity, uint32_t device, int gpu);
int cs_activity_gpu(const struct cs_activity *activity, uint32_t device); /* -1 unknown */

/*
 * Tracing is being switched off (or on) now, CLOCK_REALTIME; to be said just before. What ends after the one
 * and begins before the other is outside of the window and left out, without being counted as lost: of
 * kernels that are on their way when their kind is switched off, CUPTI 13.0 gives the true start and an end
 * that is late by the time until the next flush (a whole launch of 854 kernels, 35 to 101 ms each instead of
 * 4 us, on an H200). Not while a buffer is being parsed (delivery.c holds its lock).
 */
void cs_activity_note_close(struct cs_activity *activity, uint64_t now_ns);
void cs_activity_note_open(struct cs_activity *activity, uint64_t now_ns);
/* CLOCK_REALTIME has been set. Back: what is traced now may seem to lie between the two, for as long as
 * tracing was off before, and they are forgotten. While it is off there is no such thing. Forward: CUPTI may
 * go on by the old clock, and then all that is traced lies there. What lies there and is no straggler is
 * counted as strange from then on. As above. */
void cs_activity_note_set(struct cs_activity *activity, bool back);

/* Walks with `next`, cuptiActivityGetNextRecord of the library that filled the buffer. Adds to STATUS. When
 * CUPTI gives up before the end of the buffer the rest counts as one lost record (LOSS CUPTI_DROPPED). */
void cs_activity_parse(struct cs_activity *activity, uint8_t *buffer, size_t valid_bytes,
	cs_activity_next next, uint64_t now_ns);

/* The same, but ends at a record of a device that nobody has named: true, and *at is that record; the caller
 * keeps the buffer, and calls again (with `wait` false that record and others like it are lost,
 * UNKNOWN_DEVICE) when somebody may have. *at is NULL for the first call. */
bool cs_activity_parse_from(struct cs_activity *activity, uint8_t *buffer, size_t valid_bytes,
	cs_activity_next next, uint64_t now_ns, bool wait, CUpti_Activity **at);

#endif
