/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of RDMA_PS_TCP, and the TCP ports that carry them (docs/rc-wire.md section 2.2). On InfiniBand the two are
 * separate number spaces, so a program may listen on one number with TCP and with RDMA. Therefore in personality `ca` a
 * program that listens on port P listens on the TCP port that is P's partner.
 */
#ifndef DIW_HOST_PORT_H
#define DIW_HOST_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"

/* Whether devices present themselves as RNICs, not as channel adapters (diwarp(7), DIWARP_PERSONALITY). */
static inline bool diw_port_is_rnic(void)
{
	const char *env = getenv("DIWARP_PERSONALITY");

	return env && strcmp(env, "rnic") == 0;
}

/* The first port that Linux chooses for connections; ip_local_port_range may change it. */
#define DIW_PORT_FIRST_DYNAMIC 32768u
#define DIW_PORT_DYNAMIC 28232u

/* The two halves of each range are partners. So a partner needs the same privilege as its port. The partner of a port
 * that a program chooses is not in the range from which the kernel chooses (Linux' default ip_local_port_range). 0 and
 * 512 have no partner, and are returned unchanged. */
static inline uint16_t diw_port_partner(uint16_t port)
{
	static const uint32_t ranges[] = { 0, 1024, DIW_PORT_FIRST_DYNAMIC,
		DIW_PORT_FIRST_DYNAMIC + DIW_PORT_DYNAMIC, 65536 };
	uint32_t first, n, partner;
	int i = 0;

	while (port >= ranges[i + 1])
		i++;
	first = ranges[i];
	n = ranges[i + 1] - first;
	partner = first + (port - first + n / 2) % n;
	return port && partner ? (uint16_t)partner : port;
}

/* The TCP port of a listener on PORT. */
static inline uint16_t diw_port_tcp(uint16_t port)
{
	return diw_port_is_rnic() ? port : diw_port_partner(port);
}

/* Sets TO's port to the TCP port of a listener of this personality. Returns the port of a listener of the other
 * personality; 0: the same port. */
uint16_t diw_port_dial(struct diw_addr *to);

struct diw_port_hold {
	int type;                    /* SOCK_STREAM, SOCK_DGRAM */
	bool rdma;                   /* the port is one of RDMA_PS_TCP; its TCP port is kept */
	bool reuse;                  /* sockets with this flag may share the port until one of them listens.
				      * SOCK_STREAM: a listener with SO_REUSEADDR may take the port in any case */
	bool v6only;
};
/* Opens a socket that keeps LOCAL's port until it is closed. Port 0 is replaced by a port that is free, as is its
 * partner. Returns the descriptor, or -errno. */
int diw_port_hold(struct diw_addr *local, const struct diw_port_hold *how);

#endif
