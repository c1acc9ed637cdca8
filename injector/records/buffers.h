/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The activity buffers that CUPTI fills. A fixed pool, taken by application threads inside their CUDA calls,
 * so: lock-free, no allocation, and no empty answer as long as there is another way.
 *
 * When the pool is empty a small reserve buffer is given, and after those fresh mappings, which are unmapped
 * when they come back. Their records are parsed like all others; `short_requests` counts how often it came to
 * that. Two holders never share a buffer: a design with one static buffer for everybody broke with
 * CUPTI 13.0.
 *
 * CUPTI is never answered NULL: before 12.9 it crashes, and after 33,000 such answers CUPTI 13.0 gave no
 * buffer back any more (an H200, 640,000 records a second). When CS_BUFFER_FRESH_MAX mappings are held, too,
 * it gets one that nobody keeps account of: its records are not read and it is never unmapped, but it is
 * nobody else's. After CS_BUFFER_ABANDONED_END of those the worker ends tracing for good. Where it does not
 * get to run meanwhile they go on up to CS_BUFFER_ABANDONED_MAX; then, or without memory, one static buffer
 * serves all: what is in it is not looked at, and `shared` counts how often.
 *
 * It should not come to that: from CS_BUFFER_FRESH_SHORT mappings on tracing rests (worker_shed.c). A flood
 * takes up to 9 MiB beyond what the library has otherwise, until it is over, and 31 more while the worker
 * is kept from running: a host that lives is worth more than the bound.
 *
 * A buffer belongs to CUPTI from take to give; it is never freed or reused in between, not even after tracing
 * was switched off.
 *
 * Thread context: init once; everything else from any thread at any time.
 */
#ifndef CS_BUFFERS_H
#define CS_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_BUFFER_BYTES         (512U * 1024U)
#define CS_BUFFERS_MAX          32U
#define CS_BUFFER_RESERVE_BYTES (16U * 1024U)
#define CS_BUFFER_RESERVE_MAX   64U
#define CS_BUFFER_FRESH_MAX     512U
#define CS_BUFFER_ABANDONED_END 64U
#define CS_BUFFER_ABANDONED_MAX 2048U
/* Fresh mappings from which on the buffers run short. A thread that launches graphs fills some 12 a
 * millisecond (1.2 us a record, 70 in each), and the worker stops tracing within one. */
#define CS_BUFFER_FRESH_SHORT 8U

struct cs_buffers {
	uint8_t *pool;    /* NULL before init */
	uint8_t *reserve; /* untouched pages cost nothing until the pool has run out */
	uint32_t count;
	_Atomic uint32_t pool_free;    /* one bit per buffer */
	_Atomic uint64_t reserve_free; /* one bit per buffer */
	_Atomic uint32_t fresh_mapped; /* entries of `fresh` in use, or about to be */
	_Atomic uint32_t fresh_lost;   /* of them, those with another tool, perhaps for good */
	_Atomic uint32_t abandoned;    /* mappings without an account */
	_Atomic uint64_t shared;       /* answers that were the static buffer */
	_Atomic(uint8_t *) fresh[CS_BUFFER_FRESH_MAX];
	_Atomic bool lost[CS_BUFFER_FRESH_MAX];
	/* CLOCK_REALTIME of take, 0 while not held; pool, reserve, fresh in this order */
	_Atomic uint64_t held_since_ns[CS_BUFFERS_MAX + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_MAX];
	_Atomic uint64_t
		number[CS_BUFFERS_MAX + CS_BUFFER_RESERVE_MAX + CS_BUFFER_FRESH_MAX]; /* of the take */
	_Atomic uint64_t taken;
	_Atomic uint64_t requested;
	_Atomic uint64_t completed;
	_Atomic uint64_t short_requests;
};

/* Maps `count` (1 ... CS_BUFFERS_MAX) buffers. 0, -EINVAL, -ENOMEM (then take gives fresh mappings). */
int cs_buffers_init(struct cs_buffers *buffers, uint32_t count);
/* For tests; nothing may be held. */
void cs_buffers_destroy(struct cs_buffers *buffers);
/* What is mapped now: pool, reserve, fresh mappings and those without an account. */
uint64_t cs_buffers_mapped_bytes(const struct cs_buffers *buffers);

/* 8-aligned, never NULL; small when the pool is empty. false: no account is kept of it, so what CUPTI writes
 * into it is lost. `requested` counts all that CUPTI asked for: who is asked owns it. */
bool cs_buffers_take(struct cs_buffers *buffers, uint64_t now_ns, uint8_t **buffer, size_t *bytes);

/* Whether so many are with CUPTI that there will be none left soon: work is launched far ahead of the GPU, or
 * CUPTI hands over more slowly than records come. Tracing should stop until they are back (worker_shed.c).
 */
bool cs_buffers_run_short(const struct cs_buffers *buffers);

/* Whether there were more than there is an account of, by so many that tracing must not go on. */
bool cs_buffers_run_out(const struct cs_buffers *buffers);

/* Whether the buffer is one of ours that is held. Another tool's buffers can come back to us after it has
 * replaced our callbacks and we have registered them again; those are to be left alone. */
bool cs_buffers_is_held(const struct cs_buffers *buffers, const uint8_t *buffer);
void cs_buffers_give(struct cs_buffers *buffers, uint8_t *buffer);

/* How many were taken up to now. */
uint64_t cs_buffers_taken(const struct cs_buffers *buffers);

/* Another tool has replaced our callbacks, so what CUPTI holds now may never come back to us. Until it does
 * it does not make the buffers run short: tracing would end with the first buffer of every window. Returns
 * how many were taken up to now. One thread. */
uint64_t cs_buffers_disown(struct cs_buffers *buffers);

/* Of the buffers taken, the first `ignore_before` are left out of both: after another tool has replaced our
 * callbacks they may never come back. Counted, not timed: a clock may be set. oldest: when the longest-held
 * one was taken; `none_ns` when none is held. */
uint64_t cs_buffers_oldest_ns(const struct cs_buffers *buffers, uint64_t ignore_before, uint64_t none_ns);
uint32_t cs_buffers_held(const struct cs_buffers *buffers, uint64_t ignore_before);

#endif
