/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending by UDP dgrams, for both ways to the kernel: a burst leaves as one UDP_SEGMENT super-buffer. If the kernel,
 * the device or the path's MTU refuses it, its datagrams leave one by one, and IP may fragment them (IP_PMTUDISC_WANT).
 * No datagram is lost by a refusal.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define OLD_MAX_SEGS 64u             /* UDP_MAX_SEGMENTS before Linux 6.9 */
#define CALLS 8                      /* attempts for one burst: ICMP messages may come as fast as it is retried */
#define KEPT_RETRY (100 * DIW_US)
#define HOT_AFTER 1024               /* consecutive bursts to one peer, after which the peer gets its own socket */

struct burst_cursor {
	int i;
	size_t off;
};

static uint32_t path_payload(const struct diw_udp *u, const struct diw_addr *dst)
{
	return diw_udp_pmtu_payload(&u->pmtu, dst, u->now);
}

bool diw_udp_learn_mtu(struct diw_udp *u, const struct diw_addr *dst)
{
	if (!diw_udp_pmtu_learn(&u->pmtu, u->any ? NULL : &u->d.local, dst, u->now))
		return false;
	u->d.state->mtu_changed = true;
	u->d.c->tx_emsgsize++;
	return true;
}

const struct diw_udp_answer *diw_udp_asked(const struct diw_udp *u, const struct diw_addr *peer)
{
	const struct diw_udp_answer *a;

	if (u->from_told)
		return &u->from;
	a = &u->answer[diw_addr_hash(peer, 0) % DIW_UDP_ANSWER_SLOTS];
	return diw_addr_eq(&a->peer, peer) ? a : NULL;
}

void diw_udp_from(struct diw_dgram *d, const struct diw_addr *local)
{
	struct diw_udp *u = (struct diw_udp *)d;

	u->from_told = local && u->any;
	u->tx_peer = (struct diw_dest){ 0 };    /* the state of tx_peer is of an earlier message */
	if (!u->from_told)
		return;
	u->from = (struct diw_udp_answer){ .ifindex = local->scope };
	memcpy(u->from.local, local->ip, sizeof u->from.local);
	u->hot_other = u->hot_fd >= 0 && memcmp(u->hot_local, local->ip, sizeof u->hot_local) != 0;
}

static void tx_source(struct diw_udp *u, const struct diw_addr *peer)
{
	const struct diw_udp_answer *a = diw_udp_asked(u, peer);
	struct cmsghdr *c = (void *)(u->tx_control.b + CMSG_SPACE(sizeof(uint16_t)));

	u->tx_infolen = 0;
	if (!a)
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

static void add_int(struct diw_udp *u, int level, int type, int value)
{
	struct cmsghdr *c = (void *)(u->tx_control.b + CMSG_SPACE(sizeof(uint16_t)) + u->tx_infolen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(sizeof value);
	memcpy(CMSG_DATA(c), &value, sizeof value);
	u->tx_infolen += CMSG_SPACE(sizeof value);
}

/* Sets traffic class and hop limit if the destination has them. A dual-stack socket sends IPv4 packets with IPv4's
 * options. */
static void tx_header(struct diw_udp *u, const struct diw_dest *peer)
{
	bool v4 = diw_addr_is_v4(&peer->addr);

	if (!u->any)
		u->tx_infolen = 0;
	if (peer->tclass)
		add_int(u, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, peer->tclass);
	if (peer->hop_limit)
		add_int(u, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, peer->hop_limit);
}

/* Traffic class and hop limit are socket options of this socket. In a control message they would make the kernel look
 * up the route for each message. */
static void tx_hot(struct diw_udp *u)
{
	u->tx_fd = u->hot_fd;
	u->tx_infolen = 0;
	u->tx.msg_name = NULL;
	u->tx.msg_namelen = 0;
}

static bool is_hot(const struct diw_udp *u, const struct diw_dest *peer)
{
	return u->hot_fd >= 0 && !u->hot_other && diw_dest_eq(peer, &u->hot_peer);
}

static void tx_towards(struct diw_udp *u, const struct diw_dest *peer)
{
	if (diw_dest_eq(&u->tx_peer, peer)) {
		if (++u->tx_streak == HOT_AFTER && !u->connected && !diw_addr_is_multicast(&peer->addr) &&
		    diw_udp_hot(u, peer))
			tx_hot(u);
		return;
	}
	u->tx_peer = *peer;
	u->tx_streak = 0;
	u->tx_fd = u->fd;
	if (!u->connected) {
		u->tx.msg_name = &u->tx_name;
		u->tx.msg_namelen = diw_udp_name(u, &peer->addr, &u->tx_name);
	}
	if (u->any)
		tx_source(u, &peer->addr);
	tx_header(u, peer);
	if (is_hot(u, peer))
		tx_hot(u);
}

/* Errors by which a super-buffer is refused. */
static bool tx_is_size(int err)
{
	return err == -EMSGSIZE || err == -EINVAL || err == -EIO;
}

/* One system call that sends LEN bytes as datagrams of SEG bytes. 0 or -errno. */
static int tx_call(struct diw_udp *u, const struct iovec *iov, int niov, uint32_t len, uint32_t seg)
{
	const size_t room = CMSG_SPACE(sizeof(uint16_t));
	bool many = len > seg;
	int err = 0, before = 0;

	u->tx.msg_iov = (struct iovec *)iov;
	u->tx.msg_iovlen = (size_t)niov;
	if (many) {
		uint16_t size = (uint16_t)seg;

		memcpy(CMSG_DATA(&u->tx_control.align), &size, sizeof size);
	}
	u->tx.msg_control = u->tx_control.b + (many ? 0 : room);
	u->tx.msg_controllen = u->tx_infolen + (many ? room : 0);
	for (int i = 0; i < CALLS; i++, before = err) {
		err = u->call(u, len);
		if (!err) {
			u->d.c->tx_bursts++;
			u->d.c->tx_datagrams += many ? (len + seg - 1) / seg : 1;
			u->d.c->tx_bytes += len;
			return 0;
		}
		if (err == -EAGAIN || err == -ENOBUFS || err == -EWOULDBLOCK)
			return -EAGAIN;
		/* An ICMP message about an earlier datagram may make the call fail; this datagram was not sent then. */
		if (err == -EINTR || diw_udp_errors(u, u->tx_fd))
			continue;
		if (err == -ECONNREFUSED)
			u->d.c->tx_error++;     /* an ICMP message for which the error queue had no room */
		else if (err == before || tx_is_size(err))
			return err;             /* an ICMP message fails one call only, so this error is the kernel's
						 * own */
	}
	return err;
}

/* Collects the next LEN bytes of a burst. Returns the number of entries, or -EMSGSIZE if one call cannot take so
 * many. */
static int slice_next(struct diw_udp *u, const struct diw_dgram_burst *b, struct burst_cursor *c, uint32_t len)
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
			*c = (struct burst_cursor){ c->i + 1, 0 };
	}
	return n;
}

/* The socket became full within a burst. The burst counts as taken, so this dgram must send the rest later. */
static void keep_rest(struct diw_udp *u, const struct diw_dgram_burst *b, struct burst_cursor c, uint32_t done)
{
	uint32_t at = 0;

	while (done + at < b->len) {
		size_t n = b->iov[c.i].iov_len - c.off;

		memmove(u->kept_buf + at, (uint8_t *)b->iov[c.i].iov_base + c.off, n);
		at += (uint32_t)n;
		c = (struct burst_cursor){ c.i + 1, 0 };
	}
	u->kept_iov = (struct iovec){ u->kept_buf, at };
	u->kept = (struct diw_dgram_burst){ .peer = b->peer, .iov = &u->kept_iov, .niov = 1, .len = at,
					    .seg = b->seg < at ? b->seg : at, .sender = b->sender,
					    .first = b->first + done / b->seg };
}

struct tx_state {
	uint32_t per_call;           /* in datagrams */
	bool asked;                  /* the path's MTU has been asked for, for this burst */
	bool doubt;                  /* a super-buffer was refused without a known reason */
};

/* A super-buffer may be refused because of an old kernel's limit of 64 datagrams, a path with a smaller MTU, or a
 * device without checksum offload. True: try the same bytes again, in smaller calls. */
static bool tx_again(struct diw_udp *u, const struct diw_dgram_burst *b, int err, struct tx_state *s)
{
	if (!tx_is_size(err))
		return false;
	if (s->per_call == 1) {
		/* On a connected socket, "fragmentation needed" is the error of the next send, whatever it sends. */
		if (err != -EMSGSIZE || s->asked || u->tx.msg_name)
			return false;
		s->asked = true;
		diw_udp_learn_mtu(u, &b->peer.addr);
		return true;
	}
	s->asked = true;
	if (err == -EIO)
		u->gso = false;
	else if (!diw_udp_learn_mtu(u, &b->peer.addr) && err == -EINVAL) {
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
		u->gso = false;      /* datagrams leave one by one: this socket's super-buffers are refused */
	if (s->per_call == OLD_MAX_SEGS && n > 1)
		u->max_segs = OLD_MAX_SEGS;
}

/* Reports the N datagrams from byte DONE on as refused. ECONNREFUSED is never the error of the call itself, so it says
 * nothing about these datagrams. */
static void tx_refused(struct diw_udp *u, const struct diw_dgram_burst *b, uint32_t done, uint32_t n, int err)
{
	u->d.c->tx_error += n;
	if (err == -ECONNREFUSED)
		return;
	u->d.state->tx_errno = -err;
	u->d.state->tx_errpeer = b->peer.addr;
	u->d.state->tx_icmp = false;
	if (b->sender)
		b->sender->refused(b->sender, b->first + done / b->seg, n, -err);
}

/* 0: the burst is taken. -EAGAIN: no part of it is. */
static int tx_burst(struct diw_udp *u, const struct diw_dgram_burst *b)
{
	struct tx_state s = { .per_call = 1 };
	struct burst_cursor at = { 0, 0 };
	uint32_t done = 0;

	tx_towards(u, &b->peer);
	if (u->gso && b->len > b->seg && b->seg <= path_payload(u, &b->peer.addr))
		s.per_call = u->max_segs;
	while (done < b->len) {
		uint64_t most = (uint64_t)s.per_call * b->seg;
		uint32_t len = b->len - done < most ? b->len - done : (uint32_t)most;
		uint32_t count = (len + b->seg - 1) / b->seg;
		struct burst_cursor next = at;
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
			tx_refused(u, b, done, count, err);
		else
			tx_done(u, &s, count);
		at = next;
		done += len;
	}
	return 0;
}

int diw_udp_tx_kept(struct diw_udp *u)
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

int diw_udp_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct diw_udp *u = (struct diw_udp *)d;
	int i, err;

	u->now = now;
	err = diw_udp_tx_kept(u);
	for (i = 0; i < n && !err; i++) {
		err = u->kept.len ? -EAGAIN : tx_burst(u, &b[i]);
		if (err)
			break;
	}
	return i > 0 ? i : err;
}

uint64_t diw_udp_deadline(struct diw_dgram *d)
{
	struct diw_udp *u = (struct diw_udp *)d;

	return u->kept.len ? u->now + KEPT_RETRY : DIW_NEVER;
}

uint32_t diw_udp_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	return path_payload((struct diw_udp *)d, dst);
}
