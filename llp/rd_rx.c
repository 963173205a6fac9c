/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiver of reliable datagrams: docs/ud-profile.md sections 18.4 and 18.5. Segments in order go up without a
 * copy. A segment that came too early, or that the layer above has not taken, is held. The bitmap acknowledges a held
 * segment at once; `ack` acknowledges it when the layer above has taken it.
 */
#include "llp/rd.h"

#define ACK_EVERY 16u                /* segments between two acknowledgements */
#define PERIOD (50 * DIW_MS)         /* a peer is a sender if it sent in this period or in the one before */
#define KERNEL_EXTRA 800u            /* bytes that the kernel counts for each datagram, beside half of its length
				      * again */
#define SHARES_MAX 16u

/* Bytes of the receive buffer that a segment of LEN octets takes. */
static uint32_t kernel_octets(uint32_t len)
{
	return len + len / 2 + KERNEL_EXTRA;
}

/* The segments of P that the socket's receive buffer holds, if all recent senders have equal shares. */
static uint32_t window_share(const struct rd *rd, const struct rd_peer *p)
{
	uint32_t senders = rd->senders[0] > rd->senders[1] ? rd->senders[0] : rd->senders[1];
	uint32_t each = rd->l.dgram->rcvbuf / kernel_octets(p->size) * rd->shares;

	return rd->l.dgram->rcvbuf ? each / (senders ? senders : 1) : UINT32_MAX;
}

/* If the receiver always empties the socket's buffer long before it is full, the windows together may exceed the
 * buffer: segments that are in flight on a long path do not arrive at the same time. */
static void shares_adapt(struct rd *rd)
{
	if (rd->senders[0] > 2 * rd->senders[1] || rd->backlog_max > rd->l.dgram->rcvbuf / 2)
		rd->shares = rd->senders[0] > 2 * rd->senders[1] || rd->shares < 2 ? 1 : rd->shares / 2;
	else if (rd->backlog_max < rd->l.dgram->rcvbuf / 4 && rd->shares < SHARES_MAX)
		rd->shares *= 2;
	rd->backlog_max = 0;
}

/* Counts that P has sent N segments of LEN octets. */
static void sender_count(struct rd *rd, struct rd_peer *p, uint32_t n, uint32_t len, uint64_t now)
{
	if (now - rd->period_from >= PERIOD) {
		shares_adapt(rd);
		rd->senders[1] = now - rd->period_from < 2 * PERIOD ? rd->senders[0] : 0;
		rd->senders[0] = 0;
		rd->period_from = now;
		rd->period++;
	}
	if (p->period != rd->period) {
		p->period = rd->period;
		rd->senders[0]++;
	}
	rd->backlog += n * kernel_octets(len);
	rd->backlog_max = rd->backlog > rd->backlog_max ? rd->backlog : rd->backlog_max;
	p->size = len >= p->size ? len : p->size - (p->size - len) / 16;
}

/* The window is at most the number of free entries for held segments, so a peer whose segments are not taken leaves
 * room for others. */
static uint16_t rx_window(const struct rd *rd, const struct rd_peer *p)
{
	uint32_t left = rd->held.cap - rd->held.used;
	uint32_t room = p->nheld + (p->nheld < left ? 1 + (left - p->nheld) / 2 : 0);

	uint32_t share = window_share(rd, p);

	room = room < rd->cfg.window ? room : rd->cfg.window;
	room = room < share ? room : share;
	return (uint16_t)(room ? room : 1);
}

void diw_rd_rx_forget(struct rd *rd, struct rd_peer *p)
{
	while (p->held) {
		struct rd_held *e = p->held;

		p->held = e->next;
		diw_pool_put(&rd->held, e);
	}
	p->held_last = NULL;
	p->nheld = p->unacked = 0;
	p->ack_at = DIW_NEVER;
	p->ack_now = p->echoes = false;
}

/* Nothing holds a segment that is in place, so it must be sent again. */
static void held_put(struct rd *rd, struct rd_peer *p, uint32_t seq, const struct diw_link_rxseg *seg)
{
	struct rd_held **at = &p->held, *e;

	if (p->held_last && diw_serial_after(seq, p->held_last->seq))
		at = &p->held_last->next;
	while (*at && diw_serial_after(seq, (*at)->seq))
		at = &(*at)->next;
	if (*at && (*at)->seq == seq) {
		rd->l.c->rd_duplicates++;
		return;
	}
	e = seg->len <= rd->large_size && !seg->placed ? diw_pool_get(&rd->held) : NULL;
	if (!e) {
		rd->l.c->rd_held_full++;
		return;
	}
	*e = (struct rd_held){ .next = *at, .seq = seq, .len = seg->len };
	memcpy(e->data, seg->data, seg->len);
	*at = e;
	if (!e->next)
		p->held_last = e;
	p->nheld++;
}

static void ack_later(struct rd *rd, struct rd_peer *p, uint32_t n, uint64_t now)
{
	p->unacked += n;
	if (p->ack_now || p->unacked >= ACK_EVERY)
		p->ack_at = now;
	else
		p->ack_at = diw_min64(p->ack_at, now + rd->cfg.ack_ns);
	diw_rd_timer_set(rd, p, p->ack_at);
}

/* Hands up segments in order, and holds those that are not taken. */
static void run_deliver(struct rd *rd, struct rd_peer *p, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	int taken = rd->l.up->rx(rd->l.up_ctx, &p->dest.addr, segs, n, now);

	p->expect += (uint32_t)taken;
	for (int i = taken; i < n && !p->refused; i++)
		held_put(rd, p, p->expect + (uint32_t)(i - taken), &segs[i]);
}

void diw_rd_rx_deliver(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	uint32_t before = p->expect;

	while (p->held && p->held->seq == p->expect) {
		struct rd_held *e = p->held;
		const struct diw_link_rxseg seg = { .data = e->data, .len = e->len };

		if (rd->l.up->rx(rd->l.up_ctx, &p->dest.addr, &seg, 1, now) != 1)
			break;
		p->expect++;
		p->held = e->next;
		if (!p->held)
			p->held_last = NULL;
		p->nheld--;
		diw_pool_put(&rd->held, e);
	}
	if (p->refused) {
		diw_rd_rx_forget(rd, p);
		p->ack_now = true;
		ack_later(rd, p, 1, now);
		return;
	}
	if (p->held && p->held->seq == p->expect)
		diw_rd_stalled_add(rd, p);
	if (p->expect != before)
		ack_later(rd, p, p->expect - before, now);
}

/* Whether segment SEQ is in the window and has not come before. */
static bool seq_is_new(struct rd *rd, struct rd_peer *p, uint32_t seq)
{
	if (diw_serial_after(p->expect, seq)) {
		rd->l.c->rd_duplicates++;
	} else if (seq - p->expect >= rx_window(rd, p)) {
		rd->l.c->rd_beyond++;
	} else {
		return true;
	}
	p->ack_now = true;
	return false;
}

void diw_rd_rx_burst(struct rd *rd, struct rd_peer *p, const struct rd_rx *in, uint32_t n, uint64_t now)
{
	struct diw_link_rxseg run[RD_BATCH];
	int nrun = 0;

	sender_count(rd, p, n, in[0].seg.len, now);
	for (uint32_t i = 0; i < n && !p->refused; i++) {
		uint32_t seq = in[i].seq;

		if (seq == p->expect + (uint32_t)nrun && !p->held && nrun < RD_BATCH) {
			run[nrun++] = in[i].seg;
			continue;
		}
		if (nrun)
			run_deliver(rd, p, run, nrun, now);
		nrun = 0;
		if (!seq_is_new(rd, p, seq))
			continue;
		/* The next segment in order is handed up without memory, which the early ones of all peers may fill. */
		if (seq == p->expect && !(p->held && p->held->seq == seq)) {
			run[nrun++] = in[i].seg;
			continue;
		}
		p->ack_now = true;                      /* out of order: the sender needs to know */
		held_put(rd, p, seq, &in[i].seg);
	}
	if (nrun)
		run_deliver(rd, p, run, nrun, now);
	diw_rd_rx_deliver(rd, p, now);
	ack_later(rd, p, n, now);
}

/* ---- The place of a segment that is being received ---- */

/* Only the next segment in order has a place. It has no CRC, or its peer has sent segments without CRC. */
int diw_rd_rx_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		    struct iovec *iov, uint64_t now)
{
	struct rd *rd = ctx;
	struct diw_rd_hdr h;
	uint32_t len = diw_rd_hdr_decode(&h, seg->data, seg->len);
	const struct rd_peer *p = len ? diw_rd_peer_find(rd, src) : NULL;
	struct diw_link_rxseg inner = { .data = seg->data + len, .len = seg->len - len };

	if (!p || !rd->l.up->reach || h.kind != DIW_RD_DATA || h.flags & DIW_RD_NEW)
		return 0;
	if (h.seq != p->expect || !p->receiving || p->refused || p->held || !(p->bare || seg->bare) ||
	    !diw_rd_tag_is_good(rd, p, h.tag, now))
		return 0;
	return rd->l.up->reach(rd->l.up_ctx, &p->dest.addr, &inner, from - len, iov, now);
}

/* ---- Acknowledgements ---- */

void diw_rd_ack_fill(struct rd *rd, struct rd_peer *p, struct diw_rd_hdr *h)
{
	if (!p->receiving)
		return;
	h->flags |= DIW_RD_ACKS | (p->echoes ? DIW_RD_ECHOES : 0);
	h->ack = p->expect;
	h->window = rx_window(rd, p);
	h->echo = p->echo;
}

/* Bit 31 - i % 32 of word i / 32 means: segment ACK + i is held. Returns the number of words. */
static uint32_t map_fill(const struct rd_peer *p, uint8_t *map)
{
	uint32_t word[DIW_RD_MAP_WORDS] = { 0 }, words = 0;

	for (const struct rd_held *e = p->held; e && e->seq - p->expect < DIW_RD_MAP_WORDS * 32; e = e->next) {
		uint32_t i = e->seq - p->expect;

		word[i / 32] |= 0x80000000u >> i % 32;
		words = i / 32 + 1;
	}
	for (uint32_t i = 0; i < words; i++)
		diw_put32(map + 4 * (size_t)i, word[i]);
	return words;
}

void diw_rd_ack_send(struct rd *rd, struct rd_peer *p, bool ask, uint64_t now)
{
	uint8_t map[DIW_RD_MAP_WORDS * 4];
	struct diw_rd_hdr h = { .kind = DIW_RD_ACK, .flags = ask ? DIW_RD_ASK : 0, .tag = p->tag,
		.seq = p->unsent ? p->unsent->seq : p->next_seq, .time = rd_us(now), .my_tag = p->my_tag,
		.my_epoch = rd->cfg.epoch, .first = p->first_seq };

	if (!p->known)
		return;
	h.flags |= p->answered ? 0 : DIW_RD_NEW;
	diw_rd_ack_fill(rd, p, &h);
	if (p->refused) {                       /* no segment is held: no map */
		h.kind = DIW_RD_REFUSE;
		h.window = p->refused;
	}
	diw_rd_say(rd, &p->dest, &h, map, map_fill(p, map) * 4, now);
	rd->l.c->rd_acks++;
	p->ack_at = DIW_NEVER;
	p->ack_now = false;
	p->unacked = 0;
}
