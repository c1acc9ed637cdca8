/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#define RANGES   2048U
#define LAUNCHES 8192U

struct range {
	uint64_t start_ns, end_ns;
	uint64_t thread;
	uint32_t name_id;
};

struct launch {
	struct cs_record record;
	bool seen;
};

struct cs_host {
	struct range ranges[RANGES];      /* ring */
	size_t range_count;               /* ever */
	struct launch launches[LAUNCHES]; /* by correlation id */
};

struct cs_host *
cs_host_new(void)
{
	return calloc(1, sizeof(struct cs_host));
}

void
cs_host_destroy(struct cs_host *host)
{
	free(host);
}

void
cs_host_clear(struct cs_host *host)
{
	memset(host, 0, sizeof(*host));
}

void
cs_host_note(struct cs_host *host, const struct cs_record *record)
{
	if (record->type == CS_RECORD_MARK && record->end_ns > record->start_ns) {
		host->ranges[host->range_count++ % RANGES] = (struct range){
			.start_ns = record->start_ns,
			.end_ns = record->end_ns,
			.thread = record->value,
			.name_id = record->ref,
		};
	} else if (record->type == CS_RECORD_HOST_LAUNCH && record->correlation_id) {
		host->launches[record->correlation_id % LAUNCHES] = (struct launch){.record = *record};
	}
}

static const struct cs_record *
find_launch(const struct cs_host *host, uint32_t correlation_id)
{
	const struct cs_record *record = &host->launches[correlation_id % LAUNCHES].record;

	return correlation_id && record->type && record->correlation_id == correlation_id ? record : NULL;
}

static bool
holds(const struct range *range, const struct cs_record *launch, const struct cs_step *step)
{
	if (launch)
		return range->thread == launch->value && range->start_ns <= launch->start_ns &&
		       range->end_ns >= launch->start_ns;
	return range->start_ns <= step->start_ns && range->end_ns >= step->end_ns;
}

/* Keeps the shortest ones, in order of length. */
static size_t
insert(struct cs_host_range *ranges, size_t count, const struct range *range)
{
	uint64_t length_ns = range->end_ns - range->start_ns;
	size_t at = count;

	while (at > 0 && ranges[at - 1].end_ns - ranges[at - 1].start_ns > length_ns)
		at--;
	if (at == CS_HOST_RANGES_MAX)
		return count;
	if (count == CS_HOST_RANGES_MAX)
		count--;
	for (size_t i = count; i > at; i--)
		ranges[i] = ranges[i - 1];
	ranges[at] = (struct cs_host_range){range->start_ns, range->end_ns, range->name_id};
	return count + 1;
}

size_t
cs_host_ranges(const struct cs_host *host, const struct cs_step *step,
	struct cs_host_range ranges[CS_HOST_RANGES_MAX])
{
	const struct cs_record *launch = find_launch(host, step->correlation_id);
	size_t filled = host->range_count < RANGES ? host->range_count : RANGES;
	size_t count = 0;

	for (size_t i = 0; i < filled; i++) {
		if (holds(&host->ranges[i], launch, step))
			count = insert(ranges, count, &host->ranges[i]);
	}
	return count;
}

bool
cs_host_pending(const struct cs_host *host, uint32_t gpu, uint64_t before_ns, struct cs_record *launch)
{
	uint64_t after_ns = 0;
	bool found = false;

	for (size_t i = 0; i < LAUNCHES; i++) {
		const struct launch *at = &host->launches[i];

		if (at->record.type && at->record.gpu == gpu && at->seen && at->record.start_ns > after_ns)
			after_ns = at->record.start_ns;
	}
	for (size_t i = 0; i < LAUNCHES; i++) {
		const struct launch *at = &host->launches[i];

		if (!at->record.type || at->record.gpu != gpu || at->seen ||
			at->record.start_ns >= before_ns || at->record.start_ns <= after_ns)
			continue;
		if (!found || at->record.start_ns < launch->start_ns)
			*launch = at->record;
		found = true;
	}
	return found;
}

void
cs_host_seen(struct cs_host *host, uint32_t correlation_id)
{
	struct launch *launch = &host->launches[correlation_id % LAUNCHES];

	if (launch->record.type && launch->record.correlation_id == correlation_id)
		launch->seen = true;
}
