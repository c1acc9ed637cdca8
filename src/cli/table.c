/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a text at the end of a line keeps at least before its column is left out. */
#define LAST_WIDTH_MIN 16U
#define CUT_SIGN       "..."

struct cell {
	char *text;
	enum cs_style style;
};

struct cs_table {
	const char *name; /* NULL: none given */
	const char *const *headings;
	const char *const *expendable; /* NULL: none named */
	size_t column_count;
	struct cell *cells;
	size_t count;
	size_t capacity;
	bool failed;
};

struct cs_table *
cs_table_new(const char *const *headings, size_t column_count)
{
	struct cs_table *table;

	if (column_count == 0 || column_count > CS_TABLE_COLUMNS_MAX)
		return NULL;
	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	table->headings = headings;
	table->column_count = column_count;
	return table;
}

void
cs_table_destroy(struct cs_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
}

void
cs_table_add(struct cs_table *table, enum cs_style style, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;

	if (table->failed)
		return;
	if (table->count == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 64;
		struct cell *cells = realloc(table->cells, capacity * sizeof(*cells));

		if (!cells) {
			table->failed = true;
			return;
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		table->failed = true;
	else
		table->cells[table->count++] = (struct cell){.text = text, .style = style};
	va_end(arguments);
}

size_t
cs_table_rows(const struct cs_table *table)
{
	return table->count / table->column_count;
}

/* Characters, not bytes: command lines may hold UTF-8. Wide characters are counted as one; the table is then
 * a little ragged, and nothing else. */
static size_t
width_of(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

/* Prints at most `room` characters of text, returns how many. */
static size_t
put_cut(FILE *stream, const char *text, size_t room)
{
	size_t bytes = 0, width = 0;

	while (text[bytes]) {
		if (((unsigned char)text[bytes] & 0xc0) != 0x80) {
			if (width == room)
				break;
			width++;
		}
		bytes++;
	}
	fwrite(text, 1, bytes, stream);
	return width;
}

static size_t
put_spaces(FILE *stream, size_t count, size_t room)
{
	if (count > room)
		count = room;
	for (size_t i = 0; i < count; i++)
		fputc(' ', stream);
	return count;
}

struct layout {
	size_t widths[CS_TABLE_COLUMNS_MAX];
	bool right[CS_TABLE_COLUMNS_MAX];
	bool shown[CS_TABLE_COLUMNS_MAX];
	size_t column_count;
	size_t last;       /* column that is shown */
	size_t line_width; /* SIZE_MAX: no limit */
};

void
cs_table_set_name(struct cs_table *table, const char *name)
{
	table->name = name;
}

void
cs_table_set_expendable(struct cs_table *table, const char *const *headings)
{
	table->expendable = headings;
}

static const char *
name_of(const struct cs_table *table, size_t column)
{
	const char *heading = table->headings[column];

	return heading + (heading[0] == '>');
}

static void
measure(const struct cs_table *table, struct layout *layout)
{
	size_t full = cs_table_rows(table) * table->column_count;

	for (size_t column = 0; column < table->column_count; column++) {
		layout->right[column] = table->headings[column][0] == '>';
		layout->widths[column] = width_of(name_of(table, column));
		layout->shown[column] = true;
	}
	for (size_t i = 0; i < full; i++) {
		size_t cell_width = width_of(table->cells[i].text);
		size_t *column_width = &layout->widths[i % table->column_count];

		if (cell_width > *column_width)
			*column_width = cell_width;
	}
}

/* What a line needs at least. */
static size_t
least_width(const struct layout *layout)
{
	size_t sum = 0;

	for (size_t column = 0; column < layout->column_count; column++) {
		size_t width = layout->widths[column];

		if (!layout->shown[column])
			continue;
		if (column + 1 == layout->column_count && !layout->right[column] && width > LAST_WIDTH_MIN)
			width = LAST_WIDTH_MIN;
		sum += width + (column == layout->last ? 0 : 2);
	}
	return sum;
}

static void
find_last(struct layout *layout)
{
	layout->last = 0;
	for (size_t column = 0; column < layout->column_count; column++) {
		if (layout->shown[column])
			layout->last = column;
	}
}

/* The next column to go. */
static size_t
choose(const struct cs_table *table, const struct layout *layout)
{
	for (size_t i = 0; table->expendable && table->expendable[i]; i++) {
		for (size_t column = 1; column < layout->column_count; column++) {
			if (layout->shown[column] &&
				strcmp(name_of(table, column), table->expendable[i]) == 0)
				return column;
		}
	}
	return layout->last;
}

/* The first column stays, however narrow the page is. */
static void
leave_out(const struct cs_table *table, struct layout *layout, struct cs_page *page)
{
	find_last(layout);
	while (least_width(layout) > layout->line_width && layout->last > 0) {
		size_t column = choose(table, layout);

		layout->shown[column] = false;
		find_last(layout);
	}
	for (size_t column = 0; page && column < layout->column_count; column++)
		cs_page_note(page, table->name, name_of(table, column), layout->shown[column]);
}

/* The end of a line: what does not fit shows that it goes on. */
static size_t
put_end(FILE *stream, const char *text, size_t room)
{
	const size_t sign = sizeof(CUT_SIGN) - 1;

	if (width_of(text) <= room || room <= sign)
		return put_cut(stream, text, room);
	put_cut(stream, text, room - sign);
	fputs(CUT_SIGN, stream);
	return room;
}

static void
put_cell(const struct layout *layout, FILE *stream, size_t column, const char *text, enum cs_style style,
	size_t *room)
{
	size_t width = width_of(text);
	size_t padding = layout->widths[column] > width ? layout->widths[column] - width : 0;
	bool last = column == layout->last;

	if (layout->right[column])
		*room -= put_spaces(stream, padding, *room);
	if (style != CS_STYLE_PLAIN)
		fputs(cs_output_style(style), stream);
	*room -= last ? put_end(stream, text, *room) : put_cut(stream, text, *room);
	if (style != CS_STYLE_PLAIN)
		fputs(cs_output_style(CS_STYLE_PLAIN), stream);
	if (!last && !layout->right[column])
		*room -= put_spaces(stream, padding, *room);
	if (!last)
		*room -= put_spaces(stream, 2, *room);
}

int
cs_table_print(const struct cs_table *table, FILE *stream, struct cs_page *page)
{
	struct layout layout = {.column_count = table->column_count,
		.line_width = page && page->width ? page->width : SIZE_MAX};
	size_t full = cs_table_rows(table) * table->column_count;

	if (table->failed)
		return -ENOMEM;
	measure(table, &layout);
	leave_out(table, &layout, page);
	for (size_t column = 0, room = layout.line_width; column < table->column_count; column++) {
		if (layout.shown[column])
			put_cell(&layout, stream, column, name_of(table, column), CS_STYLE_BOLD, &room);
	}
	fputc('\n', stream);
	for (size_t row = 0; row < full; row += table->column_count) {
		size_t room = layout.line_width;

		for (size_t column = 0; column < table->column_count; column++) {
			const struct cell *cell = &table->cells[row + column];

			if (layout.shown[column])
				put_cell(&layout, stream, column, cell->text, cell->style, &room);
		}
		fputc('\n', stream);
	}
	return 0;
}
