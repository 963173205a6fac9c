/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that are gone. The application may have the completions of messages that RD has then given up. A later message
 * must not arrive in their place, so everything with such a peer fails. `gone` of struct glue_peer is the state:
 *
 *   state   gone      sends to the peer      its messages                     becomes the other state when
 *   present 0         leave                  are taken                        RD gives up a request to it, or it sends
 *                                                                             GONE with an errno:
 *                                                                             diw_glue_peer_gone()
 *   gone    an errno  fail with this errno   are dropped, but for GONE. The   its address is inserted again (av.c), or
 *                                            peer is told: GONE               another process has the address:
 *                                                                             diw_glue_peer_replaced()
 *
 * Three events end what waits for the peer (peer_lost()): it becomes gone; another process has its address; its RC
 * connection is lost (port_rc.c), behind which a new connection may follow.
 */
#include "mpi_glue/glue.h"

struct lost_search {
	struct glue_peer *peer;
	struct match *match;
	int err;
	bool earlier;                    /* only operations that are older than the insertion of the address */
};

static bool lost_receive(struct match_key *k, void *arg)
{
	const struct lost_search *s = arg;
	struct glue_op *op = diw_container(k, struct glue_op, key);

	if (k->source == s->peer && (op->earlier || !s->earlier))
		diw_glue_recv_end(s->match, op, s->err);
	return false;
}

/* Receives that name this peer as their source. */
static void lost_receives(struct match *m, struct lost_search s)
{
	s.match = m;
	diw_match_each(m, lost_receive, &s);
}

/* An operation may wait through several events: the peer is gone, then another process has its address. */
static void op_keep_first_error(struct glue_op *op, int err)
{
	if (op->entry.err == 0)
		op->entry.err = err;
}

/* Fails an operation that waits for an answer of the peer. One with requests under way ends when these have failed. The
 * requests of an atomic operation are answers that will not come, so it ends at once. */
static void lost_op(struct glue_op *op, int err)
{
	if (op->requests && op->kind != GLUE_OP_ATOMIC)
		op_keep_first_error(op, err);
	else
		diw_glue_op_end(op, err);
}

static bool op_awaits_peer(const struct glue_op *op)
{
	return op->kind == GLUE_OP_SEND || op->kind == GLUE_OP_RECV || op->kind == GLUE_OP_READ ||
	       op->kind == GLUE_OP_WRITE || op->kind == GLUE_OP_ATOMIC;
}

/* Ends a message of the peer that no receive has matched.
 *
 *   an eager message        stays: its octets are here
 *   FIN that waits for room ends
 *   RTS in a bucket         vanishes: its octets will not come
 *   RTS that a peek has     fails when the application receives it
 *   claimed, in no bucket
 *
 * None of them is reported: the peer's next process may have operations with the same ids. */
static void lost_message(struct glue_op *op, int err)
{
	op->hdr.flags &= (uint8_t)~GLUE_REPORT;
	if (op->queue) {                 /* FIN */
		diw_glue_op_end(op, err);
	} else if (op->hdr.kind == GLUE_RTS && diw_list_empty(&op->key.hash)) {
		op_keep_first_error(op, err);
	} else if (op->hdr.kind == GLUE_RTS) {
		diw_match_take(&op->key);
		diw_glue_message_free(op);
	}
}

static void peer_lost(struct glue_ep *ep, struct lost_search s)
{
	struct diw_pool *ops = &ep->domain->ops;

	lost_receives(&ep->tagged, s);
	lost_receives(&ep->untagged, s);
	diw_glue_inbox_lose(ep, s.peer);
	diw_glue_hold_lost(s.peer);
	for (uint32_t i = 0; i < ops->fresh; i++) {
		struct glue_op *op = diw_pool_at(ops, i);

		if (op->kind == GLUE_OP_FREE || op->ended || op->ep != ep || op->peer != s.peer)
			continue;
		if (op_awaits_peer(op) && (op->earlier || !s.earlier))
			lost_op(op, s.err);
		else if (op->kind == GLUE_OP_MESSAGE && op->key.source)      /* else it is in the peer's inbox */
			lost_message(op, s.err);
	}
}

void diw_glue_peer_lost(struct glue_ep *ep, struct glue_peer *peer, int err)
{
	peer_lost(ep, (struct lost_search){ .peer = peer, .err = err });
}

static void lost_everywhere(const struct glue_ep *ep, struct lost_search s)
{
	for (struct diw_list *n = ep->domain->eps.next; n != &ep->domain->eps; n = n->next) {
		struct glue_ep *e = diw_container(n, struct glue_ep, link);

		if (e->av == ep->av && e->enabled)
			peer_lost(e, s);
	}
}

void diw_glue_peer_gone(struct glue_ep *ep, struct glue_peer *peer, int err)
{
	char text[DIW_ADDR_STRLEN];

	if (peer->gone)
		return;
	GLUE_LOG("peer %s is gone, and messages to it are lost: %s\n", diw_addr_str(&peer->addr, text),
		 fi_strerror(err));
	peer->gone = err;
	lost_everywhere(ep, (struct lost_search){ .peer = peer, .err = err });
}

/* WHEN is not later than the last such time: the event is known. No message to the new process was lost, so it is not
 * gone. Operations that are younger than an insertion of the address are meant for the new process, and go on. */
void diw_glue_peer_replaced(struct glue_ep *ep, struct glue_peer *peer, uint64_t when)
{
	struct lost_search s = { .peer = peer, .err = FI_ECONNRESET, .earlier = peer->expected };

	if (when <= peer->restarted)
		return;
	peer->restarted = when;
	peer->gone = 0;
	peer->expected = false;
	lost_everywhere(ep, s);
}

/* ---- GONE: the peer is told ---- */

/* A peer that is gone may be alive: it was stopped, or could not be reached. It does not know that messages to it are
 * lost. So its next message is answered with GONE. */
void diw_glue_gone_tell(struct glue_ep *ep, struct glue_peer *from)
{
	if (from->teller)
		return;
	from->teller = ep;
	diw_list_add_tail(&ep->telling, &from->tell);
}

static void gone_told(struct glue_peer *p)
{
	diw_list_del(&p->tell);
	p->teller = NULL;
}

/* One GONE at a time is under way to a peer. */
void diw_glue_gone_run(struct glue_ep *ep)
{
	struct diw_list *n, *next;

	diw_list_for_each_safe(n, next, &ep->telling) {
		struct glue_peer *p = diw_container(n, struct glue_peer, tell);
		const struct glue_hdr h = { .kind = GLUE_GONE, .status = (uint32_t)p->gone };

		if (p->gone && (p->requests || diw_glue_port_send(ep, p, &h, NULL, 0, 0, NULL, false) == -FI_EAGAIN))
			continue;
		gone_told(p);
	}
}

void diw_glue_gone_forget(struct glue_ep *ep)
{
	struct diw_list *n;

	while ((n = diw_list_first(&ep->telling)))
		gone_told(diw_container(n, struct glue_peer, tell));
}

void diw_glue_gone_came(struct glue_ep *ep, struct glue_peer *from, const uint8_t *data, uint32_t len)
{
	struct glue_hdr h;

	if (!diw_glue_hdr_decode(&h, data, len))
		diw_glue_drop(ep, from, GLUE_DROP_MALFORMED);
	else if (h.status)
		diw_glue_peer_gone(ep, from, FI_ECONNRESET);
	else if (from->gone)
		diw_glue_gone_tell(ep, from);
}
