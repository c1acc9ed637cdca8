/* SPDX-License-Identifier: Apache-2.0 */
/* cuGetProcAddress, and the texts of errors. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Functions that came with a later driver than CS_FAKE_DRIVER_VERSION may say. */
static const struct {
	const char *name;
	int since;
} later[] = {
	{"cuFuncGetParamInfo", 12040},
	{"cuFuncGetName", 12030},
	{"cuKernelGetName", 12030},
	{"cuKernelGetParamInfo", 12040},
	{"cuLaunchKernelEx", 11080},
	{"cuGraphInstantiateWithParams", 12000},
	{"cuGraphExecUpdate_v2", 12000},
};

static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
static const char *const thread_suffixes[] = {"_v2_ptsz", "_ptsz"};

static bool
available(const char *name, int version)
{
	size_t i;
	int driver = 0;

	cuDriverGetVersion(&driver);
	for (i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (strcmp(later[i].name, name) == 0)
			return driver >= later[i].since && version >= later[i].since;
	return true;
}

/* The newest form of a function, as a program of this CUDA version gets it. */
static void *
find(const char *symbol, bool per_thread)
{
	char name[128];
	size_t i;
	void *address;

	for (i = 0; per_thread && i < sizeof(thread_suffixes) / sizeof(thread_suffixes[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, thread_suffixes[i]);
		address = dlsym(RTLD_DEFAULT, name);
		if (address)
			return address;
	}
	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", symbol, suffixes[i]);
		address = dlsym(RTLD_DEFAULT, name);
		if (address)
			return address;
	}
	return NULL;
}

FAKE_EXPORT CUresult
cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
	CUdriverProcAddressQueryResult *status)
{
	if (!symbol || !function)
		return CUDA_ERROR_INVALID_VALUE;
	*function = NULL;
	if (strncmp(symbol, "cu", 2) == 0)
		*function = find(symbol, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
	if (*function && !available(symbol, version)) {
		*function = NULL;
		if (status)
			*status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		return CUDA_ERROR_NOT_FOUND;
	}
	if (status)
		*status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static const struct {
	CUresult result;
	const char *name;
	const char *text;
} errors[] = {
	{CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
	{CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	{CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
		"operation not permitted when stream is capturing"},
	{CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
		"the graph update was not performed because it included changes which violated constraints"},
};

FAKE_EXPORT CUresult
cuGetErrorName(CUresult result, const char **name)
{
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].result == result) {
			*name = errors[i].name;
			return CUDA_SUCCESS;
		}
	}
	*name = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult
cuGetErrorString(CUresult result, const char **text)
{
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].result == result) {
			*text = errors[i].text;
			return CUDA_SUCCESS;
		}
	}
	*text = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}
