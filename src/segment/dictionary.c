/* SPDX-License-Identifier: Apache-2.0 */
#include "dictionary.h"

#include "collective.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct cs_label unknown_label = {
	.rank = CS_RANK_UNKNOWN, .world = CS_RANK_UNKNOWN, .bytes = CS_BYTES_UNKNOWN};

void
cs_dictionary_init(struct cs_dictionary *dictionary)
{
	memset(dictionary, 0, sizeof(*dictionary));
	dictionary->process.rank = CS_RANK_UNKNOWN;
	dictionary->process.world = CS_RANK_UNKNOWN;
}

void
cs_dictionary_fini(struct cs_dictionary *dictionary)
{
	for (uint32_t i = 0; i < dictionary->name_count; i++)
		free(dictionary->names[i]);
	free(dictionary->names);
	free(dictionary->labels);
	cs_dictionary_init(dictionary);
}

/* An array of `count` entries has room for the next power of two; makes room for one more. */
static void *
grow(void *entries, uint32_t count, size_t entry_bytes)
{
	if (count != 0 && (count & (count - 1)) != 0)
		return entries;
	return realloc(entries, (count == 0 ? 1 : (size_t)count * 2) * entry_bytes);
}

static int
append_name(struct cs_dictionary *dictionary, const char *text, size_t length_bytes)
{
	size_t size = (length_bytes < CS_NAME_BYTES_MAX ? length_bytes : CS_NAME_BYTES_MAX) + 1;
	char **names;
	char *name;

	if (dictionary->name_count >= CS_NAMES_MAX)
		return -ENOSPC;
	names = grow(dictionary->names, dictionary->name_count, sizeof(*names));
	if (!names)
		return -ENOMEM;
	dictionary->names = names;
	name = malloc(size);
	if (!name)
		return -ENOMEM;
	cs_text_clean(text, length_bytes, name, size);
	names[dictionary->name_count++] = name;
	dictionary->changes++;
	return 0;
}

int
cs_dictionary_add_name(struct cs_dictionary *dictionary, const char *text, size_t length_bytes)
{
	if (dictionary->name_count == 0) {
		int result = append_name(dictionary, "", 0);

		if (result < 0 || length_bytes == 0)
			return result;
	}
	return append_name(dictionary, text, length_bytes);
}

static int
append_label(struct cs_dictionary *dictionary, const struct cs_label *label)
{
	struct cs_label *labels;

	if (dictionary->label_count >= CS_LABELS_MAX)
		return -ENOSPC;
	labels = grow(dictionary->labels, dictionary->label_count, sizeof(*labels));
	if (!labels)
		return -ENOMEM;
	dictionary->labels = labels;
	labels[dictionary->label_count++] = *label;
	dictionary->changes++;
	return 0;
}

void
cs_rank_clean(int32_t *rank, int32_t *world)
{
	bool world_known = *world != CS_RANK_UNKNOWN;

	if (*rank >= CS_RANK_UNKNOWN && (!world_known || (*world > 0 && *rank < *world)))
		return;
	*rank = CS_RANK_UNKNOWN;
	*world = CS_RANK_UNKNOWN;
}

/* A value outside its enum becomes 0, "unknown"; a rank outside its world makes both unknown; an id behind
 * the end of its table becomes 0, "none". */
static void
clean_label(const struct cs_dictionary *dictionary, struct cs_label *label)
{
	if (label->op >= CS_OP_COUNT)
		label->op = CS_OP_UNKNOWN;
	if (label->impl >= CS_IMPL_COUNT)
		label->impl = CS_IMPL_UNKNOWN;
	if (label->dtype >= CS_DTYPE_COUNT)
		label->dtype = CS_DTYPE_UNKNOWN;
	if (label->reduction >= CS_REDUCTION_COUNT)
		label->reduction = CS_REDUCTION_UNKNOWN;
	if (label->algorithm >= CS_ALGORITHM_COUNT)
		label->algorithm = CS_ALGORITHM_UNKNOWN;
	if (label->protocol >= CS_PROTOCOL_COUNT)
		label->protocol = CS_PROTOCOL_UNKNOWN;
	if (label->source >= CS_LABEL_SOURCE_COUNT)
		label->source = CS_LABEL_SOURCE_NONE;
	cs_rank_clean(&label->rank, &label->world);
	if (label->name_id >= dictionary->name_count)
		label->name_id = 0;
	if (label->comm_id > dictionary->communicator_count)
		label->comm_id = 0;
}

int
cs_dictionary_add_label(struct cs_dictionary *dictionary, const struct cs_label *label)
{
	static const struct cs_label no_label;
	struct cs_label clean = *label;

	if (dictionary->label_count == 0) {
		int result = append_label(dictionary, &no_label);

		if (result < 0 || memcmp(label, &no_label, sizeof(no_label)) == 0)
			return result;
	}
	clean_label(dictionary, &clean);
	return append_label(dictionary, &clean);
}

const char *
cs_dictionary_borrow_name(const struct cs_dictionary *dictionary, uint32_t id)
{
	return id < dictionary->name_count ? dictionary->names[id] : "";
}

const struct cs_label *
cs_dictionary_borrow_label(const struct cs_dictionary *dictionary, uint32_t id)
{
	return id != 0 && id < dictionary->label_count ? &dictionary->labels[id] : &unknown_label;
}

const struct cs_gpu *
cs_dictionary_borrow_gpu(const struct cs_dictionary *dictionary, uint32_t index)
{
	return index < dictionary->gpu_count ? &dictionary->gpus[index] : NULL;
}

const struct cs_communicator *
cs_dictionary_borrow_communicator(const struct cs_dictionary *dictionary, uint32_t id)
{
	return id != 0 && id <= dictionary->communicator_count ? &dictionary->communicators[id - 1] : NULL;
}

/* -- text ------------------------------------------------------------------------------------------------ */

/* Bytes of the well-formed UTF-8 character at `at` (Unicode 15, table 3-7), 0 when it is none or a control
 * character (C0, DEL, C1). */
static size_t
character_bytes(const unsigned char *at, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (at[0] < 0x80)
		return at[0] >= 0x20 && at[0] != 0x7f ? 1 : 0;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		length = 2;
	else if (at[0] >= 0xe0 && at[0] <= 0xef)
		length = 3;
	else if (at[0] >= 0xf0 && at[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (at[0] == 0xc2 || at[0] == 0xe0)
		low = 0xa0; /* above C1; no overlong form */
	else if (at[0] == 0xed)
		high = 0x9f; /* no surrogate */
	else if (at[0] == 0xf0)
		low = 0x90; /* no overlong form */
	else if (at[0] == 0xf4)
		high = 0x8f; /* at most U+10FFFF */
	if (left < length || at[1] < low || at[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return length;
}

void
cs_text_clean(const char *in, size_t in_bytes, char *out, size_t out_bytes)
{
	const unsigned char *at = (const unsigned char *)in;
	const unsigned char *end = at + in_bytes;
	size_t used = 0;

	if (out_bytes == 0)
		return;
	while (at < end && *at != '\0') {
		size_t length = character_bytes(at, (size_t)(end - at));
		size_t need = length ? length : 1;

		if (need > out_bytes - 1 - used)
			break;
		if (length)
			memcpy(out + used, at, length);
		else
			out[used] = '?';
		used += need;
		at += need;
	}
	out[used] = '\0';
}
