/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link over a dgram: one segment a datagram, with a CRC-32 behind it, low-order byte first (docs/ud-profile.md).
 *
 * Small segments are staged: header, payload and CRC are copied into one contiguous super-buffer, which stays open for
 * more of the same destination and size until flush. Large ones are gathered: the super-buffer is a list of pieces of
 * the caller's memory, which leaves before send returns because payload is borrowed no longer than that.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/trace.h"
#include "llp/link.h"
#include "wire/seal.h"

#define CACHE_LINE 64u
#define MIN_SEG 2u                   /* RFC 5041: DDP control and RDMAP control */
#ifndef STAGE_MAX                    /* docs/performance.md tells how it was found */
#define STAGE_MAX 6144u              /* datagrams up to this are staged */
#endif
#define GATHER_IOV 256               /* pieces of one gathered super-buffer */
#define RX_BATCH 16                  /* segments handed up at once: their bytes are still in the cache when placed */

struct seal {
	struct diw_link l;
	struct diw_dgram *d;
	struct diw_dgram_sender sender;
	uint32_t mulpdu;             /* as set; 0 = what the MTU allows */

	/* The open super-buffer: room for more of open.peer while the last datagram is as long as the others. */
	struct diw_dgram_burst open; /* len 0: none */
	uint32_t open_count;
	struct iovec open_iov;

	/* The burst that was received last, as far as it was not taken; its bytes are the dgram's, which is not asked
	 * for another before. */
	struct diw_dgram_burst rest;
	const uint8_t *rest_at;
	struct diw_link_rxseg kept[RX_BATCH];        /* those in front of it that were offered, in order */
	int nkept;

	struct iovec gather[GATHER_IOV];
	uint8_t crcs[DIW_DGRAM_MAX_SEGS][DIW_SEAL_LEN];
	uint8_t stage[DIW_DGRAM_MAX_BURST];
};

static struct seal *seal_of(struct diw_link *l)
{
	return (struct seal *)l;
}

/* ---- Send ---- */

/* A datagram is a segment, so that they have the same numbers. */
static void seal_refused(struct diw_dgram_sender *sender, uint32_t first, uint32_t n, int errnum)
{
	const struct diw_link *l = &diw_container(sender, struct seal, sender)->l;

	if (l->up->refused)
		l->up->refused(l->up_ctx, first, n, errnum);
}

/* 0: nothing is staged any more; -EAGAIN: it still is. */
static int send_open(struct seal *s, uint64_t now)
{
	int n;

	if (!s->open.len)
		return 0;
	s->open_iov.iov_len = s->open.len;
	n = s->d->ops->send(s->d, &s->open, 1, now);
	if (n < 1)
		return -EAGAIN;
	s->open.len = 0;
	s->l.left = s->l.taken;
	return 0;
}

static bool open_fits(const struct seal *s, const struct diw_dest *dst, uint32_t len)
{
	return len <= s->open.seg && s->open.len + len <= sizeof s->stage && s->open_count < DIW_DGRAM_MAX_SEGS &&
	       s->open.len == s->open_count * s->open.seg && diw_dest_eq(&s->open.peer, dst);
}

/* What follows in the caller's memory is what comes next: by then it should be in the cache. */
static void prefetch(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i += CACHE_LINE)
		__builtin_prefetch(p + i, 0, 3);
}

/* Copy the payload to TO, continuing CRC over it. The CRC reads the source and goes first: on a source that is not in
 * the cache that was quicker than to copy and then read the copy back. */
static uint8_t *copy_payload(uint8_t *to, const struct diw_link_seg *g, uint32_t *crc)
{
	const struct iovec *v = g->iov;
	size_t off = g->off, left = g->len;

	for (; left > 0; v++, off = 0) {
		size_t have = v->iov_len - off, n = have < left ? have : left;
		const uint8_t *from = (uint8_t *)v->iov_base + off;

		if (n == 0)                     /* an empty entry of a work request names no memory */
			continue;
		prefetch(from + n, have - n < g->len ? have - n : g->len);
		*crc = diw_crc32(*crc, from, n);
		memcpy(to, from, n);
		to += n;
		left -= n;
	}
	return to;
}

/* 0, or -EAGAIN: not taken. */
static int stage_segment(struct seal *s, const struct diw_dest *dst, const struct diw_link_seg *g, uint64_t now)
{
	uint32_t len = g->hdr_len + g->len + DIW_SEAL_LEN;
	uint32_t crc;
	uint8_t *p;

	if (s->open.len && !open_fits(s, dst, len) && send_open(s, now))
		return -EAGAIN;
	if (!s->open.len) {
		s->open.peer = *dst;
		s->open.seg = len;
		s->open.first = s->l.taken;
		s->open_count = 0;
	}
	p = s->stage + s->open.len;
	memcpy(p, g->hdr, g->hdr_len);
	crc = diw_crc32(0, g->hdr, g->hdr_len);
	p = copy_payload(p + g->hdr_len, g, &crc);
	diw_seal_put(p, crc);
	s->open.len += len;
	s->open_count++;
	s->l.taken++;
	if (!open_fits(s, dst, s->open.seg))
		send_open(s, now);   /* full; when blocked it waits for flush like any other */
	return 0;
}

/* Append one segment's pieces and its CRC to the gather list; how many entries, 0 when there is no room for them. */
static int gather_segment(struct seal *s, int at, uint8_t crc_at[DIW_SEAL_LEN], const struct diw_link_seg *g)
{
	const struct iovec *v = g->iov;
	size_t off = g->off, left = g->len;
	uint32_t crc = diw_crc32(0, g->hdr, g->hdr_len);
	int n = at;

	if (n + 2 > GATHER_IOV)
		return 0;
	s->gather[n++] = (struct iovec){ (void *)g->hdr, g->hdr_len };
	while (left > 0) {
		size_t take = v->iov_len - off < left ? v->iov_len - off : left;
		uint8_t *p = (uint8_t *)v->iov_base + off;

		if (n + 2 > GATHER_IOV)
			return 0;
		crc = diw_crc32(crc, p, take);
		s->gather[n++] = (struct iovec){ p, take };
		left -= take;
		off = 0;
		v++;
	}
	diw_seal_put(crc_at, crc);
	s->gather[n++] = (struct iovec){ crc_at, DIW_SEAL_LEN };
	return n - at;
}

/* Send as many segments from the front as make one super-buffer; how many, or -EAGAIN. */
static int gather_burst(struct seal *s, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
			uint64_t now)
{
	struct diw_dgram_burst b = { .peer = *dst, .iov = s->gather, .sender = &s->sender, .first = s->l.taken };
	int count = 0;

	b.seg = segs[0].hdr_len + segs[0].len + DIW_SEAL_LEN;
	while (count < n && count < (int)DIW_DGRAM_MAX_SEGS) {
		uint32_t len = segs[count].hdr_len + segs[count].len + DIW_SEAL_LEN;
		int pieces;

		if (count && (len > b.seg || b.len + len > DIW_DGRAM_MAX_BURST))
			break;
		pieces = gather_segment(s, b.niov, s->crcs[count], &segs[count]);
		if (!pieces)
			break;
		b.niov += pieces;
		b.len += len;
		count++;
		if (len < b.seg)
			break;
	}
	if (s->d->ops->send(s->d, &b, 1, now) < 1)
		return -EAGAIN;
	s->l.left = s->l.taken += (uint32_t)count;
	return count;
}

static int seal_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		     uint64_t now)
{
	struct seal *s = seal_of(l);
	int i = 0;

	while (i < n) {
		if (segs[i].hdr_len + segs[i].len + DIW_SEAL_LEN <= STAGE_MAX) {
			if (stage_segment(s, dst, &segs[i], now))
				break;
			i++;
		} else {
			int sent = send_open(s, now) ? -EAGAIN : gather_burst(s, dst, segs + i, n - i, now);

			if (sent < 0)
				break;
			i += sent;
		}
	}
	return i;
}

static int seal_flush(struct diw_link *l, uint64_t now)
{
	return send_open(seal_of(l), now);
}

static void seal_discard(struct diw_link *l)
{
	seal_of(l)->open.len = 0;
	l->left = l->taken;
}

/* ---- Receive ---- */

static void datagram_dropped(struct seal *s, const uint8_t *p, uint32_t len, const char *reason, uint64_t now)
{
	char ip[DIW_ADDR_IP_STRLEN];

	DIW_TRACE_DATAGRAM_DROPPED(s->l.c, len, s->rest.peer.addr.port);
	diw_dgram_dropped(s->d, p, reason);
	diw_log_often(DIW_LOG_DEBUG, now, "port %u: a datagram of %s port %u, %u bytes: %s", s->l.local.port,
		      diw_addr_ip_str(&s->rest.peer.addr, ip), s->rest.peer.addr.port, len, reason);
}

static bool intact(struct seal *s, const uint8_t *p, uint32_t len, uint64_t now)
{
	if (len < MIN_SEG + DIW_SEAL_LEN) {
		s->l.c->rx_short++;
		datagram_dropped(s, p, len, "rx_short", now);
	} else if (!diw_seal_is_good(p, len)) {
		s->l.c->rx_crc++;
		datagram_dropped(s, p, len, "rx_crc", now);
	} else {
		return true;
	}
	return false;
}

/* False: not all of the N segments were taken, and those that were not are kept. */
static bool offer(struct seal *s, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	int taken = s->l.up->rx(s->l.up_ctx, &s->rest.peer.addr, segs, n, now);

	s->nkept = n - taken;
	memmove(s->kept, segs + taken, (size_t)s->nkept * sizeof *segs);
	return s->nkept == 0;
}

/* Cut the burst, check every segment, hand up the intact ones. False: some wait. */
static bool rx_rest(struct seal *s, uint64_t now)
{
	struct diw_dgram_burst *b = &s->rest;
	int n = 0;

	while (b->len > 0) {
		uint32_t len = b->len < b->seg ? b->len : b->seg;
		const uint8_t *p = s->rest_at;

		if (intact(s, p, len, now))
			s->kept[n++] = (struct diw_link_rxseg){ p, len - DIW_SEAL_LEN, b->group,
								b->to.port ? &b->to : NULL };
		s->rest_at += len;
		b->len -= len;
		if (n == RX_BATCH || (n && !b->len)) {
			if (!offer(s, s->kept, n, now))
				return false;
			n = 0;
		}
	}
	return true;
}

static void rx_begin(struct seal *s, const struct diw_dgram_burst *b, uint64_t now)
{
	s->rest = *b;
	s->rest_at = b->iov->iov_base;
	if (b->len)
		return;
	s->l.c->rx_short++;
	datagram_dropped(s, s->rest_at, 0, "rx_short", now);
}

static int seal_poll(struct diw_link *l, int budget, uint64_t now)
{
	struct seal *s = seal_of(l);
	struct diw_dgram_burst b;
	bool goes_on = s->nkept || s->rest.len;
	int n = 0;

	if (s->nkept && !offer(s, s->kept, s->nkept, now))
		return 0;
	while (n < budget && (goes_on || s->d->ops->recv(s->d, &b, 1, now) == 1)) {
		if (!goes_on)
			rx_begin(s, &b, now);
		goes_on = false;
		n++;
		if (!rx_rest(s, now))
			break;
		if (s->d->watch)
			s->d->watch->seen(s->d->watch, now);
	}
	return n;
}

/* ---- The rest ---- */

static uint64_t seal_deadline(struct diw_link *l)
{
	struct seal *s = seal_of(l);

	/* What waits comes again when its receiver says so; until then no more is received. */
	return s->nkept ? DIW_NEVER : s->d->ops->deadline(s->d);
}

static uint32_t seal_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	struct seal *s = seal_of(l);

	uint32_t room = s->mulpdu ? s->mulpdu + DIW_SEAL_LEN : s->d->ops->mtu(s->d, dst);

	/* Whatever a path claims, a segment carries at least a byte: IP fragments what is too large for it. */
	return room > DIW_LINK_MAX_HDR + DIW_SEAL_LEN ? room - DIW_SEAL_LEN : DIW_LINK_MAX_HDR + 1;
}

static int seal_fds(struct diw_link *l, int fd[DIW_DGRAM_FDS])
{
	struct seal *s = seal_of(l);

	return s->d->ops->fds(s->d, fd);
}

static void seal_close(struct diw_link *l)
{
	struct seal *s = seal_of(l);

	s->d->ops->close(s->d);
	free(s);
}

static const struct diw_link_ops seal_ops = {
	.send = seal_send, .flush = seal_flush, .discard = seal_discard, .poll = seal_poll,
	.deadline = seal_deadline, .mulpdu = seal_mulpdu,
	.fds = seal_fds, .close = seal_close,
};

int diw_seal_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_link_up *up, void *up_ctx, struct diw_link **l)
{
	struct seal *s;

	if (mulpdu && mulpdu <= DIW_LINK_MAX_HDR)
		return -EINVAL;      /* no room for payload */
	s = malloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	memset(s, 0, offsetof(struct seal, gather));
	s->l = (struct diw_link){ .ops = &seal_ops, .dgram = d, .local = d->local, .up = up, .up_ctx = up_ctx,
				  .c = d->c };
	s->d = d;
	s->mulpdu = mulpdu < DIW_DGRAM_MAX - DIW_SEAL_LEN ? mulpdu : DIW_DGRAM_MAX - DIW_SEAL_LEN;
	s->open_iov.iov_base = s->stage;
	s->open.iov = &s->open_iov;
	s->open.niov = 1;
	s->sender.refused = seal_refused;
	s->open.sender = &s->sender;
	*l = &s->l;
	return 0;
}
