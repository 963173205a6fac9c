/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link over a dgram: one segment a datagram, with a CRC-32 behind it, low-order byte first (docs/ud-profile.md).
 *
 * Segments to one destination, all of one size but the last, share a super-buffer, which stays open until flush. It is
 * a list of pieces: headers, CRCs and small payloads are staged, that is, copied to memory of the link; large payloads
 * are gathered, that is, they stay in the caller's memory.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/crc.h"
#include "base/list.h"
#include "base/log.h"
#include "base/trace.h"
#include "llp/link.h"
#include "wire/seal.h"

#define MIN_SEG 2u                   /* RFC 5041: DDP control and RDMAP control */
#ifndef STAGE_MAX                    /* docs/performance.md says how it was found */
#define STAGE_MAX 6144u              /* datagrams of at most this many octets are staged */
#endif
#define SEAL_LATER 512u              /* the CRCs of datagrams of at most this many octets are computed when their
				      * super-buffer leaves */
#define SEAL_WHOLE_LATER 1152u       /* the same for messages of one segment */
#define GATHER_MAX 32                /* a payload of more pieces is staged */
#define PIECES_MAX 256               /* of one super-buffer */
#define RX_BATCH 16                  /* segments handed up at once: few enough that their bytes are still in the cache
				      * when placed */

_Static_assert(SEAL_LATER <= STAGE_MAX && SEAL_WHOLE_LATER <= STAGE_MAX, "a datagram without CRC is staged");

struct seal {
	struct diw_link l;
	struct diw_dgram *d;
	struct diw_dgram_sender sender;
	uint32_t mulpdu;             /* as set; 0: as the MTU allows */

	/* The open super-buffer. It has room for more datagrams of open.peer as long as the last one has the size of
	 * the others. */
	struct diw_dgram_burst open; /* len 0: none */
	uint32_t open_count;         /* datagrams */
	uint32_t staged;             /* octets of `stage` */
	uint32_t sealed;             /* octets of the super-buffer whose datagrams have their CRC */
	bool later;                  /* the CRCs are computed when it leaves */
	bool bare;                   /* its segments leave without CRC */

	/* The part of the last received burst that was not taken. Its bytes are the dgram's, which is not called again
	 * before this burst is done. */
	struct diw_dgram_burst rest;
	const uint8_t *rest_at;
	bool rest_own;               /* its datagrams may have no CRC */
	struct diw_dgram_reach reach;        /* of the datagram in `rest` */
	struct diw_link_rxseg kept[RX_BATCH];        /* the offered segments in front of `rest`, in order */
	int nkept;

	struct iovec pieces[PIECES_MAX];
	uint8_t stage[DIW_DGRAM_MAX];
};

static struct seal *seal_of(struct diw_link *l)
{
	return (struct seal *)l;
}

/* ---- Send ---- */

/* A datagram is one segment, so datagrams and segments have the same numbers. */
static void seal_refused(struct diw_dgram_sender *sender, uint32_t first, uint32_t n, int errnum)
{
	const struct diw_link *l = &diw_container(sender, struct seal, sender)->l;

	if (l->up->refused)
		l->up->refused(l->up_ctx, first, n, errnum);
}

/* Computes the CRCs of small datagrams, which are staged one behind the other. All together take a third of the time:
 * the processor overlaps CRCs that follow each other, and need not wait for octets that were just written. */
static void burst_seal(struct seal *s)
{
	while (s->sealed < s->open.len && !s->open.bare) {
		uint32_t left = s->open.len - s->sealed, len = (left < s->open.seg ? left : s->open.seg) - DIW_SEAL_LEN;
		uint8_t *p = s->stage + s->sealed;

		diw_seal_put(p + len, diw_crc32(0, p, len));
		s->sealed += len + DIW_SEAL_LEN;
	}
}

/* 0: no super-buffer is open. -EAGAIN: it is still open. */
static int burst_send(struct seal *s, uint64_t now)
{
	if (!s->open.len)
		return 0;
	burst_seal(s);
	if (s->d->ops->send(s->d, &s->open, 1, now) < 1)
		return -EAGAIN;
	s->open.len = 0;
	s->l.left = s->l.taken;
	return 0;
}

/* The octets of a small message are mostly in the cache, and so is the copy. Those of a large one, which is cut, mostly
 * are not: its CRCs are computed as it is copied. */
static bool seals_later(const struct diw_link_seg *g, uint32_t len)
{
	return len <= SEAL_LATER || (len <= SEAL_WHOLE_LATER && g->off + g->len == g->iov->iov_len);
}

static void burst_begin(struct seal *s, const struct diw_dest *dst, const struct diw_link_seg *g, uint32_t len)
{
	s->open.peer = *dst;
	s->open.seg = len;
	s->open.niov = 0;
	s->open.bare = g->bare || (s->d->ops->bare && s->d->ops->bare(s->d, &dst->addr));
	s->bare = g->bare;
	s->open.first = s->l.taken;
	s->open_count = 0;
	s->staged = s->sealed = 0;
	s->later = seals_later(g, len);
}

/* Room for another datagram of LEN octets in PIECES pieces. */
static inline bool burst_has_room(const struct seal *s, uint32_t len, int pieces)
{
	return s->open.len + len <= DIW_DGRAM_MAX_BURST && s->open_count < DIW_DGRAM_MAX_SEGS &&
	       s->open.niov + pieces <= PIECES_MAX && s->open.len == s->open_count * s->open.seg;
}

/* The next LEN octets are these of `stage`, to be written by the caller. */
static uint8_t *burst_stage(struct seal *s, uint32_t len)
{
	struct iovec *last = s->pieces + s->open.niov - 1;
	uint8_t *p = s->stage + s->staged;

	if (s->open.niov && (uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += len;
	else
		s->pieces[s->open.niov++] = (struct iovec){ p, len };
	s->staged += len;
	return p;
}

/* Copies the gathered payloads into `stage`. The last piece moves first, because no piece moves towards the front. */
static void burst_keep(struct seal *s)
{
	uint32_t at = s->open.len;

	for (int i = s->open.niov - 1; i >= 0; i--) {
		at -= (uint32_t)s->pieces[i].iov_len;
		memmove(s->stage + at, s->pieces[i].iov_base, s->pieces[i].iov_len);
	}
	s->pieces[0] = (struct iovec){ s->stage, s->open.len };
	s->open.niov = 1;
	s->staged = s->open.len;
}

/* Copies the payload to TO and continues CRC over it, unless CRC is NULL. The CRC reads the source before the copy: for
 * a source outside the cache this was faster than to copy first and read the copy. */
static void payload_copy(uint8_t *to, const struct diw_link_seg *g, uint32_t *crc)
{
	const struct iovec *v = g->iov;
	size_t off = g->off, left = g->len;

	for (; left > 0; v++, off = 0) {
		size_t have = v->iov_len - off, n = have < left ? have : left;
		const uint8_t *from = (uint8_t *)v->iov_base + off;

		if (n == 0)                     /* an empty entry of a work request has no memory */
			continue;
		/* The octets that follow in the caller's memory are needed next. */
		diw_prefetch(from + n, have - n < g->len ? have - n : g->len);
		if (crc)
			*crc = diw_crc32(*crc, from, n);
		memcpy(to, from, n);
		to += n;
		left -= n;
	}
}

static void segment_stage(struct seal *s, const struct diw_link_seg *g)
{
	uint8_t *p = burst_stage(s, g->hdr_len + g->len + DIW_SEAL_LEN);
	uint32_t crc;

	memcpy(p, g->hdr, g->hdr_len);
	if (s->later || s->open.bare) {
		payload_copy(p + g->hdr_len, g, NULL);
		diw_seal_leave_open(p, g->hdr_len + g->len + DIW_SEAL_LEN);
		return;
	}
	crc = diw_crc32(0, g->hdr, g->hdr_len);
	payload_copy(p + g->hdr_len, g, &crc);
	diw_seal_put(p + g->hdr_len + g->len, crc);
}

static void segment_gather(struct seal *s, const struct diw_link_seg *g)
{
	/* Without CRC: as of diw_seal_leave_open(). */
	uint32_t crc = s->open.bare ? g->hdr_len + g->len + DIW_SEAL_LEN : diw_crc32(0, g->hdr, g->hdr_len);
	struct iovec *to;
	int n;

	memcpy(burst_stage(s, g->hdr_len), g->hdr, g->hdr_len);
	to = s->pieces + s->open.niov;
	n = diw_link_seg_pieces(g, to);
	for (int i = 0; i < n && !s->open.bare; i++)
		crc = diw_crc32(crc, to[i].iov_base, to[i].iov_len);
	s->open.niov += n;
	diw_seal_put(burst_stage(s, DIW_SEAL_LEN), crc);
}

/* 0, or -EAGAIN: not taken. */
static int segment_take(struct seal *s, const struct diw_dest *dst, const struct diw_link_seg *g, uint64_t now)
{
	uint32_t len = g->hdr_len + g->len + DIW_SEAL_LEN;
	int pieces = len <= STAGE_MAX ? 0 : diw_link_seg_entries(g);
	bool gather = pieces > 0 && pieces <= GATHER_MAX;

	pieces = gather ? pieces + 2 : 1;
	if (s->open.len && !(len <= s->open.seg && burst_has_room(s, len, pieces) && g->bare == s->bare &&
			     diw_dest_eq(&s->open.peer, dst)) && burst_send(s, now))
		return -EAGAIN;
	if (!s->open.len)
		burst_begin(s, dst, g, len);
	if (gather)
		segment_gather(s, g);
	else
		segment_stage(s, g);
	s->open.len += len;
	s->open_count++;
	if (!s->later)
		s->sealed = s->open.len;
	s->l.taken++;
	if (!burst_has_room(s, s->open.seg, pieces))
		burst_send(s, now);   /* full; if it is blocked, it waits for flush */
	return 0;
}

static int seal_flush(struct diw_link *l, uint64_t now)
{
	struct seal *s = seal_of(l);

	if (burst_send(s, now) == 0)
		return 0;
	burst_keep(s);
	return -EAGAIN;
}

static int seal_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		     uint64_t now)
{
	struct seal *s = seal_of(l);
	int i = 0;

	while (i < n && segment_take(s, dst, &segs[i], now) == 0)
		i++;
	if (!l->stays && s->open.niov > 1)
		seal_flush(l, now);
	return i;
}

static bool seal_staged(const struct diw_link *l)
{
	const struct seal *s = (const struct seal *)l;

	return s->open.len && s->open.niov == 1;
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

static bool segment_is_intact(struct seal *s, const uint8_t *p, uint32_t len, uint64_t now)
{
	if (len < MIN_SEG + DIW_SEAL_LEN) {
		s->l.c->rx_short++;
		datagram_dropped(s, p, len, "rx_short", now);
	} else if (!s->rest.bare && !(s->rest_own && diw_seal_is_open(p, len)) && !diw_seal_is_good(p, len)) {
		s->l.c->rx_crc++;
		datagram_dropped(s, p, len, "rx_crc", now);
	} else {
		return true;
	}
	return false;
}

/* Returns false if not all N segments were taken. Those that were not are kept. */
static bool segments_offer(struct seal *s, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	int taken = s->l.up->rx(s->l.up_ctx, &s->rest.peer.addr, segs, n, now);

	s->nkept = n - taken;
	memmove(s->kept, segs + taken, (size_t)s->nkept * sizeof *segs);
	return s->nkept == 0;
}

/* Asked before the datagram is read. `bare`: it has no CRC; otherwise it may have none. */
static int seal_reach(struct diw_dgram_reach *r, const struct diw_addr *src, const uint8_t *head, uint32_t len,
		      uint64_t now)
{
	const struct seal *s = diw_container(r, struct seal, reach);
	const struct diw_link_rxseg seg = { .data = head, .len = len - DIW_SEAL_LEN,
					    .bare = s->d->ops->bare && s->d->ops->bare(s->d, src) };

	if (!seg.bare && !(s->l.takes_bare && s->d->ops->own && s->d->ops->own(s->d, src)))
		return 0;
	return s->l.up->reach(s->l.up_ctx, src, &seg, DIW_DGRAM_HEAD, r->place, now);
}

/* Whether the datagram P in `rest`, part of which is in place, has no CRC. */
static bool placed_is_open(const struct seal *s, const uint8_t *p)
{
	return s->rest_own && diw_seal_value(p, s->rest.len - s->reach.placed) == s->rest.len;
}

/* Cuts the burst, checks every segment, and hands up the intact ones. False: some of them wait. */
static bool rx_rest(struct seal *s, uint64_t now)
{
	struct diw_dgram_burst *b = &s->rest;
	int n = 0;

	while (b->len > 0) {
		uint32_t len = b->len < b->seg ? b->len : b->seg;
		const uint8_t *p = s->rest_at;

		if (s->reach.placed || segment_is_intact(s, p, len, now))
			s->kept[n++] = (struct diw_link_rxseg){ .data = p, .len = len - DIW_SEAL_LEN,
				.group = b->group, .placed = s->reach.placed,
				.bare = s->rest_own && (s->reach.placed || diw_seal_is_open(p, len)),
				.to = b->to.port ? &b->to : NULL };
		s->rest_at += len;
		b->len -= len;
		if (n == RX_BATCH || (n && !b->len)) {
			if (!segments_offer(s, s->kept, n, now))
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
	s->rest_own = s->l.takes_bare && s->d->ops->own && s->d->ops->own(s->d, &b->peer.addr);
	if (s->reach.placed && !b->bare && !placed_is_open(s, s->rest_at))
		diw_dgram_unplace(&s->reach, b->iov->iov_base, b->len);
	if (b->len)
		return;
	s->l.c->rx_short++;
	datagram_dropped(s, s->rest_at, 0, "rx_short", now);
}

static bool burst_recv(struct seal *s, struct diw_dgram_burst *b, uint64_t now)
{
	s->reach.placed = 0;
	return s->d->ops->recv(s->d, b, 1, now) == 1;
}

static int seal_poll(struct diw_link *l, int budget, uint64_t now)
{
	struct seal *s = seal_of(l);
	struct diw_dgram_burst b;
	bool goes_on = s->nkept || s->rest.len;
	int n = 0;

	if (s->nkept && !segments_offer(s, s->kept, s->nkept, now))
		return 0;
	while (n < budget && (goes_on || burst_recv(s, &b, now))) {
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

/* ---- Deadline, MULPDU, descriptors, open and close ---- */

static uint64_t seal_deadline(struct diw_link *l)
{
	struct seal *s = seal_of(l);

	/* Segments that wait are offered again when their receiver asks for them. Nothing is received before. */
	return s->nkept ? DIW_NEVER : s->d->ops->deadline(s->d);
}

static uint32_t seal_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	struct seal *s = seal_of(l);

	uint32_t room = s->mulpdu ? s->mulpdu + DIW_SEAL_LEN : s->d->ops->mtu(s->d, dst);

	/* A segment carries at least one byte, whatever MTU a path reports: IP fragments a datagram that is too
	 * large. */
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
	.send = seal_send, .flush = seal_flush, .staged = seal_staged, .discard = seal_discard, .poll = seal_poll,
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
	memset(s, 0, offsetof(struct seal, pieces));
	s->l = (struct diw_link){ .ops = &seal_ops, .dgram = d, .local = d->local, .up = up, .up_ctx = up_ctx,
				  .c = d->c };
	s->d = d;
	s->reach.ask = seal_reach;
	d->reach = up->reach ? &s->reach : NULL;
	s->mulpdu = mulpdu < DIW_DGRAM_MAX - DIW_SEAL_LEN ? mulpdu : DIW_DGRAM_MAX - DIW_SEAL_LEN;
	s->open.iov = s->pieces;
	s->sender.refused = seal_refused;
	s->open.sender = &s->sender;
	s->l.sure = seal_mulpdu(&s->l, &(struct diw_addr){ 0 });        /* IPv6 leaves less room than IPv4 */
	*l = &s->l;
	return 0;
}
