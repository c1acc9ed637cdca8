/* SPDX-License-Identifier: Apache-2.0 */
#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

static int
open_socket(const struct addrinfo *address)
{
	int on = 1;
	int off = 0;
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int result;

	if (fd < 0)
		return -errno;
	/* A restart must not wait for old connections to time out. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (address->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
		result = -errno;
		close(fd);
		return result;
	}
	return fd;
}

static void
describe(struct cs_listener *listener)
{
	struct sockaddr_storage bound = {0};
	socklen_t bound_bytes = sizeof(bound);
	char host[64] = "";
	char port[8] = "";

	getsockname(listener->fd, (struct sockaddr *)&bound, &bound_bytes);
	getnameinfo((struct sockaddr *)&bound, bound_bytes, host, sizeof(host), port, sizeof(port),
		NI_NUMERICHOST | NI_NUMERICSERV);
	listener->ipv6 = bound.ss_family == AF_INET6;
	snprintf(listener->address, sizeof(listener->address), listener->ipv6 ? "[%s]:%s" : "%s:%s", host,
		port);
}

static int
explain(struct cs_error *error, int code, const char *text, const char *option)
{
	const char *advice = "";

	if (code == -EADDRINUSE)
		advice = "; stop the program that has it (another exporter?) or choose another address with ";
	else if (code == -EACCES)
		advice = "; choose a port of 1024 or above with ";
	else if (code == -EADDRNOTAVAIL)
		return cs_error_set(error, code, "cannot listen on %s: %s; this machine has no such address",
			text, strerror(-code));
	return cs_error_set(error, code, "cannot listen on %s: %s%s%s", text, strerror(-code), advice,
		*advice ? option : "");
}

int
cs_listener_open(struct cs_listener *listener, const char *text, const char *option, struct cs_error *error)
{
	/* Without a host, "::" first: it takes both families where the system has IPv6. */
	static const char *const everywhere[] = {"::", "0.0.0.0"};
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	char host[CS_ADDRESS_BYTES], port[CS_PORT_BYTES];
	int result = cs_address_split(text, host, sizeof(host), port);

	if (result < 0)
		return cs_error_set(
			error, result, "\"%s\" is no address to listen on; use " CS_ADDRESS_FORMS, text);
	for (size_t i = 0; i < sizeof(everywhere) / sizeof(everywhere[0]); i++) {
		struct addrinfo *addresses = NULL;
		int code = getaddrinfo(*host ? host : everywhere[i], port, &hints, &addresses);

		if (code)
			return cs_error_set(
				error, -EINVAL, "cannot listen on %s: %s", text, gai_strerror(code));
		result = -EADDRNOTAVAIL;
		for (struct addrinfo *address = addresses; address && result < 0; address = address->ai_next)
			result = open_socket(address);
		freeaddrinfo(addresses);
		if (result >= 0 || *host || result == -EADDRINUSE)
			break;
	}
	if (result < 0)
		return explain(error, result, text, option);
	listener->fd = result;
	describe(listener);
	return 0;
}

void
cs_listener_close(struct cs_listener *listener)
{
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
}
