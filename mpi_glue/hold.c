/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers whose messages find no receive (docs/mpi-wire.md section 3). A message sent by rendezvous needs no room at the
 * receiver before it is matched, but an eager message does. So an endpoint that has too many eager messages of a peer
 * sends HOLD, and the peer sends every message by rendezvous until RESUME comes.
 *
 *   the receiver's peer    holder     held    in ep->held   octets of its eager messages that wait
 *   sends as it wants      NULL       false   no            at most the limit: a quarter of what is free
 *   is to be told HOLD     endpoint   false   yes           above the limit. HOLD leaves when there is room to send it
 *   is held                endpoint   true    yes           above half of the limit; below, RESUME leaves
 *
 * At the sender, `holds` of the peer counts HOLDs less RESUMEs.
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

/* Sends HOLD or RESUME. False: there is no room for the message. After another error the peer is gone, and needs no
 * message. */
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

/* The peer's endpoints that share an address send HOLD and RESUME independently, so they are counted. */
void diw_glue_hold_came(struct glue_peer *from, const struct glue_hdr *h)
{
	if (h->status)
		from->holds++;
	else if (from->holds)
		from->holds--;
}

/* A RESUME that a peer sends to EP after its end does not arrive. So the HOLDs of all peers end, for all endpoints that
 * share the address vector. These may then send eager messages to a peer that still holds them. */
void diw_glue_hold_forget(struct glue_ep *ep)
{
	struct diw_list *n;

	while ((n = diw_list_first(&ep->held)))
		diw_glue_hold_lost(diw_container(n, struct glue_peer, hold));
	for (uint32_t i = 0; ep->av && i < ep->av->peers.fresh; i++)
		((struct glue_peer *)diw_pool_at(&ep->av->peers, i))->holds = 0;
}
