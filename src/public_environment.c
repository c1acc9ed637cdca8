/* SPDX-License-Identifier: Apache-2.0 */
#include "public_environment.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

static const char *const allowed_names[] = {
	"NCCL_*",
	"VLLM_*ALLREDUCE*",
	"VLLM_*ALL_REDUCE*",
	"SGLANG_*ALL_REDUCE*",
	"SGLANG_*ALLREDUCE*",
	"SGLANG_*AR*",
	"TRTLLM_*",
};

/* In a name or a value. */
static const char *const secret_words[] = {
	"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "APIKEY", "API_KEY", "PRIVATE", "AUTH"};

/* In a name alone. */
static const char *const secret_names[] = {"KEY", "PASS", "PWD", "COOKIE", "SESSION", "SIGNATURE", "BEARER"};

/* What keys of well-known services begin with. */
static const char *const secret_beginnings[] = {"hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xox",
	"AKIA", "ASIA", "eyJ", "Bearer ", "Basic "};

const char *const *
cs_public_environment_words(enum cs_public_words which, size_t *count)
{
#define WORDS(array)                                                                                         \
	{                                                                                                    \
		array, sizeof(array) / sizeof((array)[0])                                                    \
	}
	static const struct {
		const char *const *words;
		size_t count;
	} lists[] = {
		[CS_PUBLIC_ALLOWED_NAMES] = WORDS(allowed_names),
		[CS_PUBLIC_SECRET_WORDS] = WORDS(secret_words),
		[CS_PUBLIC_SECRET_NAMES] = WORDS(secret_names),
		[CS_PUBLIC_SECRET_BEGINNINGS] = WORDS(secret_beginnings),
	};
#undef WORDS

	*count = lists[which].count;
	return lists[which].words;
}

static bool
contains_ignoring_case(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (; *text; text++)
		if (strncasecmp(text, word, length) == 0)
			return true;
	return false;
}

bool
cs_public_value_looks_secret(const char *value)
{
	const char *at = strchr(value, '@');
	const char *colon = strchr(value, ':');
	unsigned int run = 0, digits = 0, letters = 0;

	if (at && colon && colon < at)
		return true;
	for (size_t i = 0; i < sizeof(secret_beginnings) / sizeof(secret_beginnings[0]); i++)
		if (strncmp(value, secret_beginnings[i], strlen(secret_beginnings[i])) == 0)
			return true;
	for (const char *c = value; *c; c++) {
		if (!isalnum((unsigned char)*c) && *c != '+') {
			run = digits = letters = 0;
			continue;
		}
		run++;
		if (isdigit((unsigned char)*c))
			digits++;
		else
			letters++;
		if (run >= 24 && digits >= 4 && letters >= 4)
			return true;
	}
	return false;
}

bool
cs_public_environment_allowed(const char *name, const char *value)
{
	bool allowed = false;

	for (size_t i = 0; i < sizeof(allowed_names) / sizeof(allowed_names[0]); i++)
		if (fnmatch(allowed_names[i], name, 0) == 0)
			allowed = true;
	if (!allowed)
		return false;
	for (size_t i = 0; i < sizeof(secret_words) / sizeof(secret_words[0]); i++)
		if (contains_ignoring_case(name, secret_words[i]) ||
			contains_ignoring_case(value, secret_words[i]))
			return false;
	for (size_t i = 0; i < sizeof(secret_names) / sizeof(secret_names[0]); i++)
		if (contains_ignoring_case(name, secret_names[i]))
			return false;
	return !cs_public_value_looks_secret(value);
}
