/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dgram over UDP sockets: one, and a second for the peer that gets most. A burst leaves as one UDP_SEGMENT
 * super-buffer and arrives as one UDP_GRO super-buffer: without them each datagram costs the kernel's whole path
 * (docs/performance.md). Where the kernel, the device or the path's MTU refuses a super-buffer, its datagrams leave
 * one by one and IP may fragment them (IP_PMTUDISC_WANT): nothing is lost by it.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define OLD_MAX_SEGS 64u             /* UDP_MAX_SEGMENTS before Linux 6.9 */
#define KEPT_RETRY (100 * DIW_US)
#define RX_OTHER_NS (5 * DIW_US)     /* between looks at the other socket while the hot peer's is tried */
#define HOT_AFTER 1024               /* bursts to one peer in a row, until it gets a socket of its own */

struct cursor {
	int i;
	size_t off;
};

static struct diw_udp *udp_of(struct diw_dgram *d)
{
	return (struct diw_udp *)d;
}

static uint32_t path_payload(const struct diw_udp *u, const struct diw_addr *dst)
{
	return diw_udp_pmtu_payload(&u->pmtu, dst, u->now);
}

static bool learn_path_mtu(struct diw_udp *u, const struct diw_addr *dst)
{
	if (!diw_udp_pmtu_learn(&u->pmtu, u->any ? NULL : &u->d.local, dst, u->now))
		return false;
	u->d.mtu_changed = true;
	u->d.c->tx_emsgsize++;
	return true;
}

/* ---- Send ---- */

static void tx_source(struct diw_udp *u, const struct diw_addr *peer)
{
	const struct diw_udp_answer *a = &u->answer[diw_addr_hash(peer, 0) % DIW_UDP_ANSWER_SLOTS];
	struct cmsghdr *c = (void *)(u->tx_control.b + CMSG_SPACE(sizeof(uint16_t)));

	u->tx_infolen = 0;
	if (!diw_addr_eq(&a->peer, peer))
		return;
	if (u->family == AF_INET) {
		struct in_pktinfo i = { 0 };

		memcpy(&i.ipi_spec_dst, a->local + 12, 4);
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof i);
		memcpy(CMSG_DATA(c), &i, sizeof i);
		u->tx_infolen = CMSG_SPACE(sizeof i);
	} else {
		struct in6_pktinfo i = { .ipi6_ifindex = a->ifindex };

		memcpy(&i.ipi6_addr, a->local, 16);
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof i);
		memcpy(CMSG_DATA(c), &i, sizeof i);
		u->tx_infolen = CMSG_SPACE(sizeof i);
	}
}

static void tx_hot(struct diw_udp *u)
{
	u->tx_fd = u->hot_fd;
	u->tx.msg_name = NULL;
	u->tx.msg_namelen = 0;
}

static void tx_towards(struct diw_udp *u, const struct diw_addr *peer)
{
	if (diw_addr_eq(&u->tx_peer, peer)) {
		if (++u->tx_streak == HOT_AFTER && !u->connected && !u->any && !diw_addr_is_multicast(peer) &&
		    diw_udp_hot(u, peer))
			tx_hot(u);
		return;
	}
	u->tx_peer = *peer;
	u->tx_streak = 0;
	u->tx_fd = u->fd;
	if (!u->connected) {
		u->tx.msg_name = &u->tx_name;
		u->tx.msg_namelen = u->tx_namelen = diw_udp_name(u, peer, &u->tx_name);
	}
	if (u->any)
		tx_source(u, peer);
	else if (u->hot_fd >= 0 && diw_addr_eq(peer, &u->hot_peer))
		tx_hot(u);
}

/* One system call that sends LEN bytes as datagrams of SEG bytes. 0 or -errno. */
static int tx_call(struct diw_udp *u, const struct iovec *iov, int niov, uint32_t len, uint32_t seg)
{
	const size_t room = CMSG_SPACE(sizeof(uint16_t));
	bool many = len > seg;
	int err;

	u->tx.msg_iov = (struct iovec *)iov;
	u->tx.msg_iovlen = (size_t)niov;
	if (many) {
		uint16_t size = (uint16_t)seg;

		memcpy(CMSG_DATA(&u->tx_control.align), &size, sizeof size);
	}
	u->tx.msg_control = u->tx_control.b + (many ? 0 : room);
	u->tx.msg_controllen = u->tx_infolen + (many ? room : 0);
	for (int i = 0; i < 4; i++) {
		/* One plain datagram: without a message header to copy in, the call is 0.1 us of 2.6 us quicker. */
		ssize_t n = u->tx.msg_controllen || niov != 1 ? diw_sys_sendmsg(u->tx_fd, &u->tx) :
			    diw_sys_sendto(u->tx_fd, iov->iov_base, len, u->tx.msg_name, u->tx.msg_namelen);

		if (n >= 0) {
			u->d.c->tx_bursts++;
			u->d.c->tx_datagrams += many ? (len + seg - 1) / seg : 1;
			u->d.c->tx_bytes += len;
			return 0;
		}
		err = errno;
		/* An ICMP answer to an earlier datagram surfaces here, and this one was not sent. */
		if (err == ECONNREFUSED && !u->tx.msg_name)
			u->d.c->tx_error++;
		else if (err != EINTR)
			return err == ENOBUFS || err == EWOULDBLOCK ? -EAGAIN : -err;
	}
	return -err;
}

/* The next LEN bytes of a burst; the number of entries, or -EMSGSIZE when they are too many for one call. */
static int slice_next(struct diw_udp *u, const struct diw_dgram_burst *b, struct cursor *c, uint32_t len)
{
	int n = 0;

	while (len > 0) {
		size_t have = b->iov[c->i].iov_len - c->off, take = have < len ? have : len;

		if (take && n == IOV_MAX)
			return -EMSGSIZE;
		if (take)
			u->slice[n++] = (struct iovec){ (uint8_t *)b->iov[c->i].iov_base + c->off, take };
		len -= (uint32_t)take;
		c->off += take;
		if (take == have)
			*c = (struct cursor){ c->i + 1, 0 };
	}
	return n;
}

/* The socket filled up inside a burst: the burst counts as taken, so what is left of it is ours to send. */
static void keep_rest(struct diw_udp *u, const struct diw_dgram_burst *b, struct cursor c, uint32_t done)
{
	uint32_t at = 0;

	while (done + at < b->len) {
		size_t n = b->iov[c.i].iov_len - c.off;

		memmove(u->kept_buf + at, (uint8_t *)b->iov[c.i].iov_base + c.off, n);
		at += (uint32_t)n;
		c = (struct cursor){ c.i + 1, 0 };
	}
	u->kept_iov = (struct iovec){ u->kept_buf, at };
	u->kept = (struct diw_dgram_burst){ .peer = b->peer, .iov = &u->kept_iov, .niov = 1, .len = at,
					    .seg = b->seg < at ? b->seg : at };
}

struct tx_state {
	uint32_t per_call;           /* datagrams */
	bool asked;                  /* the path's MTU, for this burst */
	bool doubt;                  /* a super-buffer was refused for no known reason */
};

/* An old kernel's limit of 64 datagrams, a path with a smaller MTU, a device without checksum offload: each refuses a
 * super-buffer in its way. True when the same bytes should be tried again, in smaller calls. */
static bool tx_again(struct diw_udp *u, const struct diw_dgram_burst *b, int err, struct tx_state *s)
{
	if (err != -EMSGSIZE && err != -EINVAL && err != -EIO)
		return false;
	if (s->per_call == 1) {
		/* A connected socket hears of "fragmentation needed" by an error on whatever it sends next. */
		if (err != -EMSGSIZE || s->asked || u->tx.msg_name)
			return false;
		s->asked = true;
		learn_path_mtu(u, &b->peer);
		return true;
	}
	s->asked = true;
	if (err == -EIO)
		u->gso = false;
	else if (!learn_path_mtu(u, &b->peer) && err == -EINVAL) {
		if (s->per_call > OLD_MAX_SEGS) {
			s->per_call = OLD_MAX_SEGS;
			return true;
		}
		s->doubt = true;
	}
	s->per_call = 1;
	return true;
}

static void tx_done(struct diw_udp *u, const struct tx_state *s, uint32_t n)
{
	if (s->doubt)
		u->gso = false;      /* one by one they go: this socket's super-buffers do not */
	if (s->per_call == OLD_MAX_SEGS && n > 1)
		u->max_segs = OLD_MAX_SEGS;
}

static void tx_refused(struct diw_udp *u, int err, uint32_t n)
{
	u->d.c->tx_error += n;
	if (err != -ECONNREFUSED)
		u->d.tx_errno = -err;
}

/* 0 when the burst is taken, -EAGAIN when nothing of it is. */
static int tx_burst(struct diw_udp *u, const struct diw_dgram_burst *b)
{
	struct tx_state s = { .per_call = 1 };
	struct cursor at = { 0, 0 };
	uint32_t done = 0;

	tx_towards(u, &b->peer);
	if (u->gso && b->len > b->seg && b->seg <= path_payload(u, &b->peer))
		s.per_call = u->max_segs;
	while (done < b->len) {
		uint64_t most = (uint64_t)s.per_call * b->seg;
		uint32_t len = b->len - done < most ? b->len - done : (uint32_t)most;
		uint32_t count = (len + b->seg - 1) / b->seg;
		struct cursor next = at;
		bool whole = len == b->len && b->niov <= IOV_MAX;
		int niov = whole ? b->niov : slice_next(u, b, &next, len);
		int err = niov < 0 ? niov : tx_call(u, whole ? b->iov : u->slice, niov, len, b->seg);

		if (err == -EAGAIN) {
			u->d.c->tx_blocked++;
			if (!done)
				return err;
			keep_rest(u, b, at, done);
			return 0;
		}
		if (err && tx_again(u, b, err, &s))
			continue;
		if (err)
			tx_refused(u, err, count);
		else
			tx_done(u, &s, count);
		at = next;
		done += len;
	}
	return 0;
}

static int tx_kept(struct diw_udp *u)
{
	struct diw_dgram_burst b = u->kept;
	struct iovec iov = u->kept_iov;
	int err;

	if (!b.len)
		return 0;
	b.iov = &iov;
	u->kept.len = 0;
	err = tx_burst(u, &b);
	if (err)
		u->kept.len = b.len;
	return u->kept.len ? -EAGAIN : 0;
}

static int udp_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_udp *u = udp_of(d);
	int i, err;

	u->now = now;
	err = tx_kept(u);
	for (i = 0; i < n && !err; i++) {
		err = u->kept.len ? -EAGAIN : tx_burst(u, &b[i]);
		if (err)
			break;
	}
	return i > 0 ? i : err;
}

/* ---- Receive ---- */

static void remember_asked(struct diw_udp *u, const struct diw_addr *peer, const uint8_t local[16], unsigned ifindex)
{
	struct diw_udp_answer *a = &u->answer[diw_addr_hash(peer, 0) % DIW_UDP_ANSWER_SLOTS];
	struct diw_addr l = { 0 };

	memcpy(l.ip, local, 16);
	if (diw_addr_is_multicast(&l))
		return;
	if (!(local[0] == 0xfe && (local[1] & 0xc0) == 0x80))
		ifindex = 0;
	if (diw_addr_eq(&a->peer, peer) && !memcmp(a->local, local, 16) && a->ifindex == ifindex)
		return;
	*a = (struct diw_udp_answer){ .peer = *peer, .ifindex = ifindex };
	memcpy(a->local, local, 16);
	u->tx_peer.port = 0;         /* prepared headers may name the old source */
}

static void rx_cmsgs(struct diw_udp *u, struct diw_dgram_burst *b)
{
	b->seg = 0;
	b->group = false;               /* a socket that is bound to an address hears nothing else */

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&u->rx); c; c = CMSG_NXTHDR(&u->rx, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int v;

			memcpy(&v, CMSG_DATA(c), sizeof v);
			b->seg = v > 0 ? (uint32_t)v : 0;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };
			struct in_pktinfo i;

			memcpy(&i, CMSG_DATA(c), sizeof i);
			memcpy(mapped + 12, &i.ipi_spec_dst, 4);
			b->group = i.ipi_addr.s_addr != i.ipi_spec_dst.s_addr;
			remember_asked(u, &b->peer, mapped, 0);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO && !diw_addr_is_v4(&b->peer)) {
			struct in6_pktinfo i;

			memcpy(&i, CMSG_DATA(c), sizeof i);
			b->group = IN6_IS_ADDR_MULTICAST(&i.ipi6_addr);
			remember_asked(u, &b->peer, i.ipi6_addr.s6_addr, i.ipi6_ifindex);
		}
	}
}

/* Bytes of the next datagram or super-buffer, -1 when there is none. */
static ssize_t rx_call(struct diw_udp *u, int fd)
{
	for (int i = 0; i < 8; i++) {
		ssize_t n;

		u->rx.msg_name = fd != u->hot_fd || u->hot_named ? &u->rx_name : NULL;
		u->rx.msg_namelen = u->rx.msg_name ? sizeof u->rx_name : 0;
		u->rx.msg_controllen = sizeof u->rx_control;
		n = diw_sys_recvmsg(fd, &u->rx);
		if (n >= 0 && !(u->rx.msg_flags & MSG_TRUNC))
			return n;
		if (n >= 0)
			u->d.c->rx_truncated++;
		else if (errno == EMSGSIZE)     /* of a connected socket only */
			learn_path_mtu(u, u->connected ? &u->tx_peer : &u->hot_peer);
		else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			u->hot_named &= fd != u->hot_fd;
			return -1;
		}
	}
	return -1;
}

/* The hot peer's socket, and often enough the one of all others: every time while something comes there. */
static ssize_t rx_next(struct diw_udp *u)
{
	bool other = u->hot_fd < 0 || u->now - u->rx_other_ns >= RX_OTHER_NS || (u->rx_other && u->rx_turn++ % 2);
	ssize_t n;

	if (!other) {
		n = rx_call(u, u->hot_fd);
		if (n >= 0 || !u->rx_other)
			return n;
	}
	n = rx_call(u, u->fd);
	u->rx_other = n >= 0;
	u->rx_other_ns = u->now;
	return n < 0 && other && u->hot_fd >= 0 ? rx_call(u, u->hot_fd) : n;
}

static int udp_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_udp *u = udp_of(d);
	ssize_t len;

	u->now = now;
	if (u->kept.len)
		tx_kept(u);
	if (n < 1)
		return 0;
	len = rx_next(u);
	if (len < 0)
		return 0;
	if (u->rx.msg_name)
		diw_addr_from_sockaddr(&b->peer, (const struct sockaddr *)&u->rx_name);
	else
		b->peer = u->hot_peer;
	rx_cmsgs(u, b);
	b->len = (uint32_t)len;
	if (!b->seg || b->seg > b->len)
		b->seg = b->len;
	u->rx_burst = (struct iovec){ u->rx_buf, b->len };
	b->iov = &u->rx_burst;
	b->niov = 1;
	d->c->rx_bursts++;
	d->c->rx_datagrams += b->seg ? (b->len + b->seg - 1) / b->seg : 1;
	d->c->rx_bytes += b->len;
	return 1;
}

/* ---- The rest ---- */

static uint64_t udp_deadline(struct diw_dgram *d)
{
	struct diw_udp *u = udp_of(d);

	return u->kept.len ? u->now + KEPT_RETRY : DIW_NEVER;
}

static uint32_t udp_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	return path_payload(udp_of(d), dst);
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
	.name = "udp", .send = udp_send, .recv = udp_recv, .deadline = udp_deadline, .mtu = udp_mtu, .fds = udp_fds,
	.close = udp_close,
};

static void prepare_headers(struct diw_udp *u)
{
	struct cmsghdr *c = &u->tx_control.align;

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	u->rx_iov = (struct iovec){ u->rx_buf, sizeof u->rx_buf };
	u->rx.msg_name = &u->rx_name;
	u->rx.msg_iov = &u->rx_iov;
	u->rx.msg_iovlen = 1;
	u->rx.msg_control = &u->rx_control;
}

int diw_udp_open(const struct diw_dgram_attr *attr, struct diw_dgram **d)
{
	struct diw_udp *u;
	int err;

	if (!attr->c || (!attr->any && (diw_addr_ip_is_zero(&attr->local) || diw_addr_is_multicast(&attr->local))))
		return -EINVAL;
	u = calloc(1, sizeof *u);
	if (!u)
		return -ENOMEM;
	u->d.ops = &udp_ops;
	u->d.c = attr->c;
	u->any = attr->any;
	u->hot_fd = -1;
	u->rcvbuf = attr->rcvbuf;
	u->gso = diw_udp_offload().gso;
	u->pmtu.ifmtu = attr->mtu ? attr->mtu : 1500;
	u->max_segs = DIW_DGRAM_MAX_SEGS;
	prepare_headers(u);
	err = diw_udp_socket(u, attr);
	if (err) {
		free(u);
		return err;
	}
	u->tx_fd = u->fd;
	*d = &u->d;
	return 0;
}
