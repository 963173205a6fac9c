/* SPDX-License-Identifier: BSD-2-Clause */
/* The Terminate of a stream (RFC 5040 section 4.8): the last message either way. */
#include <string.h>

#include "base/wire.h"
#include "rdmap/rdmap.h"

#define HDR_M 0x80u                  /* DDP segment length valid */
#define HDR_D 0x40u                  /* DDP header included */
#define HDR_R 0x20u                  /* RDMAP header included: of a Read Request */
#define CONTROL 4u
#define FIXED 6u                     /* control, DDP segment length */

/* What only our own house has a name for. */
static uint16_t on_the_wire(uint16_t fault)
{
	return diw_fault_is_local(fault) ? DIW_FAULT_STREAM : fault;
}

/* MPA's own faults have no header to quote (RFC 5044 section 8), nor has what is no segment. */
static uint32_t quote(uint8_t *p, const struct diw_ddp_seg *seg)
{
	uint32_t n = FIXED;

	if (!seg || seg->hdr_len == 0) {
		p[2] = 0;
		return CONTROL;
	}
	p[2] = HDR_M | HDR_D;
	diw_put16(p + CONTROL, (uint16_t)(seg->hdr_len + seg->len));
	memcpy(p + n, seg->raw, seg->hdr_len);
	n += seg->hdr_len;
	if (!seg->h.tagged && seg->h.opcode == DIW_OP_READ_REQUEST && seg->len == DIW_RDMAP_READ_LEN) {
		p[2] |= HDR_R;
		memcpy(p + n, seg->payload, DIW_RDMAP_READ_LEN);
		n += DIW_RDMAP_READ_LEN;
	}
	return n;
}

void diw_rdmap_terminate(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now)
{
	uint8_t body[FIXED + DIW_DDP_MAX_LEN + DIW_RDMAP_READ_LEN];
	struct iovec iov = { .iov_base = body };
	struct diw_ddp_tx tx = { .dst = r->ddp.cfg.peer };
	int64_t budget = 1;

	diw_put16(body, on_the_wire(fault));
	body[3] = 0;
	iov.iov_len = quote(body, seg);
	tx.h = (struct diw_ddp_hdr){ .opcode = DIW_OP_TERMINATE, .qn = 2, .length = (uint32_t)iov.iov_len };
	r->ddp.order.dead = true;
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) == 0)
		r->c->terminate_tx++;
	r->up->ended(r->up_ctx, fault, false, 0, now);
}

/* The kernel's siw, on little-endian machines, sends layer and error type in each other's place. Some of what results
 * is nothing that the RFCs define; MPA's errors quote no header. */
static uint16_t sent_fault(const uint8_t *p)
{
	unsigned layer = p[0] >> 4, etype = p[0] & 15;
	bool swapped = (layer == 2 && (etype != 0 || (p[2] & (HDR_M | HDR_D | HDR_R)))) || (layer == 1 && etype == 0) ||
		       (layer == 0 && etype == 0 && p[1] > 8);

	return swapped ? (uint16_t)(etype << 12 | layer << 8 | p[1]) : diw_get16(p);
}

uint16_t diw_rdmap_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const uint8_t *p = seg->payload, *quoted = p + FIXED;
	struct diw_rdmap_wr *wr = diw_rdmap_rc_oldest(r);
	uint16_t fault;

	if (seg->len < CONTROL)
		return DIW_FAULT_STREAM;
	r->c->terminate_rx++;
	fault = sent_fault(p);
	if (wr && seg->len >= FIXED + 2 && !(quoted[0] & DIW_DDP_TAGGED) &&
	    ((quoted[1] & DIW_RDMAP_OP) == DIW_OP_READ_REQUEST || (quoted[1] & DIW_RDMAP_OP) == DIW_OP_ATOMIC_REQUEST)) {
		wr->fault = fault;
		diw_rdmap_rc_finish(r, wr, DIW_RDMAP_REFUSED);
	}
	r->ddp.order.dead = true;
	r->up->ended(r->up_ctx, fault, true, 0, now);
	return 0;
}
