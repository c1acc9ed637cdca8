/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rooms of the worker (worker.h), all on its one thread:
 *
 *   worker.c           the loop: what is due, and how long to sleep
 *   worker_clock.c     what time it is
 *   worker_windows.c   opens and closes windows
 *   worker_sampling.c  which windows of the plan are worth their cost, and what they taught
 *   worker_delivery.c  flushes
 *   worker_coexist.c   whose CUPTI is it
 *   worker_status.c    what stands in the segment
 *   worker_still.c     no kernel ends: does the GPU work or rest
 *   worker_shed.c      buffers run short, or out
 *   worker_times.c     records without good times
 *   worker_growth.c    GPU memory that grows
 */
#ifndef CS_WORKER_PRIVATE_H
#define CS_WORKER_PRIVATE_H

#include "life/exporter_spawn.h"
#include "life/nvml.h"
#include "records/delivery.h"
#include "sampling/governor.h"
#include "sampling/growth.h"
#include "sampling/schedule.h"
#include "sampling/windows.h"
#include "worker.h"

/* After a window its last records are still on their way: so long we go on flushing, and wait with a verdict
 * on who owns CUPTI. Longer than the longest step. */
#define CS_WORKER_DRAIN_NS (3 * CS_NS_PER_S)

/* While tracing is on and no kernel ends; all 0 otherwise. */
struct cs_worker_still {
	uint64_t kernels, since_ns; /* received so far, and none since */
	uint64_t ask_ns;            /* monotonic: when to ask, or until when to wait for the answer */
	bool asked;
};

struct cs_worker {
	struct cs_instance *instance;
	struct cs_segment_writer *writer;
	struct cs_status *status;
	struct cs_schedule schedule;
	struct cs_governor governor;
	struct cs_windows windows;
	uint64_t now_ns, monotonic_ns; /* of this turn */
	uint64_t ahead_ns;             /* the one less the other; 0 there was no turn */

	uint64_t next_flush_ns, next_second_ns; /* monotonic */
	uint64_t drain_until_ns;                /* monotonic */
	uint64_t next_tell_ns;                  /* monotonic: of captured graphs */
	uint64_t next_age_ns;                   /* monotonic: of what is known by calls */

	/* The stretch of tracing that is to be judged; begun at the first window after a verdict. */
	bool judging;
	struct cs_delivery_counts judge_from;
	uint64_t judge_begin_ns, judge_until_ns; /* monotonic */
	uint64_t judge_launches, judge_cpu_ns;
	unsigned int silent;
	struct {
		uint64_t ask_ns,
			pause_ns;    /* monotonic: not sooner is CUPTI asked again; since the last answer */
		unsigned int silent; /* answers in a row that the buffers are not ours */
	} idle;                      /* nothing comes, and the process hardly uses the CPU */
	bool lingering;              /* the window should be over, its kinds are still on */

	/* When records came to us last, CLOCK_REALTIME, 0 never; and the counts that showed it. */
	uint64_t evidence_ns;
	struct cs_delivery_counts evidence;

	/* What shows that the buffers are ours when a window is to end: since it began, and since the last
	 * flush before its end. */
	struct cs_delivery_counts opened, flushed;
	/* After a window: buffers that it left with CUPTI have to come back to us. */
	bool awaiting;
	uint64_t awaited_completed, await_until_ns; /* monotonic */
	bool probing;
	unsigned int probes_in_vain;
	uint64_t last_probe_ns;     /* monotonic: of the last of them */
	unsigned int silent_paused; /* answers in a row, while paused, that the buffers are not ours */

	bool yielded;
	unsigned int yields;         /* in a row, each soon after the other */
	uint64_t last_yield_ns;      /* monotonic */
	uint64_t step_back_until_ns; /* monotonic */
	uint64_t ignore_before;      /* so many of the buffers that were taken are with another tool */
	uint64_t yield_requested;    /* buffers that CUPTI had asked us for by then */

	/* The sampling window that is open, or the last one until it is settled with the governor. */
	bool sampling;                       /* one is open */
	bool unsettled;                      /* it has ended */
	bool asked;                          /* the window that is open, or opens, somebody asked for */
	bool shed;                           /* it was ended because buffers ran short */
	bool waited;                         /* it was still waiting for work when it ended */
	bool clock_set;                      /* since it began: its times measure nothing */
	uint64_t sampling_begin_ns;          /* monotonic */
	uint64_t sampling_end_ns, settle_ns; /* monotonic: when it ended, when its records should be in */
	uint64_t work_ns;      /* monotonic: since when there is work in it, 0: none was seen yet */
	uint64_t prolonged_ns; /* monotonic: it goes on until then, 0: it goes by the plan */
	bool skipping;         /* the window `skipped_ordinal` is not opened, or was cut short */
	uint32_t skipped_ordinal;
	/* Since when nothing but measuring speaks for the subscription, 0: something else does; the last
	 * launch that was seen, and how many then. */
	uint64_t holding_ns, launched_ns; /* monotonic */
	uint64_t launches;

	struct cs_worker_still still;
	uint64_t shedding_ns; /* monotonic: since then tracing rests, buffers ran short; 0 it does not */
	struct {
		uint64_t completed,
			heard_ns;    /* monotonic: when a buffer came back last, or was asked after */
		unsigned int silent; /* answers in a row that they are another tool's */
	} shed_watch;
	struct {
		struct cs_growth seen;
		struct cs_growth_window window;
		struct cs_nvml *nvml;
		bool blind;    /* NVML does not tell */
		bool armed;    /* looked at before a window */
		bool was_deep; /* in the last turn */
	} growth;
	uint64_t random;
	unsigned int failures;
	struct {
		struct cs_delivery_counts looked; /* when they were looked at last */
		uint64_t timed, bad, strange;     /* of windows, not judged yet */
		bool set_forward;                 /* CLOCK_REALTIME was, in this process */
		bool may_follow; /* and no record has shown yet that CUPTI does not follow it */
	} times;
	bool clock_replaced; /* CUPTI has had another clock than its own, in this process */
	bool restore_clock;  /* and has it still, whatever it says */
	bool finalized;      /* CUPTI has left; the next window brings it back */
	char stays[320];     /* demand mode: why CUPTI could not be let go of; "" it could */
	struct cs_exporter_watch exporter_watch;
	char reason[256];
};

/* worker_clock.c. read: at the beginning of a turn; take: the same with given clocks. When CLOCK_REALTIME was
 * set in between, no window spans that. */
void cs_worker_read_clocks(struct cs_worker *w);
void cs_worker_take_clocks(struct cs_worker *w, uint64_t now_ns, uint64_t monotonic_ns);

/* worker_windows.c. set_depth: CUPTI's kinds alone; the others with the bookkeeping of windows. turn_window:
 * what the plan says; open, close: now, whatever it says. */
void cs_worker_set_depth(struct cs_worker *w, enum cs_depth depth);
void cs_worker_turn_window(struct cs_worker *w, const struct cs_schedule_plan *plan);
void cs_worker_open_window(struct cs_worker *w, uint32_t ordinal);
void cs_worker_close_window(struct cs_worker *w, uint32_t ordinal);

/* worker_sampling.c. plan: takes back what the account does not pay for, and cuts short a window that costs
 * more than was thought. begin, end: a window has been opened, closed. prolong: work has come to one that
 * waited for it; true: it begins now. shed: buffers run short, before the window is closed for that. govern:
 * settles the last window when its records are in. hold: whether the subscription is worth keeping a little
 * longer; note_launches: once a second, for that. */
void cs_worker_plan_sampling(struct cs_worker *w, struct cs_schedule_plan *plan);
void cs_worker_begin_sampling(struct cs_worker *w);
void cs_worker_end_sampling(struct cs_worker *w);
bool cs_worker_prolong_sampling(struct cs_worker *w);
void cs_worker_shed_sampling(struct cs_worker *w);
void cs_worker_govern(struct cs_worker *w);
bool cs_worker_hold_for_measuring(const struct cs_worker *w);
void cs_worker_note_launches(struct cs_worker *w);

/* worker_delivery.c. settle_when_sure: after a flush that began after the windows were closed; and not before
 * it is known whose they were. */
void cs_worker_flush(struct cs_worker *w);
void cs_worker_flush_when_due(struct cs_worker *w);
void cs_worker_settle_when_sure(struct cs_worker *w);

/* worker_coexist.c. buffers_came: since the stretch that is being judged began. expect_buffers: a window has
 * ended, what it left with CUPTI is to come back; watch_return: whether it does. pause: the request has been
 * taken. may_trace: before kinds go on; false: CUPTI's times are of another tool's clock, and we have stepped
 * back. yield_to_other: the buffers are another tool's; steps back, and touches no kind. yield_clock: the
 * records' times are; closes the window and steps back. watch_left_on: while stepped back, whether the kinds
 * that were left on are of use to anybody else; come_back: when it is time.
 */
void cs_worker_begin_judging(struct cs_worker *w);
bool cs_worker_buffers_came(const struct cs_worker *w, const struct cs_delivery_counts *counts);
void cs_worker_judge(struct cs_worker *w);
void cs_worker_expect_buffers(struct cs_worker *w);
void cs_worker_watch_return(struct cs_worker *w);
void cs_worker_watch_left_on(struct cs_worker *w);
void cs_worker_come_back(struct cs_worker *w);
bool cs_worker_ask_witness(struct cs_worker *w);
void cs_worker_pause(struct cs_worker *w);
bool cs_worker_may_trace(struct cs_worker *w);
void cs_worker_yield_to_other(struct cs_worker *w);
void cs_worker_yield_clock(struct cs_worker *w, const char *what);
void cs_worker_give_up_subscription(struct cs_worker *w);
void cs_worker_release_subscription(struct cs_worker *w);
void cs_worker_unsubscribe_when_quiet(struct cs_worker *w);

/* worker_status.c */
void cs_worker_name_devices(struct cs_worker *w);
void cs_worker_update_status(struct cs_worker *w);
void cs_worker_update_memory(struct cs_worker *w);
void cs_worker_answer_requests(struct cs_worker *w);

/* worker_still.c; once a second. */
void cs_worker_watch_still(struct cs_worker *w);

/* worker_shed.c, each turn. sheds: CUPTI has nearly all buffers, so nothing is to be traced now.
 * watch_buffers may end in going dormant. */
bool cs_worker_sheds(struct cs_worker *w);
void cs_worker_watch_buffers(struct cs_worker *w);

/* worker_times.c. begin: what came so far does not count; watch: once a second, may end in going dormant or
 * stepping back; note_clock_set: CLOCK_REALTIME has been set. */
void cs_worker_begin_timestamps(struct cs_worker *w);
void cs_worker_watch_timestamps(struct cs_worker *w);
void cs_worker_note_clock_set(struct cs_worker *w, bool forward);

/* worker_growth.c; each turn. May end in going dormant. */
void cs_worker_watch_growth(struct cs_worker *w, const struct cs_schedule_plan *plan);

#endif
