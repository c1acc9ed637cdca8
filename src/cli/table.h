/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text table with aligned columns for people. Cells are added row by row, left to right; cs_table_print
 * sizes the columns. Memory failures are remembered and make print return -ENOMEM, so callers add cells
 * without checks.
 *
 * Thread context: one thread per table.
 */
#ifndef CS_TABLE_H
#define CS_TABLE_H

#include "output.h"
#include "page.h"

#include <stddef.h>
#include <stdio.h>

#define CS_TABLE_COLUMNS_MAX 24

struct cs_table; /* opaque */

/* headings: "NAME" left-aligned, ">NAME" right-aligned; column_count of them, static strings. NULL: no
 * memory. */
struct cs_table *cs_table_new(const char *const *headings, size_t column_count);
void cs_table_destroy(struct cs_table *table); /* NULL is fine */

void cs_table_add(struct cs_table *table, enum cs_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* For the page, to tell columns of several tables apart: a static string. */
void cs_table_set_name(struct cs_table *table, const char *name);

/* Headings of columns that go first where there is no room for all, in this order; NULL ends the list, which
 * is borrowed until the table is printed. Without it, and when it has been used up, the last column goes. */
void cs_table_set_expendable(struct cs_table *table, const char *const *headings);

/* Prints rows that are full. Columns for which a line of the page has no room are left out whole, which the
 * page notes; a left-aligned column at the end may lose the end of its texts ("...") before that. page: NULL
 * for no limit. 0 or -ENOMEM. */
int cs_table_print(const struct cs_table *table, FILE *stream, struct cs_page *page);
size_t cs_table_rows(const struct cs_table *table);

#endif
