/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decided the phases of each process's steps: how many steps of which phase by which rule, and which
 * line of the user's file, range or marker kernel that was. For `collscope status --long` and `--json`.
 *
 * Thread context: one thread per object.
 */
#ifndef CS_PHASE_RULES_H
#define CS_PHASE_RULES_H

#include "analysis/analysis.h"
#include "targets.h"

#include <stdio.h>

/* Of one process; more are counted together, by rule, with line and name 0. */
#define CS_PHASE_RULES_MAX 32U

struct cs_phase_rules_row {
	const struct cs_target *target; /* borrowed */
	uint8_t phase, rule;            /* enum cs_phase, cs_phase_rule */
	uint32_t line;                  /* of the user's rule; 0 another rule */
	uint32_t name_id;               /* of the range or marker in the target's dictionary; 0 neither */
	uint64_t steps;
};

/* All zero: empty. */
struct cs_phase_rules {
	struct cs_phase_rules_row *rows; /* after cs_phase_rules_finish: by falling number of steps */
	size_t count;
};

void cs_phase_rules_fini(struct cs_phase_rules *rules);
/* 0 or -ENOMEM. */
int cs_phase_rules_add(
	struct cs_phase_rules *rules, const struct cs_target *target, const struct cs_step *step);
void cs_phase_rules_finish(struct cs_phase_rules *rules);
/* The name of the range or marker; NULL: there is none. Borrowed from the target. */
const char *cs_phase_rules_name(const struct cs_phase_rules_row *row);
/* One line per row of the target. */
void cs_phase_rules_print(const struct cs_phase_rules *rules, const struct cs_target *target, FILE *stream);

#endif
