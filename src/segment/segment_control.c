/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's side of CONTROL. The reader's is in segment_request.c. */
#include "barrier.h"
#include "segment_writer_private.h"

bool
cs_segment_writer_take_request(struct cs_segment_writer *writer, struct cs_segment_request *request)
{
	const struct cs_control *control;
	uint64_t sequence;

	if (!cs_segment_writer_usable(writer))
		return false;
	control = writer->control;
	/* Pairs with the release of the even number in segment_request.c. */
	sequence = atomic_load_explicit(&control->request_sequence, memory_order_acquire);
	if ((sequence & 1) != 0 ||
		sequence == atomic_load_explicit(&writer->status->control_done, memory_order_relaxed))
		return false;
	request->sequence = sequence;
	request->command = atomic_load_explicit(&control->command, memory_order_relaxed);
	request->from_ns = atomic_load_explicit(&control->from_ns, memory_order_relaxed);
	request->until_ns = atomic_load_explicit(&control->until_ns, memory_order_relaxed);
	request->argument = atomic_load_explicit(&control->argument, memory_order_relaxed);
	cs_fence_check();
	return atomic_load_explicit(&control->request_sequence, memory_order_relaxed) == sequence;
}

void
cs_segment_writer_answer(
	struct cs_segment_writer *writer, const struct cs_segment_request *request, int error)
{
	if (!cs_segment_writer_usable(writer))
		return;
	atomic_store_explicit(
		&writer->status->control_result, error > 0 ? (uint64_t)error : 0, memory_order_relaxed);
	/* Pairs with the acquire of control_done in segment_request.c. */
	atomic_store_explicit(&writer->status->control_done, request->sequence, memory_order_release);
}
