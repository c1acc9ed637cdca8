/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our one thread. It follows the schedule (schedule.h), hands records over (FlushAll every COLLSCOPE_FLUSH_MS
 * while there is something to hand over), answers requests from CONTROL, keeps STATUS up to date, and decides
 * when to give up the subscription or to stand aside (coexist.h). It never
 * holds a lock while it calls CUPTI.
 */
#ifndef CS_WORKER_H
#define CS_WORKER_H

#include "life/instance.h"

/* Longest sleep: how late a request is answered, and how old a heartbeat gets. */
#define CS_WORKER_TURN_MS 100U

/* Once; from the thread that creates the first context. 0 or -errno. */
int cs_worker_start(struct cs_instance *instance, struct cs_segment_writer *writer);

/* Before cs_worker_start: another tool (its name, "" unknown) holds CUPTI; begin by waiting for it to go. */
void cs_worker_stand_aside(const char *other);

#endif
