/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Associations of reliable datagrams: docs/ud-profile.md section 18.3.
 *
 * A datagram carries the tag that its receiver gave to its sender. A tag is a keyed hash of the sender's address, its
 * epoch, the epoch that the receiver knows at that address, and the time. So the answer to an OPEN needs no memory. A
 * peer gets memory only after it has received at its address. An announcement that another host repeats later, or after
 * the peer's process has restarted, is refused.
 */
#include <errno.h>

#include "base/siphash.h"
#include "llp/rd.h"

#define OPEN_FIRST (50 * DIW_MS)     /* the first wait before an OPEN is repeated; doubles each time */

/* A tag allows a new association in the time slot in which it was given, and in the next one. */
static uint64_t tag_slot(const struct rd *rd, uint64_t now)
{
	return now / rd->cfg.dead_ns;
}

/* KNOWN: the epoch that this end knew at ADDR when it gave the tag; 0: none. */
static uint32_t tag_of(const struct rd *rd, const struct diw_addr *addr, uint32_t epoch, uint32_t known, uint64_t slot)
{
	uint8_t in[sizeof *addr + 16];

	memcpy(in, addr, sizeof *addr);
	diw_put32(in + sizeof *addr, epoch);
	diw_put32(in + sizeof *addr + 4, known);
	diw_put64(in + sizeof *addr + 8, slot);
	return (uint32_t)diw_siphash(rd->key, in, sizeof in);
}

static bool tag_is_fresh(const struct rd *rd, const struct diw_addr *addr, uint32_t epoch, uint32_t known, uint32_t tag,
			 uint64_t now)
{
	uint64_t slot = tag_slot(rd, now);

	return tag == tag_of(rd, addr, epoch, known, slot) || tag == tag_of(rd, addr, epoch, known, slot - 1);
}

/* The epoch that this end knows at the address of P, which may be NULL; 0: none. */
static uint32_t epoch_known(const struct rd_peer *p)
{
	return p && p->known ? p->epoch : 0;
}

void diw_rd_open_again(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	const struct diw_rd_hdr h = { .kind = DIW_RD_OPEN, .seq = p->nonce, .time = rd_us(now),
		.my_epoch = rd->cfg.epoch };
	uint64_t wait = OPEN_FIRST << (p->open_tries < 6 ? p->open_tries : 6);

	p->open_tries++;
	p->open_at = now + diw_min64(wait, rd->cfg.dead_ns / RD_TRIES);
	diw_rd_say(rd, &p->dest, &h, NULL, 0, now);
}

void diw_rd_open_begin(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	p->phase = RD_PEER_OPENING;
	p->nonce = (uint32_t)diw_rng_next(&rd->rng);
	p->open_tries = 0;
	if (!p->first) {                        /* otherwise an answer has been due since then */
		p->tries = 0;
		p->progress = now;
	}
	diw_rd_open_again(rd, p, now);
	diw_rd_timer_set(rd, p, p->open_at);
}

/* Whether datagrams to and from ADDR need no CRC: they do not leave the memory of this host. */
static bool open_is_bare(const struct rd *rd, const struct diw_addr *addr)
{
	return rd->cfg.bare && rd->l.dgram->ops->own && rd->l.dgram->ops->own(rd->l.dgram, addr);
}

void diw_rd_open_came(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now)
{
	struct rd_peer *p = diw_rd_peer_find(rd, src);
	struct diw_rd_hdr grant = { .kind = DIW_RD_GRANT, .flags = DIW_RD_ECHOES, .tag = h->seq,
		.window = open_is_bare(rd, src) ? DIW_RD_BARE : 0,
		.time = rd_us(now), .echo = h->time,
		.my_tag = tag_of(rd, src, h->my_epoch, epoch_known(p), tag_slot(rd, now)), .my_epoch = rd->cfg.epoch };

	if (p && p->known && p->receiving && p->epoch == h->my_epoch) {
		grant.flags |= DIW_RD_ACKS;
		grant.ack = p->expect;
		p->heard = now;                 /* the announcement that follows must find what GRANT says */
	}
	diw_rd_say(rd, &(struct diw_dest){ .addr = *src }, &grant, NULL, 0, now);
}

/* P's process has restarted: all that was sent and received before belongs to the old process. If that one had been
 * given up, what waits was posted after that, and goes to the new one. */
static void peer_restarted(struct rd *rd, struct rd_peer *p)
{
	rd->l.c->rd_restarts++;
	p->epoch_before = p->epoch;
	p->receiving = false;
	p->replaced = !p->given_up;
	diw_rd_rx_forget(rd, p);
	if (!p->given_up)
		diw_rd_tx_fail(rd, p, ECONNRESET);
}

/* Numbers the segments for P, none of which has been sent yet, from FIRST on. */
static void peer_number(struct rd_peer *p, uint32_t first)
{
	p->una = p->next_seq = first;
	for (struct rd_slot *s = p->first; s; s = s->next)
		s->seq = p->next_seq++;
}

/* H is a GRANT or an announcement. If P expects a segment of an association that this end has forgotten, the numbers go
 * on behind those of that association. */
static void peer_meet(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	uint32_t epoch = h->my_epoch;

	if (!p->known && (h->flags & DIW_RD_ACKS))
		peer_number(p, h->ack + RD_LEFT_OUT);
	if (p->known && p->epoch != epoch)
		peer_restarted(rd, p);
	if (!p->known || p->epoch != epoch) {
		p->bare = false;
		p->my_tag = tag_of(rd, &p->dest.addr, epoch, epoch, tag_slot(rd, now));
		p->met = p->renewed = now;
	}
	p->reset &= p->known && p->epoch == epoch;
	p->known = true;
	p->tag = h->my_tag;
	p->epoch = epoch;
	p->heard = now;
}

/* The process with P's epoch may have got its tag before this end knew that epoch. */
bool diw_rd_tag_is_good(const struct rd *rd, const struct rd_peer *p, uint32_t tag, uint64_t now)
{
	return p && p->known && (tag == p->my_tag || tag_is_fresh(rd, &p->dest.addr, p->epoch, p->epoch, tag, now) ||
				 tag_is_fresh(rd, &p->dest.addr, p->epoch, p->epoch_before, tag, now));
}

/* The peer's tag is known: sends from the first segment that is not acknowledged. */
static void peer_ready(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	p->phase = RD_PEER_OPEN;
	p->answered = p->given_up = false;
	p->first_seq = p->una;
	p->edge = p->una + 1;                   /* the window is one segment until the peer states its own */
	p->flight = p->nlost = 0;
	for (struct rd_slot *s = p->first; s != p->unsent; s = s->next, p->nlost++) {
		s->sacked = false;
		s->lost = true;
	}
	p->timer = DIW_NEVER;
	p->backoff = 0;
	diw_rd_timer_set(rd, p, now);
}

/* Whether P may have taken a segment that is not acknowledged, and have forgotten it since. P forgets nothing within
 * the idle time. This end's clock stood still while its host was suspended. */
static bool sent_is_old(struct rd *rd, const struct rd_peer *p, uint64_t now)
{
	uint64_t age;

	if (!p->first || p->first == p->unsent)
		return false;
	diw_rd_suspend_look(rd, now);
	age = now - p->first->began + (p->first->began <= rd->woke ? rd->woke_after : 0);
	return age >= rd->cfg.idle_ns / 2;
}

/* Asks P whether it has forgotten such a segment. */
static void sent_query(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	if (p->phase != RD_PEER_OPENING)
		diw_rd_open_begin(rd, p, now);
}

void diw_rd_grant_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	if (!p || p->phase != RD_PEER_OPENING || h->tag != p->nonce) {
		rd->l.c->rd_stray++;
		return;
	}
	if (!(h->flags & DIW_RD_ACKS) && h->my_epoch == p->epoch && sent_is_old(rd, p, now))
		diw_rd_tx_fail(rd, p, ECONNRESET);
	peer_meet(rd, p, h, now);
	p->reset &= !(h->flags & DIW_RD_ACKS);  /* with ACKS, P has not forgotten this end */
	p->tries = 0;                           /* the nonce is new; a RESET or an announcement may be old */
	p->progress = now;
	p->bare = h->window & DIW_RD_BARE && open_is_bare(rd, &p->dest.addr);
	peer_ready(rd, p, now);
}

/* Handles a RESET: the peer has lost its state, or the tag is too old. */
void diw_rd_reset_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	if (!p || !p->known || p->phase == RD_PEER_OPENING || h->tag != p->tag) {
		rd->l.c->rd_stray++;
		return;
	}
	p->reset = true;
	p->renewed = now;
	if (p->first || p->receiving)           /* acknowledgements need a good tag, too */
		diw_rd_open_begin(rd, p, now);
	else
		p->phase = RD_PEER_IDLE;
}

static void reset_send(struct rd *rd, const struct diw_addr *to, uint32_t tag, uint64_t now)
{
	const struct diw_rd_hdr reset = { .kind = DIW_RD_RESET, .tag = tag, .time = rd_us(now) };

	diw_rd_say(rd, &(struct diw_dest){ .addr = *to }, &reset, NULL, 0, now);
}

/* The peer has no state of this end's segments. It may have had some, and have forgotten this end: it has taken all
 * before `una`. */
static void announce_again(struct rd_peer *p)
{
	p->answered = false;
	p->first_seq = p->una;
}

/* P sends none of the segments between the number expected and the first that H announces. It has given this end up, or
 * it has got a refusal, or it had forgotten this end. */
static void numbers_missing(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	struct diw_rd_hdr ack = *h;

	p->renewed = now;
	if (p->refused && h->first - p->expect <= RD_REFUSED_MOST)
		return;
	/* A RESET may be an old one. P may have given up the answers to what it acknowledges here: not to the rest. */
	ack.window = 0;
	if (h->flags & DIW_RD_ACKS)
		diw_rd_tx_acked(rd, p, &ack, NULL, 0, 0, now);
	diw_rd_peer_gone(rd, p, p->reset || !(h->flags & DIW_RD_ACKS) ? 0 : ECONNRESET);
}

/* Handles an announcement with a valid tag: its sender may get memory. */
static struct rd_peer *peer_announced(struct rd *rd, struct rd_peer *p, const struct diw_addr *src,
				      const struct diw_rd_hdr *h, uint64_t now)
{
	uint32_t known = epoch_known(p);

	if (known == h->my_epoch ? !diw_rd_tag_is_good(rd, p, h->tag, now) :
				   !tag_is_fresh(rd, src, h->my_epoch, known, h->tag, now)) {
		rd->l.c->rd_stray++;
		reset_send(rd, src, h->tag, now);
		return NULL;
	}
	if (!p)
		p = diw_rd_peer_add(rd, &(struct diw_dest){ .addr = *src }, true, now);
	if (!p)
		return NULL;
	if (!p->known || p->epoch != h->my_epoch || p->tag != h->my_tag)
		peer_meet(rd, p, h, now);
	p->my_tag = h->tag;
	if (!(h->flags & DIW_RD_ACKS) && sent_is_old(rd, p, now))
		sent_query(rd, p, now);
	else if (p->phase != RD_PEER_OPEN)
		peer_ready(rd, p, now);
	if (!p->receiving || diw_serial_after(h->first, p->expect)) {
		if (p->receiving)
			numbers_missing(rd, p, h, now);
		diw_rd_rx_forget(rd, p);
		p->receiving = true;
		p->refused = 0;
		p->expect = h->first;
	}
	p->reset = false;
	if (!(h->flags & DIW_RD_ACKS))
		announce_again(p);
	return p;
}

struct rd_peer *diw_rd_peer_of(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now)
{
	struct rd_peer *p = diw_rd_peer_find(rd, src);

	if (h->flags & DIW_RD_NEW) {
		p = peer_announced(rd, p, src, h, now);
	} else if (!diw_rd_tag_is_good(rd, p, h->tag, now)) {
		reset_send(rd, src, h->tag, now);       /* the sender drops the RESET unless it still uses that tag */
		rd->l.c->rd_stray++;
		p = NULL;
	}
	if (p) {
		p->heard = now;
		p->given_up = false;
	}
	return p;
}
