/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Best effort at exit. The worker is asked to hand over once more what is complete; then no new call of
 * CUPTI, driver or NVML begins, one that is under way gets a moment to end, and the state says EXITED. This
 * thread never touches CUPTI: should the driver be half gone already and a call hang, it is the worker that
 * hangs, and the process goes on to end. A process that is killed never comes here; what was delivered before
 * is in the segment all the same.
 */
#include "clock.h"
#include "instance.h"

#include <stdlib.h>
#include <unistd.h>

static void
say_goodbye(void)
{
	struct cs_instance *instance = cs_instance_get();
	struct cs_segment_writer *writer = atomic_load(&instance->writer);
	uint64_t give_up_ns = cs_clock_monotonic_ns() + CS_INSTANCE_EXIT_WAIT_MS * CS_NS_PER_MS;

	if (atomic_load(&instance->dead))
		return;
	if (cs_instance_wake())
		while (atomic_load(&instance->leaving) == CS_LEAVING_ASKED &&
			cs_clock_monotonic_ns() < give_up_ns)
			usleep(1000);
	atomic_store(&instance->exiting, true);
	while (atomic_load(&instance->cupti_calls) != 0 && cs_clock_monotonic_ns() < give_up_ns)
		usleep(1000);
	if (!writer)
		return;
	if (atomic_load(&instance->dormant) && atomic_load(&instance->first_context_ns) == 0)
		unlink(cs_segment_writer_path(writer)); /* it held the reason and nothing else */
	atomic_store(&cs_segment_writer_status(writer)->state, (uint64_t)CS_STATE_EXITED);
}

void
cs_exit_register(void)
{
	atexit(say_goodbye);
}
