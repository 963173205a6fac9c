/* SPDX-License-Identifier: BSD-2-Clause */
/* Who takes a segment: the answer to DDP's question, from the opcode table. */
#include "base/clock.h"
#include "rdmap/rdmap.h"

int diw_rdmap_init(struct diw_rdmap *r)
{
	struct diw_rdmap_reads *rd = &r->reads;
	int rc;

	r->ddp.ulp = &diw_rdmap_ulp;
	r->ddp.ulp_ctx = r;
	r->c = r->ddp.c;
	rc = diw_arena_init(&rd->arena, diw_pool_bytes(sizeof(struct diw_rdmap_read), DIW_RDMAP_READS) +
			    diw_pool_bytes(sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS) +
			    diw_range_pools_bytes(DIW_RDMAP_READS));
	if (rc < 0)
		return rc;
	rc = diw_ddp_init(&r->ddp);
	if (rc < 0) {
		diw_arena_fini(&rd->arena);
		return rc;
	}
	diw_pool_init(&rd->pool, &rd->arena, sizeof(struct diw_rdmap_read), DIW_RDMAP_READS);
	diw_pool_init(&rd->answer_pool, &rd->arena, sizeof(struct diw_rdmap_answer), DIW_RDMAP_READS);
	diw_range_pools_init(&rd->ranges, &rd->arena, DIW_RDMAP_READS);
	diw_list_init(&rd->active);
	diw_list_init(&rd->done);
	diw_list_init(&rd->answers);
	for (int i = 0; i < DIW_RDMAP_READS; i++)
		diw_list_init(&rd->hash[i]);
	rd->unit_ns = 100 * DIW_MS / 8;
	diw_range_init(&r->write.ranges);
	return 0;
}

void diw_rdmap_fini(struct diw_rdmap *r)
{
	diw_ddp_fini(&r->ddp);
	diw_arena_fini(&r->reads.arena);
}

static uint16_t target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	const struct diw_rdmap_op *op = &diw_rdmap_ops[h->opcode];

	if (!op->any_qkey && h->qkey != r->ddp.cfg.qkey)
		return DIW_FAULT_QKEY;
	if (!(op->types & r->type) || op->tagged != h->tagged)
		return DIW_FAULT_OPCODE;
	if (h->qn != op->qn)
		return DIW_FAULT_QN;
	if ((h->imm_valid && !op->imm) || (h->solicited && !op->solicited))
		return DIW_FAULT_RDMAP_VERSION; /* reserved bits */
	t->cookie = NULL;
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
		return seg->len == h->length ? 0 : DIW_FAULT_SHORT;
	}
}

static void placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	if (cookie)
		diw_rdmap_read_placed(r, cookie, seg, now);
	else
		diw_rdmap_write_placed(r, seg, now);
}

static void message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	uint16_t fault;

	if (seg->h.opcode == DIW_OP_TERMINATE) {
		diw_rdmap_term_rx(r, seg);
		return;
	}
	fault = diw_rdmap_read_asked(r, seg);
	if (fault) {
		diw_fault_count(r->c, fault);
		diw_ddp_dropped(r->ddp.link, seg, diw_fault_counter(fault));
		diw_rdmap_term_send(r, seg, fault, now);
	}
}

static void fault_seen(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	diw_rdmap_term_send(ctx, seg, fault, now);
}

static struct diw_recv *recv_take(void *ctx)
{
	struct diw_rdmap *r = ctx;

	return r->up->recv_take(r->up_ctx);
}

static void recv_return(void *ctx, struct diw_recv *recv)
{
	struct diw_rdmap *r = ctx;

	r->up->recv_return(r->up_ctx, recv);
}

static void recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_rdmap *r = ctx;

	r->c->rx_messages++;
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
	.fault = fault_seen,
};
