/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <string.h>

/* Both lists are in the order of starts, and the newest comes last nearly always. How many start no later:
 * the place of one that starts then. */
static size_t
count_started(const struct cs_span *spans, size_t count, uint64_t start_ns)
{
	while (count > 0 && spans[count - 1].start_ns > start_ns)
		count--;
	return count;
}

/* The oldest makes room in a full list, which has none for one older still. */
static void
insert(struct cs_span *spans, size_t *count, size_t max, size_t at, struct cs_span span)
{
	if (*count == max) {
		if (at == 0)
			return;
		memmove(spans, spans + 1, (max - 1) * sizeof(*spans));
		--*count;
		at--;
	}
	memmove(spans + at + 1, spans + at, (*count - at) * sizeof(*spans));
	spans[at] = span;
	++*count;
}

static void
add_deep(struct cs_windows *windows, struct cs_span span)
{
	size_t at = count_started(windows->deep, windows->deep_count, span.start_ns);
	struct cs_span *before = at > 0 ? &windows->deep[at - 1] : NULL;

	if (!before || before->end_ns < span.start_ns)
		insert(windows->deep, &windows->deep_count, CS_WINDOWS_MAX, at, span);
	else if (before->end_ns < span.end_ns)
		before->end_ns = span.end_ns;
}

/* Causes that take kernels or copies away; the others lose names or say something of the window itself. */
static bool
loses_records(uint32_t cause)
{
	switch (cause) {
	case CS_LOSS_CUPTI_DROPPED:
	case CS_LOSS_BAD_TIMESTAMP:
	case CS_LOSS_POOL_EMPTY:
	case CS_LOSS_RING_CONTENDED:
	case CS_LOSS_RING_OVERRUN:
	case CS_LOSS_RING_HOLE:
	case CS_LOSS_FOREIGN_OWNER:
	case CS_LOSS_UNKNOWN_DEVICE:
		return true;
	default:
		return false;
	}
}

static void
open_one(struct cs_windows *windows, uint64_t start_ns)
{
	struct cs_span span = {start_ns, UINT64_MAX};
	size_t at = count_started(windows->opened, windows->opened_count, start_ns);

	windows->told = true;
	if (start_ns >= windows->newest_end_ns)
		insert(windows->opened, &windows->opened_count, CS_WINDOWS_OPEN_MAX, at, span);
}

/* Windows end in the order in which they opened, so those that opened before this end have ended too. */
static void
close_until(struct cs_windows *windows, uint64_t end_ns)
{
	size_t gone = 0;

	while (gone < windows->opened_count && windows->opened[gone].start_ns < end_ns)
		gone++;
	windows->opened_count -= gone;
	memmove(windows->opened, windows->opened + gone, windows->opened_count * sizeof(windows->opened[0]));
}

void
cs_windows_note(struct cs_windows *windows, const struct cs_record *record)
{
	if (record->type == CS_RECORD_LOSS && loses_records(record->ref)) {
		windows->losses[windows->loss_count++ % CS_LOSSES_MAX] =
			(struct cs_span){record->start_ns, record->end_ns};
		return;
	}
	if (record->type == CS_RECORD_WINDOW_OPEN && (record->flags & 0x0fU) == CS_DEPTH_DEEP)
		open_one(windows, record->start_ns);
	if (record->type != CS_RECORD_WINDOW)
		return;
	if (record->end_ns > windows->newest_end_ns) {
		windows->newest_end_ns = record->end_ns;
		close_until(windows, record->end_ns);
	}
	if ((record->flags & 0x0fU) == CS_DEPTH_DEEP && !(record->flags & CS_RECORD_WINDOW_FOREIGN))
		add_deep(windows, (struct cs_span){record->start_ns, record->end_ns});
}

static bool
is_lossy(const struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns)
{
	size_t count = windows->loss_count < CS_LOSSES_MAX ? windows->loss_count : CS_LOSSES_MAX;

	for (size_t i = 0; i < count; i++) {
		if (windows->losses[i].start_ns <= end_ns && windows->losses[i].end_ns >= start_ns)
			return true;
	}
	return false;
}

/* The open window that holds start_ns, which is not before the newest end. */
static bool
find_open(const struct cs_windows *windows, uint64_t start_ns, struct cs_span *span)
{
	*span = windows->told ? windows->opened[0] : (struct cs_span){windows->newest_end_ns, UINT64_MAX};
	return !windows->told || (windows->opened_count > 0 && span->start_ns <= start_ns);
}

/* The deep window that has ended and began last before start_ns, whether or not it holds it. NULL: none. */
static const struct cs_span *
find_deep(const struct cs_windows *windows, uint64_t start_ns)
{
	size_t started = count_started(windows->deep, windows->deep_count, start_ns);

	return started > 0 ? &windows->deep[started - 1] : NULL;
}

/* The next slice began where this one ended. */
static bool
goes_on(const struct cs_windows *windows, const struct cs_span *deep)
{
	return windows->opened_count > 0 && windows->opened[0].start_ns == deep->end_ns;
}

bool
cs_windows_saw(const struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns)
{
	const struct cs_span *deep;
	struct cs_span open;

	if (is_lossy(windows, start_ns, end_ns))
		return false;
	if (start_ns >= windows->newest_end_ns)
		return find_open(windows, start_ns, &open);
	deep = find_deep(windows, start_ns);
	return deep && (end_ns <= deep->end_ns || goes_on(windows, deep));
}

bool
cs_windows_find(const struct cs_windows *windows, uint64_t start_ns, struct cs_span *span)
{
	const struct cs_span *deep;

	if (start_ns >= windows->newest_end_ns)
		return find_open(windows, start_ns, span);
	deep = find_deep(windows, start_ns);
	if (!deep)
		return false;
	*span = *deep;
	return start_ns <= span->end_ns;
}
