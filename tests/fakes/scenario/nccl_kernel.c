/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's kernels: their names in each release, and the block of work that they get by value. The block is
 * laid out as ncclDevKernelArgs, ncclDevWorkBatch and ncclDevWorkColl stand in NCCL's src/include/device.h: a
 * head of 32 bytes, one batch of 16 bytes for each channel (more where a kernel holds several functions),
 * then the works. Every work is shared out over all channels as lo, mid ... mid, hi.
 */
#include "nccl.h"

#include <string.h>

#define HEAD_BYTES   32U
#define BATCH_BYTES  16U
#define STORAGE_ARGS 0U /* the works are in the block */
#define STORAGE_FIFO 1U
#define STORAGE_KEPT 2U /* in device memory, for a captured plan */
#define WORK_COLL    1U

void
scenario_nccl_kernel_name(uint32_t nccl, const struct scenario_op *op, char *name, size_t size)
{
	const char *func = op->impl->func;
	const char *type = op->dtype ? op->dtype->kernel : "u8";
	const char *way = op->algorithm ? op->algorithm->kernel : "RING";
	const char *argument = "24ncclDevKernelArgsStorageILm4096EE";
	bool moves = strcmp(func, "AllGather") == 0 || strcmp(func, "Broadcast") == 0;
	char plain[256];

	if (op->impl->symmetric) {
		snprintf(plain, sizeof(plain), "%s_%s_sum_%s%s",
			nccl < 22800 ? "ncclSymDevKernel" : "ncclSymkDevKernel", op->variant->text, type,
			op->profiled ? "_profile" : "");
		argument = nccl < 22800 ? "14ncclSymDevArgs" : "21ncclSymkDevWorkArgs4K";
	} else if (nccl >= 23100) {
		snprintf(plain, sizeof(plain), "ncclDevKernel_%s_%s%s%s", func, moves ? "" : type,
			moves ? "" : "_", moves ? "RING" : way);
	} else {
		snprintf(plain, sizeof(plain), "ncclDevKernel_%s%s%s_%s_LL", func, moves ? "" : "_Sum_",
			moves ? "" : type, moves ? "RING" : way);
	}
	snprintf(name, size, "_Z%zu%s%s", strlen(plain), plain, argument);
}

struct layout {
	uint32_t work_bytes;
	uint32_t count_at; /* lo; mid and hi follow */
};

static struct layout
layout_of(uint32_t nccl)
{
	return nccl < 23000 ? (struct layout){96, 56} : (struct layout){128, 80};
}

static void
put(unsigned char *block, size_t at, uint64_t value, size_t width)
{
	memcpy(block + at, &value, width);
}

/* Which device function a call runs: any number of 15 bits, another one for each operation, type, algorithm
 * and protocol. */
static uint32_t
device_function(const struct nccl_call *call)
{
	return (uint32_t)nccl_function(call->op->impl) << 9 | (uint32_t)call->op->dtype->number << 5 |
	       (uint32_t)call->op->algorithm->number << 2 | call->op->protocol->number;
}

static uint64_t
elements(const struct nccl_call *call)
{
	uint8_t function = nccl_function(call->op->impl);

	/* Broadcast and all-gather run as copies of bytes. */
	return nccl_part_bytes(call) / (function == 0 || function == 2 ? 1U : call->op->dtype->bytes);
}

static void
put_work(const struct layout *layout, const struct nccl_call *call, unsigned char *block, size_t at)
{
	uint64_t count = elements(call);
	uint64_t middle = count / NCCL_CHANNELS;
	uint64_t high = middle - middle / 4;

	put(block, at, 0, 1);
	put(block, at + 1, NCCL_CHANNELS - 1, 1);
	put(block, at + layout->count_at, count - high - middle * (NCCL_CHANNELS - 2), 8);
	put(block, at + layout->count_at + 8, middle, 8);
	put(block, at + layout->count_at + 16, high, 8);
}

/* Runs of calls of the same function: each is a batch of every channel. */
static uint32_t
count_runs(const struct nccl_call *calls, uint32_t count)
{
	uint32_t i, runs = 1;

	for (i = 1; i < count; i++)
		runs += device_function(&calls[i]) != device_function(&calls[i - 1]);
	return runs;
}

static void
put_batches(const struct layout *layout, const struct nccl_call *calls, uint32_t count, size_t works_at,
	unsigned char *block)
{
	uint32_t runs = count_runs(calls, count);
	uint32_t run, first = 0, length, channel;
	size_t at;

	for (run = 0; run < runs; run++, first += length) {
		for (length = 1; first + length < count &&
				 device_function(&calls[first + length]) == device_function(&calls[first]);)
			length++;
		for (channel = 0; channel < NCCL_CHANNELS; channel++) {
			/* The first batches stand in the order of channels; each names the next one of its
			 * channel. */
			at = HEAD_BYTES + ((size_t)run * NCCL_CHANNELS + channel) * BATCH_BYTES;
			put(block, at,
				(run + 1 < runs ? NCCL_CHANNELS : 0) | WORK_COLL << 15 |
					device_function(&calls[first]) << 17,
				4);
			put(block, at + 4, works_at + (uint64_t)first * layout->work_bytes, 4);
			put(block, at + 8, length == 64 ? UINT64_MAX : (1ULL << length) - 1, 8);
		}
	}
}

size_t
nccl_args_fill(uint32_t nccl, const struct nccl_call *calls, uint32_t count, unsigned char *block)
{
	struct layout layout = layout_of(nccl);
	size_t works_at = HEAD_BYTES + (size_t)count_runs(calls, count) * NCCL_CHANNELS * BATCH_BYTES;
	size_t bytes = works_at + (size_t)count * layout.work_bytes;
	uint32_t i;

	memset(block, 0, NCCL_ARGS_BYTES);
	put(block, 0, 0x7f0000001000, 8); /* the communicator on the device */
	put(block, 8, (1U << NCCL_CHANNELS) - 1, 8);
	put(block, 16, STORAGE_ARGS, 1);
	if (bytes > NCCL_ARGS_BYTES) {
		/* No room: the batches alone, counted from the start of a buffer that the host does not read.
		 */
		put(block, 16, calls[0].captured ? STORAGE_KEPT : STORAGE_FIFO, 1);
		put(block, 24, 0x7f0000100000, 8);
		put_batches(&layout, calls, count, 0, block);
		return works_at;
	}
	put_batches(&layout, calls, count, works_at, block);
	for (i = 0; i < count; i++)
		put_work(&layout, &calls[i], block, works_at + (size_t)i * layout.work_bytes);
	return bytes;
}
