/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP messages about datagrams that were sent: the sockets' error queues (IP_RECVERR). An ICMP message makes the next
 * call on the socket fail, whatever the call, so that call is made again.
 *
 * An ICMP message is not authenticated: its sender needs to know only our address and port. So it is counted and
 * logged, at most ten times a second, and changes no state.
 */
#include <errno.h>
#include <time.h>

#include <linux/errqueue.h>

#include "base/clock.h"
#include "llp/udp.h"

#define ERR_LOOKS 32                 /* messages read in a call; a remaining one makes another call fail */
#define TELL_NS (100 * DIW_MS)

static const struct sock_extended_err *error_of(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			return (const void *)CMSG_DATA(c);
	return NULL;
}

static void peer_unreachable(struct diw_udp *u, const struct diw_addr *peer, int errnum)
{
	u->d.c->tx_error++;
	if (u->d.state->tx_errno || u->now < u->icmp_at)
		return;
	u->icmp_at = u->now + TELL_NS;
	u->d.state->tx_errno = errnum;
	u->d.state->tx_errpeer = *peer;
	u->d.state->tx_icmp = true;
}

bool diw_udp_errors(struct diw_udp *u, int fd)
{
	union { struct cmsghdr align; uint8_t b[512]; } control;
	struct sockaddr_storage name;
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	bool icmp = false;

	for (int i = 0; i < ERR_LOOKS; i++) {
		struct msghdr m = { .msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &iov, .msg_iovlen = 1,
				    .msg_control = &control, .msg_controllen = sizeof control };
		const struct sock_extended_err *e;
		struct diw_addr peer;

		if (diw_sys_errmsg(fd, &m) < 0)
			break;
		e = error_of(&m);
		if (!e || (e->ee_origin != SO_EE_ORIGIN_ICMP && e->ee_origin != SO_EE_ORIGIN_ICMP6) || !m.msg_namelen)
			continue;
		icmp = true;
		diw_addr_from_sockaddr(&peer, (struct sockaddr *)&name);
		if (e->ee_errno == EMSGSIZE)
			diw_udp_learn_mtu(u, &peer);
		else
			peer_unreachable(u, &peer, (int)e->ee_errno);
	}
	return icmp;
}
