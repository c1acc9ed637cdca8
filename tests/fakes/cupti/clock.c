/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clock the times are of: CLOCK_REALTIME, until somebody registers a function of his own. There is one
 * for the process, it stays when its owner has stopped, and nothing takes it back. Times of the GPU are
 * converted when they are handed over, by the function that is there then; the fake moves them and leaves
 * durations as they are.
 */
#include "cupti.h"

#include <stdatomic.h>

static _Atomic(CUpti_TimestampCallbackFunc) function;

uint64_t
fake_clock_now(void)
{
	CUpti_TimestampCallbackFunc own = atomic_load(&function);

	return own ? own() : fake_cupti_now_ns();
}

uint64_t
fake_clock_offset(void)
{
	CUpti_TimestampCallbackFunc own = atomic_load(&function);

	return own ? own() - fake_cupti_now_ns() : 0;
}

void
fake_clock_reset(void)
{
	atomic_store(&function, NULL);
}

/* CS_FAKE_CUPTI_CLOCK_STUCK=1: the first stays, whoever comes later. */
CUptiResult
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp)
{
	FAKE_CUPTI_ENTER();
	FAKE_FIRST_KIND();
	if (!funcTimestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!atomic_load(&function) || !fake_number("CS_FAKE_CUPTI_CLOCK_STUCK", 0))
		atomic_store(&function, funcTimestamp);
	return fake_attach();
}
