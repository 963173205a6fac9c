/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending of FPDUs. FPDUs share an open write until flush or until it is full. Small ones are staged, that is, copied
 * one behind the other. If the payload stays valid until flush, large ones are pieces of the caller's memory. Otherwise
 * large FPDUs of a long message are gathered: their payload goes from the caller's memory to the stream before send
 * returns. Bytes of a segment that the stream does not take are copied to a buffer of the link. Until this buffer is
 * empty, no more segments are taken, and none has left.
 */
#include <errno.h>
#include <string.h>

#include "mpa/int.h"

#ifndef GATHER_CALL                  /* docs/performance.md says how it was found */
#define GATHER_CALL 98304u           /* segments of one call with at least this payload in all are gathered, */
#endif
#define GATHER_MIN 8192u             /* each with at least this payload */
#define GATHER_IOV 64
#ifndef OPEN_MIN
#define OPEN_MIN 16384u              /* a payload of at least this size that stays is a piece of the open write */
#endif

_Static_assert(DIW_MPA_FIRST >= DIW_MPA_MAX_FPDU + DIW_MPA_EDGE, "any FPDU fits a write");

/* ---- To the stream ---- */

static bool write_is_blocked(const struct diw_mpa *m)
{
	return m->tx_len || m->tx_errno;
}

/* Returns the bytes that the stream took. A stream that has broken takes none. */
static size_t push_bytes(struct diw_mpa *m, const struct iovec *iov, int n, size_t len)
{
	ssize_t got = m->s->ops->send(m->s, iov, n);

	if (got < 0 && got != -EAGAIN) {
		m->tx_errno = got == -EPIPE ? ECONNRESET : (int)-got;   /* a reset that another call has reported */
		return 0;
	}
	if (got > 0) {
		m->l.c->tx_bursts++;
		m->l.c->tx_bytes += (uint64_t)got;
	}
	if (got < (ssize_t)len)
		m->l.c->tx_blocked++;
	return got > 0 ? (size_t)got : 0;
}

/* A segment has left when the stream has all its octets, which then arrive even if this process ends. */
static void note_left(struct diw_mpa *m)
{
	if (!write_is_blocked(m))
		m->l.left = m->l.taken;
}

/* Keeps bytes of taken segments that the stream has not taken. */
static void keep_bytes(struct diw_mpa *m, const void *p, size_t len)
{
	if (!len || m->tx_errno)
		return;
	if (!m->tx_own) {
		m->tx_own = diw_mpa_own_get(m->pool);
		m->tx_off = 0;
	}
	if (!m->tx_own) {
		m->tx_errno = ENOMEM;
		return;
	}
	memcpy(m->tx_own + m->tx_off + m->tx_len, p, len);
	m->tx_len += (uint32_t)len;
}

/* Sends the kept bytes first. */
static void drain_own(struct diw_mpa *m)
{
	struct iovec iov = { m->tx_own + m->tx_off, m->tx_len };

	if (m->tx_len && !m->tx_errno) {
		uint32_t sent = (uint32_t)push_bytes(m, &iov, 1, m->tx_len);

		m->tx_off += sent;
		m->tx_len -= sent;
	}
	if (m->tx_own && (!m->tx_len || m->tx_errno)) {
		m->tx_len = 0;
		diw_mpa_own_put(m->pool, &m->tx_own);
		note_left(m);
	}
}

void diw_mpa_unstage(struct diw_mpa *m)
{
	struct diw_mpa_pool *p = m->pool;

	if (p->stager == m) {
		p->stager = NULL;
		p->staged = p->open_len = 0;
		p->npieces = 0;
		note_left(m);
	}
}

/* Copies the octets of the open write from FROM on, which the stream has not taken. */
static void keep_pieces(struct diw_mpa *m, size_t from)
{
	const struct iovec *v = m->pool->pieces;

	for (int i = 0; i < m->pool->npieces; i++, v++) {
		size_t skip = from < v->iov_len ? from : v->iov_len;

		keep_bytes(m, (uint8_t *)v->iov_base + skip, v->iov_len - skip);
		from -= skip;
	}
}

static void send_stage(struct diw_mpa *m)
{
	struct diw_mpa_pool *p = m->pool;

	if (p->stager == m && !m->tx_errno && p->open_len)
		keep_pieces(m, push_bytes(m, p->pieces, p->npieces, p->open_len));
	diw_mpa_unstage(m);
}

/* Makes M the stage's owner; the bytes of another link are sent. */
static void claim_stage(struct diw_mpa *m)
{
	if (m->pool->stager && m->pool->stager != m)
		send_stage(m->pool->stager);
	m->pool->stager = m;
}

/* ---- Staging ---- */

/* The next LEN octets of the open write are these of the stage, to be written by the caller. */
static uint8_t *stage_piece(struct diw_mpa_pool *pool, uint32_t len)
{
	struct iovec *last = pool->pieces + pool->npieces - 1;
	uint8_t *p = pool->stage + pool->staged;

	if (pool->npieces && (uint8_t *)last->iov_base + last->iov_len == p)
		last->iov_len += len;
	else
		pool->pieces[pool->npieces++] = (struct iovec){ p, len };
	pool->staged += len;
	pool->open_len += len;
	return p;
}

static void stage_copy(struct diw_mpa *m, const struct diw_link_seg *g)
{
	struct diw_mpa_pool *pool = m->pool;
	uint32_t ulpdu = g->hdr_len + g->len, len = diw_fpdu_bare(ulpdu);
	uint8_t *p = pool->stage + pool->staged, *end;

	diw_put16(p, (uint16_t)ulpdu);
	memcpy(p + DIW_MPA_LEN, g->hdr, g->hdr_len);
	end = diw_link_seg_copy(g, p + DIW_MPA_LEN + g->hdr_len);
	memset(end, 0, (size_t)(p + len - end));
	if (m->tx_markers)
		len = diw_fpdu_insert_markers(p, len, m->tx_pos);
	if (m->crc)
		diw_put32le(p + len - DIW_MPA_CRC, diw_crc32c(0, p, len - DIW_MPA_CRC));
	stage_piece(pool, len);
	m->tx_pos += len;
	m->l.taken++;
	m->l.c->tx_fpdus++;
	if (m->packed)
		send_stage(m);
}

static bool stage_fits(const struct diw_mpa *m, uint32_t ulpdu)
{
	uint32_t len = diw_fpdu_bare(ulpdu);

	if (m->tx_markers)
		len += DIW_MPA_MARKER * diw_fpdu_markers(m->tx_pos, len);
	return m->pool->staged + len <= DIW_MPA_STAGE && m->pool->open_len + len <= DIW_MPA_WRITE &&
	       m->pool->npieces < DIW_MPA_PIECES;
}

/* False: not taken. */
static bool stage_fpdu(struct diw_mpa *m, const struct diw_link_seg *g)
{
	claim_stage(m);
	if (!stage_fits(m, g->hdr_len + g->len)) {
		send_stage(m);
		if (write_is_blocked(m))
			return false;
		claim_stage(m);
	}
	stage_copy(m, g);
	return true;
}

/* ---- Gathering ---- */

/* One write: the staged bytes, then large FPDUs. The pool's edges hold their headers and ends: the end of an FPDU and
 * the beginning of the next one are one piece. */
struct gather {
	struct iovec iov[GATHER_IOV];
	int niov, fpdus;
	size_t len, staged;
	size_t end[DIW_MPA_EDGES];   /* end of each FPDU, as an offset in the write */
};

/* Writes the MPA length and the header to P. Returns their CRC. */
static uint32_t put_head(const struct diw_mpa *m, uint8_t *p, const struct diw_link_seg *g)
{
	diw_put16(p, (uint16_t)(g->hdr_len + g->len));
	memcpy(p + DIW_MPA_LEN, g->hdr, g->hdr_len);
	return m->crc ? diw_crc32c(0, p, DIW_MPA_LEN + g->hdr_len) : 0;
}

/* Writes the pieces of the payload to TO, and continues CRC over them. Returns the number of pieces. */
static int put_pieces(const struct diw_mpa *m, struct iovec *to, const struct diw_link_seg *g, uint32_t *crc)
{
	int n = diw_link_seg_pieces(g, to);

	for (int i = 0; m->crc && i < n; i++)
		*crc = diw_crc32c(*crc, to[i].iov_base, to[i].iov_len);
	return n;
}

static bool segment_gathers(const struct diw_mpa *m, const struct diw_link_seg *g)
{
	return g->len >= GATHER_MIN && !m->packed && !m->tx_markers && diw_link_seg_entries(g) <= GATHER_IOV - 3;
}

static void gather_piece(struct gather *w, const void *p, size_t len)
{
	w->iov[w->niov++] = (struct iovec){ (void *)p, len };
	w->len += len;
}

/* The last piece is the edge behind the last FPDU. The beginning of the new FPDU is added to it, or is a new piece. */
static void gather_fpdu(struct diw_mpa *m, struct gather *w, const struct diw_link_seg *g)
{
	uint8_t (*edge)[DIW_MPA_EDGE] = m->pool->edge;
	uint32_t ulpdu = g->hdr_len + g->len, tail = diw_fpdu_tail(ulpdu);
	size_t at = w->fpdus ? w->iov[w->niov - 1].iov_len : 0;
	uint8_t *p = edge[w->fpdus] + at;
	uint32_t crc = put_head(m, p, g);

	if (w->fpdus) {
		w->iov[w->niov - 1].iov_len += DIW_MPA_LEN + g->hdr_len;
		w->len += DIW_MPA_LEN + g->hdr_len;
	} else {
		gather_piece(w, p, DIW_MPA_LEN + g->hdr_len);
	}
	w->niov += put_pieces(m, w->iov + w->niov, g, &crc);
	w->len += g->len;
	p = edge[++w->fpdus];
	diw_fpdu_put_tail(p, tail, m->crc, crc);
	gather_piece(w, p, tail);
	w->end[w->fpdus - 1] = w->len;
}

/* Keeps the bytes FROM to TO of the write. */
static void keep_range(struct diw_mpa *m, const struct gather *w, size_t from, size_t to)
{
	size_t at = 0;

	for (int i = 0; i < w->niov && at < to; at += w->iov[i++].iov_len) {
		size_t end = at + w->iov[i].iov_len, a = from > at ? from : at, b = to < end ? to : end;

		if (a < b)
			keep_bytes(m, (uint8_t *)w->iov[i].iov_base + (a - at), b - a);
	}
}

/* Returns how many FPDUs of the write are taken: those of which at least one byte left. */
static int send_gather(struct diw_mpa *m, struct gather *w)
{
	size_t sent = push_bytes(m, w->iov, w->niov, w->len), last = w->staged;
	int taken = 0;

	while (taken < w->fpdus && sent > last)
		last = w->end[taken++];
	keep_range(m, w, sent, last);
	m->l.taken += (uint32_t)taken;
	diw_mpa_unstage(m);
	m->l.c->tx_fpdus += (uint64_t)taken;
	return taken;
}

/* Makes one write of as many segments from the front as fit. Returns how many were taken. */
static int gather_fpdus(struct diw_mpa *m, const struct diw_link_seg *segs, int n, bool *stop)
{
	struct gather w;
	int taken;

	w.niov = w.fpdus = 0;
	w.len = 0;
	claim_stage(m);
	if (m->pool->npieces > 1) {
		send_stage(m);
		*stop = write_is_blocked(m);
		if (*stop)
			return 0;
		claim_stage(m);
	}
	if (m->pool->staged)
		gather_piece(&w, m->pool->stage, m->pool->staged);
	w.staged = w.len;
	while (w.fpdus < n && w.fpdus < DIW_MPA_EDGES - 1 && segment_gathers(m, &segs[w.fpdus]) &&
	       w.niov + diw_link_seg_entries(&segs[w.fpdus]) + 2 <= GATHER_IOV &&
	       (!w.fpdus || w.len + segs[w.fpdus].len <= DIW_MPA_WRITE))
		gather_fpdu(m, &w, &segs[w.fpdus]);
	taken = send_gather(m, &w);
	*stop = taken < w.fpdus;
	return taken;
}

static bool segment_stays(const struct diw_mpa *m, const struct diw_link_seg *g)
{
	return m->l.stays && g->len >= OPEN_MIN && segment_gathers(m, g);
}

/* Sends the open write, which is full. With CRC a run begins with a small write: the peer has the first octets before
 * the CRCs of the others are computed. */
static void send_full(struct diw_mpa *m)
{
	struct diw_mpa_pool *p = m->pool;

	p->limit = p->limit < DIW_MPA_WRITE / 2 ? 2 * p->limit : DIW_MPA_WRITE;
	send_stage(m);
}

static bool open_has_room(const struct diw_mpa *m, const struct diw_link_seg *g)
{
	const struct diw_mpa_pool *pool = m->pool;
	uint32_t limit = m->crc ? pool->limit : DIW_MPA_WRITE;

	return pool->npieces + diw_link_seg_entries(g) + 2 <= DIW_MPA_PIECES &&
	       pool->staged + DIW_MPA_EDGE <= DIW_MPA_STAGE && pool->open_len + g->len + DIW_MPA_EDGE <= limit;
}

/* Adds an FPDU to the open write. Its payload stays in the caller's memory until the write. False: not taken. */
static bool open_fpdu(struct diw_mpa *m, const struct diw_link_seg *g)
{
	struct diw_mpa_pool *pool = m->pool;
	uint32_t ulpdu = g->hdr_len + g->len, tail = diw_fpdu_tail(ulpdu), crc;

	claim_stage(m);
	if (!open_has_room(m, g)) {
		send_full(m);
		if (write_is_blocked(m))
			return false;
		claim_stage(m);
	}
	crc = put_head(m, stage_piece(pool, DIW_MPA_LEN + g->hdr_len), g);
	pool->npieces += put_pieces(m, pool->pieces + pool->npieces, g, &crc);
	pool->open_len += g->len;
	diw_fpdu_put_tail(stage_piece(pool, tail), tail, m->crc, crc);
	m->tx_pos += diw_fpdu_bare(ulpdu);
	m->l.taken++;
	m->l.c->tx_fpdus++;
	return true;
}

/* ---- The calls of the link ---- */

int diw_mpa_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n, uint64_t now)
{
	struct diw_mpa *m = diw_mpa_of(l);
	bool stop = m->tx_fin;
	size_t len = 0;
	int i = 0;

	(void)dst;
	(void)now;
	drain_own(m);
	for (int j = 0; j < n; j++)
		len += segs[j].len;
	while (i < n && !stop && !write_is_blocked(m)) {
		bool open = segment_stays(m, &segs[i]);

		if (!open && len >= GATHER_CALL && segment_gathers(m, &segs[i]))
			i += gather_fpdus(m, segs + i, n - i, &stop);
		else if (open ? open_fpdu(m, &segs[i]) : stage_fpdu(m, &segs[i]))
			i++;
	}
	return i;
}

int diw_mpa_send_empty(struct diw_link *l, uint64_t now)
{
	const struct diw_link_seg none = { .hdr = (const uint8_t *)"" };

	return diw_mpa_send(l, NULL, &none, 1, now) == 1 ? 0 : -EAGAIN;
}

int diw_mpa_flush(struct diw_link *l, uint64_t now)
{
	struct diw_mpa *m = diw_mpa_of(l);

	(void)now;
	drain_own(m);
	if (m->pool->stager == m)
		send_stage(m);
	m->pool->limit = DIW_MPA_FIRST;
	if (m->tx_errno)
		return -m->tx_errno;
	if (m->tx_len)
		return -EAGAIN;
	if (m->tx_fin && !m->tx_shut) {
		m->tx_shut = true;
		m->s->ops->shutdown(m->s);
	}
	return 0;
}

void diw_mpa_shutdown(struct diw_link *l, uint64_t now)
{
	diw_mpa_of(l)->tx_fin = true;
	diw_mpa_flush(l, now);
}
