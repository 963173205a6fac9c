/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushing of posted requests. The device's lock is held. */
#include "verbs/qp.h"

static void recv_flush(struct diw_qp *qp, struct diw_recv *r)
{
	*diw_cq_slot(qp->recv_cq) = (struct diw_wc){
		.wr_id = r->wr_id, .qp = qp, .status = DIW_WC_FLUSHED, .opcode = DIW_WC_RECV, .flags = DIW_WC_END,
	};
	diw_rq_done(qp->rq, r);
	diw_cq_push(qp->recv_cq);
}

void diw_qp_tell_last_recv(struct diw_qp *qp)
{
	if (qp->srq && !qp->silent)
		diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_LAST_WQE, .qp = qp, .ctx = qp->ctx });
}

void diw_qp_flush(struct diw_qp *qp)
{
	struct diw_recv *r;

	diw_sq_flush(qp);
	while (diw_qp_has_room(qp, qp->recv_cq, 1)) {
		r = diw_rdmap_give_up_recv(&qp->rdmap);
		if (!r && !qp->srq)
			r = diw_rq_take(qp->rq);
		if (!r)
			return;
		recv_flush(qp, r);
	}
}
