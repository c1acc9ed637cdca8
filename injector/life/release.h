/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving CUPTI back before we go dormant: while we held a subscription, or kinds were left on, torch.profiler
 * would see nothing for the life of the process.
 */
#ifndef CS_RELEASE_H
#define CS_RELEASE_H

#include "instance.h"

/* Switches every kind off and unsubscribes. On a thread that is in no CUPTI callback: worker and start-up.
 * Nothing when the process is about to exit or is a forked child. */
void cs_release(struct cs_instance *instance);

/* The same on a thread of its own, from inside a callback, where CUPTI may not be asked to unsubscribe. When
 * no thread can be had, only the callbacks go on being ignored. */
void cs_release_elsewhere(struct cs_instance *instance);

#endif
