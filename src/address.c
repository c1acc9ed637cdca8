/* SPDX-License-Identifier: Apache-2.0 */
#include "address.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
cs_address_split(const char *text, char *host, size_t host_bytes, char port[CS_PORT_BYTES])
{
	const char *colon = strrchr(text, ':');
	size_t host_length;

	if (!colon || strlen(colon + 1) == 0 || strlen(colon + 1) > 5 ||
		strspn(colon + 1, "0123456789") != strlen(colon + 1) || atoi(colon + 1) > UINT16_MAX)
		return -EINVAL;
	host_length = (size_t)(colon - text);
	if (host_length >= 2 && text[0] == '[' && colon[-1] == ']') {
		text++;
		host_length -= 2;
		if (host_length == 0)
			return -EINVAL; /* not every address: that is no host at all */
	} else if (memchr(text, ':', host_length)) {
		return -EINVAL; /* an IPv6 address without brackets: which colon is the port's? */
	}
	if (host_length >= host_bytes)
		return -EINVAL;
	memcpy(host, text, host_length);
	host[host_length] = '\0';
	snprintf(port, CS_PORT_BYTES, "%s", colon + 1);
	return 0;
}

bool
cs_address_is_valid(const char *text)
{
	char host[CS_ADDRESS_BYTES], port[CS_PORT_BYTES];

	return cs_address_split(text, host, sizeof(host), port) == 0;
}
