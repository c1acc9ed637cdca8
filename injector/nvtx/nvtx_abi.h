/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an NVTX tool attaches to a module that uses NVTX: the export tables and callback numbers of NVTX 3
 * (nvtxDetail/nvtxTypes.h, nvtxExtTypes.h, nvToolsExtPayload.h). The public headers are included without
 * their implementation, which would make this library an NVTX user itself.
 */
#ifndef CS_NVTX_ABI_H
#define CS_NVTX_ABI_H

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#include <stddef.h>
#include <stdint.h>

typedef void (*cs_nvtx_function)(void);

#define CS_NVTX_EXPORT_CALLBACKS 1U
#define CS_NVTX_MODULE_CORE      1
#define CS_NVTX_MODULE_CORE2     5

enum cs_nvtx_core {
	CS_NVTX_RANGE_START_EX = 4,
	CS_NVTX_RANGE_START_A = 5,
	CS_NVTX_RANGE_END = 7,
	CS_NVTX_RANGE_PUSH_EX = 8,
	CS_NVTX_RANGE_PUSH_A = 9,
	CS_NVTX_RANGE_PUSH_W = 10,
	CS_NVTX_RANGE_POP = 11,
	CS_NVTX_CORE_SIZE = 16,
};

enum cs_nvtx_core2 {
	CS_NVTX_DOMAIN_RANGE_START_EX = 2,
	CS_NVTX_DOMAIN_RANGE_END = 3,
	CS_NVTX_DOMAIN_RANGE_PUSH_EX = 4,
	CS_NVTX_DOMAIN_RANGE_POP = 5,
	CS_NVTX_DOMAIN_REGISTER_STRING_A = 10,
	CS_NVTX_DOMAIN_CREATE_A = 12,
	CS_NVTX_CORE2_SIZE = 16,
};

struct cs_nvtx_export_callbacks {
	size_t struct_size;
	/* Gives an array of pointers to function pointers. */
	int (*get_module_function_table)(int module, cs_nvtx_function ***table, unsigned int *size);
};

typedef const void *(*cs_nvtx_get_export_table)(uint32_t id);
typedef int (*cs_nvtx_initialize)(cs_nvtx_get_export_table get_export_table);

/* Extension modules. */
#define CS_NVTX_MODULE_PAYLOAD 2

enum cs_nvtx_payload_slot {
	CS_NVTX_SCHEMA_REGISTER = 0,
	CS_NVTX_ENUM_REGISTER = 1,
	CS_NVTX_RANGE_PUSH_PAYLOAD = 3,
	CS_NVTX_RANGE_POP_PAYLOAD = 4,
	CS_NVTX_DOMAIN_IS_ENABLED = 7,
	CS_NVTX_PAYLOAD_SLOTS = 16,
};

struct cs_nvtx_segment {
	size_t id;
	size_t slot_count;
	intptr_t *slots;
};

struct cs_nvtx_extension {
	uint16_t nvtx_version;
	uint16_t struct_size;
	uint16_t module_id;
	uint16_t compatibility_id;
	size_t segment_count;
	struct cs_nvtx_segment *segments;
	intptr_t (*get_export_function)(uint32_t id);
	const void *information;
};

typedef int (*cs_nvtx_initialize_extension)(struct cs_nvtx_extension *extension);

_Static_assert(sizeof(struct cs_nvtx_segment) == 24, "nvtxExtModuleSegment_t");
_Static_assert(offsetof(struct cs_nvtx_extension, segments) == 16, "nvtxExtModuleInfo_t");

#endif
