/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis.h"

static const char unknown[] = "unknown";

static const char *const rule_names[CS_PHASE_RULE_COUNT] = {
	[CS_PHASE_RULE_NONE] = "none",
	[CS_PHASE_RULE_USER] = "user",
	[CS_PHASE_RULE_NVTX] = "nvtx",
	[CS_PHASE_RULE_MARKER] = "marker",
	[CS_PHASE_RULE_SIGNATURE] = "signature",
};

static const char *const direction_names[CS_COPY_DIRECTION_COUNT] = {
	[CS_COPY_LOCAL] = "local",
	[CS_COPY_TO_HOST] = "to_host",
	[CS_COPY_FROM_HOST] = "from_host",
	[CS_COPY_PEER] = "peer",
};

const char *
cs_phase_rule_name(unsigned int rule)
{
	return rule < CS_PHASE_RULE_COUNT ? rule_names[rule] : unknown;
}

const char *
cs_copy_direction_name(unsigned int direction)
{
	return direction < CS_COPY_DIRECTION_COUNT ? direction_names[direction] : unknown;
}
