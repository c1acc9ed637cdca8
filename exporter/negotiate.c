/* SPDX-License-Identifier: Apache-2.0 */
#include "negotiate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A header with more clauses than this is no scraper's; the rest is not looked at. */
#define CLAUSES_MAX 32U

struct span {
	const char *at;
	size_t length;
};

struct clause {
	struct span name;       /* media type or coding */
	struct span parameters; /* after the name's ";", "" when none */
	unsigned int q;         /* thousandths */
};

static struct span
trim(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return (struct span){at, (size_t)(end - at)};
}

static bool
equals(struct span span, const char *text)
{
	return span.length == strlen(text) && strncasecmp(span.at, text, span.length) == 0;
}

/* The end of the piece that starts at `at`: `separator` outside quotes, or the end of the text. */
static const char *
piece_end(const char *at, const char *end, char separator)
{
	bool quoted = false;

	for (; at < end; at++) {
		if (quoted && *at == '\\' && at + 1 < end)
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (*at == separator && !quoted)
			break;
	}
	return at;
}

/* Takes the next "name=value" off `rest`, without quotes around the value; false at the end. */
static bool
next_parameter(struct span *rest, struct span *name, struct span *value)
{
	const char *end, *piece, *equal;

	if (!rest->length)
		return false;
	end = rest->at + rest->length;
	piece = piece_end(rest->at, end, ';');
	equal = memchr(rest->at, '=', (size_t)(piece - rest->at));
	*name = trim(rest->at, equal ? equal : piece);
	*value = equal ? trim(equal + 1, piece) : (struct span){piece, 0};
	if (value->length >= 2 && value->at[0] == '"' && value->at[value->length - 1] == '"')
		*value = (struct span){value->at + 1, value->length - 2};
	rest->at = piece < end ? piece + 1 : end;
	rest->length = (size_t)(end - rest->at);
	return true;
}

static struct span
parameter(const struct clause *clause, const char *wanted)
{
	struct span rest = clause->parameters;
	struct span name, value;

	while (next_parameter(&rest, &name, &value)) {
		if (equals(name, wanted))
			return value;
	}
	return (struct span){"", 0};
}

/* A qvalue is 0, 1 or a decimal of at most three digits (RFC 9110 12.4.2); anything else counts as 0: a
 * clause that cannot be read is not followed. */
static unsigned int
parse_q(struct span text)
{
	unsigned int q, unit = 100;

	if (!text.length || (text.at[0] != '0' && text.at[0] != '1'))
		return 0;
	q = text.at[0] == '1' ? 1000 : 0;
	if (text.length == 1)
		return q;
	if (text.at[1] != '.' || text.length > 5)
		return 0;
	for (size_t i = 2; i < text.length; i++, unit /= 10) {
		if (text.at[i] < '0' || text.at[i] > '9')
			return 0;
		q += unit * (unsigned int)(text.at[i] - '0');
	}
	return q > 1000 ? 0 : q;
}

static size_t
parse_clauses(const char *header, struct clause clauses[CLAUSES_MAX])
{
	const char *end = header + strlen(header);
	size_t count = 0;

	while (header < end && count < CLAUSES_MAX) {
		const char *stop = piece_end(header, end, ',');
		const char *name_end = piece_end(header, stop, ';');
		struct clause clause = {.name = trim(header, name_end), .q = 1000};
		struct span q;
		size_t at;

		if (name_end < stop)
			clause.parameters = (struct span){name_end + 1, (size_t)(stop - name_end - 1)};
		header = stop < end ? stop + 1 : end;
		if (!clause.name.length)
			continue;
		q = parameter(&clause, "q");
		if (q.length)
			clause.q = parse_q(q);
		/* Kept by falling q; equal ones in the order they came. */
		for (at = count; at > 0 && clauses[at - 1].q < clause.q; at--)
			clauses[at] = clauses[at - 1];
		clauses[at] = clause;
		count++;
	}
	return count;
}

/* Every name we serve is a plain one, so all escaping schemes give the same text; the answer repeats the one
 * that was asked for. */
static const char *
escaping(const struct clause *clause)
{
	static const char *const schemes[] = {"allow-utf-8", "underscores", "dots", "values"};
	struct span asked = parameter(clause, "escaping");

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (equals(asked, schemes[i]))
			return schemes[i];
	}
	return NULL;
}

static void
answer(struct cs_negotiated *negotiated, enum cs_format format, const char *type, const char *scheme)
{
	negotiated->format = format;
	snprintf(negotiated->content_type, sizeof(negotiated->content_type), "%s%s%s", type,
		scheme ? "; escaping=" : "", scheme ? scheme : "");
}

static bool
serves(const struct clause *clause, struct cs_negotiated *negotiated)
{
	struct span version = parameter(clause, "version");
	struct span encoding = parameter(clause, "encoding");
	struct span proto = parameter(clause, "proto");

	if (equals(clause->name, "application/vnd.google.protobuf")) {
		if (!equals(proto, "io.prometheus.client.MetricFamily") || !equals(encoding, "delimited"))
			return false;
		answer(negotiated, CS_FORMAT_PROTOBUF,
			"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
			"encoding=delimited",
			escaping(clause));
		return true;
	}
	if (equals(clause->name, "application/openmetrics-text")) {
		bool old = equals(version, "0.0.1");

		if (version.length && !old && !equals(version, "1.0.0"))
			return false;
		answer(negotiated, CS_FORMAT_OPENMETRICS,
			old ? "application/openmetrics-text; version=0.0.1; charset=utf-8"
			    : "application/openmetrics-text; version=1.0.0; charset=utf-8",
			escaping(clause));
		return true;
	}
	if (equals(clause->name, "text/plain") && version.length && !equals(version, "0.0.4"))
		return false;
	if (equals(clause->name, "text/plain") || equals(clause->name, "text/*") ||
		equals(clause->name, "*/*")) {
		answer(negotiated, CS_FORMAT_TEXT, "text/plain; version=0.0.4; charset=utf-8", NULL);
		return true;
	}
	return false;
}

void
cs_negotiate_format(const char *accept, struct cs_negotiated *negotiated)
{
	struct clause clauses[CLAUSES_MAX];
	size_t count = accept ? parse_clauses(accept, clauses) : 0;

	for (size_t i = 0; i < count && clauses[i].q; i++) {
		if (serves(&clauses[i], negotiated))
			return;
	}
	answer(negotiated, CS_FORMAT_TEXT, "text/plain; version=0.0.4; charset=utf-8", NULL);
}

bool
cs_negotiate_gzip(const char *accept_encoding)
{
	struct clause clauses[CLAUSES_MAX];
	size_t count = accept_encoding ? parse_clauses(accept_encoding, clauses) : 0;
	int gzip = -1, identity = -1, any = -1;

	for (size_t i = 0; i < count; i++) {
		if (equals(clauses[i].name, "gzip") || equals(clauses[i].name, "x-gzip"))
			gzip = gzip < 0 ? (int)clauses[i].q : gzip;
		else if (equals(clauses[i].name, "identity"))
			identity = (int)clauses[i].q;
		else if (equals(clauses[i].name, "*"))
			any = (int)clauses[i].q;
	}
	if (gzip < 0)
		gzip = any;
	return gzip > 0 && gzip >= identity;
}
