/* SPDX-License-Identifier: Apache-2.0 */
/* A catalogue file of the user's: what it can do, and that every mistake is said with its line. */
#include "catalog/catalog.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define EXAMPLE         CS_TEST_DATA_DIR "/../../docs/examples/catalog.tbl"
#define MANUAL          CS_TEST_DATA_DIR "/../../docs/catalog.md"
#define BUILT_IN        CS_TEST_DATA_DIR "/../../src/catalog/catalog.tbl"

static char directory[] = "/tmp/test_catalog_file.XXXXXX";
static char path[64], missing[64];

static void
write_file(const char *text, size_t length)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

static char *
read_whole(const char *name)
{
	FILE *file = fopen(name, "re");
	char *text = NULL;
	size_t size = 0;

	assert_non_null(file);
	assert_true(getdelim(&text, &size, '\0', file) > 0);
	(void)fclose(file);
	return text;
}

/* Loads `text` as the user's file. */
static int
load_text(const char *text, size_t length, struct cs_catalog **catalog, char *complaint, size_t bytes)
{
	write_file(text, length);
	return cs_catalog_load(path, catalog, complaint, bytes);
}

static struct cs_catalog *
load_good(const char *text)
{
	struct cs_catalog *catalog;
	char complaint[512];
	int rc = load_text(text, strlen(text), &catalog, complaint, sizeof(complaint));

	if (rc != 0)
		fail_msg("%s", complaint);
	assert_string_equal(complaint, "");
	return catalog;
}

static struct cs_catalog_match
classify(const struct cs_catalog *catalog, const char *name)
{
	struct cs_catalog_match match;

	cs_catalog_classify(catalog, name, &match);
	return match;
}

static const char *
id_of(const struct cs_catalog *catalog, const struct cs_catalog_match *match)
{
	static struct cs_catalog_rule_text text;

	assert_int_equal(cs_catalog_rule_describe(catalog, match->rule_id - 1, &text), 0);
	return text.id;
}

static const struct {
	const char *text;
	unsigned int line;
	const char *says;
} mistakes[] = {
	{"nonsense", 1, "want [row-name] or key = value"},
	{"name = x", 1, "before the first row"},
	{"[]\nname = x", 1, "want [row-name]"},
	{"[a", 1, "want [row-name]"},
	{"[A B]\nname = x", 1, "a row's name has only"},
	{"[a]\nname = x\n[a]\nname = y", 3, "is already there, in line 1"},
	{"[a]\n\n[b]\nname = x", 1, "has neither name nor word"},
	{"[a]\nop = all_reduce", 1, "has neither name nor word"},
	{"[a]\nname = x\ncolour = red", 3, "unknown key \"colour\""},
	{"[a]\nname =", 2, "has no value"},
	{"[a]\nname = x\nop = all_reduce\nop = reduce", 4, "given twice"},
	{"[a]\nname = x\nop = allreduce", 3, "op: there is no \"allreduce\""},
	{"[a]\nname = x\nimpl = acme", 3, "impl: there is no \"acme\""},
	{"[a]\nname = x\ndtype = fp16", 3, "dtype: there is no \"fp16\""},
	{"[a]\nname = x\nreduction = plus", 3, "reduction: there is no"},
	{"[a]\nname = x\nalgorithm = star", 3, "algorithm: there is no"},
	{"[a]\nname = x\nprotocol = tcp", 3, "protocol: there is no"},
	{"[a]\nname = x\nkind = thing", 3, "want collective, marker or ignore"},
	{"[a]\nname = x\nkind = marker\nends = lunch", 4, "ends: there is no \"lunch\""},
	{"[a]\nname = x\nends = draft", 1, "is not of kind marker"},
	{"[a]\nname = x\nkind = marker\nsize = 16", 1, "is no collective but has a size"},
	{"[a]\nname = x\nfused = perhaps", 3, "want yes, no or a name"},
	{"[a]\nname = x\npart = 1", 3, "want yes or no"},
	{"[a]\nname = x\nwords = colour", 3, "words: \"colour\""},
	{"[a]\nname = x\ntemplate = T,", 3, "template: want names"},
	{"[a]\nname = x\ntemplate = T, T", 3, "\"T\" is named twice"},
	{"[a]\nname = x\ntemplate = _<T, _<W>>", 3, "template: want names"},
	{"[a]\nname = x\ntemplate = a, b, c, d, e, f, g", 3, "more than 6 named arguments"},
	{"[a]\nname = x\nop = by shape: 1 reduce", 3, "is not named by this row's template"},
	{"[a]\nname = x\ntemplate = s\nop = by s 1 reduce", 4, "op: want \"by NAME:"},
	{"[a]\nname = x\ntemplate = s\nop = by s: one reduce", 4, "want a number and an operation"},
	{"[a]\nname = x\ntemplate = s\nop = by s: 1", 4, "want a number and an operation"},
	{"[a]\nname = x\nsize = P5", 3, "\"P5\" is no operand"},
	{"[a]\nname = x\nsize = P5.f32", 3, "\"P5.f32\" is no operand"},
	{"[a]\nname = x\nsize = P99.u32", 3, "is no operand"},
	{"[a]\nname = x\nsize = P0@99999.u32", 3, "is no operand"},
	{"[a]\nname = x\nsize = P5.i32 *", 3, "an operand is missing"},
	{"[a]\nname = x\nsize = P5.i32 16", 3, "want * or +"},
	{"[a]\nname = x\nsize = P5.i32*16", 3, "is no operand"},
	{"[a]\nname = x\nsize = 1 * 1 * 1 * 1 * 1 * 1 * 1", 3, "more than 6 operands"},
	{"[a]\nname = x\nsize = 1 + 1 + 1 + 1 + 1", 3, "more than 4 products"},
	{"[a]\nname = x\nsize = 0", 3, "is no operand"},
	{"[a]\nname = x\nsize = grid.w", 3, "is no operand"},
	{"[a]\nname = x\nsize = hidden * 2", 3, "\"hidden\" is no operand"},
	{"[a]\nname = x\nsize = 16\nsize = 16", 4, "given twice for one layout"},
	{"[a]\nname = x\nrank = me", 3, "\"me\" is no operand"},
	{"[a]\nname = x\ncheck = P0.u32 < 5", 3, "\"<\" is no relation"},
	{"[a]\nname = x\ncheck = P0.u32 ==", 3, "want OPERAND RELATION OPERAND"},
	{"[a]\nname = x\narguments = 0", 3, "want a number from 1 to 16"},
	{"[a]\nname = x\narguments = two", 3, "want a number from 1 to 16"},
	{"[a]\nname = x\narguments = 17", 3, "want a number from 1 to 16"},
	{"[a]\nname = x\nlayout = six", 3, "layout: \"six\""},
	{"[a]\nname = x\nlayout = P0:8+W", 3, "layout: \"P0:8+W\""},
	{"[a]\nname = x\nlayout = P0:8+4", 3, "layout: \"P0:8+4\""},
	{"[a]\nname = x\nlayout = P0:>=8,9", 3, "layout: \"P0:>=8,9\""},
	{"[a]\nname = x\nlayout = k:1", 3, "\"k\" is no name from this row's template"},
	{"[a]\nname = x\ntemplate = k\nlayout = k:one", 4, "want k:1 or k:1,3"},
	{"[a]\nname = x\ntemplate = k\nlayout = k:1,2,3,4,5", 4, "want k:1 or k:1,3"},
	{"[a]\nname = x\nlayout = count:0", 3, "want a number from 1 to 64"},
	{"[a]\nname = x\nlayout = P0:0", 3, "layout: \"P0:0\""},
	{"[a]\nname = x\nlayout = P0:8,16,24,32,40", 3, "layout: \"P0:8,16,24,32,40\""},
	{"[a]\nname = x\nlayout = P0:8\nsize = 16\nlayout = required\nsize = 32", 5,
		"by which sizes it is told"},
};

static void
test_mistakes_are_said_with_their_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
		struct cs_catalog *catalog;
		char complaint[512];
		char want[96];
		int rc = load_text(
			mistakes[i].text, strlen(mistakes[i].text), &catalog, complaint, sizeof(complaint));

		(void)snprintf(want, sizeof(want), "%s:%u: ", path, mistakes[i].line);
		if (rc != -EINVAL || strncmp(complaint, want, strlen(want)) != 0 ||
			strstr(complaint, mistakes[i].says) == NULL)
			fail_msg("%s\n-> %d %s\nwant line %u: %s", mistakes[i].text, rc, complaint,
				mistakes[i].line, mistakes[i].says);
		/* the built-in rows are there all the same */
		assert_int_equal(classify(catalog, "ncclDevKernel_AllReduce_f32_RING").impl, CS_IMPL_NCCL);
		assert_int_equal(classify(catalog, "x").kind, CS_CATALOG_NONE);
		cs_catalog_destroy(catalog);
	}
}

static void
test_files_that_are_none(void **state)
{
	const struct {
		const char *name;
		int rc;
	} files[] = {{missing, -ENOENT}, {"/", -EINVAL}, {"/dev/zero", -EINVAL},
		/* Of size 0, say their inodes: one that cannot be read, one that is not the least empty. */
		{"/proc/self/mem", -EIO}, {"/proc/self/comm", -EINVAL}};
	struct cs_catalog *catalog;
	char complaint[512];
	char *large = calloc(1, (1U << 20) + 1);

	(void)state;
	for (size_t i = 0; i < COUNT_OF(files); i++) {
		assert_int_equal(
			cs_catalog_load(files[i].name, &catalog, complaint, sizeof(complaint)), files[i].rc);
		assert_non_null(strstr(complaint, files[i].name));
		assert_non_null(catalog);
		cs_catalog_destroy(catalog);
	}
	assert_non_null(large);
	memset(large, '#', (1U << 20) + 1);
	assert_int_equal(load_text(large, (1U << 20) + 1, &catalog, complaint, sizeof(complaint)), -EFBIG);
	cs_catalog_destroy(catalog);
	assert_int_equal(load_text(large, 2000, &catalog, complaint, sizeof(complaint)), -EINVAL);
	assert_non_null(strstr(complaint, ":1: the line is longer"));
	cs_catalog_destroy(catalog);
	assert_int_equal(load_text("#\n\0\n", 4, &catalog, complaint, sizeof(complaint)), -EINVAL);
	assert_non_null(strstr(complaint, ":2: the line has a NUL byte"));
	cs_catalog_destroy(catalog);
	free(large);
	/* a complaint cut short is still a string */
	assert_int_equal(cs_catalog_load(missing, &catalog, complaint, 8), -ENOENT);
	assert_true(strlen(complaint) < 8);
	cs_catalog_destroy(catalog);
}

static void
test_own_rows_come_first(void **state)
{
	struct cs_catalog *catalog =
		load_good("[mine]\nname = ncclDevKernel_*\nimpl = trtllm\nop = barrier\n");
	struct cs_catalog_match match = classify(catalog, "ncclDevKernel_AllReduce_f32_RING");

	(void)state;
	assert_int_equal(match.impl, CS_IMPL_TRTLLM);
	assert_int_equal(match.op, CS_OP_BARRIER);
	assert_int_equal(match.rule_id, 1);
	cs_catalog_destroy(catalog);
	/* the same name as a built-in row's is no conflict */
	catalog = load_good("[nccl]\nname = nothing\n");
	assert_int_equal(classify(catalog, "ncclDevKernel_AllReduce_f32_RING").impl, CS_IMPL_NCCL);
	cs_catalog_destroy(catalog);
}

static void
test_forms_of_text(void **state)
{
	static const char *const forms[] = {
		"[a]\nname = one two\nname = three",
		"\r\n[a]\r\n  name=one two three\r\n",
		"# c\n\n\t[a]  # the row\n\tname   =   one   two\tthree   # names",
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct cs_catalog *catalog = load_good(forms[i]);

		assert_int_equal(classify(catalog, "one").kind, CS_CATALOG_COLLECTIVE);
		assert_int_equal(classify(catalog, "void ns::two<int>(float)").kind, CS_CATALOG_COLLECTIVE);
		assert_int_equal(classify(catalog, "_Z5threev").kind, CS_CATALOG_COLLECTIVE);
		assert_int_equal(classify(catalog, "four").kind, CS_CATALOG_NONE);
		cs_catalog_destroy(catalog);
	}
	cs_catalog_destroy(load_good(""));
	cs_catalog_destroy(load_good("# nothing but this"));
}

static void
test_scopes_and_globs(void **state)
{
	struct cs_catalog *catalog = load_good("[a]\nscope = acme v*\nname = *_ring_* x\n");

	(void)state;
	assert_int_equal(classify(catalog, "acme::v2::my_ring_kernel").kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(classify(catalog, "acme::detail::v2::inner::x").kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(classify(catalog, "_ZN4acme2v21xIfEEvv").kind, CS_CATALOG_COLLECTIVE);
	assert_int_equal(classify(catalog, "v2::acme::x").kind, CS_CATALOG_NONE);
	assert_int_equal(classify(catalog, "acme::x").kind, CS_CATALOG_NONE);
	assert_int_equal(classify(catalog, "acme2::v2::x").kind, CS_CATALOG_NONE);
	assert_int_equal(classify(catalog, "acme::v2::xx").kind, CS_CATALOG_NONE);
	assert_int_equal(classify(catalog, "acme::v2::x::y").kind, CS_CATALOG_NONE);
	cs_catalog_destroy(catalog);
}

/* The 39th thing that the name has said is written S10_; by c++filt it is __half here. */
static void
test_substitutions_beyond_one_digit(void **state)
{
	struct cs_catalog *catalog = load_good(
		"[a]\nname = x\ntemplate = _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, T\n");

	(void)state;
	assert_int_equal(
		classify(catalog, "_Z1xIN1a1bEN1c1bEN1d1bEN1e1bEN1f1bEN1g1bEN1h1bEN1i1bEN1j1bEN1k1bEN1l1bE"
				  "N1m1bEN1n1bEN1o1bEN1p1bEN1q1bEN1r1bEN1s1bE6__halfS10_EvT_")
			.dtype,
		CS_DTYPE_FLOAT16);
	cs_catalog_destroy(catalog);
}

/* Sums of products, a world from the parameters, alignment, all integer types. */
static void
test_size_expressions(void **state)
{
	struct cs_catalog *catalog =
		load_good("[a]\nname = x\ntemplate = k\nsize = P0@4.u16 * W + grid.y * k + 3\n"
			  "world = P0.u8\nrank = P0@1.i8\nalign = 2\ncheck = P1.i64 <= 100\n"
			  "check = P2.i16 == P0@4.u16\n");
	struct cs_catalog_match match = classify(catalog, "x<5>");
	unsigned char first[8] = {4, 3, 0xff, 0xff, 10, 0, 0xff, 0xff};
	int64_t second = 100;
	int16_t third = 10;
	void *params[] = {first, &second, &third};
	struct cs_launch launch = {.kernel_params = params, .grid = {9, 7, 9}};
	struct cs_label label;

	(void)state;
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), 0);
	assert_int_equal(label.bytes, 10 * 4 + 7 * 5 + 3);
	assert_int_equal(label.world, 4);
	assert_int_equal(label.rank, 3);
	launch.grid[1] = 8; /* 83: not aligned */
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	launch.grid[1] = 7;
	second = 101;
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	second = -1; /* no size is negative */
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	second = 0;
	third = 11;
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	third = -1; /* the same bits without a sign on the other side */
	first[4] = first[5] = 0xff;
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	third = 10;
	first[4] = 10;
	first[5] = 0;
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), 0);
	match = classify(catalog, "x"); /* the name does not tell k */
	assert_int_equal(cs_catalog_decode(&match, &launch, &label), -EINVAL);
	cs_catalog_destroy(catalog);
}

static void
check_example_launch(
	const struct cs_catalog *catalog, uint32_t peers_bytes, uint32_t elements, uint64_t bytes)
{
	struct cs_catalog_match match =
		classify(catalog, "_ZN4acme11ring_reduceI6__halfLi4ELb1EEEvNS_5PeersEPT_PKS3_ijj");
	unsigned char peers[128] = {0};
	int32_t rank = 3;
	uint32_t hidden = 4096;
	void *pointer = NULL;
	void *params[] = {peers, &pointer, &pointer, &rank, &elements, &hidden};
	uint32_t sizes[] = {peers_bytes, 8, 8, 4, 4, 4};
	uint32_t offsets[] = {
		0, peers_bytes, peers_bytes + 8, peers_bytes + 16, peers_bytes + 20, peers_bytes + 24};
	struct cs_launch launch = {
		.kernel_params = params, .param_count = 6, .param_bytes = sizes, .param_offsets = offsets};
	struct cs_label label;

	assert_int_equal(cs_catalog_decode(&match, &launch, &label), 0);
	assert_int_equal(label.bytes, bytes);
	assert_int_equal(label.rank, 3);
	assert_int_equal(label.world, 4);
	assert_int_equal(label.dtype, CS_DTYPE_FLOAT16);
	assert_int_equal(label.flags, CS_LABEL_FUSED);
}

/* The example of docs/catalog.md does what the text says, and the text is the file's. */
static void
test_example_of_the_manual(void **state)
{
	char *example = read_whole(EXAMPLE);
	char *manual = read_whole(MANUAL);
	struct cs_catalog *catalog = load_good(example);
	struct cs_catalog_match match;

	(void)state;
	assert_non_null(strstr(manual, example));
	check_example_launch(catalog, 64, 8192, 16384);
	check_example_launch(catalog, 128, 2, 16384);
	match = classify(catalog, "acme::ring_norm_v2<float>");
	assert_string_equal(id_of(catalog, &match), "acme-ring-norm");
	assert_int_equal(match.label_flags, CS_LABEL_PART);
	assert_int_equal(classify(catalog, "all_reduce_benchmark_fill").kind, CS_CATALOG_NONE);
	assert_int_equal(classify(catalog, "all_reduce_something_else").kind, CS_CATALOG_COLLECTIVE);
	match = classify(catalog, "pack_draft_tokens");
	assert_int_equal(match.kind, CS_CATALOG_MARKER);
	assert_int_equal(match.phase, CS_PHASE_DRAFT);
	assert_int_equal(match.phase_next, CS_PHASE_VERIFY);
	cs_catalog_destroy(catalog);
	free(example);
	free(manual);
}

static void
test_rows_describe_themselves(void **state)
{
	struct cs_catalog *catalog =
		load_good("\n[mine]\nscope = a b\nname = c d\nsize = P0.u32 * 16\nfused = yes\n");
	struct cs_catalog_rule_text text;
	size_t count = cs_catalog_rule_count(catalog);

	(void)state;
	assert_int_equal(cs_catalog_rule_describe(catalog, 0, &text), 0);
	assert_string_equal(text.id, "mine");
	assert_string_equal(text.pattern, "a::b::c | d");
	assert_string_equal(text.size, "P0.u32 * 16");
	assert_string_equal(text.origin, path);
	assert_int_equal(text.line, 2);
	assert_int_equal(text.match.label_flags, CS_LABEL_FUSED);
	assert_true(text.match.has_size_rule);
	for (size_t i = 1; i < count; i++) {
		assert_int_equal(cs_catalog_rule_describe(catalog, i, &text), 0);
		assert_string_equal(text.origin, "built-in");
		assert_true(text.id[0] != '\0' && text.pattern[0] != '\0' && text.line > 0);
		assert_int_equal(text.match.has_size_rule && text.size[0] == '\0', 0);
	}
	assert_int_equal(cs_catalog_rule_describe(catalog, count, &text), -EINVAL);
	cs_catalog_destroy(catalog);
}

/* Damaged copies of the built-in rows: an error with a line or rows that work, nothing else. */
static void
test_damaged_files(void **state)
{
	char *table = read_whole(BUILT_IN);
	size_t length = strlen(table);
	uint64_t seed = 88172645463325252U;

	(void)state;
	for (unsigned int round = 0; round < 300; round++) {
		char *copy = strdup(table);
		struct cs_catalog *catalog;
		char complaint[256];
		size_t start;
		int rc;

		assert_non_null(copy);
		for (unsigned int i = 0; i < 1 + round % 8; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			copy[seed % length] = (char)(seed >> 40);
		}
		start = seed % 5 == 0 ? (seed >> 8) % length : 0;
		rc = load_text(copy + start, length - start, &catalog, complaint, sizeof(complaint));
		assert_true(rc == 0 || (rc == -EINVAL && strncmp(complaint, path, strlen(path)) == 0));
		assert_non_null(catalog);
		(void)classify(catalog,
			"_ZN6sglang17all_reduce_kernelINS_17AllReducePushImplI13__nv_bfloat16Lj8E"
			"Lb1EEELj8ELi1EEEvNS_15AllReduceParamsIXT0_EEE");
		cs_catalog_destroy(catalog);
		free(copy);
	}
	free(table);
}

static int
make_path(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/catalog", directory);
	(void)snprintf(missing, sizeof(missing), "%s/missing", directory);
	write_file("", 0);
	return 0;
}

static int
remove_path(void **state)
{
	(void)state;
	return unlink(path) | rmdir(directory);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes_are_said_with_their_line),
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_own_rows_come_first),
		cmocka_unit_test(test_forms_of_text),
		cmocka_unit_test(test_scopes_and_globs),
		cmocka_unit_test(test_substitutions_beyond_one_digit),
		cmocka_unit_test(test_size_expressions),
		cmocka_unit_test(test_example_of_the_manual),
		cmocka_unit_test(test_rows_describe_themselves),
		cmocka_unit_test(test_damaged_files),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
