/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA Write of UC: placed by its STag, one at a time in MSN order, no record. A later Write, which must be valid
 * itself, ends an earlier one; what has ended is not placed any more. An immediate consumes a receive if every byte
 * came.
 */
#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/rdmap.h"

static void end_write(struct diw_rdmap *r)
{
	diw_range_fini(&r->write.ranges, &r->ddp.dg->records.ranges);
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

/* Its immediate finds no receive, and may wait for one. */
static bool must_wait(struct diw_rdmap *r, const struct diw_ddp_hdr *h, uint64_t now)
{
	const struct diw_order *o = &r->ddp.order;
	struct diw_recv *recv;

	if (!h->imm_valid || !h->last || !o->hopes || (o->waits_until && now >= o->waits_until))
		return false;
	recv = r->up->recv_take(r->up_ctx);
	if (recv)
		r->up->recv_return(r->up_ctx, recv);
	return !recv;
}

uint16_t diw_rdmap_write_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h, *first = &r->write.first;
	uint16_t fault;
	uint8_t *addr;

	if (h->to < h->mo)
		return DIW_FAULT_WRAP;
	fault = diw_stag_resolve(r->ddp.stags, h->stag, &r->ddp.user, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len,
				 &addr);
	if (fault)
		return fault;
	if (r->write.any && h->epoch == first->epoch) {
		if (h->msn == first->msn)
			return must_wait(r, h, now) ? DIW_FAULT_NO_BUFFER : write_goes_on(r, h);
		if (!diw_serial_after(h->msn, first->msn))
			return DIW_FAULT_RECORD_LATE;
	} else if (r->write.any) {
		if (h->epoch == r->write.old_epoch && now < r->write.old_until_ns)
			return DIW_FAULT_EPOCH_OLD;
		r->write.old_epoch = first->epoch;
		r->write.old_until_ns = now + DIW_SOURCE_OLD_EPOCH_NS;
	}
	if (must_wait(r, h, now))
		return DIW_FAULT_NO_BUFFER;
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

void diw_rdmap_write_placed(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_recv *recv;

	r->write.last_ns = now;
	if (seg->len && diw_range_add(&r->write.ranges, &r->ddp.dg->records.ranges, h->mo, h->mo + seg->len) < 0)
		r->c->record_ranges_full++;
	if (r->write.ranges.bytes < h->length)
		return;
	end_write(r);
	if (!h->imm_valid)
		return;
	recv = r->up->recv_room(r->up_ctx, 1) ? diw_rdmap_take_recv(r) : NULL;
	if (recv) {
		r->up->recv_done(r->up_ctx, recv, seg, 0);
		return;
	}
	r->ddp.order.hopes = false;
	r->c->rx_no_recv++;
}
