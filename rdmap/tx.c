/* SPDX-License-Identifier: BSD-2-Clause */
/* Sends over datagrams: a work request becomes a DDP message. Also what all types do with work requests. */
#include <errno.h>

#include "base/clock.h"
#include "rdmap/int.h"

uint8_t diw_rdmap_opcode_of(const struct diw_rdmap_wr *wr)
{
	if (wr->opcode != DIW_OP_SEND)
		return wr->opcode;
	if (wr->invalidate)
		return wr->solicited ? DIW_OP_SEND_SE_INV : DIW_OP_SEND_INV;
	return wr->solicited ? DIW_OP_SEND_SE : DIW_OP_SEND;
}

uint8_t diw_rdmap_local(struct diw_rdmap *r, const struct diw_rdmap_wr *wr)
{
	bool done = wr->opcode == DIW_OP_BIND_MW ? diw_ddp_bind(&r->ddp, &wr->bind) :
						   diw_ddp_invalidate(&r->ddp, wr->inv_stag, NULL, false);

	return done ? DIW_RDMAP_OK : DIW_RDMAP_BIND;
}

void diw_rdmap_message_begin(struct diw_rdmap *r, struct diw_ddp_tx *tx, const struct diw_rdmap_wr *wr)
{
	const struct diw_rdmap_op *op = &diw_rdmap_ops[wr->opcode];
	uint8_t opcode = diw_rdmap_opcode_of(wr);

	tx->dst = wr->dst;
	tx->h = (struct diw_ddp_hdr){
		.opcode = opcode, .tagged = op->tagged, .imm_valid = wr->imm_valid, .imm = wr->imm,
		.solicited = op->solicited && wr->solicited, .qkey = wr->qkey, .length = wr->buf.len,
		.stag = wr->stag, .to = wr->to, .qn = op->qn,
		.inv_stag = wr->opcode == DIW_OP_SEND && wr->invalidate ? wr->inv_stag : 0,
	};
	diw_ddp_tx_begin(&r->ddp, tx, true);
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
		r->tx.active = false;           /* segments that have left are a message that never completes */
		*status = DIW_RDMAP_LOCAL_PROT;
		return 0;
	}
	if (!r->tx.active)
		diw_rdmap_message_begin(r, &r->tx, wr);
	return diw_ddp_tx_run(&r->ddp, &r->tx, iov, budget, now);
}
