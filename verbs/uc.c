/* SPDX-License-Identifier: BSD-2-Clause */
/* Unreliable connection: datagrams to and from one peer, with flow control by the peer. */
#include <errno.h>

#include "base/log.h"
#include "verbs/dgram_qp.h"

static int uc_check(const struct diw_qp_attr *a)
{
	return a->dgram.grh ? diw_fail(-EINVAL, "diw_qp_create: grh: only for UD queue pairs") : diw_dgram_qp_check(a);
}

/* A peer that is set later is checked by DDP alone. */
static int uc_open(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	return diw_dgram_qp_open(qp, a, &a->dgram.peer, diw_dgram_qp_seal);
}

int diw_qp_set_peer(struct diw_qp *qp, const struct diw_dest *peer, const struct diw_addr *local)
{
	int rc;

	/* UD and RD have no peer of their own, and RC's is set by its connection. */
	if (qp->ops != &diw_qp_ops_uc || peer->addr.port == 0 || diw_addr_ip_is_zero(&peer->addr))
		return diw_fail(-EINVAL, "diw_qp_set_peer: %s", qp->ops != &diw_qp_ops_uc ? "only for UC queue pairs" :
				"the peer has no address or port");
	if (!diw_dgram_reaches(qp->socket, &peer->addr))
		return diw_fail(-EAFNOSUPPORT,
				"diw_qp_set_peer: the queue pair's address is of IPv%d, the peer's is not",
				qp->socket->only);
	rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	diw_rdmap_set_peer(&qp->rdmap, peer);
	if (local && diw_addr_is_v4(local) != diw_addr_is_v4(&peer->addr))
		local = NULL;
	if (qp->socket->ops->from)
		qp->socket->ops->from(qp->socket, local);
	rc = diw_qp_renew(qp);
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

/* Leaves the destination empty: the peer may be set later, and execution takes the peer of its time. */
static void uc_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	(void)qp, (void)wr;
	w->dst = (struct diw_dest){ 0 };
}

/* Sends as far as the peer's window reaches, and at most up to the point where the peer must be asked. */
static void uc_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now)
{
	struct diw_rdmap *r = &qp->rdmap;
	int said;

	(void)rc_answers;
	do {
		int64_t left = diw_rdmap_flow_left(r, now), had = left < *budget ? left : *budget, b = had;
		uint64_t segments = qp->c->tx_segments;

		*rc = diw_dgram_qp_run_queue(qp, &b, now);
		diw_rdmap_flow_sent(r, had - b);
		*budget -= had - b - (int64_t)(qp->c->tx_segments - segments) * DIW_RDMAP_FLOW_TOLL;
		said = *rc == -EAGAIN ? 0 : diw_rdmap_flow_run(r, *rc == -EBUSY, now);
	} while (*rc == -EBUSY && said == 0 && *budget > 0 && diw_rdmap_flow_left(r, now) > 0);
	if (said < 0)
		*rc = said;
}

const struct diw_qp_ops diw_qp_ops_uc = {
	.type = DIW_QP_UC, .rdmap = &diw_rdmap_type_uc, .awaits_recv = true,
	.requests = 1u << DIW_WR_SEND | 1u << DIW_WR_WRITE,
	.check = uc_check, .open = uc_open, .fill = uc_fill, .run = uc_run,
	DIW_DGRAM_QP_OPS,
};
