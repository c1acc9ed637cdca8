/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets. Thread context: start-up. */
#ifndef CS_EXPORTER_LISTEN_H
#define CS_EXPORTER_LISTEN_H

#include "address.h"
#include "error.h"

#include <stdbool.h>
#include <stddef.h>

struct cs_listener {
	int fd;
	bool ipv6;
	char address[CS_ADDRESS_BYTES]; /* where it really listens: "127.0.0.1:19400", "[::]:19400" */
};

/* text: "host:port", "[::1]:port", ":port" (every address, both families where the system has both); port 0
 * takes a free one. 0; -EINVAL for a text that is no address; -EADDRINUSE, -EACCES, ...; the error says what
 * to do. option: what names another address to who reads that. */
int cs_listener_open(
	struct cs_listener *listener, const char *text, const char *option, struct cs_error *error);
void cs_listener_close(struct cs_listener *listener);

#endif
