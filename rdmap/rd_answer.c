/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads and atomics over reliable datagrams at the responder. Requests of a peer are answered in order. An answer is
 * kept until the peer has acknowledged it: if the peer refuses a segment before it, the answer is sent again. A peer
 * has at most RD_ASKED requests outstanding, so no request waits in the link in front of the peer's own answers.
 */
#include <errno.h>

#include "base/wire.h"
#include "rdmap/rd.h"

/* ---- Requests ---- */

static uint16_t read_get(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_rdmap_rc_answer *a)
{
	struct diw_read_request q;
	uint8_t *from;

	r->c->read_requests_rx++;
	if (seg->len != DIW_RDMAP_READ_LEN)
		return DIW_FAULT_MO;
	q = diw_read_request_get(seg->payload);
	if (q.length > DIW_RDMAP_MAX_READ)
		return DIW_FAULT_TOO_LONG;
	*a = (struct diw_rdmap_rc_answer){
		.stag = q.stag, .to = q.to,
		.read = { .length = q.length, .sink_stag = q.sink_stag, .sink_to = q.sink_to },
	};
	return q.length == 0 ? 0 : diw_rdmap_as_rdmap(diw_ddp_resolve(&r->ddp, q.stag, DIW_STAG_REMOTE_READ, seg->src,
								       q.to, q.length, &from));
}

/* The destination of a new request of ADDR, or NULL. The link may forget a peer that waits long for an answer, so the
 * link's bound on peers does not bound the askers. A peer waits for RD_ASKED answers at most: with one more request it
 * does not wait for the oldest one, which it has taken or given up. */
static struct rd_dest *asker_get(struct diw_rdmap *r, const struct diw_addr *addr)
{
	struct rd_dest *d = diw_rdmap_rd_dest(r->rd, addr);

	if (d && d->nanswers == RD_ASKED)
		diw_rdmap_rd_answer_end(r->rd, diw_container(d->answers.next, struct rd_answer, msg.link));
	if (d && d->nanswers)
		return d;
	if (r->rd->askers == r->rd->askers_max) /* the request may have come with the acknowledgement of answers */
		diw_ddp_take_acks(&r->ddp);
	return r->rd->askers == r->rd->askers_max ? NULL : diw_rdmap_rd_dest_get(r->rd, addr);
}

uint16_t diw_rdmap_rd_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	bool atomic = seg->h.opcode == DIW_OP_ATOMIC_REQUEST;
	struct diw_rdmap_rc_answer of;
	struct rd_answer *a;
	struct rd_dest *d;
	uint16_t fault = atomic ? diw_rdmap_atomic_get(r, seg, &of) : read_get(r, seg, &of);

	if (fault)
		return fault;
	d = asker_get(r, seg->src);
	if (!d)
		return DIW_FAULT_READ_LIMIT;
	a = diw_pool_get(&r->rd->answers);      /* RD_ASKED of each asker: never NULL */
	*a = (struct rd_answer){ .msg = { .dest = d, .answer = true }, .of = of, .msn = seg->h.msn };
	if (atomic)
		a->fault = diw_rdmap_atomic_do(r, &a->of, seg->src);
	diw_list_init(&a->msg.link);
	diw_list_add_tail(&d->answers, &a->msg.link);
	if (!d->answer)
		d->answer = a;
	r->rd->askers += d->nanswers++ == 0;
	diw_rdmap_rd_dest_ready(r->rd, d);
	return 0;
}

/* ---- Answers ---- */

/* Writes a Terminate that names the request by its MSN. */
static uint32_t refusal_put(uint8_t *body, const struct rd_answer *a)
{
	const struct diw_ddp_hdr h = { .last = true, .qn = DIW_QN_REQUEST, .msn = a->msn,
				       .opcode = a->of.atomic ? DIW_OP_ATOMIC_REQUEST : DIW_OP_READ_REQUEST,
				       .length = a->of.atomic ? DIW_RDMAP_ATOMIC_LEN : DIW_RDMAP_READ_LEN };

	diw_term_put(body, diw_fault_for_peer(a->fault), DIW_TERM_M | DIW_TERM_D);
	diw_put16(body + DIW_TERM_CONTROL, (uint16_t)(DIW_DDP_UNTAGGED_LEN + h.length));
	return DIW_TERM_FIXED + diw_ddp_hdr_encode(body + DIW_TERM_FIXED, &h);
}

static uint32_t atomic_response_put(uint8_t *body, const struct rd_answer *a)
{
	diw_atomic_response_put(body, &(struct diw_atomic_response){ a->of.reqid, a->of.value });
	return DIW_RDMAP_ATOMIC_RESPONSE_LEN;
}

static struct diw_ddp_hdr answer_hdr(const struct rd_answer *a, uint32_t len)
{
	if (a->fault)
		return (struct diw_ddp_hdr){ .opcode = DIW_OP_TERMINATE, .qn = DIW_QN_TERMINATE, .length = len,
					     .msn = a->msn };
	if (a->of.atomic)
		return (struct diw_ddp_hdr){ .opcode = DIW_OP_ATOMIC_RESPONSE, .qn = DIW_QN_ATOMIC_RESPONSE,
					     .length = len, .msn = a->msn };
	return (struct diw_ddp_hdr){ .tagged = true, .opcode = DIW_OP_READ_RESPONSE, .msn = a->msn, .length = len,
				     .stag = a->of.read.sink_stag, .to = a->of.read.sink_to };
}

/* The source is resolved again each time, since it may have been deregistered. In that case the Response ends early,
 * and the request is refused. */
static void answer_source(struct diw_rdmap *r, struct rd_dest *d, struct rd_answer *a, struct iovec *iov)
{
	uint8_t *from = NULL;

	if (a->of.atomic || a->fault)
		return;
	if (a->of.read.length)
		a->fault = diw_rdmap_as_rdmap(diw_ddp_resolve(&r->ddp, a->of.stag, DIW_STAG_REMOTE_READ, &d->addr,
							      a->of.to, a->of.read.length, &from));
	if (a->fault) {
		diw_fault_count(r->c, a->fault);
		d->answer_tx.active = false;
	}
	*iov = (struct iovec){ from, a->of.read.length };
}

static int answer_send(struct diw_rdmap *r, struct rd_dest *d, struct rd_answer *a, int64_t *budget, uint64_t now)
{
	uint8_t body[DIW_TERM_FIXED + DIW_DDP_MAX_LEN];
	struct iovec iov = { .iov_base = body };

	answer_source(r, d, a, &iov);
	if (a->fault)
		iov = (struct iovec){ body, refusal_put(body, a) };
	else if (a->of.atomic)
		iov.iov_len = atomic_response_put(body, a);
	if (!d->answer_tx.active) {
		d->answer_tx.dst = (struct diw_dest){ .addr = d->addr };
		d->answer_tx.h = answer_hdr(a, (uint32_t)iov.iov_len);
		diw_ddp_tx_begin(&r->ddp, &d->answer_tx, false);
	}
	return diw_ddp_tx_run(&r->ddp, &d->answer_tx, &iov, budget, now);
}

static struct rd_answer *answer_next(const struct rd_dest *d, const struct rd_answer *a)
{
	struct diw_list *l = a->msg.link.next;

	return l == &d->answers ? NULL : diw_container(l, struct rd_answer, msg.link);
}

/* A destination without requests and answers is freed at the end of its turn. */
void diw_rdmap_rd_answer_end(struct diw_rdmap_rd *rd, struct rd_answer *a)
{
	struct rd_dest *d = a->msg.dest;

	diw_rdmap_rd_unsent(rd, &a->msg);
	if (d->answer == a) {
		d->answer = answer_next(d, a);
		d->answer_tx.active = false;
	}
	diw_list_del(&a->msg.link);
	diw_pool_put(&rd->answers, a);
	rd->askers -= --d->nanswers == 0;
}

int diw_rdmap_rd_answer(struct diw_rdmap *r, struct rd_dest *d, int64_t *budget, uint64_t now)
{
	struct rd_answer *a;

	while ((a = d->answer)) {
		uint32_t first = diw_ddp_taken(&r->ddp);
		int rc = answer_send(r, d, a, budget, now);

		diw_rdmap_rd_sent(r->rd, &a->msg, first, diw_ddp_taken(&r->ddp) - first);
		if (rc < 0)
			return rc;
		r->c->read_answered += !a->of.atomic && !a->fault;
		r->c->error_tx += a->fault != 0;
		a->msg.left = true;
		d->answer = answer_next(d, a);
	}
	return 0;
}

void diw_rdmap_rd_answers_end(struct diw_rdmap_rd *rd, struct rd_dest *d)
{
	struct diw_list *l;

	while ((l = diw_list_first(&d->answers)))
		diw_rdmap_rd_answer_end(rd, diw_container(l, struct rd_answer, msg.link));
}

void diw_rdmap_rd_answers_again(struct diw_rdmap_rd *rd, struct rd_dest *d)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &d->answers) {
		struct rd_answer *a = diw_container(l, struct rd_answer, msg.link);

		diw_rdmap_rd_unsent(rd, &a->msg);
		a->msg.left = false;
	}
	d->answer = diw_container(diw_list_first(&d->answers), struct rd_answer, msg.link);
	d->answer_tx.active = false;
	diw_rdmap_rd_dest_ready(rd, d);
}
