/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the values that a segment's status and tables hold. The two sides are in segment_writer.c and
 * segment_reader.c. */
#include "segment.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char unknown[] = "unknown";

static const char *const mode_names[] = {
	[CS_MODE_OFF] = "off",
	[CS_MODE_DEMAND] = "demand",
	[CS_MODE_SAMPLE] = "sample",
	[CS_MODE_FULL] = "full",
};
_Static_assert(COUNT_OF(mode_names) == CS_MODE_COUNT, "every mode has a name");

static const char *const state_names[] = {
	[CS_STATE_STARTING] = "starting",
	[CS_STATE_LEARNING] = "learning",
	[CS_STATE_TRACING] = "tracing",
	[CS_STATE_IDLE] = "idle",
	[CS_STATE_YIELDED] = "yielded",
	[CS_STATE_PAUSED] = "paused",
	[CS_STATE_DORMANT] = "dormant",
	[CS_STATE_EXITED] = "exited",
};
_Static_assert(COUNT_OF(state_names) == CS_STATE_COUNT, "every state has a name");

static const char *const reason_names[] = {
	[CS_UNLABELLED_NO_LEDGER] = "no_ledger",
	[CS_UNLABELLED_NO_RULE] = "no_rule",
	[CS_UNLABELLED_CHECK_FAILED] = "check_failed",
	[CS_UNLABELLED_LEDGER_FULL] = "ledger_full",
	[CS_UNLABELLED_NO_LAUNCH] = "no_launch",
	[CS_UNLABELLED_ANNOUNCE_FULL] = "announce_full",
	[CS_UNLABELLED_CHILD_FULL] = "child_full",
};
_Static_assert(COUNT_OF(reason_names) == CS_UNLABELLED_REASON_COUNT, "every reason has a name");

static const char *const link_names[] = {
	[CS_LINK_UNKNOWN] = unknown,
	[CS_LINK_SELF] = "self",
	[CS_LINK_NVLINK] = "nvlink",
	[CS_LINK_PCIE_SWITCH] = "pcie_switch",
	[CS_LINK_PCIE_HOST_BRIDGE] = "pcie_host_bridge",
	[CS_LINK_PCIE_NODE] = "pcie_node",
	[CS_LINK_PCIE_SYSTEM] = "pcie_system",
};
_Static_assert(COUNT_OF(link_names) == CS_LINK_COUNT, "every link has a name");

const char *
cs_mode_name(unsigned int mode)
{
	return mode < COUNT_OF(mode_names) ? mode_names[mode] : unknown;
}

const char *
cs_state_name(unsigned int state)
{
	return state < COUNT_OF(state_names) ? state_names[state] : unknown;
}

const char *
cs_unlabelled_reason_name(unsigned int reason)
{
	return reason < COUNT_OF(reason_names) ? reason_names[reason] : unknown;
}

const char *
cs_link_name(unsigned int link)
{
	return link < COUNT_OF(link_names) ? link_names[link] : unknown;
}
