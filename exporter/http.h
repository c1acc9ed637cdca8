/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP side: GET and HEAD of the metrics, "/", "/-/healthy", "/-/ready"; 404 for other paths, 405 with
 * Allow for other methods, 503 beyond the limit of scrapes at once. The health of the exporter is that of its
 * process: a node whose processes fail must stay scrapeable.
 *
 * `?name[]=FAMILY` (may be repeated) asks for single families.
 *
 * Thread context: start and stop from one thread; requests are served by two threads of libmicrohttpd per
 * address.
 */
#ifndef CS_EXPORTER_HTTP_H
#define CS_EXPORTER_HTTP_H

#include "error.h"
#include "ingest.h"
#include "listen.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_http; /* opaque */

struct cs_http_options {
	const char *telemetry_path;
	uint64_t max_requests; /* 0: no limit */
	bool exporter_metrics;
	bool created;
};

/* Serves on the listeners, whose descriptors it takes over when it succeeds. Borrows options' texts and
 * ingest until stop. */
int cs_http_start(const struct cs_http_options *options, struct cs_ingest *ingest,
	struct cs_listener *listeners, size_t listener_count, struct cs_http **http, struct cs_error *error);
/* Waits for requests that are being served. */
void cs_http_stop(struct cs_http *http);

#endif
