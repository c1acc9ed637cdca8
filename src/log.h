/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr: a sentence with a capital, then name=value data. Used by exporter, CLI and, with care,
 * by the injector (which prints at most one line when it goes dormant, and more only at COLLSCOPE_LOG=debug).
 *
 * A value is one word, or stands in quotes with a backslash before each quote and backslash in it. Text that
 * is not known to be a word (a path, a name, an error) goes through cs_log_value, which sees to that:
 * cs_log_warn("Cannot read it path=%s", cs_log_value(&value, path)). The line is the same in all formats but
 * for what logfmt and JSON escape beyond it (control characters).
 *
 * Formats into a fixed stack buffer, one write(2) per line, errno kept, no allocation, no lock: host-safe.
 */
#ifndef CS_LOG_H
#define CS_LOG_H

enum cs_log_level { CS_LOG_ERROR = 0, CS_LOG_WARN = 1, CS_LOG_INFO = 2, CS_LOG_DEBUG = 3 };
enum cs_log_format { CS_LOG_PLAIN = 0, CS_LOG_LOGFMT = 1, CS_LOG_JSON = 2 };

/* component: static string, "collscope", "collscope-exporter", ... Call before threads start. */
void cs_log_setup(const char *component, enum cs_log_level level, enum cs_log_format format);
/* For a guest in somebody's process: from now on a line is dropped where writing it would end the process
 * (SIGPIPE, SIGXFSZ) or wait (a full pipe), and when descriptor 2 has become something else since this call,
 * a file that the host may have opened under that number (unless it appends, as logs do). Call before threads
 * start.
 */
void cs_log_be_guest(void);
int cs_log_level_parse(const char *name);  /* enum value or -EINVAL */
int cs_log_format_parse(const char *name); /* enum value or -EINVAL */
int cs_log_enabled(enum cs_log_level level);
void cs_log(enum cs_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A sentence of somebody's as a warning: what cs_settings_load and its like hand their complaints to. */
void cs_log_warn_of(const char *sentence, void *context);

/* Text as a value, for name=%s: as it is where that is one word to a reader of logfmt, else in quotes. Cut
 * ("..." says so) where a message has no room; valid as long as `value`. Async-signal-safe. Returns
 * value->text.
 */
struct cs_log_value {
	char text[896];
};
const char *cs_log_value(struct cs_log_value *value, const char *text);

#define cs_log_error(...) cs_log(CS_LOG_ERROR, __VA_ARGS__)
#define cs_log_warn(...)  cs_log(CS_LOG_WARN, __VA_ARGS__)
#define cs_log_info(...)  cs_log(CS_LOG_INFO, __VA_ARGS__)
#define cs_log_debug(...)                                                                                    \
	do {                                                                                                 \
		if (cs_log_enabled(CS_LOG_DEBUG))                                                            \
			cs_log(CS_LOG_DEBUG, __VA_ARGS__);                                                   \
	} while (0)

#endif
