/* SPDX-License-Identifier: Apache-2.0 */
#include "instance.h"

#include "clock.h"
#include "identity.h"
#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REASON_RING_SLOTS 1024U

static struct cs_instance instance = {
	.settings =
		{
			.mode = CS_MODE_SAMPLE,
			.budget = 0.01,
			.exporter = true,
			.listen = "127.0.0.1:19400",
			.log_level = CS_LOG_WARN,
			.ring_mib = 8,
			.period_ms = 10000,
			.window_ms = 100,
			.trace_max_s = 600,
			.device_growth_mib = 256,
			.step_back_s = 60,
			.flush_ms = 100,
			.buffers = 16,
			.device_mib = 12,
			.nccl = true,
			.nvtx = true,
		},
};

static char library_path[PATH_MAX];
static pthread_once_t library_path_once = PTHREAD_ONCE_INIT;

struct cs_instance *
cs_instance_get(void)
{
	return &instance;
}

bool
cs_instance_active(void)
{
	return !atomic_load_explicit(&instance.dead, memory_order_relaxed) &&
	       !atomic_load_explicit(&instance.dormant, memory_order_relaxed) &&
	       !atomic_load_explicit(&instance.exiting, memory_order_relaxed);
}

struct cs_segment_writer *
cs_injector_borrow_writer(void)
{
	if (atomic_load_explicit(&instance.dead, memory_order_relaxed) ||
		atomic_load_explicit(&instance.dormant, memory_order_relaxed))
		return NULL;
	/* Pairs with cs_instance_publish_writer. */
	return atomic_load_explicit(&instance.writer, memory_order_acquire);
}

const struct cs_settings *
cs_injector_borrow_settings(void)
{
	return &instance.settings;
}

static void
find_library_path(void)
{
	Dl_info info;

	if (dladdr((void *)(uintptr_t)&cs_instance_get, &info) == 0 || !info.dli_fname)
		return;
	/* Relative when CUDA_INJECTION64_PATH was; children may start elsewhere. */
	if (!realpath(info.dli_fname, library_path))
		library_path[0] = '\0';
}

const char *
cs_injector_library_path(void)
{
	int saved_errno = errno;

	pthread_once(&library_path_once, find_library_path);
	errno = saved_errno;
	return library_path;
}

void
cs_instance_publish_writer(struct cs_segment_writer *writer)
{
	atomic_store_explicit(&instance.writer, writer, memory_order_release);
}

void
cs_instance_set_state(enum cs_state state, const char *reason)
{
	/* Written by one thread at a time: start-up, then the worker. */
	static char last[256];
	struct cs_segment_writer *writer = atomic_load_explicit(&instance.writer, memory_order_acquire);

	if (!writer || atomic_load_explicit(&instance.dead, memory_order_relaxed))
		return;
	/* The worker goes dormant in the middle of a turn, at whose end it says what it was before. */
	if (state != CS_STATE_DORMANT && atomic_load_explicit(&instance.dormant, memory_order_relaxed))
		return;
	atomic_store_explicit(
		&cs_segment_writer_status(writer)->state, (uint64_t)state, memory_order_relaxed);
	if (strncmp(last, reason, sizeof(last) - 1) == 0)
		return;
	snprintf(last, sizeof(last), "%s", reason);
	cs_segment_writer_text(writer, CS_TEXT_REASON, reason);
}

/* A segment that says why there is nothing else. Failure is fine: stderr has the reason. */
static void
make_reason_segment(void)
{
	struct cs_segment_options options = {
		.directory = instance.directory, .ring_slots = REASON_RING_SLOTS, .version = CS_VERSION};
	struct cs_segment_writer *writer;

	if (!instance.directory[0] && cs_settings_prepare_directory(&instance.settings, instance.directory,
					      sizeof(instance.directory)) < 0)
		return;
	if (cs_segment_writer_create(&options, &writer) < 0)
		return;
	atomic_store_explicit(&cs_segment_writer_status(writer)->mode, (uint64_t)instance.settings.mode,
		memory_order_relaxed);
	atomic_store_explicit(&cs_segment_writer_status(writer)->heartbeat_ns, cs_clock_realtime_ns(),
		memory_order_relaxed);
	cs_identity_fill_names(writer);
	cs_instance_publish_writer(writer);
}

void
cs_instance_go_dormant(const char *format, ...)
{
	int saved_errno = errno;
	char reason[256];
	va_list arguments;

	if (atomic_exchange(&instance.dormant, true))
		return;
	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	cs_log_warn("Collective profiling is off in this process: %s.", reason);
	if (!atomic_load(&instance.writer) && !instance.no_room)
		make_reason_segment();
	cs_instance_set_state(CS_STATE_DORMANT, reason);
	errno = saved_errno;
}

bool
cs_instance_enter_cupti(void)
{
	atomic_fetch_add(&instance.cupti_calls, 1);
	/* After the increment, in one total order with the exit handler's store and wait. */
	if (!atomic_load(&instance.exiting) && !atomic_load(&instance.dead) &&
		!atomic_load(&instance.dormant))
		return true;
	atomic_fetch_sub(&instance.cupti_calls, 1);
	return false;
}

void
cs_instance_leave_cupti(void)
{
	atomic_fetch_sub(&instance.cupti_calls, 1);
}

/* Grows with each wake, so that one which comes before the worker sleeps is not lost. */
static _Atomic uint32_t wakes_so_far;

void
cs_instance_sleep(uint64_t sleep_ns, uint32_t wakes)
{
	struct timespec pause = {
		.tv_sec = (time_t)(sleep_ns / CS_NS_PER_S), .tv_nsec = (long)(sleep_ns % CS_NS_PER_S)};

	/* Relative, so on CLOCK_MONOTONIC. */
	syscall(SYS_futex, &wakes_so_far, FUTEX_WAIT_PRIVATE, wakes, &pause, NULL, 0);
}

uint32_t
cs_instance_wakes(void)
{
	return atomic_load(&wakes_so_far);
}

void
cs_instance_nudge(void)
{
	atomic_fetch_add(&wakes_so_far, 1);
	syscall(SYS_futex, &wakes_so_far, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool
cs_instance_wake(void)
{
	uint32_t expected = CS_LEAVING_NOT;

	if (!atomic_compare_exchange_strong(&instance.leaving, &expected, CS_LEAVING_ASKED))
		return false;
	cs_instance_nudge();
	return true;
}
