/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUPTI and the driver as function pointers. CUPTI is never linked: the copy that the process already has
 * (torch's wheel, a toolkit) is used, else one is loaded; one binary serves CUDA 12 and 13.
 *
 * Functions marked "optional" are NULL where the loaded version lacks them.
 */
#ifndef CS_CUPTI_API_H
#define CS_CUPTI_API_H

#include <cuda.h>
#include <cupti.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_cupti_api {
	void *handle;
	uint32_t version; /* cuptiGetVersion: 18 = CUDA 11.8 ... 28, 130000 ... */
	char path[512];   /* file that it came from, "" unknown */

	/* cuptiActivityRegisterCallbacks(requested, completed) and so on: CUPTI's own prototypes. */
	__typeof__(&cuptiGetVersion) get_version;
	__typeof__(&cuptiGetResultString) get_result_string;
	__typeof__(&cuptiSubscribe) subscribe;
	__typeof__(&cuptiUnsubscribe) unsubscribe;
	__typeof__(&cuptiFinalize) finalize; /* only ever with the proof of witness.h */
	__typeof__(&cuptiEnableCallback) enable_callback;
	__typeof__(&cuptiActivityRegisterCallbacks) activity_register_callbacks;
	__typeof__(&cuptiActivityEnable) activity_enable;
	__typeof__(&cuptiActivityDisable) activity_disable;
	__typeof__(&cuptiActivityEnableAndDump) activity_enable_and_dump; /* optional */
	__typeof__(&cuptiActivityFlushAll) activity_flush_all;
	__typeof__(&cuptiActivityGetNextRecord) activity_get_next_record;
	__typeof__(&cuptiActivityGetNumDroppedRecords) activity_get_num_dropped_records;
	__typeof__(&cuptiActivitySetAttribute) activity_set_attribute;
	__typeof__(&cuptiActivityGetAttribute) activity_get_attribute;
	__typeof__(&cuptiGetTimestamp) get_timestamp;
	__typeof__(&cuptiActivityRegisterTimestampCallback)
		activity_register_timestamp_callback; /* optional */
	__typeof__(&cuptiGetGraphNodeId) get_graph_node_id;
	__typeof__(&cuptiGetGraphId) get_graph_id;
	__typeof__(&cuptiGetDeviceId) get_device_id;
	__typeof__(&cuptiGetContextId) get_context_id;
	__typeof__(&cuptiGetStreamIdEx) get_stream_id_ex;
	CUptiResult (*get_graph_exec_id)(CUgraphExec exec, uint32_t *id); /* optional, 12.3 */
	CUptiResult (*subscribe_v2)(
		CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *, void *params); /* optional, 13.0 */

	/* Of the second kind, by the headers of 13.3; all optional. config: NULL, whole records. */
	CUptiResult (*activity_enable_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
	CUptiResult (*activity_disable_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
	CUptiResult (*activity_enable_and_dump_v2)(CUpti_SubscriberHandle, CUpti_ActivityKind, void *config);
	CUptiResult (*activity_register_callbacks_v2)(CUpti_SubscriberHandle,
		void (*requested)(uint8_t **buffer, size_t *bytes, size_t *max_records, void *info),
		void (*completed)(uint8_t *buffer, size_t bytes, size_t valid_bytes, void *info));
	CUptiResult (*activity_set_attribute_v2)(
		CUpti_SubscriberHandle, CUpti_ActivityAttribute, size_t *bytes, void *value);
	CUptiResult (*activity_get_next_record_v2)(
		CUpti_SubscriberHandle, uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);
	CUptiResult (*activity_get_num_dropped_records_v2)(
		CUpti_SubscriberHandle, CUcontext, uint32_t stream, size_t *dropped);
	/* The subscriber by which cupti_call.h makes calls of the second kind; NULL: of the first. Changes
	 * only while no kind is on. */
	_Atomic(CUpti_SubscriberHandle) shared;

	/* The driver's, from the libcuda.so.1 that called us. */
	CUresult (*driver_get_version)(int *version);
	CUresult (*device_get_uuid)(CUuuid *uuid, CUdevice device);
	CUresult (*device_get_name)(char *name, int length, CUdevice device);
	CUresult (*device_get_pci_bus_id)(char *id, int length, CUdevice device);
	CUresult (*device_get_attribute)(int *value, CUdevice_attribute attribute, CUdevice device);
	CUresult (*device_total_memory)(size_t *bytes, CUdevice device);
	/* optional, CUDA 12.4: parameter layout; looks into the module's own tables, starts no work */
	CUresult (*function_get_parameter)(CUfunction function, size_t index, size_t *offset, size_t *bytes);
	/* optional, CUDA 12.4: the same for the CUkernel handles that the runtime launches as CUfunction;
	 * measured on CUDA 13.0: cuFuncGetParamInfo answers CUDA_ERROR_INVALID_HANDLE to those */
	CUresult (*kernel_get_parameter)(CUkernel kernel, size_t index, size_t *offset, size_t *bytes);
	CUresult (*function_get_name)(const char **name, CUfunction function); /* optional, 12.3 */
	CUresult (*kernel_get_name)(const char **name, CUkernel kernel);       /* optional, 12.3 */
};

/*
 * Finds CUPTI: `configured` if not "", else the copy already in the process (any soname, also under another
 * path), else libcupti.so.13, .so.12 by the loader's search, beside the driver's toolkit, in the usual
 * toolkit folders. Fills *api. 0; -ENOENT nothing found; -ELIBBAD found but a needed function is missing;
 * `complaint` says which and what to do. Start-up only (dlopen allocates and locks).
 */
int cs_cupti_api_load(
	const char *configured, struct cs_cupti_api *api, char *complaint, size_t complaint_bytes);

/* Whether CUPTI and driver allow several subscribers: 13.3, its functions of the second kind, and a driver
 * for CUDA 13.3 (r610). Start-up, after load. */
bool cs_cupti_api_can_share(const struct cs_cupti_api *api);

#endif
