/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing is on and no kernel ends: is the server idle, or does a kernel hang? Nothing that CUPTI hands over
 * tells, since a kernel that never ends leaves no record, but NVML does: a kernel that spins keeps the GPU at
 * 100 %. Asked only then, so a server that works costs nothing, and one that rests an answer now and then.
 */
#include "worker_private.h"

#include "clock.h"

#define ASK_NS      (5 * CS_NS_PER_S)
#define DEVICES_MAX 64U

static void
forget(struct cs_worker *w)
{
	cs_nvml_close(w->still.nvml);
	w->still = (struct cs_worker_still){0};
}

/* Percent of the time; CS_STILL_UNKNOWN also where others use the GPU, whose work is not ours. */
static uint64_t
ask(struct cs_worker *w, uint32_t device)
{
	char pci_bus_id[32] = "";
	unsigned int percent;

	if (w->instance->cupti.device_get_pci_bus_id(pci_bus_id, sizeof(pci_bus_id), (CUdevice)device) !=
			CUDA_SUCCESS ||
		cs_nvml_busy_percent(w->still.nvml, pci_bus_id, &percent))
		return CS_STILL_UNKNOWN;
	return percent;
}

static void
write_records(struct cs_worker *w)
{
	for (uint32_t device = 0; device < DEVICES_MAX; device++) {
		int gpu = cs_delivery_gpu(device);
		struct cs_record record = {.type = CS_RECORD_STILL,
			.gpu = (uint8_t)gpu,
			.start_ns = w->still.since_ns,
			.end_ns = w->now_ns};

		/* The clock may have been set back. */
		if (gpu < 0 || record.end_ns < record.start_ns)
			continue;
		record.value = ask(w, device);
		cs_segment_writer_append(w->writer, &record);
	}
}

void
cs_worker_watch_still(struct cs_worker *w)
{
	struct cs_delivery_counts counts;

	cs_delivery_count(w->ignore_before, &counts);
	if (w->yielded || w->windows.open.depth != CS_DEPTH_DEEP || counts.kernels == 0) {
		forget(w);
		return;
	}
	if (w->still.since_ns == 0 || counts.kernels != w->still.kernels) {
		forget(w);
		w->still.kernels = counts.kernels;
		w->still.since_ns = w->now_ns;
		w->still.ask_ns = w->monotonic_ns + CS_NS_PER_S / 2;
		return;
	}
	if (w->monotonic_ns < w->still.ask_ns)
		return;
	w->still.ask_ns = w->monotonic_ns + ASK_NS;
	if (!w->still.nvml)
		w->still.nvml = cs_nvml_open();
	write_records(w);
}
