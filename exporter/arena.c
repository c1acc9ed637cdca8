/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Big enough that a scrape takes a handful, and mapped, so that its pages go back to the system. */
#define BLOCK_BYTES ((size_t)256 * 1024)
#define ALIGNMENT   16U

struct cs_arena_block {
	struct cs_arena_block *next;
	size_t used;
	size_t capacity;
	alignas(ALIGNMENT) char bytes[];
};

void
cs_arena_init(struct cs_arena *arena)
{
	*arena = (struct cs_arena){0};
}

void
cs_arena_fini(struct cs_arena *arena)
{
	while (arena->blocks) {
		struct cs_arena_block *next = arena->blocks->next;

		free(arena->blocks);
		arena->blocks = next;
	}
	cs_arena_init(arena);
}

void *
cs_arena_take(struct cs_arena *arena, size_t bytes)
{
	size_t rounded = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	struct cs_arena_block *block = arena->blocks;
	void *taken;

	if (!block || block->capacity - block->used < rounded) {
		size_t capacity = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;

		block = malloc(sizeof(*block) + capacity);
		if (!block) {
			arena->failed = true;
			return NULL;
		}
		*block = (struct cs_arena_block){.next = arena->blocks, .capacity = capacity};
		arena->blocks = block;
	}
	taken = block->bytes + block->used;
	block->used += rounded;
	return taken;
}

const char *
cs_arena_text(struct cs_arena *arena, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = cs_arena_take(arena, bytes);

	return copy ? memcpy(copy, text, bytes) : "";
}

const char *
cs_arena_format(struct cs_arena *arena, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	return cs_arena_text(arena, text);
}
