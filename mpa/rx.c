/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving of FPDUs. A read fills the scratch buffer that the device's links share. The FPDUs in it are checked and
 * handed up in small batches, so that they are placed while they are in the cache. Octets that are incomplete, or were
 * not taken, are copied to a buffer of the link. A long incomplete FPDU is completed there by the next read, which puts
 * the rest into the scratch buffer. A short one is copied in front of the next read's data, which is cheaper.
 *
 * Without CRC and markers, the rest of a large incomplete FPDU is received in place: the layer above knows from the
 * FPDU's head where the payload belongs. The same read takes what is behind the FPDU.
 */
#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "mpa/int.h"

#define RX_FPDUS 16
#ifndef BATCH_BYTES
#define BATCH_BYTES 16384u           /* a batch of this size is handed up: it fits the first-level cache */
#endif

#define DIRECT_MIN 8192u             /* octets still to come of an FPDU that is received in place */
#define DIRECT_IOV (DIW_LINK_IOV + 1)

struct fpdu_batch {
	struct diw_link_rxseg segs[RX_FPDUS];
	int n;
	uint32_t bytes;
};

/* Received bytes. They begin with an FPDU; the first `good` bytes are checked and without markers. */
struct span {
	uint8_t *p;
	uint32_t len, at, good;
};

static void stream_down(struct diw_mpa *m, uint16_t fault, int err, uint64_t now)
{
	m->rx_down = true;
	m->l.down = m->rx_ended || err;
	m->rx_stalled = m->rx_direct = false;
	m->rx_len = m->rx_good = 0;
	diw_mpa_own_put(m->pool, &m->rx_own);
	if (fault)
		diw_fault_count(m->l.c, fault);
	m->l.up->down(m->l.up_ctx, fault, err, now);
}

/* ---- One FPDU ---- */

static enum diw_fault check_fpdu(const struct diw_mpa *m, const uint8_t *p, uint32_t wire)
{
	if (m->crc && !diw_fpdu_is_good(0, p, wire))
		return DIW_FAULT_MPA_CRC;
	if (m->rx_markers && !diw_fpdu_markers_point(p, wire, m->rx_pos))
		return DIW_FAULT_MPA_MARKER;
	return DIW_FAULT_NONE;
}

/* ---- A span of FPDUs ---- */

static void batch_add(struct fpdu_batch *b, const uint8_t *p)
{
	uint32_t ulpdu = diw_get16(p);

	b->segs[b->n++] = (struct diw_link_rxseg){ .data = p + DIW_MPA_LEN, .len = ulpdu };
	b->bytes += ulpdu;
}

/* Makes a batch of the next FPDUs of S. A fault is that of the FPDU behind them. */
static enum diw_fault cut_batch(struct diw_mpa *m, struct span *s, struct fpdu_batch *b)
{
	b->n = 0;
	b->bytes = 0;
	while (b->n < RX_FPDUS && b->bytes < BATCH_BYTES) {
		uint8_t *p = s->p + s->at;
		uint32_t wire;
		enum diw_fault fault;

		if (s->at < s->good) {
			batch_add(b, p);
			s->at += diw_fpdu_bare(diw_get16(p));
			continue;
		}
		wire = diw_fpdu_wire_len(p, s->len - s->at, m->rx_pos, m->rx_markers);
		if (!wire || wire > s->len - s->at)
			break;
		fault = check_fpdu(m, p, wire);
		if (fault)
			return fault;
		if (m->rx_markers)
			diw_fpdu_strip_markers(p, wire, m->rx_pos);
		m->rx_pos += wire;
		s->at += wire;
		batch_add(b, p);
	}
	return DIW_FAULT_NONE;
}

/* Moves the segments of B that were not taken, without markers, and the rest of S to the own buffer. Both may already
 * be in it. */
static int own_keep(struct diw_mpa *m, const struct span *s, const struct fpdu_batch *b, int taken)
{
	uint32_t at = 0, rest = s->len - s->at;

	if (!m->rx_own)
		m->rx_own = diw_mpa_own_get(m->pool);
	if (!m->rx_own)
		return -ENOMEM;
	for (int i = taken; i < b->n; i++) {
		uint32_t bare = diw_fpdu_bare(b->segs[i].len);

		memmove(m->rx_own + at, b->segs[i].data - DIW_MPA_LEN, bare - DIW_MPA_CRC);
		at += bare;
	}
	memmove(m->rx_own + at, s->p + s->at, rest);
	m->rx_good = at;             /* FPDUs kept of a batch fit the next batch: none of them is in the rest */
	m->rx_len = at + rest;
	m->rx_stalled = taken < b->n;
	return 0;
}

/* ---- An FPDU that is received in place ---- */

/* Octets of the ULPDU behind the head; all octets of the FPDU behind it. */
static uint32_t direct_payload(const struct diw_mpa *m) { return diw_get16(m->rx_own) - DIW_LINK_MAX_HDR; }
static uint32_t direct_rest(const struct diw_mpa *m) { return diw_fpdu_bare(diw_get16(m->rx_own)) - DIW_MPA_HEAD; }

/* The places of the octets of an FPDU from AT on; *P has at least its head. */
static int direct_reach(struct diw_mpa *m, const uint8_t *p, uint32_t at, struct iovec *iov, uint64_t now)
{
	const struct diw_link_rxseg seg = { .data = p + DIW_MPA_LEN, .len = diw_get16(p) };

	return m->l.up->reach(m->l.up_ctx, &m->s->peer, &seg, DIW_LINK_MAX_HDR + at, iov, now);
}

/* Begins with the rest of S, if it is the front of a large FPDU that has a place. */
static bool direct_begin(struct diw_mpa *m, const struct span *s, uint64_t now)
{
	const uint8_t *p = s->p + s->at;
	uint32_t rest = s->len - s->at, at = 0;
	struct iovec iov[DIW_LINK_IOV];
	int n;

	if (m->crc || m->rx_markers || !m->l.up->reach || rest < DIW_MPA_HEAD ||
	    DIW_MPA_LEN + diw_get16(p) < rest + DIRECT_MIN)
		return false;
	if (!m->rx_own)
		m->rx_own = diw_mpa_own_get(m->pool);
	if (!m->rx_own)
		return false;
	n = direct_reach(m, p, 0, iov, now);
	if (n == 0)
		return false;
	rest -= DIW_MPA_HEAD;
	for (int i = 0; i < n && at < rest; i++) {
		size_t part = iov[i].iov_len < rest - at ? iov[i].iov_len : rest - at;

		memcpy(iov[i].iov_base, p + DIW_MPA_HEAD + at, part);
		at += (uint32_t)part;
	}
	memmove(m->rx_own, p, DIW_MPA_HEAD);
	m->rx_len = DIW_MPA_HEAD;
	m->rx_placed = at;
	m->rx_direct = true;
	m->rx_dropped = false;
	return true;
}

/* Hands up the FPDUs in S. False: the layer above was told that no more will come. */
static bool feed_span(struct diw_mpa *m, struct span s, uint64_t now)
{
	enum diw_fault fault;
	struct fpdu_batch b;
	int taken;

	do {
		fault = cut_batch(m, &s, &b);
		taken = b.n ? m->l.up->rx(m->l.up_ctx, &m->s->peer, b.segs, b.n, now) : 0;
		m->l.c->rx_fpdus += (uint64_t)taken;
	} while (!fault && b.n && taken == b.n);
	if (fault && taken == b.n) {
		stream_down(m, fault, 0, now);
		return false;
	}
	m->rx_stalled = false;
	m->rx_len = m->rx_good = 0;
	if (s.at == s.len && taken == b.n) {
		diw_mpa_own_put(m->pool, &m->rx_own);
	} else if (taken < b.n || !direct_begin(m, &s, now)) {
		if (own_keep(m, &s, &b, taken) == 0)
			return true;
		stream_down(m, DIW_FAULT_MPA_LOCAL, ENOMEM, now);
		return false;
	}
	return true;
}

/* Hands up the FPDU, which is complete, and the LEN octets at P, which came behind it. */
static void direct_end(struct diw_mpa *m, uint8_t *p, uint32_t len, uint64_t now)
{
	const struct diw_link_rxseg seg = { .data = m->rx_own + DIW_MPA_LEN, .len = diw_get16(m->rx_own),
					    .placed = direct_payload(m) };

	m->rx_stalled = m->l.up->rx(m->l.up_ctx, &m->s->peer, &seg, 1, now) == 0;
	if (m->rx_stalled) {
		memmove(m->rx_own + DIW_MPA_HEAD, p, len);
		m->rx_len = DIW_MPA_HEAD + len;
		return;
	}
	m->l.c->rx_fpdus++;
	m->rx_pos += diw_fpdu_bare(seg.len);
	m->rx_direct = false;
	feed_span(m, (struct span){ p, len, 0, 0 }, now);
}

/* ---- From the stream ---- */

/* The stream has ended, or failed. */
static void stream_ended(struct diw_mpa *m, ssize_t got, uint64_t now)
{
	if (got == 0) {
		m->rx_ended = true;
		if (m->tx_errno)
			stream_down(m, DIW_FAULT_MPA_CLOSED, m->tx_errno, now);
		else if (m->rx_len)
			stream_down(m, DIW_FAULT_MPA_CLOSED, ECONNRESET, now);
		else
			stream_down(m, DIW_FAULT_NONE, 0, now);
	} else if (got != -EAGAIN) {
		m->tx_errno = (int)-got;
		stream_down(m, DIW_FAULT_MPA_CLOSED, (int)-got, now);
	} else if (m->tx_errno == ENOMEM) {
		stream_down(m, DIW_FAULT_MPA_LOCAL, ENOMEM, now);
	} else if (m->tx_errno) {
		stream_down(m, DIW_FAULT_MPA_CLOSED, m->tx_errno, now);
	}
}

static ssize_t recv_bytes(struct diw_mpa *m, const struct iovec *iov, int n, uint64_t now)
{
	ssize_t got = m->s->ops->recv(m->s, iov, n);

	if (got <= 0) {
		stream_ended(m, got, now);
		return got;
	}
	m->l.c->rx_bursts++;
	m->l.c->rx_bytes += (uint64_t)got;
	return got;
}

/* Reads behind a short remainder, or none. False: no bytes came. */
static bool read_short(struct diw_mpa *m, uint64_t now)
{
	uint8_t *p = m->pool->scratch + DIW_MPA_FRONT;
	struct iovec iov = { p, DIW_MPA_SCRATCH };
	ssize_t got = recv_bytes(m, &iov, 1, now);
	uint32_t rest = m->rx_len;

	if (got <= 0)
		return false;
	if (rest)
		memcpy(p - rest, m->rx_own, rest);
	feed_span(m, (struct span){ p - rest, rest + (uint32_t)got, 0, 0 }, now);
	return true;
}

/* Reads the rest of the kept FPDU, and the bytes behind it. */
static bool read_long(struct diw_mpa *m, uint64_t now)
{
	uint32_t want = diw_fpdu_wire_len(m->rx_own, m->rx_len, m->rx_pos, m->rx_markers) - m->rx_len, more;
	struct iovec iov[2] = { { m->rx_own + m->rx_len, want }, { m->pool->scratch, DIW_MPA_SCRATCH } };
	ssize_t got = recv_bytes(m, iov, 2, now);

	if (got <= 0)
		return false;
	if ((uint32_t)got < want) {
		m->rx_len += (uint32_t)got;
		return true;
	}
	more = (uint32_t)got - want;
	if (!feed_span(m, (struct span){ m->rx_own, m->rx_len + want, 0, 0 }, now) || !more)
		return true;
	if (!m->rx_stalled) {
		feed_span(m, (struct span){ m->pool->scratch, more, 0, 0 }, now);
		return true;
	}
	memcpy(m->rx_own + m->rx_len, m->pool->scratch, more);
	m->rx_len += more;
	return true;
}

/* Receives the rest of an FPDU in place, and the octets behind it. False: no bytes came. */
static bool read_direct(struct diw_mpa *m, uint64_t now)
{
	uint32_t payload = direct_payload(m), rest = direct_rest(m), placed = m->rx_placed, tail;
	uint8_t *behind = m->pool->scratch + DIW_MPA_MAX_FPDU;       /* dropped octets are in front */
	struct iovec iov[DIRECT_IOV];
	ssize_t got;
	int n = 0;

	if (placed < payload) {
		n = m->rx_dropped ? 0 : direct_reach(m, m->rx_own, placed, iov, now);
		if (n == 0 && placed == 0) {
			m->rx_direct = false;   /* rx_own has the beginning of an FPDU that is not received in place */
			return true;
		}
		m->rx_dropped = n == 0;
		if (n == 0)
			iov[n++] = (struct iovec){ m->pool->scratch, payload - placed };
	}
	tail = rest - (placed < payload ? payload : placed);
	iov[n++] = (struct iovec){ behind, sizeof m->pool->scratch - DIW_MPA_MAX_FPDU };
	got = recv_bytes(m, iov, n, now);
	if (got <= 0)
		return false;
	m->rx_placed += (uint32_t)got;
	if (m->rx_placed < rest)
		return true;
	direct_end(m, behind + tail, m->rx_placed - rest, now);
	return true;
}

/* After a fault the rest of the stream is read and dropped. Closing a socket with unread bytes resets the stream, and
 * the peer might lose the Terminate with the reason. */
static void rest_discard(struct diw_mpa *m)
{
	struct iovec iov = { m->pool->scratch, DIW_MPA_SCRATCH };
	ssize_t got = m->s->ops->recv(m->s, &iov, 1);

	m->rx_ended = got == 0;
	m->l.down = got <= 0 && got != -EAGAIN;
}

int diw_mpa_poll(struct diw_link *l, int budget, uint64_t now)
{
	struct diw_mpa *m = diw_mpa_of(l);
	bool was_down = l->down;
	int n = 0;

	if (m->rx_down && !l->down)
		rest_discard(m);
	if (m->rx_stalled && m->rx_direct)
		direct_end(m, m->rx_own + DIW_MPA_HEAD, m->rx_len - DIW_MPA_HEAD, now);
	else if (m->rx_stalled)
		feed_span(m, (struct span){ m->rx_own, m->rx_len, 0, m->rx_good }, now);
	while (n < budget && !m->rx_down && !m->rx_stalled) {
		if (!(m->rx_direct ? read_direct(m, now) : m->rx_len > DIW_MPA_FRONT ? read_long(m, now) :
		      read_short(m, now)))
			break;
		n++;
	}
	return n + (l->down && !was_down);      /* the link's end counts as news for the thread that polls */
}
