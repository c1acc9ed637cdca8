/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's block of device work -> bytes. The blocks are laid out here as ncclDevKernelArgs, ncclDevWorkBatch
 * and ncclDevWorkColl stand in src/include/device.h of the named releases, for a message that is shared out
 * over channels as lo, mid ... mid, hi.
 */
#include "catalog/catalog.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK_BYTES     4096U
#define ARGS_BYTES      32U
#define BATCH_BYTES     16U
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define ALL_REDUCE "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"

enum storage { STORAGE_ARGS = 0, STORAGE_FIFO = 1, STORAGE_PERSISTENT = 2 };
enum work_type { WORK_P2P = 0, WORK_COLL = 1, WORK_COLL_REG = 2 };

struct release {
	int version;
	uint16_t count_lo;
	uint16_t work_bytes;
};

static const struct release releases[] = {
	{22203, 24, 64},
	{22304, 56, 96},
	{22503, 56, 96},
	{22705, 56, 96},
	{22907, 56, 96},
	{23004, 80, 128},
};

struct plan {
	unsigned int first_channel;
	unsigned int channels; /* per work, one after the other */
	unsigned int works;
	uint64_t elements; /* of each work */
	enum storage storage;
	enum work_type type;
};

struct built {
	unsigned char block[BLOCK_BYTES];
	void *params[1];
	uint32_t offset;
	uint32_t bytes;
	struct cs_launch launch;
};

static struct cs_catalog *catalog;

static void
put(struct built *built, size_t at, uint64_t value, size_t width)
{
	assert_true(at + width <= sizeof(built->block));
	memcpy(built->block + at, &value, width);
}

/* One batch for each channel and work, the works behind all batches. */
static void
put_work(struct built *built, const struct release *release, const struct plan *plan, unsigned int work)
{
	size_t reg = plan->type == WORK_COLL_REG ? 192 : 0;
	size_t base = ARGS_BYTES + (size_t)plan->works * plan->channels * BATCH_BYTES;
	size_t at = (base + 15) / 16 * 16 + work * (release->work_bytes + reg);
	unsigned int low_channel = plan->first_channel + work * plan->channels;
	uint64_t middle = plan->channels > 2 ? plan->elements / plan->channels : 0;
	uint64_t high = plan->channels > 1 ? plan->elements / plan->channels + 3 : 0;
	uint64_t low = plan->elements - high - (plan->channels > 2 ? middle * (plan->channels - 2) : 0);

	put(built, at, low_channel, 1);
	put(built, at + 1, low_channel + plan->channels - 1, 1);
	put(built, at + release->count_lo, low, 8);
	put(built, at + release->count_lo + 8, middle, 8);
	put(built, at + release->count_lo + 16, high, 8);
	for (unsigned int i = 0; i < plan->channels; i++) {
		size_t batch = ARGS_BYTES + (size_t)(work * plan->channels + i) * BATCH_BYTES;

		put(built, batch, (uint32_t)plan->type << 15 | 7U << 17, 4);
		put(built, batch + 4, at, 4);
		put(built, batch + 8, 1, 8);
	}
	built->bytes = (uint32_t)(at + release->work_bytes + reg);
}

static void
build(struct built *built, const struct release *release, const struct plan *plan)
{
	uint64_t mask = 0;

	memset(built, 0, sizeof(*built));
	memset(built->block, 0xee, sizeof(built->block));
	for (unsigned int i = 0; i < plan->works * plan->channels; i++)
		mask |= 1ULL << (plan->first_channel + i);
	put(built, 0, 0x7f0000001000, 8);
	put(built, 8, mask, 8);
	put(built, 16, plan->storage, 1);
	for (unsigned int i = 0; i < plan->works; i++)
		put_work(built, release, plan, i);
	built->params[0] = built->block;
	/* as NCCL does: `extra`, no array */
	built->launch = (struct cs_launch){
		.extra_buffer = built->block,
		.extra_bytes = built->bytes,
		.param_count = 1,
		.param_offsets = &built->offset,
		.param_bytes = &built->bytes,
		.grid = {plan->works * plan->channels, 1, 1},
		.block = {544, 1, 1},
		.nccl_version = release->version,
	};
}

static int
decode(const char *name, const struct built *built, struct cs_label *label)
{
	struct cs_catalog_match match;

	cs_catalog_classify(catalog, name, &match);
	assert_int_equal(match.impl, CS_IMPL_NCCL);
	return cs_catalog_decode(&match, &built->launch, label);
}

static void
assert_bytes(const char *name, const struct built *built, uint64_t bytes, unsigned int works,
	unsigned int channels)
{
	struct cs_label label;

	assert_int_equal(decode(name, built, &label), 0);
	assert_int_equal(label.bytes, bytes);
	assert_int_equal(label.works, works);
	assert_int_equal(label.channels, channels);
	assert_int_equal(label.source, CS_LABEL_SOURCE_LAUNCH_PARAMETERS);
	assert_int_equal(label.rank, CS_RANK_UNKNOWN);
}

static void
assert_unknown(const struct built *built, int want)
{
	struct cs_label label;

	assert_int_equal(decode(ALL_REDUCE, built, &label), want);
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(label.op, CS_OP_ALL_REDUCE);
}

static void
test_every_release_and_channel_count(void **state)
{
	static const unsigned int channels[] = {1, 2, 3, 8, 24, 32};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(releases); i++) {
		for (size_t j = 0; j < COUNT_OF(channels); j++) {
			struct plan plan = {.first_channel = j % 2,
				.channels = channels[j],
				.works = 1,
				.elements = 262144,
				.type = WORK_COLL};
			struct built built;

			build(&built, &releases[i], &plan);
			assert_bytes(ALL_REDUCE, &built, 524288, 1, channels[j]);
			built.launch.kernel_params = built.params;
			built.launch.extra_buffer = NULL;
			assert_bytes(ALL_REDUCE, &built, 524288, 1, channels[j]);
		}
	}
}

static void
test_types_and_functions(void **state)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} names[] = {
		{"ncclDevKernel_AllReduce_Sum_f32_TREE_LL", 40000},
		{"ncclDevKernel_AllReduce_Sum_u8_RING_LL", 10000}, /* int8 runs under it as well */
		{"ncclDevKernel_Reduce_Sum_f64_RING_LL", 80000},
		{"ncclDevKernel_Broadcast_RING_LL", 10000}, /* in bytes already */
	};
	struct plan plan = {.channels = 4, .works = 1, .elements = 10000, .type = WORK_COLL};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct built built;

		build(&built, &releases[3], &plan);
		assert_bytes(names[i].name, &built, names[i].bytes, 1, 4);
	}
}

/* What gathers or scatters has one rank's part in the block and not the number of ranks. */
static void
test_gather_and_scatter_stay_unknown(void **state)
{
	struct plan plan = {.channels = 4, .works = 1, .elements = 10000, .type = WORK_COLL};
	struct built built;
	struct cs_label label;

	(void)state;
	build(&built, &releases[3], &plan);
	assert_int_equal(decode("ncclDevKernel_AllGather_RING_LL", &built, &label), -ENODATA);
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
	assert_int_equal(decode("ncclDevKernel_ReduceScatter_Sum_f16_RING_LL", &built, &label), -ENODATA);
	assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
}

static void
test_grouped_works_add_up(void **state)
{
	struct plan plan = {.channels = 2, .works = 5, .elements = 4096, .type = WORK_COLL};
	struct built built;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(releases); i++) {
		build(&built, &releases[i], &plan);
		assert_bytes(ALL_REDUCE, &built, 5 * 8192, 5, 10);
	}
	plan.type = WORK_COLL_REG;
	build(&built, &releases[3], &plan);
	assert_bytes(ALL_REDUCE, &built, 5 * 8192, 5, 10);
}

static void
test_works_elsewhere(void **state)
{
	struct plan plan = {.channels = 2, .works = 1, .elements = 4096, .type = WORK_COLL};
	struct built built;

	(void)state;
	plan.storage = STORAGE_FIFO;
	build(&built, &releases[3], &plan);
	assert_unknown(&built, -ENODATA);
	plan.storage = STORAGE_PERSISTENT;
	build(&built, &releases[3], &plan);
	assert_unknown(&built, -ENODATA);
	plan.storage = STORAGE_ARGS;
	plan.type = WORK_P2P;
	build(&built, &releases[3], &plan);
	assert_unknown(&built, -ENODATA);
}

/* Releases whose block has not been read, and none that is known. */
static void
test_versions_that_are_not_decoded(void **state)
{
	static const int versions[] = {0, 21805, 22105, 23102, 24000};
	struct plan plan = {.channels = 2, .works = 1, .elements = 4096, .type = WORK_COLL};
	struct built built;

	(void)state;
	for (size_t i = 0; i < COUNT_OF(versions); i++) {
		build(&built, &releases[3], &plan);
		built.launch.nccl_version = versions[i];
		assert_unknown(&built, -ENODATA);
	}
}

/* Each of these would be another layout's block, or none at all. */
static void
test_sanity_checks(void **state)
{
	struct plan plan = {.channels = 4, .works = 1, .elements = 4096, .type = WORK_COLL};
	size_t work = ARGS_BYTES + 4 * BATCH_BYTES;
	struct built built;

	(void)state;
	build(&built, &releases[3], &plan);
	built.launch.grid[0] = 5; /* channel mask against the grid */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, 16, 9, 1); /* no such storage */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, work + 1, 2, 1); /* the work ends before the last channel */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, work, 1, 1); /* as many channels, but others */
	put(&built, work + 1, 4, 1);
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, 8, 7, 8); /* one of its channels is not in the launch */
	built.launch.grid[0] = 3;
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, work + 72, 0, 8); /* nothing for the last channel */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, work + 56, 1ULL << 40, 8); /* above 1 GiB */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, ARGS_BYTES + 4, 4090, 4); /* the work begins behind the block */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	put(&built, ARGS_BYTES + 8, 0, 8); /* a batch without work */
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	built.launch.extra_bytes = ARGS_BYTES;
	assert_unknown(&built, -EINVAL);
	/* the right block read as another release's */
	build(&built, &releases[0], &plan);
	built.launch.nccl_version = 22705;
	assert_unknown(&built, -EINVAL);
	build(&built, &releases[3], &plan);
	built.launch.nccl_version = 22203;
	assert_unknown(&built, -EINVAL);
}

/* Two functions in a kernel that is named after one of them: neither its operation nor its type is the
 * kernel's. */
static void
test_another_function_in_the_block(void **state)
{
	struct plan plan = {.channels = 1, .works = 1, .elements = 4096, .type = WORK_COLL};
	size_t second = ARGS_BYTES + BATCH_BYTES;
	struct built built;
	struct cs_label label;

	(void)state;
	for (unsigned int function = 7; function <= 8; function++) {
		build(&built, &releases[3], &plan);
		/* room for a second batch of the channel: the work moves behind it */
		memmove(built.block + second + BATCH_BYTES, built.block + second, releases[3].work_bytes);
		put(&built, ARGS_BYTES, 1U | WORK_COLL << 15 | 7U << 17, 4);
		put(&built, ARGS_BYTES + 4, second + BATCH_BYTES, 4);
		put(&built, second, WORK_COLL << 15 | function << 17, 4);
		put(&built, second + 4, second + BATCH_BYTES, 4);
		put(&built, second + 8, 1, 8);
		built.bytes += BATCH_BYTES;
		built.launch.extra_bytes = built.bytes;
		if (function == 7) { /* the same work twice on one channel: no sum */
			assert_unknown(&built, -EINVAL);
			continue;
		}
		assert_int_equal(decode(ALL_REDUCE, &built, &label), -ENODATA);
		assert_int_equal(label.bytes, CS_BYTES_UNKNOWN);
		assert_int_equal(label.op, CS_OP_UNKNOWN);
		assert_int_equal(label.dtype, CS_DTYPE_UNKNOWN);
	}
}

/* Batches that point at each other for ever. */
static void
test_endless_chain(void **state)
{
	struct plan plan = {.channels = 1, .works = 1, .elements = 4096, .type = WORK_COLL};
	struct built built;

	(void)state;
	build(&built, &releases[3], &plan);
	for (size_t at = ARGS_BYTES; at + BATCH_BYTES <= BLOCK_BYTES; at += BATCH_BYTES)
		put(&built, at, 1U | WORK_COLL << 15 | 7U << 17, 4);
	built.launch.extra_bytes = BLOCK_BYTES;
	assert_unknown(&built, -EINVAL);
}

static void
test_random_blocks(void **state)
{
	uint64_t seed = 88172645463325252U;

	(void)state;
	for (unsigned int round = 0; round < 50000; round++) {
		struct plan plan = {.channels = 1 + round % 8,
			.works = 1 + round % 3,
			.elements = 4096,
			.type = WORK_COLL};
		const struct release *release = &releases[round % COUNT_OF(releases)];
		struct built built;
		struct cs_label label;
		unsigned char *exact;
		int rc;

		build(&built, release, &plan);
		for (unsigned int i = 0; i < 4; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			built.block[8 + seed % (built.bytes - 8)] = (unsigned char)(seed >> 32);
		}
		exact = malloc(built.bytes);
		assert_non_null(exact);
		memcpy(exact, built.block, built.bytes);
		built.launch.extra_buffer = exact;
		rc = decode(ALL_REDUCE, &built, &label);
		assert_true(rc == 0 || rc == -EINVAL || rc == -ENODATA);
		assert_true(rc == 0 ? label.bytes > 0 && label.bytes <= 1ULL << 30
				    : label.bytes == CS_BYTES_UNKNOWN);
		free(exact);
	}
}

static int
load(void **state)
{
	char complaint[512];

	(void)state;
	return cs_catalog_load("", &catalog, complaint, sizeof(complaint));
}

static int
unload(void **state)
{
	(void)state;
	cs_catalog_destroy(catalog);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_release_and_channel_count),
		cmocka_unit_test(test_types_and_functions),
		cmocka_unit_test(test_gather_and_scatter_stay_unknown),
		cmocka_unit_test(test_grouped_works_add_up),
		cmocka_unit_test(test_works_elsewhere),
		cmocka_unit_test(test_versions_that_are_not_decoded),
		cmocka_unit_test(test_sanity_checks),
		cmocka_unit_test(test_another_function_in_the_block),
		cmocka_unit_test(test_endless_chain),
		cmocka_unit_test(test_random_blocks),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
