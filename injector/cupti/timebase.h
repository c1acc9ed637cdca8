/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which clock CUPTI's times are of. Everything here counts on CLOCK_REALTIME, which is CUPTI's own choice on
 * Linux: it is common to all ranks of a node. A client may replace it by a function of its own
 * (cuptiActivityRegisterTimestampCallback, CUPTI 11.6 on); there is one for the process. torch.profiler does
 * so at the start of every session, with the processor's ticks (pytorch/kineto, configureCuptiTimestampSource
 * in libkineto/src/CuptiTimestamp.cpp), and leaves it there: seen on an H200 (CUPTI 13.0 Update 1, torch
 * 2.11), 17,000 of 17,001 records that came after its sessions had no valid times.
 *
 * By its header CUPTI has no way back (NULL is CUPTI_ERROR_INVALID_PARAMETER) and no getter;
 * cuptiGetTimestamp "corresponds with the start and end timestamps reported in the activity records", which
 * is how a foreign clock is noticed: read between two looks at CLOCK_REALTIME. Then a function that returns
 * CLOCK_REALTIME is registered, for our windows and whoever comes later without a clock of his own.
 * torch.profiler brings its own again. That it takes effect has been tested on the fake alone; the records
 * show when it does not (worker_times.c).
 *
 * Only where a foreign clock was found, never as a precaution, and while no kind of ours is on: CUPTI 12.6
 * Update 2 to 13.0 are said to give zeros at times once a function is registered (release notes of 13.1), and
 * the first kernels of a session are said to come with times of the default clock, one more for each
 * registration in the process and whoever's it was (pytorch issue 192021); ours adds to the other tool's at
 * most one per session of its own. Records that were made before keep the clock of their time.
 *
 * Converting the times ourselves would take the rate and the origin of a clock of which nothing is known.
 *
 * Worker, between cs_instance_enter_cupti and _leave_.
 */
#ifndef CS_TIMEBASE_H
#define CS_TIMEBASE_H

#include "cupti_api.h"

#include <stdbool.h>

/* More than reading a clock takes, also when the thread is put aside for it. */
#define CS_TIMEBASE_TOLERANCE_NS 1000000000ULL

/* false: the times are of another clock now. true: of CLOCK_REALTIME, or CUPTI does not tell. */
bool cs_timebase_is_ours(const struct cs_cupti_api *cupti);
/* Makes CLOCK_REALTIME the clock of what is traced from now on. true: CUPTI has taken the function, and says
 * so. */
bool cs_timebase_restore(const struct cs_cupti_api *cupti);

#endif
