/* SPDX-License-Identifier: Apache-2.0 */
/* When work runs on the simulated GPU, as the program says, and how the GPU's clock tells it. */
#include "driver.h"

#include <stdatomic.h>

static _Thread_local struct {
	const struct cs_fake_span *spans;
	size_t count;
} plan;
static _Atomic uint64_t late;

static struct {
	int64_t offset_ns;
	int64_t drift_ppb;
	uint64_t epoch_ns;
} clocks[CS_FAKE_DEVICES_MAX];

void
fake_plan_set(const struct cs_fake_span *spans, size_t count)
{
	plan.spans = spans;
	plan.count = count;
}

bool
fake_plan_take(const struct cs_fake_span **spans, size_t expected)
{
	if (!plan.spans)
		return false;
	if (plan.count != expected)
		fake_misuse("a plan of %zu spans for %zu operations", plan.count, expected);
	*spans = plan.spans;
	plan.spans = NULL;
	if (expected > 0 && (*spans)[0].start_ns < fake_now_ns())
		atomic_fetch_add_explicit(&late, 1, memory_order_relaxed);
	return true;
}

uint64_t
fake_plan_late_launches(void)
{
	return atomic_load_explicit(&late, memory_order_relaxed);
}

void
fake_set_clock(int device, int64_t offset_ns, int64_t drift_ppb, uint64_t epoch_ns)
{
	if (device < 0 || device >= CS_FAKE_DEVICES_MAX)
		fake_misuse("set_clock of device %d", device);
	clocks[device].offset_ns = offset_ns;
	clocks[device].drift_ppb = drift_ppb;
	clocks[device].epoch_ns = epoch_ns;
}

uint64_t
fake_gpu_time(int device, uint64_t true_ns)
{
	return cs_fake_clock_apply(
		true_ns, clocks[device].offset_ns, clocks[device].drift_ppb, clocks[device].epoch_ns);
}
