/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "clock.h"
#include "exposition.h"
#include "gzip.h"
#include "log.h"
#include "negotiate.h"
#include "page.h"
#include "self_metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_PER_ADDRESS 2U
#define CONNECTIONS_MAX     256U
#define IDLE_TIMEOUT_S      15U
/* So that no client can take all. A node has one Prometheus or two, each with one connection. */
#define CONNECTIONS_PER_CLIENT_MAX 64U
#define COMPRESS_BYTES_LEAST       1024U /* below, the header costs more than compression saves */

struct cs_http {
	struct cs_http_options options;
	struct cs_ingest *ingest;
	atomic_uint_fast64_t scrapes;
	atomic_uint_fast64_t exposition_ns; /* of the last scrape */
	struct MHD_Daemon *daemons[16];
	size_t daemon_count;
};

/* One answer on its way. */
struct answer {
	unsigned int status;
	const char *content_type;
	struct cs_buffer body;
	bool gzip;       /* body is compressed */
	bool negotiated; /* depends on Accept and Accept-Encoding */
	bool allow;      /* say which methods there are */
};

/* -- metrics --------------------------------------------------------------------------------------------- */

static bool
names_family(const struct cs_family *family, const char *name)
{
	static const char *const suffixes[] = {"", "_total", "_info", "_bucket", "_sum", "_count"};
	size_t length = strlen(family->name);

	if (strncmp(name, family->name, length) != 0)
		return false;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (strcmp(name + length, suffixes[i]) == 0)
			return true;
	}
	return false;
}

struct filter {
	bool used;
	bool wanted[CS_FAMILY_COUNT];
};

static enum MHD_Result
take_filter(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct filter *filter = context;

	(void)kind;
	if (!value || strcmp(key, "name[]") != 0)
		return MHD_YES;
	filter->used = true;
	for (unsigned int id = 0; id < CS_FAMILY_COUNT; id++)
		filter->wanted[id] |= names_family(cs_family_borrow(id), value);
	return MHD_YES;
}

/* All header lines of that name joined with commas, as RFC 9110 5.3 reads them. */
struct header {
	const char *name;
	char value[2048];
};

static enum MHD_Result
join_header(void *context, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct header *header = context;
	size_t used = strlen(header->value);

	(void)kind;
	if (!value || strcasecmp(key, header->name) != 0 || used + strlen(value) + 2 > sizeof(header->value))
		return MHD_YES;
	if (used)
		header->value[used++] = ',';
	memcpy(header->value + used, value, strlen(value) + 1);
	return MHD_YES;
}

static const char *
read_header(struct MHD_Connection *connection, struct header *header, const char *name)
{
	*header = (struct header){.name = name};
	MHD_get_connection_values(connection, MHD_HEADER_KIND, join_header, header);
	return *header->value ? header->value : NULL;
}

/* 0 or -ENOMEM. */
static int
write_metrics(struct cs_http *http, const struct cs_exposition_options *options, struct cs_buffer *body)
{
	uint64_t begin_ns = cs_clock_monotonic_ns();
	struct cs_snapshot snapshot;
	int result;

	cs_snapshot_init(&snapshot, options->format == CS_FORMAT_PROTOBUF);
	cs_ingest_collect(http->ingest, &snapshot);
	if (http->options.exporter_metrics)
		cs_self_metrics_collect(&snapshot);
	cs_snapshot_plain(
		&snapshot, CS_FAMILY_EXPORTER_COLLECTION, cs_value_ns(cs_clock_monotonic_ns() - begin_ns));
	cs_snapshot_plain(&snapshot, CS_FAMILY_EXPORTER_EXPOSITION,
		cs_value_ns(atomic_load_explicit(&http->exposition_ns, memory_order_relaxed)));
	result = cs_snapshot_finish(&snapshot);
	if (result == 0)
		result = cs_exposition_write(&snapshot, options, body);
	cs_snapshot_fini(&snapshot);
	return result;
}

static void
compress(struct answer *answer)
{
	struct cs_buffer compressed;

	if (answer->body.length < COMPRESS_BYTES_LEAST)
		return;
	cs_buffer_init(&compressed);
	if (cs_gzip(&answer->body, &compressed) == 0) {
		cs_buffer_fini(&answer->body);
		answer->body = compressed;
		answer->gzip = true;
	} else {
		cs_buffer_fini(&compressed);
	}
}

static void
answer_text(struct answer *answer, unsigned int status, const char *text)
{
	cs_buffer_fini(&answer->body);
	answer->status = status;
	answer->content_type = "text/plain; charset=utf-8";
	cs_buffer_text(&answer->body, text);
}

static void
answer_metrics(struct cs_http *http, struct MHD_Connection *connection, struct answer *answer,
	struct cs_negotiated *negotiated)
{
	struct filter filter = {0};
	struct cs_exposition_options options = {.created = http->options.created};
	uint64_t begin_ns = cs_clock_monotonic_ns();
	struct header header;

	cs_negotiate_format(read_header(connection, &header, "Accept"), negotiated);
	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, take_filter, &filter);
	options.format = negotiated->format;
	options.wanted = filter.used ? filter.wanted : NULL;
	answer->negotiated = true;
	answer->content_type = negotiated->content_type;
	if (write_metrics(http, &options, &answer->body) < 0) {
		answer_text(answer, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.\n");
		return;
	}
	if (cs_negotiate_gzip(read_header(connection, &header, "Accept-Encoding")))
		compress(answer);
	atomic_store_explicit(&http->exposition_ns, cs_clock_monotonic_ns() - begin_ns, memory_order_relaxed);
}

static void
answer_scrape(struct cs_http *http, struct MHD_Connection *connection, struct answer *answer,
	struct cs_negotiated *negotiated)
{
	uint64_t before = atomic_fetch_add_explicit(&http->scrapes, 1, memory_order_relaxed);

	if (http->options.max_requests && before >= http->options.max_requests)
		answer_text(answer, MHD_HTTP_SERVICE_UNAVAILABLE,
			"Too many scrapes at once; --web.max-requests is the limit.\n");
	else
		answer_metrics(http, connection, answer, negotiated);
	atomic_fetch_sub_explicit(&http->scrapes, 1, memory_order_relaxed);
}

/* -- requests -------------------------------------------------------------------------------------------- */

static enum MHD_Result
send_answer(struct MHD_Connection *connection, struct answer *answer)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	if (answer->body.failed) {
		cs_buffer_fini(&answer->body);
		return MHD_NO;
	}
	/* Without a byte when name[] names no family that there is. */
	response = MHD_create_response_from_buffer(
		answer->body.length, answer->body.data, MHD_RESPMEM_MUST_FREE);
	if (!response) {
		cs_buffer_fini(&answer->body);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->content_type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (strncmp(answer->content_type, "text/html", 9) == 0)
		MHD_add_response_header(
			response, "Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
	if (answer->gzip)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
	if (answer->negotiated)
		MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
	if (answer->allow)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

/* NOLINTBEGIN(readability-non-const-parameter): the type is libmicrohttpd's */
static enum MHD_Result
handle(void *context, struct MHD_Connection *connection, const char *url, const char *method,
	const char *version, const char *upload, size_t *upload_bytes, void **state)
/* NOLINTEND(readability-non-const-parameter) */
{
	struct cs_http *http = context;
	struct answer answer = {.status = MHD_HTTP_OK};
	struct cs_log_value said_method, said_path;
	struct cs_negotiated negotiated;
	bool known = true;

	(void)version;
	(void)upload;
	/* A GET may have a body; it means nothing, and no answer is taken before all of it has come. */
	if (*state && *upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	/* The first call comes with the headers alone; an answer to it closes the connection, which spares us
	 * the body of a method that we do not serve. */
	if (!*state && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)) {
		*state = http;
		return MHD_YES;
	}
	cs_buffer_init(&answer.body);
	if (strcmp(url, http->options.telemetry_path) != 0 && strcmp(url, "/") != 0 &&
		strcmp(url, "/-/healthy") != 0 && strcmp(url, "/-/ready") != 0)
		known = false;
	if (!known) {
		answer_text(&answer, MHD_HTTP_NOT_FOUND,
			"Not found. The metrics are at the telemetry path, /metrics as a rule.\n");
	} else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		answer_text(&answer, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
		answer.allow = true;
	} else if (strcmp(url, http->options.telemetry_path) == 0) {
		answer_scrape(http, connection, &answer, &negotiated);
	} else if (strcmp(url, "/") == 0) {
		answer.content_type = "text/html; charset=utf-8";
		cs_page_write(&answer.body, http->ingest, http->options.telemetry_path);
	} else {
		answer_text(&answer, MHD_HTTP_OK,
			strcmp(url, "/-/ready") == 0 ? "collscope-exporter is ready.\n"
						     : "collscope-exporter is healthy.\n");
	}
	cs_log_debug("Answered a request method=%s path=%s status=%u", cs_log_value(&said_method, method),
		cs_log_value(&said_path, url), answer.status);
	return send_answer(connection, &answer);
}

/* What clients make the library say. It tells of every request that breaks off, at any length: into our log
 * only where somebody looks for it, since that may lie in the run directory, which is memory. */
__attribute__((format(printf, 2, 0))) static void
log_library(void *context, const char *format, va_list arguments)
{
	struct cs_log_value said;
	char text[256];

	(void)context;
	if (!cs_log_enabled(CS_LOG_DEBUG))
		return;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	cs_log_debug("The HTTP library says message=%s", cs_log_value(&said, text));
}

/* -- life ------------------------------------------------------------------------------------------------ */

int
cs_http_start(const struct cs_http_options *options, struct cs_ingest *ingest, struct cs_listener *listeners,
	size_t listener_count, struct cs_http **http, struct cs_error *error)
{
	struct cs_http *made = calloc(1, sizeof(*made));

	*http = NULL;
	if (!made)
		return cs_error_set(error, -ENOMEM, "out of memory");
	made->options = *options;
	made->ingest = ingest;
	for (size_t i = 0; i < listener_count && i < sizeof(made->daemons) / sizeof(made->daemons[0]); i++) {
		/* ITC: without it a thread that has just taken connections may miss that it has to end, and
		 * sleeps for as long as they may idle. */
		struct MHD_Daemon *daemon =
			MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0,
				NULL, NULL, handle, made, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
				MHD_OPTION_LISTEN_SOCKET, listeners[i].fd, MHD_OPTION_THREAD_POOL_SIZE,
				THREADS_PER_ADDRESS, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
				MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_PER_CLIENT_MAX,
				MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S, MHD_OPTION_END);

		if (!daemon) {
			cs_http_stop(made);
			return cs_error_set(
				error, -EIO, "cannot start the HTTP server on %s", listeners[i].address);
		}
		listeners[i].fd = -1; /* the daemon's now */
		made->daemons[made->daemon_count++] = daemon;
	}
	*http = made;
	return 0;
}

void
cs_http_stop(struct cs_http *http)
{
	if (!http)
		return;
	for (size_t i = 0; i < http->daemon_count; i++)
		MHD_stop_daemon(http->daemons[i]);
	free(http);
}
