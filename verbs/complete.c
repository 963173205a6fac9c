/* SPDX-License-Identifier: BSD-2-Clause */
/* What RDMAP asks of a queue pair, and how what happened becomes a completion. The device's lock is held. */
#include <errno.h>

#include "verbs/qp.h"

static struct diw_recv *recv_take(void *ctx)
{
	struct diw_qp *qp = ctx;
	struct diw_recv *r = diw_rq_take(qp->rq);
	struct diw_srq *srq = qp->srq;

	if (srq && srq->limit && diw_rq_posted(&srq->rq) < srq->limit) {
		srq->limit = 0;
		diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_SRQ_LIMIT, .srq = srq, .ctx = srq->ctx });
	}
	return r;
}

static void recv_return(void *ctx, struct diw_recv *r)
{
	struct diw_qp *qp = ctx;

	diw_rq_return(qp->rq, r);
}

static uint32_t recv_posted(void *ctx)
{
	struct diw_qp *qp = ctx;

	return diw_rq_posted(qp->rq);
}

/* Who finds no room is served again when somebody takes completions. */
static bool room(struct diw_qp *qp, struct diw_cq *cq, uint32_t n)
{
	if (diw_cq_room(cq) >= n)
		return true;
	qp->starved = true;
	atomic_store_explicit(&cq->starved, true, memory_order_relaxed);
	/* Who took completions before it could see that does not look again. */
	atomic_thread_fence(memory_order_seq_cst);
	return diw_cq_room(cq) >= n;
}

static bool recv_room(void *ctx, uint32_t n)
{
	struct diw_qp *qp = ctx;

	return room(qp, qp->recv_cq, n);
}

static bool send_room(void *ctx)
{
	struct diw_qp *qp = ctx;

	return room(qp, qp->send_cq, 1);
}

static void recv_done(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_qp *qp = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_wc *wc = diw_cq_slot(qp->recv_cq);
	bool write = h->opcode == DIW_OP_WRITE, solicited = h->solicited || h->opcode == DIW_OP_SEND_SE;

	*wc = (struct diw_wc){
		.wr_id = r->wr_id, .qp = qp, .msg_len = h->length, .byte_len = fault ? 0 : h->length,
		.nranges = !fault && h->length, .imm = h->imm, .msn = h->msn, .src = *seg->src,
		.status = fault ? DIW_WC_LOC_PROT_ERR : DIW_WC_SUCCESS,
		.opcode = write ? DIW_WC_RECV_WRITE_IMM : DIW_WC_RECV,
		.flags = DIW_WC_END | (h->imm_valid ? DIW_WC_IMM : 0) | (solicited ? DIW_WC_SOLICITED : 0),
		.stag = write ? h->stag : 0, .to = write ? h->to - h->mo : 0,
	};
	diw_rq_done(qp->rq, r);
	diw_cq_push(qp->recv_cq);
}

static bool record_done(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end)
{
	struct diw_qp *qp = ctx;
	struct diw_wc *wc = diw_cq_slot(qp->recv_cq);
	bool chunk = qp->rdmap.ddp.cfg.chunks, keep = !chunk && r->ranges.n > 1;

	*wc = (struct diw_wc){
		.qp = qp, .to = r->to, .stag = r->stag, .msg_len = r->length,
		.byte_len = chunk ? hi - lo : r->ranges.bytes,
		.mo = chunk ? lo : r->ranges.n ? r->ranges.v[0].lo : 0, .nranges = chunk ? hi > lo : r->ranges.n,
		.imm = r->imm, .msn = r->msn, .src = r->addr, .opcode = DIW_WC_RECV_WRITE_RECORD,
		.flags = (end ? DIW_WC_END : 0) | (end && r->imm_valid ? DIW_WC_IMM : 0) |
			 (end && r->solicited ? DIW_WC_SOLICITED : 0),
		.close = end ? r->reason : 0, .waited_ns = end ? r->waited_ns : 0, .map = keep ? r : NULL,
	};
	diw_cq_push(qp->recv_cq);
	return keep;
}

static bool read_done(void *ctx, struct diw_rdmap_read *r)
{
	static const uint8_t status[] = {
		[DIW_RDMAP_OK] = DIW_WC_SUCCESS, [DIW_RDMAP_REFUSED] = DIW_WC_REM_ACCESS_ERR,
		[DIW_RDMAP_TIMEOUT] = DIW_WC_TIMEOUT,
	};
	struct diw_qp *qp = ctx;
	struct diw_wc *wc = diw_cq_slot(qp->send_cq);
	bool keep = r->ranges.n > 1;

	*wc = (struct diw_wc){
		.wr_id = r->wr_id, .qp = qp, .msg_len = r->length, .byte_len = r->ranges.bytes, .nranges = r->ranges.n,
		.mo = r->ranges.n ? r->ranges.v[0].lo : 0, .msn = r->msn, .fault = r->fault,
		.status = status[r->status],
		.opcode = DIW_WC_READ, .flags = DIW_WC_END, .src = r->dst, .map = keep ? r : NULL,
	};
	diw_cq_push(qp->send_cq);
	return keep;
}

static void peer_error(void *ctx, const struct diw_addr *peer, uint32_t msn, uint16_t fault)
{
	diw_qp_error(ctx, &(struct diw_qp_error){ .fault = fault, .remote = true, .msn = msn, .peer = *peer });
}

const struct diw_rdmap_up diw_qp_up = {
	.recv_take = recv_take,
	.recv_return = recv_return,
	.recv_posted = recv_posted,
	.recv_room = recv_room,
	.send_room = send_room,
	.recv_done = recv_done,
	.record_done = record_done,
	.read_done = read_done,
	.peer_error = peer_error,
};

void diw_qp_complete_send(struct diw_qp *qp, const struct diw_rdmap_wr *wr, uint8_t status)
{
	struct diw_wc *wc = diw_cq_slot(qp->send_cq);
	uint8_t opcode = wr->opcode == DIW_OP_WRITE ? DIW_WC_WRITE :
			 wr->opcode == DIW_OP_WRITE_RECORD ? DIW_WC_WRITE_RECORD :
			 wr->opcode == DIW_OP_READ_REQUEST ? DIW_WC_READ : DIW_WC_SEND;

	*wc = (struct diw_wc){
		.wr_id = wr->wr_id, .qp = qp, .msg_len = wr->buf.len, .byte_len = status ? 0 : wr->buf.len,
		.nranges = !status && wr->buf.len, .status = status ? DIW_WC_LOC_PROT_ERR : DIW_WC_SUCCESS,
		.opcode = opcode, .flags = DIW_WC_END, .src = wr->dst,
	};
	diw_cq_push(qp->send_cq);
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
	if (!diw_dev_alive(wc->qp->dev))
		return -ENODEV;
	s = map_of(wc);
	for (uint32_t i = 0; i < s->n && (int)i < max; i++)
		ranges[i] = (struct diw_range){ s->v[i].lo, s->v[i].hi - s->v[i].lo };
	return (int)s->n;
}

void diw_wc_release(struct diw_wc *wc)
{
	struct diw_qp *qp = wc->qp;

	if (!wc->map || diw_dev_lock(qp->dev) < 0)
		return;
	if (wc->opcode == DIW_WC_READ) {
		diw_rdmap_read_release(&qp->rdmap, wc->map);
		if (!diw_sq_empty(&qp->sq))     /* the next Read may have waited for this one's place */
			atomic_store(&qp->dev->pending, true);
	} else {
		diw_record_release(&qp->rdmap.ddp, wc->map);
	}
	wc->map = NULL;
	wc->nranges = 0;
	diw_dev_unlock(qp->dev);
}
