/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports of librdmacm: the TCP port of a server, and keeping a port between bind and listen. */
#include "verbs/host/port.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"

#define PORT_TRIES 64                /* to find a port whose partner is free, too */

uint16_t diw_port_dial(struct diw_addr *to)
{
	uint16_t port = to->port, partner = diw_port_partner(port);

	to->port = diw_port_tcp(port);
	return partner == port ? 0 : to->port == port ? partner : port;
}

static int bound_socket(struct diw_addr a, uint16_t port, const struct diw_port_hold *how, int reuse)
{
	struct sockaddr_storage ss;
	int only = how->v6only, fd, err;
	socklen_t len;

	a.port = port;
	len = diw_addr_to_sockaddr(&a, &ss);
	fd = diw_socket(ss.ss_family, how->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
	if (ss.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
	if (bind(fd, (struct sockaddr *)&ss, len) == 0)
		return fd;
	err = errno;
	close(fd);
	return -err;
}

static uint16_t port_behind(uint16_t port, const struct diw_port_hold *how)
{
	return how->rdma ? diw_port_tcp(port) : port;
}

static uint16_t bound_port(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct diw_addr a = { 0 };

	if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&a, (struct sockaddr *)&ss);
	return a.port;
}

/* Whether connections use the port. A server that has ended leaves connections, at least in TIME_WAIT, which do not
 * prevent another server. */
static bool connections_have(uint16_t port)
{
	static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
	unsigned local, state;
	bool have = false;
	char line[512];

	for (size_t i = 0; i < sizeof tables / sizeof *tables && !have; i++) {
		FILE *f = fopen(tables[i], "re");

		while (f && !have && fgets(line, sizeof line, f))
			have = sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) == 2 &&
			       local == port && state != TCP_LISTEN;
		if (f)
			fclose(f);
	}
	return have;
}

static int hold_this(const struct diw_addr *local, uint16_t port, const struct diw_port_hold *how)
{
	int fd = bound_socket(*local, port, how, how->reuse);

	if (fd == -EADDRINUSE && how->type == SOCK_STREAM && !how->reuse && connections_have(port))
		fd = bound_socket(*local, port, how, true);
	return fd;
}

/* Opens a socket on the partner of LOCAL's port, which FIRST holds. FIRST is closed if the partner is another port. */
static int partner_socket(const struct diw_addr *local, int first, const struct diw_port_hold *how)
{
	uint16_t port = port_behind(local->port, how);
	int fd;

	if (first < 0 || port == local->port)
		return first;
	fd = bound_socket(*local, port, how, false);
	close(first);
	return fd;
}

/* The kernel may choose a port that is kept as reusable by others. It prefers odd ports, whose partners are odd. If
 * these are in use, as after many short connections (TIME_WAIT), the ports after the last choice are tried in turn. */
static int hold_any(struct diw_addr *local, const struct diw_port_hold *how)
{
	uint16_t port = 0;
	int fd = -EADDRINUSE;

	for (int i = 0; i < PORT_TRIES && fd == -EADDRINUSE; i++) {
		int first = bound_socket(*local, 0, how, false);

		if (first < 0)
			return first;
		port = local->port = bound_port(first);
		fd = partner_socket(local, first, how);
	}
	for (uint32_t i = 1; i < DIW_PORT_DYNAMIC && fd == -EADDRINUSE; i++) {
		local->port = (uint16_t)(DIW_PORT_FIRST_DYNAMIC +
					 (uint32_t)(port - DIW_PORT_FIRST_DYNAMIC + i) % DIW_PORT_DYNAMIC);
		fd = partner_socket(local, bound_socket(*local, local->port, how, false), how);
	}
	if (fd < 0)
		local->port = 0;
	return fd;
}

int diw_port_hold(struct diw_addr *local, const struct diw_port_hold *how)
{
	uint16_t port = port_behind(local->port, how);
	const int reuse = how->reuse || how->type == SOCK_STREAM;
	int fd = local->port ? hold_this(local, port, how) : hold_any(local, how);

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
	if (fd == -EADDRINUSE && port != local->port)
		diw_log(DIW_LOG_ERROR, "port %u of RDMA_PS_TCP: its partner TCP port %u is in use", local->port, port);
	return fd;
}
