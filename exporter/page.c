/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include "clock.h"

#include <inttypes.h>

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

struct rows {
	struct cs_buffer *buffer;
	size_t count;
};

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
	uint64_t lost = 0;

	if (!dictionary)
		return;
	for (unsigned int cause = 0; cause < CS_LOSS_CAUSE_COUNT; cause++)
		lost += load(&traced->status.lost[cause]);
	rows->count++;
	cs_buffer_text(rows->buffer, "<tr>");
	number_cell(rows->buffer, dictionary->process.pid);
	cell(rows->buffer, dictionary->process.comm);
	number_cell(rows->buffer, traced->gpu);
	number_cell(rows->buffer, traced->rank);
	cell(rows->buffer, cs_mode_name(mode < CS_MODE_COUNT ? (unsigned int)mode : CS_MODE_COUNT));
	cell(rows->buffer, cs_state_name(cs_traced_state(traced)));
	cs_buffer_format(rows->buffer, "<td>%" PRIu64 "</td><td>%" PRIu64 "</td>",
		load(&traced->status.records[CS_RECORD_COLLECTIVE]), lost);
	cell(rows->buffer, dictionary->process.reason);
	cs_buffer_text(rows->buffer, "</tr>\n");
}

void
cs_page_write(struct cs_buffer *buffer, struct cs_ingest *ingest, const char *telemetry_path)
{
	struct rows rows = {.buffer = buffer};

	cs_buffer_text(buffer,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>collscope</title>\n"
		"<meta name=\"viewport\" content=\"width=device-width\"><style>"
		"body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 "
		"1rem;color:#222}"
		"table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25rem .75rem;"
		"border-bottom:1px solid #ddd}code{background:#f4f4f4;padding:0 .25rem}"
		"@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code{background:#333}}"
		"</style></head><body>\n<h1>collscope</h1>\n<p>Version " CS_VERSION
		". Which collective ran, how long it took, and what it did to the step.</p>\n<p><a href=\"");
	cs_page_text(buffer, telemetry_path);
	cs_buffer_text(buffer,
		"\">Metrics</a> &middot; <a href=\"/-/healthy\">health</a> &middot; "
		"<a href=\"/-/ready\">readiness</a></p>\n<h2>Processes</h2>\n"
		"<table><thead><tr><th>PID</th><th>Command</th><th>GPU</th><th>Rank</th><th>Mode</th>"
		"<th>State</th><th>Collectives</th><th>Lost</th><th>Reason</th></tr></thead><tbody>\n");
	cs_ingest_each(ingest, write_row, &rows);
	cs_buffer_text(buffer, "</tbody></table>\n");
	if (!rows.count)
		cs_buffer_text(buffer,
			"<p>No traced process. Start one with <code>collscope run -- COMMAND</code>, or with "
			"<code>CUDA_INJECTION64_PATH</code> set to <code>libcollscope.so</code>.</p>\n");
	cs_buffer_text(buffer,
		"<p>More on the command line: <code>collscope status</code>, "
		"<code>collscope status --collectives</code>, <code>collscope dump</code>.</p>\n"
		"</body></html>\n");
}
