/* SPDX-License-Identifier: BSD-2-Clause */
/* The type UD: Sends, Write-Records and Reads of any peer, each of which proves its address where that matters. */
#include "rdmap/int.h"

static uint16_t ud_message(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	if (seg->h.opcode == DIW_OP_VALIDATION)
		return diw_rdmap_validation_rx(ctx, seg, now);
	if (seg->h.opcode == DIW_OP_READ_REQUEST)
		return diw_rdmap_read_asked(ctx, seg, now);
	diw_rdmap_term_rx(ctx, seg, now);
	return 0;
}

const struct diw_rdmap_type diw_rdmap_type_ud = {
	.ulp = {
		DIW_RDMAP_DGRAM_ULP, .recv_take = diw_rdmap_recv_take, .placed = diw_rdmap_read_placed,
		.message = ud_message, .fault = diw_rdmap_term_send,
	},
	.opcodes = 1u << DIW_OP_SEND | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_WRITE_RECORD | 1u << DIW_OP_READ_REQUEST |
		   1u << DIW_OP_READ_RESPONSE | 1u << DIW_OP_TERMINATE | 1u << DIW_OP_VALIDATION,
	.init = diw_rdmap_dgram_init, .fini = diw_rdmap_dgram_fini,
	.timers = diw_rdmap_dgram_timers, .deadline = diw_rdmap_dgram_deadline,
};
