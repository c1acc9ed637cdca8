/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include "clock.h"
#include "processes.h"
#include "segment/segment_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
cs_page_text(struct cs_buffer *buffer, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			cs_buffer_text(buffer, "&amp;");
			break;
		case '<':
			cs_buffer_text(buffer, "&lt;");
			break;
		case '>':
			cs_buffer_text(buffer, "&gt;");
			break;
		case '"':
			cs_buffer_text(buffer, "&quot;");
			break;
		case '\'':
			cs_buffer_text(buffer, "&#39;");
			break;
		default:
			cs_buffer_char(buffer, *text);
			break;
		}
	}
}

static void
cell(struct cs_buffer *buffer, const char *text)
{
	cs_buffer_text(buffer, "<td>");
	cs_page_text(buffer, text);
	cs_buffer_text(buffer, "</td>");
}

static void
number_cell(struct cs_buffer *buffer, int64_t number)
{
	if (number < 0)
		cell(buffer, "unknown");
	else
		cs_buffer_format(buffer, "<td>%" PRId64 "</td>", number);
}

/* The table lists processes by GPU, whatever order they were found in, and those that have ended last. */
struct row {
	int32_t gpu, rank;
	uint32_t pid;
	bool ended;
	size_t at, bytes; /* in rows.text */
};

struct rows {
	struct cs_buffer text;
	struct row items[CS_PROCESSES_MAX];
	size_t count, ended_count;
};

static int
compare(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

static int
compare_rows(const void *a, const void *b)
{
	const struct row *first = a, *second = b;
	int by_gpu = compare(first->gpu, second->gpu);
	int by_rank = compare(first->rank, second->rank);

	if (first->ended != second->ended)
		return first->ended ? 1 : -1;
	if (by_gpu)
		return by_gpu;
	return by_rank ? by_rank : compare(first->pid, second->pid);
}

static uint64_t
load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void
write_row(void *context, const struct cs_traced *traced)
{
	struct rows *rows = context;
	const struct cs_dictionary *dictionary = traced->dictionary;
	uint64_t mode = load(&traced->status.mode);
	bool alive = traced->stage == CS_TRACED_LIVE;
	uint64_t now_ns = cs_clock_realtime_ns();
	uint64_t silent_ns = cs_segment_silent_ns(&traced->status, alive, now_ns);
	const char *state, *reason;
	char silent[96];
	struct row *row;

	if (!dictionary || rows->count == CS_PROCESSES_MAX)
		return;
	state = cs_segment_state_word(&traced->status, alive, now_ns);
	reason = dictionary->process.reason;
	if (!*reason && strcmp(state, CS_SEGMENT_STATE_ENDED) == 0)
		reason = "without a word: killed, or crashed";
	if (silent_ns) {
		snprintf(silent, sizeof(silent),
			"no sign from the profiler's thread for %" PRIu64 " s: is the process stopped?",
			(uint64_t)(silent_ns / CS_NS_PER_S));
		reason = silent;
	}
	row = &rows->items[rows->count++];
	*row = (struct row){.gpu = traced->gpu,
		.rank = traced->rank,
		.pid = dictionary->process.pid,
		.ended = !alive,
		.at = rows->text.length};
	rows->ended_count += row->ended;
	cs_buffer_text(&rows->text, row->ended ? "<tr class=\"ended\">" : "<tr>");
	number_cell(&rows->text, traced->gpu);
	number_cell(&rows->text, traced->rank);
	number_cell(&rows->text, dictionary->process.pid);
	cell(&rows->text, dictionary->process.comm);
	cell(&rows->text, cs_mode_name(mode < CS_MODE_COUNT ? (unsigned int)mode : CS_MODE_COUNT));
	cell(&rows->text, state);
	cs_buffer_format(&rows->text, "<td>%" PRIu64 "</td><td>%" PRIu64 "</td>",
		load(&traced->status.records[CS_RECORD_COLLECTIVE]), cs_segment_lost(&traced->status));
	cell(&rows->text, reason);
	cs_buffer_text(&rows->text, "</tr>\n");
	row->bytes = rows->text.length - row->at;
}

/* No table where it would have no rows. Returns how many; of those *ended_count are no more. */
static size_t
write_table(struct cs_buffer *buffer, struct cs_ingest *ingest, size_t *ended_count)
{
	struct rows rows = {.count = 0};

	cs_buffer_init(&rows.text);
	cs_ingest_each(ingest, write_row, &rows);
	if (rows.text.failed)
		buffer->failed = true;
	else
		qsort(rows.items, rows.count, sizeof(rows.items[0]), compare_rows);
	if (rows.count)
		cs_buffer_text(buffer,
			"<table><thead><tr><th>GPU</th><th>Rank</th><th>PID</th><th>Command</th>"
			"<th>Mode</th><th>State</th><th>Collectives</th><th>Lost</th><th>Reason</th></tr>"
			"</thead><tbody>\n");
	for (size_t i = 0; i < rows.count && !buffer->failed; i++)
		cs_buffer_bytes(buffer, rows.text.data + rows.items[i].at, rows.items[i].bytes);
	if (rows.count)
		cs_buffer_text(buffer, "</tbody></table>\n");
	cs_buffer_fini(&rows.text);
	*ended_count = rows.ended_count;
	return rows.count;
}

/* What is there and not in the table, and what to do about it. */
static void
write_rejected(struct cs_buffer *buffer, const struct cs_rejections *rejections)
{
	uint64_t permission = rejections->counts[CS_REJECTION_PERMISSION];

	for (unsigned int reason = 0; reason < CS_REJECTION_COUNT; reason++) {
		/* One that is being filled will be there in a moment. */
		if (rejections->counts[reason] == 0 || reason == CS_REJECTION_PERMISSION ||
			reason == CS_REJECTION_INCOMPLETE)
			continue;
		cs_buffer_format(buffer,
			"<p>Segments that cannot be used: %" PRIu64
			" (<code>%s</code>); the exporter's log says why.</p>\n",
			rejections->counts[reason], cs_rejection_name(reason));
	}
	if (permission)
		cs_buffer_format(buffer,
			"<p>Segments that this exporter may not open: %" PRIu64
			" (<code>permission</code>), of uid %u%s. It runs as uid %u: run it as the user who "
			"runs the server.</p>\n",
			permission, (unsigned int)rejections->owner,
			rejections->owners_differ ? " and others" : "", (unsigned int)geteuid());
}

void
cs_page_write(struct cs_buffer *buffer, struct cs_ingest *ingest, const char *telemetry_path)
{
	size_t count, ended_count;
	struct cs_rejections rejections;

	cs_ingest_rejections(ingest, &rejections);
	cs_buffer_text(buffer,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>collscope</title>\n"
		"<meta name=\"viewport\" content=\"width=device-width\"><style>"
		"body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 "
		"1rem;color:#222}"
		"table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem;"
		"border-bottom:1px solid #ddd}code{background:#f4f4f4;padding:0 .25rem}.ended{opacity:.5}"
		"@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code{background:#333}}"
		"</style></head><body>\n<h1>collscope</h1>\n<p>Version " CS_VERSION
		". Which collective ran, how long it took, and what it did to the step.</p>\n<p><a href=\"");
	cs_page_text(buffer, telemetry_path);
	cs_buffer_text(buffer, "\">Metrics</a> &middot; <a href=\"/-/healthy\">health</a> &middot; "
			       "<a href=\"/-/ready\">readiness</a></p>\n<h2>Processes</h2>\n");
	count = write_table(buffer, ingest, &ended_count);
	if (ended_count)
		cs_buffer_format(buffer,
			"<p>%zu running, %zu ended: what an ended process did is served until "
			"<code>--collscope.retention</code> is over.</p>\n",
			count - ended_count, ended_count);
	write_rejected(buffer, &rejections);
	if (!count && !rejections.unusable)
		cs_buffer_text(buffer,
			"<p>No traced process. Start one with <code>collscope run -- COMMAND</code>, or with "
			"<code>CUDA_INJECTION64_PATH</code> set to <code>libcollscope.so</code>.</p>\n");
	cs_buffer_text(buffer, "<p>More on the command line: <code>collscope status</code>, "
			       "<code>collscope status --collectives</code>, <code>collscope top</code>, "
			       "<code>collscope dump</code>; each with <code>--dir ");
	cs_page_text(buffer, cs_ingest_directory(ingest));
	cs_buffer_text(buffer, "</code> where that is not where it looks.</p>\n</body></html>\n");
}
