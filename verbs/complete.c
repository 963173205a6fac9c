/* SPDX-License-Identifier: BSD-2-Clause */
/* RDMAP's calls of a queue pair, which lead to completions. The device's lock is held. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/wire.h"
#include "verbs/qp.h"

/* ---- The header in front of a message ---- */

#define GRH 40u

/* Moves the start of the buffer behind the header: DDP places the message there. */
static void skip_front(struct diw_recv *r)
{
	struct diw_rwqe *w = diw_container(r, struct diw_rwqe, recv);
	struct diw_ddp_sge *s = w->sge;
	uint32_t left = r->buf.len < GRH ? 0 : GRH;

	for (; left && left >= s->len; s++, w->skipped++)
		left -= s->len;
	if (left) {
		s->to += left;
		s->len -= left;
	}
	w->cut = left;
	if (r->buf.len < GRH)                   /* too small for the header: it takes no data either */
		r->buf.len = 0;
	else
		r->buf = (struct diw_ddp_buf){ s, r->buf.n - w->skipped, r->buf.len - GRH };
}

static void restore_front(struct diw_recv *r)
{
	struct diw_rwqe *w = diw_container(r, struct diw_rwqe, recv);

	if (w->cut) {                           /* otherwise the header may have filled all entries */
		w->sge[w->skipped].to -= w->cut;
		w->sge[w->skipped].len += w->cut;
	}
	r->buf = (struct diw_ddp_buf){ w->sge, r->buf.n + w->skipped, w->len };
	w->skipped = w->cut = 0;
}

/* Writes the IP header as far as its fields are known. Hop limit and traffic class are those of a new packet. */
static void put_front(struct diw_qp *qp, struct diw_recv *r, const struct diw_ddp_seg *seg)
{
	const struct diw_addr *src = seg->src, *dst = seg->to ? seg->to : &qp->link->local;
	uint32_t payload = 8 + seg->h.length;
	uint8_t h[GRH] = { 0 };

	if (diw_addr_is_v4(src)) {
		h[20] = 0x45;
		diw_put16(h + 22, (uint16_t)(20 + payload));
		h[28] = 64;
		h[29] = IPPROTO_UDP;
		memcpy(h + 32, src->ip + 12, 4);
		memcpy(h + 36, dst->ip + 12, 4);
	} else {
		h[0] = 0x60;
		diw_put16(h + 4, (uint16_t)payload);
		h[6] = IPPROTO_UDP;
		h[7] = 64;
		memcpy(h + 8, src->ip, 16);
		memcpy(h + 24, dst->ip, 16);
	}
	diw_rdmap_place(&qp->rdmap, &r->buf, 0, h, sizeof h);
}

/* ---- RDMAP's calls ---- */

/* Marks the receive queue, so that the next post serves the message that waits for a receive. */
static struct diw_recv *await_recv(struct diw_qp *qp, struct diw_recv *r)
{
	if (!r) {
		atomic_store(&qp->rq->wanted, true);    /* before the second look at the queue: either that look or the
							 * poster sees the other's store */
		r = diw_rq_take(qp->rq);
	}
	if (r)
		atomic_store_explicit(&qp->rq->wanted, false, memory_order_relaxed);
	else
		diw_engine_starve(&qp->dev->engine, &qp->member);
	return r;
}

static struct diw_recv *recv_take(void *ctx)
{
	struct diw_qp *qp = ctx;
	struct diw_recv *r = diw_rq_take(qp->rq);
	struct diw_srq *srq = qp->srq;

	if (qp->ops->awaits_recv)
		r = await_recv(qp, r);
	if (srq && srq->limit && diw_rq_posted(&srq->rq) < srq->limit) {
		srq->limit = 0;
		diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_SRQ_LIMIT, .srq = srq, .ctx = srq->ctx });
	}
	if (r && qp->grh)
		skip_front(r);
	return r;
}

static void recv_return(void *ctx, struct diw_recv *r)
{
	struct diw_qp *qp = ctx;

	if (qp->grh)
		restore_front(r);
	diw_rq_return(qp->rq, r);
}

static uint32_t recv_posted(void *ctx)
{
	struct diw_qp *qp = ctx;

	return diw_rq_posted(qp->rq);
}

static bool recv_room(void *ctx, uint32_t n)
{
	struct diw_qp *qp = ctx;

	return diw_qp_has_room(qp, qp->recv_cq, n);
}

static bool send_room(void *ctx)
{
	struct diw_qp *qp = ctx;

	return diw_qp_has_room(qp, qp->send_cq, 1);
}

static bool is_solicited(const struct diw_ddp_hdr *h)
{
	return h->solicited || h->opcode == DIW_OP_SEND_SE || h->opcode == DIW_OP_SEND_SE_INV ||
	       h->opcode == DIW_OP_IMMEDIATE_SE;
}

/* The completions of messages name all members: the compiler would clear the rest by an instruction that takes as long
 * as a STag's look-up. diw_cq_push() sets time_ns and qp_num. */

static void recv_done(void *ctx, struct diw_recv *r, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_qp *qp = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_wc *wc = diw_cq_slot(qp->recv_cq);
	bool write = h->opcode == DIW_OP_WRITE;
	uint32_t front = qp->grh ? GRH : 0;

	if (front) {
		restore_front(r);
		put_front(qp, r, seg);
	}
	*wc = (struct diw_wc){
		.wr_id = r->wr_id, .qp = qp, .msg_len = h->length + front, .byte_len = fault ? 0 : h->length + front,
		.nranges = !fault && h->length + front, .imm = h->imm, .msn = h->msn, .src = *seg->src,
		.epoch = h->epoch,
		.status = fault == DIW_FAULT_TOO_LONG ? DIW_WC_LOC_LEN_ERR :
			  fault ? DIW_WC_LOC_PROT_ERR : DIW_WC_SUCCESS,
		.opcode = write || h->opcode == DIW_OP_IMMEDIATE || h->opcode == DIW_OP_IMMEDIATE_SE ?
			  DIW_WC_RECV_WRITE_IMM : DIW_WC_RECV,
		.flags = DIW_WC_END | (h->imm_valid ? DIW_WC_IMM : 0) | (is_solicited(h) ? DIW_WC_SOLICITED : 0) |
			 (h->inv_stag && !fault ? DIW_WC_INVALIDATED : 0) | (front ? DIW_WC_GRH : 0),
		.stag = write ? h->stag : h->inv_stag, .to = write ? h->to - h->mo : 0,
		.time_ns = 0, .qp_num = 0, .map = NULL, .mo = 0, .waited_ns = 0, .fault = 0, .close = 0, .errnum = 0,
	};
	diw_rq_done(qp->rq, r);
	diw_cq_push(qp->recv_cq);
}

static bool record_done(void *ctx, struct diw_record *r, uint32_t lo, uint32_t hi, bool end)
{
	struct diw_qp *qp = ctx;
	struct diw_wc *wc = diw_cq_slot(qp->recv_cq);
	bool chunk = diw_rdmap_has_chunks(&qp->rdmap), keep = !chunk && r->ranges.n > 1;

	*wc = (struct diw_wc){
		.qp = qp, .to = r->to, .stag = r->stag, .msg_len = r->length,
		.byte_len = chunk ? hi - lo : r->ranges.bytes,
		.mo = chunk ? lo : r->ranges.n ? r->ranges.v[0].lo : 0, .nranges = chunk ? hi > lo : r->ranges.n,
		.imm = r->imm, .msn = r->msn, .src = r->addr, .epoch = r->epoch, .opcode = DIW_WC_RECV_WRITE_RECORD,
		.flags = (end ? DIW_WC_END : 0) | (end && r->imm_valid ? DIW_WC_IMM : 0) |
			 (end && r->solicited ? DIW_WC_SOLICITED : 0),
		.close = end ? r->reason : 0, .waited_ns = end ? r->waited_ns : 0, .map = keep ? r : NULL,
		.wr_id = 0, .time_ns = 0, .qp_num = 0, .status = DIW_WC_SUCCESS, .fault = 0, .errnum = 0,
	};
	diw_cq_push(qp->recv_cq);
	return keep;
}

static bool read_done(void *ctx, struct diw_rdmap_read *r)
{
	static const uint8_t status[] = {
		[DIW_RDMAP_OK] = DIW_WC_SUCCESS, [DIW_RDMAP_REFUSED] = DIW_WC_REM_ACCESS_ERR,
		[DIW_RDMAP_TIMEOUT] = DIW_WC_TIMEOUT, [DIW_RDMAP_UNSENT] = DIW_WC_LOC_QP_OP_ERR,
	};
	bool unsent = r->status == DIW_RDMAP_UNSENT;
	struct diw_qp *qp = ctx;
	struct diw_wc *wc = diw_cq_slot(qp->send_cq);
	bool keep = r->ranges.n > 1;

	*wc = (struct diw_wc){
		.wr_id = r->wr_id, .qp = qp, .msg_len = r->length, .byte_len = r->ranges.bytes, .nranges = r->ranges.n,
		.mo = r->ranges.n ? r->ranges.v[0].lo : 0, .msn = r->msn, .fault = unsent ? 0 : r->fault,
		.errnum = unsent ? r->fault : 0, .status = status[r->status],
		.opcode = DIW_WC_READ, .flags = DIW_WC_END, .src = r->dst.addr, .map = keep ? r : NULL,
	};
	diw_cq_push(qp->send_cq);
	return keep;
}

static void peer_error(void *ctx, const struct diw_addr *peer, uint32_t msn, uint16_t fault)
{
	diw_qp_error(ctx, &(struct diw_qp_error){ .fault = fault, .remote = true, .msn = msn, .peer = *peer });
}

static void requests_unsent(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	diw_sq_unsent(ctx, first, n, errnum);
}

static void requests_confirmed(void *ctx)
{
	diw_sq_retire(ctx);
}

static void rc_stream_ended(void *ctx, uint16_t fault, bool remote, int errnum, uint64_t now)
{
	if (fault || remote || errnum)
		diw_rc_error(ctx, fault, remote, errnum, now);
	else
		diw_rc_peer_ended(ctx, now);
}

const struct diw_rdmap_up diw_qp_up = {
	.recvs = { .take = recv_take, .give_back = recv_return, .posted = recv_posted, .room = recv_room },
	.send_room = send_room,
	.recv_done = recv_done,
	.record_done = record_done,
	.read_done = read_done,
	.peer_error = peer_error,
	.unsent = requests_unsent,
	.confirmed = requests_confirmed,
	.ended = rc_stream_ended,
};
