/* SPDX-License-Identifier: BSD-2-Clause */
/* The type UC: Sends and Writes of one peer, at the pace of rdmap/flow.c. What is at fault is dropped and not told. */
#include "base/clock.h"
#include "rdmap/int.h"

static int uc_init(struct diw_rdmap *r)
{
	diw_ddp_fix_peer(&r->ddp, DIW_RDMAP_FLOW_TOLL);
	diw_rdmap_flow_init(r);
	return diw_rdmap_dgram_init(r);
}

/* Where there was a receive a message may wait for the next one. */
struct diw_recv *diw_rdmap_uc_recv_take(void *ctx)
{
	struct diw_rdmap *r = ctx;
	struct diw_recv *recv = r->up->recv_take(r->up_ctx);

	if (recv)
		diw_ddp_set_had_recv(&r->ddp, true);
	return recv;
}

static uint16_t uc_message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	return seg->h.opcode == DIW_OP_FLOW ? diw_rdmap_flow_rx(ctx, seg, now) : diw_rdmap_validation_rx(ctx, seg, now);
}

static void uc_fault(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	(void)ctx, (void)seg, (void)fault, (void)now;
}

static void uc_timers(struct diw_rdmap *r, uint64_t now)
{
	diw_rdmap_dgram_timers(r, now);
	diw_rdmap_write_timer(r, now);
}

static uint64_t uc_deadline(const struct diw_rdmap *r, bool waiting)
{
	uint64_t t = diw_min64(diw_rdmap_dgram_deadline(r, waiting), diw_rdmap_write_deadline(r));

	return diw_min64(t, diw_ddp_wait_deadline(&r->ddp));
}

const struct diw_rdmap_type diw_rdmap_type_uc = {
	.ulp = {
		DIW_RDMAP_DGRAM_ULP, .recv_take = diw_rdmap_uc_recv_take, .placed = diw_rdmap_write_placed,
		.message = uc_message, .fault = uc_fault,
	},
	.opcodes = 1u << DIW_OP_SEND | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_WRITE | 1u << DIW_OP_FLOW |
		   1u << DIW_OP_VALIDATION,
	.init = uc_init, .fini = diw_rdmap_dgram_fini, .timers = uc_timers, .deadline = uc_deadline,
};
