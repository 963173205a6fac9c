/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC: RDMAP over an ordered, reliable stream (RFC 5040, RFC 7306). One message leaves at a time. Segments of two
 * messages are never mixed, since receivers may rely on the Last flag alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/int.h"

#define RNR_STAG 0x64697700u
#define RNR_TO 0x726e722d727472u     /* the lowest octet holds the number */
#define RNR_UNLIMITED 7u

int diw_rdmap_rc_begin(struct diw_rdmap *r, const struct diw_rdmap_rc_attr *a)
{
	r->rc.answers = calloc(a->ird ? a->ird : 1, sizeof *r->rc.answers);
	r->rc.rtr = calloc(2, sizeof *r->rc.rtr);
	r->rc.probe = r->rc.rtr + 1;
	if (!r->rc.answers || !r->rc.rtr)
		return -ENOMEM;                 /* diw_rdmap_fini() frees */
	r->rc.snap.pool = a->pool;
	r->rc.ird = a->ird;
	r->rc.ord = a->ord;
	r->rc.rfc7306 = a->rfc7306;
	r->rc.self = a->self;
	r->rc.place.words = a->words;
	diw_ddp_begin_ordered(&r->ddp, a->peer, (a->rfc7306 ? DIW_RDMAP_IMM : 0) | (a->words ? DIW_RDMAP_WORD : 0),
			      a->initiator);
	r->tx.dst = *diw_rdmap_peer(r);
	return 0;
}

void diw_rdmap_rc_set_rnr(struct diw_rdmap *r, unsigned retry, uint64_t timer)
{
	r->rc.tell_rnr |= retry != (r->rc.rnr_limits ? r->rc.rnr_retry : RNR_UNLIMITED);
	r->rc.rnr_limits = retry < RNR_UNLIMITED;
	r->rc.rnr_retry = (uint8_t)retry;
	diw_ddp_set_rnr_unit(&r->ddp, timer);
}

/* ---- Sending ---- */

static int send_immediate(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint64_t now)
{
	uint8_t body[DIW_RDMAP_IMM_LEN];
	const struct iovec iov = { body, sizeof body };
	int64_t budget = 1;                     /* one segment */
	int rc;

	diw_immediate_put(body, wr->imm);
	if (!r->tx.active) {
		r->tx.h = (struct diw_ddp_hdr){ .opcode = wr->solicited ? DIW_OP_IMMEDIATE_SE : DIW_OP_IMMEDIATE,
						.length = sizeof body };
		diw_rdmap_rc_word(r, &r->tx.h, wr->ask);
		diw_ddp_tx_begin(&r->ddp, &r->tx, true);
	}
	rc = diw_ddp_tx_run(&r->ddp, &r->tx, &iov, &budget, now);
	r->rc.place.sent += rc == 0;
	return rc;
}

static void begin_rc_message(struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	const struct diw_rdmap_op *op = &diw_rdmap_ops[wr->opcode];
	bool send = wr->opcode == DIW_OP_SEND;

	r->tx.h = (struct diw_ddp_hdr){
		.tagged = op->tagged, .opcode = diw_rdmap_opcode_of(wr), .imm_valid = send && wr->imm_valid,
		.imm = wr->imm, .length = wr->buf.len, .stag = wr->stag, .to = wr->to, .qn = op->qn,
		.inv_stag = send && wr->invalidate ? wr->inv_stag : 0,
	};
	/* The Immediate Data asks on behalf of its Write. */
	diw_rdmap_rc_word(r, &r->tx.h, wr->ask && (send || !wr->imm_valid));
	diw_ddp_tx_begin(&r->ddp, &r->tx, true);
}

static int send_message(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, int64_t *budget, uint8_t *status,
			uint64_t now)
{
	struct iovec iov[DIW_DDP_MAX_SGE];
	int rc;

	if (r->rc.imm_next)
		rc = 0;
	else if (wr->inline_data)
		iov[0] = (struct iovec){ (void *)wr->inline_data, wr->buf.len };
	else if (diw_ddp_gather(&r->ddp, &wr->buf, iov) != 0) {
		*status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (!r->rc.imm_next) {
		if (!r->tx.active)
			begin_rc_message(r, wr);
		rc = diw_ddp_tx_run(&r->ddp, &r->tx, iov, budget, now);
		r->rc.place.sent += rc == 0;
		r->rc.imm_next = rc == 0 && wr->opcode == DIW_OP_WRITE && wr->imm_valid;
	}
	if (r->rc.imm_next) {
		rc = send_immediate(r, wr, now);
		r->rc.imm_next = rc != 0;
	}
	return rc;
}

/* A Read or atomic that was posted before the negotiation, whose result allows none: it would wait for ever, and the
 * peer would refuse it. */
static bool wr_lacks_ord(const struct diw_rdmap *r, struct diw_rdmap_wr *wr)
{
	if (r->rc.ord || (wr->opcode != DIW_OP_READ_REQUEST && wr->opcode != DIW_OP_ATOMIC_REQUEST))
		return false;
	wr->fault = DIW_FAULT_NO_BUFFER;
	return true;
}

int diw_rdmap_rc_send(struct diw_rdmap *r, struct diw_rdmap_wr *wr, int64_t *budget, uint8_t *status, uint64_t now)
{
	*status = DIW_RDMAP_OK;
	if (wr_lacks_ord(r, wr)) {
		*status = DIW_RDMAP_REFUSED;
		return 0;
	}
	if (wr->fence && r->rc.nout)
		return -ENOSPC;
	switch (wr->opcode) {
	case DIW_OP_READ_REQUEST:
		return diw_rdmap_rc_read(r, wr, status, now);
	case DIW_OP_ATOMIC_REQUEST:
		return diw_rdmap_atomic(r, wr, status, now);
	case DIW_OP_LOCAL_INV:
	case DIW_OP_BIND_MW:
		*status = diw_rdmap_local(r, wr);
		return 0;
	default:
		return send_message(r, wr, budget, status, now);
	}
}

void diw_rdmap_rc_rtr(struct diw_rdmap *r, bool read, uint64_t now)
{
	struct diw_rdmap_wr write = { .opcode = DIW_OP_WRITE };
	int64_t budget = 1;
	uint8_t status;

	if (read)
		r->rc.rtr->opcode = DIW_OP_READ_REQUEST;
	/* The stream is empty, so it takes these few octets. */
	diw_rdmap_rc_send(r, read ? r->rc.rtr : &write, &budget, &status, now);
	r->rc.place.placed = r->rc.place.sent;  /* no request waits for the placement of this message */
}

static int tell_rnr(struct diw_rdmap *r, uint64_t now)
{
	struct diw_rdmap_wr write = { .opcode = DIW_OP_WRITE, .stag = RNR_STAG, .to = RNR_TO << 8 | r->rc.rnr_retry };
	struct diw_rdmap_rc_place before = r->rc.place;
	int64_t budget = 1;
	uint8_t status;

	if (diw_rdmap_rc_send(r, &write, &budget, &status, now) == -EAGAIN) {
		r->tx.active = false;           /* no octet of it has left */
		r->rc.place = before;
		return -EAGAIN;
	}
	r->rc.tell_rnr = false;
	return 0;
}

int diw_rdmap_rc_tell_rnr(struct diw_rdmap *r, uint64_t now)
{
	return r->rc.tell_rnr && r->rc.rfc7306 ? tell_rnr(r, now) : 0;
}

/* ---- Receiving ---- */

static void write_placed(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	uint64_t retries = seg->h.to & 0xff;

	r->c->rx_messages += seg->h.last && (seg->len || !seg->h.worded);
	if (seg->h.last)
		diw_rdmap_rc_placed(r, &seg->h, false);
	if (seg->len == 0 && seg->h.stag == RNR_STAG && seg->h.to >> 8 == RNR_TO)
		diw_ddp_limit_rnr(&r->ddp, retries < RNR_UNLIMITED, retries);
}

/* RDMAP's octets are the same in every segment of a message (RFC 5041 section 4.3): the opcode, the Invalidate STag,
 * and our immediate. Fields that an opcode reserves are ignored. */
static uint16_t continues_message(const struct diw_rdmap *r, const struct diw_ddp_hdr *h)
{
	const struct diw_ddp_hdr *first = diw_ddp_first_of(&r->ddp, h);

	if (!first)
		return 0;
	if (h->opcode != first->opcode || h->imm_valid != first->imm_valid)
		return DIW_FAULT_OPCODE;
	if (diw_op_invalidates(h->opcode) && h->inv_stag != first->inv_stag)
		return DIW_FAULT_INVALIDATE;
	return h->imm == first->imm ? 0 : DIW_FAULT_STREAM;
}

/* A Write of no octets changes nothing. */
static bool takes_effect(const struct diw_ddp_seg *seg)
{
	switch (seg->h.opcode) {
	case DIW_OP_WRITE: return seg->len;
	case DIW_OP_SEND:
	case DIW_OP_SEND_SE:
	case DIW_OP_SEND_INV:
	case DIW_OP_SEND_SE_INV:
	case DIW_OP_IMMEDIATE:
	case DIW_OP_IMMEDIATE_SE: return true;
	default: return false;
	}
}

static uint16_t rc_target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	uint16_t fault = diw_rdmap_check(r, seg);

	(void)now;
	t->cookie = NULL;
	if (fault == 0 && !seg->h.tagged)
		fault = continues_message(r, &seg->h);
	if (fault)
		return fault;
	diw_rdmap_rc_heard(r, &seg->h);
	if (r->rc.nseen < r->rc.nanswers && takes_effect(seg))
		diw_rdmap_rc_snap(r);
	t->kind = diw_rdmap_ops[seg->h.opcode].target;
	switch (seg->h.opcode) {
	case DIW_OP_READ_RESPONSE: return diw_rdmap_rc_read_target(r, seg, t);
	case DIW_OP_IMMEDIATE:
	case DIW_OP_IMMEDIATE_SE: return seg->len == DIW_RDMAP_IMM_LEN ? 0 : DIW_FAULT_STREAM;
	default: return diw_rdmap_check_invalidate(r, seg);
	}
}

static void rc_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	(void)now;
	if (cookie)
		diw_rdmap_rc_read_placed(ctx, cookie, seg);
	else
		write_placed(ctx, seg);
}

static uint16_t rc_message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	switch (seg->h.opcode) {
	case DIW_OP_READ_REQUEST: return diw_rdmap_rc_read_asked(r, seg);
	case DIW_OP_ATOMIC_REQUEST: return diw_rdmap_atomic_asked(r, seg);
	case DIW_OP_ATOMIC_RESPONSE: return diw_rdmap_atomic_answered(r, seg);
	default: return diw_rdmap_terminated(r, seg, now);
	}
}

static void rc_recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_rdmap *r = ctx;
	uint8_t op = seg->h.opcode;
	bool immediate = op == DIW_OP_IMMEDIATE || op == DIW_OP_IMMEDIATE_SE;
	bool invalidate = diw_op_invalidates(op);
	struct diw_ddp_seg told;

	r->c->rx_messages++;
	if (!fault)
		diw_rdmap_rc_placed(r, &seg->h, true);
	if (invalidate && !fault)
		diw_ddp_invalidate(&r->ddp, seg->h.inv_stag, seg, false);
	/* In other messages the Invalidate STag is reserved. */
	if (immediate || (!invalidate && seg->h.inv_stag)) {
		told = *seg;
		told.h.inv_stag = 0;
		if (immediate) {
			told.h.imm_valid = true;
			told.h.imm = diw_immediate_get(seg->payload);
		}
		seg = &told;
	}
	r->up->recv_done(r->up_ctx, recv, seg, fault);
}

static void rc_fault(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	if (fault == DIW_FAULT_LOCAL_PROT && seg->h.opcode == DIW_OP_READ_RESPONSE)
		diw_rdmap_rc_read_unplaced(ctx);
	diw_rdmap_terminate(ctx, seg, fault, now);
}

static void rc_down(void *ctx, uint16_t fault, int errnum, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (fault && !errnum)
		diw_rdmap_terminate(r, NULL, fault, now);
	else
		r->up->ended(r->up_ctx, fault, false, errnum, now);
}

/* ---- Requests that are pending ---- */

void diw_rdmap_rc_add_pending(struct diw_rdmap *r, struct diw_rdmap_wr *wr)
{
	wr->pending = true;
	wr->got = 0;
	wr->seq = r->rc.place.sent;
	diw_list_init(&wr->out);
	diw_list_add_tail(&r->rc.out, &wr->out);
	r->rc.nout++;
}

void diw_rdmap_rc_finish(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t status)
{
	wr->pending = false;
	wr->status = status;
	diw_list_del(&wr->out);
	r->rc.nout--;
}

/* The oldest pending request. Responses come in the order of the requests (RFC 5040 section 5.5). */
struct diw_rdmap_wr *diw_rdmap_rc_oldest(const struct diw_rdmap *r)
{
	struct diw_list *l = diw_list_first(&r->rc.out);

	return l ? diw_container(l, struct diw_rdmap_wr, out) : NULL;
}

/* ---- The type ---- */

static int rc_init(struct diw_rdmap *r)
{
	diw_ddp_init_ordered(&r->ddp);
	diw_list_init(&r->rc.out);
	return 0;
}

static void rc_fini(struct diw_rdmap *r)
{
	struct diw_recv *recv = diw_ddp_give_up_recv(&r->ddp);

	if (recv)
		diw_ddp_recv_return(&r->ddp, recv);
	diw_rdmap_snap_clear(r);
	free(r->rc.answers);
	free(r->rc.rtr);
}

/* A segment that waits for a receive is offered again in every step. */
static void rc_timers(struct diw_rdmap *r, uint64_t now)
{
	(void)r, (void)now;
}

static uint64_t rc_wait_deadline(const struct diw_rdmap *r, bool waiting)
{
	(void)waiting;
	return diw_ddp_wait_deadline(&r->ddp);
}

const struct diw_rdmap_type diw_rdmap_type_rc = {
	.ulp = {
		.target = rc_target, .recv_done = rc_recv_done,
		.placed = rc_placed, .message = rc_message, .fault = rc_fault, .down = rc_down,
	},
	.opcodes = 1u << DIW_OP_WRITE | 1u << DIW_OP_READ_REQUEST | 1u << DIW_OP_READ_RESPONSE | 1u << DIW_OP_SEND |
		   1u << DIW_OP_SEND_INV | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_SEND_SE_INV | 1u << DIW_OP_TERMINATE |
		   1u << DIW_OP_IMMEDIATE | 1u << DIW_OP_IMMEDIATE_SE | 1u << DIW_OP_ATOMIC_REQUEST |
		   1u << DIW_OP_ATOMIC_RESPONSE,
	.init = rc_init, .fini = rc_fini, .timers = rc_timers, .deadline = rc_wait_deadline,
};
