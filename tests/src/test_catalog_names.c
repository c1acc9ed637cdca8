/* SPDX-License-Identifier: Apache-2.0 */
/* tests/data/catalog/names.tsv: what real kernels are, by their sources, against what the built-in rows say.
 */
#include "catalog/catalog_rule.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINE_BYTES  8192
#define COLUMNS     8U
#define COLLECTIVES 150U
#define ORDINARY    300U

enum column { SOURCE, VERSION, KIND, OP, IMPL, DTYPE, WORLD, NAME };

struct counts {
	unsigned int collective;
	unsigned int marker;
	unsigned int ordinary;
	unsigned int wrong;
};

static struct cs_catalog *catalog;

static int
load(void **state)
{
	char complaint[512];

	(void)state;
	assert_int_equal(cs_catalog_load(NULL, &catalog, complaint, sizeof(complaint)), 0);
	return 0;
}

static int
unload(void **state)
{
	(void)state;
	cs_catalog_destroy(catalog);
	return 0;
}

static bool
split(char *line, char *columns[COLUMNS])
{
	line[strcspn(line, "\n")] = '\0';
	for (unsigned int i = 0; i < COLUMNS; i++) {
		columns[i] = strsep(&line, "\t");
		if (columns[i] == NULL)
			return false;
	}
	return line == NULL;
}

static bool
collective_is_right(char *columns[COLUMNS], const struct cs_catalog_match *match)
{
	int32_t world = strcmp(columns[WORLD], "-") == 0 ? CS_RANK_UNKNOWN : atoi(columns[WORLD]);

	return match->kind == CS_CATALOG_COLLECTIVE && strcmp(columns[OP], cs_op_name(match->op)) == 0 &&
	       strcmp(columns[IMPL], cs_impl_name(match->impl)) == 0 &&
	       strcmp(columns[DTYPE], cs_dtype_name(match->dtype)) == 0 && match->world == world;
}

static void
check(char *columns[COLUMNS], struct counts *counts)
{
	struct cs_catalog_match match;
	char why[512];
	bool right;

	cs_catalog_classify(catalog, columns[NAME], &match);
	if (strcmp(columns[KIND], "collective") == 0) {
		counts->collective++;
		right = collective_is_right(columns, &match);
	} else if (strcmp(columns[KIND], "marker") == 0) {
		counts->marker++;
		right = match.kind == CS_CATALOG_MARKER;
	} else {
		counts->ordinary++;
		right = match.kind == CS_CATALOG_NONE && match.rule == NULL && match.rule_id == 0;
	}
	if (right)
		return;
	counts->wrong++;
	(void)cs_catalog_explain(catalog, columns[NAME], why, sizeof(why));
	print_error("%s %s %s\n  want %s %s %s %s %s\n  got  %d %s %s %s %d: %s\n", columns[SOURCE],
		columns[VERSION], columns[NAME], columns[KIND], columns[OP], columns[IMPL], columns[DTYPE],
		columns[WORLD], (int)match.kind, cs_op_name(match.op), cs_impl_name(match.impl),
		cs_dtype_name(match.dtype), match.world, why);
}

static void
test_every_name_of_the_table(void **state)
{
	static char line[LINE_BYTES];
	struct counts counts = {0};
	FILE *table = fopen(CS_TEST_DATA_DIR "/catalog/names.tsv", "re");

	(void)state;
	assert_non_null(table);
	while (fgets(line, sizeof(line), table) != NULL) {
		char *columns[COLUMNS];

		if (line[0] == '#')
			continue;
		assert_true(split(line, columns));
		check(columns, &counts);
	}
	(void)fclose(table);
	assert_int_equal(counts.wrong, 0);
	assert_true(counts.collective >= COLLECTIVES);
	assert_true(counts.ordinary >= ORDINARY);
	assert_true(counts.marker > 0);
}

/* What cs_catalog_explain says decided: "row ID (ORIGIN:LINE): scope A::B, name PATTERN, ...". */
static void
mark_pattern(const char *name, bool seen[][CS_CATALOG_NAMES_MAX])
{
	char why[512], id[64], by[128];
	const char *at;

	(void)cs_catalog_explain(catalog, name, why, sizeof(why));
	if (sscanf(why, "row %63s", id) != 1)
		return;
	at = strstr(why, "name ");
	if (at == NULL)
		at = strstr(why, "word ");
	assert_non_null(at);
	assert_int_equal(sscanf(at + strlen("name "), "%127[^,;]", by), 1);
	for (size_t i = 0; i < catalog->rule_count; i++) {
		const struct cs_catalog_rule *rule = &catalog->rules[i];

		for (unsigned int j = 0; strcmp(rule->id, id) == 0 && j < CS_CATALOG_NAMES_MAX; j++) {
			if (j < rule->name_count + rule->word_count &&
				strcmp(j < rule->name_count ? rule->names[j]
							    : rule->loose[j - rule->name_count],
					by) == 0)
				seen[i][j] = true;
		}
	}
}

/* A pattern that no known kernel has is a guess, or shadowed by a row before it. */
static void
test_every_pattern_has_a_name(void **state)
{
	static char line[LINE_BYTES];
	FILE *table = fopen(CS_TEST_DATA_DIR "/catalog/names.tsv", "re");
	bool(*seen)[CS_CATALOG_NAMES_MAX] = calloc(catalog->rule_count, sizeof(*seen));
	unsigned int missing = 0;

	(void)state;
	assert_non_null(table);
	assert_non_null(seen);
	while (fgets(line, sizeof(line), table) != NULL) {
		char *columns[COLUMNS];

		if (line[0] == '#')
			continue;
		assert_true(split(line, columns));
		mark_pattern(columns[NAME], seen);
	}
	(void)fclose(table);
	for (size_t i = 0; i < catalog->rule_count; i++) {
		const struct cs_catalog_rule *rule = &catalog->rules[i];

		assert_true(rule->name_count == 0 || rule->word_count == 0);
		for (unsigned int j = 0; j < rule->name_count + rule->word_count; j++) {
			if (seen[i][j])
				continue;
			missing++;
			print_error("row %s: no line of names.tsv has '%s'\n", rule->id,
				rule->name_count > 0 ? rule->names[j] : rule->loose[j]);
		}
	}
	free(seen);
	assert_int_equal(missing, 0);
}

/* c++filt's spelling must lead to the same row, type and world as the mangled one. */
static void
test_demangled_names_say_the_same(void **state)
{
	static const char *const pairs[][2] = {
		{"_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvPNS_8RankDataENS_11RankSignalsEPNS_"
		 "6SignalEPT_"
		 "ii",
			"void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*, "
			"vllm::RankSignals, "
			"vllm::Signal*, __half*, int, int)"},
		{"_ZN6sglang17all_reduce_kernelINS_17AllReducePushImplI13__nv_"
		 "bfloat16Lj8ELb1EEELj8ELi1EEEvNS_"
		 "15AllReduceParamsIXT0_EEE",
			"void sglang::all_reduce_kernel<sglang::AllReducePushImpl<__nv_bfloat16, 8u, true>, "
			"8u, "
			"1>(sglang::AllReduceParams<8u>)"},
		{"_ZN64_GLOBAL__N__62167398_25_CUDASymmetricMemoryOps_cu_aa69e1bd_1353526two_shot_all_reduce_"
		 "kernelIN3c108BFloat16ELi16ELi8ELb1ELb1EEEvPPT_S4_mmPPjmmm",
			"void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8, true, "
			"true>(c10::BFloat16**, c10::BFloat16*, unsigned long, unsigned long, unsigned "
			"int**, "
			"unsigned long, unsigned long, unsigned long)"},
		{"_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_"
		 "22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb1ELb0EEEvNS0_21AllReduceFusionParamsIT0_EE",
			"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<("
			"flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, "
			"true, "
			"false>(flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams<__nv_bfloat16>)"},
		{"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
			"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct cs_catalog_match mangled;
		struct cs_catalog_match plain;

		cs_catalog_classify(catalog, pairs[i][0], &mangled);
		cs_catalog_classify(catalog, pairs[i][1], &plain);
		assert_int_equal(mangled.kind, CS_CATALOG_COLLECTIVE);
		assert_true(mangled.dtype != CS_DTYPE_UNKNOWN);
		assert_memory_equal(&mangled, &plain, sizeof(mangled));
	}
}

/* The words of NCCL's names: believed where they are exact, and not where they stand for others. */
static void
test_what_nccl_names_tell(void **state)
{
	static const struct {
		const char *name;
		uint8_t algorithm;
		uint8_t protocol;
		uint8_t reduction;
		uint8_t element_bytes;
	} names[] = {
		{"ncclDevKernel_AllReduce_Sum_bf16_TREE_LL", CS_ALGORITHM_TREE, 0, 0, 2},
		{"ncclDevKernel_AllReduce_Sum_u32_RING_LL", 0, 0, 0, 4},
		{"ncclDevKernel_AllReduce_f32_RING", 0, 0, 0, 4},
		{"ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16", CS_ALGORITHM_MULTIMEM,
			CS_PROTOCOL_SIMPLE, CS_REDUCTION_SUM, 2},
		{"ncclSymDevKernel_AllReduce_AGxLL_R_sum_f32", CS_ALGORITHM_ONE_SHOT, CS_PROTOCOL_LL,
			CS_REDUCTION_SUM, 4},
		{"ncclSymkDevKernel_ReduceScatter_LD_avg_f16_profile", 0, CS_PROTOCOL_SIMPLE,
			CS_REDUCTION_AVG, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct cs_catalog_match match;

		cs_catalog_classify(catalog, names[i].name, &match);
		assert_int_equal(match.algorithm, names[i].algorithm);
		assert_int_equal(match.protocol, names[i].protocol);
		assert_int_equal(match.reduction, names[i].reduction);
		assert_int_equal(match.element_bytes, names[i].element_bytes);
	}
}

static void
test_markers_name_their_phases(void **state)
{
	static const struct {
		const char *name;
		uint8_t ends;
		uint8_t begins;
	} markers[] = {
		{"_Z20build_tree_efficientPlS_S_PbS_S_S_S_iiii", CS_PHASE_DRAFT, CS_PHASE_VERIFY},
		{"verify_tree_greedy_kernel_triton", CS_PHASE_VERIFY, CS_PHASE_DRAFT_EXTEND},
		{"rejection_greedy_sample_kernel", CS_PHASE_VERIFY, CS_PHASE_UNKNOWN},
		{"eagle_prepare_inputs_padded_kernel", CS_PHASE_UNKNOWN, CS_PHASE_DRAFT_EXTEND},
		{"eagle_step_slot_mapping_metadata_kernel", CS_PHASE_UNKNOWN, CS_PHASE_DRAFT},
		{"_gumbel_sample_kernel", CS_PHASE_UNKNOWN, CS_PHASE_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(markers) / sizeof(markers[0]); i++) {
		struct cs_catalog_match match;

		cs_catalog_classify(catalog, markers[i].name, &match);
		assert_int_equal(match.kind, CS_CATALOG_MARKER);
		assert_int_equal(match.phase, markers[i].ends);
		assert_int_equal(match.phase_next, markers[i].begins);
	}
}

/* A collective nobody has described yet is counted and shown, not lost. */
static void
test_unknown_collectives_are_noticed(void **state)
{
	static const struct {
		const char *name;
		uint8_t op;
	} names[] = {
		{"_ZN3foo20my_all_reduce_kernelIfEEvPT_", CS_OP_ALL_REDUCE},
		{"fusedAllReduceNormKernel", CS_OP_ALL_REDUCE},
		{"_ZN3foo15allgatherKernelEv", CS_OP_ALL_GATHER},
		{"reduce_scatter_v3", CS_OP_REDUCE_SCATTER},
		{"mega_alltoall_kernel", CS_OP_ALL_TO_ALL},
		{"nccl_future_thing", CS_OP_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct cs_catalog_match match;

		cs_catalog_classify(catalog, names[i].name, &match);
		assert_int_equal(match.kind, CS_CATALOG_COLLECTIVE);
		assert_int_equal(match.op, names[i].op);
		assert_int_equal(match.impl, CS_IMPL_UNKNOWN);
		assert_false(match.has_size_rule);
	}
}

static uint32_t
next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void
classify_and_explain(const char *name)
{
	struct cs_catalog_match match;
	char text[64];

	cs_catalog_classify(catalog, name, &match);
	assert_true(match.kind <= CS_CATALOG_MARKER);
	assert_true(cs_catalog_explain(catalog, name, text, sizeof(text)) > 0);
}

/* Names come from whatever the process loads: none may crash, hang or read outside (run under sanitizers). */
static void
test_hostile_names(void **state)
{
	static const char *const hostile[] = {"", "_", "_Z", "_ZN", "_ZNE", "_Z99999999999999999999x",
		"_Z5abc", "_ZN5abc", "_ZN4vllm26cross_device_reduce_1stageI",
		"_ZN4vllm26cross_device_reduce_1stageIL",
		"_ZN4vllm26cross_device_reduce_1stageILi99999999999999999999999EEEvv",
		"_ZN4vllm26cross_device_reduce_1stageIS_S0_S1_SZZZZZ_EEEvv",
		"_ZN4vllm26cross_device_reduce_1stageIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII",
		"_ZN4vllm26cross_device_reduce_1stageIPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPfEEvv",
		"vllm::cross_device_reduce_1stage<<<<<<<<<<<<<<<<<",
		"vllm::cross_device_reduce_1stage<>>>>>>", "vllm::cross_device_reduce_1stage<,,,,,,>",
		"::::::::", "<", ">", "(", "a<b<c<d<e<f<g<h", "\xff\xfe\x01", "__nv_static_",
		"__nv_static_1__Z", "void (anonymous namespace)::"};
	static const char alphabet[] = "_ZNEISTLK0123456789abcdefghijv<>(),:* PRm";
	static char name[20000];
	uint32_t seed = 2463534242U;

	(void)state;
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		char *copy = strdup(hostile[i]); /* exact allocation: a read past the end is seen */

		assert_non_null(copy);
		classify_and_explain(copy);
		free(copy);
	}
	for (unsigned int i = 0; i < 20000; i++) {
		size_t prefix =
			i % 3 == 0 ? (size_t)snprintf(name, sizeof(name), "_ZN6sglang17all_reduce_kernelI")
			: i % 3 == 1
				? (size_t)snprintf(name, sizeof(name), "vllm::cross_device_reduce_2stage<")
				: 0;
		size_t length = next_random(&seed) % 200;
		char *copy;

		for (size_t j = 0; j < length; j++)
			name[prefix + j] = alphabet[next_random(&seed) % (sizeof(alphabet) - 1)];
		name[prefix + length] = '\0';
		copy = strdup(name);
		assert_non_null(copy);
		classify_and_explain(copy);
		free(copy);
	}
	memset(name, '<', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	classify_and_explain(name);
	memset(name, 'I', sizeof(name) - 1);
	memcpy(name, "_ZN1aI", 6);
	classify_and_explain(name);
}

/* Every prefix of a real name, and the name with every byte changed. */
static void
test_damaged_names(void **state)
{
	static const char real[] =
		"_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_"
		"lamportILNS0_22AllReduceFusionPatternE1E13__nv_bfloat16Li8ELb1ELb0EEEvNS0_"
		"21AllReduceFusionParamsIT0_EE";

	(void)state;
	for (size_t i = 0; i < sizeof(real); i++) {
		char *copy = strndup(real, i);

		assert_non_null(copy);
		classify_and_explain(copy);
		free(copy);
		for (unsigned int bit = 0; bit < 7 && i + 1 < sizeof(real); bit++) {
			copy = strdup(real);
			assert_non_null(copy);
			copy[i] = (char)(copy[i] ^ (char)(1U << bit));
			classify_and_explain(copy);
			free(copy);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_name_of_the_table),
		cmocka_unit_test(test_every_pattern_has_a_name),
		cmocka_unit_test(test_demangled_names_say_the_same),
		cmocka_unit_test(test_what_nccl_names_tell),
		cmocka_unit_test(test_markers_name_their_phases),
		cmocka_unit_test(test_unknown_collectives_are_noticed),
		cmocka_unit_test(test_hostile_names),
		cmocka_unit_test(test_damaged_names),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
