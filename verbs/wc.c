/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions: room for them, those of send requests, and their validity maps. */
#include <errno.h>

#include "verbs/qp.h"

/* If there is no room, the queue pair is served again when completions are taken. */
bool diw_qp_has_room(struct diw_qp *qp, struct diw_cq *cq, uint32_t n)
{
	if (diw_cq_room(cq) >= n)
		return true;
	diw_engine_starve(&qp->dev->engine, &qp->member);
	atomic_store_explicit(&cq->starved, true, memory_order_relaxed);
	/* A thread that took completions before `starved` was visible does not check again. */
	atomic_thread_fence(memory_order_seq_cst);
	return diw_cq_room(cq) >= n;
}

/* The status says why the peer refused. A failure for a reason of the peer's own is no access error. */
static uint8_t refusal_status(const struct diw_rdmap_wr *wr)
{
	unsigned kind = wr->fault >> 8;

	return kind == DIW_FAULT_STREAM >> 8 || kind == DIW_FAULT_NO_BUFFER >> 8 ? DIW_WC_REM_OP_ERR :
										   DIW_WC_REM_ACCESS_ERR;
}

void diw_qp_fill_send_wc(struct diw_qp *qp, const struct diw_rdmap_wr *wr, uint8_t status)
{
	static const uint8_t as_wc[] = {
		[DIW_RDMAP_OK] = DIW_WC_SUCCESS, [DIW_RDMAP_LOCAL_PROT] = DIW_WC_LOC_PROT_ERR,
		[DIW_RDMAP_BIND] = DIW_WC_MW_BIND_ERR, [DIW_RDMAP_FLUSHED] = DIW_WC_FLUSHED,
		[DIW_RDMAP_UNSENT] = DIW_WC_LOC_QP_OP_ERR, [DIW_RDMAP_PEER_GONE] = DIW_WC_PEER_GONE,
	};
	struct diw_wc *wc = diw_cq_slot(qp->send_cq);

	*wc = (struct diw_wc){
		.wr_id = wr->wr_id, .qp = qp, .msg_len = wr->buf.len, .byte_len = status ? 0 : wr->buf.len,
		.nranges = !status && wr->buf.len, .status = as_wc[status], .opcode = wr->wc_opcode,
		.flags = DIW_WC_END, .src = wr->dst.addr,
		/* all members, as in complete.c */
		.time_ns = 0, .qp_num = 0, .epoch = 0, .map = NULL, .to = 0, .stag = 0, .mo = 0, .imm = 0, .msn = 0,
		.waited_ns = 0, .fault = 0, .close = 0, .errnum = 0,
	};
	if (status == DIW_RDMAP_REFUSED) {
		wc->status = refusal_status(wr);
		wc->fault = wr->fault;
	} else if (status == DIW_RDMAP_UNSENT || status == DIW_RDMAP_PEER_GONE) {
		wc->errnum = wr->fault;
	}
}

/* ---- The validity map of a completion ---- */

static const struct diw_range_set *map_of(const struct diw_wc *wc)
{
	return wc->opcode == DIW_WC_READ ? &((struct diw_rdmap_read *)wc->map)->ranges :
					   &((struct diw_record *)wc->map)->ranges;
}

int diw_wc_ranges(const struct diw_wc *wc, struct diw_range *ranges, int max)
{
	const struct diw_range_set *s;

	if (!wc->map) {
		if (wc->nranges && max > 0)
			ranges[0] = (struct diw_range){ wc->mo, wc->byte_len };
		return (int)wc->nranges;
	}
	if (!diw_engine_alive(&wc->qp->dev->engine))
		return -ENODEV;
	s = map_of(wc);
	for (uint32_t i = 0; i < s->n && (int)i < max; i++)
		ranges[i] = (struct diw_range){ s->v[i].lo, s->v[i].hi - s->v[i].lo };
	return (int)s->n;
}

void diw_wc_forget(struct diw_wc *wc)
{
	struct diw_qp *qp = wc->qp;

	if (!wc->map)
		return;
	if (wc->opcode == DIW_WC_READ) {
		diw_rdmap_read_release(&qp->rdmap, wc->map);
		if (!diw_sq_empty(&qp->sq))     /* the next Read may have waited for this one's place */
			diw_engine_set_pending(&qp->dev->engine);
	} else {
		diw_rdmap_record_release(&qp->rdmap, wc->map);
	}
	wc->map = NULL;
	wc->nranges = 0;
}

void diw_wc_release(struct diw_wc *wc)
{
	struct diw_qp *qp = wc->qp;

	if (!wc->map || diw_engine_lock(&qp->dev->engine) < 0)
		return;
	diw_wc_forget(wc);
	diw_engine_unlock(&qp->dev->engine);
}
