/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses to listen on, as exporter and command read them. Thread context: any; no state.
 */
#ifndef CS_ADDRESS_H
#define CS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#define CS_ADDRESS_BYTES 128U
#define CS_PORT_BYTES    8U
/* What a text has to be, for messages. */
#define CS_ADDRESS_FORMS "HOST:PORT, [IPV6]:PORT or :PORT"

/* Splits CS_ADDRESS_FORMS; port 0 to 65535. An IPv6 host loses its brackets, and needs them. 0, or -EINVAL
 * for a text that is no address or whose host has no room. Whether there is such a host nobody asks. */
int cs_address_split(const char *text, char *host, size_t host_bytes, char port[CS_PORT_BYTES]);
/* Whether it is one, with a host of fewer than CS_ADDRESS_BYTES bytes. */
bool cs_address_is_valid(const char *text);

#endif
