/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain of causes for the user, innermost first added, outermost last: "cannot read segment ...: version 3
 * is newer than this build (2)". Fixed size, no allocation. For readers, exporter and CLI; the injector uses
 * plain errno.
 */
#ifndef CS_ERROR_H
#define CS_ERROR_H

#define CS_ERROR_BYTES 1024

struct cs_error {
	char text[CS_ERROR_BYTES]; /* "" = none */
};

void cs_error_clear(struct cs_error *error); /* NULL is fine here and below */
/* Starts a chain: text = formatted. Returns code, so that `return cs_error_set(error, -EIO, "...")` works. */
int cs_error_set(struct cs_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Puts "formatted: " before what is there (cut at the end when too long). Returns code. */
int cs_error_wrap(struct cs_error *error, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
