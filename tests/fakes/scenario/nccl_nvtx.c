/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's NVTX ranges: around every call, with what was passed as an extended payload; and around
 * ncclCommInitRank, whose payload comes when it ends. Since 2.25 each payload begins with the communicator.
 * Schema numbers, field names and layouts are those of NCCL's src/include/nvtx.h and nvtx_payload_schemas.h.
 */
#include "nccl.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA(number)   (NVTX_PAYLOAD_SCHEMA_ID_STATIC_START + (number))
#define SCHEMA_COMM_INIT SCHEMA(0)

struct payload_comm {
	uint64_t hash;
	int ranks;
	int rank;
	int device;
};

/* all-gather ends before `word`, which is the reduction (0: sum) or the root */
struct payload_call {
	uint64_t hash;
	size_t bytes;
	int word;
};

static const struct {
	const char *func;
	const char *name;
	uint64_t schema;
	const char *word; /* what the schema calls it */
} functions[] = {
	{"AllReduce", "ncclAllReduce", SCHEMA(5), "Reduction operation"},
	{"AllGather", "ncclAllGather", SCHEMA(4), NULL},
	{"Broadcast", "ncclBroadcast", SCHEMA(6), "Root"},
	{"ReduceScatter", "ncclReduceScatter", SCHEMA(7), "Reduction operation"},
};
#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

static bool silent;
static bool old; /* payloads without the communicator */
static nvtxDomainHandle_t domain;
static nvtxStringHandle_t names[FUNCTION_COUNT];
static nvtxStringHandle_t name_comm_init;
static nvtxStringHandle_t name_group_start;
static nvtxStringHandle_t name_group_end;

static void
register_schema(
	uint64_t id, const char *name, const nvtxPayloadSchemaEntry_t *entries, size_t count, size_t bytes)
{
	nvtxPayloadSchemaAttr_t schema = {
		.fieldMask =
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID,
		.name = name,
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
		.entries = entries,
		.numEntries = count,
		.payloadStaticSize = bytes,
		.schemaId = id,
	};

	nvtxPayloadSchemaRegister(domain, &schema);
}

static void
register_schemas(void)
{
	uint64_t shift = old ? offsetof(struct payload_call, bytes) : 0;
	const nvtxPayloadSchemaEntry_t comm[] = {
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID", .offset = 0},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "No. of ranks", .offset = 8},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "Rank", .offset = 12},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT, .name = "CUDA device", .offset = 16},
	};
	size_t i;

	if (!old)
		register_schema(SCHEMA_COMM_INIT, "ncclCommInitRank", comm, 4, sizeof(struct payload_comm));
	for (i = 0; i < FUNCTION_COUNT; i++) {
		const nvtxPayloadSchemaEntry_t call[] = {
			{.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID", .offset = 0},
			{.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE,
				.name = "Message size [bytes]",
				.offset = offsetof(struct payload_call, bytes) - shift},
			{.type = NVTX_PAYLOAD_ENTRY_TYPE_INT,
				.name = functions[i].word,
				.offset = offsetof(struct payload_call, word) - shift},
		};

		register_schema(functions[i].schema, functions[i].name, call + old,
			(functions[i].word ? 3U : 2U) - old,
			(functions[i].word ? sizeof(struct payload_call)
					   : offsetof(struct payload_call, word)) -
				shift);
	}
}

static void
push(nvtxStringHandle_t name, const nvtxPayloadData_t *payload)
{
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = name};

	if (payload) {
		attributes.payloadType = NVTX_PAYLOAD_TYPE_EXT;
		attributes.reserved0 = 1;
		attributes.payload.ullValue = (uint64_t)(uintptr_t)payload;
	}
	nvtxDomainRangePushEx(domain, &attributes);
}

void
nccl_nvtx_open(uint32_t nccl)
{
	const char *disable = getenv("NCCL_NVTX_DISABLE");
	size_t i;

	silent = disable && strcmp(disable, "1") == 0;
	if (silent)
		return;
	old = nccl < 22500;
	domain = nvtxDomainCreateA("NCCL");
	for (i = 0; i < FUNCTION_COUNT; i++)
		names[i] = nvtxDomainRegisterStringA(domain, functions[i].name);
	name_comm_init = nvtxDomainRegisterStringA(domain, "ncclCommInitRank");
	name_group_start = nvtxDomainRegisterStringA(domain, "ncclGroupStart");
	name_group_end = nvtxDomainRegisterStringA(domain, "ncclGroupEnd");
	register_schemas();
}

void
nccl_nvtx_comm(const struct nccl_comm *comm)
{
	struct payload_comm init = {comm->hash, comm->world, comm->rank, 0};
	nvtxPayloadData_t payload = {SCHEMA_COMM_INIT, sizeof(init), &init};

	if (silent)
		return;
	push(name_comm_init, NULL);
	if (old)
		nvtxDomainRangePop(domain);
	else
		nvtxRangePopPayload(domain, &payload, 1);
}

void
nccl_nvtx_push(const struct nccl_call *call)
{
	struct payload_call values = {call->comm->hash, nccl_part_bytes(call), 0};
	size_t shift = old ? offsetof(struct payload_call, bytes) : 0;
	size_t i = 0;

	if (silent)
		return;
	while (strcmp(functions[i].func, call->op->impl->func) != 0)
		i++;
	push(names[i],
		&(nvtxPayloadData_t){functions[i].schema,
			(functions[i].word ? sizeof(values) : offsetof(struct payload_call, word)) - shift,
			(const char *)&values + shift});
}

void
nccl_nvtx_push_group(bool start)
{
	if (!silent)
		push(start ? name_group_start : name_group_end, NULL);
}

void
nccl_nvtx_pop(void)
{
	if (!silent)
		nvtxDomainRangePop(domain);
}
