/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the process's GPU memory before and after each sampled window, and stops when only windows make it
 * grow (growth.h). Before: in the last turn that ends before the window begins, so that the look, which takes
 * the driver a moment, does not make the window late. NVML tells nothing in containers whose process ids are
 * not the host's, and then nothing is watched.
 */
#include "worker_private.h"

#include "clock.h"
#include "cupti/tracing.h"
#include "life/nvml.h"
#include "life/release.h"

#include <errno.h>
#include <unistd.h>

#define DEVICES_MAX 64U
/* cuptiGetVersion of CUDA 13.3, whose release notes say that leaks are mended. */
#define VERSION_WITHOUT_LEAKS 130300U
#define LEAD_NS               ((CS_WORKER_TURN_MS + 10) * CS_NS_PER_MS)

/* Of all GPUs that this process uses. */
static int
look(struct cs_worker *w, uint64_t *bytes)
{
	bool any = false;

	*bytes = 0;
	if (!w->growth.nvml)
		w->growth.nvml = cs_nvml_open();
	for (uint32_t device = 0; device < DEVICES_MAX; device++) {
		char pci_bus_id[32] = "";
		uint64_t some;

		if (cs_delivery_gpu(device) < 0)
			continue;
		if (w->instance->cupti.device_get_pci_bus_id(
			    pci_bus_id, sizeof(pci_bus_id), (CUdevice)device) != CUDA_SUCCESS ||
			cs_nvml_process_bytes(w->growth.nvml, pci_bus_id, (uint32_t)getpid(), &some) < 0)
			return -ENODATA;
		*bytes += some;
		any = true;
	}
	return any ? 0 : -ENODATA;
}

static void
look_before(struct cs_worker *w)
{
	if (look(w, &w->growth.window.before_bytes) < 0) {
		/* It will not tell next time either. */
		w->growth.blind = true;
		return;
	}
	w->growth.window.begin_ns = w->monotonic_ns;
	w->growth.armed = true;
}

static void
look_after(struct cs_worker *w, uint64_t threshold_bytes)
{
	w->growth.armed = false;
	if (look(w, &w->growth.window.after_bytes) < 0) {
		cs_growth_forget(&w->growth.seen);
		return;
	}
	w->growth.window.end_ns = cs_clock_monotonic_ns();
	if (!cs_growth_add(&w->growth.seen, &w->growth.window, threshold_bytes))
		return;
	cs_release(w->instance);
	cs_instance_go_dormant(
		"GPU memory grew by %llu MiB in %u windows of tracing and not between them, as with a "
		"CUPTI that leaks; use a newer CUPTI, or set COLLSCOPE_DEVICE_GROWTH_MIB",
		(unsigned long long)(w->growth.seen.grown_bytes >> 20), w->growth.seen.windows);
}

void
cs_worker_watch_growth(struct cs_worker *w, const struct cs_schedule_plan *plan)
{
	uint64_t threshold_bytes = (uint64_t)w->instance->settings.device_growth_mib << 20;
	bool deep = cs_tracing_depth() != CS_DEPTH_OFF;

	if (threshold_bytes == 0 || w->instance->cupti.version >= VERSION_WITHOUT_LEAKS ||
		w->schedule.mode != CS_MODE_SAMPLE || w->growth.blind)
		return;
	if (w->yielded || w->lingering) {
		w->growth.armed = false;
		cs_growth_forget(&w->growth.seen);
	} else if (w->growth.was_deep && !deep && w->growth.armed) {
		look_after(w, threshold_bytes);
	} else if (!deep && !w->growth.armed && plan->until_ns > w->now_ns &&
		   plan->until_ns - w->now_ns <= LEAD_NS) {
		look_before(w);
	}
	w->growth.was_deep = deep;
}
