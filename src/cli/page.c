/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <string.h>

void
cs_page_note(struct cs_page *page, const char *table, const char *heading, bool shown)
{
	if (page->column_count == CS_PAGE_COLUMNS_MAX)
		return;
	page->columns[page->column_count].table = table;
	page->columns[page->column_count].heading = heading;
	page->columns[page->column_count++].shown = shown;
}

bool
cs_page_shows(const struct cs_page *page, const char *heading)
{
	for (size_t i = 0; i < page->column_count; i++) {
		if (!page->columns[i].shown && strcmp(page->columns[i].heading, heading) == 0)
			return false;
	}
	return true;
}

static bool
is_shown_elsewhere(const struct cs_page *page, const char *heading)
{
	for (size_t i = 0; i < page->column_count; i++) {
		if (page->columns[i].shown && strcmp(page->columns[i].heading, heading) == 0)
			return true;
	}
	return false;
}

/* Another table has left out the same, and it needs to be said once. */
static bool
is_told(const struct cs_page *page, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (!page->columns[i].shown &&
			strcmp(page->columns[i].heading, page->columns[at].heading) == 0)
			return true;
	}
	return false;
}

void
cs_page_print_left_out(const struct cs_page *page, const char *elsewhere, FILE *stream)
{
	const char *separator = "Too narrow for";

	for (size_t i = 0; i < page->column_count; i++) {
		const char *heading = page->columns[i].heading;
		bool differs = is_shown_elsewhere(page, heading);

		if (page->columns[i].shown || (!differs && is_told(page, i)))
			continue;
		fprintf(stream, "%s %s", separator, heading);
		if (differs && page->columns[i].table)
			fprintf(stream, " (%s)", page->columns[i].table);
		separator = ",";
	}
	if (*separator == ',')
		fprintf(stream, ": widen the terminal, or use %s\n", elsewhere);
}
