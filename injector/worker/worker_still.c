/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing is on and no kernel ends: is the server idle, or does a kernel hang? Nothing that CUPTI hands over
 * tells, since a kernel that never ends leaves no record, but NVML does: a kernel that spins keeps the GPU at
 * 100 %. Asked only then, so a server that works costs nothing, and one that rests an answer now and then.
 *
 * Driver and NVML are asked on a thread of their own: beside a GPU that hangs either may hang as well, and
 * the worker has a pause to answer and an exit to flush for. One question at a time; one without an answer is
 * answered "unknown".
 */
#include "worker_private.h"

#include "clock.h"
#include "life/thread.h"

#define ASK_NS (5 * CS_NS_PER_S)

/* FREE -> ASKED by the worker, ASKED -> ANSWERED by the thread that asks (release; pairs with the worker's
 * acquire), ANSWERED -> FREE by the worker. */
enum { FREE, ASKED, ANSWERED };

static struct {
	_Atomic uint32_t state;
	const struct cs_cupti_api *cupti;
	uint64_t devices;               /* bit per CUDA ordinal */
	uint64_t value[CS_DEVICES_MAX]; /* percent, or CS_STILL_UNKNOWN */
} question;

_Static_assert(CS_DEVICES_MAX <= 64, "one bit of devices each");

/* Percent of the time; CS_STILL_UNKNOWN also where others use the GPU, whose work is not ours. */
static uint64_t
ask_one(struct cs_nvml *nvml, uint32_t device)
{
	char pci_bus_id[32] = "";
	unsigned int percent;

	if (question.cupti->device_get_pci_bus_id(pci_bus_id, sizeof(pci_bus_id), (CUdevice)device) !=
			CUDA_SUCCESS ||
		cs_nvml_busy_percent(nvml, pci_bus_id, &percent))
		return CS_STILL_UNKNOWN;
	return percent;
}

/* What is under way when the process exits gets a moment to end, as CUPTI's calls do, and nothing new begins:
 * driver and NVML are taken down then. */
static void
ask_all(void)
{
	struct cs_nvml *nvml = cs_nvml_open();

	for (uint32_t device = 0; device < CS_DEVICES_MAX && cs_instance_active(); device++)
		if (nvml && question.devices >> device & 1)
			question.value[device] = ask_one(nvml, device);
	cs_nvml_close(nvml);
}

static void *
ask(void *argument)
{
	(void)argument;
	for (uint32_t device = 0; device < CS_DEVICES_MAX; device++)
		question.value[device] = CS_STILL_UNKNOWN;
	if (cs_instance_enter_cupti()) {
		ask_all();
		cs_instance_leave_cupti();
	}
	atomic_store_explicit(&question.state, ANSWERED, memory_order_release);
	return NULL;
}

static void
begin_asking(const struct cs_worker *w)
{
	question.cupti = &w->instance->cupti;
	question.devices = 0;
	for (uint32_t device = 0; device < CS_DEVICES_MAX; device++)
		if (cs_delivery_gpu(device) >= 0)
			question.devices |= UINT64_C(1) << device;
	atomic_store_explicit(&question.state, ASKED, memory_order_relaxed);
	if (cs_thread_start(ask, NULL) < 0)
		atomic_store_explicit(&question.state, FREE, memory_order_relaxed);
}

static void
write_records(struct cs_worker *w, bool answered)
{
	for (uint32_t device = 0; device < CS_DEVICES_MAX; device++) {
		int gpu = cs_delivery_gpu(device);
		struct cs_record record = {.type = CS_RECORD_STILL,
			.gpu = (uint8_t)gpu,
			.start_ns = w->still.since_ns,
			.end_ns = w->now_ns,
			.value = CS_STILL_UNKNOWN};

		/* The clock may have been set back. */
		if (gpu < 0 || record.end_ns < record.start_ns)
			continue;
		if (answered && question.devices >> device & 1)
			record.value = question.value[device];
		cs_segment_writer_append(w->writer, &record);
	}
}

/* What was asked in another stillness is of no use in this one. */
static void
drop_answer(void)
{
	uint32_t answered = ANSWERED;

	atomic_compare_exchange_strong(&question.state, &answered, FREE);
}

static void
ask_or_write(struct cs_worker *w)
{
	uint32_t state = atomic_load_explicit(&question.state, memory_order_acquire);

	if (w->still.asked && (state == ANSWERED || w->monotonic_ns >= w->still.ask_ns)) {
		write_records(w, state == ANSWERED);
		drop_answer();
		w->still.asked = false;
		return;
	}
	if (w->still.asked || w->monotonic_ns < w->still.ask_ns || state == ASKED)
		return;
	drop_answer();
	begin_asking(w);
	w->still.asked = true;
	w->still.ask_ns = w->monotonic_ns + ASK_NS;
}

void
cs_worker_watch_still(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	if (w->yielded || w->windows.open.depth != CS_DEPTH_DEEP || counts.kernels == 0) {
		w->still = (struct cs_worker_still){0};
		return;
	}
	if (w->still.since_ns == 0 || counts.kernels != w->still.kernels) {
		w->still = (struct cs_worker_still){.kernels = counts.kernels,
			.since_ns = w->now_ns,
			.ask_ns = w->monotonic_ns + CS_NS_PER_S / 2};
		return;
	}
	ask_or_write(w);
}
