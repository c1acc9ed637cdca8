/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"
#include "segment/dictionary.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
test_empty(void **state)
{
	struct cs_dictionary dictionary;
	const struct cs_label *label;

	(void)state;
	cs_dictionary_init(&dictionary);
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, 0), "");
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, 5), "");
	assert_null(cs_dictionary_borrow_gpu(&dictionary, 0));
	assert_null(cs_dictionary_borrow_communicator(&dictionary, 0));
	assert_null(cs_dictionary_borrow_communicator(&dictionary, 1));
	label = cs_dictionary_borrow_label(&dictionary, 0);
	assert_int_equal(label->rank, CS_RANK_UNKNOWN);
	assert_int_equal(label->world, CS_RANK_UNKNOWN);
	assert_true(label->bytes == CS_BYTES_UNKNOWN);
	assert_ptr_equal(cs_dictionary_borrow_label(&dictionary, UINT32_MAX), label);
	assert_int_equal(dictionary.process.rank, CS_RANK_UNKNOWN);
	cs_dictionary_fini(&dictionary);
}

/* Id 0 is the empty name, whoever adds first. */
static void
test_names(void **state)
{
	struct cs_dictionary dictionary;
	char text[32];
	uint64_t changes;

	(void)state;
	cs_dictionary_init(&dictionary);
	assert_int_equal(cs_dictionary_add_name(&dictionary, "first", 5), 0);
	assert_int_equal(dictionary.name_count, 2);
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, 0), "");
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, 1), "first");
	changes = dictionary.changes;
	for (uint32_t i = 2; i < CS_NAMES_MAX; i++) {
		snprintf(text, sizeof(text), "name_%u", i);
		assert_int_equal(cs_dictionary_add_name(&dictionary, text, strlen(text)), 0);
	}
	assert_int_equal(dictionary.changes, changes + CS_NAMES_MAX - 2);
	assert_int_equal(cs_dictionary_add_name(&dictionary, "more", 4), -ENOSPC);
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, CS_NAMES_MAX - 1), "name_4095");
	cs_dictionary_fini(&dictionary);
	assert_int_equal(dictionary.name_count, 0);

	assert_int_equal(cs_dictionary_add_name(&dictionary, "", 0), 0);
	assert_int_equal(dictionary.name_count, 1);
	assert_int_equal(cs_dictionary_add_name(&dictionary, "ab\ncdef", 5), 0);
	assert_string_equal(cs_dictionary_borrow_name(&dictionary, 1), "ab?cd");
	cs_dictionary_fini(&dictionary);
}

static void
test_long_name(void **state)
{
	struct cs_dictionary dictionary;
	char text[2 * CS_NAME_BYTES_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	cs_dictionary_init(&dictionary);
	assert_int_equal(cs_dictionary_add_name(&dictionary, text, sizeof(text)), 0);
	assert_int_equal(strlen(cs_dictionary_borrow_name(&dictionary, 1)), CS_NAME_BYTES_MAX);
	cs_dictionary_fini(&dictionary);
}

static void
test_labels(void **state)
{
	static const struct cs_label none;
	struct cs_dictionary dictionary;
	struct cs_label label = {.op = CS_OP_COUNT,
		.impl = CS_IMPL_COUNT,
		.dtype = CS_DTYPE_COUNT,
		.reduction = CS_REDUCTION_COUNT,
		.algorithm = CS_ALGORITHM_COUNT,
		.protocol = CS_PROTOCOL_COUNT,
		.source = CS_LABEL_SOURCE_COUNT,
		.name_id = 1,
		.comm_id = 1,
		.rank = 8,
		.world = 8,
		.bytes = 5};
	const struct cs_label *seen;

	(void)state;
	cs_dictionary_init(&dictionary);
	assert_int_equal(cs_dictionary_add_label(&dictionary, &label), 0);
	assert_int_equal(dictionary.label_count, 2);
	assert_memory_equal(&dictionary.labels[0], &none, sizeof(none));
	seen = cs_dictionary_borrow_label(&dictionary, 1);
	assert_int_equal(seen->op, CS_OP_UNKNOWN);
	assert_int_equal(seen->impl, CS_IMPL_UNKNOWN);
	assert_int_equal(seen->dtype, CS_DTYPE_UNKNOWN);
	assert_int_equal(seen->reduction, CS_REDUCTION_UNKNOWN);
	assert_int_equal(seen->algorithm, CS_ALGORITHM_UNKNOWN);
	assert_int_equal(seen->protocol, CS_PROTOCOL_UNKNOWN);
	assert_int_equal(seen->source, CS_LABEL_SOURCE_NONE);
	assert_int_equal(seen->name_id, 0);
	assert_int_equal(seen->comm_id, 0);
	assert_int_equal(seen->rank, CS_RANK_UNKNOWN);
	assert_int_equal(seen->world, CS_RANK_UNKNOWN);
	assert_int_equal(seen->bytes, 5);

	/* What is known stays. */
	cs_dictionary_add_name(&dictionary, "kernel", 6);
	dictionary.communicator_count = 1;
	label = (struct cs_label){.op = CS_OP_BARRIER, .name_id = 1, .comm_id = 1, .rank = 7, .world = 8};
	assert_int_equal(cs_dictionary_add_label(&dictionary, &label), 0);
	assert_memory_equal(cs_dictionary_borrow_label(&dictionary, 2), &label, sizeof(label));
	while (dictionary.label_count < CS_LABELS_MAX)
		assert_int_equal(cs_dictionary_add_label(&dictionary, &label), 0);
	assert_int_equal(cs_dictionary_add_label(&dictionary, &label), -ENOSPC);
	cs_dictionary_fini(&dictionary);
}

static void
test_ranks(void **state)
{
	static const struct {
		int32_t rank, world;
		bool good;
	} cases[] = {{0, 1, true}, {7, 8, true}, {-1, -1, true}, {-1, 8, true}, {3, -1, true}, {8, 8, false},
		{-2, 8, false}, {-2, -1, false}, {0, 0, false}, {-1, 0, false}, {-1, -2, false},
		{INT32_MIN, INT32_MIN, false}, {INT32_MAX, INT32_MAX, false},
		{INT32_MAX - 1, INT32_MAX, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int32_t rank = cases[i].rank, world = cases[i].world;

		cs_rank_clean(&rank, &world);
		assert_int_equal(rank, cases[i].good ? cases[i].rank : CS_RANK_UNKNOWN);
		assert_int_equal(world, cases[i].good ? cases[i].world : CS_RANK_UNKNOWN);
	}
}

/* Well-formedness after Unicode 15, table 3-7; the first and last of each row, and just outside. */
static void
test_clean(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"plain ~", "plain ~"},
		{"\x01\x1f\x7f", "???"},
		{"\xc2\x80", "??"}, /* C1 */
		{"\xc2\x9f", "??"},
		{"\xc2\xa0", "\xc2\xa0"},
		{"\xdf\xbf", "\xdf\xbf"},
		{"\xc0\xaf", "??"}, /* overlong */
		{"\xc1\xbf", "??"},
		{"\xe0\x9f\xbf", "???"},
		{"\xe0\xa0\x80", "\xe0\xa0\x80"},
		{"\xed\x9f\xbf", "\xed\x9f\xbf"},
		{"\xed\xa0\x80", "???"}, /* surrogate */
		{"\xef\xbf\xbd", "\xef\xbf\xbd"},
		{"\xf0\x8f\xbf\xbf", "????"},
		{"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
		{"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
		{"\xf4\x90\x80\x80", "????"}, /* above U+10FFFF */
		{"\xf5\x80\x80\x80", "????"},
		{"\x80", "?"},
		{"\xe2\x82", "??"}, /* cut */
		{"\xe2\x82x", "??x"},
		{"a\xc3", "a?"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[64];

		cs_text_clean(cases[i].in, strlen(cases[i].in), out, sizeof(out));
		assert_string_equal(out, cases[i].out);
	}
}

static void
test_clean_cuts(void **state)
{
	char out[8];

	(void)state;
	memset(out, 'z', sizeof(out));
	cs_text_clean("abcdefgh", 8, out, 4);
	assert_string_equal(out, "abc");
	assert_int_equal(out[4], 'z');
	/* Not inside a character; not behind a NUL; not behind the input. */
	cs_text_clean("ab\xe2\x82\xac", 5, out, 5);
	assert_string_equal(out, "ab");
	cs_text_clean("ab\xe2\x82\xac", 5, out, 6);
	assert_string_equal(out, "ab\xe2\x82\xac");
	cs_text_clean("ab\0cd", 5, out, sizeof(out));
	assert_string_equal(out, "ab");
	cs_text_clean("abcd", 2, out, sizeof(out));
	assert_string_equal(out, "ab");
	cs_text_clean("abcd", 4, out, 1);
	assert_string_equal(out, "");
	out[0] = 'q';
	cs_text_clean("abcd", 4, out, 0);
	assert_int_equal(out[0], 'q');
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_clean_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
