/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The width that tables have, and which columns had no room in it. One page for all tables of an output, so
 * that one line below them names what is not there, and what is said of columns can leave those out. Thread
 * context: one thread per page.
 */
#ifndef CS_PAGE_H
#define CS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define CS_PAGE_COLUMNS_MAX 64

/* All zero but `width`. */
struct cs_page {
	unsigned int width; /* characters of a line; 0: no limit */
	struct {
		const char *table, *heading; /* static strings */
		bool shown;
	} columns[CS_PAGE_COLUMNS_MAX]; /* of all tables so far */
	size_t column_count;
};

/* Notes a column of a table and whether it is shown. */
void cs_page_note(struct cs_page *page, const char *table, const char *heading, bool shown);
/* No table has left it out so far. */
bool cs_page_shows(const struct cs_page *page, const char *heading);
/* One line that names what was left out and where it is (`elsewhere`: "--json or `| cat`"); nothing when all
 * is shown. A heading that another table of the page still shows is told with its table: "P99 (steps)". */
void cs_page_print_left_out(const struct cs_page *page, const char *elsewhere, FILE *stream);

#endif
