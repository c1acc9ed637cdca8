/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char unknown[] = "unknown";

static const char *const type_names[] = {
	[0] = unknown,
	[CS_RECORD_COLLECTIVE] = "collective",
	[CS_RECORD_BUSY] = "busy",
	[CS_RECORD_GRAPH_LAUNCH] = "graph_launch",
	[CS_RECORD_WINDOW] = "window",
	[CS_RECORD_MARK] = "mark",
	[CS_RECORD_LOSS] = "loss",
	[CS_RECORD_MARKER] = "marker",
	[CS_RECORD_HOST_LAUNCH] = "host_launch",
	[CS_RECORD_STILL] = "still",
	[CS_RECORD_GRAPH] = "graph",
	[CS_RECORD_WINDOW_OPEN] = "window_open",
};
_Static_assert(COUNT_OF(type_names) == CS_RECORD_TYPE_COUNT, "every record type has a name");

static const char *const cause_names[] = {
	[CS_LOSS_CUPTI_DROPPED] = "cupti_dropped",
	[CS_LOSS_BAD_TIMESTAMP] = "bad_timestamp",
	[CS_LOSS_POOL_EMPTY] = "pool_empty",
	[CS_LOSS_RING_CONTENDED] = "ring_contended",
	[CS_LOSS_RING_OVERRUN] = "ring_overrun",
	[CS_LOSS_RING_HOLE] = "ring_hole",
	[CS_LOSS_TABLE_FULL] = "table_full",
	[CS_LOSS_FOREIGN_OWNER] = "foreign_owner",
	[CS_LOSS_INVALID_RECORD] = "invalid_record",
	[CS_LOSS_TABLE_BUSY] = "table_busy",
	[CS_LOSS_UNKNOWN_DEVICE] = "unknown_device",
	[CS_LOSS_MARKS_FULL] = "marks_full",
};
_Static_assert(COUNT_OF(cause_names) == CS_LOSS_CAUSE_COUNT, "every cause has a name");

static const char *const depth_names[] = {
	[CS_DEPTH_OFF] = "off",
	[CS_DEPTH_LIGHT] = "light",
	[CS_DEPTH_DEEP] = "deep",
};
_Static_assert(COUNT_OF(depth_names) == CS_DEPTH_COUNT, "every depth has a name");

const char *
cs_record_type_name(unsigned int type)
{
	return type < COUNT_OF(type_names) ? type_names[type] : unknown;
}

const char *
cs_loss_cause_name(unsigned int cause)
{
	return cause < COUNT_OF(cause_names) ? cause_names[cause] : unknown;
}

const char *
cs_depth_name(unsigned int depth)
{
	return depth < COUNT_OF(depth_names) ? depth_names[depth] : unknown;
}
