/* SPDX-License-Identifier: Apache-2.0 */
#include "segment_layout.h"

#define TABLE(entry, max)                                                                                    \
	{                                                                                                    \
		.head_bytes = sizeof(struct cs_table_head), .stride_bytes = (entry), .capacity_min = 1,      \
		.capacity_max = (max)                                                                        \
	}
#define STRUCT(type)                                                                                         \
	{                                                                                                    \
		.body_bytes = sizeof(type)                                                                   \
	}

static const struct cs_section_rule rules[CS_SECTION_TYPE_COUNT] = {
	[CS_SECTION_CONTROL] = STRUCT(struct cs_control),
	[CS_SECTION_STATUS] = STRUCT(struct cs_status),
	[CS_SECTION_PROCESS] = STRUCT(struct cs_process),
	[CS_SECTION_GPU] = TABLE(sizeof(struct cs_gpu), CS_GPUS_MAX),
	[CS_SECTION_COMMUNICATOR] = TABLE(sizeof(struct cs_communicator), CS_COMMUNICATORS_MAX),
	[CS_SECTION_NAME] = TABLE(sizeof(struct cs_name), CS_NAMES_MAX),
	[CS_SECTION_TEXT] = TABLE(1, CS_TEXT_BYTES),
	[CS_SECTION_LABEL] = TABLE(sizeof(struct cs_label), CS_LABELS_MAX),
	[CS_SECTION_ENVIRONMENT] = TABLE(sizeof(struct cs_environment), CS_ENVIRONMENT_MAX),
	[CS_SECTION_RING] =
		{
			.head_bytes = sizeof(struct cs_ring_head),
			.stride_bytes = sizeof(struct cs_ring_slot),
			.capacity_min = CS_RING_SLOTS_MIN,
			.capacity_max = CS_RING_SLOTS_MAX,
		},
};

const struct cs_section_rule *
cs_section_rule(uint32_t type)
{
	return type > CS_SECTION_NONE && type < CS_SECTION_TYPE_COUNT ? &rules[type] : NULL;
}

uint64_t
cs_section_length_bytes(const struct cs_section_rule *rule, uint64_t capacity)
{
	uint64_t bytes = rule->head_bytes + rule->body_bytes + rule->stride_bytes * capacity;

	return (bytes + CS_SEGMENT_PAGE_BYTES - 1) / CS_SEGMENT_PAGE_BYTES * CS_SEGMENT_PAGE_BYTES;
}
