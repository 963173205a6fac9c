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
#include "base/sys.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define RX_OTHER_NS (20 * DIW_US)    /* between reads of the socket that did not have the last datagram */
#define RX_BOTH_NS DIW_MS            /* for this time after datagrams came to both sockets, both are read in turn */
#define RX_SPINS_NS (5 * DIW_US)     /* a thread that reads less often does not spin, so a socket may be ready */
#define LONE_NS (10 * DIW_US)        /* a datagram that comes later than this after the last one is alone */
#define PLAIN_AFTER 256              /* consecutive lone datagrams, after which GRO is turned off */
#define GRO_AFTER 16                 /* GRO is turned on when so many more datagrams came in bursts than were alone */

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

/* One read of FD, which u->rx describes afterwards. The result is recvmsg(2)'s. */
static ssize_t rx_read(struct diw_udp *u, int fd, const struct diw_udp_reads *r)
{
	bool named = fd != u->hot_fd || u->hot_named;

	if (diw_udp_place_due(u)) {
		ssize_t n = diw_udp_place(u, fd, named);

		if (n != 0)
			return n;
	}
	u->rx.msg_name = named ? &u->rx_name : NULL;
	u->rx.msg_namelen = named ? sizeof u->rx_name : 0;
	if (r->plain) {
		u->rx.msg_controllen = 0;
		u->rx.msg_flags = 0;
		return diw_sys_recvfrom(fd, u->rx_buf, sizeof u->rx_buf, 0, u->rx.msg_name,
					named ? &u->rx.msg_namelen : NULL);
	}
	u->rx.msg_controllen = sizeof u->rx_control;
	return diw_sys_recvmsg(fd, &u->rx, 0);
}

/* FD has no GRO from now on, unless a datagram is queued: it may be a super-buffer. An ICMP message that makes the look
 * fail makes no later call fail, so it is read here. */
static void rx_plain(struct diw_udp *u, int fd, struct diw_udp_reads *r)
{
	ssize_t n;
	char c;

	r->run = 0;
	diw_udp_gro(fd, false);
	n = diw_sys_recvfrom(fd, &c, sizeof c, MSG_PEEK, NULL, NULL);
	r->plain = n < 0 && errno == EAGAIN;
	if (r->plain)
		return;
	if (n < 0)
		diw_udp_rx_error(u, -errno, fd == u->hot_fd);
	diw_udp_gro(fd, true);
}

/* A datagram or a super-buffer was read. A thread that sleeps does not find the socket empty in between. Without GRO
 * the segment size's control message is missed, and so is that of a wildcard address. */
static void rx_came(struct diw_udp *u, int fd, struct diw_udp_reads *r)
{
	bool lone = (r->waited || u->now - r->ns >= LONE_NS) && !u->rx.msg_controllen;

	r->waited = false;
	r->ns = u->now;
	if (r->plain)
		r->run = lone ? r->run - (r->run > 0) : r->run + 1;
	else
		r->run = lone ? r->run + 1 : 0;
	if (r->plain && r->run >= GRO_AFTER) {
		r->plain = false;
		r->run = 0;
		diw_udp_gro(fd, true);
	} else if (!r->plain && r->run >= PLAIN_AFTER)
		rx_plain(u, fd, r);
}

/* Bytes of the next datagram or super-buffer; -1: there is none. */
static ssize_t rx_call(struct diw_udp *u, int fd)
{
	struct diw_udp_reads *r = &u->reads[fd == u->hot_fd];

	for (int i = 0; i < 8; i++) {
		ssize_t n = rx_read(u, fd, r);

		if (n >= 0 && !(u->rx.msg_flags & MSG_TRUNC)) {
			rx_came(u, fd, r);
			return n;
		}
		if (n >= 0)
			u->d.c->rx_truncated++;
		else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (fd == u->hot_fd && u->hot_named)
				diw_udp_hot_alone(u);
			r->waited = true;
			return -1;
		} else
			diw_udp_rx_error(u, -errno, fd == u->hot_fd);
	}
	return -1;
}

/* Reads the socket that had the last datagram, and the other one if that is empty and the other one is due. If it is
 * not empty, the other one is read first next time. So a lone datagram takes one call of a thread that was woken. */
static ssize_t rx_next(struct diw_udp *u)
{
	int first = u->rx_hot ? u->hot_fd : u->fd, other = u->rx_hot ? u->fd : u->hot_fd;
	bool owed = u->rx_owed, spins = u->now - u->rx_ns < RX_SPINS_NS;
	bool due = owed || !spins || u->now < u->rx_both_until || u->now - u->rx_other_ns >= RX_OTHER_NS;
	ssize_t n;

	if (u->hot_fd < 0)
		return rx_call(u, u->fd);
	u->rx_ns = u->now;
	n = owed ? -1 : rx_call(u, first);
	u->rx_owed = n >= 0 && due;
	if (n >= 0 || !due)
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
	ssize_t len;

	u->now = now;
	if (u->kept.len)
		diw_udp_tx_kept(u);
	if (n < 1)
		return 0;
	if (d->given)
		return diw_udp_rx_given(u, b);
	len = rx_next(u);
	if (len < 0)
		return 0;
	diw_udp_rx_burst(u, b, u->rx_buf, (uint32_t)len);
	diw_udp_place_learn(u, b->seg);
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

void diw_udp_end(struct diw_udp *u)
{
	if (u->hot_fd >= 0 && diw_inode(u->fd) == u->inode)
		close(u->hot_fd);
	diw_close_socket(u->fd, u->inode);
}

static void udp_close(struct diw_dgram *d)
{
	diw_udp_end(udp_of(d));
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
	u->d.state = &u->d.own;
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
