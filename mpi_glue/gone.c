/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that are gone: RD has given up messages to such a peer, and the sends of some of these are complete already. So
 * that no later message takes their place, everything with this peer fails, until its address is inserted again. */
#include "mpi_glue/glue.h"

struct gone_search { struct glue_peer *peer; struct match *match; };

static bool gone_receive(struct match_key *k, void *arg)
{
	const struct gone_search *s = arg;
	struct glue_op *op = diw_container(k, struct glue_op, key);

	if (k->source == s->peer && !op->multi) {
		diw_match_unpost(s->match, k);
		diw_glue_op_end(op, s->peer->gone);
	}
	return false;
}

/* Receives that name this peer as their source. */
static void gone_receives(struct glue_ep *ep, struct glue_peer *peer)
{
	struct gone_search tagged = { peer, &ep->tagged }, untagged = { peer, &ep->untagged };

	diw_match_each(&ep->tagged, gone_receive, &tagged);
	diw_match_each(&ep->untagged, gone_receive, &untagged);
}

static bool gone_waits(const struct glue_op *op)
{
	return op->kind == GLUE_OP_SEND || op->kind == GLUE_OP_RECV || op->kind == GLUE_OP_READ ||
	       op->kind == GLUE_OP_WRITE || op->kind == GLUE_OP_ATOMIC;
}

/* Operations that wait for an answer of the peer. Those with requests under way end when these have failed. */
static void gone_ops(struct glue_ep *ep, const struct glue_peer *peer)
{
	struct diw_pool *ops = &ep->domain->ops;

	for (uint32_t i = 0; i < ops->fresh; i++) {
		struct glue_op *op = (struct glue_op *)(void *)(ops->base + i * ops->size);

		if (!gone_waits(op) || op->ended || op->ep != ep || op->peer != peer)
			continue;
		if (op->requests)
			op->entry.err = peer->gone;
		else
			diw_glue_op_end(op, peer->gone);
	}
}

void diw_glue_peer_gone(struct glue_ep *ep, struct glue_peer *peer, int err)
{
	if (peer->gone)
		return;
	GLUE_LOG("a peer is gone, and messages to it are lost: error %d\n", err);
	peer->gone = err;
	for (struct diw_list *n = ep->domain->eps.next; n != &ep->domain->eps; n = n->next) {
		struct glue_ep *e = diw_container(n, struct glue_ep, link);

		if (e->av == ep->av && e->enabled) {
			gone_receives(e, peer);
			gone_ops(e, peer);
		}
	}
}
