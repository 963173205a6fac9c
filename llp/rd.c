/* SPDX-License-Identifier: BSD-2-Clause */
/* The link of reliable datagrams: its calls, its peers and their timers. llp/rd.h lists the files. */
#include "llp/rd.h"

#include <errno.h>
#include <stdlib.h>

#define SMALL_SEG 320u               /* octets of a segment that takes a small slot */
#define PUSH_AT 32768u               /* segments wait for flush until they have so many octets together */
#define SEGMENT_COST 1024u           /* a segment counts as so many octets more */
#define SWEEP_PARTS 16u              /* a search for idle peers is done in this many parts */
#define SWEEP_FULL 64u               /* buckets that are searched for an idle peer when the table is full */
#define OWN_SHARE 4u                 /* 1/4 of the table is reserved for peers that this end sends to */
#define SHOWN_PLACES 64u             /* places of the peer table that are searched for peers to show */
#define OFFERS_MAX 32u               /* consecutive segments in a step that the layer above refuses */
#define OFFERS_PAUSE (500 * DIW_US)  /* the pause before the other stalled peers are offered */

static struct rd *rd_of(struct diw_link *l)
{
	return (struct rd *)l;
}

/* ---- Peers ---- */

static struct rd_peer **peer_bucket(const struct rd *rd, const struct diw_addr *addr)
{
	return &rd->bucket[diw_addr_hash(addr, rd->key[0]) & (rd->buckets - 1)];
}

struct rd_peer *diw_rd_peer_find(const struct rd *rd, const struct diw_addr *addr)
{
	struct rd_peer *p = *peer_bucket(rd, addr);

	while (p && !diw_addr_eq(&p->dest.addr, addr))
		p = p->hash_next;
	return p;
}

static bool peer_is_silent(const struct rd *rd, const struct rd_peer *p, uint64_t now)
{
	return now - diw_max64(p->heard, p->progress) >= rd->cfg.idle_ns;
}

static bool peer_is_idle(const struct rd *rd, const struct rd_peer *p, uint64_t now)
{
	return !p->first && !p->queued_in && !p->timer_at && p->ack_at == DIW_NEVER && p != rd->acker &&
	       p->phase != RD_PEER_OPENING && peer_is_silent(rd, p, now);
}

/* Forgets the idle peers of the next COUNT buckets. */
static void peers_sweep(struct rd *rd, uint32_t count, uint64_t now)
{
	while (count--) {
		struct rd_peer **at = &rd->bucket[rd->hand++ & (rd->buckets - 1)];

		while (*at) {
			struct rd_peer *p = *at;

			if (!peer_is_idle(rd, p, now)) {
				at = &p->hash_next;
				continue;
			}
			/* Segments are kept as long as the peer is known: a map has shown them (18.4). */
			diw_rd_rx_forget(rd, p);
			diw_rd_stalled_remove(rd, p);
			*at = p->hash_next;
			p->dest.addr.port = 0;          /* marks the place as free */
			diw_pool_put(&rd->peers, p);
			rd->l.c->rd_forgotten++;
		}
	}
	if (rd->peers_wanted && rd->peers.used < rd->peers.cap) {
		rd->peers_wanted = false;
		if (rd->l.up->room)
			rd->l.up->room(rd->l.up_ctx, NULL);
	}
}

/* Suspensions of less than a second count when they make a second together. */
void diw_rd_suspend_look(struct rd *rd, uint64_t now)
{
	uint64_t all = rd->cfg.suspended ? rd->cfg.suspended() : 0, grown = all - rd->suspended;

	if (all < rd->suspended || grown < DIW_S)
		return;
	rd->woke_after = grown + (now - rd->woke < rd->cfg.idle_ns ? rd->woke_after : 0);
	rd->woke = now;
	rd->suspended = all;
}

static uint64_t sweep_pause(const struct rd *rd)
{
	return rd->cfg.idle_ns / 4 / SWEEP_PARTS;
}

static bool sweep_is_late(const struct rd *rd, uint64_t now)
{
	return now >= rd->sweep_at && now - rd->sweep_at >= sweep_pause(rd);
}

/* A process that did not run for long has not asked the peers that owe it answers. It does before the next search. */
static void peers_sweep_due(struct rd *rd, uint64_t now)
{
	diw_rd_suspend_look(rd, now);
	rd->sweep_late = sweep_is_late(rd, now) && !rd->sweep_late;
	if (!rd->sweep_late)
		peers_sweep(rd, rd->buckets / SWEEP_PARTS, now);
	rd->sweep_at = rd->peers.used ? now + sweep_pause(rd) : DIW_NEVER;
}

struct rd_peer *diw_rd_peer_add(struct rd *rd, const struct diw_dest *dest, bool announced, uint64_t now)
{
	uint32_t most = announced ? rd->peers.cap - rd->peers.cap / OWN_SHARE : rd->peers.cap;
	struct rd_peer *p = rd->peers.used < most ? diw_pool_get(&rd->peers) : NULL, **at;

	if (!p && !rd->sweep_late && !sweep_is_late(rd, now)) {
		peers_sweep(rd, SWEEP_FULL, now);
		p = rd->peers.used < most ? diw_pool_get(&rd->peers) : NULL;
	}
	if (!p) {
		rd->l.c->rd_peers_full++;
		return NULL;
	}
	at = peer_bucket(rd, &dest->addr);
	*p = (struct rd_peer){ .dest = *dest, .hash_next = *at, .next_seq = rd_us(now), .una = rd_us(now),
		.edge = rd_us(now) + 1, .first_seq = rd_us(now), .timer = DIW_NEVER, .ack_at = DIW_NEVER,
		.heard = now, .progress = now, .renewed = now };
	diw_list_init(&p->stalled);
	diw_rd_cc_init(&p->cc, diw_addr_same_host(&dest->addr, &rd->l.local), now);
	rd->sweep_at = diw_min64(rd->sweep_at, now + sweep_pause(rd));
	*at = p;
	return p;
}

void diw_rd_peer_gone(struct rd *rd, const struct rd_peer *p, int errnum)
{
	if (rd->l.up->gone)
		rd->l.up->gone(rd->l.up_ctx, &p->dest.addr, errnum);
}

void diw_rd_say(struct rd *rd, const struct diw_dest *to, const struct diw_rd_hdr *h, const void *body, uint32_t len,
	    uint64_t now)
{
	uint8_t hdr[DIW_RD_HDR_MAX];
	const struct iovec iov = { (void *)(uintptr_t)body, len };
	const struct diw_link_seg seg = { .hdr = hdr, .hdr_len = diw_rd_hdr_encode(hdr, h), .len = len, .iov = &iov };

	/* A lost datagram of this kind is repeated by a timer. */
	if (rd->lower->ops->send(rd->lower, to, &seg, 1, now) == 1)
		rd->flush = true;
}

/* ---- Time ---- */

/* The stalled peers behind P, which was served last, are the first ones of the next turn. */
static void stalled_turn_end(struct rd *rd, struct rd_peer *p)
{
	diw_list_del(&rd->stalled);
	diw_list_add_tail(p->stalled.next, &rd->stalled);
}

/* Offers the segments of stalled peers to the layer above again, in turn. The turn is broken off after OFFERS_MAX
 * refusals, so that a step is short. */
static void stalled_offer(struct rd *rd, uint64_t now)
{
	struct rd_peer *served = NULL;
	uint32_t refused = 0;

	if (now < rd->offer_at)
		rd->offers = rd->nstalled;
	for (; rd->offers && rd->nstalled && refused < OFFERS_MAX; rd->offers--) {
		struct rd_peer *p = diw_rd_stalled_take(rd);
		uint32_t before = p->expect;

		diw_rd_rx_deliver(rd, p, now);
		refused = p->expect == before ? refused + 1 : 0;
		if (!refused && !diw_list_empty(&p->stalled))
			served = p;
	}
	if (!rd->offers && served)
		stalled_turn_end(rd, served);
	rd->offer_at = rd->offers && rd->nstalled ? now + OFFERS_PAUSE : DIW_NEVER;
}

/* Gives the link below what peers have not sent, all segments of one peer before those of the next. */
static void unsent_push(struct rd *rd, uint64_t now)
{
	for (uint32_t n = rd->queue[RD_UNSENT].n; n && !rd->blocked; n--)
		diw_rd_tx_push(rd, diw_rd_queue_take(rd, RD_UNSENT), now);
	rd->unpushed = 0;
}

/* The same within calls from above. Slots and owners keep the payloads until an acknowledgement, which is not looked at
 * before the link below flushes. */
static void unsent_push_staying(struct rd *rd, uint64_t now)
{
	rd->lower->stays = true;
	unsent_push(rd, now);
	rd->lower->stays = false;
}

/* Runs the peers whose timer has expired. */
static void rd_run(struct rd *rd, uint64_t now)
{
	struct rd_peer *p;

	stalled_offer(rd, now);
	unsent_push(rd, now);
	while ((p = diw_rd_timer_take(rd, now))) {
		diw_rd_tx_timer(rd, p, now);
		diw_rd_tx_push(rd, p, now);
		if (p->ack_at <= now)
			diw_rd_ack_send(rd, p, false, now);
		diw_rd_timer_set(rd, p, diw_max64(diw_rd_tx_due(rd, p), now + 1));
	}
	if (now >= rd->sweep_at)
		peers_sweep_due(rd, now);
}

/* ---- The link below ---- */

/* Parsed segments of one peer that are delivered together. */
struct rx_batch {
	struct rd_peer *p;
	uint32_t n;
	struct rd_rx in[RD_BATCH];
};

static void rx_batch_flush(struct rd *rd, struct rx_batch *b, uint64_t now)
{
	if (b->n)
		diw_rd_rx_burst(rd, b->p, b->in, b->n, now);
	b->n = 0;
}

/* False: none waits. */
static bool ack_take(struct rd *rd)
{
	struct rd_peer *p = rd->acker;

	rd->acker = NULL;
	if (p)
		diw_rd_tx_acked(rd, p, &rd->ack, NULL, 0, rd->ack_rtt, rd->ack_at);
	return p;
}

/* Whether the acknowledgement that comes with a segment tells something. That of a peer to which nothing is under way
 * repeats what is known. */
static bool ack_is_news(const struct rd_peer *p, const struct diw_rd_hdr *h)
{
	return p->first || !p->answered || h->ack + h->window != p->edge;
}

/* The acknowledgement that comes with a segment waits for the next flush or poll, so that the segment goes up first. A
 * newer one of the same peer takes its place. */
static void ack_keep(struct rd *rd, struct rd_peer *p, const struct diw_rd_hdr *h, uint64_t now)
{
	if (rd->acker && (rd->acker != p || diw_serial_after(rd->ack.ack, h->ack)))
		ack_take(rd);
	rd->acker = p;
	rd->ack = *h;
	rd->ack_at = now;
	rd->ack_rtt = diw_rd_tx_rtt(rd, p, h, now);
}

/* Handles DATA or ACK. LEN: octets of header and announcement. */
static void rd_rx_flow(struct rd *rd, struct rx_batch *b, const struct diw_addr *src, const struct diw_rd_hdr *h,
		       uint32_t len, const struct diw_link_rxseg *seg, uint64_t now)
{
	struct rd_peer *p = diw_rd_peer_of(rd, src, h, now);

	if (!p)
		return;
	if (p != b->p || b->n == RD_BATCH)
		rx_batch_flush(rd, b, now);
	b->p = p;
	if (h->flags & DIW_RD_ASK)
		p->ack_now = true;
	if (h->kind == DIW_RD_REFUSE)
		diw_rd_tx_rejected(rd, p, h, now);
	else if (h->flags & DIW_RD_ACKS && h->kind == DIW_RD_ACK)
		diw_rd_tx_acked(rd, p, h, seg->data + len, (seg->len - len) / 4, diw_rd_tx_rtt(rd, p, h, now), now);
	else if (h->flags & DIW_RD_ACKS && ack_is_news(p, h))
		ack_keep(rd, p, h, now);
	if (h->kind == DIW_RD_DATA || (h->flags & DIW_RD_ASK)) {
		p->echo = h->time;
		p->echoes = true;
	}
	p->bare |= seg->bare;                   /* an end that leaves CRCs out takes such datagrams, too */
	if (h->kind == DIW_RD_DATA && p->receiving) {
		b->in[b->n++] = (struct rd_rx){ h->seq, { .data = seg->data + len, .len = seg->len - len,
							  .to = seg->to, .placed = seg->placed } };
		return;
	}
	rd->l.c->rd_stray += h->kind == DIW_RD_DATA;    /* its number is not announced: the association has no first */
	if (h->flags & DIW_RD_ASK) {
		p->ack_at = now;
		diw_rd_timer_set(rd, p, now);
	}
}

static int rd_rx_from(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct rd *rd = ctx;
	struct rx_batch b;

	b.p = NULL;
	b.n = 0;
	for (int i = 0; i < n; i++) {
		struct diw_rd_hdr h;
		uint32_t len = diw_rd_hdr_decode(&h, segs[i].data, segs[i].len);

		if (len && (h.kind != DIW_RD_DATA || h.flags & DIW_RD_NEW)) {
			rx_batch_flush(rd, &b, now);    /* both are of the association as it is now */
			ack_take(rd);
		}
		if (!len || segs[i].group)
			rd->l.c->rd_malformed++;
		else if (h.kind == DIW_RD_OPEN)
			diw_rd_open_came(rd, src, &h, now);
		else if (h.kind == DIW_RD_GRANT)
			diw_rd_grant_came(rd, diw_rd_peer_find(rd, src), &h, now);
		else if (h.kind == DIW_RD_RESET)
			diw_rd_reset_came(rd, diw_rd_peer_find(rd, src), &h, now);
		else
			rd_rx_flow(rd, &b, src, &h, len, &segs[i], now);
	}
	rx_batch_flush(rd, &b, now);
	return n;
}

static const struct diw_link_up rd_up = { .rx = rd_rx_from, .reach = diw_rd_rx_reach };

_Static_assert(DIW_DGRAM_HEAD >= DIW_RD_HDR_MAX + DIW_LINK_MAX_HDR, "a datagram's head tells its place");
_Static_assert(DIW_DGRAM_PLACES >= DIW_LINK_IOV, "a dgram takes the places of a segment");

/* ---- The calls from above ---- */

static int rd_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n, uint64_t now)
{
	struct rd *rd = rd_of(l);
	struct rd_peer *p = diw_rd_peer_find(rd, &dst->addr);
	int i = 0;

	if (!p)
		p = diw_rd_peer_add(rd, dst, false, now);
	if (!p) {
		rd->peers_wanted = true;
		return 0;
	}
	p->dest = *dst;
	if (!p->first) {
		p->progress = now;
		p->tries = 0;
	}
	for (; i < n && diw_rd_tx_take(rd, p, &segs[i]) == 0; i++)
		rd->unpushed += SEGMENT_COST + segs[i].hdr_len + segs[i].len;
	if (i < n)
		diw_rd_slot_wanted(rd, p);
	l->left = l->taken;
	if (p->phase == RD_PEER_IDLE && p->first) {
		diw_rd_open_begin(rd, p, now);
		return i;
	}
	if (p->unsent)
		diw_rd_queue_add(rd, RD_UNSENT, p);
	if (rd->unpushed >= PUSH_AT)
		unsent_push_staying(rd, now);
	return i;
}

/* Looks at an acknowledgement that has waited until the program's answer left. Not if the layer above waits for slots:
 * it is told of them within a poll. Returns whether there was one, which may have let segments leave. */
static bool ack_take_behind(struct rd *rd)
{
	return rd->acker && !rd->acker->wants && !rd->queue[RD_WANTING].n && ack_take(rd);
}

static int rd_flush(struct diw_link *l, uint64_t now)
{
	struct rd *rd = rd_of(l);
	int rc;

	unsent_push_staying(rd, now);
	rc = rd->lower->ops->flush(rd->lower, now);
	if (!rc && !rd->blocked && ack_take_behind(rd))
		rc = rd->lower->ops->flush(rd->lower, now);
	rd->flush = rc != 0;
	if (rc || !rd->blocked)
		return rc;
	rd->blocked = false;
	ack_take(rd);
	rd_run(rd, now);
	rc = rd->lower->ops->flush(rd->lower, now);
	return rd->blocked ? -EAGAIN : rc;
}

static bool rd_staged(const struct diw_link *l)
{
	const struct rd *rd = (const struct rd *)l;

	return rd->queue[RD_UNSENT].n || rd->lower->taken != rd->lower->left;
}

static int rd_poll(struct diw_link *l, int budget, uint64_t now)
{
	struct rd *rd = rd_of(l);
	bool acked = ack_take(rd);
	int n = rd->lower->ops->poll(rd->lower, budget, now);

	rd->drained = n < budget;
	if (rd->drained)
		rd->backlog = 0;
	if (n || now >= diw_rd_timer_first(rd) || now >= rd->sweep_at || rd->blocked || rd->nstalled) {
		rd->blocked = false;
		rd_run(rd, now);
	}
	diw_rd_wanting_tell(rd);
	if (rd->flush)
		rd->flush = rd->lower->ops->flush(rd->lower, now) != 0;
	return n || !acked ? n : 1;
}

static uint64_t rd_deadline(struct diw_link *l)
{
	struct rd *rd = rd_of(l);

	uint64_t t = diw_min64(diw_min64(diw_rd_timer_due(rd), rd->offer_at), rd->sweep_at);

	if (rd->acker)
		t = diw_min64(t, rd->ack_at + rd->cfg.ack_ns);
	if (diw_rd_wanting_due(rd))
		return DIW_DGRAM_AT_HAND;
	return diw_min64(t, rd->lower->ops->deadline(rd->lower));
}

static uint32_t rd_mulpdu(struct diw_link *l, const struct diw_addr *dst)
{
	struct rd *rd = rd_of(l);
	uint32_t room = rd->lower->ops->mulpdu(rd->lower, dst) - DIW_RD_HDR_MAX;

	return room < rd->large_size ? room : rd->large_size;
}

static int rd_fds(struct diw_link *l, int fd[DIW_DGRAM_FDS])
{
	struct rd *rd = rd_of(l);

	return rd->lower->ops->fds(rd->lower, fd);
}

static void rd_refuse(struct diw_link *l, const struct diw_addr *src, uint16_t fault)
{
	struct rd_peer *p = diw_rd_peer_find(rd_of(l), src);

	p->refused = fault;
	l->c->rd_refused++;
}

static void rd_take_acks(struct diw_link *l)
{
	ack_take(rd_of(l));
}

static uint32_t rd_peers(const struct diw_link *l, struct diw_stat_peer *row, uint32_t max, uint32_t *all)
{
	const struct diw_pool *pool = &((const struct rd *)l)->peers;
	uint32_t places = pool->fresh < SHOWN_PLACES ? pool->fresh : SHOWN_PLACES, n = 0;

	for (uint32_t i = 0; i < places && n < max; i++) {
		const struct rd_peer *p = (const void *)(pool->base + i * pool->size);

		if (p->dest.addr.port)
			row[n++] = (struct diw_stat_peer){ .addr = p->dest.addr, .window = (uint32_t)p->cc.cwnd,
				.flight = p->flight, .srtt_ns = p->cc.srtt, .retransmits = p->retransmits };
	}
	*all = pool->used;
	return n;
}

static bool rd_renewed(const struct diw_link *l, const struct diw_addr *peer, uint64_t *renewed, uint64_t *restarted)
{
	const struct rd_peer *p = diw_rd_peer_find((const struct rd *)l, peer);

	if (!p)
		return false;
	*renewed = p->renewed;
	*restarted = p->replaced ? p->met : 0;
	return true;
}

static void rd_close(struct diw_link *l)
{
	struct rd *rd = rd_of(l);

	rd->lower->ops->close(rd->lower);
	diw_arena_fini(&rd->arena);
	free(rd);
}

/* Divides the arena into pools and tables. All peers are forgotten. */
static void rd_carve(struct rd *rd, size_t small, size_t large, size_t held)
{
	const struct diw_rd_cfg *c = &rd->cfg;

	rd->arena.used = 0;
	rd->bucket = diw_arena_take(&rd->arena, rd->buckets * sizeof(*rd->bucket));
	memset(rd->bucket, 0, rd->buckets * sizeof(*rd->bucket));
	rd->timer = diw_arena_take(&rd->arena, (c->peers + 1) * sizeof(*rd->timer));
	diw_pool_init(&rd->peers, &rd->arena, sizeof(struct rd_peer), c->peers);
	diw_pool_init(&rd->small, &rd->arena, small, c->slots);
	diw_pool_init(&rd->large, &rd->arena, large, c->slots);
	diw_pool_init(&rd->held, &rd->arena, held, c->held);
	rd->acker = NULL;
	memset(rd->queue, 0, sizeof rd->queue);
	diw_list_init(&rd->stalled);
	memset(rd->senders, 0, sizeof rd->senders);
	rd->timers = rd->queued = rd->unpushed = rd->offers = rd->nstalled = 0;
	rd->offer_at = rd->sweep_at = DIW_NEVER;
	rd->peers_wanted = rd->blocked = rd->flush = rd->sweep_late = false;
}

static int rd_memory(struct rd *rd)
{
	const struct diw_rd_cfg *c = &rd->cfg;
	size_t small = sizeof(struct rd_slot) + SMALL_SEG;
	size_t large = sizeof(struct rd_slot) + rd->large_size;
	size_t held = sizeof(struct rd_held) + rd->large_size;
	size_t bytes = diw_pool_bytes(sizeof(struct rd_peer), c->peers) + diw_pool_bytes(small, c->slots) +
		       diw_pool_bytes(large, c->slots) + diw_pool_bytes(held, c->held);
	int err;

	rd->buckets = diw_pool_buckets(c->peers);
	err = diw_arena_init(&rd->arena, bytes + diw_arena_round(rd->buckets * sizeof(*rd->bucket)) +
			     diw_arena_round((c->peers + 1) * sizeof(*rd->timer)));
	if (err)
		return err;
	rd_carve(rd, small, large, held);
	return 0;
}

/* Draws another epoch, so that peers see that this end has lost its state. Draws another key, so that datagrams to the
 * old end are not valid for the new one. */
static void rd_discard(struct diw_link *l)
{
	struct rd *rd = rd_of(l);
	uint32_t epoch = rd->cfg.epoch;

	rd->lower->ops->discard(rd->lower);
	rd_carve(rd, rd->small.size, rd->large.size, rd->held.size);
	rd->key[0] = diw_random();
	rd->key[1] = diw_random();
	while (rd->cfg.epoch == epoch || !rd->cfg.epoch)
		rd->cfg.epoch = (uint32_t)diw_random();
}

static const struct diw_link_ops rd_ops = {
	.send = rd_send, .flush = rd_flush, .staged = rd_staged, .discard = rd_discard, .poll = rd_poll,
	.deadline = rd_deadline, .mulpdu = rd_mulpdu,
	.fds = rd_fds, .refuse = rd_refuse, .take_acks = rd_take_acks, .peers = rd_peers, .renewed = rd_renewed,
	.close = rd_close,
};

int diw_rd_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_rd_cfg *cfg, const struct diw_link_up *up,
		void *up_ctx, struct diw_link **l)
{
	struct rd *rd = calloc(1, sizeof *rd);
	int err;

	if (!rd)
		return -ENOMEM;
	rd->cfg = *cfg;
	rd->key[0] = diw_random();
	rd->key[1] = diw_random();
	rd->rng.state = diw_random();
	while (!rd->cfg.epoch)
		rd->cfg.epoch = (uint32_t)diw_random();
	rd->suspended = cfg->suspended ? cfg->suspended() : 0;
	rd->large_size = cfg->max_seg;
	rd->period = rd->shares = 1;
	rd->l = (struct diw_link){ .ops = &rd_ops, .dgram = d, .local = d->local, .up = up, .up_ctx = up_ctx,
				   .c = d->c };
	err = rd_memory(rd);
	if (err == 0)                           /* D is set last: it stays the caller's if this fails */
		err = diw_seal_open(d, mulpdu, &rd_up, rd, &rd->lower);
	if (err == 0)
		rd->lower->takes_bare = cfg->bare;
	if (err) {
		diw_arena_fini(&rd->arena);
		free(rd);
		return err;
	}
	*l = &rd->l;
	return 0;
}
