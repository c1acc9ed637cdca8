/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <string.h>

bool
cs_page_shows(const struct cs_page *page, const char *heading)
{
	for (size_t i = 0; i < page->left_out_count; i++) {
		if (strcmp(page->left_out[i], heading) == 0)
			return false;
	}
	return true;
}

void
cs_page_leave_out(struct cs_page *page, const char *heading)
{
	if (page->left_out_count < CS_PAGE_LEFT_OUT_MAX && cs_page_shows(page, heading))
		page->left_out[page->left_out_count++] = heading;
}

void
cs_page_print_left_out(const struct cs_page *page, const char *elsewhere, FILE *stream)
{
	if (page->left_out_count == 0)
		return;
	fputs("Too narrow for", stream);
	for (size_t i = 0; i < page->left_out_count; i++)
		fprintf(stream, "%s %s", i ? "," : "", page->left_out[i]);
	fprintf(stream, ": widen the terminal, or use %s\n", elsewhere);
}
