/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports of RDMA_PS_TCP, and the TCP ports behind them (docs/rc-wire.md section 2.2). On InfiniBand they are numbers of
 * their own, so a program may listen on one number with TCP and with RDMA at once. In personality ca a program that
 * listens on port P therefore listens on P's partner.
 */
#ifndef DIW_HOST_PORT_H
#define DIW_HOST_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/addr.h"

/* What devices are for programs: RNICs, else channel adapters (diwarp(7), DIWARP_PERSONALITY). */
static inline bool diw_port_is_rnic(void)
{
	const char *env = getenv("DIWARP_PERSONALITY");

	return env && strcmp(env, "rnic") == 0;
}

/* What Linux gives to connections unless ip_local_port_range says otherwise. */
#define DIW_PORT_FIRST_DYNAMIC 32768u
#define DIW_PORT_DYNAMIC 28232u

/* The halves of each range are partners. So a partner needs the privilege of its port, and the partner of a port that a
 * program chooses is none that the kernel gives to connections (ip_local_port_range as Linux sets it). 0 and 512 have
 * none, and are returned as they are. */
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

/* The TCP port that a listener on PORT listens on. */
static inline uint16_t diw_port_tcp(uint16_t port)
{
	return diw_port_is_rnic() ? port : diw_port_partner(port);
}

/* TO's port becomes the TCP port where a listener of this personality is; the result is where one of the other
 * personality is, 0 if that is the same. */
uint16_t diw_port_dial(struct diw_addr *to);

struct diw_port_hold {
	int type;                    /* SOCK_STREAM, SOCK_DGRAM */
	bool rdma;                   /* the port is one of RDMA_PS_TCP, and the TCP port behind it is what is kept */
	bool reuse;                  /* others that say so may keep it, too, until one of them listens. SOCK_STREAM: a
				      * listener with SO_REUSEADDR may take it over in any case */
	bool v6only;
};
/* A socket that keeps LOCAL's port until it is closed. Port 0 becomes a port that is free, with its partner. The
 * descriptor, or -errno. */
int diw_port_hold(struct diw_addr *local, const struct diw_port_hold *how);

#endif
