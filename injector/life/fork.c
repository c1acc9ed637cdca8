/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child is dead to us: it has no thread of ours, CUPTI hangs in it (FlushAll in a forked child never
 * returns), and the segment is the parent's. So the child forgets the segment and never calls CUPTI again. A
 * child that then executes another program starts anew from its environment.
 */
#include "context.h"
#include "instance.h"
#include "library.h"

static void
before_fork(void)
{
	cs_context_hold_life(true);
	cs_library_hold(true);
}

static void
after_fork(void)
{
	cs_library_hold(false);
	cs_context_hold_life(false);
}

static void
forget_in_child(void)
{
	struct cs_instance *instance = cs_instance_get();
	struct cs_segment_writer *writer = atomic_load(&instance->writer);

	atomic_store(&instance->dead, true);
	atomic_store(&instance->writer, NULL);
	if (writer)
		cs_segment_writer_abandon(writer);
	cs_library_forget();
	cs_context_hold_life(false);
}

void
cs_fork_register(void)
{
	pthread_atfork(before_fork, after_fork, forget_in_child);
}
