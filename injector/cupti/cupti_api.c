/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which libcupti. Two copies in one process would both patch the driver, and a copy that we load first is the
 * one that torch later gets by its soname; so the copy that is there already is taken, wherever it came from.
 */
#include "cupti_api.h"

#include "life/library.h"
#include "records/activity_layout.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct symbol {
	const char *name;
	size_t offset_bytes;
	bool optional;
};

#define SYMBOL(name, member, optional)                                                                       \
	{                                                                                                    \
		name, offsetof(struct cs_cupti_api, member), optional                                        \
	}

static const struct symbol cupti_symbols[] = {
	SYMBOL("cuptiGetVersion", get_version, false),
	SYMBOL("cuptiGetResultString", get_result_string, false),
	SYMBOL("cuptiSubscribe", subscribe, false),
	SYMBOL("cuptiUnsubscribe", unsubscribe, false),
	SYMBOL("cuptiFinalize", finalize, false),
	SYMBOL("cuptiEnableCallback", enable_callback, false),
	SYMBOL("cuptiActivityRegisterCallbacks", activity_register_callbacks, false),
	SYMBOL("cuptiActivityEnable", activity_enable, false),
	SYMBOL("cuptiActivityDisable", activity_disable, false),
	SYMBOL("cuptiActivityEnableAndDump", activity_enable_and_dump, true),
	SYMBOL("cuptiActivityFlushAll", activity_flush_all, false),
	SYMBOL("cuptiActivityGetNextRecord", activity_get_next_record, false),
	SYMBOL("cuptiActivityGetNumDroppedRecords", activity_get_num_dropped_records, false),
	SYMBOL("cuptiActivitySetAttribute", activity_set_attribute, false),
	SYMBOL("cuptiActivityGetAttribute", activity_get_attribute, false),
	SYMBOL("cuptiGetTimestamp", get_timestamp, false),
	SYMBOL("cuptiActivityRegisterTimestampCallback", activity_register_timestamp_callback, true),
	SYMBOL("cuptiGetGraphNodeId", get_graph_node_id, false),
	SYMBOL("cuptiGetGraphId", get_graph_id, false),
	SYMBOL("cuptiGetDeviceId", get_device_id, false),
	SYMBOL("cuptiGetContextId", get_context_id, false),
	SYMBOL("cuptiGetStreamIdEx", get_stream_id_ex, false),
	SYMBOL("cuptiGetGraphExecId", get_graph_exec_id, true),
	SYMBOL("cuptiSubscribe_v2", subscribe_v2, true),
	SYMBOL("cuptiActivityEnable_v2", activity_enable_v2, true),
	SYMBOL("cuptiActivityDisable_v2", activity_disable_v2, true),
	SYMBOL("cuptiActivityEnableAndDump_v2", activity_enable_and_dump_v2, true),
	SYMBOL("cuptiActivityRegisterCallbacks_v2", activity_register_callbacks_v2, true),
	SYMBOL("cuptiActivitySetAttribute_v2", activity_set_attribute_v2, true),
	SYMBOL("cuptiActivityGetNextRecord_v2", activity_get_next_record_v2, true),
	SYMBOL("cuptiActivityGetNumDroppedRecords_v2", activity_get_num_dropped_records_v2, true),
};

static const struct symbol driver_symbols[] = {
	SYMBOL("cuDriverGetVersion", driver_get_version, false),
	/* The first where there is no second; the second tells MIG instances apart (11.4). */
	SYMBOL("cuDeviceGetUuid", device_get_uuid, true),
	SYMBOL("cuDeviceGetUuid_v2", device_get_uuid, true),
	SYMBOL("cuDeviceGetName", device_get_name, false),
	SYMBOL("cuDeviceGetPCIBusId", device_get_pci_bus_id, false),
	SYMBOL("cuDeviceGetAttribute", device_get_attribute, false),
	SYMBOL("cuDeviceTotalMem_v2", device_total_memory, false),
	SYMBOL("cuFuncGetParamInfo", function_get_parameter, true),
	SYMBOL("cuKernelGetParamInfo", kernel_get_parameter, true),
	SYMBOL("cuFuncGetName", function_get_name, true),
	SYMBOL("cuKernelGetName", kernel_get_name, true),
};

/* NULL, or the first needed symbol that is missing. */
static const char *
resolve(void *library, const struct symbol *symbols, size_t count, struct cs_cupti_api *api)
{
	for (size_t i = 0; i < count; i++) {
		void *address = dlsym(library, symbols[i].name);

		if (!address && !symbols[i].optional)
			return symbols[i].name;
		if (address)
			memcpy((char *)api + symbols[i].offset_bytes, &address, sizeof(address));
	}
	return NULL;
}

/* -- finding --------------------------------------------------------------------------------------------- */

struct search {
	const char *word;
	char path[512];
};

static int
match_loaded(struct dl_phdr_info *info, size_t bytes, void *argument)
{
	struct search *search = argument;
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	(void)bytes;
	if (!name || strncmp(name + 1, search->word, strlen(search->word)) != 0 ||
		strlen(info->dlpi_name) >= sizeof(search->path))
		return 0;
	strcpy(search->path, info->dlpi_name);
	return 1;
}

/* Path of a loaded library whose file name begins with `word`; "" none. */
static const char *
find_loaded(const char *word, struct search *search)
{
	search->word = word;
	search->path[0] = '\0';
	cs_library_visit(match_loaded, search);
	return search->path;
}

static void *
open_loaded(void)
{
	static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
	struct search search;
	void *library = NULL;

	for (size_t i = 0; !library && i < sizeof(sonames) / sizeof(sonames[0]); i++)
		library = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library && find_loaded("libcupti", &search)[0])
		library = dlopen(search.path, RTLD_NOW | RTLD_LOCAL);
	return library;
}

static void *
open_in(const char *folder, size_t folder_bytes, const char *below, int major)
{
	char path[640];
	int length =
		snprintf(path, sizeof(path), "%.*s%slibcupti.so.%d", (int)folder_bytes, folder, below, major);

	if (length < 0 || (size_t)length >= sizeof(path))
		return NULL;
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Beside the CUDA runtime that the process has loaded: in its folder (toolkit, CUDA 13 wheels), in the wheel
 * next to it (CUDA 12 wheels: nvidia/cuda_runtime/lib and nvidia/cuda_cupti/lib), in the toolkit's extras. */
static void *
open_near_runtime(int major)
{
	static const char *const below[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
	struct search search;
	const char *slash = strrchr(find_loaded("libcudart.so", &search), '/');
	void *library = NULL;

	for (size_t i = 0; slash && !library && i < sizeof(below) / sizeof(below[0]); i++)
		library = open_in(search.path, (size_t)(slash + 1 - search.path), below[i], major);
	return library;
}

static void *
open_in_toolkit(int major)
{
	static const char *const below[] = {"lib64/", "extras/CUPTI/lib64/"};
	char folders[2][64];
	void *library = NULL;

	snprintf(folders[0], sizeof(folders[0]), "/usr/local/cuda-%d/", major);
	snprintf(folders[1], sizeof(folders[1]), "/usr/local/cuda/");
	for (size_t i = 0; i < 2; i++)
		for (size_t j = 0; !library && j < 2; j++)
			library = open_in(folders[i], strlen(folders[i]), below[j], major);
	return library;
}

/* A CUPTI newer than the driver does not work; one of an older major does. */
static void *
open_new(int driver_version)
{
	int newest = driver_version >= 13000 ? 13 : 12;
	void *library = NULL;

	for (int major = newest; !library && major >= 12; major--) {
		library = open_near_runtime(major);
		if (!library)
			library = open_in("", 0, "", major);
		if (!library)
			library = open_in_toolkit(major);
	}
	return library;
}

/* -- loading --------------------------------------------------------------------------------------------- */

static int
load_driver(struct cs_cupti_api *api, char *complaint, size_t complaint_bytes)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	const char *missing = resolve(driver ? driver : RTLD_DEFAULT, driver_symbols,
		sizeof(driver_symbols) / sizeof(driver_symbols[0]), api);

	if (!missing)
		return 0;
	snprintf(complaint, complaint_bytes, "the CUDA driver in this process has no %s", missing);
	return -ELIBBAD;
}

static int
check(struct cs_cupti_api *api, char *complaint, size_t complaint_bytes)
{
	const char *missing =
		resolve(api->handle, cupti_symbols, sizeof(cupti_symbols) / sizeof(cupti_symbols[0]), api);
	Dl_info info;

	if (dladdr((void *)(uintptr_t)api->get_version, &info) != 0 && info.dli_fname)
		snprintf(api->path, sizeof(api->path), "%s", info.dli_fname);
	if (missing) {
		snprintf(complaint, complaint_bytes,
			"libcupti lacks %s; set COLLSCOPE_CUPTI_PATH to one of CUDA 12 or 13", missing);
		return -ELIBBAD;
	}
	if (api->get_version(&api->version) != CUPTI_SUCCESS || api->version < CS_CUPTI_VERSION_MIN) {
		snprintf(complaint, complaint_bytes,
			"libcupti has version %u, too old; set COLLSCOPE_CUPTI_PATH to one of CUDA 12 or 13",
			api->version);
		return -ELIBBAD;
	}
	return 0;
}

/* cuptiGetVersion and cuDriverGetVersion: from 13.3 on it is no longer a beta, and from this driver on it
 * works at all (CUPTI's documentation, "Multiple Subscribers"). */
#define VERSION_WITH_SHARING        130300U
#define DRIVER_VERSION_WITH_SHARING 13030

bool
cs_cupti_api_can_share(const struct cs_cupti_api *api)
{
	int driver_version = 0;

	return api->version >= VERSION_WITH_SHARING &&
	       api->driver_get_version(&driver_version) == CUDA_SUCCESS &&
	       driver_version >= DRIVER_VERSION_WITH_SHARING && api->subscribe_v2 &&
	       api->activity_enable_v2 && api->activity_disable_v2 && api->activity_enable_and_dump_v2 &&
	       api->activity_register_callbacks_v2 && api->activity_set_attribute_v2 &&
	       api->activity_get_next_record_v2 && api->activity_get_num_dropped_records_v2;
}

int
cs_cupti_api_load(const char *configured, struct cs_cupti_api *api, char *complaint, size_t complaint_bytes)
{
	const char *why = NULL;
	int driver_version = 0;
	int result;

	memset(api, 0, sizeof(*api));
	result = load_driver(api, complaint, complaint_bytes);
	if (result < 0)
		return result;
	api->driver_get_version(&driver_version);
	if (configured[0]) {
		api->handle = cs_library_open(configured, RTLD_NOW | RTLD_LOCAL, &why);
		if (!api->handle) {
			snprintf(
				complaint, complaint_bytes, "COLLSCOPE_CUPTI_PATH cannot be loaded: %s", why);
			return -ENOENT;
		}
		return check(api, complaint, complaint_bytes);
	}
	api->handle = open_loaded();
	if (!api->handle)
		api->handle = open_new(driver_version);
	if (!api->handle) {
		snprintf(complaint, complaint_bytes,
			"no libcupti.so was found; install CUDA's CUPTI (pip install nvidia-cuda-cupti) or "
			"set "
			"COLLSCOPE_CUPTI_PATH");
		return -ENOENT;
	}
	return check(api, complaint, complaint_bytes);
}
