/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From segments to collectives and steps: reads the rings of several processes, hands the records to one
 * analysis in order of time over all of them (it matches ranks, so no process may run ahead by its horizon),
 * and passes results on.
 *
 * Thread context: one thread per feed.
 */
#ifndef CS_FEED_H
#define CS_FEED_H

#include "analysis/analysis.h"
#include "targets.h"

struct cs_feed; /* opaque */

/* Where a result comes from: cs_collective.source, cs_step.source, or the number given to `other`. Borrowed,
 * valid during the call. */
const struct cs_target *cs_feed_borrow_target(const struct cs_feed *feed, uint32_t source);

/*
 * Takes the readers of `targets` (borrowed: must outlive the feed). `steps_file`: a user's rules; NULL or
 * empty: none. 0; -ENOMEM; -EINVAL after a sentence on stderr about the rule file.
 */
int cs_feed_new(struct cs_targets *targets, const char *steps_file, const struct cs_analysis_sink *sink,
	struct cs_feed **feed);
void cs_feed_destroy(struct cs_feed *feed); /* NULL is fine */

/* Adds what cs_targets_rescan has brought. 0 or -ENOMEM. */
int cs_feed_update(struct cs_feed *feed);

/* Reads and analyses all records that are in the rings now, also where the clock was set back while they were
 * written: first what is from before that, of all processes, then the rest. *record_count gets how many (may
 * be NULL). A segment that has become unreadable is said, and dropped. 0 or -ENOMEM. */
int cs_feed_poll(struct cs_feed *feed, uint64_t *record_count);
/*
 * For who polls again and again, after cs_feed_advance, with targets that were refreshed before the poll. Of
 * processes that have ended and whose rings the poll read to their ends: closes the files at once; and some
 * seconds later, when their peers' records have been matched with theirs, lets the analysis forget them and
 * takes them out of targets->items.
 */
void cs_feed_let_go(struct cs_feed *feed);
/* CLOCK_REALTIME at which the last poll began; 0 before the first. A reader that is kept from running has not
 * seen what came meanwhile, so this, not the clock, is how far the records are known. */
uint64_t cs_feed_polled_ns(const struct cs_feed *feed);
/* Record time has reached cs_feed_polled_ns. */
void cs_feed_advance(struct cs_feed *feed);
/* cs_analysis_list_stalls as of cs_feed_polled_ns, which is told who has ended; after cs_feed_advance. */
size_t cs_feed_list_stalls(struct cs_feed *feed, uint64_t threshold_ns,
	void (*take)(void *context, const struct cs_stall *stall), void *context);
/* Hands out everything, and says on stderr how many records the analysis could not take: at the end. */
void cs_feed_drain(struct cs_feed *feed);

#endif
