/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one instance of this process: its state, and the two ways in which it ends.
 *
 * Dormant: we gave up (reason on stderr and in the segment); no CUPTI call is made any more. Dead: this is a
 * forked child; nothing of ours may be touched. In both cases CUPTI may still call us, and buffers are still
 * answered.
 *
 * Thread context: any, unless stated.
 */
#ifndef CS_INSTANCE_H
#define CS_INSTANCE_H

#include "catalog/catalog.h"
#include "cupti/cupti_api.h"
#include "injector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct cs_instance {
	struct cs_settings settings;
	struct cs_cupti_api cupti;
	struct cs_catalog *catalog;
	char directory[CS_PATH_BYTES]; /* run directory */

	bool may_share; /* CUPTI may be asked for a place beside others; start-up */
	bool no_room;   /* not even for a segment that says so; start-up */
	_Atomic bool dead;
	_Atomic bool dormant;
	_Atomic bool exiting;
	_Atomic uint32_t leaving;     /* enum cs_leaving; a futex that the worker sleeps on */
	_Atomic uint32_t cupti_calls; /* of ours, under way: what the exit handler waits for */
	_Atomic bool traced;          /* an activity kind has been on: cuptiFinalize is out of the question */
	_Atomic bool callbacks_registered;
	_Atomic uint64_t first_context_ns; /* CLOCK_MONOTONIC, 0 none yet */
	uint64_t device_bytes;             /* cap of CUPTI's buffers per context */
	_Atomic(struct cs_segment_writer *) writer;
};

/* Between the exit handler and the worker: hand over what is complete, once more. */
enum cs_leaving {
	CS_LEAVING_NO_WORKER = 0,
	CS_LEAVING_NOT = 1, /* the worker runs */
	CS_LEAVING_ASKED = 2,
	CS_LEAVING_DONE = 3
};

struct cs_instance *cs_instance_get(void);

/* Neither dead nor dormant nor about to exit. */
bool cs_instance_active(void);

/* Hands the writer out to everybody; once, when label tables and buffers are ready. */
void cs_instance_publish_writer(struct cs_segment_writer *writer);

/*
 * Gives up for good: one line on stderr, state and reason in the segment. `reason` is a sentence without a
 * full stop, with what to do. Before the first context a small segment is made for the reason alone, so that
 * `collscope status` can show it; it is removed at exit. Start-up and worker.
 */
void cs_instance_go_dormant(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* STATUS state, and PROCESS reason ("" = none) when it has changed; nothing but DORMANT once we are. Worker
 * and start-up. */
void cs_instance_set_state(enum cs_state state, const char *reason);

/*
 * Around every CUPTI call of ours outside CUPTI's callbacks, and around those of driver and NVML on other
 * threads than the worker. false: do not call (exiting, dead or dormant).
 * The exit handler waits (at most CS_INSTANCE_EXIT_WAIT_MS) until nobody is between the two, then lets the
 * process go.
 */
bool cs_instance_enter_cupti(void);
void cs_instance_leave_cupti(void);
#define CS_INSTANCE_EXIT_WAIT_MS 200U

/* The worker's sleep, at most `sleep_ns`; a nudge or wake ends it early. wakes: cs_instance_wakes() before
 * the worker looked at what there is to do: whatever came since makes it look again. */
void cs_instance_sleep(uint64_t sleep_ns, uint32_t wakes);
uint32_t cs_instance_wakes(void);
/* Asks the worker to look at once. Any thread; one system call. */
void cs_instance_nudge(void);
/* Exit handler: asks the worker for a last flush. false: there is no worker. */
bool cs_instance_wake(void);

/* start.c: what InitializeInjection does. Never fails; at most once per process; nothing at all, not even a
 * word, in a process that the kernel calls secure (AT_SECURE: set-user-ID, file capabilities). */
void cs_instance_start(void);
/* fork.c, exit.c: registers the handlers. Start-up. */
void cs_fork_register(void);
void cs_exit_register(void);
/* device_memory.c: caps CUPTI's device buffers; before any context. */
void cs_device_memory_cap(struct cs_instance *instance);

#endif
