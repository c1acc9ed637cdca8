/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is taken in small pieces and given back at once: what one scrape copies out of the live state.
 * Thread context: one thread at a time.
 */
#ifndef CS_EXPORTER_ARENA_H
#define CS_EXPORTER_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct cs_arena_block;

struct cs_arena {
	struct cs_arena_block *blocks;
	bool failed; /* an allocation did not succeed: what was built is incomplete */
};

void cs_arena_init(struct cs_arena *arena);
void cs_arena_fini(struct cs_arena *arena);
/* 16-aligned, not zeroed; NULL without memory. */
void *cs_arena_take(struct cs_arena *arena, size_t bytes);
/* A copy of the text; never NULL ("" without memory, and `failed`). */
const char *cs_arena_text(struct cs_arena *arena, const char *text);
const char *cs_arena_format(struct cs_arena *arena, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
