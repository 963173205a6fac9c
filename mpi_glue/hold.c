/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers whose messages find no receive (docs/mpi-wire.md section 3). An endpoint asks a peer that fills its memory with
 * unexpected messages to hold eager ones (HOLD). Longer messages need no room before they are matched, so a sender that
 * is held sends every message by rendezvous, and all others of its messages pass.
 */
#include "mpi_glue/glue.h"

#define HOLD_SHARE 4u                    /* a peer is held when it has more than 1/4 of what is free */

static uint64_t hold_limit(const struct glue_ep *ep)
{
	uint64_t all = ep->domain->set.buffered;

	return (ep->kept < all ? all - ep->kept : 0) / HOLD_SHARE;
}

void diw_glue_hold_count(struct glue_op *op)
{
	struct glue_ep *ep = op->ep;
	struct glue_peer *p = op->peer;

	op->kept = op->buf ? (uint32_t)op->buf->pool->size : 0;
	p->kept += op->kept;
	ep->kept += op->kept;
	if (p->holder || p->kept <= hold_limit(ep))
		return;
	p->holder = ep;
	diw_list_add_tail(&ep->held, &p->hold);
}

void diw_glue_hold_uncount(struct glue_op *op)
{
	op->peer->kept -= op->kept;
	op->ep->kept -= op->kept;
	op->kept = 0;
}

void diw_glue_hold_lost(struct glue_peer *p)
{
	p->holds = 0;
	if (!p->holder)
		return;
	diw_list_del(&p->hold);
	p->holder = NULL;
	p->held = false;
}

/* False: there is no room for the message. One that fails is of no use any more: the peer is gone. */
static bool hold_tell(struct glue_ep *ep, struct glue_peer *p, bool hold)
{
	const struct glue_hdr h = { .kind = GLUE_HOLD, .status = hold };

	if (diw_glue_port_send(ep, p, &h, NULL, 0, 0, NULL, false) == -FI_EAGAIN)
		return false;
	p->held = hold;
	ep->holds += hold;
	if (hold)
		diw_glue_port_count(ep, p, GLUE_HELD);
	return true;
}

void diw_glue_hold_run(struct glue_ep *ep)
{
	struct diw_list *n, *next;

	diw_list_for_each_safe(n, next, &ep->held) {
		struct glue_peer *p = diw_container(n, struct glue_peer, hold);
		bool hold = p->kept > hold_limit(ep) / (p->held ? 2 : 1);

		if (hold != p->held && !hold_tell(ep, p, hold))
			return;
		if (!hold) {
			diw_list_del(&p->hold);
			p->holder = NULL;
		}
	}
}

/* The peer counts as often as it asks: its endpoints that share an address ask one after the other. */
void diw_glue_hold_came(struct glue_peer *from, const struct glue_hdr *h)
{
	if (h->status)
		from->holds++;
	else if (from->holds)
		from->holds--;
}

/* A RESUME to an endpoint that is closed does not come. So what its peers asked for ends for all endpoints that share
 * the address vector; these may send eager messages to a peer that still holds them. */
void diw_glue_hold_forget(struct glue_ep *ep)
{
	struct diw_list *n;

	while ((n = diw_list_first(&ep->held)))
		diw_glue_hold_lost(diw_container(n, struct glue_peer, hold));
	for (uint32_t i = 0; ep->av && i < ep->av->peers.fresh; i++)
		((struct glue_peer *)(void *)(ep->av->peers.base + i * ep->av->peers.size))->holds = 0;
}
