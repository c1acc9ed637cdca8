/* SPDX-License-Identifier: Apache-2.0 */
#include "refusals.h"

#include "clock.h"
#include "log.h"
#include "status.h"
#include "units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum kind {
	AGREED,
	PAUSED,
	TRACED, /* on request, already */
	BUSY,
	TOO_LONG,
	NOT_ALLOWED,
	LATE,
	REFUSED, /* for another reason */
	SILENT,
	ENDED,
	READ_ONLY,
	FAILED /* could not be asked */
};

struct refusal {
	enum kind kind;
	uint64_t most_ns;  /* TOO_LONG */
	uint64_t until_ns; /* TRACED: not part of what is alike */
	const char *state; /* BUSY; else "" */
	const char *text;  /* reason or error; "" none */
};

static enum kind
kind_of_answer(const struct cs_asked *asked, bool fresh)
{
	switch (-asked->result) {
	case EALREADY:
		return TRACED;
	case EBUSY:
		return fresh && asked->target->status.state == CS_STATE_PAUSED ? PAUSED : BUSY;
	case ERANGE:
		return TOO_LONG;
	case EPERM:
		return NOT_ALLOWED;
	case ETIME:
		return LATE;
	default:
		return REFUSED;
	}
}

static enum kind
kind_of_failure(const struct cs_asked *asked)
{
	switch (-asked->result) {
	case ETIMEDOUT:
		return SILENT;
	case ENOTCONN:
		return ENDED;
	case EACCES:
	case EPERM:
	case EROFS:
		return READ_ONLY;
	default:
		return FAILED;
	}
}

static struct refusal
classify(const struct cs_asked *asked)
{
	struct cs_target *target = asked->target;
	struct refusal refusal = {.kind = AGREED, .state = "", .text = ""};
	bool fresh;

	if (asked->result == 0)
		return refusal;
	/* Why it refuses stands in what it says now: when it was looked at, a moment after its segment was
	 * made, it may not have said it yet. */
	fresh = asked->refused && cs_target_refresh(target) == 0;
	refusal.kind = asked->refused ? kind_of_answer(asked, fresh) : kind_of_failure(asked);
	if (refusal.kind == TRACED && fresh)
		refusal.until_ns = target->status.request_until_ns;
	if (refusal.kind == TOO_LONG)
		refusal.most_ns = target->status.trace_max_ns;
	if (refusal.kind == BUSY) {
		refusal.state = cs_status_state(target);
		refusal.text = target->dictionary->process.reason;
	}
	if (refusal.kind == REFUSED)
		refusal.text = strerrordesc_np(-asked->result);
	if (refusal.kind == FAILED)
		refusal.text = asked->error.text[0] ? asked->error.text : strerrordesc_np(-asked->result);
	if (!refusal.text)
		refusal.text = "unknown error";
	return refusal;
}

static bool
is_alike(const struct refusal *a, const struct refusal *b)
{
	return a->kind == b->kind && a->most_ns == b->most_ns && strcmp(a->state, b->state) == 0 &&
	       strcmp(a->text, b->text) == 0;
}

/* Those of one sentence. */
struct group {
	struct refusal refusal;
	size_t count;
	char who[64]; /* "Process 4711", "All 8 processes", "3 of 8 processes" */
};

static void
name_group(struct group *group, size_t all, uint32_t pid)
{
	if (group->count == 1)
		snprintf(group->who, sizeof(group->who), "Process %u", pid);
	else if (group->count == all)
		snprintf(group->who, sizeof(group->who), "All %zu processes", all);
	else
		snprintf(group->who, sizeof(group->who), "%zu of %zu processes", group->count, all);
}

static void
say_answer(const struct group *group, const char *option)
{
	const struct refusal *refusal = &group->refusal;
	bool one = group->count == 1;
	const char *refuses = one ? "refuses" : "refuse", *it = one ? "it" : "they", *is = one ? "is" : "are";
	char text[CS_UNITS_TEXT_BYTES], when[CS_UNITS_MOMENT_BYTES];

	switch (refusal->kind) {
	case PAUSED:
		cs_log_error("%s %s paused: `collscope resume %s` first", group->who, is, option);
		break;
	case TRACED:
		cs_log_error(
			"%s %s traced on request already, until %s: wait, or end that trace with --replace",
			group->who, is,
			cs_units_format_moment(refusal->until_ns, cs_clock_realtime_ns(), when));
		break;
	case BUSY:
		if (refusal->text[0])
			cs_log_error("%s %s: %s %s %s: %s", group->who, refuses, it, is, refusal->state,
				refusal->text);
		else
			cs_log_error("%s %s: nothing can be traced there now", group->who, refuses);
		break;
	case TOO_LONG:
		if (refusal->most_ns == 0 || refusal->most_ns == UINT64_MAX)
			cs_log_error("%s %s: that is too long", group->who, refuses);
		else
			cs_log_error("%s %s: %s may be traced for %s at most (COLLSCOPE_TRACE_MAX_S)",
				group->who, refuses, it, cs_units_format_duration(refusal->most_ns, text));
		break;
	case NOT_ALLOWED:
		cs_log_error("%s %s: %s may not be traced on request (COLLSCOPE_TRACE_MAX_S=0)", group->who,
			refuses, it);
		break;
	case LATE:
		cs_log_error("%s %s too late to begin with the others", group->who, one ? "was" : "were");
		break;
	default:
		cs_log_error("%s %s: %s", group->who, refuses, refusal->text);
		break;
	}
}

static void
say_failure(const struct group *group, uint64_t waited_ns)
{
	bool one = group->count == 1;

	switch (group->refusal.kind) {
	case SILENT:
		cs_log_error("%s %s not answered within %.1f s: %s stopped?", group->who,
			one ? "has" : "have", (double)waited_ns / (double)CS_NS_PER_S,
			one ? "is it" : "are they");
		break;
	case ENDED:
		cs_log_error("%s %s ended", group->who, one ? "has" : "have");
		break;
	case READ_ONLY:
		cs_log_error("%s cannot be asked: the segment may not be written; run this as the user of "
			     "%s",
			group->who, one ? "that process" : "those processes");
		break;
	default:
		cs_log_error("%s cannot be asked: %s", group->who, group->refusal.text);
		break;
	}
}

/* All that are like the first, which is at `at`; they count as told. */
static struct group
collect(const struct cs_asking *asking, struct refusal *refusals, size_t at)
{
	struct group group = {.refusal = refusals[at]};

	for (size_t i = at; i < asking->count; i++) {
		if (!is_alike(&group.refusal, &refusals[i]))
			continue;
		group.count++;
		if (refusals[i].until_ns > group.refusal.until_ns)
			group.refusal.until_ns = refusals[i].until_ns;
		refusals[i].kind = AGREED;
	}
	name_group(&group, asking->count, asking->items[at].target->pid);
	return group;
}

void
cs_refusals_say(const struct cs_asking *asking, const char *option, uint64_t waited_ns)
{
	struct refusal *refusals = calloc(asking->count ? asking->count : 1, sizeof(*refusals));

	if (!refusals) {
		cs_log_error("Not all processes have agreed");
		return;
	}
	for (size_t i = 0; i < asking->count; i++)
		refusals[i] = classify(&asking->items[i]);
	for (size_t i = 0; i < asking->count; i++) {
		struct group group;

		if (refusals[i].kind == AGREED)
			continue;
		group = collect(asking, refusals, i);
		if (group.refusal.kind < SILENT)
			say_answer(&group, option);
		else
			say_failure(&group, waited_ns);
	}
	free(refusals);
}
