/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_name.h"

#include "collective.h"
#include "kernel_name_private.h"

#include <string.h>

static const char anonymous_part[] = "(anonymous)";

static const struct {
	const char *name;
	uint8_t dtype;
} type_names[] = {
	{"__half", CS_DTYPE_FLOAT16},
	{"half", CS_DTYPE_FLOAT16},
	{"__nv_half", CS_DTYPE_FLOAT16},
	{"Half", CS_DTYPE_FLOAT16},
	{"half_t", CS_DTYPE_FLOAT16},
	{"float16", CS_DTYPE_FLOAT16},
	{"_Float16", CS_DTYPE_FLOAT16},
	{"__nv_bfloat16", CS_DTYPE_BFLOAT16},
	{"nv_bfloat16", CS_DTYPE_BFLOAT16},
	{"BFloat16", CS_DTYPE_BFLOAT16},
	{"bfloat16", CS_DTYPE_BFLOAT16},
	{"bfloat16_t", CS_DTYPE_BFLOAT16},
	{"__nv_fp8_e4m3", CS_DTYPE_FLOAT8_E4M3},
	{"Float8_e4m3fn", CS_DTYPE_FLOAT8_E4M3},
	{"float_e4m3_t", CS_DTYPE_FLOAT8_E4M3},
	{"__nv_fp8_e5m2", CS_DTYPE_FLOAT8_E5M2},
	{"Float8_e5m2", CS_DTYPE_FLOAT8_E5M2},
	{"float_e5m2_t", CS_DTYPE_FLOAT8_E5M2},
	{"float", CS_DTYPE_FLOAT32},
	{"double", CS_DTYPE_FLOAT64},
	{"signed char", CS_DTYPE_INT8},
	{"int8_t", CS_DTYPE_INT8},
	{"unsigned char", CS_DTYPE_UINT8},
	{"uint8_t", CS_DTYPE_UINT8},
	{"int", CS_DTYPE_INT32},
	{"int32_t", CS_DTYPE_INT32},
	{"unsigned int", CS_DTYPE_UINT32},
	{"unsigned", CS_DTYPE_UINT32},
	{"uint32_t", CS_DTYPE_UINT32},
	{"long", CS_DTYPE_INT64},
	{"long long", CS_DTYPE_INT64},
	{"int64_t", CS_DTYPE_INT64},
	{"unsigned long", CS_DTYPE_UINT64},
	{"unsigned long long", CS_DTYPE_UINT64},
	{"uint64_t", CS_DTYPE_UINT64},
};

uint8_t
cs_kernel_name_dtype(const char *text, size_t length)
{
	for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
		if (strlen(type_names[i].name) == length && memcmp(type_names[i].name, text, length) == 0)
			return type_names[i].dtype;
	}
	return CS_DTYPE_UNKNOWN;
}

static bool
starts_with(const char *text, size_t length, const char *prefix)
{
	size_t prefix_length = strlen(prefix);

	return length >= prefix_length && memcmp(text, prefix, prefix_length) == 0;
}

/* When there are more parts than places the last place follows the name, so that the function's own name is
 * always the last part. */
void
cs_kernel_name_add_part(struct cs_kernel_name *name, const char *text, size_t length)
{
	/* gcc and clang: _GLOBAL__N_1; nvcc: _GLOBAL__N__<hash>_..., before 11.5 _INTERNAL_<hash>_... */
	if (starts_with(text, length, "_GLOBAL__N_") || starts_with(text, length, "_INTERNAL_")) {
		text = anonymous_part;
		length = sizeof(anonymous_part) - 1;
	}
	if (name->part_count == CS_KERNEL_NAME_PARTS)
		name->part_count--;
	name->parts[name->part_count].text = text;
	name->parts[name->part_count].length = length;
	name->part_count++;
}

struct cs_name_argument *
cs_kernel_name_add_argument(struct cs_kernel_name *name, int parent, unsigned int ordinal)
{
	struct cs_name_argument *argument;

	if (name->argument_count == CS_KERNEL_NAME_ARGUMENTS || ordinal > UINT8_MAX)
		return NULL;
	argument = &name->arguments[name->argument_count++];
	*argument = (struct cs_name_argument){.parent = (int8_t)parent, .ordinal = (uint8_t)ordinal};
	return argument;
}

const struct cs_name_argument *
cs_kernel_name_argument(const struct cs_kernel_name *name, int parent, unsigned int ordinal)
{
	for (size_t i = 0; i < name->argument_count; i++) {
		if (name->arguments[i].parent == parent && name->arguments[i].ordinal == ordinal)
			return &name->arguments[i];
	}
	return NULL;
}

void
cs_kernel_name_scan(const char *text, struct cs_kernel_name *name)
{
	size_t length = strnlen(text, CS_KERNEL_NAME_BYTES);
	const char *mangled = text;

	name->part_count = 0;
	name->argument_count = 0;
	name->prefix_count = 0;
	name->arguments_text = NULL;
	name->arguments_complete = false;
	name->mangled = false;
	name->end = text + length;
	/* A static kernel of nvcc: the mangled name stands behind a prefix that names the file. */
	if (starts_with(text, length, "__nv_static_")) {
		const char *inner = memmem(text, length, "__Z", 3);

		if (inner != NULL)
			mangled = inner + 1;
	}
	if (name->end - mangled > 2 && mangled[0] == '_' && mangled[1] == 'Z') {
		name->mangled = true;
		cs_kernel_name_scan_mangled(mangled + 2, name);
	} else {
		cs_kernel_name_scan_plain(text, name);
	}
}

void
cs_kernel_name_parse_arguments(struct cs_kernel_name *name)
{
	if (name->arguments_text == NULL || name->argument_count > 0)
		return;
	if (name->mangled)
		cs_kernel_name_arguments_mangled(name);
	else
		cs_kernel_name_arguments_plain(name);
}
