/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as bookkeeping: addresses are handed out, no byte of it exists. Host memory is real. What is
 * free counts CUPTI's device buffers too, so that a program sees what tracing takes from it.
 */
#include "driver.h"

#include <stdlib.h>

#define MEMORY_BASE  0x700000000000ULL
#define MEMORY_ALIGN 512U

struct block {
	CUdeviceptr address;
	size_t bytes;
	int device;
	struct block *next;
};

static struct block *blocks;
static CUdeviceptr next_address = MEMORY_BASE;
static uint64_t used_bytes[CS_FAKE_DEVICES_MAX];

static CUresult
allocate(int device, size_t bytes, CUdeviceptr *address)
{
	struct block *block;
	uint64_t taken = fake_tools()->device_bytes(device);

	block = malloc(sizeof(*block));
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&fake_lock);
	if (bytes > fake_device_memory_bytes() - used_bytes[device] - taken) {
		pthread_mutex_unlock(&fake_lock);
		free(block);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*block = (struct block){next_address, bytes, device, blocks};
	blocks = block;
	used_bytes[device] += bytes;
	next_address += (bytes + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
	*address = block->address;
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

uint64_t
fake_memory_bytes(int device)
{
	uint64_t bytes;

	if (device < 0 || device >= CS_FAKE_DEVICES_MAX)
		return 0;
	pthread_mutex_lock(&fake_lock);
	bytes = used_bytes[device];
	pthread_mutex_unlock(&fake_lock);
	return bytes + fake_tools()->device_bytes(device);
}

FAKE_EXPORT CUresult
cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	FAKE_FRAME(cuMemAlloc_v2, 0, address, bytes);

	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	if (!address || !bytes)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	return fake_end(&call, allocate(call.context->device, bytes, address));
}

FAKE_EXPORT CUresult
cuMemFree_v2(CUdeviceptr address)
{
	struct block **link;
	struct block *block = NULL;
	FAKE_FRAME(cuMemFree_v2, 0, address);

	pthread_mutex_lock(&fake_lock);
	for (link = &blocks; *link; link = &(*link)->next) {
		if ((*link)->address == address) {
			block = *link;
			*link = block->next;
			used_bytes[block->device] -= block->bytes;
			break;
		}
	}
	pthread_mutex_unlock(&fake_lock);
	result = block || !address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	free(block);
	return fake_end(&call, result);
}

FAKE_EXPORT CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	FAKE_FRAME(cuMemGetInfo_v2, FAKE_CALL_QUERY, free_bytes, total_bytes);

	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	if (!free_bytes || !total_bytes)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*total_bytes = fake_device_memory_bytes();
	*free_bytes = *total_bytes - used_bytes[call.context->device] -
		      fake_tools()->device_bytes(call.context->device);
	return fake_end(&call, CUDA_SUCCESS);
}

FAKE_EXPORT CUresult
cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	FAKE_FRAME(cuMemHostAlloc, 0, memory, bytes, flags);

	if (!call.context)
		return fake_end(&call, CUDA_ERROR_INVALID_CONTEXT);
	if (!memory || !bytes)
		return fake_end(&call, CUDA_ERROR_INVALID_VALUE);
	*memory = calloc(1, bytes);
	return fake_end(&call, *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

FAKE_EXPORT CUresult
cuMemFreeHost(void *memory)
{
	FAKE_FRAME(cuMemFreeHost, 0, memory);

	free(memory);
	return fake_end(&call, CUDA_SUCCESS);
}

CUmemorytype
fake_memory_type(CUdeviceptr address)
{
	return address >= MEMORY_BASE && address < next_address ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}
