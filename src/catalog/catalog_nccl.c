/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL: the words of its kernel names, and the block of device work that it passes by value since 2.22.
 *
 * Of a regular kernel's name little is sure: NCCL runs every protocol, NVLS, CollNet and PAT, and every
 * reduction, under the names of its LL sum kernels (best_kernel() in src/device/generate.py). TREE means
 * tree, RING means "not tree", the protocol and the reduction mean nothing, and since 2.19 an unsigned type
 * also stands for the signed one. The names of the symmetric kernels are exact.
 */
#include "catalog_rule.h"

#include <errno.h>
#include <string.h>

enum word_class { WORD_OP, WORD_DTYPE, WORD_REDUCTION, WORD_ALGORITHM, WORD_PROTOCOL };

struct known_word {
	const char *text;
	uint8_t class;
	uint8_t value;
};

static const struct known_word known_words[] = {
	{"AllReduce", WORD_OP, CS_OP_ALL_REDUCE},
	{"AllGather", WORD_OP, CS_OP_ALL_GATHER},
	{"AllGatherV", WORD_OP, CS_OP_ALL_GATHER},
	{"ReduceScatter", WORD_OP, CS_OP_REDUCE_SCATTER},
	{"Broadcast", WORD_OP, CS_OP_BROADCAST},
	{"Reduce", WORD_OP, CS_OP_REDUCE},
	{"SendRecv", WORD_OP, CS_OP_SEND_RECV},
	{"AlltoAll", WORD_OP, CS_OP_ALL_TO_ALL},
	{"i8", WORD_DTYPE, CS_DTYPE_INT8},
	{"u8", WORD_DTYPE, CS_DTYPE_UINT8},
	{"i32", WORD_DTYPE, CS_DTYPE_INT32},
	{"u32", WORD_DTYPE, CS_DTYPE_UINT32},
	{"i64", WORD_DTYPE, CS_DTYPE_INT64},
	{"u64", WORD_DTYPE, CS_DTYPE_UINT64},
	{"f16", WORD_DTYPE, CS_DTYPE_FLOAT16},
	{"f32", WORD_DTYPE, CS_DTYPE_FLOAT32},
	{"f64", WORD_DTYPE, CS_DTYPE_FLOAT64},
	{"bf16", WORD_DTYPE, CS_DTYPE_BFLOAT16},
	{"f8e4m3", WORD_DTYPE, CS_DTYPE_FLOAT8_E4M3},
	{"f8e5m2", WORD_DTYPE, CS_DTYPE_FLOAT8_E5M2},
	/* up to 2.18 the C type's name, cut here at its underscores */
	{"int8", WORD_DTYPE, CS_DTYPE_INT8},
	{"uint8", WORD_DTYPE, CS_DTYPE_UINT8},
	{"int32", WORD_DTYPE, CS_DTYPE_INT32},
	{"uint32", WORD_DTYPE, CS_DTYPE_UINT32},
	{"int64", WORD_DTYPE, CS_DTYPE_INT64},
	{"uint64", WORD_DTYPE, CS_DTYPE_UINT64},
	{"half", WORD_DTYPE, CS_DTYPE_FLOAT16},
	{"float", WORD_DTYPE, CS_DTYPE_FLOAT32},
	{"double", WORD_DTYPE, CS_DTYPE_FLOAT64},
	{"bfloat16", WORD_DTYPE, CS_DTYPE_BFLOAT16},
	{"Sum", WORD_REDUCTION, CS_REDUCTION_SUM},
	{"sum", WORD_REDUCTION, CS_REDUCTION_SUM},
	{"Prod", WORD_REDUCTION, CS_REDUCTION_PROD},
	{"Max", WORD_REDUCTION, CS_REDUCTION_MAX},
	{"Min", WORD_REDUCTION, CS_REDUCTION_MIN},
	{"avg", WORD_REDUCTION, CS_REDUCTION_AVG},
	{"PreMulSum", WORD_REDUCTION, CS_REDUCTION_PREMUL_SUM},
	{"TREE", WORD_ALGORITHM, CS_ALGORITHM_TREE},
	{"RING", WORD_ALGORITHM, CS_ALGORITHM_RING},
	{"NVLS", WORD_ALGORITHM, CS_ALGORITHM_NVLS},
	{"PAT", WORD_ALGORITHM, CS_ALGORITHM_PAT},
	{"LL", WORD_PROTOCOL, CS_PROTOCOL_LL},
	{"LL128", WORD_PROTOCOL, CS_PROTOCOL_LL128},
	{"SIMPLE", WORD_PROTOCOL, CS_PROTOCOL_SIMPLE},
};

/* How NCCL's symmetric kernels spell their algorithm: every one of these words that a name has counts, the
 * last for the algorithm. MC is the switch's multicast. */
static const struct {
	const char *text;
	uint8_t algorithm;
	uint8_t protocol;
} variant_words[] = {
	{"AGxLL", CS_ALGORITHM_ONE_SHOT, CS_PROTOCOL_LL},
	{"AGxLLMC", CS_ALGORITHM_ONE_SHOT, CS_PROTOCOL_LL},
	{"RSxLD", CS_ALGORITHM_TWO_SHOT, CS_PROTOCOL_SIMPLE},
	{"RSxTmaLD", CS_ALGORITHM_TWO_SHOT, CS_PROTOCOL_SIMPLE},
	{"RSxLDMC", CS_ALGORITHM_MULTIMEM, CS_PROTOCOL_SIMPLE},
	{"LL", CS_ALGORITHM_UNKNOWN, CS_PROTOCOL_LL},
	{"LLMC", CS_ALGORITHM_MULTIMEM, CS_PROTOCOL_LL},
	{"ST", CS_ALGORITHM_UNKNOWN, CS_PROTOCOL_SIMPLE},
	{"LD", CS_ALGORITHM_UNKNOWN, CS_PROTOCOL_SIMPLE},
	{"TmaST", CS_ALGORITHM_UNKNOWN, CS_PROTOCOL_SIMPLE},
	{"TmaLD", CS_ALGORITHM_UNKNOWN, CS_PROTOCOL_SIMPLE},
	{"STMC", CS_ALGORITHM_MULTIMEM, CS_PROTOCOL_SIMPLE},
	{"LDMC", CS_ALGORITHM_MULTIMEM, CS_PROTOCOL_SIMPLE},
	{"TmaSTMC", CS_ALGORITHM_MULTIMEM, CS_PROTOCOL_SIMPLE},
};

static bool
same(const char *word, const char *text, size_t length)
{
	return strlen(word) == length && memcmp(word, text, length) == 0;
}

static bool
is_integer_type(uint8_t dtype)
{
	return dtype >= CS_DTYPE_INT8 && dtype <= CS_DTYPE_UINT64;
}

static bool
is_unsigned_type(uint8_t dtype)
{
	return dtype == CS_DTYPE_UINT8 || dtype == CS_DTYPE_UINT32 || dtype == CS_DTYPE_UINT64;
}

static void
take_dtype(unsigned int words, uint8_t dtype, struct cs_catalog_match *match)
{
	match->element_bytes = (uint8_t)cs_dtype_bytes(dtype);
	if ((words & CS_WORD_DTYPE) != 0 || !is_integer_type(dtype) || !is_unsigned_type(dtype))
		match->dtype = dtype;
}

static void
take_word(unsigned int words, const struct known_word *word, struct cs_catalog_match *match)
{
	switch (word->class) {
	case WORD_OP:
		if ((words & CS_WORD_OP) != 0)
			match->op = word->value;
		break;
	case WORD_DTYPE:
		if ((words & (CS_WORD_DTYPE | CS_WORD_WIDTH)) != 0)
			take_dtype(words, word->value, match);
		break;
	case WORD_REDUCTION:
		if ((words & CS_WORD_REDUCTION) != 0)
			match->reduction = word->value;
		break;
	case WORD_ALGORITHM:
		if ((words & CS_WORD_ALGORITHM) != 0 ||
			((words & CS_WORD_TREE) != 0 && word->value == CS_ALGORITHM_TREE))
			match->algorithm = word->value;
		break;
	default:
		if ((words & CS_WORD_PROTOCOL) != 0)
			match->protocol = word->value;
		break;
	}
}

static void
take_variant(const char *text, size_t length, struct cs_catalog_match *match)
{
	for (size_t i = 0; i < sizeof(variant_words) / sizeof(variant_words[0]); i++) {
		if (!same(variant_words[i].text, text, length))
			continue;
		if (match->algorithm == CS_ALGORITHM_UNKNOWN)
			match->algorithm = variant_words[i].algorithm;
		if (match->protocol == CS_PROTOCOL_UNKNOWN)
			match->protocol = variant_words[i].protocol;
		return;
	}
}

void
cs_catalog_nccl_words(unsigned int words, const char *text, size_t length, struct cs_catalog_match *match)
{
	const char *end = text + length;

	while (text < end) {
		const char *underscore = memchr(text, '_', (size_t)(end - text));
		size_t word_length = (size_t)((underscore == NULL ? end : underscore) - text);

		for (size_t i = 0; i < sizeof(known_words) / sizeof(known_words[0]); i++) {
			if (same(known_words[i].text, text, word_length))
				take_word(words, &known_words[i], match);
		}
		if ((words & CS_WORD_VARIANT) != 0)
			take_variant(text, word_length, match);
		text += word_length + 1;
	}
	/* What only moves data is moved as bytes, whatever its type was. */
	if (match->op == CS_OP_ALL_GATHER || match->op == CS_OP_BROADCAST || match->op == CS_OP_SEND_RECV) {
		match->dtype = CS_DTYPE_UNKNOWN;
		match->reduction = CS_REDUCTION_UNKNOWN;
		match->element_bytes = 1;
	}
}

/* -- the argument block
 * --------------------------------------------------------------------------------------
 *
 * struct ncclDevKernelArgs, its batches and its works (NCCL src/include/device.h), read in every tag from
 * 2.22.3 to 2.30.7. What came later has not been read and is not decoded.
 */

#define ARGS_BYTES     32U
#define ARGS_CHANNELS  8U
#define ARGS_STORAGE   16U
#define STORAGE_ARGS   0U /* the works are in the block itself */
#define BATCH_BYTES    16U
#define WORK_TYPE_COLL 1U
#define WORK_TYPE_REG  2U   /* with registered buffers: the same head, and pointers behind it */
#define WORK_REG_BYTES 192U /* 3 arrays of 8 pointers */
#define WORKS_MAX      63U  /* of 64 bytes, in a block of 4096 */
#define ARGS_BYTES_MAX 4096U
#define HOPS_MAX       256U /* batches of 16 bytes in a block */

struct work_layout {
	int first_version; /* ncclGetVersion / 100 */
	int last_version;
	uint16_t count_lo;
	uint16_t count_mid;
	uint16_t count_hi;
	uint16_t bytes;
};

static const struct work_layout work_layouts[] = {
	{222, 222, 24, 32, 40, 64},
	{223, 229, 56, 64, 72, 96},
	{230, 230, 80, 88, 96, 128},
};

struct block {
	const unsigned char *bytes;
	size_t length;
	const struct work_layout *layout;
	uint64_t channel_mask;
	uint32_t work_type;
	uint32_t function;
	bool mixed; /* a batch of another function was met */
	unsigned int work_count;
	uint32_t offsets[WORKS_MAX];
	uint8_t channels[WORKS_MAX]; /* on how many channels the work was met */
};

static uint32_t
read_u32(const struct block *block, size_t offset)
{
	uint32_t value;

	memcpy(&value, block->bytes + offset, sizeof(value));
	return value;
}

static uint64_t
read_u64(const struct block *block, size_t offset)
{
	uint64_t value;

	memcpy(&value, block->bytes + offset, sizeof(value));
	return value;
}

static bool
note_work(struct block *block, uint64_t offset, size_t work_bytes, unsigned int channel)
{
	unsigned int i = 0;
	const unsigned char *work;

	if (offset % 16 != 0 || offset < ARGS_BYTES + BATCH_BYTES || offset + work_bytes > block->length)
		return false;
	work = block->bytes + offset;
	if (channel < work[0] || channel > work[1])
		return false;
	while (i < block->work_count && block->offsets[i] != offset)
		i++;
	if (i == block->work_count) {
		if (block->work_count == WORKS_MAX)
			return false;
		block->offsets[i] = (uint32_t)offset;
		block->channels[i] = 0;
		block->work_count++;
	}
	block->channels[i]++;
	return true;
}

/* Follows the batches of one channel. */
static int
walk_channel(struct block *block, unsigned int index, unsigned int channel)
{
	size_t work_bytes = block->layout->bytes + (block->work_type == WORK_TYPE_REG ? WORK_REG_BYTES : 0U);

	for (unsigned int hop = 0; hop < HOPS_MAX; hop++) {
		size_t at = ARGS_BYTES + (size_t)index * BATCH_BYTES;
		uint32_t flags;
		uint32_t base;
		uint64_t bits;

		if (at + BATCH_BYTES > block->length)
			return -EINVAL;
		flags = read_u32(block, at);
		base = read_u32(block, at + 4);
		bits = read_u64(block, at + 8);
		/* Another function is another operation or type: their elements do not add up. */
		if (((flags >> 15) & 3) != block->work_type || flags >> 17 != block->function) {
			block->mixed = true;
			return -ENODATA;
		}
		if (bits == 0)
			return -EINVAL;
		for (unsigned int bit = 0; bit < 64; bit++) {
			if ((bits >> bit & 1) != 0 &&
				!note_work(block, base + (uint64_t)bit * work_bytes, work_bytes, channel))
				return -EINVAL;
		}
		if ((flags & 0x3fff) == 0)
			return 0;
		index += flags & 0x3fff;
	}
	return -EINVAL;
}

/*
 * The channels share a work out as lo, mid ... mid, hi. A CollNet work has its count and a chunk size in the
 * place of lo and mid and leaves hi zero, so it fails here, whatever its number of channels.
 */
static bool
add_work(const struct block *block, unsigned int i, uint64_t *elements)
{
	const unsigned char *work = block->bytes + block->offsets[i];
	uint64_t low = read_u64(block, block->offsets[i] + block->layout->count_lo);
	uint64_t middle = read_u64(block, block->offsets[i] + block->layout->count_mid);
	uint64_t high = read_u64(block, block->offsets[i] + block->layout->count_hi);
	unsigned int channels = work[1] - work[0] + 1U;
	uint64_t sum;

	if (block->channels[i] != channels || low == 0)
		return false;
	if ((channels >= 2) != (high > 0) || (channels >= 3) != (middle > 0))
		return false;
	if (channels >= 3 && __builtin_mul_overflow(middle, (uint64_t)channels - 2, &sum))
		return false;
	if (channels < 3)
		sum = 0;
	return !__builtin_add_overflow(sum, low, &sum) && !__builtin_add_overflow(sum, high, &sum) &&
	       !__builtin_add_overflow(*elements, sum, elements);
}

static int
open_block(const struct cs_launch *launch, struct block *block)
{
	int version = launch->nccl_version / 100;
	uint32_t flags;

	for (size_t i = 0; i < sizeof(work_layouts) / sizeof(work_layouts[0]); i++) {
		if (version >= work_layouts[i].first_version && version <= work_layouts[i].last_version)
			block->layout = &work_layouts[i];
	}
	if (block->layout == NULL)
		return -ENODATA;
	if (launch->kernel_params == NULL && launch->extra_buffer != NULL) {
		block->bytes = launch->extra_buffer;
		block->length = launch->extra_bytes;
	} else if (launch->kernel_params != NULL && launch->param_count == 1) {
		block->bytes = launch->kernel_params[0];
		block->length = launch->param_bytes[0];
	}
	if (block->bytes == NULL)
		return -ENODATA;
	if (block->length < ARGS_BYTES + BATCH_BYTES || block->length > ARGS_BYTES_MAX)
		return -EINVAL;
	block->channel_mask = read_u64(block, ARGS_CHANNELS);
	if (block->channel_mask == 0 ||
		(unsigned int)__builtin_popcountll(block->channel_mask) != launch->grid[0] ||
		launch->grid[1] != 1 || launch->grid[2] != 1)
		return -EINVAL;
	if (block->bytes[ARGS_STORAGE] != STORAGE_ARGS)
		return block->bytes[ARGS_STORAGE] <= 2 ? -ENODATA : -EINVAL;
	flags = read_u32(block, ARGS_BYTES);
	block->work_type = (flags >> 15) & 3;
	block->function = flags >> 17;
	return block->work_type == WORK_TYPE_COLL || block->work_type == WORK_TYPE_REG ? 0 : -ENODATA;
}

int
cs_catalog_nccl_decode(const struct cs_launch *launch, struct cs_nccl_works *works)
{
	struct block block = {0};
	unsigned int index = 0;
	int rc = open_block(launch, &block);

	for (unsigned int channel = 0; rc == 0 && channel < 64; channel++) {
		if ((block.channel_mask >> channel & 1) != 0)
			rc = walk_channel(&block, index++, channel);
	}
	*works = (struct cs_nccl_works){
		.works = block.work_count, .channels = launch->grid[0], .mixed = block.mixed};
	if (rc != 0)
		return rc;
	for (unsigned int i = 0; i < block.work_count; i++) {
		if (!add_work(&block, i, &works->elements))
			return -EINVAL;
	}
	return 0;
}
