/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what arrives on descriptor 2 through a pipe; the pipe holds 64 KiB, far more than a test writes. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int pipe_ends[2];
static int saved_stderr;
static char text[65536];

static int
setup(void **state)
{
	(void)state;
	if (pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) != 0)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	return dup2(pipe_ends[1], STDERR_FILENO) < 0 ? -1 : 0;
}

static int
teardown(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
	return 0;
}

/* What one call wrote: pipes keep writes of up to 64 KiB apart only by content, so one read per line. */
static const char *
line(void)
{
	ssize_t length = read(pipe_ends[0], text, sizeof(text) - 1);

	text[length < 0 ? 0 : length] = '\0';
	return text;
}

static void
test_levels(void **state)
{
	(void)state;
	cs_log_setup("collscope", CS_LOG_WARN, CS_LOG_PLAIN);
	assert_true(cs_log_enabled(CS_LOG_ERROR));
	assert_true(cs_log_enabled(CS_LOG_WARN));
	assert_false(cs_log_enabled(CS_LOG_INFO));
	cs_log_info("Not shown.");
	cs_log_debug("Not shown.");
	assert_string_equal(line(), "");
	cs_log_warn("Shown.");
	assert_string_equal(line(), "collscope: warn: Shown.\n");
	cs_log_error("Value is %d.", 7);
	assert_string_equal(line(), "collscope: error: Value is 7.\n");
	cs_log_setup("other", CS_LOG_DEBUG, CS_LOG_PLAIN);
	cs_log_debug("Shown too.");
	assert_string_equal(line(), "other: debug: Shown too.\n");
}

static void
test_parse(void **state)
{
	(void)state;
	assert_int_equal(cs_log_level_parse("error"), CS_LOG_ERROR);
	assert_int_equal(cs_log_level_parse("warn"), CS_LOG_WARN);
	assert_int_equal(cs_log_level_parse("info"), CS_LOG_INFO);
	assert_int_equal(cs_log_level_parse("debug"), CS_LOG_DEBUG);
	assert_int_equal(cs_log_level_parse("Debug"), -EINVAL);
	assert_int_equal(cs_log_level_parse(NULL), -EINVAL);
	assert_int_equal(cs_log_format_parse("plain"), CS_LOG_PLAIN);
	assert_int_equal(cs_log_format_parse("logfmt"), CS_LOG_LOGFMT);
	assert_int_equal(cs_log_format_parse("json"), CS_LOG_JSON);
	assert_int_equal(cs_log_format_parse("xml"), -EINVAL);
}

/* The date and time of a line must be those that gmtime_r makes of a moment around the call. */
static void
assert_time(const char *found, time_t before, time_t after)
{
	char low[32];
	char high[32];
	char part[20];
	struct tm parts;

	strftime(low, sizeof(low), "%Y-%m-%dT%H:%M:%S", gmtime_r(&before, &parts));
	strftime(high, sizeof(high), "%Y-%m-%dT%H:%M:%S", gmtime_r(&after, &parts));
	memcpy(part, found, 19);
	part[19] = '\0';
	assert_true(strcmp(low, part) <= 0 && strcmp(part, high) <= 0);
	assert_int_equal(found[19], '.');
	assert_int_equal(found[23], 'Z');
}

static void
test_logfmt(void **state)
{
	time_t before = time(NULL);

	(void)state;
	cs_log_setup("collscope-exporter", CS_LOG_INFO, CS_LOG_LOGFMT);
	cs_log_info("Segment \"x\" is gone. pid=%d path=\"/a b\" x=", 12);
	line();
	assert_true(strncmp(text, "time=", 5) == 0);
	assert_time(text + 5, before, time(NULL));
	assert_string_equal(text + 29, " level=info component=collscope-exporter msg=\"Segment \\\"x\\\" is "
				       "gone.\" pid=12 path=\"/a b\" x=\n");
	cs_log_info("No data: a=b is inside. Really");
	line();
	assert_string_equal(text + 29,
		" level=info component=collscope-exporter msg=\"No data: a=b is inside. Really\"\n");
}

/* Reads a line as strictly as anybody: name=value and nothing else, one space between. How many pairs; 0: it
 * is none. */
static unsigned int
count_pairs(const char *at)
{
	unsigned int count = 0;

	for (;; at++) {
		size_t name_bytes = strspn(at, "abcdefghijklmnopqrstuvwxyz_0123456789");

		if (name_bytes == 0 || at[name_bytes] != '=')
			return 0;
		at += name_bytes + 1;
		if (*at == '"') {
			for (at++; *at != '"'; at++) {
				if (*at == '\\')
					at++;
				if ((unsigned char)*at < ' ')
					return 0;
			}
			at++;
		} else {
			at += strcspn(at, " \"=\\\n");
		}
		count++;
		if (*at != ' ')
			return strcmp(at, "\n") == 0 ? count : 0;
	}
}

/* What cs_log_value makes of a text, and what becomes of it in a line: one field, whatever it holds. */
static void
test_value(void **state)
{
	static const struct {
		const char *text, *value, *logfmt, *json;
	} cases[] = {
		{"/dev/shm/collscope-0/7-7.seg", "/dev/shm/collscope-0/7-7.seg",
			"/dev/shm/collscope-0/7-7.seg", "/dev/shm/collscope-0/7-7.seg"},
		{"\xC3\xA9", "\xC3\xA9", "\xC3\xA9", "\xC3\xA9"},
		{"", "\"\"", "\"\"", ""},
		{"/my runs", "\"/my runs\"", "\"/my runs\"", "/my runs"},
		{"a=b", "\"a=b\"", "\"a=b\"", "a=b"},
		{"\" pid=7", "\"\\\" pid=7\"", "\"\\\" pid=7\"", "\\\" pid=7"},
		{"\\", "\"\\\\\"", "\"\\\\\"", "\\\\"},
		{"\\\" x=\"", "\"\\\\\\\" x=\\\"\"", "\"\\\\\\\" x=\\\"\"", "\\\\\\\" x=\\\""},
		{"\"x\" is none", "\"\\\"x\\\" is none\"", "\"\\\"x\\\" is none\"", "\\\"x\\\" is none"},
		{"a\nb", "\"a\nb\"", "\"a\\u000ab\"", "a\\u000ab"},
		{"\x7F", "\"\x7F\"", "\"\\u007f\"", "\\u007f"},
		{"\xFF", "\xFF", "?", "?"},
	};
	struct cs_log_value value;
	char wanted[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(cs_log_value(&value, cases[i].text), cases[i].value);
		assert_ptr_equal(cs_log_value(&value, cases[i].text), value.text);
		cs_log_setup("collscope", CS_LOG_WARN, CS_LOG_LOGFMT);
		cs_log_warn("No. first=%s path=%s pid=4", value.text, value.text);
		snprintf(wanted, sizeof(wanted), " msg=\"No.\" first=%s path=%s pid=4\n", cases[i].logfmt,
			cases[i].logfmt);
		assert_non_null(strstr(line(), wanted));
		assert_int_equal(count_pairs(text), 7);
		cs_log_setup("collscope", CS_LOG_WARN, CS_LOG_JSON);
		cs_log_warn("No. path=%s pid=4", value.text);
		snprintf(wanted, sizeof(wanted), ",\"msg\":\"No.\",\"path\":\"%s\",\"pid\":\"4\"}\n",
			cases[i].json);
		assert_non_null(strstr(line(), wanted));
	}
}

/* Cut, by cs_log_value or by the message's room: the quotes close all the same, and "..." says so. */
static void
test_long_value(void **state)
{
	static const char *const wides[] = {"x", "\"", "\\", " "};
	char long_text[2000];
	struct cs_log_value value, other;

	(void)state;
	cs_log_setup("collscope", CS_LOG_WARN, CS_LOG_LOGFMT);
	for (size_t i = 0; i < sizeof(wides) / sizeof(wides[0]); i++) {
		for (size_t length = 1; length < sizeof(long_text) - 1; length += 7) {
			bool fits;

			memset(long_text, wides[i][0], length);
			long_text[length] = '\0';
			cs_log_value(&value, long_text);
			fits = strlen(value.text) >= length && strstr(value.text, "...") == NULL;
			assert_int_equal(fits, length < (i == 0 ? 896U : i == 3 ? 889U : 445U));
			assert_true(strlen(value.text) < sizeof(value.text));
			cs_log_warn("No path=%s", value.text);
			assert_int_equal(count_pairs(line()), 5);
			assert_true(fits || strcmp(text + strlen(text) - 5, "...\"\n") == 0);
			cs_log_warn("No path=%s error=%s", value.text, cs_log_value(&other, long_text));
			/* 5: the name of the second one has no room. */
			assert_in_range(count_pairs(line()), 5, 6);
			assert_true(strlen(text) > 80 || count_pairs(text) == 6);
		}
	}
}

/* The name of the next one is cut: the end of a value, and the quote that closes it, are no field. */
static void
test_cut_name(void **state)
{
	const enum cs_log_format formats[] = {CS_LOG_LOGFMT, CS_LOG_JSON};
	char head[1024], wanted[64];
	struct cs_log_value value;

	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		cs_log_setup("collscope", CS_LOG_WARN, formats[i]);
		snprintf(wanted, sizeof(wanted),
			i == 0 ? " pid=4 path=\"x ab=\"" : ",\"pid\":\"4\",\"path\":\"x ab=\"");
		/* From where all of it has room to where the value has none. */
		for (size_t length = 960; length < 1000; length++) {
			memset(head, 'x', length);
			head[length] = '\0';
			cs_log_warn("%s pid=4 path=%s errors=%s", head, cs_log_value(&value, "x ab="),
				"twenty-bytes-of-text");
			assert_null(strstr(line(), i == 0 ? "\" ab=" : "\"ab\""));
			assert_true(strstr(text, wanted) != NULL || length > 996);
		}
	}
}

static void
test_json(void **state)
{
	(void)state;
	cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_JSON);
	cs_log_warn("Line\nbreak and \\ and \xC3\xA9 and \xFF. size=4 name=\"q \\\" r\"");
	line();
	assert_true(strncmp(text, "{\"time\":\"", 9) == 0);
	assert_string_equal(text + 33,
		"\",\"level\":\"warn\",\"component\":\"collscope\",\"msg\":\"Line\\u000abreak and \\\\ and "
		"\xC3\xA9 and ?.\",\"size\":\"4\",\"name\":\"q \\\" r\"}\n");
}

/* What looks like data and is none is part of the message. */
static void
test_what_is_no_data(void **state)
{
	static const struct {
		const char *message, *logfmt, *json;
	} cases[] = {
		{"No. error=\"\" pid=4", "\"No.\" error=\"\" pid=4", "\"No.\",\"error\":\"\",\"pid\":\"4\""},
		/* Nobody asked cs_log_value, and it is one word all the same. */
		{"No. path=/a\"b pid=4", "\"No.\" path=\"/a\\\"b\" pid=4",
			"\"No.\",\"path\":\"/a\\\"b\",\"pid\":\"4\""},
		{"No. path=/a=b pid=4", "\"No.\" path=\"/a=b\" pid=4",
			"\"No.\",\"path\":\"/a=b\",\"pid\":\"4\""},
		/* The quotes do not close, or in the middle of a word. */
		{"No. error=\"x y", "\"No. error=\\\"x y\"", "\"No. error=\\\"x y\""},
		{"No. error=\"x y\\\"", "\"No. error=\\\"x y\\\\\\\"\"", "\"No. error=\\\"x y\\\\\\\"\""},
		{"No. error=\"x y\\", "\"No. error=\\\"x y\\\\\"", "\"No. error=\\\"x y\\\\\""},
		{"No. error=\"x\"y pid=4", "\"No. error=\\\"x\\\"y\" pid=4",
			"\"No. error=\\\"x\\\"y\",\"pid\":\"4\""},
		{"No. A=b", "\"No. A=b\"", "\"No. A=b\""},
	};
	char wanted[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_LOGFMT);
		cs_log_info("%s", cases[i].message);
		line();
		snprintf(wanted, sizeof(wanted), " level=info component=collscope msg=%s\n", cases[i].logfmt);
		assert_string_equal(text + 29, wanted);
		cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_JSON);
		cs_log_info("%s", cases[i].message);
		line();
		snprintf(wanted, sizeof(wanted),
			"\",\"level\":\"info\",\"component\":\"collscope\",\"msg\":%s}\n", cases[i].json);
		assert_string_equal(text + 33, wanted);
	}
}

static void
test_bad_text(void **state)
{
	(void)state;
	cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_PLAIN);
	/* Lone continuation, overlong, surrogate, over U+10FFFF, cut short, escape sequence, line break. */
	cs_log_info("\x80|\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82|\x1B[31m|\n|\xE2\x82\xAC|"
		    "\xF0\x9F\x98\x80");
	assert_string_equal(line(),
		"collscope: info: ?|\?\?|\?\?\?|\?\?\?\?|\?\?|?[31m| |\xE2\x82\xAC|\xF0\x9F\x98\x80\n");
}

static void
test_length(void **state)
{
	char long_text[3000];
	const enum cs_log_format formats[] = {CS_LOG_PLAIN, CS_LOG_LOGFMT, CS_LOG_JSON};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		size_t length;

		cs_log_setup("collscope", CS_LOG_INFO, formats[i]);
		/* The widest escape of all for every byte. */
		memset(long_text, '\x01', sizeof(long_text) - 1);
		long_text[sizeof(long_text) - 1] = '\0';
		cs_log_info("%s", long_text);
		length = strlen(line());
		assert_true(length > 1000 && length < 6 * 1024 + 256);
		assert_int_equal(text[length - 1], '\n');
		assert_ptr_equal(strchr(text, '\n'), text + length - 1);
		assert_non_null(strstr(text, "..."));
		if (formats[i] == CS_LOG_JSON)
			assert_string_equal(text + length - 6, "...\"}\n");
	}
}

static void
test_errno(void **state)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(full >= 0);
	cs_log_setup("collscope", CS_LOG_INFO, CS_LOG_PLAIN);
	dup2(full, STDERR_FILENO);
	close(full);
	errno = EDOM;
	cs_log_info("Nobody reads this.");
	assert_int_equal(errno, EDOM);
	dup2(pipe_ends[1], STDERR_FILENO);
}

/* -- as a guest; the last tests, since there is no way back -------------------------------------------- */

/* SIGPIPE would end the program, and waiting for a reader that never comes would, too (by the alarm). */
static void
test_guest_with_nobody_reading(void **state)
{
	int blocking[2];
	char byte;

	(void)state;
	cs_log_be_guest();
	alarm(60);
	assert_int_equal(pipe(blocking), 0);
	dup2(blocking[1], STDERR_FILENO);
	cs_log_info("There is room for this.");
	assert_int_equal(read(blocking[0], &byte, 1), 1);
	assert_int_equal(fcntl(blocking[1], F_SETFL, O_NONBLOCK), 0);
	while (write(blocking[1], text, 1024) > 0)
		;
	assert_int_equal(fcntl(blocking[1], F_SETFL, 0), 0);
	cs_log_info("And none for this.");
	close(blocking[0]);
	cs_log_info("Nobody is there any more.");
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
	dup2(pipe_ends[1], STDERR_FILENO);
	close(blocking[1]);
	alarm(0);
}

/* A SIGPIPE that was pending before is the host's, and stays. */
static void
test_guest_keeps_pending_signal(void **state)
{
	sigset_t pipe_signal, before, pending;
	int broken[2];

	(void)state;
	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	assert_int_equal(sigprocmask(SIG_BLOCK, &pipe_signal, &before), 0);
	raise(SIGPIPE);
	assert_int_equal(pipe(broken), 0);
	close(broken[0]);
	dup2(broken[1], STDERR_FILENO);
	cs_log_info("Nobody reads this.");
	dup2(pipe_ends[1], STDERR_FILENO);
	close(broken[1]);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGPIPE), 1);
	signal(SIGPIPE, SIG_IGN); /* takes the pending one away */
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ulimit -f: the default end of SIGXFSZ would be the host's. */
static void
test_guest_with_a_file_that_may_not_grow(void **state)
{
	const struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
	const struct rlimit any = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	char path[] = "/tmp/collscope-log-XXXXXX";
	int file = mkstemp(path);
	sigset_t pending;

	(void)state;
	assert_true(file >= 0);
	dup2(file, STDERR_FILENO);
	cs_log_be_guest();
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	cs_log_info("No room for this.");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &any), 0);
	sigpending(&pending);
	assert_int_equal(sigismember(&pending, SIGXFSZ), 0);
	assert_int_equal(lseek(file, 0, SEEK_END), 0);
	cs_log_info("And for this.");
	assert_true(lseek(file, 0, SEEK_END) > 0);
	dup2(pipe_ends[1], STDERR_FILENO);
	cs_log_be_guest();
	close(file);
	unlink(path);
}

/* The host has closed its standard error, and the next file that it opened has that number. */
static void
test_guest_leaves_a_file_alone(void **state)
{
	char path[] = "/tmp/collscope-log-XXXXXX";
	int file = mkstemp(path);
	struct stat status;

	(void)state;
	assert_true(file >= 0);
	dup2(file, STDERR_FILENO);
	cs_log_info("Not into somebody's data.");
	assert_int_equal(fstat(file, &status), 0);
	assert_int_equal(status.st_size, 0);
	/* A log that was opened anew. */
	assert_int_equal(fcntl(STDERR_FILENO, F_SETFL, O_APPEND), 0);
	cs_log_info("Into a log.");
	assert_int_equal(fstat(file, &status), 0);
	assert_true(status.st_size > 0);
	dup2(pipe_ends[1], STDERR_FILENO);
	close(file);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test(test_parse),
		cmocka_unit_test_setup_teardown(test_logfmt, setup, teardown),
		cmocka_unit_test_setup_teardown(test_value, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_value, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_name, setup, teardown),
		cmocka_unit_test_setup_teardown(test_json, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_no_data, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_length, setup, teardown),
		cmocka_unit_test_setup_teardown(test_errno, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guest_with_nobody_reading, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guest_keeps_pending_signal, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guest_with_a_file_that_may_not_grow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_guest_leaves_a_file_alone, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
