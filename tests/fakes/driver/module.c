/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and functions. An image is text, one kernel a line:
 *
 *   fake module
 *   kernel NAME [duration NS] [params SIZE[:ALIGN] ...]
 *
 * NAME is the mangled name as records and callbacks show it. A parameter lies at the next multiple of its
 * alignment (default: its size if that is 1, 2, 4, 8 or 16, else 8), as nvcc lays parameters out.
 */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGE_MAGIC "fake module\n"

struct cs_fake_module {
	struct cs_fake_function *functions;
	struct cs_fake_module *next;
};

static struct cs_fake_module *modules;

struct cs_fake_function *
fake_function(CUfunction handle)
{
	struct cs_fake_module *module;
	struct cs_fake_function *function;

	for (module = modules; module; module = module->next)
		for (function = module->functions; function; function = function->next)
			if (function == (struct cs_fake_function *)handle)
				return function;
	return NULL;
}

static struct cs_fake_function *
fake_kernel(CUkernel handle)
{
	struct cs_fake_module *module;
	struct cs_fake_function *function;

	for (module = modules; module; module = module->next)
		for (function = module->functions; function; function = function->next)
			if (&function->kernel_handle == (char *)handle)
				return function;
	return NULL;
}

struct cs_fake_function *
fake_launchable(CUfunction handle)
{
	struct cs_fake_function *function = fake_function(handle);

	return function ? function : fake_kernel((CUkernel)handle);
}

static bool
parse_parameter(struct cs_fake_function *function, char *text)
{
	char *colon = strchr(text, ':');
	unsigned long size = strtoul(text, NULL, 10);
	unsigned long align = colon ? strtoul(colon + 1, NULL, 10) : size;
	uint32_t at = function->parameter_bytes;

	if (!colon && align != 1 && align != 2 && align != 4 && align != 8 && align != 16)
		align = 8;
	if (!size || size > 65536 || !align || function->parameter_count == CS_FAKE_PARAMETERS_MAX)
		return false;
	at = (uint32_t)((at + align - 1) / align * align);
	function->offsets[function->parameter_count] = at;
	function->sizes[function->parameter_count] = (uint32_t)size;
	function->parameter_count++;
	function->parameter_bytes = at + (uint32_t)size;
	return true;
}

struct kept_name {
	struct kept_name *next;
	char text[];
};

/* Names outlive their modules, as those in CUPTI's records do; equal ones are one. NULL: no memory. */
static char *
keep_name(const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept_name *names;
	struct kept_name *name;

	pthread_mutex_lock(&lock);
	for (name = names; name && strcmp(name->text, text) != 0; name = name->next)
		;
	if (!name && (name = malloc(sizeof(*name) + strlen(text) + 1))) {
		strcpy(name->text, text);
		name->next = names;
		names = name;
	}
	pthread_mutex_unlock(&lock);
	return name ? name->text : NULL;
}

static struct cs_fake_function *
parse_kernel(char *line)
{
	struct cs_fake_function *function;
	char *rest = NULL;
	char *word = strtok_r(line, " \t", &rest);
	bool in_params = false;

	if (!word || strcmp(word, "kernel") != 0 || !(word = strtok_r(NULL, " \t", &rest)))
		return NULL;
	function = calloc(1, sizeof(*function));
	if (!function)
		return NULL;
	function->name = keep_name(word);
	function->duration_ns = FAKE_KERNEL_NS;
	while ((word = strtok_r(NULL, " \t", &rest))) {
		if (strcmp(word, "params") == 0) {
			in_params = true;
		} else if (strcmp(word, "duration") == 0 && !in_params &&
			   (word = strtok_r(NULL, " \t", &rest))) {
			function->duration_ns = strtoull(word, NULL, 10);
		} else if (!in_params || !parse_parameter(function, word)) {
			free(function);
			return NULL;
		}
	}
	return function;
}

static void
module_free(struct cs_fake_module *module)
{
	struct cs_fake_function *function;

	while ((function = module->functions)) {
		module->functions = function->next;
		free(function);
	}
	free(module);
}

static CUresult
parse_image(const char *image, struct cs_fake_module **parsed)
{
	struct cs_fake_module *module;
	struct cs_fake_function *function;
	char *text;
	char *line;
	char *rest = NULL;

	if (strncmp(image, IMAGE_MAGIC, strlen(IMAGE_MAGIC)) != 0)
		return CUDA_ERROR_INVALID_IMAGE;
	module = calloc(1, sizeof(*module));
	text = strdup(image + strlen(IMAGE_MAGIC));
	if (!module || !text) {
		free(module);
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		function = parse_kernel(line);
		if (!function) {
			module_free(module);
			free(text);
			return CUDA_ERROR_INVALID_IMAGE;
		}
		function->module = module;
		function->next = module->functions;
		module->functions = function;
	}
	free(text);
	*parsed = module;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult
cuModuleLoadData(CUmodule *handle, const void *image)
{
	struct cs_fake_module *module = NULL;
	FAKE_FRAME(cuModuleLoadData, 0, handle, image);

	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	if (!handle || !image)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	result = parse_image(image, &module);
	if (result != CUDA_SUCCESS)
		return fake_end(&call, result);
	pthread_mutex_lock(&fake_lock);
	module->next = modules;
	modules = module;
	pthread_mutex_unlock(&fake_lock);
	*handle = (CUmodule)module;
	fake_tools()->resource(CUPTI_CBID_RESOURCE_MODULE_LOADED,
		&(struct cs_fake_event){.context = call.context, .module = module});
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuModuleUnload(CUmodule handle)
{
	struct cs_fake_module *module = (struct cs_fake_module *)handle;
	struct cs_fake_module **link;
	FAKE_FRAME(cuModuleUnload, 0, handle);

	fake_tools()->resource(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
		&(struct cs_fake_event){.context = call.context, .module = module});
	result = CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&fake_lock);
	for (link = &modules; *link; link = &(*link)->next) {
		if (*link == module) {
			*link = module->next;
			result = CUDA_SUCCESS;
			break;
		}
	}
	pthread_mutex_unlock(&fake_lock);
	if (result == CUDA_SUCCESS)
		module_free(module);
	return fake_end(&call, result);
}

FAKE_EXPORT CUresult
cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name)
{
	struct cs_fake_module *module = (struct cs_fake_module *)module_handle;
	struct cs_fake_function *function;
	FAKE_FRAME(cuModuleGetFunction, 0, handle, module_handle, name);

	if (!handle || !module || !name)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	for (function = module->functions; function; function = function->next)
		if (strcmp(function->name, name) == 0)
			break;
	if (!function)
		return fake_end(&call, CUDA_ERROR_NOT_FOUND);
	*handle = (CUfunction)function;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuFuncGetName(const char **name, CUfunction handle)
{
	struct cs_fake_function *function;
	FAKE_FRAME(cuFuncGetName, FAKE_CALL_QUERY, name, handle);

	pthread_mutex_lock(&fake_lock);
	function = fake_function(handle);
	pthread_mutex_unlock(&fake_lock);
	if (!function || !name)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*name = function->name;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuFuncGetModule(CUmodule *module, CUfunction handle)
{
	struct cs_fake_function *function;
	FAKE_FRAME(cuFuncGetModule, FAKE_CALL_QUERY, module, handle);

	pthread_mutex_lock(&fake_lock);
	function = fake_function(handle);
	pthread_mutex_unlock(&fake_lock);
	if (!function || !module)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*module = (CUmodule)function->module;
	return fake_end(&call, CUDA_SUCCESS);
}

/* Missing before 12.4: CS_FAKE_DRIVER_VERSION below 12040 hides it, see proc.c. */
FAKE_EXPORT CUresult
cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	struct cs_fake_function *function;
	FAKE_FRAME(cuFuncGetParamInfo, FAKE_CALL_QUERY, handle, index, offset, size);

	pthread_mutex_lock(&fake_lock);
	function = fake_function(handle);
	pthread_mutex_unlock(&fake_lock);
	if (!function)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	if (!offset || index >= function->parameter_count)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*offset = function->offsets[index];
	if (size)
		*size = function->sizes[index];
	return fake_end(&call, CUDA_SUCCESS);
}

/* Libraries: what the runtime loads kernels from, without a context. The same images, kernels instead of
 * functions. */
FAKE_EXPORT CUresult
cuLibraryLoadData(CUlibrary *handle, const void *code, CUjit_option *jit_options, void **jit_values,
	unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count)
{
	struct cs_fake_module *module = NULL;
	FAKE_FRAME(cuLibraryLoadData, 0, handle, code, jit_options, jit_values, jit_count, options, values,
		count);

	if (!handle || !code)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	result = parse_image(code, &module);
	if (result != CUDA_SUCCESS)
		return fake_end(&call, result);
	pthread_mutex_lock(&fake_lock);
	module->next = modules;
	modules = module;
	pthread_mutex_unlock(&fake_lock);
	*handle = (CUlibrary)module;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuLibraryGetKernel(CUkernel *handle, CUlibrary library, const char *name)
{
	struct cs_fake_module *module = (struct cs_fake_module *)library;
	struct cs_fake_function *function;
	FAKE_FRAME(cuLibraryGetKernel, FAKE_CALL_QUERY, handle, library, name);

	if (!handle || !module || !name)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	for (function = module->functions; function; function = function->next)
		if (strcmp(function->name, name) == 0)
			break;
	if (!function)
		return fake_end(&call, CUDA_ERROR_NOT_FOUND);
	*handle = (CUkernel)&function->kernel_handle;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuKernelGetName(const char **name, CUkernel handle)
{
	struct cs_fake_function *function;
	FAKE_FRAME(cuKernelGetName, FAKE_CALL_QUERY, name, handle);

	pthread_mutex_lock(&fake_lock);
	function = fake_kernel(handle);
	pthread_mutex_unlock(&fake_lock);
	if (!function || !name)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	*name = function->name;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
	struct cs_fake_function *function;
	FAKE_FRAME(cuKernelGetParamInfo, FAKE_CALL_QUERY, handle, index, offset, size);

	pthread_mutex_lock(&fake_lock);
	function = fake_kernel(handle);
	pthread_mutex_unlock(&fake_lock);
	if (!function)
		return fake_end(&call, CUDA_ERROR_INVALID_HANDLE);
	if (!offset || index >= function->parameter_count)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*offset = function->offsets[index];
	if (size)
		*size = function->sizes[index];
	return fake_end(&call, CUDA_SUCCESS);
}
