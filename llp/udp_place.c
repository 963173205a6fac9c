/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving in place: the kernel copies the octets of a large datagram to their final place, which saves a copy. A look
 * at the head, which costs a system call, tells the layer above which place that is. The datagram is then read to this
 * place. If it is another one than that of the look, because another process reads the socket, or if the layer above
 * cannot take it so, its octets are copied back.
 */
#include <errno.h>
#include <string.h>

#include "llp/udp.h"

/* Octets of a datagram that is worth the look: two such do not fit a super-buffer. */
#define PLACE_MIN (DIW_DGRAM_MAX_BURST / 2)
#define WHOLES_MAX 64u               /* datagrams that are read without a look after many looks in vain */

bool diw_udp_place_due(const struct diw_udp *u)
{
	return u->d.reach && u->rx_large && !u->rx_wholes;
}

void diw_udp_place_learn(struct diw_udp *u, uint32_t seg)
{
	u->rx_large = seg >= PLACE_MIN;
	u->rx_wholes -= u->rx_wholes > 0;
}

/* A look was in vain. The first segment of a Send has no place, and those behind it have one, so a single vain look
 * tells nothing. */
static void place_missed(struct diw_udp *u)
{
	u->rx_wholes = u->rx_in_vain;
	u->rx_in_vain = u->rx_in_vain < WHOLES_MAX / 2 ? 2 * u->rx_in_vain + 1 : WHOLES_MAX;
}

/* Whether the message that u->rx describes is several datagrams. */
static bool rx_is_super(struct diw_udp *u)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&u->rx); c; c = CMSG_NXTHDR(&u->rx, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			return true;
	return false;
}

static ssize_t rx_to(struct diw_udp *u, int fd, bool named, struct iovec *iov, int n, int flags)
{
	ssize_t got;

	u->rx.msg_name = named ? &u->rx_name : NULL;
	u->rx.msg_namelen = named ? sizeof u->rx_name : 0;
	u->rx.msg_controllen = sizeof u->rx_control;
	u->rx.msg_iov = iov;
	u->rx.msg_iovlen = (size_t)n;
	got = diw_sys_recvmsg(fd, &u->rx, flags);
	u->rx.msg_iov = &u->rx_iov;
	u->rx.msg_iovlen = 1;
	return got;
}

/* The entries of the place of the datagram of LEN octets that u->rx describes; 0: none. */
static int place_ask(struct diw_udp *u, const uint8_t *head, ssize_t len)
{
	struct diw_addr src = u->hot_peer.addr;

	if (len < (ssize_t)PLACE_MIN || len > (ssize_t)DIW_DGRAM_MAX || rx_is_super(u))
		return 0;
	if (u->rx.msg_name)
		diw_addr_from_sockaddr(&src, u->rx.msg_name);
	return u->d.reach->ask(u->d.reach, &src, head, (uint32_t)len, u->now);
}

void diw_dgram_unplace(struct diw_dgram_reach *r, uint8_t *p, uint32_t len)
{
	uint32_t left = r->placed;
	uint8_t *to = p + DIW_DGRAM_HEAD;

	memmove(to + left, to, len - left - DIW_DGRAM_HEAD);
	for (const struct iovec *v = r->place; left > 0; v++) {
		uint32_t n = v->iov_len < left ? (uint32_t)v->iov_len : left;

		memcpy(to, v->iov_base, n);
		to += n;
		left -= n;
	}
	r->placed = 0;
}

/* Reads the datagram of LEN octets with HEAD to the N entries of the place. */
static ssize_t place_read(struct diw_udp *u, int fd, bool named, const uint8_t *head, ssize_t len, int n)
{
	struct diw_dgram_reach *r = u->d.reach;
	struct iovec iov[DIW_DGRAM_PLACES + 2] = { { u->rx_buf, DIW_DGRAM_HEAD } };
	size_t want = 0, behind;
	ssize_t got;

	for (int i = 0; i < n; i++) {
		iov[i + 1] = r->place[i];
		want += r->place[i].iov_len;
	}
	iov[n + 1] = (struct iovec){ u->rx_buf + DIW_DGRAM_HEAD, sizeof u->rx_buf - DIW_DGRAM_HEAD };
	got = rx_to(u, fd, named, iov, n + 2, 0);
	if (got <= (ssize_t)DIW_DGRAM_HEAD || u->rx.msg_flags & MSG_TRUNC) {
		place_missed(u);
		return got;
	}
	behind = (size_t)got - DIW_DGRAM_HEAD;
	r->placed = (uint32_t)(want < behind ? want : behind);
	if (got != len || rx_is_super(u) || memcmp(u->rx_buf, head, DIW_DGRAM_HEAD) != 0) {
		diw_dgram_unplace(r, u->rx_buf, (uint32_t)got);
		return got;
	}
	u->d.c->rx_in_place++;
	u->rx_in_vain = 0;
	return got;
}

ssize_t diw_udp_place(struct diw_udp *u, int fd, bool named)
{
	uint8_t head[DIW_DGRAM_HEAD];
	struct iovec iov = { head, sizeof head };
	ssize_t len = rx_to(u, fd, named, &iov, 1, MSG_PEEK | MSG_TRUNC);
	int n;

	if (len < 0)
		return len;
	n = place_ask(u, head, len);
	if (n > 0)
		return place_read(u, fd, named, head, len, n);
	place_missed(u);
	return 0;
}
