/* SPDX-License-Identifier: BSD-2-Clause */
/* Who takes a segment: the answer to DDP's question, from the opcode table. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/wire.h"
#include "rdmap/int.h"

static int init_reads(struct diw_rdmap *r)
{
	struct diw_arena arena = { 0 };
	struct diw_rdmap_reads *rd;
	int rc = diw_arena_init(&arena, diw_arena_round(sizeof *rd) +
				diw_pool_bytes(sizeof(struct diw_rdmap_read), DIW_RDMAP_READS) +
				diw_pool_bytes(sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS) +
				diw_pool_bytes(sizeof(struct diw_rdmap_reader), DIW_RDMAP_READS) +
				diw_range_pools_bytes(DIW_RDMAP_READS));

	if (rc < 0)
		return rc;
	rd = diw_arena_take(&arena, sizeof *rd);
	rd->arena = arena;
	diw_pool_init(&rd->pool, &rd->arena, sizeof(struct diw_rdmap_read), DIW_RDMAP_READS);
	diw_pool_init(&rd->answer_pool, &rd->arena, sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS);
	diw_pool_init(&rd->reader_pool, &rd->arena, sizeof(struct diw_rdmap_reader), DIW_RDMAP_READS);
	diw_range_pools_init(&rd->ranges, &rd->arena, DIW_RDMAP_READS);
	diw_list_init(&rd->active);
	diw_list_init(&rd->done);
	diw_list_init(&rd->readers);
	diw_list_init(&rd->unproved.answers);
	for (int i = 0; i < DIW_RDMAP_READS; i++)
		diw_list_init(&rd->hash[i]);
	rd->unit_ns = 100 * DIW_MS / 8;
	rd->errors.seed = diw_random();
	r->reads = rd;
	return 0;
}

static void fini_reads(struct diw_rdmap *r)
{
	struct diw_arena arena = r->reads->arena;

	diw_arena_fini(&arena);                 /* it holds the struct that holds it */
	r->reads = NULL;
}

int diw_rdmap_init(struct diw_rdmap *r)
{
	int rc;

	r->ddp.ulp = &diw_rdmap_ulp;
	r->ddp.ulp_ctx = r;
	r->c = r->ddp.c;
	if (r->type == DIW_TYPE_RC) {
		diw_order_init(&r->ddp.order);
		diw_list_init(&r->rc.out);
		return 0;
	}
	diw_rdmap_flow_init(r);
	for (int i = 0; i < 2; i++) {
		r->proof_key[i] = diw_random();
		diw_range_init(&r->write.of[i].ranges);
	}
	rc = init_reads(r);
	if (rc < 0)
		return rc;
	rc = diw_ddp_init(&r->ddp);
	if (rc < 0)
		fini_reads(r);
	return rc;
}

void diw_rdmap_fini(struct diw_rdmap *r)
{
	if (r->type == DIW_TYPE_RC) {
		if (r->ddp.order.recv)
			r->up->recv_return(r->up_ctx, r->ddp.order.recv);
		diw_rdmap_snap_clear(r);
		free(r->rc.answers);
		free(r->rc.rtr);
		return;
	}
	diw_ddp_fini(&r->ddp);
	fini_reads(r);
}

/* Another epoch than OLD, each of the others as likely: peers refuse OLD for a while, and a forger who could foretell
 * the next one could begin it first (docs/ud-profile.md section 3.4). */
static uint16_t epoch_other_than(uint16_t old)
{
	uint16_t drawn = (uint16_t)(diw_random() % UINT16_MAX);

	return drawn < old ? drawn : (uint16_t)(drawn + 1);
}

int diw_rdmap_renew(struct diw_rdmap *r)
{
	const struct diw_ddp *d = &r->ddp;
	struct diw_rdmap fresh = {
		.type = r->type, .up = r->up, .up_ctx = r->up_ctx, .read_timeout = r->read_timeout,
		.ddp = { .link = d->link, .c = d->c, .stags = d->stags, .user = d->user, .cfg = d->cfg,
			 .epoch = epoch_other_than(d->epoch), .msn_tagged = (uint32_t)diw_random(),
			 .msn_untagged = (uint32_t)diw_random() },
	};
	int rc = diw_rdmap_init(&fresh);

	if (rc < 0)
		return rc;
	diw_rdmap_fini(r);
	*r = fresh;                             /* but for what points into it */
	r->ddp.ulp_ctx = r;
	diw_list_init(&r->rc.out);
	for (int i = 0; i < 2; i++)
		diw_range_init(&r->write.of[i].ranges);
	return 0;
}

static uint16_t target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	const struct diw_rdmap_op *op = &diw_rdmap_ops[h->opcode];

	if (!(op->any_qkey && (op->types & r->type)) && h->qkey != r->ddp.cfg.qkey)
		return DIW_FAULT_QKEY;
	if (!(op->types & r->type) || op->tagged != h->tagged)
		return DIW_FAULT_OPCODE;
	if (h->qn != op->qn)
		return DIW_FAULT_QN;
	if ((h->imm_valid && !op->imm) || (h->solicited && !op->solicited))
		return DIW_FAULT_RDMAP_VERSION; /* reserved bits */
	if (seg->group && seg->to && h->opcode != DIW_OP_SEND && h->opcode != DIW_OP_SEND_SE)
		return DIW_FAULT_GROUP;
	t->cookie = NULL;
	if (r->type == DIW_TYPE_RC)
		return diw_rdmap_rc_target(r, seg, t);
	if (op->max && h->length > op->max)
		return DIW_FAULT_TOO_LONG;
	switch (h->opcode) {
	case DIW_OP_WRITE_RECORD:
		t->kind = DIW_TARGET_RECORD;
		return 0;
	case DIW_OP_SEND:
	case DIW_OP_SEND_SE:
		t->kind = DIW_TARGET_RECV;
		return 0;
	case DIW_OP_READ_RESPONSE:
		t->kind = DIW_TARGET_BUF;
		return diw_rdmap_read_target(r, seg, t);
	case DIW_OP_WRITE:
		t->kind = DIW_TARGET_STAG;
		return diw_rdmap_write_target(r, seg, now);
	default:
		t->kind = DIW_TARGET_MESSAGE;
		return seg->len == h->length ? 0 : DIW_FAULT_MO;
	}
}

static void placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (r->type == DIW_TYPE_RC) {
		if (cookie)
			diw_rdmap_rc_read_placed(r, cookie, seg);
		else
			diw_rdmap_rc_written(r, seg);
	} else if (cookie) {
		diw_rdmap_read_placed(r, cookie, seg, now);
	} else {
		diw_rdmap_write_placed(r, seg, now);
	}
}

static uint16_t message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (r->type == DIW_TYPE_RC)
		return diw_rdmap_rc_message(r, seg, now);
	if (seg->h.opcode == DIW_OP_FLOW)
		return diw_rdmap_flow_rx(r, seg, now);
	if (seg->h.opcode == DIW_OP_VALIDATION)
		return diw_rdmap_validation_rx(r, seg, now);
	if (seg->h.opcode != DIW_OP_TERMINATE)
		return diw_rdmap_read_asked(r, seg, now);
	diw_rdmap_term_rx(r, seg, now);
	return 0;
}

static void challenge(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	diw_rdmap_challenge(ctx, seg, now);
}

static void fault_seen(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (r->type == DIW_TYPE_RC)
		diw_rdmap_terminate(r, seg, fault, now);
	else
		diw_rdmap_term_send(r, seg, fault, now);
}

static void down(void *ctx, uint16_t fault, int errnum, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (fault && !errnum)
		diw_rdmap_terminate(r, NULL, fault, now);
	else
		r->up->ended(r->up_ctx, fault, false, errnum, now);
}

struct diw_recv *diw_rdmap_take_recv(struct diw_rdmap *r)
{
	struct diw_recv *recv = r->up->recv_take(r->up_ctx);

	r->ddp.order.hopes |= recv && r->type == DIW_TYPE_UC;
	return recv;
}

static struct diw_recv *recv_take(void *ctx)
{
	return diw_rdmap_take_recv(ctx);
}

static void recv_return(void *ctx, struct diw_recv *recv)
{
	struct diw_rdmap *r = ctx;

	r->up->recv_return(r->up_ctx, recv);
}

static void recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_rdmap *r = ctx;
	uint8_t op = seg->h.opcode;
	bool immediate = op == DIW_OP_IMMEDIATE || op == DIW_OP_IMMEDIATE_SE;
	bool invalidate = op == DIW_OP_SEND_INV || op == DIW_OP_SEND_SE_INV;
	struct diw_ddp_seg told;

	r->c->rx_messages++;
	if (r->type == DIW_TYPE_RC && !fault)
		diw_rdmap_rc_placed(r, &seg->h, true);
	if (invalidate && !fault)
		diw_rdmap_invalidate(r, seg->h.inv_stag, true, false);
	/* In other messages the Invalidate STag is reserved. */
	if (immediate || (!invalidate && seg->h.inv_stag)) {
		told = *seg;
		told.h.inv_stag = 0;
		if (immediate) {
			told.h.imm_valid = true;
			told.h.imm = diw_get32(seg->payload + 4);
		}
		seg = &told;
	}
	r->up->recv_done(r->up_ctx, recv, seg, fault);
}

static uint32_t recv_posted(void *ctx)
{
	struct diw_rdmap *r = ctx;

	return r->up->recv_posted(r->up_ctx);
}

static bool cq_room(void *ctx, uint32_t n)
{
	struct diw_rdmap *r = ctx;

	return r->up->recv_room(r->up_ctx, n);
}

static bool record_done(void *ctx, struct diw_record *rec, uint32_t lo, uint32_t hi, bool end)
{
	struct diw_rdmap *r = ctx;

	r->c->rx_messages += end;
	return r->up->record_done(r->up_ctx, rec, lo, hi, end);
}

static void refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	struct diw_rdmap *r = ctx;

	diw_rdmap_reads_unsent(r, first, n, errnum);
	r->up->unsent(r->up_ctx, first, n, errnum);
}

const struct diw_ddp_ulp diw_rdmap_ulp = {
	.target = target,
	.recv_take = recv_take,
	.recv_return = recv_return,
	.recv_done = recv_done,
	.recv_posted = recv_posted,
	.cq_room = cq_room,
	.record_done = record_done,
	.placed = placed,
	.message = message,
	.challenge = challenge,
	.fault = fault_seen,
	.down = down,
	.refused = refused,
};
