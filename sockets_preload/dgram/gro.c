/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A buffer that UDP_GRO has made of datagrams of one flow and one size. Each datagram may be a frame. On one host they
 * were sent by one call, so all or none are frames. A device may combine datagrams from before and after its sender
 * began to frame.
 */
#include <errno.h>
#include <string.h>

#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/segments.h"
#include "sockets_preload/reach.h"

void diw_gro_ask(struct msghdr *m, uint8_t *mem)
{
	m->msg_control = mem + DIW_STAGE;
	m->msg_controllen = DIW_STAGE_CONTROL;
}

static bool is_size(const struct cmsghdr *c)
{
	return c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO;
}

size_t diw_gro_size(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (is_size(c)) {
			int size;

			memcpy(&size, CMSG_DATA(c), sizeof size);
			return size > 0 ? (size_t)size : 0;
		}
	return 0;
}

/* ---- Control data ---- */

/* Writes a control message as the kernel's put_cmsg() does: it is cut if there is not enough room. */
static void cmsg_put(struct msghdr *to, const struct cmsghdr *c, const void *data)
{
	struct cmsghdr head = *c;
	size_t len = c->cmsg_len - CMSG_LEN(0), space = CMSG_SPACE(len);

	if (!to->msg_control || to->msg_controllen < sizeof head) {
		to->msg_flags |= MSG_CTRUNC;
		return;
	}
	if (to->msg_controllen < head.cmsg_len) {
		to->msg_flags |= MSG_CTRUNC;
		head.cmsg_len = to->msg_controllen;
	}
	memcpy(to->msg_control, &head, sizeof head);
	memcpy((uint8_t *)to->msg_control + sizeof head, data, head.cmsg_len - sizeof head);
	space = space < to->msg_controllen ? space : to->msg_controllen;
	to->msg_control = (uint8_t *)to->msg_control + space;
	to->msg_controllen -= space;
}

/* Sets M's control data to that of ASKED, with EACH as the size of messages; 0: there is one message. */
static void pass_control(struct msghdr *m, const struct msghdr *asked, size_t each)
{
	struct msghdr to = { .msg_control = asked->msg_control, .msg_controllen = asked->msg_controllen,
			     .msg_flags = m->msg_flags };
	int size = (int)each;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (!is_size(c))
			cmsg_put(&to, c, CMSG_DATA(c));
		else if (each)
			cmsg_put(&to, c, &size);
	m->msg_control = asked->msg_control;
	m->msg_controllen = asked->msg_controllen - to.msg_controllen;
	if (!asked->msg_control)
		m->msg_controllen = 0;
	m->msg_flags = to.msg_flags;
}

/* ---- The messages ---- */

/* Whether the next message has the size of those before it, or is the last and shorter. */
static bool message_joins(const struct diw_gro *g, size_t len)
{
	size_t each = g->n ? g->piece[0].iov_len : 0;

	return !g->n || (g->n < DIW_STAGE_PIECES && len && len <= each && g->piece[g->n - 1].iov_len == each);
}

static void frame_count(enum diw_frame what, bool peek)
{
	if (what == DIW_FRAME_NONE)
		diw_reach_look();
	if (!peek)
		diw_count(what == DIW_FRAME_GOOD ? DIW_C_sock_rx_framed : DIW_C_sock_rx_plain);
}

static const char *drop_reason(uint64_t bad_crcs)
{
	return atomic_load(&diw_sock_count)[DIW_C_sock_rx_crc] != bad_crcs ? "sock_rx_crc" : "sock_rx_malformed";
}

static enum diw_frame segment_check(const struct diw_keys *k, const uint8_t *p, size_t n, size_t *head,
				    const struct diw_came *came, bool peek)
{
	uint64_t bad_crcs = came ? atomic_load(&diw_sock_count)[DIW_C_sock_rx_crc] : 0;
	enum diw_frame what = diw_frame_check(k, p, n, head);

	if (came && (!peek || what == DIW_FRAME_BAD))
		diw_bad_net_came(came, p, n, what == DIW_FRAME_BAD ? drop_reason(bad_crcs) : NULL);
	return what;
}

bool diw_gro_undo(const struct diw_keys *k, uint8_t *mem, size_t n, const struct msghdr *asked, struct msghdr *m,
		  bool peek, const struct diw_came *came, struct diw_gro *g)
{
	struct iovec *piece = (struct iovec *)(mem + DIW_STAGE + DIW_STAGE_CONTROL);
	size_t size = diw_gro_size(m), at = 0;

	*g = (struct diw_gro){ .piece = piece };
	if (!size || size > n)
		size = n;
	do {
		size_t one = n - at < size ? n - at : size, head = 0;
		enum diw_frame what = segment_check(k, mem + at, one, &head, came, peek);
		size_t len = what == DIW_FRAME_GOOD ? one - head - DIW_SEAL_LEN : one;

		if (what != DIW_FRAME_BAD && message_joins(g, len)) {
			piece[g->n++] = (struct iovec){ mem + at + head, len };
			g->len += len;
			frame_count(what, peek);
		} else if (what != DIW_FRAME_BAD && !peek) {
			diw_count(DIW_C_sock_rx_mixed);
		}
		at += size;
	} while (at < n);
	if (g->n)
		pass_control(m, asked, g->n > 1 ? piece[0].iov_len : 0);
	return g->n;
}

size_t diw_gro_fill(const struct iovec *iov, size_t n, const struct diw_gro *g)
{
	size_t done = 0, off = 0;

	for (unsigned i = 0; i < g->n; i++) {
		const uint8_t *p = g->piece[i].iov_base;
		size_t left = g->piece[i].iov_len;

		while (left && n) {
			size_t some = iov->iov_len - off < left ? iov->iov_len - off : left;

			if (some)
				memcpy((uint8_t *)iov->iov_base + off, p, some);
			p += some;
			left -= some;
			off += some;
			done += some;
			if (off == iov->iov_len) {
				iov++;
				n--;
				off = 0;
			}
		}
	}
	return done;
}
