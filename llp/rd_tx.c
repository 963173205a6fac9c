/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sender of reliable datagrams: docs/ud-profile.md sections 18.4 and 18.6. A segment has a slot, which is freed
 * when the peer has acknowledged the segment and all before it. The slot has a copy of a short segment; the payload
 * of a long one stays where its owner has it, and is gathered at each transmission. A segment counts as lost when one
 * that was sent clearly later has arrived (RFC 8985, RACK), or at a timeout (RFC 6298; the first timeout sends a
 * probe, RFC 8985 section 7).
 */
#include <errno.h>

#include "llp/rd.h"

#define RTO_MIN (5 * DIW_MS)         /* above the time that a busy host keeps a receiver waiting for a processor */
#define PROBE_MIN (200 * DIW_US)
#define RTO_FIRST (50 * DIW_MS)
#define REORDER_MIN (50 * DIW_US)
#define PROBES 1u                    /* timeouts that send a probe, before segments count as lost */
#define TRY_PARTS 3u

static struct rd_slot *slot_get(struct rd *rd, const struct diw_link_seg *g)
{
	bool is_long = g->hdr_len + g->len > rd->small.size - sizeof(struct rd_slot), large = is_long && !g->owner;
	struct rd_slot *s = diw_pool_get(large ? &rd->large : &rd->small);

	if (!s)
		return NULL;
	*s = (struct rd_slot){ .len = g->hdr_len + g->len, .hdr_len = g->hdr_len, .large = large,
			       .owner = is_long ? g->owner : NULL, .at = g->at };
	return s;
}

static void slot_put(struct rd *rd, struct rd_slot *s)
{
	diw_pool_put(s->large ? &rd->large : &rd->small, s);
}

int diw_rd_tx_take(struct rd *rd, struct rd_peer *p, const struct diw_link_seg *g)
{
	struct rd_slot *s;

	if (g->hdr_len + g->len > rd->large_size || !diw_rd_slot_allowed(rd, p))
		return -EAGAIN;
	s = slot_get(rd, g);
	if (!s)
		return -EAGAIN;
	memcpy(s->data, g->hdr, g->hdr_len);
	if (!s->owner)
		diw_link_seg_copy(g, s->data + g->hdr_len);
	s->seq = p->next_seq++;
	s->number = rd->l.taken++;
	*(p->first ? &p->last->next : &p->first) = s;
	p->last = s;
	if (!p->unsent)
		p->unsent = s;
	p->queued++;
	rd->queued++;
	return 0;
}

/* ---- Transmission ---- */

/* The first lost segment of S and its successors, before END. */
static struct rd_slot *slot_lost(struct rd_slot *s, const struct rd_slot *end)
{
	while (s && s != end && !s->lost)
		s = s->next;
	return s == end ? NULL : s;
}

static bool slot_in_window(const struct rd_peer *p, const struct rd_slot *s)
{
	return diw_serial_after(p->edge, s->seq);
}

struct tx_batch {
	int n;
	struct rd_slot *slot[RD_BATCH];
	struct iovec iov[RD_BATCH][1 + DIW_LINK_IOV];
	struct diw_link_seg seg[RD_BATCH];
	uint8_t hdr[RD_BATCH][DIW_RD_HDR_MAX];
};

static void batch_choose(struct rd_peer *p, struct tx_batch *b, uint32_t limit)
{
	struct rd_slot *s = p->nlost ? slot_lost(p->first, p->unsent) : NULL;

	for (b->n = 0; s && b->n < RD_BATCH && (uint32_t)b->n < limit; s = slot_lost(s->next, p->unsent))
		b->slot[b->n++] = s;
	for (s = p->unsent; s && b->n < RD_BATCH && (uint32_t)b->n < limit && slot_in_window(p, s); s = s->next)
		b->slot[b->n++] = s;
}

/* Where the segment is. The header of one whose payload is gone leaves alone, so that the number is not missing. */
static void slot_gather(struct rd *rd, struct rd_slot *s, struct iovec *iov)
{
	*iov = (struct iovec){ s->data, s->owner ? s->hdr_len : s->len };
	if (!s->owner || rd->l.up->payload(rd->l.up_ctx, s->owner, s->at, s->len - s->hdr_len, iov + 1))
		return;
	s->owner = NULL;
	s->len = s->hdr_len;
}

static void batch_fill(struct rd *rd, struct rd_peer *p, struct tx_batch *b, bool ask, uint64_t now)
{
	struct diw_rd_hdr h = { .kind = DIW_RD_DATA, .tag = p->tag, .time = rd_us(now), .my_tag = p->my_tag,
		.my_epoch = rd->cfg.epoch, .first = p->first_seq };

	bool bare = p->bare && rd->l.dgram->ops->own(rd->l.dgram, &p->dest.addr);

	diw_rd_ack_fill(rd, p, &h);
	h.flags |= p->answered ? 0 : DIW_RD_NEW;
	for (int i = 0; i < b->n; i++) {
		struct rd_slot *s = b->slot[i];

		if (ask && i == b->n - 1)
			h.flags |= DIW_RD_ASK;
		h.seq = s->seq;
		slot_gather(rd, s, b->iov[i]);
		b->seg[i] = (struct diw_link_seg){ .hdr = b->hdr[i], .hdr_len = diw_rd_hdr_encode(b->hdr[i], &h),
			.len = s->len, .iov = b->iov[i], .bare = bare };
	}
}

static void batch_sent(struct rd *rd, struct rd_peer *p, struct tx_batch *b, int n, uint64_t now)
{
	if (n && b->slot[0] == p->first && !p->first->tries)
		p->progress = now;
	for (int i = 0; i < n; i++) {
		struct rd_slot *s = b->slot[i];

		if (s->lost)
			s->lost = false, p->nlost--;
		if (s->tries) {
			rd->l.c->rd_retransmits++;
			p->retransmits++;
		}
		if (s == p->unsent)
			p->unsent = s->next;
		s->began = s->tries ? s->began : now;
		s->tries = (uint16_t)(s->tries + (s->tries < UINT16_MAX));
		s->sent = now;
		p->flight++;
	}
	rd->l.c->rd_bare += b->seg[0].bare ? (uint32_t)n : 0;
	diw_rd_cc_sent(&p->cc, (uint32_t)n, now);
	p->ack_at = DIW_NEVER;
	p->ack_now = false;
	p->unacked = 0;
}

static uint64_t tx_rto(struct rd *rd, const struct rd_peer *p)
{
	uint64_t rto = p->cc.srtt ? p->cc.srtt + 4 * p->cc.rttvar + rd->cfg.ack_ns : RTO_FIRST;

	rto = diw_max64(rto, p->backoff < PROBES ? PROBE_MIN : RTO_MIN);
	rto <<= p->backoff < 10 ? p->backoff : 10;
	rto = diw_min64(rto, rd->cfg.dead_ns / RD_TRIES);
	return rto + rto / 8 * (diw_rng_next(&rd->rng) & 7) / 8;
}

void diw_rd_tx_push(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	struct tx_batch b;

	while (p->phase == RD_PEER_OPEN && !rd->blocked && (p->nlost || p->unsent)) {
		uint32_t limit = diw_rd_cc_allows(&p->cc, p->flight, now);
		int sent;

		batch_choose(p, &b, limit);
		if (!b.n)
			break;
		batch_fill(rd, p, &b, (uint32_t)b.n == limit || (b.slot[b.n - 1]->next &&
			   !slot_in_window(p, b.slot[b.n - 1]->next)), now);
		sent = rd->lower->ops->send(rd->lower, &p->dest, b.seg, b.n, now);
		batch_sent(rd, p, &b, sent, now);
		rd->blocked = sent < b.n;
	}
	if (rd->blocked && p->phase == RD_PEER_OPEN && (p->nlost || p->unsent))
		diw_rd_queue_add(rd, RD_UNSENT, p);
	if (p->phase == RD_PEER_OPEN && p->first && p->timer == DIW_NEVER)
		p->timer = now + tx_rto(rd, p);
	diw_rd_timer_set(rd, p, diw_rd_tx_due(rd, p));
}

uint64_t diw_rd_tx_due(const struct rd *rd, const struct rd_peer *p)
{
	uint64_t at = p->ack_at;

	if (p->phase == RD_PEER_OPENING)
		return diw_min64(at, p->open_at);
	if (p->phase != RD_PEER_OPEN || !p->first)
		return at;
	at = diw_min64(at, p->timer);
	if (!rd->blocked && (p->nlost || (p->unsent && slot_in_window(p, p->unsent))) &&
	    (double)p->flight < diw_rd_cc_window(&p->cc))
		at = diw_min64(at, p->cc.pace_at);
	return at;
}

/* ---- Acknowledgements ---- */

struct acked_run { uint32_t number, n; };

static void run_flush(struct rd *rd, struct acked_run *r)
{
	if (r->n && rd->l.up->acked)
		rd->l.up->acked(rd->l.up_ctx, r->number, r->n);
	r->n = 0;
}

static void run_add(struct rd *rd, struct acked_run *r, uint32_t number)
{
	if (r->n && r->number + r->n != number)
		run_flush(rd, r);
	if (!r->n++)
		r->number = number;
}

/* A retransmitted segment was acknowledged. The echo says whether the first transmission had arrived late instead of
 * being lost. */
static void loss_was_none(struct rd *rd, struct rd_peer *p, const struct rd_slot *s, const struct diw_rd_hdr *h)
{
	if (s->tries < 2 || !(h->flags & DIW_RD_ECHOES) || !diw_serial_after(rd_us(s->sent), h->echo))
		return;
	rd->l.c->rd_spurious++;
	p->reorder = diw_min64(p->reorder * 2 + REORDER_MIN, p->cc.srtt + REORDER_MIN);
}

static void slot_arrived(struct rd *rd, struct rd_peer *p, struct rd_slot *s, const struct diw_rd_hdr *h,
			 uint64_t *latest)
{
	if (s->lost)
		p->nlost--;
	else if (!s->sacked)
		p->flight--;
	if (!s->sacked) {
		loss_was_none(rd, p, s, h);
		if (s->tries < 2 || !(h->flags & DIW_RD_ECHOES) || !diw_serial_after(rd_us(s->sent), h->echo))
			*latest = *latest > s->sent ? *latest : s->sent;
	}
	s->lost = false;
}

/* Segments that were sent clearly before one that has arrived are lost. */
static void loss_detect(struct rd *rd, struct rd_peer *p, uint64_t latest)
{
	uint64_t late = p->reorder + p->cc.srtt / 8;
	uint32_t before = p->nlost;

	for (struct rd_slot *s = p->first; s && s != p->unsent; s = s->next) {
		if (s->sacked || s->lost || s->sent + late >= latest)
			continue;
		s->lost = true;
		p->nlost++;
		p->flight--;
	}
	if (p->nlost > before) {
		rd->l.c->rd_lost += p->nlost - before;
		diw_rd_cc_lost(&p->cc);
	}
}

static bool map_has(const uint8_t *map, uint32_t words, uint32_t i)
{
	return i / 32 < words && (diw_get32(map + i / 32 * 4) << (i % 32) & 0x80000000u);
}

static uint64_t echo_age(uint64_t now, uint32_t echo)
{
	return (uint64_t)(uint32_t)(rd_us(now) - echo) * DIW_US;
}

/* A round trip that would be the smallest one is measured again: NOW is from before the datagram was received, and the
 * caller may have got no processor since. */
uint64_t diw_rd_tx_rtt(const struct rd *rd, const struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	uint64_t rtt;

	if (!(h->flags & DIW_RD_ECHOES))
		return 0;
	rtt = echo_age(now, h->echo);
	if (rd->cfg.clock && (rtt < diw_rd_cc_rtt_min(&p->cc) || rtt > rd->cfg.dead_ns))
		rtt = echo_age(rd->cfg.clock(rd->cfg.clock_ctx), h->echo);
	return rtt > rd->cfg.dead_ns ? 0 : diw_max64(rtt, DIW_US);
}

void diw_rd_tx_acked(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, const uint8_t *map, uint32_t words,
		     uint64_t rtt, uint64_t now)
{
	uint32_t sent_end = p->unsent ? p->unsent->seq : p->next_seq, n = 0, queued = p->queued;
	uint64_t latest = 0;
	struct acked_run run = { 0 };

	if (p->phase != RD_PEER_OPEN || diw_serial_after(h->ack, sent_end)) {
		rd->l.c->rd_ack_ignored++;
		return;
	}
	if (h->ack - p->una > sent_end - p->una)        /* behind the newest acknowledgement, by up to 2^31 */
		return;
	p->answered = true;
	p->edge = h->ack + h->window;
	if (rtt) {
		latest = now - rtt;
		if (latest > p->reached)
			p->tries = 0;
		p->reached = diw_max64(p->reached, latest);
	}
	while (p->first && p->first != p->unsent && p->first->seq != h->ack) {
		struct rd_slot *s = p->first;

		n += !s->sacked;
		slot_arrived(rd, p, s, h, &latest);
		p->first = s->next;
		p->queued--;
		rd->queued--;
		run_add(rd, &run, s->number);
		slot_put(rd, s);
	}
	p->una = h->ack;
	if (words) {
		uint32_t i = 0;

		for (struct rd_slot *s = p->first; s && s != p->unsent && i < words * 32; s = s->next, i++) {
			if (s->sacked || !map_has(map, words, i))
				continue;
			slot_arrived(rd, p, s, h, &latest);
			s->sacked = true;
			n++;
		}
	}
	if (n) {
		p->progress = now;
		p->backoff = p->tries = 0;
		diw_rd_cc_acked(&p->cc, rtt, n, p->flight, now);
		p->timer = p->first ? now + tx_rto(rd, p) : DIW_NEVER;
	}
	if (p->first && p->first != p->unsent)
		loss_detect(rd, p, latest);
	run_flush(rd, &run);
	diw_rd_tx_push(rd, p, now);
	if (p->queued < queued)
		diw_rd_slots_freed(rd, p);
}

/* `ack` is the number of the refused segment; the peer has taken those before it. */
void diw_rd_tx_rejected(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	uint32_t sent_end = p->unsent ? p->unsent->seq : p->next_seq;
	struct diw_rd_hdr ack = *h;

	if (p->phase != RD_PEER_OPEN || h->ack - p->una >= sent_end - p->una || !h->window) {
		rd->l.c->rd_ack_ignored++;
		return;
	}
	ack.window = 0;
	diw_rd_tx_acked(rd, p, &ack, NULL, 0, diw_rd_tx_rtt(rd, p, h, now), now);
	rd->l.c->rd_rejected++;
	if (rd->l.up->rejected)
		rd->l.up->rejected(rd->l.up_ctx, p->first->number, h->window);
	diw_rd_tx_fail(rd, p, ECANCELED);
}

/* ---- Time ---- */

static void loss_all(struct rd *rd, struct rd_peer *p)
{
	for (struct rd_slot *s = p->first; s != p->unsent; s = s->next) {
		if (s->sacked || s->lost)
			continue;
		s->lost = true;
		p->nlost++;
		p->flight--;
		rd->l.c->rd_lost++;
	}
	diw_rd_cc_timeout(&p->cc);
}

/* Whether the peer, which has not answered since SINCE, is given up. The time alone does not show that it is gone: a
 * process that gets no processor asks less often, and has answers in its socket. */
static bool tx_gives_up(const struct rd *rd, const struct rd_peer *p, uint64_t since, uint64_t now)
{
	return now - since >= rd->cfg.dead_ns && p->tries >= RD_TRIES * TRY_PARTS;
}

/* A try counts as one of TRY_PARTS if the answer to it may be in this end's socket. */
static void try_count(const struct rd *rd, struct rd_peer *p)
{
	p->tries += rd->drained ? TRY_PARTS : 1;
}

void diw_rd_tx_timer(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	if (p->phase == RD_PEER_OPENING && now >= p->open_at) {
		try_count(rd, p);
		if (tx_gives_up(rd, p, diw_max64(p->progress, p->reached), now)) {
			rd->l.c->rd_dead++;
			p->phase = RD_PEER_IDLE;
			diw_rd_tx_fail(rd, p, ETIMEDOUT);
		} else {
			diw_rd_open_again(rd, p, now);
		}
	}
	if (p->phase != RD_PEER_OPEN || !p->first || now < p->timer)
		return;
	/* A peer that receives but takes nothing is alive: it has no receives posted, or no room. */
	try_count(rd, p);
	if (tx_gives_up(rd, p, diw_max64(p->progress, p->reached), now)) {
		rd->l.c->rd_dead++;
		diw_rd_tx_fail(rd, p, ETIMEDOUT);
		return;
	}
	rd->l.c->rd_timeouts++;
	if (p->backoff++ >= PROBES && p->flight) {
		loss_all(rd, p);
		diw_rd_tx_push(rd, p, now);
	} else {
		diw_rd_ack_send(rd, p, true, now);
	}
	p->timer = now + tx_rto(rd, p);
}

void diw_rd_tx_fail(struct rd *rd, struct rd_peer *p, int errnum)
{
	struct rd_slot *s = p->first, *next;

	p->first = p->last = p->unsent = NULL;
	rd->queued -= p->queued;
	p->queued = p->flight = p->nlost = 0;
	p->timer = DIW_NEVER;
	p->backoff = p->tries = 0;
	p->next_seq += errnum == ETIMEDOUT ? RD_LEFT_OUT : 0;
	p->una = p->next_seq;
	p->answered = false;
	p->given_up = errnum == ETIMEDOUT;
	p->first_seq = p->una;
	if (p->phase == RD_PEER_OPEN)           /* what the peer has of these messages is useless: begin a new
						 * association */
		p->phase = RD_PEER_IDLE;
	for (; s; s = next) {
		next = s->next;
		if (rd->l.up->refused)
			rd->l.up->refused(rd->l.up_ctx, s->number, 1, errnum);
		slot_put(rd, s);
	}
	if (errnum != ECANCELED)                /* with ECANCELED the peer is there: it has refused a segment */
		diw_rd_peer_gone(rd, p, errnum);
	diw_rd_slots_freed(rd, p);
}
