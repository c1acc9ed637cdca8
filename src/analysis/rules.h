/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's rules for steps (COLLSCOPE_STEPS; docs/steps.md has the grammar). Parsed once, read only
 * afterwards.
 */
#ifndef CS_RULES_H
#define CS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_rules;

/* What a rule can ask of a step. */
struct cs_step_facts {
	const char *ranges[8]; /* names of NVTX ranges around it, innermost first */
	uint32_t range_ids[8]; /* the same */
	size_t range_count;
	const char *after;  /* marker kernel before it; "" none */
	const char *before; /* marker kernel after it; "" none */
	uint32_t collectives, launches;
	bool graph;
	uint64_t bytes; /* of its largest all-reduce; CS_BYTES_UNKNOWN */
	uint64_t count; /* elements of that; 0 unknown */
};

/* 0; -ENOMEM; -errno of opening; -EFBIG: larger than 1 MiB; -EINVAL: no regular file, or a mistake in it.
 * Except for -ENOMEM with "FILE:LINE: reason" or "FILE: reason" in complaint. */
int cs_rules_load(const char *path, struct cs_rules **rules, char *complaint, size_t complaint_bytes);
void cs_rules_destroy(struct cs_rules *rules); /* NULL is fine */

/* Phase of the first rule that matches (enum cs_phase), and its line; or -ENODATA. */
int cs_rules_phase(const struct cs_rules *rules, const struct cs_step_facts *facts, uint32_t *line);
/* Does the first matching split rule cut the step? Position of the cut, or 0. */
uint32_t cs_rules_split(const struct cs_rules *rules, const struct cs_step_facts *facts, uint8_t *first,
	uint8_t *rest, uint32_t *line);
/* Are there merge rules at all; is this range one whose launches are one step? */
bool cs_rules_merge(const struct cs_rules *rules);
bool cs_rules_merges(const struct cs_rules *rules, const char *range);

#endif
