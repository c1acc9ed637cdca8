/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Living with other users of CUPTI, torch.profiler above all.
 *
 * Subscription. While we hold one, torch.profiler records no GPU event for the life of the process. So it is
 * given up when no graph has been captured for CS_COEXIST_QUIET_NS, or, when there never was a graph,
 * CS_COEXIST_NO_GRAPH_NS after the first context; up to CS_COEXIST_HOLD_NS later while there is work (none
 * for CS_COEXIST_HOLD_IDLE_NS: not) and what tracing costs it has not been measured. Full mode keeps it.
 * Tracing needs none.
 *
 * Buffers. Another tool replaces our buffer callbacks without a word. A window in which work went on and
 * CUPTI neither asked us for a buffer nor returned one is foreign. Buffers that we still have with CUPTI make
 * that less certain (one may have room left): then CS_COEXIST_SILENT_MAX such windows in a row are needed.
 * After a foreign window the kinds are left as they are, and for COLLSCOPE_STEP_BACK_S nothing is touched;
 * then our callbacks are registered again.
 *
 * A tool that takes over within a window shows after it: the buffers that we left with CUPTI do not come
 * back. After CS_COEXIST_RETURN_NS the kinds go on again until it is clear whose CUPTI it is; when it was
 * ours after all CS_COEXIST_PROBES_IN_VAIN times, this is not done any more. They go on, too, when the next
 * window comes sooner and finds CUPTI's clock set by a tool that has the buffers.
 *
 * Whether work went on: graph launches by callback while subscribed; else a process that used at least
 * CS_COEXIST_BUSY_SHARE of a core. Neither is certain: a server that spins may be idle, and one that hardly
 * uses the CPU at work. So CUPTI is asked (witness.h): in the one case before the verdict; in the other after
 * CS_COEXIST_JUDGE_NS, then later and later, CS_COEXIST_IDLE_JUDGED times that at most; foreign is a window
 * then after CS_COEXIST_SILENT_MAX answers in a row that the buffers are not ours.
 *
 * Pure; one thread. All of these times but CS_COEXIST_RETURN_NS can be divided, as a test cannot wait for
 * them: cs_coexist_hurry.
 */
#ifndef CS_COEXIST_H
#define CS_COEXIST_H

#include "environment.h"

#define CS_COEXIST_QUIET_NS       30000000000ULL
#define CS_COEXIST_NO_GRAPH_NS    120000000000ULL
#define CS_COEXIST_FORGIVE_NS     3600000000000ULL
#define CS_COEXIST_SILENT_MAX     3U
#define CS_COEXIST_BUSY_SHARE     0.2
#define CS_COEXIST_HOLD_NS        60000000000ULL
#define CS_COEXIST_HOLD_IDLE_NS   10000000000ULL
#define CS_COEXIST_JUDGE_NS       3000000000ULL
#define CS_COEXIST_IDLE_JUDGED    20U
#define CS_COEXIST_RETURN_NS      500000000ULL
#define CS_COEXIST_PROBES_IN_VAIN 3U

/* Divides CS_COEXIST_QUIET_NS, _NO_GRAPH_NS, _FORGIVE_NS, _HOLD_NS, _HOLD_IDLE_NS and _JUDGE_NS, and the
 * times of stepping back; 1 at first. Start-up, before there is a worker. */
#define CS_COEXIST_HASTE_MAX 1000U
void cs_coexist_hurry(unsigned int divisor);
/* How often the worker looks at what takes long: a second, when hurried less, at least 20 ms. */
uint64_t cs_coexist_look_ns(void);
/* How long without a buffer until a verdict is due. */
uint64_t cs_coexist_judge_ns(void);

/* How long to step back: base_s seconds, and after `before` verdicts that came soon after each other 2, 5,
 * and 10 times that. forgives: since_last_ns is long enough for them not to count any more
 * (CS_COEXIST_FORGIVE_NS). */
uint64_t cs_coexist_step_back_ns(uint32_t base_s, unsigned int before);
bool cs_coexist_forgives(uint64_t since_last_ns);

/* last_graph_ns: cs_labels_last_graph_ns(), 0 none. All CLOCK_MONOTONIC: setting the clock changes nothing.
 */
bool cs_coexist_should_unsubscribe(
	enum cs_mode mode, uint64_t now_ns, uint64_t first_context_ns, uint64_t last_graph_ns);

/* Past that moment: whether to keep the subscription for measuring what tracing costs (governor.h), since
 * `since_ns`, when the last launch was seen at launched_ns. Only while there is work, and for
 * CS_COEXIST_HOLD_NS at most. All CLOCK_MONOTONIC. */
bool cs_coexist_should_hold(uint64_t now_ns, uint64_t since_ns, uint64_t launched_ns);

/* What happened between two looks at the counters. */
struct cs_coexist_window {
	uint64_t requested, completed; /* buffers */
	uint32_t held;                 /* at the beginning */
	bool subscribed;
	uint64_t launches; /* graph launches by callback; with `subscribed` */
	uint64_t cpu_ns;   /* of the process without our own */
	uint64_t length_ns;
};

enum cs_coexist_verdict {
	CS_COEXIST_OURS,   /* buffers came our way */
	CS_COEXIST_IDLE,   /* nothing happened, nothing to tell */
	CS_COEXIST_SILENT, /* work went on, but it may be in buffers that CUPTI still holds */
	CS_COEXIST_FOREIGN,
};

/* *silent counts silent windows in a row; begin with 0. */
enum cs_coexist_verdict cs_coexist_judge(const struct cs_coexist_window *window, unsigned int *silent);

#endif
