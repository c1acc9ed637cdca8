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

#define CS_PAGE_LEFT_OUT_MAX 64

/* All zero but `width`. */
struct cs_page {
	unsigned int width;                         /* characters of a line; 0: no limit */
	const char *left_out[CS_PAGE_LEFT_OUT_MAX]; /* headings; static strings */
	size_t left_out_count;
};

/* Notes that a column is not shown. */
void cs_page_leave_out(struct cs_page *page, const char *heading);
/* Not noted so far. */
bool cs_page_shows(const struct cs_page *page, const char *heading);
/* One line that names what was left out and where it is (`elsewhere`: "--json or `| cat`"); nothing when all
 * is shown. */
void cs_page_print_left_out(const struct cs_page *page, const char *elsewhere, FILE *stream);

#endif
