/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether peers that the application waits for are alive. The link gives up a peer that does not acknowledge requests,
 * but a receive that waits, or an operation whose messages are acknowledged, has no request under way. A sweep looks at
 * all operations, once a second. Each peer that one of them waits for gets at most one message in a sweep:
 *
 *   since the last sweep                                 sent to the peer
 *   a message of the peer came                           nothing
 *   the link has met the peer, or noticed that the       ASK: the peer answers with GONE if this end is gone for it
 *   peer may have given this end up, after the last ASK
 *   nothing came, for `patience` sweeps                  a Write of no octets, which consumes no receive and changes
 *                                                        no memory. The peer's link acknowledges it while the peer's
 *                                                        program computes (docs/ud-profile.md section 18.8)
 */
#include <time.h>

#include "base/clock.h"
#include "mpi_glue/port.h"

#define ALIVE_SWEEP DIW_S                /* from a sweep of the operations to the next */
#define ALIVE_SLICE 256u                 /* operations that one call looks at */
#define ALIVE_PATIENCE 8u                /* the most sweeps between two Writes to a silent peer */

/* The kernel's time of its last tick: it costs less, and a sweep needs no better one. */
static uint64_t alive_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

/* The peer that OP waits for without a request under way; NULL: none. A posted receive has the peer in its key. A
 * receive for many messages that was released waits for messages under way, which are operations by themselves. */
static struct glue_peer *alive_awaited(const struct glue_op *op)
{
	if (op->ended || (op->requests && op->kind != GLUE_OP_ATOMIC))
		return NULL;
	switch ((enum glue_op_kind)op->kind) {
	case GLUE_OP_RECV: return op->peer || op->released ? op->peer : (struct glue_peer *)(uintptr_t)op->key.source;
	case GLUE_OP_SEND:
	case GLUE_OP_ATOMIC: return op->peer;
	default: return NULL;
	}
}

/* If the link has noticed that another process has P's address, the operations that wait for P fail. *RENEWED is the
 * last time at which the link met P, or P may have given this end up: diw_qp_peer(); 0: not known. */
static void alive_check_link(struct glue_ep *ep, struct glue_peer *p, uint64_t *renewed)
{
	uint64_t restarted = 0;

	*renewed = 0;
	if (ep->port->ops->renewed && ep->port->ops->renewed(ep, p, renewed, &restarted))
		diw_glue_peer_replaced(ep, p, restarted);
}

/* Sends ASK, which is GONE with status 0. P's link acknowledges a Write although this end is gone for P's program. So
 * the program has to answer. */
static void alive_question(struct glue_ep *ep, struct glue_peer *p, uint64_t renewed)
{
	const struct glue_hdr h = { .kind = GLUE_GONE };

	if (diw_glue_port_send(ep, p, &h, NULL, 0, 0, NULL, false) == 0)
		p->asked = renewed;
}

/* The time between Writes to a silent peer doubles, up to ALIVE_PATIENCE sweeps, so that peers that wait for each other
 * send little. */
static void alive_check_peer(struct glue_ep *ep, struct glue_peer *p, uint8_t sweep)
{
	bool heard = p->heard;
	uint64_t renewed;

	if (p->gone || p->swept == sweep)
		return;
	p->swept = sweep;
	p->heard = false;
	alive_check_link(ep, p, &renewed);
	if (heard) {
		p->silent = 0;
		p->patience = 1;
	} else if (renewed > p->asked) {
		alive_question(ep, p, renewed);
	} else if (++p->silent >= p->patience && diw_glue_port_probe(ep, p) == 0) {
		p->silent = 0;
		p->patience = p->patience < ALIVE_PATIENCE ? 2 * p->patience : ALIVE_PATIENCE;
	}
}

void diw_glue_alive_wait(struct glue_ep *ep, struct glue_peer *p)
{
	alive_check_peer(ep, p, ep->domain->sweep);
}

void diw_glue_alive_look(struct glue_domain *d)
{
	uint32_t end;

	if (d->sweep_at_op == d->ops.fresh) {
		uint64_t now = alive_clock();

		if (now < d->sweep_at)
			return;
		d->sweep_at = now + ALIVE_SWEEP;
		d->sweep++;
		d->sweep_at_op = 0;
	}
	end = d->ops.fresh - d->sweep_at_op < ALIVE_SLICE ? d->ops.fresh : d->sweep_at_op + ALIVE_SLICE;
	for (; d->sweep_at_op < end; d->sweep_at_op++) {
		const struct glue_op *op = diw_pool_at(&d->ops, d->sweep_at_op);
		struct glue_peer *p = alive_awaited(op);

		if (p && op->ep->enabled)
			alive_check_peer(op->ep, p, d->sweep);
	}
}

void diw_glue_alive_finish(struct glue_domain *d)
{
	while (d->sweep_at_op != d->ops.fresh)
		diw_glue_alive_look(d);
}
