/* SPDX-License-Identifier: BSD-2-Clause */
/* Who takes a segment: the answer to DDP's question, from the opcode table. */
#include "base/clock.h"
#include "base/wire.h"
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

static void end_write(struct diw_rdmap *r)
{
	diw_range_fini(&r->write.ranges, &r->ddp.records.ranges);
	r->write.open = false;
}

static uint16_t write_goes_on(const struct diw_rdmap *r, const struct diw_ddp_hdr *h)
{
	const struct diw_ddp_hdr *first = &r->write.first;

	if (!r->write.open)
		return DIW_FAULT_RECORD_LATE;
	if (h->stag != first->stag || h->to - h->mo != first->to || h->length != first->length ||
	    h->imm_valid != first->imm_valid || h->imm != first->imm)
		return DIW_FAULT_RECORD_MISMATCH;
	return 0;
}

/* UC: one Write at a time, in MSN order; a later one, which must be valid itself, abandons it. What has ended is not placed
 * any more. */
static uint16_t write_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h, *first = &r->write.first;
	uint16_t fault;
	uint8_t *addr;

	if (h->to < h->mo)
		return DIW_FAULT_WRAP;
	fault = diw_stag_resolve(r->ddp.stags, h->stag, r->ddp.pd, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &addr);
	if (fault)
		return fault;
	if (r->write.any && h->epoch == first->epoch) {
		if (h->msn == first->msn)
			return write_goes_on(r, h);
		if (!diw_serial_after(h->msn, first->msn))
			return DIW_FAULT_RECORD_LATE;
	} else if (r->write.any) {
		if (h->epoch == r->write.old_epoch && now < r->write.old_until_ns)
			return DIW_FAULT_EPOCH_OLD;
		r->write.old_epoch = first->epoch;
		r->write.old_until_ns = now + DIW_SOURCE_OLD_EPOCH_NS;
	}
	if (r->write.open) {
		r->c->write_incomplete++;
		end_write(r);
	}
	r->write.first = *h;
	r->write.first.to = h->to - h->mo;
	r->write.any = r->write.open = true;
	r->write.last_ns = now;
	return 0;
}

uint64_t diw_rdmap_write_deadline(const struct diw_rdmap *r)
{
	return r->write.open ? r->write.last_ns + r->ddp.cfg.record_timeout : DIW_NEVER;
}

void diw_rdmap_write_timer(struct diw_rdmap *r, uint64_t now)
{
	if (now < diw_rdmap_write_deadline(r))
		return;
	r->c->write_incomplete++;
	end_write(r);
}

static void write_placed(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_recv *recv;

	r->write.last_ns = now;
	if (seg->len && diw_range_add(&r->write.ranges, &r->ddp.records.ranges, h->mo, h->mo + seg->len) < 0)
		r->c->record_ranges_full++;
	if (r->write.ranges.bytes < h->length)
		return;
	end_write(r);
	if (!h->imm_valid)
		return;
	recv = r->up->recv_room(r->up_ctx, 1) ? r->up->recv_take(r->up_ctx) : NULL;
	if (recv)
		r->up->recv_done(r->up_ctx, recv, seg, 0);
	else
		r->c->rx_no_recv++;
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
		return write_target(r, seg, now);
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
		write_placed(r, seg, now);
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
