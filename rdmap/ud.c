/* SPDX-License-Identifier: BSD-2-Clause */
/* The type UD: Sends, Write-Records and Reads of any peer. A peer proves its address where that is needed. */
#include "base/clock.h"
#include "rdmap/int.h"

static int ud_init(struct diw_rdmap *r)
{
	int rc = diw_rdmap_reads_init(r);

	if (rc < 0)
		return rc;
	rc = diw_rdmap_dgram_init(r);
	if (rc < 0)
		diw_rdmap_reads_fini(r);
	return rc;
}

static void ud_fini(struct diw_rdmap *r)
{
	diw_ddp_fini(&r->ddp);
	diw_rdmap_reads_fini(r);
}

static void ud_timers(struct diw_rdmap *r, uint64_t now)
{
	diw_ddp_timers(&r->ddp, now);
	diw_rdmap_reads_timers(r, now);
}

static uint64_t ud_deadline(const struct diw_rdmap *r, bool waiting)
{
	uint64_t t = diw_ddp_deadline(&r->ddp);

	return waiting ? diw_min64(t, diw_rdmap_reads_deadline(r)) : t;
}

static void ud_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	diw_rdmap_reads_unsent(ctx, first, n, errnum);
	diw_rdmap_refused(ctx, first, n, errnum);
}

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
		DIW_RDMAP_DGRAM_ULP, .placed = diw_rdmap_read_placed,
		.message = ud_message, .fault = diw_rdmap_term_send, .refused = ud_refused,
	},
	.opcodes = 1u << DIW_OP_SEND | 1u << DIW_OP_SEND_SE | 1u << DIW_OP_WRITE_RECORD | 1u << DIW_OP_READ_REQUEST |
		   1u << DIW_OP_READ_RESPONSE | 1u << DIW_OP_TERMINATE | 1u << DIW_OP_VALIDATION,
	.init = ud_init, .fini = ud_fini, .timers = ud_timers, .deadline = ud_deadline,
};
