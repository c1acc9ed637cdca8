/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line, one write(2). Everything is on the stack: the library runs in other people's servers, where a log
 * line must not allocate, lock or leave errno changed. That rules out gmtime_r (it takes glibc's time zone
 * lock and may read a file), so the date is computed here.
 */
#include "log.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Longest formatted message. Escaping makes at most six bytes of one (\u00XX). */
#define MESSAGE_BYTES 1024
#define LINE_BYTES    (6 * MESSAGE_BYTES + 256)
/* "...", at the end of a message that had no room. */
#define CUT_BYTES 3

static const char *log_component = "collscope";
static enum cs_log_level log_level = CS_LOG_WARN;
static enum cs_log_format log_format = CS_LOG_PLAIN;

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"plain", "logfmt", "json"};

struct line {
	size_t used;
	char bytes[LINE_BYTES];
};

void
cs_log_setup(const char *component, enum cs_log_level level, enum cs_log_format format)
{
	log_component = component;
	log_level = level;
	log_format = format;
}

static int
parse(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; name != NULL && i < count; i++) {
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	}
	return -EINVAL;
}

int
cs_log_level_parse(const char *name)
{
	return parse(name, level_names, sizeof(level_names) / sizeof(level_names[0]));
}

int
cs_log_format_parse(const char *name)
{
	return parse(name, format_names, sizeof(format_names) / sizeof(format_names[0]));
}

int
cs_log_enabled(enum cs_log_level level)
{
	return level <= log_level;
}

static void
put(struct line *line, const char *text, size_t length)
{
	/* Room for the newline is always kept. */
	size_t room = sizeof(line->bytes) - 1 - line->used;

	if (length > room)
		length = room;
	memcpy(line->bytes + line->used, text, length);
	line->used += length;
}

static void
put_text(struct line *line, const char *text)
{
	put(line, text, strlen(text));
}

/* Length of the valid UTF-8 character at text (RFC 3629), 0 when there is none. */
static size_t
utf8_length(const unsigned char *text, size_t left)
{
	unsigned char lead = text[0];
	unsigned char low = 0x80;
	unsigned char high = 0xBF;
	size_t length;

	if (lead < 0x80)
		return 1;
	if (lead >= 0xC2 && lead <= 0xDF)
		length = 2;
	else if ((lead & 0xF0) == 0xE0)
		length = 3;
	else if (lead >= 0xF0 && lead <= 0xF4)
		length = 4;
	else
		return 0;
	/* No overlong forms, no surrogates, nothing over U+10FFFF. */
	if (lead == 0xE0)
		low = 0xA0;
	else if (lead == 0xED)
		high = 0x9F;
	else if (lead == 0xF0)
		low = 0x90;
	else if (lead == 0xF4)
		high = 0x8F;
	if (left < length || text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++) {
		if ((text[i] & 0xC0) != 0x80)
			return 0;
	}
	return length;
}

/* Text with control characters and bad UTF-8 made harmless; `quoted`: also fit for a string in quotes.
 * `escaped`: it comes from such a string, where a backslash stands before what it is not to be. */
static void
put_clean(struct line *line, const char *text, size_t length, bool quoted, bool escaped)
{
	unsigned char byte;
	size_t width;
	size_t i = 0;

	while (i < length) {
		if (escaped && text[i] == '\\' && i + 1 < length)
			i++;
		byte = (unsigned char)text[i];
		width = utf8_length((const unsigned char *)text + i, length - i);
		if (width == 0) {
			put(line, "?", 1);
			width = 1;
		} else if (byte < 0x20 || byte == 0x7F) {
			char escape[8];

			if (quoted) {
				snprintf(escape, sizeof(escape), "\\u%04x", byte);
				put_text(line, escape);
			} else {
				put(line, byte == '\n' || byte == '\t' ? " " : "?", 1);
			}
		} else {
			if (quoted && (byte == '"' || byte == '\\'))
				put(line, "\\", 1);
			put(line, text + i, width);
		}
		i += width;
	}
}

/* -- the name=value data at the end of a message --------------------------------------------------------- */

/* Where the pair after each space ends, 0: no pair, or one that data to the end of the message does not
 * follow. */
struct pairs {
	bool is_cut; /* the message: its last value in quotes may have lost the one that closes it */
	uint16_t end[MESSAGE_BYTES];
};

/* Not one word as readers of logfmt know it. */
static bool
needs_quotes(const char *value, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)value[i];

		if (byte <= ' ' || byte == 0x7F || byte == '"' || byte == '=' || byte == '\\')
			return true;
	}
	return false;
}

static bool
is_of_name(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_';
}

/* The "..." at the end of a message that was cut, and what is left before it of the name of a pair. */
static bool
is_cut_name(const char *message, size_t length, size_t at)
{
	at += message[at] == ' ';
	while (at < length && is_of_name(message[at]))
		at++;
	return length - at == CUT_BYTES;
}

static bool
is_end(const struct pairs *pairs, const char *message, size_t length, size_t at)
{
	return at == length || (message[at] == ' ' && pairs->end[at] != 0) ||
	       (pairs->is_cut && is_cut_name(message, length, at));
}

/* Where the value begins of the pair whose name begins at `at`; 0: there is none. */
static size_t
value_start(const char *message, size_t length, size_t at)
{
	if (at == length || message[at] < 'a' || message[at] > 'z')
		return 0;
	while (at < length && is_of_name(message[at]))
		at++;
	return at < length && message[at] == '=' ? at + 1 : 0;
}

static size_t
pair_end(const struct pairs *pairs, const char *message, size_t length, size_t at)
{
	at = value_start(message, length, at);
	if (at == 0)
		return 0;
	if (at < length && message[at] == '"') {
		while (++at < length) {
			if (message[at] == '"')
				return is_end(pairs, message, length, at + 1) ? at + 1 : 0;
			at += message[at] == '\\';
		}
		return pairs->is_cut ? length : 0;
	}
	while (at < length && message[at] != ' ')
		at++;
	return is_end(pairs, message, length, at) ? at : 0;
}

/* Where the data begins, at the space before it; `length` when there is none. */
static size_t
find_pairs(struct pairs *pairs, const char *message, size_t length)
{
	size_t start = length;

	for (size_t at = length; at-- > 0;) {
		if (message[at] != ' ')
			continue;
		pairs->end[at] = (uint16_t)pair_end(pairs, message, length, at + 1);
		if (pairs->end[at] != 0)
			start = at;
	}
	return start;
}

/* ` name=value`, or `,"name":"value"` as JSON, for each pair from `at` on. A name whose value had no room is
 * left out. */
static void
put_pairs(struct line *line, const struct pairs *pairs, const char *message, size_t length, size_t at)
{
	while (at < length && message[at] == ' ' && pairs->end[at] != 0) {
		size_t value = value_start(message, length, at + 1);
		size_t stop = pairs->end[at];
		size_t name_bytes = value - 1 - (at + 1);
		bool json = log_format == CS_LOG_JSON;
		bool escaped = value < stop && message[value] == '"';
		bool closed = escaped && stop - value > 1 && message[stop - 1] == '"';
		const char *text = message + value + (escaped ? 1 : 0);
		size_t bytes = stop - value - (escaped ? 1 : 0) - (closed ? 1 : 0);
		bool quoted = json || escaped || needs_quotes(text, bytes);

		put_text(line, json ? ",\"" : " ");
		put(line, message + at + 1, name_bytes);
		put_text(line, json ? "\":" : "=");
		put_text(line, quoted ? "\"" : "");
		put_clean(line, text, bytes, quoted, escaped);
		put_text(line, quoted ? "\"" : "");
		at = stop;
	}
}

/* UTC as RFC 3339 with milliseconds. Days to date: eras of 400 years, years that start in March. */
static void
format_time(char *text, size_t text_bytes)
{
	uint64_t now_ms = cs_clock_realtime_ns() / CS_NS_PER_MS;
	uint64_t second = now_ms / 1000;
	uint64_t day = second / 86400 + 719468; /* since 0000-03-01 */
	uint64_t era = day / 146097;
	uint64_t day_of_era = day % 146097;
	uint64_t year_of_era =
		(day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	uint64_t shifted = (5 * day_of_year + 2) / 153; /* month, March = 0 */
	unsigned int month = (unsigned int)(shifted < 10 ? shifted + 3 : shifted - 9);
	unsigned int year = (unsigned int)(year_of_era + era * 400 + (month <= 2));

	snprintf(text, text_bytes, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year % 10000, month,
		(unsigned int)(day_of_year - (153 * shifted + 2) / 5 + 1), (unsigned int)(second / 3600 % 24),
		(unsigned int)(second / 60 % 60), (unsigned int)(second % 60), (unsigned int)(now_ms % 1000));
}

static void
compose(struct line *line, enum cs_log_level level, const char *message, size_t length, bool is_cut)
{
	struct pairs pairs;
	size_t data;
	char now[64];

	pairs.is_cut = is_cut;
	switch (log_format) {
	case CS_LOG_LOGFMT:
		data = find_pairs(&pairs, message, length);
		format_time(now, sizeof(now));
		put_text(line, "time=");
		put_text(line, now);
		put_text(line, " level=");
		put_text(line, level_names[level]);
		put_text(line, " component=");
		put_text(line, log_component);
		put_text(line, " msg=\"");
		put_clean(line, message, data, true, false);
		put(line, "\"", 1);
		put_pairs(line, &pairs, message, length, data);
		break;
	case CS_LOG_JSON:
		data = find_pairs(&pairs, message, length);
		format_time(now, sizeof(now));
		put_text(line, "{\"time\":\"");
		put_text(line, now);
		put_text(line, "\",\"level\":\"");
		put_text(line, level_names[level]);
		put_text(line, "\",\"component\":\"");
		put_text(line, log_component);
		put_text(line, "\",\"msg\":\"");
		put_clean(line, message, data, true, false);
		put(line, "\"", 1);
		put_pairs(line, &pairs, message, length, data);
		put(line, "}", 1);
		break;
	case CS_LOG_PLAIN:
	default:
		put_text(line, log_component);
		put_text(line, ": ");
		put_text(line, level_names[level]);
		put_text(line, ": ");
		put_clean(line, message, length, false, false);
		break;
	}
}

/* -- writing as a guest ---------------------------------------------------------------------------------- */

static bool guest;
static bool stderr_known;
static dev_t stderr_device;
static ino_t stderr_inode;

void
cs_log_be_guest(void)
{
	struct stat status;

	guest = true;
	stderr_known = fstat(STDERR_FILENO, &status) == 0;
	if (stderr_known) {
		stderr_device = status.st_dev;
		stderr_inode = status.st_ino;
	}
}

/* Is descriptor 2 still what it was, or at least no file of the host's own? */
static bool
is_stderr(void)
{
	struct stat status;

	if (fstat(STDERR_FILENO, &status) < 0)
		return false;
	if (stderr_known && status.st_dev == stderr_device && status.st_ino == stderr_inode)
		return true;
	return !S_ISREG(status.st_mode) || (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
}

/* A signal that the write made, and that nobody is to get. */
static void
take_away(int signal_number)
{
	static const struct timespec now = {0, 0};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, signal_number);
	while (sigtimedwait(&signals, NULL, &now) < 0 && errno == EINTR)
		;
}

/* What ends a process that writes: SIGPIPE, and SIGXFSZ where a file may not grow (ulimit -f). They are held
 * back, and taken away again if this write made them. poll: a pipe that can be written to has room for a
 * line, unless others write to it in this very moment. */
static void
write_as_guest(const char *bytes, size_t count)
{
	struct pollfd poll_stderr = {.fd = STDERR_FILENO, .events = POLLOUT};
	sigset_t held, before, pending;

	if (!is_stderr() || poll(&poll_stderr, 1, 0) != 1 || !(poll_stderr.revents & POLLOUT))
		return;
	sigemptyset(&held);
	sigaddset(&held, SIGPIPE);
	sigaddset(&held, SIGXFSZ);
	if (pthread_sigmask(SIG_BLOCK, &held, &before))
		return;
	sigpending(&pending);
	if (write(STDERR_FILENO, bytes, count < PIPE_BUF ? count : PIPE_BUF) < 0) {
		int made = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;

		if (made && !sigismember(&pending, made))
			take_away(made);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void
cs_log(enum cs_log_level level, const char *format, ...)
{
	int saved_errno = errno;
	char message[MESSAGE_BYTES];
	struct line line;
	va_list arguments;
	bool is_cut;
	int length;

	if (!cs_log_enabled(level))
		return;
	va_start(arguments, format);
	length = vsnprintf(message, sizeof(message), format, arguments);
	va_end(arguments);
	if (length < 0)
		goto out;
	is_cut = (size_t)length >= sizeof(message);
	if (is_cut) {
		length = sizeof(message) - 1;
		memcpy(message + length - CUT_BYTES, "...", CUT_BYTES);
	}
	line.used = 0;
	compose(&line, level, message, (size_t)length, is_cut);
	line.bytes[line.used++] = '\n';
	/* A closed stderr loses the line: there is nobody left to tell. */
	if (guest)
		write_as_guest(line.bytes, line.used);
	else
		(void)!write(STDERR_FILENO, line.bytes, line.used);
out:
	errno = saved_errno;
}

void
cs_log_warn_of(const char *sentence, void *context)
{
	(void)context;
	cs_log_warn("%s", sentence);
}

const char *
cs_log_value(struct cs_log_value *value, const char *text)
{
	static const char more[] = "...\"";
	size_t length = strlen(text);
	size_t used = 0;

	if (length > 0 && length < sizeof(value->text) && !needs_quotes(text, length)) {
		memcpy(value->text, text, length + 1);
		return value->text;
	}
	value->text[used++] = '"';
	for (size_t i = 0; i < length; i++) {
		/* Room for this one, escaped, and for the end. */
		if (used + 2 + sizeof(more) > sizeof(value->text)) {
			memcpy(value->text + used, more, sizeof(more));
			return value->text;
		}
		if (text[i] == '"' || text[i] == '\\')
			value->text[used++] = '\\';
		value->text[used++] = text[i];
	}
	value->text[used++] = '"';
	value->text[used] = '\0';
	return value->text;
}
