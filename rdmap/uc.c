/* SPDX-License-Identifier: BSD-2-Clause */
/* The type UC: Sends and Writes of one peer, with the flow control of rdmap/flow.c. Faulty segments are dropped and not
 * reported to the peer. */
#include "base/clock.h"
#include "rdmap/int.h"

static int uc_init(struct diw_rdmap *r)
{
	diw_ddp_fix_peer(&r->ddp, DIW_RDMAP_FLOW_TOLL);
	diw_rdmap_flow_init(r);
	return diw_rdmap_dgram_init(r);
}

static uint16_t uc_message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	return seg->h.opcode == DIW_OP_FLOW ? diw_rdmap_flow_rx(ctx, seg, now) : diw_rdmap_validation_rx(ctx, seg, now);
}

static void uc_fault(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	(void)ctx, (void)seg, (void)fault, (void)now;
}

static void uc_fini(struct diw_rdmap *r)
{
	diw_ddp_fini(&r->ddp);
}

static void uc_timers(struct diw_rdmap *r, uint64_t now)
{
	diw_ddp_timers(&r->ddp, now);
	diw_rdmap_write_timer(r, now);
}

static uint64_t uc_deadline(const struct diw_rdmap *r, bool waiting)
{
	uint64_t t = diw_min64(diw_ddp_deadline(&r->ddp), diw_rdmap_write_deadline(r));

	(void)waiting;
	return diw_min64(t, diw_ddp_wait_deadline(&r->ddp));
}

const struct diw_rdmap_type diw_rdmap_type_uc = {
	.ulp = {
		DIW_RDMAP_DGRAM_ULP, .placed = diw_rdmap_write_placed,
		.message = uc_message, .fault = uc_fault, .refused = diw_rdmap_refused,
	},
	.opcodes = 1u << DIW_OP_SEND | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_WRITE | 1u << DIW_OP_FLOW |
		   1u << DIW_OP_VALIDATION,
	.init = uc_init, .fini = uc_fini, .timers = uc_timers, .deadline = uc_deadline,
};
