/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content negotiation: which exposition format and which coding answer the Accept and Accept-Encoding headers
 * of a request (RFC 9110 sections 12.4.2, 12.5.1, 12.5.3).
 *
 * The client's order rules: clauses by falling q, equal ones as written; the first that names something we
 * serve wins. None does: text 0.0.4, which everything reads (an answer that is not liked beats no answer;
 * Prometheus's own libraries do the same). Text 1.0.0 and OpenMetrics 2 are not served, so clauses for them
 * are passed over.
 *
 * Thread context: pure functions.
 */
#ifndef CS_EXPORTER_NEGOTIATE_H
#define CS_EXPORTER_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>

enum cs_format { CS_FORMAT_TEXT, CS_FORMAT_OPENMETRICS, CS_FORMAT_PROTOBUF };

struct cs_negotiated {
	enum cs_format format;
	char content_type[160]; /* one type, always with its version or encoding */
};

/* accept: the header's value, all lines joined with ","; NULL when there is none. */
void cs_negotiate_format(const char *accept, struct cs_negotiated *negotiated);

/* Whether the answer may be, and should be, compressed with gzip. NULL: no. */
bool cs_negotiate_gzip(const char *accept_encoding);

#endif
