/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether anybody has traced since CUPTI was initialised: what has to be known before cuptiFinalize, which
 * ends a process that has traced a kernel at its next graph launch, whoever traced it.
 *
 * CUPTI tells nobody about another client, has no getter for the buffer callbacks, and answers
 * cuptiActivityFlushAll with success even when nobody ever registered any (measured, against its header). So
 * our callbacks are registered before the first context, when nothing can have been traced, and serve as
 * witness: a tool that wants records has to take their place, or else CUPTI asks us for its buffers. At the
 * end cuptiActivityEnableAndDump(DEVICE) makes CUPTI write a record of each device: when the buffer for it is
 * asked of us, and none was before, nobody has traced. Measured on an H200 (driver 580, CUPTI 13.0 Update 1):
 * the request comes inside that call, the records come with the next flush, and cuptiFinalize is harmless
 * after it (14 of 14 processes, under load), as it is after the registration alone.
 *
 * The same question tells a window in which no buffer came because nothing was launched from one in which
 * another tool has taken over. The other tool then finds a record of each device in its buffers.
 *
 * A tool that comes at the very moment between the answer and cuptiFinalize is not seen; what it would have
 * to do in these microseconds is to register, enable and launch. Start-up and worker, between enter and
 * leave.
 */
#ifndef CS_WITNESS_H
#define CS_WITNESS_H

#include "life/instance.h"

/* Puts the witness in place; from InitializeInjection, subscribed, when no tool was there before. */
void cs_witness_begin(struct cs_instance *instance);

/* Our callbacks are registered once more, perhaps in the place of a tool that has traced: it proves nothing
 * any more that they are there. */
void cs_witness_void(void);

/* true: CUPTI asks us for its buffers now, or returns them to us, so they are no other tool's. false: they
 * are, or CUPTI put the record into a buffer that it has, or cannot tell. Our callbacks have been registered.
 * Two flushes and a record per device. */
bool cs_witness_answers(struct cs_instance *instance);

/* true: proof that nobody has traced. false: somebody has, or it cannot be told. A flush and one record. */
bool cs_witness_clears(struct cs_instance *instance);

#endif
