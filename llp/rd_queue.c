/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queues of peers that wait: for the link below, for a slot, for the layer above. A peer is in each queue at most
 * once. Also the shares of slots.
 */
#include "llp/rd.h"

#define SILENT_SHARE 8u              /* the part of a peer's slots for one that has not answered yet, or not for several
				      * timeouts */

void diw_rd_queue_add(struct rd *rd, enum rd_queue_name name, struct rd_peer *p)
{
	struct rd_queue *q = &rd->queue[name];

	if (p->queued_in & 1u << name)
		return;
	p->queued_in = (uint8_t)(p->queued_in | 1u << name);
	p->queue_next[name] = NULL;
	*(q->last ? &q->last->queue_next[name] : &q->first) = p;
	q->last = p;
	q->n++;
}

struct rd_peer *diw_rd_queue_take(struct rd *rd, enum rd_queue_name name)
{
	struct rd_queue *q = &rd->queue[name];
	struct rd_peer *p = q->first;

	if (!p)
		return NULL;
	p->queued_in = (uint8_t)(p->queued_in & ~(1u << name));
	q->first = p->queue_next[name];
	if (!q->first)
		q->last = NULL;
	q->n--;
	return p;
}

void diw_rd_stalled_add(struct rd *rd, struct rd_peer *p)
{
	if (!diw_list_empty(&p->stalled))
		return;
	diw_list_add_tail(&rd->stalled, &p->stalled);
	rd->nstalled++;
}

void diw_rd_stalled_remove(struct rd *rd, struct rd_peer *p)
{
	rd->nstalled -= !diw_list_empty(&p->stalled);
	diw_list_del(&p->stalled);
}

struct rd_peer *diw_rd_stalled_take(struct rd *rd)
{
	struct rd_peer *p = diw_container(rd->stalled.next, struct rd_peer, stalled);

	if (diw_list_empty(&rd->stalled))
		return NULL;
	diw_rd_stalled_remove(rd, p);
	return p;
}

/*
 * A peer may have half as many slots as are free (Choudhury and Hahne, "Dynamic queue length thresholds for
 * shared-memory packet switches", 1998). So some slots are always free for another peer, and N busy peers get equal
 * shares.
 */
bool diw_rd_slot_allowed(const struct rd *rd, const struct rd_peer *p)
{
	uint32_t left = rd->cfg.slots - rd->queued, limit = left / 2;

	if (p->phase != RD_PEER_OPEN || p->backoff > 1)
		limit /= SILENT_SHARE;
	limit = limit < rd->cfg.peer_slots ? limit : rd->cfg.peer_slots;
	return left && (p->queued < limit || !p->queued);
}

void diw_rd_slot_wanted(struct rd *rd, struct rd_peer *p)
{
	p->wants = true;
	if (!p->queued)                         /* no slot of the peer will be freed */
		diw_rd_queue_add(rd, RD_WANTING, p);
}

static void room_tell(struct rd *rd, struct rd_peer *p)
{
	p->wants = false;
	if (rd->l.up->room)
		rd->l.up->room(rd->l.up_ctx, &p->dest.addr);
}

void diw_rd_slots_freed(struct rd *rd, struct rd_peer *p)
{
	if (p->wants && !p->queued)             /* behind those that have waited longer */
		diw_rd_queue_add(rd, RD_WANTING, p);
	else if (p->wants && diw_rd_slot_allowed(rd, p))
		room_tell(rd, p);
}

bool diw_rd_wanting_due(const struct rd *rd)
{
	return rd->queue[RD_WANTING].n && rd->queued < rd->cfg.slots;
}

void diw_rd_wanting_tell(struct rd *rd)
{
	struct rd_peer *p;

	for (uint32_t left = rd->cfg.slots - rd->queued; left && (p = diw_rd_queue_take(rd, RD_WANTING)); left--)
		room_tell(rd, p);
}
