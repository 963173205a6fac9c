/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA Read over a stream (RFC 5040 section 5.2). Up to ORD requests are outstanding; their responses come in order. Up
 * to IRD requests of the peer are answered in order.
 */
#include <errno.h>

#include "base/wire.h"
#include "rdmap/int.h"

/* ---- Initiator ---- */

int diw_rdmap_rc_read(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now)
{
	uint8_t body[DIW_RDMAP_READ_LEN];
	const struct iovec iov = { body, sizeof body };
	struct diw_read_request q;
	int64_t budget = 1;                     /* one segment, independent of the rate limit */
	int rc;

	if (!r->tx.active) {
		if (!diw_rdmap_sink_is_writable(r, &wr->buf)) {
			*status = DIW_RDMAP_LOCAL_PROT;
			return 0;
		}
		if (r->rc.nout >= r->rc.ord)
			return -ENOSPC;
		r->tx.h = (struct diw_ddp_hdr){ .opcode = DIW_OP_READ_REQUEST, .qn = DIW_QN_REQUEST,
						.length = sizeof body };
		diw_ddp_tx_begin(&r->ddp, &r->tx, true);
	}
	q = diw_rdmap_read_of(wr);
	diw_read_request_put(body, &q);
	rc = diw_ddp_tx_run(&r->ddp, &r->tx, &iov, &budget, now);
	if (rc == 0) {
		r->c->read_requests_tx++;
		diw_rdmap_rc_add_pending(r, wr);
	}
	return rc;
}

uint16_t diw_rdmap_rc_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_rdmap_wr *wr = diw_rdmap_rc_oldest(r);

	if (!wr || wr->opcode != DIW_OP_READ_REQUEST)
		return DIW_FAULT_OPCODE;
	if (h->stag != diw_rdmap_sink_stag(wr))
		return DIW_FAULT_STAG;
	if (h->to != diw_rdmap_sink_to(wr) + wr->got || seg->len > wr->buf.len - wr->got ||
	    h->last != (seg->len == wr->buf.len - wr->got))
		return DIW_FAULT_BOUNDS;
	t->buf = wr->buf;
	t->mo = wr->got;
	t->cookie = wr;
	return 0;
}

void diw_rdmap_rc_read_placed(struct diw_rdmap *r, struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg)
{
	wr->got += seg->len;
	diw_rdmap_rc_confirm(r, wr->seq);
	if (!seg->h.last)
		return;
	if (wr->invalidate && wr->buf.n)
		diw_ddp_invalidate(&r->ddp, diw_rdmap_sink_stag(wr), NULL, false);
	diw_rdmap_rc_finish(r, wr, DIW_RDMAP_OK);
	r->up->confirmed(r->up_ctx);
}

/* The Response has come, so the messages before the request are placed. */
void diw_rdmap_rc_read_unplaced(struct diw_rdmap *r)
{
	struct diw_rdmap_wr *wr = diw_rdmap_rc_oldest(r);

	diw_rdmap_rc_confirm(r, wr->seq);
	diw_rdmap_rc_finish(r, wr, DIW_RDMAP_LOCAL_PROT);
}

/* ---- Target ---- */

struct diw_rdmap_rc_answer *diw_rdmap_rc_answer_new(struct diw_rdmap *r)
{
	struct diw_rdmap_rc *rc = &r->rc;

	return rc->nanswers < rc->ird ? &rc->answers[(rc->answers_head + rc->nanswers++) % rc->ird] : NULL;
}

/* The source of a Read and the target of an atomic are checked by RDMAP, not by DDP (RFC 5040 section 7.1). */
uint16_t diw_rdmap_as_rdmap(uint16_t fault)
{
	switch (fault) {
	case DIW_FAULT_STAG: return DIW_FAULT_READ_STAG;
	case DIW_FAULT_BOUNDS: return DIW_FAULT_READ_BOUNDS;
	case DIW_FAULT_WRAP: return DIW_FAULT_READ_WRAP;
	default: return fault;
	}
}

uint16_t diw_rdmap_rc_source(const struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint8_t **from)
{
	*from = NULL;
	if (a->read.length == 0)                /* no bytes, no check: the request may be the ready-to-receive
						 * message */
		return 0;
	return diw_rdmap_as_rdmap(diw_ddp_resolve(&r->ddp, a->stag, DIW_STAG_REMOTE_READ, &diw_rdmap_peer(r)->addr,
						  a->to, a->read.length, from));
}

uint16_t diw_rdmap_rc_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	struct diw_rdmap_rc_answer *a, asked;
	struct diw_read_request q;
	uint16_t fault;
	uint8_t *from;

	r->c->read_requests_rx++;
	if (seg->len != DIW_RDMAP_READ_LEN)
		return DIW_FAULT_STREAM;
	q = diw_read_request_get(seg->payload);
	asked = (struct diw_rdmap_rc_answer){
		.msn = seg->h.msn, .stag = q.stag, .to = q.to,
		.read = { .length = q.length, .sink_stag = q.sink_stag, .sink_to = q.sink_to },
	};
	fault = diw_rdmap_rc_source(r, &asked, &from);
	if (fault == 0 && diw_to_wraps(asked.read.sink_to, asked.read.length))
		fault = DIW_FAULT_READ_WRAP;
	if (fault)
		return fault;
	a = diw_rdmap_rc_answer_new(r);
	if (!a)
		return DIW_FAULT_NO_BUFFER;
	*a = asked;
	return 0;
}

/* The request of the oldest answer as it came, as far as a Terminate quotes it. */
static void refuse_read(struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint16_t fault, uint64_t now)
{
	uint8_t raw[DIW_DDP_PLAIN_UNTAGGED_LEN + DIW_RDMAP_READ_LEN], *p = raw + DIW_DDP_PLAIN_UNTAGGED_LEN;
	struct diw_ddp_seg seg = {
		.raw = raw, .payload = p, .len = a->atomic ? DIW_RDMAP_ATOMIC_LEN : DIW_RDMAP_READ_LEN,
		.h = { .plain = true, .last = true, .opcode = a->atomic ? DIW_OP_ATOMIC_REQUEST : DIW_OP_READ_REQUEST,
		       .qn = DIW_QN_REQUEST, .msn = a->msn },
	};

	seg.hdr_len = diw_ddp_hdr_encode(raw, &seg.h);
	diw_read_request_put(p, &(struct diw_read_request){ a->read.sink_stag, a->read.sink_to, a->read.length,
							    a->stag, a->to });  /* not quoted for an atomic */
	diw_fault_count(r->c, fault);
	diw_rdmap_rc_drop_answers(r);           /* A stays as it is */
	diw_rdmap_terminate(r, &seg, fault, now);
}

/* The payload of the message. The source is resolved again, since it may have been deregistered. If its rest was
 * copied, the payload is the octets sent before the copy, which are not read any more, and the copy. */
static uint16_t answer_payload(const struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, struct iovec *iov)
{
	uint8_t *from;
	uint16_t fault;
	int n = 0;

	if (!a->copied) {
		fault = diw_rdmap_rc_source(r, a, &from);
		*iov = (struct iovec){ from, a->read.length };
		return fault;
	}
	if (a->read.sent)
		iov[n++] = (struct iovec){ NULL, a->read.sent };
	diw_rdmap_snap_iov(&r->rc.snap, a->read.length - a->read.sent, iov + n);
	return 0;
}

static int answer_read(struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, int64_t *budget, uint64_t now)
{
	struct diw_ddp_tx *tx = &r->rc.answer_tx;
	struct iovec iov[1 + DIW_RDMAP_SNAP_IOV];
	uint16_t fault = answer_payload(r, a, iov);
	int rc;

	if (fault) {
		refuse_read(r, a, fault, now);
		return -ECONNRESET;
	}
	if (!tx->active) {
		tx->dst = *diw_rdmap_peer(r);
		tx->h = (struct diw_ddp_hdr){ .tagged = true, .opcode = DIW_OP_READ_RESPONSE, .length = a->read.length,
					      .stag = a->read.sink_stag, .to = a->read.sink_to };
		diw_ddp_tx_begin(&r->ddp, tx, false);
	}
	rc = diw_ddp_tx_run(&r->ddp, tx, iov, budget, now);
	if (rc == 0 && a->copied)
		diw_rdmap_snap_drop(&r->rc.snap, a->read.length - a->read.sent);
	r->c->read_answered += rc == 0;
	return rc;
}

int diw_rdmap_rc_answer(struct diw_rdmap *r, int64_t *budget, uint64_t now)
{
	struct diw_rdmap_rc *rc = &r->rc;

	while (rc->nanswers) {
		struct diw_rdmap_rc_answer *a = &rc->answers[rc->answers_head];
		int err = 0;

		if (a->atomic && !a->done) {
			uint16_t fault = diw_rdmap_atomic_do(r, a, &diw_rdmap_peer(r)->addr);

			if (fault) {
				refuse_read(r, a, fault, now);
				return -ECONNRESET;
			}
		}
		err = a->atomic ? diw_rdmap_atomic_answer(r, a, now) : answer_read(r, a, budget, now);
		if (err)
			return err;
		rc->answers_head = (uint16_t)((rc->answers_head + 1) % rc->ird);
		rc->nanswers--;
		rc->nseen -= rc->nseen > 0;
	}
	return 0;
}
