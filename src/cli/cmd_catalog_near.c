/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd_catalog_near.h"

#include <ctype.h>
#include <string.h>

/* What is longer is cut: templates make names of kilobytes, and what tells is at the start. */
#define LETTERS_MAX 160U
#define SHARED_MIN  6U

struct letters {
	char text[LETTERS_MAX];
	size_t count;
};

/* Letters and digits alone, in lower case; without the word "kernel", which half of all kernels have. */
static void
take_letters(struct letters *letters, const char *text, size_t length)
{
	static const char word[] = "kernel";
	const size_t word_length = sizeof(word) - 1;

	letters->count = 0;
	for (size_t i = 0; i < length && letters->count < LETTERS_MAX; i++) {
		if (!isalnum((unsigned char)text[i]))
			continue;
		letters->text[letters->count++] = (char)tolower((unsigned char)text[i]);
		if (letters->count >= word_length &&
			memcmp(letters->text + letters->count - word_length, word, word_length) == 0)
			letters->count -= word_length;
	}
}

/* Length of the longest stretch that both have. */
static size_t
shared_stretch(const struct letters *a, const struct letters *b)
{
	size_t lengths[LETTERS_MAX + 1] = {0}; /* of the stretch that ends before j in b, for the a before */
	size_t longest = 0;

	for (size_t i = 0; i < a->count; i++) {
		for (size_t j = b->count; j > 0; j--) {
			lengths[j] = a->text[i] == b->text[j - 1] ? lengths[j - 1] + 1 : 0;
			if (lengths[j] > longest)
				longest = lengths[j];
		}
	}
	return longest;
}

/* 0: not near. */
static size_t
nearness(const struct letters *name, const char *pattern, size_t length)
{
	struct letters letters;
	size_t shared, shorter, begin = length;

	while (begin > 0 && pattern[begin - 1] != ':')
		begin--;
	take_letters(&letters, pattern + begin, length - begin);
	shared = shared_stretch(name, &letters);
	shorter = name->count < letters.count ? name->count : letters.count;
	return shared >= SHARED_MIN && shared * 10 >= shorter * 6 ? shared : 0;
}

/* Of the nearest of "a | b". */
static size_t
nearness_of_row(const struct letters *name, const char *pattern)
{
	size_t nearest = 0;

	while (*pattern) {
		size_t length = strcspn(pattern, "|");
		size_t near = nearness(name, pattern, length);

		if (near > nearest)
			nearest = near;
		pattern += length;
		pattern += *pattern == '|';
	}
	return nearest;
}

size_t
cs_catalog_near(const struct cs_catalog *catalog, const char *kernel_name, size_t rows[CS_CATALOG_NEAR_MAX])
{
	size_t scores[CS_CATALOG_NEAR_MAX] = {0};
	struct cs_catalog_rule_text row;
	struct letters name;
	size_t count = 0;

	take_letters(&name, kernel_name, strlen(kernel_name));
	for (size_t i = 0; cs_catalog_rule_describe(catalog, i, &row) == 0; i++) {
		size_t score = row.match.kind == CS_CATALOG_NONE ? 0 : nearness_of_row(&name, row.pattern);
		size_t at = count;

		while (at > 0 && scores[at - 1] < score)
			at--;
		if (score == 0 || at == CS_CATALOG_NEAR_MAX)
			continue;
		if (count < CS_CATALOG_NEAR_MAX)
			count++;
		for (size_t j = count - 1; j > at; j--) {
			scores[j] = scores[j - 1];
			rows[j] = rows[j - 1];
		}
		scores[at] = score;
		rows[at] = i;
	}
	return count;
}
