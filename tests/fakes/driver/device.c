/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: a machine of FAKE_CUDA_DEVICES equal GPUs (default 8), narrowed by CUDA_VISIBLE_DEVICES. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_DEFAULT 8U
#define DEVICE_NAME     "Fake GPU H200"
/* cuDriverGetVersion: 1000 * major + 10 * minor. */
#define DRIVER_VERSION 13000U

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int physical[CS_FAKE_DEVICES_MAX];
static int visible;

static void
find_devices(void)
{
	unsigned int count = fake_environment_number("CS_FAKE_DEVICES", DEVICES_DEFAULT);
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char *end;
	long number;

	if (count > CS_FAKE_DEVICES_MAX)
		count = CS_FAKE_DEVICES_MAX;
	if (!list) {
		for (visible = 0; visible < (int)count; visible++)
			physical[visible] = visible;
		return;
	}
	/* As the real list: it ends at the first entry that names no device. */
	while (*list && visible < CS_FAKE_DEVICES_MAX) {
		number = strtol(list, &end, 10);
		if (end == list || number < 0 || number >= (long)count)
			return;
		physical[visible++] = (int)number;
		list = *end == ',' ? end + 1 : end;
	}
}

int
fake_device_count(void)
{
	pthread_once(&once, find_devices);
	return visible;
}

int
fake_device_physical(int ordinal)
{
	return ordinal >= 0 && ordinal < fake_device_count() ? physical[ordinal] : -1;
}

uint64_t
fake_device_memory_bytes(void)
{
	return 139ULL << 30;
}

FAKE_EXPORT CUresult
cuDriverGetVersion(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = (int)fake_environment_number("CS_FAKE_DRIVER_VERSION", DRIVER_VERSION);
	return CUDA_SUCCESS;
}

/* All device functions only ask; each is a frame around one line. */
#define DEVICE_QUERY(function, device_ordinal, condition, ...)                                               \
	FAKE_FRAME(function, FAKE_CALL_QUERY, __VA_ARGS__);                                                  \
	if (!(condition))                                                                                    \
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);                                            \
	if (fake_device_physical(device_ordinal) < 0)                                                        \
	return fake_end(&call, CUDA_ERROR_INVALID_DEVICE)

FAKE_EXPORT CUresult
cuDeviceGetCount(int *count)
{
	DEVICE_QUERY(cuDeviceGetCount, 0, count, count);
	*count = fake_device_count();
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuDeviceGet(CUdevice *device, int ordinal)
{
	DEVICE_QUERY(cuDeviceGet, ordinal, device, device, ordinal);
	*device = ordinal;
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuDeviceGetName(char *name, int length, CUdevice device)
{
	DEVICE_QUERY(cuDeviceGetName, device, name && length > 0, name, length, device);
	snprintf(name, (size_t)length, "%s", DEVICE_NAME);
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	DEVICE_QUERY(cuDeviceTotalMem_v2, device, bytes, bytes, device);
	*bytes = fake_device_memory_bytes();
	return fake_end(&call, CUDA_SUCCESS);
}

/* UUID of physical GPU n: "fake" GPU, last byte n. The fake NVML tells the same. */
FAKE_EXPORT CUresult
cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	DEVICE_QUERY(cuDeviceGetUuid_v2, device, uuid, uuid, device);
	memset(uuid->bytes, 0, sizeof(uuid->bytes));
	memcpy(uuid->bytes, "fakegpu", 7);
	uuid->bytes[15] = (char)fake_device_physical(device);
	return fake_end(&call, CUDA_SUCCESS);
}

#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
FAKE_EXPORT CUresult
cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

FAKE_EXPORT CUresult
cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	DEVICE_QUERY(cuDeviceGetPCIBusId, device, text && length > 0, text, length, device);
	snprintf(text, (size_t)length, "0000:%02X:00.0", 0x10 + fake_device_physical(device));
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	DEVICE_QUERY(cuDeviceGetAttribute, device, value, value, attribute, device);
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*value = 132;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
	case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
		*value = 0;
		break;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*value = 0x10 + fake_device_physical(device);
		break;
	case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
		*value = 32;
		break;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
		*value = 3;
		break;
	case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
		*value = 1;
		break;
	default:
		*value = 0;
		break;
	}
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	DEVICE_QUERY(
		cuDeviceCanAccessPeer, device, can && fake_device_physical(peer) >= 0, can, device, peer);
	*can = device != peer;
	return fake_end(&call, CUDA_SUCCESS);
}
