/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends over datagrams: a work request becomes a DDP message. */
#include <errno.h>

#include "base/clock.h"
#include "rdmap/int.h"

struct diw_ddp_hdr diw_rdmap_dgram_hdr(const struct diw_rdmap_wr *wr)
{
	const struct diw_rdmap_op *op = &diw_rdmap_ops[wr->opcode];

	return (struct diw_ddp_hdr){
		.opcode = wr->opcode == DIW_OP_SEND && wr->solicited ? DIW_OP_SEND_SE : wr->opcode,
		.tagged = op->tagged, .imm_valid = wr->imm_valid, .imm = wr->imm,
		.solicited = op->solicited && wr->solicited, .qkey = wr->qkey, .length = wr->buf.len,
		.stag = wr->stag, .to = wr->to, .qn = op->qn,
	};
}

static void start_message(struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	r->tx.dst = wr->dst;
	r->tx.h = diw_rdmap_dgram_hdr(wr);
	diw_ddp_tx_begin(&r->ddp, &r->tx, true);
}

int diw_rdmap_send(struct diw_rdmap *r, struct diw_rdmap_wr *wr, int64_t *budget, uint8_t *status, uint64_t now)
{
	struct iovec iov[DIW_DDP_MAX_SGE];

	*status = DIW_RDMAP_OK;
	if (wr->opcode == DIW_OP_READ_REQUEST)
		return diw_rdmap_read_begin(r, wr, status, now);
	if (wr->inline_data) {
		iov[0] = (struct iovec){ (void *)wr->inline_data, wr->buf.len };
	} else if (diw_ddp_gather(&r->ddp, &wr->buf, iov) != 0) {
		r->tx.active = false;           /* segments that left already are a message that never completes */
		*status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (!r->tx.active)
		start_message(r, wr);
	return diw_ddp_tx_run(&r->ddp, &r->tx, iov, budget, now);
}
