/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct cell {
	char *text;
	enum cs_style style;
};

struct cs_table {
	const char *const *headings;
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
	size_t column_count;
	size_t line_width; /* SIZE_MAX: no limit */
};

static void
put_cell(const struct layout *layout, FILE *stream, size_t column, const char *text, enum cs_style style,
	size_t *room)
{
	size_t width = width_of(text);
	size_t padding = layout->widths[column] > width ? layout->widths[column] - width : 0;
	bool last = column + 1 == layout->column_count;

	if (layout->right[column])
		*room -= put_spaces(stream, padding, *room);
	if (style != CS_STYLE_PLAIN)
		fputs(cs_output_style(style), stream);
	*room -= put_cut(stream, text, *room);
	if (style != CS_STYLE_PLAIN)
		fputs(cs_output_style(CS_STYLE_PLAIN), stream);
	if (!last && !layout->right[column])
		*room -= put_spaces(stream, padding, *room);
	if (!last)
		*room -= put_spaces(stream, 2, *room);
}

int
cs_table_print(const struct cs_table *table, FILE *stream, unsigned int width)
{
	struct layout layout = {.column_count = table->column_count, .line_width = width ? width : SIZE_MAX};
	size_t full = cs_table_rows(table) * table->column_count;

	if (table->failed)
		return -ENOMEM;
	for (size_t column = 0; column < table->column_count; column++) {
		const char *heading = table->headings[column];

		layout.right[column] = heading[0] == '>';
		layout.widths[column] = width_of(heading + layout.right[column]);
	}
	for (size_t i = 0; i < full; i++) {
		size_t cell_width = width_of(table->cells[i].text);
		size_t *column_width = &layout.widths[i % table->column_count];

		if (cell_width > *column_width)
			*column_width = cell_width;
	}
	for (size_t column = 0, room = layout.line_width; column < table->column_count; column++)
		put_cell(&layout, stream, column, table->headings[column] + layout.right[column],
			CS_STYLE_BOLD, &room);
	fputc('\n', stream);
	for (size_t row = 0; row < full; row += table->column_count) {
		size_t room = layout.line_width;

		for (size_t column = 0; column < table->column_count; column++) {
			const struct cell *cell = &table->cells[row + column];

			put_cell(&layout, stream, column, cell->text, cell->style, &room);
		}
		fputc('\n', stream);
	}
	return 0;
}
