/* SPDX-License-Identifier: Apache-2.0 */
#include "life/identity.h"
#include "public_environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void
test_environment(void **state)
{
	static const struct {
		const char *name, *value;
		bool allowed;
	} rows[] = {
		{"NCCL_ALGO", "Ring", true},
		{"NCCL_DEBUG", "INFO", true},
		{"NCCL_SOCKET_IFNAME", "eth0,eth1", true},
		{"NCCL_TOPO_FILE", "/etc/nccl/topo.xml", true},
		{"VLLM_ALLREDUCE_USE_SYMM_MEM", "1", true},
		{"VLLM_SKIP_P2P_CHECK", "1", false},
		{"VLLM_API_KEY", "sk-123", false},
		{"VLLM_CUSTOM_ALL_REDUCE", "0", true},
		{"SGLANG_USE_CUSTOM_ALL_REDUCE", "1", true},
		{"SGLANG_ENABLE_FLASHINFER_AR", "1", true},
		{"SGLANG_OPT_AR_V2", "1", true},
		{"SGLANG_SOMETHING", "1", false},
		{"TRTLLM_ALLREDUCE_STRATEGY", "AUTO", true},
		{"TRTLLM_HF_TOKEN", "x", false},
		{"NCCL_AUTH_THING", "x", false},
		{"NCCL_NET_PLUGIN", "my-secret-net", false},
		{"NCCL_PROXY", "http://bob:hunter2@proxy:80", false},
		{"NCCL_COMM_ID", "AbCdEf0123456789AbCdEf0123456789", false},
		{"NCCL_SEED", "skip", true},
		{"TRTLLM_LICENSE_KEY", "abc", false},
		{"NCCL_NET_PASS", "abc", false},
		{"TRTLLM_pwd", "abc", false},
		{"TRTLLM_SESSION_ID", "abc", false},
		{"TRTLLM_COOKIE", "a=b", false},
		{"TRTLLM_HUB", "hf_abc", false},
		{"TRTLLM_LLM", "sk-abc", false},
		{"TRTLLM_HEADER", "Bearer abc", false},
		{"HOME", "/root", false},
		{"XNCCL_ALGO", "Ring", false},
		{"HF_TOKEN", "hf_abc", false},
		{"NCCL_EMPTY", "", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (cs_public_environment_allowed(rows[i].name, rows[i].value) != rows[i].allowed)
			fail_msg("%s=%s", rows[i].name, rows[i].value);
}

/* The row of docs/metrics.md that begins with "| title |" names these words and no others, in this order. */
static void
compare_words(const char *document, const char *title, enum cs_public_words which)
{
	char wanted[64], listed[1024] = "", known[1024] = "";
	const char *const *words;
	const char *at, *end;
	size_t count;

	snprintf(wanted, sizeof(wanted), "\n| %s |", title);
	at = strstr(document, wanted);
	assert_non_null(at);
	at += strlen(wanted);
	end = strchr(at, '\n');
	assert_non_null(end);
	while ((at = memchr(at, '`', (size_t)(end - at))) != NULL) {
		const char *close = memchr(at + 1, '`', (size_t)(end - at - 1));

		assert_non_null(close);
		strncat(listed, at, (size_t)(close - at + 1));
		at = close + 1;
	}
	words = cs_public_environment_words(which, &count);
	for (size_t i = 0; i < count; i++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "`%s`", words[i]);
	assert_string_equal(listed, known);
}

static void
test_the_document_lists_what_is_shown(void **state)
{
	FILE *file = fopen(CS_TEST_DATA_DIR "/../../docs/metrics.md", "re");
	char *document = NULL;
	size_t bytes = 0;

	(void)state;
	assert_non_null(file);
	assert_true(getdelim(&document, &bytes, '\0', file) > 0);
	fclose(file);
	compare_words(document, "shown", CS_PUBLIC_ALLOWED_NAMES);
	compare_words(document, "never, for a word in the name or the value", CS_PUBLIC_SECRET_WORDS);
	compare_words(document, "never, for a word in the name", CS_PUBLIC_SECRET_NAMES);
	compare_words(document, "never, for the value's beginning", CS_PUBLIC_SECRET_BEGINNINGS);
	free(document);
}

static void
test_command_line(void **state)
{
#define ROW(words, text)                                                                                     \
	{                                                                                                    \
		words, sizeof(words), text                                                                   \
	}
	static const struct {
		const char *words;
		size_t bytes;
		const char *text;
	} rows[] = {
		ROW("/usr/bin/python3\0-m\0vllm.entrypoints.openai.api_server\0--api-key\0sk-1",
			"python3 -m vllm.entrypoints.openai.api_server"),
		ROW("python\0serve.py\0--token\0abc", "python serve.py"),
		ROW("/opt/bin/server\0--password\0hunter2", "server"),
		ROW("python3\0-c\0import secrets", "python3"),
		ROW("python3\0-u\0train.py", "python3 train.py"),
		ROW("./a.out\0key=value", "a.out"),
		ROW("VLLM::EngineCore", "VLLM::EngineCore"),
		ROW("python /srv/serve.py --api-key sk-1 --x/y", "serve.py"),
		ROW("nginx: worker process", "nginx: worker process"),
		ROW("server key=value", "server"),
		ROW("/opt/server hf_abc model", "server"),
		ROW("a\0AbCdEf0123456789AbCdEf0123456789", "a"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];

		cs_identity_command_line(rows[i].words, rows[i].bytes, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_the_document_lists_what_is_shown),
		cmocka_unit_test(test_command_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
