/* SPDX-License-Identifier: BSD-2-Clause */
/* The type RD: all operations with any peer, each peer's once and in order (docs/ud-profile.md section 18). */
#include "base/clock.h"
#include "rdmap/rd.h"

static uint16_t rd_type_target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now)
{
	uint16_t fault = diw_rdmap_dgram_target(ctx, seg, t);

	(void)now;
	if (fault)
		return fault;
	return t->kind == DIW_TARGET_BUF ? diw_rdmap_rd_response(ctx, seg, t) :
					   diw_rdmap_check_invalidate(ctx, seg);
}

static void rd_type_recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_rdmap *r = ctx;

	if (diw_op_invalidates(seg->h.opcode) && !fault)
		diw_ddp_invalidate(&r->ddp, seg->h.inv_stag, seg, false);
	diw_rdmap_recv_done(ctx, recv, seg, fault);
}

/* Called for a segment of a Response, and for the end of a Write without a completion. */
static void rd_type_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;

	(void)now;
	r->c->rx_messages += seg->h.last;
	if (cookie)
		diw_rdmap_rd_response_placed(r, cookie, seg->len);
}

static uint16_t rd_type_message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	(void)now;
	switch (seg->h.opcode) {
	case DIW_OP_READ_RESPONSE: return diw_rdmap_rd_response_dropped(ctx, seg);
	case DIW_OP_ATOMIC_RESPONSE: return diw_rdmap_rd_atomic_response(ctx, seg);
	case DIW_OP_TERMINATE: return diw_rdmap_rd_terminated(ctx, seg);
	default: return diw_rdmap_rd_asked(ctx, seg);
	}
}

static void rd_type_fault(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	(void)now;
	if (fault != DIW_FAULT_READ_UNMATCHED)
		diw_rdmap_rd_asked_again(ctx, seg->src);
}

static int rd_type_init(struct diw_rdmap *r)
{
	int rc = diw_peers_init(&r->ddp);

	if (rc < 0)
		return rc;
	rc = diw_rdmap_rd_send_init(r);
	if (rc < 0)
		diw_peers_fini(&r->ddp);
	return rc;
}

static void rd_type_fini(struct diw_rdmap *r)
{
	diw_peers_fini(&r->ddp);
	diw_rdmap_rd_send_fini(r);
}

static void rd_type_timers(struct diw_rdmap *r, uint64_t now)
{
	diw_peers_timers(&r->ddp, now);
	if (now >= r->rd->probe_at)
		diw_rdmap_rd_probe(r, now);
}

static uint64_t rd_type_deadline(const struct diw_rdmap *r, bool waiting)
{
	(void)waiting;
	return diw_min64(diw_peers_deadline(&r->ddp), r->rd->probe_at);
}

const struct diw_rdmap_type diw_rdmap_type_rd = {
	.ulp = {
		.target = rd_type_target,
		.recv_done = rd_type_recv_done, .record_done = diw_rdmap_record_done, .placed = rd_type_placed,
		.message = rd_type_message,
		.fault = rd_type_fault, .refused = diw_rdmap_rd_refused, .acked = diw_rdmap_rd_acked,
		.payload = diw_rdmap_rd_payload,
		.rejected = diw_rdmap_rd_rejected, .room = diw_rdmap_rd_room, .gone = diw_rdmap_rd_gone,
	},
	.opcodes = 1u << DIW_OP_SEND | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_SEND_INV | 1u << DIW_OP_SEND_SE_INV |
		   1u << DIW_OP_WRITE | 1u << DIW_OP_WRITE_RECORD |
		   1u << DIW_OP_READ_REQUEST | 1u << DIW_OP_READ_RESPONSE | 1u << DIW_OP_TERMINATE |
		   1u << DIW_OP_ATOMIC_REQUEST | 1u << DIW_OP_ATOMIC_RESPONSE,
	.init = rd_type_init, .fini = rd_type_fini, .timers = rd_type_timers, .deadline = rd_type_deadline,
};
