/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dgram over UDP sockets: one socket, and a second one for the peer that most bursts go to. A burst leaves as one
 * UDP_SEGMENT super-buffer and arrives as one UDP_GRO super-buffer. Otherwise the kernel would run its whole path for
 * each datagram (docs/performance.md).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define RX_OTHER_NS (20 * DIW_US)    /* between reads of the socket that did not have the last datagram */
#define RX_OTHER_WOKEN_NS (200 * DIW_US) /* the same for a thread that is woken, if the first is never empty */
#define RX_BOTH_NS DIW_MS            /* for this time after datagrams came to both sockets, both are read in turn */
#define LONE_NO_GRO 64u              /* lone datagrams of the hot peer in a row, after which none are coalesced */
#define LONE_PLAIN 128u              /* and after which they are received by recv(2) */
#define RX_SPINS_NS (5 * DIW_US)     /* a thread that reads less often does not spin, so a socket may be ready */

static struct diw_udp *udp_of(struct diw_dgram *d)
{
	return (struct diw_udp *)d;
}

static int udp_call(struct diw_udp *u, uint32_t len)
{
	const struct msghdr *m = &u->tx;
	/* One plain datagram: send(2) has no message header to copy in, which saves 0.1 us of 2.6 us. */
	ssize_t n = m->msg_controllen || m->msg_iovlen != 1 ? diw_sys_sendmsg(u->tx_fd, m) :
		    diw_sys_sendto(u->tx_fd, m->msg_iov->iov_base, len, m->msg_name, m->msg_namelen);

	return n < 0 ? -errno : 0;
}

/* ---- A hot peer whose datagrams come one by one ----
 * recv(2) takes 0.09 us less than recvmsg(2), and 0.05 us less if there is none. It does not tell the size of coalesced
 * datagrams, so the socket no longer coalesces, and by LONE_PLAIN those that it had coalesced before are received. */

static void lone_end(struct diw_udp *u)
{
	if (u->rx_lone >= LONE_NO_GRO)
		diw_udp_hot_gro(u, true);
	u->rx_lone = 0;
}

static void lone_begin(struct diw_udp *u)
{
	if (u->hot_named && diw_udp_hot_is_empty(u))
		diw_udp_hot_alone(u);
	if (u->hot_named)
		u->rx_lone = 0;
	else
		diw_udp_hot_gro(u, false);
}

/* A datagram, or coalesced ones, came to hot_fd. A lone one came to an empty socket, or to a thread that reads seldom.
 * Two that are not may be the first of many. */
static void lone_count(struct diw_udp *u, bool coalesced, bool seldom)
{
	bool near = coalesced || !(u->rx_empty || seldom);

	if (coalesced || (near && u->rx_near))
		lone_end(u);
	else if (!near && u->rx_lone < LONE_PLAIN && ++u->rx_lone == LONE_NO_GRO)
		lone_begin(u);
	u->rx_near = near;
	u->rx_empty = false;
}

/* Bytes of the next datagram or super-buffer; -1: there is none. */
static ssize_t rx_call(struct diw_udp *u, int fd)
{
	bool plain = fd == u->hot_fd && u->rx_lone == LONE_PLAIN;

	for (int i = 0; i < 8; i++) {
		ssize_t n;

		u->rx.msg_name = fd != u->hot_fd || u->hot_named ? &u->rx_name : NULL;
		u->rx.msg_namelen = u->rx.msg_name ? sizeof u->rx_name : 0;
		u->rx.msg_controllen = plain ? 0 : sizeof u->rx_control;
		n = plain ? diw_sys_recv(fd, u->rx_buf, sizeof u->rx_buf) : diw_sys_recvmsg(fd, &u->rx);
		if (n >= 0 && (plain || !(u->rx.msg_flags & MSG_TRUNC)))
			return n;
		if (n >= 0)
			u->d.c->rx_truncated++;
		else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (fd == u->hot_fd && u->hot_named)
				diw_udp_hot_alone(u);
			u->rx_empty |= fd == u->hot_fd;
			return -1;
		} else
			diw_udp_rx_error(u, -errno, fd == u->hot_fd);
	}
	return -1;
}

/* Reads the socket that had the last datagram, and the other one if that is empty and the other one is due. If it is
 * not empty, the other one is read first next time, but seldom by a thread that was woken. So a lone datagram takes one
 * call. */
static ssize_t rx_next(struct diw_udp *u, bool spins)
{
	int first = u->rx_hot ? u->hot_fd : u->fd, other = u->rx_hot ? u->fd : u->hot_fd;
	bool owed = u->rx_owed, both = owed || u->now < u->rx_both_until;
	bool due = both || u->now - u->rx_other_ns >= (spins ? RX_OTHER_NS : RX_OTHER_WOKEN_NS);
	ssize_t n;

	u->rx_ns = u->now;
	n = owed ? -1 : rx_call(u, first);
	u->rx_owed = n >= 0 && due;
	if (n >= 0 || (spins && !due))
		return n;
	n = rx_call(u, other);
	u->rx_other_ns = u->now;
	if (n < 0)
		return owed ? rx_call(u, first) : n;
	u->rx_both_until = u->now + RX_BOTH_NS;
	u->rx_hot = !u->rx_hot;
	return n;
}

static int udp_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_udp *u = udp_of(d);
	bool spins = now - u->rx_ns < RX_SPINS_NS;
	ssize_t len;

	u->now = now;
	if (u->kept.len)
		diw_udp_tx_kept(u);
	if (n < 1)
		return 0;
	if (d->given)
		return diw_udp_rx_given(u, b);
	len = u->hot_fd < 0 ? rx_call(u, u->fd) : rx_next(u, spins);
	if (len < 0)
		return 0;
	diw_udp_rx_burst(u, b, u->rx_buf, (uint32_t)len);
	if (u->rx_hot)
		lone_count(u, b->seg < b->len, !spins);
	return 1;
}

/* The kernel drops a packet that comes from outside with an address of the host's own as its source (ip_route_input,
 * "martian source"). */
bool diw_udp_own(struct diw_dgram *d, const struct diw_addr *addr)
{
	return diw_addr_same_host(addr, &d->local);
}

static int udp_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct diw_udp *u = udp_of(d);

	fd[0] = u->tx_fd;
	fd[1] = u->tx_fd == u->fd ? u->hot_fd : u->fd;
	return fd[1] < 0 ? 1 : 2;
}

static void udp_close(struct diw_dgram *d)
{
	close(udp_of(d)->fd);
	if (udp_of(d)->hot_fd >= 0)
		close(udp_of(d)->hot_fd);
	free(d);
}

static const struct diw_dgram_ops udp_ops = {
	.name = "udp", .send = diw_udp_send, .recv = udp_recv, .deadline = diw_udp_deadline, .mtu = diw_udp_mtu,
	.own = diw_udp_own, .fds = udp_fds, .member = diw_udp_member, .from = diw_udp_from, .close = udp_close,
};

int diw_udp_open(const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	struct diw_udp *u = calloc(1, sizeof *u);
	int err;

	if (!u)
		return -ENOMEM;
	u->d.ops = &udp_ops;
	u->call = udp_call;
	u->rx_iov = (struct iovec){ u->rx_buf, sizeof u->rx_buf };
	u->rx.msg_iov = &u->rx_iov;
	u->rx.msg_iovlen = 1;
	u->rx.msg_control = &u->rx_control;
	err = diw_udp_socket(u, attr);
	if (err) {
		free(u);
		return err;
	}
	*d = &u->d;
	return 0;
}
