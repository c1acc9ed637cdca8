/* SPDX-License-Identifier: Apache-2.0 */
/* Headers as real scrapers send them, and as nobody should. */
#include "negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h needs the four above first. */
#include <cmocka.h>

#define TEXT        "text/plain; version=0.0.4; charset=utf-8"
#define OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define PROTOBUF                                                                                             \
	"application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

static void
test_formats(void **state)
{
	static const struct {
		const char *accept;
		enum cs_format format;
		const char *content_type;
	} cases[] = {
		{NULL, CS_FORMAT_TEXT, TEXT},
		{"", CS_FORMAT_TEXT, TEXT},
		{"*/*", CS_FORMAT_TEXT, TEXT},
		/* A browser. */
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", CS_FORMAT_TEXT, TEXT},
		/* Prometheus 2.42. */
		{"application/openmetrics-text;version=1.0.0,application/"
		 "openmetrics-text;version=0.0.1;q=0.75,"
		 "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			CS_FORMAT_OPENMETRICS, OPENMETRICS},
		/* Prometheus 2.42 with native histograms. */
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
		 "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			CS_FORMAT_PROTOBUF, PROTOBUF},
		/* Prometheus 3. */
		{"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
		 "application/openmetrics-text;version=0.0.1;q=0.4,text/"
		 "plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
		 "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
			CS_FORMAT_OPENMETRICS, OPENMETRICS "; escaping=allow-utf-8"},
		/* The order of the q-values wins over the order in the header. */
		{"application/openmetrics-text;version=1.0.0;q=0.1, text/plain;version=0.0.4;q=0.9",
			CS_FORMAT_TEXT, TEXT},
		/* Versions that are not served are passed over. */
		{"application/openmetrics-text;version=2.0.0, text/plain;version=0.0.4;q=0.1", CS_FORMAT_TEXT,
			TEXT},
		{"application/openmetrics-text;version=0.0.1", CS_FORMAT_OPENMETRICS,
			"application/openmetrics-text; version=0.0.1; charset=utf-8"},
		/* q=0 is a refusal. */
		{"application/openmetrics-text;version=1.0.0;q=0", CS_FORMAT_TEXT, TEXT},
		/* Other encodings of protobuf are not served. */
		{"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
			CS_FORMAT_TEXT, TEXT},
		/* Quoted values, blanks, case, and commas inside quotes. */
		{"Application/OpenMetrics-Text ; Version=\"1.0.0\" ; note=\"a,b;c\" ; Q=0.7 , "
		 "text/plain;q=0.3",
			CS_FORMAT_OPENMETRICS, OPENMETRICS},
		/* What cannot be read is not followed. */
		{"application/openmetrics-text;version=1.0.0;q=2", CS_FORMAT_TEXT, TEXT},
		{";;;,,,q=1;=;\"", CS_FORMAT_TEXT, TEXT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct cs_negotiated negotiated;

		cs_negotiate_format(cases[i].accept, &negotiated);
		assert_int_equal(negotiated.format, cases[i].format);
		assert_string_equal(negotiated.content_type, cases[i].content_type);
	}
}

static void
test_gzip(void **state)
{
	static const struct {
		const char *header;
		bool gzip;
	} cases[] = {
		{NULL, false},
		{"", false},
		{"gzip", true},
		{"GZIP", true},
		{"x-gzip", true},
		{"gzip;q=0", false},
		{"gzip;q=0.0", false},
		{"identity", false},
		{"deflate, br", false},
		{"deflate, gzip;q=1.0, *;q=0.5", true},
		{"*", true},
		{"*;q=0", false},
		{"gzip;q=0.1, identity;q=0.9", false},
		{"gzip;q=0.9, identity;q=0.1", true},
		{"gzip;q=0, *", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cs_negotiate_gzip(cases[i].header), cases[i].gzip);
}

/* More clauses than are looked at: no overrun (a sanitizer would say), and the first ones count. */
static void
test_many_clauses(void **state)
{
	char header[4096] = "application/openmetrics-text;version=1.0.0;q=0.9";
	struct cs_negotiated negotiated;

	(void)state;
	for (int i = 0; i < 200; i++)
		strcat(header, ",a/b;q=0.95");
	cs_negotiate_format(header, &negotiated);
	assert_int_equal(negotiated.format, CS_FORMAT_OPENMETRICS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_many_clauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
