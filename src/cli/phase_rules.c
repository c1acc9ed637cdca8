/* SPDX-License-Identifier: Apache-2.0 */
#include "phase_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

void
cs_phase_rules_fini(struct cs_phase_rules *rules)
{
	free(rules->rows);
	*rules = (struct cs_phase_rules){0};
}

static struct cs_phase_rules_row *
find(struct cs_phase_rules *rules, const struct cs_phase_rules_row *key, size_t *of_target)
{
	*of_target = 0;
	for (size_t i = 0; i < rules->count; i++) {
		struct cs_phase_rules_row *row = &rules->rows[i];

		if (row->target != key->target)
			continue;
		if (row->phase == key->phase && row->rule == key->rule && row->line == key->line &&
			row->name_id == key->name_id)
			return row;
		(*of_target)++;
	}
	return NULL;
}

int
cs_phase_rules_add(struct cs_phase_rules *rules, const struct cs_target *target, const struct cs_step *step)
{
	struct cs_phase_rules_row key = {.target = target,
		.phase = step->phase,
		.rule = step->phase_rule,
		.line = step->phase_line,
		.name_id = step->phase_name};
	struct cs_phase_rules_row *row, *grown;
	size_t of_target;

	row = find(rules, &key, &of_target);
	if (!row && of_target >= CS_PHASE_RULES_MAX) {
		key.line = key.name_id = 0;
		row = find(rules, &key, &of_target);
	}
	if (row) {
		row->steps++;
		return 0;
	}
	grown = reallocarray(rules->rows, rules->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	key.steps = 1;
	rules->rows = grown;
	rules->rows[rules->count++] = key;
	return 0;
}

static int
compare(const void *a, const void *b)
{
	const struct cs_phase_rules_row *left = a;
	const struct cs_phase_rules_row *right = b;

	if (left->steps != right->steps)
		return left->steps > right->steps ? -1 : 1;
	if (left->phase != right->phase)
		return left->phase - right->phase;
	if (left->rule != right->rule)
		return left->rule - right->rule;
	if (left->line != right->line)
		return left->line < right->line ? -1 : 1;
	return (left->name_id > right->name_id) - (left->name_id < right->name_id);
}

void
cs_phase_rules_finish(struct cs_phase_rules *rules)
{
	if (rules->count)
		qsort(rules->rows, rules->count, sizeof(*rules->rows), compare);
}

const char *
cs_phase_rules_name(const struct cs_phase_rules_row *row)
{
	return row->name_id ? cs_dictionary_borrow_name(row->target->dictionary, row->name_id) : NULL;
}

void
cs_phase_rules_print(const struct cs_phase_rules *rules, const struct cs_target *target, FILE *stream)
{
	for (size_t i = 0; i < rules->count; i++) {
		const struct cs_phase_rules_row *row = &rules->rows[i];
		const char *name = cs_phase_rules_name(row);

		if (row->target != target)
			continue;
		fprintf(stream, "  %-16s %" PRIu64 " %s by %s", "steps", row->steps,
			cs_phase_name(row->phase), cs_phase_rule_name(row->rule));
		if (row->line)
			fprintf(stream, ", line %" PRIu32, row->line);
		if (name)
			fprintf(stream, ", %s", name);
		fputc('\n', stream);
	}
}
