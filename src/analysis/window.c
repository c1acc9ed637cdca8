/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <string.h>

static void
add_deep(struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns)
{
	size_t at = windows->deep_count;

	while (at > 0 && windows->deep[at - 1].start_ns > start_ns)
		at--;
	if (at > 0 && windows->deep[at - 1].end_ns >= start_ns) {
		if (windows->deep[at - 1].end_ns < end_ns)
			windows->deep[at - 1].end_ns = end_ns;
		return;
	}
	if (windows->deep_count == CS_WINDOWS_MAX) {
		if (at == 0)
			return;
		memmove(windows->deep, windows->deep + 1, (CS_WINDOWS_MAX - 1) * sizeof(windows->deep[0]));
		windows->deep_count--;
		at--;
	}
	memmove(windows->deep + at + 1, windows->deep + at,
		(windows->deep_count - at) * sizeof(windows->deep[0]));
	windows->deep[at] = (struct cs_span){start_ns, end_ns};
	windows->deep_count++;
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
	size_t at = windows->opened_count;

	windows->told = true;
	if (start_ns < windows->newest_end_ns)
		return;
	while (at > 0 && windows->opened_ns[at - 1] > start_ns)
		at--;
	if (windows->opened_count == CS_WINDOWS_OPEN_MAX) {
		if (at == 0)
			return;
		memmove(windows->opened_ns, windows->opened_ns + 1,
			(CS_WINDOWS_OPEN_MAX - 1) * sizeof(windows->opened_ns[0]));
		windows->opened_count--;
		at--;
	}
	memmove(windows->opened_ns + at + 1, windows->opened_ns + at,
		(windows->opened_count - at) * sizeof(windows->opened_ns[0]));
	windows->opened_ns[at] = start_ns;
	windows->opened_count++;
}

/* Windows end in the order in which they opened, so those that opened before this end have ended too. */
static void
close_until(struct cs_windows *windows, uint64_t end_ns)
{
	size_t gone = 0;

	while (gone < windows->opened_count && windows->opened_ns[gone] < end_ns)
		gone++;
	windows->opened_count -= gone;
	memmove(windows->opened_ns, windows->opened_ns + gone,
		windows->opened_count * sizeof(windows->opened_ns[0]));
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
		add_deep(windows, record->start_ns, record->end_ns);
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

/* When the open window began that holds start_ns, which is not before the newest end. */
static bool
find_open(const struct cs_windows *windows, uint64_t start_ns, uint64_t *since_ns)
{
	*since_ns = windows->told ? windows->opened_ns[0] : windows->newest_end_ns;
	return !windows->told || (windows->opened_count > 0 && *since_ns <= start_ns);
}

/* The next slice began where this one ended. */
static bool
goes_on(const struct cs_windows *windows, const struct cs_span *deep)
{
	return windows->opened_count > 0 && windows->opened_ns[0] == deep->end_ns;
}

bool
cs_windows_saw(const struct cs_windows *windows, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t since_ns;

	if (is_lossy(windows, start_ns, end_ns))
		return false;
	if (start_ns >= windows->newest_end_ns)
		return find_open(windows, start_ns, &since_ns);
	for (size_t i = windows->deep_count; i-- > 0;) {
		if (windows->deep[i].start_ns > start_ns)
			continue;
		return end_ns <= windows->deep[i].end_ns || goes_on(windows, &windows->deep[i]);
	}
	return false;
}

bool
cs_windows_find(const struct cs_windows *windows, uint64_t start_ns, struct cs_span *span)
{
	if (start_ns >= windows->newest_end_ns) {
		span->end_ns = UINT64_MAX;
		return find_open(windows, start_ns, &span->start_ns);
	}
	for (size_t i = windows->deep_count; i-- > 0;) {
		if (windows->deep[i].start_ns <= start_ns) {
			*span = windows->deep[i];
			return start_ns <= span->end_ns;
		}
	}
	return false;
}
