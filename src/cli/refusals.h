/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said of processes that were asked and have not agreed: eight ranks mostly answer alike, which is
 * said once. Thread context: main thread.
 */
#ifndef CS_REFUSALS_H
#define CS_REFUSALS_H

#include "asking.h"

/* One sentence on stderr for each kind of failure. option: what chose the processes on the command line
 * ("--all"). waited_ns: how long answers were waited for. */
void cs_refusals_say(const struct cs_asking *asking, const char *option, uint64_t waited_ns);

#endif
