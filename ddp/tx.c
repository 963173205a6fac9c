/* SPDX-License-Identifier: BSD-2-Clause */
/* Cuts a message into a burst of segments, at MULPDU (RFC 5041 section 5.1). */
#include <errno.h>

#include "base/trace.h"
#include "ddp/ddp.h"

#define TX_BURST 64

/* Segments beyond which a message fills super-buffers by itself. */
#define EQUAL_MAX 64

/* As few segments as MAX allows, all of one size but for the last, which is shorter by less than their number. On
 * datagrams up to two fifths more segments are cut if then all are equal: a shorter one ends a super-buffer of UDP
 * segmentation offload, which the next message could share (llp/seal.c). */
static uint32_t segment_size(uint32_t length, uint32_t max, bool datagrams)
{
	uint32_t n;

	if (length <= max)
		return length;
	n = length / max + (length % max != 0);
	for (uint32_t k = n; datagrams && k <= n + n * 2 / 5 && k <= EQUAL_MAX; k++)
		if (length % k == 0)
			return length / k;
	return (length + n - 1) / n;
}

void diw_ddp_tx_begin(struct diw_ddp *d, struct diw_ddp_tx *tx, bool draw_msn)
{
	uint32_t hdr_len;

	tx->h.plain = d->link->ordered;
	tx->h.epoch = d->epoch;
	if (tx->h.plain && !tx->h.tagged)
		tx->h.msn = d->order.tx_msn[tx->h.qn]++;
	else if (draw_msn)
		tx->h.msn = tx->h.tagged ? d->msn_tagged++ : d->msn_untagged++;
	hdr_len = diw_ddp_hdr_len(&tx->h);
	tx->seg = tx->h.length;
	if (hdr_len + (uint64_t)tx->h.length > d->link->sure)
		tx->seg = segment_size(tx->h.length, diw_ddp_mulpdu(d, &tx->dst.addr) - hdr_len, !tx->h.plain);
	tx->off = 0;
	tx->toll = d->cfg.toll;
	tx->held = 0;
	tx->active = true;
}

/* A position in a message's payload. */
struct payload_cursor { const struct iovec *iov; size_t off; };

static void cursor_advance(struct payload_cursor *c, size_t n)
{
	c->off += n;
	while (c->off && c->off >= c->iov->iov_len) {
		c->off -= c->iov->iov_len;
		c->iov++;
	}
}

/* Whether the next segment, of COST, must wait for the window. */
static bool segment_held(const struct diw_ddp_tx *tx, int64_t cost, int64_t window, bool first)
{
	return tx->toll && cost > window && !(first && tx->alone);
}

/* Cuts up to TX_BURST segments from OFF on. Returns their number. */
static int cut_segments(struct diw_ddp_tx *tx, struct payload_cursor *at, int64_t budget,
			uint8_t hdr[][DIW_LINK_MAX_HDR], struct diw_link_seg *segs)
{
	uint32_t off = tx->off;
	int64_t window = tx->window;
	int n = 0;

	do {
		uint32_t len = tx->h.length - off < tx->seg ? tx->h.length - off : tx->seg;
		uint32_t cost = diw_ddp_hdr_len(&tx->h) + len + tx->toll;

		if (segment_held(tx, cost, window, n == 0)) {
			tx->held = cost;
			break;
		}
		tx->h.mo = off;
		tx->h.last = off + len == tx->h.length;
		segs[n].hdr = hdr[n];
		segs[n].hdr_len = diw_ddp_hdr_encode(hdr[n], &tx->h);
		segs[n].len = len;
		segs[n].iov = at->iov;
		segs[n].off = at->off;
		segs[n].owner = tx->owner;
		segs[n].at = off;
		segs[n].bare = false;
		if (!tx->h.last)
			cursor_advance(at, len);
		tx->h.to += len;
		off += len;
		budget -= cost;
		window -= cost;
		n++;
	} while (off < tx->h.length && n < TX_BURST && budget > 0);
	tx->h.to -= off - tx->off;              /* added again when the link has taken them */
	return n;
}

static void segment_sent(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct diw_link_seg *seg, int64_t *budget)
{
	int64_t cost = (int64_t)seg->hdr_len + seg->len + tx->toll;

	DIW_TRACE_SEGMENT_SENT(d->c, tx->h.opcode, tx->h.msn, tx->off, seg->len, tx->dst.addr.port);
	tx->off += seg->len;
	tx->h.to += seg->len;
	tx->window -= cost;
	tx->alone = false;
	*budget -= cost;
	d->c->tx_payload += seg->len;
}

/* Continues a message that may have several segments. */
static int send_segments(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct iovec *iov, int64_t *budget,
			 uint64_t now)
{
	uint8_t hdr[TX_BURST][DIW_LINK_MAX_HDR];
	struct diw_link_seg segs[TX_BURST];
	struct payload_cursor at = { iov, 0 };

	cursor_advance(&at, tx->off);
	while (tx->active) {
		struct payload_cursor ahead = at;
		int n, taken;

		if (*budget <= 0)
			return -EBUSY;
		tx->held = 0;
		n = cut_segments(tx, &ahead, *budget, hdr, segs);
		if (n == 0)
			return -EBUSY;
		taken = d->link->ops->send(d->link, &tx->dst, segs, n, now);
		for (int i = 0; i < taken; i++)
			segment_sent(d, tx, &segs[i], budget);
		d->c->tx_segments += (uint64_t)taken;
		if (taken && tx->off == tx->h.length)
			tx->active = false;
		else if (taken < n)
			return -EAGAIN;
		else
			at = ahead;
	}
	d->c->tx_messages++;
	return 0;
}

/* A message of one segment. */
static int send_whole(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct iovec *iov, int64_t *budget, uint64_t now)
{
	uint8_t hdr[DIW_LINK_MAX_HDR];
	struct diw_link_seg seg = { .hdr = hdr, .len = tx->h.length, .iov = iov, .owner = tx->owner };

	tx->h.mo = 0;
	tx->h.last = true;
	seg.hdr_len = diw_ddp_hdr_encode(hdr, &tx->h);
	if (d->link->ops->send(d->link, &tx->dst, &seg, 1, now) < 1)
		return -EAGAIN;
	segment_sent(d, tx, &seg, budget);
	d->c->tx_segments++;
	tx->active = false;
	d->c->tx_messages++;
	return 0;
}

int diw_ddp_tx_run(struct diw_ddp *d, struct diw_ddp_tx *tx, const struct iovec *iov, int64_t *budget, uint64_t now)
{
	if (tx->h.length > tx->seg || tx->toll)
		return send_segments(d, tx, iov, budget, now);
	return *budget > 0 ? send_whole(d, tx, iov, budget, now) : -EBUSY;
}
