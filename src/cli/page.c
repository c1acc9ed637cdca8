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

/* Among the first `count` columns. */
static bool
has(const struct cs_page *page, size_t count, const char *heading, bool shown)
{
	for (size_t i = 0; i < count; i++) {
		if (page->columns[i].shown == shown && strcmp(page->columns[i].heading, heading) == 0)
			return true;
	}
	return false;
}

bool
cs_page_shows(const struct cs_page *page, const char *heading)
{
	return !has(page, page->column_count, heading, false);
}

void
cs_page_print_left_out(const struct cs_page *page, const char *elsewhere, FILE *stream)
{
	const char *separator = "Too narrow for";

	for (size_t i = 0; i < page->column_count; i++) {
		const char *heading = page->columns[i].heading;
		bool differs = has(page, page->column_count, heading, true);

		/* That several tables have left it out is said once. */
		if (page->columns[i].shown || (!differs && has(page, i, heading, false)))
			continue;
		fprintf(stream, "%s %s", separator, heading);
		if (differs && page->columns[i].table)
			fprintf(stream, " (%s)", page->columns[i].table);
		separator = ",";
	}
	if (*separator == ',')
		fprintf(stream, ": widen the terminal, or use %s\n", elsewhere);
}
