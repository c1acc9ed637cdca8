/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to many processes: posted to all of them before the first answer is waited for, so that what
 * they agree to can begin at one moment. Thread context: main thread.
 */
#ifndef CS_ASKING_H
#define CS_ASKING_H

#include "targets.h"

struct cs_asked {
	struct cs_target *target; /* borrowed */
	struct cs_segment_asker *asker;
	int result;    /* 0 agreed, else a negative errno */
	bool refused;  /* `result` is the process's own answer */
	bool unposted; /* the question has not reached it */
	bool marked;   /* the caller's own */
	struct cs_error error;
};

struct cs_asking {
	struct cs_asked *items;
	size_t count;
};

/* Opens the segment of each target for asking; what cannot be opened has its result set. 0 or -ENOMEM. Close
 * it in every case. */
int cs_asking_open(struct cs_asking *asking, const struct cs_targets *targets);
/* Posts to all and collects all answers until deadline_ns (CLOCK_MONOTONIC). Returns how many agreed. */
size_t cs_asking_ask(
	struct cs_asking *asking, const struct cs_segment_question *question, uint64_t deadline_ns);
/* Takes a TRACE back from everybody whom it reached, also from those who have not answered: they find the
 * cancellation in its place. Waits for the others until deadline_ns. */
void cs_asking_cancel(
	struct cs_asking *asking, const struct cs_segment_question *question, uint64_t deadline_ns);
void cs_asking_close(struct cs_asking *asking);

#endif
