/* SPDX-License-Identifier: Apache-2.0 */
#include "forward.h"

#include "life/library.h"
#include "log.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

struct cs_nvtx_next cs_nvtx_next;

static cs_nvtx_initialize tool_initialize;
static cs_nvtx_initialize_extension tool_initialize_extension;

/* ISO C has no conversion from an object pointer to a function pointer. */
static void
find_function(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
}

int
cs_nvtx_forward_load(const char *path)
{
	const char *why = NULL;
	void *library = cs_library_open(path, RTLD_LAZY | RTLD_LOCAL, &why);

	if (library == NULL) {
		cs_log_warn("Cannot forward NVTX to %s: %s", path, why);
		return -ENOENT;
	}
	find_function(library, "InitializeInjectionNvtx2", &tool_initialize);
	find_function(library, "InitializeInjectionNvtxExtension", &tool_initialize_extension);
	if (tool_initialize != NULL || tool_initialize_extension != NULL)
		return 0;
	cs_log_warn("Cannot forward NVTX to %s: it has no InitializeInjectionNvtx2", path);
	return -ENOENT;
}

struct table {
	cs_nvtx_function **entries;
	unsigned int size;
};

static struct table
get_table(cs_nvtx_get_export_table get_export_table, int module, unsigned int size_max)
{
	const struct cs_nvtx_export_callbacks *callbacks = get_export_table(CS_NVTX_EXPORT_CALLBACKS);
	struct table table = {0};

	if (callbacks == NULL || callbacks->struct_size < sizeof(*callbacks) ||
		!callbacks->get_module_function_table(module, &table.entries, &table.size))
		return (struct table){0};
	if (table.size > size_max)
		table.size = size_max;
	return table;
}

/* What differs from before the tool attached is the tool's. */
static void
copy_table(const struct table *table, cs_nvtx_function *functions)
{
	for (unsigned int i = 0; i < table->size; i++)
		functions[i] = table->entries[i] != NULL ? *table->entries[i] : NULL;
}

static void
keep_changed(const struct table *table, const cs_nvtx_function *before, _Atomic(cs_nvtx_function) *next)
{
	for (unsigned int i = 0; i < table->size; i++)
		if (table->entries[i] != NULL && *table->entries[i] != before[i])
			atomic_store_explicit(&next[i], *table->entries[i], memory_order_release);
}

void
cs_nvtx_forward_attach(cs_nvtx_get_export_table get_export_table)
{
	struct table core = get_table(get_export_table, CS_NVTX_MODULE_CORE, CS_NVTX_CORE_SIZE);
	struct table core2 = get_table(get_export_table, CS_NVTX_MODULE_CORE2, CS_NVTX_CORE2_SIZE);
	cs_nvtx_function before[CS_NVTX_CORE_SIZE] = {0};
	cs_nvtx_function before2[CS_NVTX_CORE2_SIZE] = {0};

	if (tool_initialize == NULL)
		return;
	copy_table(&core, before);
	copy_table(&core2, before2);
	if (tool_initialize(get_export_table) == 0)
		return;
	keep_changed(&core, before, cs_nvtx_next.core);
	keep_changed(&core2, before2, cs_nvtx_next.core2);
}

void
cs_nvtx_forward_attach_extension(struct cs_nvtx_extension *extension)
{
	if (tool_initialize_extension == NULL || tool_initialize_extension(extension) == 0)
		return;
	if (extension->module_id != CS_NVTX_MODULE_PAYLOAD || extension->segment_count == 0)
		return;
	for (size_t i = 0; i < extension->segments[0].slot_count && i < CS_NVTX_PAYLOAD_SLOTS; i++)
		if (extension->segments[0].slots[i] != 0)
			atomic_store_explicit(&cs_nvtx_next.payload[i], extension->segments[0].slots[i],
				memory_order_release);
}
