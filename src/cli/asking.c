/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include <errno.h>
#include <stdlib.h>

int
cs_asking_open(struct cs_asking *asking, const struct cs_targets *targets)
{
	asking->count = 0;
	asking->items = calloc(targets->count ? targets->count : 1, sizeof(asking->items[0]));
	if (!asking->items)
		return -ENOMEM;
	asking->count = targets->count;
	for (size_t i = 0; i < asking->count; i++) {
		struct cs_asked *asked = &asking->items[i];

		asked->target = targets->items[i];
		asked->unposted = true;
		cs_error_clear(&asked->error);
		asked->result = cs_segment_asker_open(asked->target->path, &asked->asker, &asked->error);
	}
	return 0;
}

static void
post(struct cs_asked *asked, const struct cs_segment_question *question, uint64_t deadline_ns)
{
	if (!asked->asker)
		return;
	cs_error_clear(&asked->error);
	asked->refused = false;
	asked->result = cs_segment_post(asked->asker, question, deadline_ns, &asked->error);
	asked->unposted = asked->result != 0;
}

static void
collect(struct cs_asked *asked, uint64_t deadline_ns)
{
	if (asked->unposted)
		return;
	asked->result = cs_segment_collect(asked->asker, deadline_ns, &asked->error);
	asked->refused = cs_segment_asker_was_answered(asked->asker);
}

size_t
cs_asking_ask(struct cs_asking *asking, const struct cs_segment_question *question, uint64_t deadline_ns)
{
	size_t agreed = 0;

	for (size_t i = 0; i < asking->count; i++)
		post(&asking->items[i], question, deadline_ns);
	for (size_t i = 0; i < asking->count; i++) {
		collect(&asking->items[i], deadline_ns);
		agreed += asking->items[i].result == 0;
	}
	return agreed;
}

void
cs_asking_cancel(struct cs_asking *asking, const struct cs_segment_question *question, uint64_t deadline_ns)
{
	struct cs_segment_question cancel = *question;

	cancel.command = CS_COMMAND_CANCEL;
	for (size_t i = 0; i < asking->count; i++) {
		struct cs_asked *asked = &asking->items[i];

		/* The lock is held since the question was posted. */
		if (!asked->unposted)
			cs_segment_post(asked->asker, &cancel, deadline_ns, NULL);
	}
	for (size_t i = 0; i < asking->count; i++) {
		struct cs_asked *asked = &asking->items[i];

		if (!asked->unposted && (asked->result == 0 || asked->refused))
			cs_segment_collect(asked->asker, deadline_ns, NULL);
	}
}

void
cs_asking_close(struct cs_asking *asking)
{
	for (size_t i = 0; i < asking->count; i++)
		cs_segment_asker_close(asking->items[i].asker);
	free(asking->items);
	asking->items = NULL;
	asking->count = 0;
}
