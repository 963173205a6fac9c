/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations (RFC 7306 section 5) on 8 aligned bytes in the host's byte order. They are atomic against each
 * other and against atomic instructions of the application. They share the Reads' queue, order and limits.
 */
#include <errno.h>

#include "rdmap/int.h"

/* ---- Initiator ---- */

bool diw_rdmap_atomic_sink(const struct diw_rdmap *r, const struct diw_ddp_buf *buf)
{
	uint8_t *addr;

	return buf->n == 1 && buf->len == 8 &&
	       diw_ddp_resolve(&r->ddp, buf->sge->stag, DIW_STAG_LOCAL_WRITE, NULL, buf->sge->to, 8, &addr) == 0;
}

void diw_rdmap_atomic_put(uint8_t body[DIW_RDMAP_ATOMIC_LEN], const struct diw_rdmap_wr *wr, uint32_t reqid)
{
	bool swap = wr->atomic.swap;

	diw_atomic_request_put(body, &(struct diw_atomic_request){
		.op = swap ? DIW_ATOMIC_CMP_SWAP : DIW_ATOMIC_FETCH_ADD, .reqid = reqid, .stag = wr->stag,
		.to = wr->to, .add_swap = swap ? wr->atomic.value : wr->atomic.compare_add,
		.mask = swap ? UINT64_MAX : 0,          /* swap: all bits; add: a set bit would end carries */
		.compare = swap ? wr->atomic.compare_add : 0, .compare_mask = swap ? UINT64_MAX : 0,
	});
}

int diw_rdmap_atomic(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now)
{
	uint8_t body[DIW_RDMAP_ATOMIC_LEN];
	const struct iovec iov = { body, sizeof body };
	int64_t budget = 1;
	int rc;

	if (!r->tx.active) {
		if (!diw_rdmap_atomic_sink(r, &wr->buf)) {
			*status = DIW_RDMAP_LOCAL_PROT;
			return 0;
		}
		if (r->rc.nout >= r->rc.ord)
			return -ENOSPC;
		r->rc.reqid++;
		r->tx.h = (struct diw_ddp_hdr){ .opcode = DIW_OP_ATOMIC_REQUEST, .qn = DIW_QN_REQUEST,
					.length = sizeof body };
		diw_ddp_tx_begin(&r->ddp, &r->tx, true);
	}
	diw_rdmap_atomic_put(body, wr, r->rc.reqid);
	rc = diw_ddp_tx_run(&r->ddp, &r->tx, &iov, &budget, now);
	if (rc == 0) {
		r->c->atomics_tx++;
		diw_rdmap_rc_add_pending(r, wr);
		wr->got = r->rc.reqid;
	}
	return rc;
}

uint8_t diw_rdmap_atomic_place(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg)
{
	uint64_t before = diw_atomic_response_get(seg->payload).value;

	return diw_ddp_place(&r->ddp, &wr->buf, 0, (const uint8_t *)&before, sizeof before) != 0 ?
	       DIW_RDMAP_LOCAL_PROT : DIW_RDMAP_OK;
}

uint16_t diw_rdmap_atomic_answered(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct diw_rdmap_wr *wr = diw_rdmap_rc_oldest(r);

	if (!wr || wr->opcode != DIW_OP_ATOMIC_REQUEST)
		return DIW_FAULT_OPCODE;
	if (seg->len != DIW_RDMAP_ATOMIC_RESPONSE_LEN || diw_atomic_response_get(seg->payload).reqid != wr->got)
		return DIW_FAULT_STREAM;
	diw_rdmap_rc_confirm(r, wr->seq);
	diw_rdmap_rc_finish(r, wr, diw_rdmap_atomic_place(r, wr, seg));
	r->up->confirmed(r->up_ctx);
	return 0;
}

/* ---- Target ---- */

static uint16_t atomic_target(const struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a,
			      const struct diw_addr *peer, uint64_t **at)
{
	uint8_t *addr;
	uint16_t fault;

	if (a->to % 8)
		return DIW_FAULT_STREAM;
	fault = diw_ddp_resolve(&r->ddp, a->stag, DIW_STAG_REMOTE_ATOMIC, peer, a->to, 8, &addr);
	if (fault == 0 && (uintptr_t)addr % 8)  /* a region whose tagged offsets differ from its addresses */
		fault = DIW_FAULT_STREAM;
	*at = (uint64_t *)(void *)addr;
	return diw_rdmap_as_rdmap(fault);
}

uint16_t diw_rdmap_atomic_get(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_rdmap_rc_answer *a)
{
	struct diw_atomic_request q;
	uint64_t *at;

	r->c->atomics_rx++;
	if (seg->len != DIW_RDMAP_ATOMIC_LEN)
		return DIW_FAULT_STREAM;
	q = diw_atomic_request_get(seg->payload);
	if (q.op != DIW_ATOMIC_FETCH_ADD && q.op != DIW_ATOMIC_CMP_SWAP)
		return DIW_FAULT_ATOMIC_OPCODE;
	*a = (struct diw_rdmap_rc_answer){
		.atomic = true, .swap = q.op == DIW_ATOMIC_CMP_SWAP, .reqid = q.reqid, .msn = seg->h.msn,
		.stag = q.stag, .to = q.to,
		.add_swap = q.add_swap, .mask = q.mask, .compare = q.compare, .compare_mask = q.compare_mask,
	};
	return atomic_target(r, a, seg->src, &at);
}

uint16_t diw_rdmap_atomic_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct diw_rdmap_rc_answer *a, asked;
	uint16_t fault = diw_rdmap_atomic_get(r, seg, &asked);
	bool after;

	if (fault)
		return fault;
	after = diw_rdmap_rc_snap(r);
	a = diw_rdmap_rc_answer_new(r);
	if (!a)
		return DIW_FAULT_NO_BUFFER;
	*a = asked;
	/* Behind Reads that are too large to be copied, the atomic is executed at its answer's turn. */
	return after ? diw_rdmap_atomic_do(r, a, seg->src) : 0;
}

/* A set bit of the mask is the most significant bit of its field: it passes no carry on (RFC 7306 section 5.1). */
static uint64_t add_fields(uint64_t v, uint64_t add, uint64_t mask)
{
	return ((v & ~mask) + (add & ~mask)) ^ ((v ^ add) & mask);
}

uint16_t diw_rdmap_atomic_do(struct diw_rdmap *r, struct diw_rdmap_rc_answer *a, const struct diw_addr *peer)
{
	uint64_t *at, before, after;
	uint16_t fault = atomic_target(r, a, peer, &at);

	if (fault)
		return fault;
	before = __atomic_load_n(at, __ATOMIC_SEQ_CST);
	do {
		if (a->swap && (before & a->compare_mask) != (a->compare & a->compare_mask))
			break;
		after = a->swap ? (before & ~a->mask) | (a->add_swap & a->mask) :
				  add_fields(before, a->add_swap, a->mask);
	} while (!__atomic_compare_exchange_n(at, &before, after, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	a->value = before;
	a->done = true;
	return 0;
}

int diw_rdmap_atomic_answer(struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint64_t now)
{
	struct diw_ddp_tx *tx = &r->rc.answer_tx;
	uint8_t body[DIW_RDMAP_ATOMIC_RESPONSE_LEN];
	const struct iovec iov = { body, sizeof body };
	int64_t budget = 1;

	diw_atomic_response_put(body, &(struct diw_atomic_response){ a->reqid, a->value });
	if (!tx->active) {
		tx->dst = *diw_rdmap_peer(r);
		tx->h = (struct diw_ddp_hdr){ .opcode = DIW_OP_ATOMIC_RESPONSE, .qn = DIW_QN_ATOMIC_RESPONSE,
					.length = sizeof body };
		diw_ddp_tx_begin(&r->ddp, tx, true);
	}
	return diw_ddp_tx_run(&r->ddp, tx, &iov, &budget, now);
}
