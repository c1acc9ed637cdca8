/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which environment variables may be shown: names on a list, and of those none whose name or value looks like
 * a credential. The injected library publishes by it, and the exporter asks again, whatever a segment says.
 *
 * Thread context: pure, any thread.
 */
#ifndef CS_PUBLIC_ENVIRONMENT_H
#define CS_PUBLIC_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* What the filter goes by; docs/metrics.md lists it, and a test compares the two. */
enum cs_public_words {
	CS_PUBLIC_ALLOWED_NAMES,     /* patterns of names, '*' for any characters */
	CS_PUBLIC_SECRET_WORDS,      /* in a name or a value, in any case */
	CS_PUBLIC_SECRET_NAMES,      /* in a name, in any case */
	CS_PUBLIC_SECRET_BEGINNINGS, /* of a value */
};
const char *const *cs_public_environment_words(enum cs_public_words which, size_t *count);

/* Whether NAME=VALUE may be shown. */
bool cs_public_environment_allowed(const char *name, const char *value);

/* "user:password@host", the beginning of a well-known kind of key, or a long run of characters of the kind
 * that keys are made of. */
bool cs_public_value_looks_secret(const char *value);

#endif
