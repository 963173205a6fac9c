/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two ends of reliable datagrams come to know each other: docs/ud-profile.md section 18.3.
 *
 * A datagram carries the tag that its receiver gave to its sender: a keyed hash of the sender's address and epoch. So
 * the answer to an OPEN needs no memory, and a peer has shown that it receives at its address before it gets any.
 */
#include <errno.h>

#include "base/siphash.h"
#include "llp/rd.h"

#define OPEN_FIRST (50 * DIW_MS)     /* until an OPEN is repeated; doubles */
#define OPEN_TRIES 32u               /* at least, before a peer is given up */

uint32_t diw_rd_tag(const struct rd *rd, const struct diw_addr *addr, uint32_t epoch)
{
	uint8_t in[sizeof *addr + 4];

	memcpy(in, addr, sizeof *addr);
	diw_put32(in + sizeof *addr, epoch);
	return (uint32_t)diw_siphash(rd->key, in, sizeof in);
}

static void open_send(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	const struct diw_rd_hdr h = { .kind = DIW_RD_OPEN, .seq = p->nonce, .time = rd_us(now),
		.my_epoch = rd->cfg.epoch };
	uint64_t wait = OPEN_FIRST << (p->open_tries < 6 ? p->open_tries : 6);

	p->open_tries++;
	p->open_at = now + diw_min64(wait, rd->cfg.dead_ns / OPEN_TRIES);
	diw_rd_say(rd, &p->dest, &h, NULL, 0, now);
}

void diw_rd_open_begin(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	p->phase = RD_PEER_OPENING;
	p->nonce = (uint32_t)diw_rng_next(&rd->rng);
	p->open_tries = 0;
	p->progress = now;
	open_send(rd, p, now);
	diw_rd_timer_set(rd, p, p->open_at);
}

void diw_rd_open_again(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	open_send(rd, p, now);
}

void diw_rd_open_came(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now)
{
	const struct diw_rd_hdr grant = { .kind = DIW_RD_GRANT, .flags = DIW_RD_ECHOES, .tag = h->seq,
		.time = rd_us(now), .echo = h->time, .my_tag = diw_rd_tag(rd, src, h->my_epoch),
		.my_epoch = rd->cfg.epoch };

	diw_rd_say(rd, &(struct diw_dest){ .addr = *src }, &grant, NULL, 0, now);
}

/* What P sent and received before belongs to a process that is gone. */
static void peer_restarted(struct rd *rd, struct rd_peer *p)
{
	rd->l.c->rd_restarts++;
	p->epoch_before = p->epoch;
	p->receiving = false;
	diw_rd_rx_forget(rd, p);
	diw_rd_tx_fail(rd, p, ECONNRESET);
}

static void peer_meet(struct rd *rd, struct rd_peer *p, uint32_t tag, uint32_t epoch, uint64_t now)
{
	if (p->known && p->epoch != epoch)
		peer_restarted(rd, p);
	p->known = true;
	p->tag = tag;
	p->epoch = epoch;
	p->my_tag = diw_rd_tag(rd, &p->dest.addr, epoch);
	p->heard = now;
}

/* The peer's tag is known: send from the first segment that is not acknowledged on. */
static void peer_ready(struct rd *rd, struct rd_peer *p, uint64_t now)
{
	p->phase = RD_PEER_OPEN;
	p->answered = false;
	p->first_seq = p->una;
	p->edge = p->una + 1;                   /* until the peer tells its window */
	for (struct rd_slot *s = p->first; s != p->unsent; s = s->next)
		s->sacked = s->lost = false;
	p->unsent = p->first;
	p->flight = p->nlost = 0;
	p->timer = DIW_NEVER;
	p->progress = now;
	p->backoff = 0;
	diw_rd_timer_set(rd, p, now);
}

void diw_rd_grant_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	if (!p || p->phase != RD_PEER_OPENING || h->tag != p->nonce) {
		rd->l.c->rd_stray++;
		return;
	}
	peer_meet(rd, p, h->my_tag, h->my_epoch, now);
	peer_ready(rd, p, now);
}

/* The peer has no state of ours. It forgets later than a sender gives up, so it has taken no segment that waits. */
void diw_rd_reset_came(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	if (!p || p->phase != RD_PEER_OPEN || h->tag != p->tag) {
		rd->l.c->rd_stray++;
		return;
	}
	if (p->first)
		diw_rd_open_begin(rd, p, now);
	else
		p->phase = RD_PEER_IDLE;
}

/* An announcement with a good tag: memory may be spent on its sender. */
static struct rd_peer *peer_announced(struct rd *rd, struct rd_peer *p, const struct diw_addr *src,
				      const struct diw_rd_hdr *h, uint64_t now)
{
	if (h->tag != diw_rd_tag(rd, src, h->my_epoch) || (p && p->known && h->my_epoch == p->epoch_before)) {
		rd->l.c->rd_stray++;
		return NULL;
	}
	if (!p)
		p = diw_rd_peer_add(rd, &(struct diw_dest){ .addr = *src }, true, now);
	if (!p)
		return NULL;
	if (!p->known || p->epoch != h->my_epoch || p->tag != h->my_tag)
		peer_meet(rd, p, h->my_tag, h->my_epoch, now);
	if (p->phase != RD_PEER_OPEN)
		peer_ready(rd, p, now);
	/* Numbers grow with the clock: what is behind `expect` is of an association before this one. */
	if (p->receiving && h->first != p->rx_first && diw_serial_after(p->expect, h->first)) {
		rd->l.c->rd_stray++;
		return NULL;
	}
	if (!p->receiving || h->first != p->rx_first) {
		diw_rd_rx_forget(rd, p);
		p->receiving = true;
		p->rx_first = p->expect = h->first;
	}
	return p;
}

struct rd_peer *diw_rd_peer_of(struct rd *rd, const struct diw_addr *src, const struct diw_rd_hdr *h, uint64_t now)
{
	struct rd_peer *p = diw_rd_peer_find(rd, src);

	if (h->flags & DIW_RD_NEW) {
		p = peer_announced(rd, p, src, h, now);
	} else if (!p || !p->known || h->tag != p->my_tag) {
		const struct diw_rd_hdr reset = { .kind = DIW_RD_RESET, .tag = h->tag, .time = rd_us(now) };

		/* A known peer would have announced itself: another tag of its is forged or late. */
		if (!p || !p->known)
			diw_rd_say(rd, &(struct diw_dest){ .addr = *src }, &reset, NULL, 0, now);
		rd->l.c->rd_stray++;
		p = NULL;
	}
	if (p)
		p->heard = now;
	return p;
}
