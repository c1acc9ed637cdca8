/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that NCCL's profiler plugin told of while nobody watched launches by callback, so that the records
 * of their kernels can be labelled all the same.
 *
 * How a record finds its launch. Kernels of one stream run in the order of their launches, but nothing in
 * their records bounds how far a stream lags behind the host: every alignment of records with launches that
 * begin earlier fits the times. So it is not order that is relied on. In windows the kind DRIVER is on, too:
 * CUPTI writes a record of every driver call with its thread, its begin and end, and the correlation id that
 * the kernel's record carries. NCCL's KernelLaunch event brackets the one call that launches the kernel, on
 * the same thread. A launch call of this thread inside the bracket is that call: brackets of one thread do
 * not overlap, and none is given to two calls. What has no such call (launched before the window, a record
 * was dropped, another clock) stays unknown.
 *
 * Measured on an H200 with CUPTI 13.0 Update 1, without a subscription: 300 of 300 calls have begin and end
 * inside brackets of 0.3 us taken with CLOCK_REALTIME, beside three threads that launched; `threadId` is the
 * low half of pthread_self (101 of 101); a launch costs no more than with kernel records alone.
 *
 * A fixed ring; the oldest is forgotten. Thread context: begin, end and replace on application threads,
 * host-safe; take by the parser. All at once.
 */
#ifndef CS_TOLD_H
#define CS_TOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Seconds of eager decoding; records are handed over ten times a second. */
#define CS_TOLD_LAUNCHES 4096U

/* Bits of a filed word that the ring keeps for itself. */
#define CS_TOLD_LAP_SHIFT 28
#define CS_TOLD_LAP       (15ULL << CS_TOLD_LAP_SHIFT)

struct cs_told_launch {
	_Atomic uint64_t number;   /* 0: none, or being written */
	_Atomic uint64_t begin_ns; /* CLOCK_REALTIME */
	_Atomic uint64_t end_ns;   /* 0: under way */
	_Atomic uint64_t filed;    /* 0: nothing is known of it; with the lap's number in CS_TOLD_LAP */
	_Atomic uint32_t thread;
	_Atomic uint32_t taken; /* correlation id of its call, 0: not known yet */
};

struct cs_told {
	_Alignas(64) _Atomic uint64_t count;                           /* of all time */
	_Alignas(64) struct cs_told_launch launches[CS_TOLD_LAUNCHES]; /* all zero: empty */
};

/* The launch call of this thread comes now. Its number, from 1, for the functions below. */
uint64_t cs_told_begin(struct cs_told *told, uint32_t thread, uint64_t now_ns, uint64_t filed);
/* The call has returned. */
void cs_told_end(struct cs_told *told, uint64_t number, uint64_t now_ns);

/* What is filed, without the ring's bits. false: forgotten, or nothing. */
bool cs_told_find(struct cs_told *told, uint64_t number, uint64_t *filed);
/* Replaces it, if it is still `before`. */
void cs_told_replace(struct cs_told *told, uint64_t number, uint64_t before, uint64_t filed);

/* The launch whose call this is, which has the correlation id `call`, not 0; its number. 0: none, or it had a
 * call already; *filed may be 0. Facts may come later than the record of the call: whoever files *filed
 * elsewhere looks again afterwards (cs_told_find), and whoever replaces it asks for the call after that. */
uint64_t cs_told_take(struct cs_told *told, uint32_t thread, uint64_t start_ns, uint64_t end_ns,
	uint32_t call, uint64_t *filed);
/* The call that took it; 0: none yet, or forgotten. */
uint32_t cs_told_call(struct cs_told *told, uint64_t number);

/* When the last launch began, CLOCK_REALTIME; 0 never. */
uint64_t cs_told_last_ns(struct cs_told *told);

#endif
