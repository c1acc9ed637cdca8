/* SPDX-License-Identifier: Apache-2.0 */
#include "coalesce.h"

#include <stdbool.h>
#include <string.h>

#include "collective.h"

void
cs_coalesce_init(struct cs_coalesce *coalesce, void (*emit)(void *context, const struct cs_record *record),
	void *context)
{
	memset(coalesce, 0, sizeof(*coalesce));
	coalesce->emit = emit;
	coalesce->context = context;
}

static void
close_run(struct cs_coalesce *coalesce, struct cs_coalesce_run *run)
{
	if (run->record.type == 0)
		return;
	coalesce->emit(coalesce->context, &run->record);
	run->record.type = 0;
}

static inline bool
same_run(const struct cs_record *run, const struct cs_record *operation)
{
	return run->type != 0 && run->stream_id == operation->stream_id && run->gpu == operation->gpu &&
	       run->klass == operation->klass && run->flags == operation->flags;
}

static struct cs_coalesce_run *
find_run(struct cs_coalesce *coalesce, const struct cs_record *operation)
{
	uint32_t free_run = CS_COALESCE_RUNS;

	if (same_run(&coalesce->runs[coalesce->last].record, operation))
		return &coalesce->runs[coalesce->last];
	for (uint32_t i = 0; i < coalesce->open; i++) {
		if (same_run(&coalesce->runs[i].record, operation)) {
			coalesce->last = i;
			return &coalesce->runs[i];
		}
		if (free_run == CS_COALESCE_RUNS && coalesce->runs[i].record.type == 0)
			free_run = i;
	}
	if (free_run == CS_COALESCE_RUNS && coalesce->open < CS_COALESCE_RUNS)
		free_run = coalesce->open++;
	if (free_run == CS_COALESCE_RUNS) {
		free_run = coalesce->victim++ % CS_COALESCE_RUNS;
		close_run(coalesce, &coalesce->runs[free_run]);
	}
	coalesce->last = free_run;
	return &coalesce->runs[free_run];
}

/* Whether the operation belongs to the run; the caller has checked stream and class. */
static inline bool
continues(const struct cs_coalesce_run *run, const struct cs_record *operation)
{
	if (run->record.type == 0 || operation->start_ns < run->last_start_ns)
		return false;
	if (operation->start_ns > run->record.end_ns &&
		operation->start_ns - run->record.end_ns > CS_BUSY_GAP_NS)
		return false;
	/* Every eager launch has a correlation id of its own; those of a graph launch share one. */
	return (operation->flags & CS_RECORD_IN_GRAPH) == 0 ||
	       operation->correlation_id == run->record.correlation_id;
}

void
cs_coalesce_add(struct cs_coalesce *coalesce, const struct cs_record *operation)
{
	struct cs_coalesce_run *run = find_run(coalesce, operation);
	struct cs_record *record = &run->record;

	if (!continues(run, operation)) {
		close_run(coalesce, run);
		*record = *operation;
		run->last_start_ns = operation->start_ns;
		return;
	}
	record->ref++;
	run->last_start_ns = operation->start_ns;
	if (operation->klass == CS_BUSY_COPY)
		record->value += operation->value;
	else if (operation->end_ns > record->end_ns)
		/* A kernel may start before its predecessor has ended (programmatic dependent launch). */
		record->value +=
			operation->end_ns -
			(operation->start_ns > record->end_ns ? operation->start_ns : record->end_ns);
	if (operation->end_ns > record->end_ns)
		record->end_ns = operation->end_ns;
}

void
cs_coalesce_break(struct cs_coalesce *coalesce, uint8_t gpu, uint32_t stream_id)
{
	for (uint32_t i = 0; i < coalesce->open; i++) {
		struct cs_coalesce_run *run = &coalesce->runs[i];

		if (run->record.type != 0 && run->record.stream_id == stream_id && run->record.gpu == gpu)
			close_run(coalesce, run);
	}
}

void
cs_coalesce_finish(struct cs_coalesce *coalesce)
{
	for (uint32_t i = 0; i < coalesce->open; i++)
		close_run(coalesce, &coalesce->runs[i]);
	coalesce->open = 0;
	coalesce->last = 0;
}
