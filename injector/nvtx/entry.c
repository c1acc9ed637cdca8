/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVTX tool: entry points and handlers. Each module of the process that uses NVTX attaches once, with its
 * own tables; the handlers are the same for all. NCCL's domain announces collectives
 * (injector/labels/announce.h); other ranges become marks when COLLSCOPE_NVTX_RANGES wants them, else their
 * functions are not even attached and cost what NVTX without a tool costs.
 */
#include "forward.h"
#include "injector.h"
#include "labels/announce.h"
#include "marks.h"
#include "nvtx_abi.h"
#include "payload.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define CS_EXPORT __attribute__((visibility("default")))
/* libnccl, and copies of it inside other libraries. */
#define CS_NCCL_DOMAINS 8U
/* Other domains that are told apart. */
#define CS_OTHER_DOMAINS 256U

CS_EXPORT int InitializeInjectionNvtx2(cs_nvtx_get_export_table get_export_table);
CS_EXPORT int InitializeInjectionNvtxExtension(struct cs_nvtx_extension *extension);

/* Handles of domains named "NCCL", and of the names that open and close NCCL's groups. */
static _Atomic(const void *) nccl_domains[CS_NCCL_DOMAINS];
static _Atomic(const void *) group_start_names[CS_NCCL_DOMAINS];
static _Atomic(const void *) group_end_names[CS_NCCL_DOMAINS];

/* What a domain or string handle of ours points to; only the address counts. Ranges nest within a domain
 * alone, so each has an address of its own; those beyond share the last one. */
static const char handle_nccl_domain, handle_group_start, handle_group_end;
static const char other_domains[CS_OTHER_DOMAINS];
static _Atomic uint32_t other_domain_count;
/* Ids of start/end ranges when no tool gives them. 0 is no range. */
static _Atomic uint64_t range_ids = 1;

static void
set_add(_Atomic(const void *) *set, const void *handle)
{
	for (unsigned int i = 0; i < CS_NCCL_DOMAINS; i++) {
		const void *expected = NULL;

		if (atomic_compare_exchange_strong(&set[i], &expected, handle) || expected == handle)
			return;
	}
}

static bool
set_has(_Atomic(const void *) *set, const void *handle)
{
	for (unsigned int i = 0; handle != NULL && i < CS_NCCL_DOMAINS; i++) {
		const void *entry = atomic_load_explicit(&set[i], memory_order_relaxed);

		if (entry == handle)
			return true;
		if (entry == NULL)
			return false;
	}
	return false;
}

/* The next handler of a function, in its type, or NULL. */
#define NEXT(table, index, type)                                                                             \
	((type)atomic_load_explicit(&cs_nvtx_next.table[index], memory_order_acquire))

/* -- NCCL's domain ------------------------------------------------------------------------------------- */

static void
announce_payloads(const nvtxPayloadData_t *payloads, size_t count)
{
	for (size_t i = 0; payloads != NULL && i < count; i++) {
		struct cs_label label;

		if (cs_nvtx_payload_decode(&payloads[i], &label) == CS_NVTX_PAYLOAD_COLLECTIVE)
			cs_announce_collective(&label, 0);
	}
}

/* Attributes as of NVTX 2 and later; a shorter struct is someone's own. */
static bool
attributes_are_whole(const nvtxEventAttributes_t *attributes)
{
	return attributes != NULL && attributes->size >= sizeof(*attributes);
}

static const void *
registered_name(const nvtxEventAttributes_t *attributes)
{
	if (!attributes_are_whole(attributes) || attributes->messageType != NVTX_MESSAGE_TYPE_REGISTERED)
		return NULL;
	return (const void *)attributes->message.registered;
}

/* ncclGroupStart's own range ends before the group does: one more begin holds what is announced until
 * ncclGroupEnd, in whose range the launches happen. */
static void
nccl_push(const nvtxEventAttributes_t *attributes)
{
	cs_announce_begin();
	if (!attributes_are_whole(attributes))
		return;
	if (set_has(group_start_names, registered_name(attributes)))
		cs_announce_begin();
	if (attributes->payloadType == NVTX_PAYLOAD_TYPE_EXT && attributes->reserved0 > 0)
		announce_payloads((const nvtxPayloadData_t *)(uintptr_t)attributes->payload.ullValue,
			(size_t)attributes->reserved0);
}

/* Which range a pop ends is not told; depth of groups is counted here. Inside ncclGroupEnd's range the pop
 * ends the group too. */
static __thread uint32_t group_end_open __attribute__((tls_model("initial-exec")));

static void
nccl_pop(void)
{
	cs_announce_end();
	if (group_end_open == 1)
		cs_announce_end();
	if (group_end_open > 0)
		group_end_open--;
}

static void
nccl_enter(const nvtxEventAttributes_t *attributes)
{
	nccl_push(attributes);
	/* Ranges inside ncclGroupEnd's are counted until its own pop. */
	if (group_end_open > 0)
		group_end_open++;
	else if (attributes_are_whole(attributes) && set_has(group_end_names, registered_name(attributes)))
		group_end_open = 1;
}

/* -- core 2 -------------------------------------------------------------------------------------------- */

static const void *
other_domain_handle(void)
{
	uint32_t number = atomic_load_explicit(&other_domain_count, memory_order_relaxed);

	if (number < CS_OTHER_DOMAINS - 1)
		number = atomic_fetch_add_explicit(&other_domain_count, 1, memory_order_relaxed);
	return &other_domains[number < CS_OTHER_DOMAINS ? number : CS_OTHER_DOMAINS - 1];
}

static nvtxDomainHandle_t
on_domain_create(const char *name)
{
	nvtxDomainHandle_t (*next)(const char *) =
		NEXT(core2, CS_NVTX_DOMAIN_CREATE_A, nvtxDomainHandle_t(*)(const char *));
	bool is_nccl = name != NULL && strcmp(name, "NCCL") == 0;
	const void *handle;

	if (next != NULL)
		handle = next(name);
	else
		handle = is_nccl ? &handle_nccl_domain : other_domain_handle();
	if (is_nccl)
		set_add(nccl_domains, handle);
	return (nvtxDomainHandle_t)(uintptr_t)handle;
}

static nvtxStringHandle_t
on_register_string(nvtxDomainHandle_t domain, const char *text)
{
	nvtxStringHandle_t (*next)(nvtxDomainHandle_t, const char *) = NEXT(core2,
		CS_NVTX_DOMAIN_REGISTER_STRING_A, nvtxStringHandle_t(*)(nvtxDomainHandle_t, const char *));
	const void *handle = next != NULL ? (const void *)next(domain, text) : NULL;
	bool nccl = set_has(nccl_domains, domain) && text != NULL;

	if (nccl && strcmp(text, "ncclGroupStart") == 0) {
		handle = handle != NULL ? handle : &handle_group_start;
		set_add(group_start_names, handle);
	} else if (nccl && strcmp(text, "ncclGroupEnd") == 0) {
		handle = handle != NULL ? handle : &handle_group_end;
		set_add(group_end_names, handle);
	} else if (cs_marks_wanted()) {
		handle = cs_marks_register_string(handle, text);
	}
	return (nvtxStringHandle_t)(uintptr_t)handle;
}

static const char *
name_of(const nvtxEventAttributes_t *attributes)
{
	if (!attributes_are_whole(attributes))
		return NULL;
	if (attributes->messageType == NVTX_MESSAGE_TYPE_ASCII)
		return attributes->message.ascii;
	return cs_marks_string(registered_name(attributes));
}

static int
on_domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	int (*next)(nvtxDomainHandle_t, const nvtxEventAttributes_t *) = NEXT(core2,
		CS_NVTX_DOMAIN_RANGE_PUSH_EX, int (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *));
	int saved = errno;

	if (set_has(nccl_domains, domain))
		nccl_enter(attributes);
	else if (cs_marks_wanted())
		cs_marks_push(domain, name_of(attributes));
	errno = saved;
	return next != NULL ? next(domain, attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static int
on_domain_pop(nvtxDomainHandle_t domain)
{
	int (*next)(nvtxDomainHandle_t) = NEXT(core2, CS_NVTX_DOMAIN_RANGE_POP, int (*)(nvtxDomainHandle_t));
	int saved = errno;

	if (set_has(nccl_domains, domain))
		nccl_pop();
	else if (cs_marks_wanted())
		cs_marks_pop(domain);
	errno = saved;
	return next != NULL ? next(domain) : NVTX_NO_PUSH_POP_TRACKING;
}

static nvtxRangeId_t
on_domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	nvtxRangeId_t (*next)(nvtxDomainHandle_t, const nvtxEventAttributes_t *) =
		NEXT(core2, CS_NVTX_DOMAIN_RANGE_START_EX,
			nvtxRangeId_t(*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *));
	nvtxRangeId_t id = next != NULL ? next(domain, attributes) : atomic_fetch_add(&range_ids, 1);
	int saved = errno;

	cs_marks_start(id, name_of(attributes));
	errno = saved;
	return id;
}

static void
on_domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	void (*next)(nvtxDomainHandle_t, nvtxRangeId_t) =
		NEXT(core2, CS_NVTX_DOMAIN_RANGE_END, void (*)(nvtxDomainHandle_t, nvtxRangeId_t));
	int saved = errno;

	cs_marks_end(id);
	errno = saved;
	if (next != NULL)
		next(domain, id);
}

/* -- core: the default domain, marks only -------------------------------------------------------------- */

static int
on_push(const nvtxEventAttributes_t *attributes)
{
	int (*next)(const nvtxEventAttributes_t *) =
		NEXT(core, CS_NVTX_RANGE_PUSH_EX, int (*)(const nvtxEventAttributes_t *));
	int saved = errno;

	cs_marks_push(NULL, name_of(attributes));
	errno = saved;
	return next != NULL ? next(attributes) : NVTX_NO_PUSH_POP_TRACKING;
}

static int
on_push_text(const char *text)
{
	int (*next)(const char *) = NEXT(core, CS_NVTX_RANGE_PUSH_A, int (*)(const char *));
	int saved = errno;

	cs_marks_push(NULL, text);
	errno = saved;
	return next != NULL ? next(text) : NVTX_NO_PUSH_POP_TRACKING;
}

/* Wide names are not matched; the nesting must count. */
static int
on_push_wide(const wchar_t *text)
{
	int (*next)(const wchar_t *) = NEXT(core, CS_NVTX_RANGE_PUSH_W, int (*)(const wchar_t *));
	int saved = errno;

	cs_marks_push(NULL, NULL);
	errno = saved;
	return next != NULL ? next(text) : NVTX_NO_PUSH_POP_TRACKING;
}

static int
on_pop(void)
{
	int (*next)(void) = NEXT(core, CS_NVTX_RANGE_POP, int (*)(void));
	int saved = errno;

	cs_marks_pop(NULL);
	errno = saved;
	return next != NULL ? next() : NVTX_NO_PUSH_POP_TRACKING;
}

static nvtxRangeId_t
on_start(const nvtxEventAttributes_t *attributes)
{
	nvtxRangeId_t (*next)(const nvtxEventAttributes_t *) =
		NEXT(core, CS_NVTX_RANGE_START_EX, nvtxRangeId_t(*)(const nvtxEventAttributes_t *));
	nvtxRangeId_t id = next != NULL ? next(attributes) : atomic_fetch_add(&range_ids, 1);
	int saved = errno;

	cs_marks_start(id, name_of(attributes));
	errno = saved;
	return id;
}

static nvtxRangeId_t
on_start_text(const char *text)
{
	nvtxRangeId_t (*next)(const char *) =
		NEXT(core, CS_NVTX_RANGE_START_A, nvtxRangeId_t(*)(const char *));
	nvtxRangeId_t id = next != NULL ? next(text) : atomic_fetch_add(&range_ids, 1);
	int saved = errno;

	cs_marks_start(id, text);
	errno = saved;
	return id;
}

static void
on_end(nvtxRangeId_t id)
{
	void (*next)(nvtxRangeId_t) = NEXT(core, CS_NVTX_RANGE_END, void (*)(nvtxRangeId_t));
	int saved = errno;

	cs_marks_end(id);
	errno = saved;
	if (next != NULL)
		next(id);
}

/* -- payload extension --------------------------------------------------------------------------------- */

static uint64_t
on_schema_register(nvtxDomainHandle_t domain, const nvtxPayloadSchemaAttr_t *schema)
{
	/* Schemas without a static id get one each, from NVTX's first dynamic id. */
	static _Atomic uint64_t next_id = NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START;
	uint64_t (*next)(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t *) = NEXT(payload,
		CS_NVTX_SCHEMA_REGISTER, uint64_t(*)(nvtxDomainHandle_t, const nvtxPayloadSchemaAttr_t *));

	if (set_has(nccl_domains, domain))
		cs_nvtx_schema_register(schema);
	if (next != NULL)
		return next(domain, schema);
	if (schema != NULL && (schema->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID) != 0)
		return schema->schemaId;
	return atomic_fetch_add(&next_id, 1);
}

static uint64_t
on_enum_register(nvtxDomainHandle_t domain, const nvtxPayloadEnumAttr_t *attributes)
{
	uint64_t (*next)(nvtxDomainHandle_t, const nvtxPayloadEnumAttr_t *) = NEXT(payload,
		CS_NVTX_ENUM_REGISTER, uint64_t(*)(nvtxDomainHandle_t, const nvtxPayloadEnumAttr_t *));

	if (next != NULL)
		return next(domain, attributes);
	return attributes != NULL ? attributes->schemaId : 0;
}

static int
on_push_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payloads, size_t count)
{
	int (*next)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t) = NEXT(payload,
		CS_NVTX_RANGE_PUSH_PAYLOAD, int (*)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t));
	int saved = errno;

	if (set_has(nccl_domains, domain)) {
		nccl_enter(NULL);
		announce_payloads(payloads, count);
	} else if (cs_marks_wanted()) {
		cs_marks_push(domain, NULL);
	}
	errno = saved;
	return next != NULL ? next(domain, payloads, count) : NVTX_NO_PUSH_POP_TRACKING;
}

/* NCCL's init calls attach the communicator when they end. */
static int
on_pop_payload(nvtxDomainHandle_t domain, const nvtxPayloadData_t *payloads, size_t count)
{
	int (*next)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t) = NEXT(payload,
		CS_NVTX_RANGE_POP_PAYLOAD, int (*)(nvtxDomainHandle_t, const nvtxPayloadData_t *, size_t));
	struct cs_label unused;
	int saved = errno;

	if (set_has(nccl_domains, domain)) {
		for (size_t i = 0; payloads != NULL && i < count; i++)
			cs_nvtx_payload_decode(&payloads[i], &unused);
		nccl_pop();
	} else if (cs_marks_wanted()) {
		cs_marks_pop(domain);
	}
	errno = saved;
	return next != NULL ? next(domain, payloads, count) : NVTX_NO_PUSH_POP_TRACKING;
}

/* NVTX 3.2.0 and 3.2.1 take a missing handler for "disabled". */
static uint8_t
on_domain_is_enabled(nvtxDomainHandle_t domain)
{
	uint8_t (*next)(nvtxDomainHandle_t) =
		NEXT(payload, CS_NVTX_DOMAIN_IS_ENABLED, uint8_t(*)(nvtxDomainHandle_t));

	return next != NULL ? next(domain) : 1;
}

/* -- attaching ----------------------------------------------------------------------------------------- */

struct handler {
	unsigned int index;
	cs_nvtx_function function;
};

static const struct handler core2_handlers[] = {
	{CS_NVTX_DOMAIN_CREATE_A, (cs_nvtx_function)on_domain_create},
	{CS_NVTX_DOMAIN_REGISTER_STRING_A, (cs_nvtx_function)on_register_string},
	{CS_NVTX_DOMAIN_RANGE_PUSH_EX, (cs_nvtx_function)on_domain_push},
	{CS_NVTX_DOMAIN_RANGE_POP, (cs_nvtx_function)on_domain_pop},
};

static const struct handler core2_mark_handlers[] = {
	{CS_NVTX_DOMAIN_RANGE_START_EX, (cs_nvtx_function)on_domain_start},
	{CS_NVTX_DOMAIN_RANGE_END, (cs_nvtx_function)on_domain_end},
};

static const struct handler core_mark_handlers[] = {
	{CS_NVTX_RANGE_PUSH_EX, (cs_nvtx_function)on_push},
	{CS_NVTX_RANGE_PUSH_A, (cs_nvtx_function)on_push_text},
	{CS_NVTX_RANGE_PUSH_W, (cs_nvtx_function)on_push_wide},
	{CS_NVTX_RANGE_POP, (cs_nvtx_function)on_pop},
	{CS_NVTX_RANGE_START_EX, (cs_nvtx_function)on_start},
	{CS_NVTX_RANGE_START_A, (cs_nvtx_function)on_start_text},
	{CS_NVTX_RANGE_END, (cs_nvtx_function)on_end},
};

static const struct handler payload_handlers[] = {
	{CS_NVTX_SCHEMA_REGISTER, (cs_nvtx_function)on_schema_register},
	{CS_NVTX_ENUM_REGISTER, (cs_nvtx_function)on_enum_register},
	{CS_NVTX_RANGE_PUSH_PAYLOAD, (cs_nvtx_function)on_push_payload},
	{CS_NVTX_RANGE_POP_PAYLOAD, (cs_nvtx_function)on_pop_payload},
	{CS_NVTX_DOMAIN_IS_ENABLED, (cs_nvtx_function)on_domain_is_enabled},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void
attach(const struct cs_nvtx_export_callbacks *callbacks, int module, const struct handler *handlers,
	size_t count)
{
	cs_nvtx_function **table = NULL;
	unsigned int size = 0;

	if (!callbacks->get_module_function_table(module, &table, &size) || table == NULL)
		return;
	for (size_t i = 0; i < count; i++)
		if (handlers[i].index < size && table[handlers[i].index] != NULL)
			*table[handlers[i].index] = handlers[i].function;
}

/* 1: attached. 0 would make NVTX close this library and go without any tool. Other threads of the module spin
 * meanwhile. */
int
InitializeInjectionNvtx2(cs_nvtx_get_export_table get_export_table)
{
	const struct cs_nvtx_export_callbacks *callbacks;
	int saved = errno;

	cs_nvtx_forward_attach(get_export_table);
	callbacks = get_export_table(CS_NVTX_EXPORT_CALLBACKS);
	if (callbacks != NULL && callbacks->struct_size >= sizeof(*callbacks)) {
		attach(callbacks, CS_NVTX_MODULE_CORE2, core2_handlers, COUNT(core2_handlers));
		if (cs_marks_wanted()) {
			attach(callbacks, CS_NVTX_MODULE_CORE2, core2_mark_handlers,
				COUNT(core2_mark_handlers));
			attach(callbacks, CS_NVTX_MODULE_CORE, core_mark_handlers, COUNT(core_mark_handlers));
		}
	}
	errno = saved;
	return 1;
}

int
InitializeInjectionNvtxExtension(struct cs_nvtx_extension *extension)
{
	int saved = errno;

	cs_nvtx_forward_attach_extension(extension);
	if (extension->module_id == CS_NVTX_MODULE_PAYLOAD && extension->segment_count > 0)
		for (size_t i = 0; i < COUNT(payload_handlers); i++)
			if (payload_handlers[i].index < extension->segments[0].slot_count)
				extension->segments[0].slots[payload_handlers[i].index] =
					(intptr_t)payload_handlers[i].function;
	errno = saved;
	return 1;
}
