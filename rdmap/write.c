/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA Write of UC: placed by its STag, one at a time in MSN order, without a record. A valid later Write ends the
 * earlier one, whose late segments are dropped. An immediate consumes a receive if every byte of its Write came.
 */
#include "base/clock.h"
#include "base/wire.h"
#include "rdmap/int.h"

static void write_end(struct diw_rdmap *r, struct diw_rdmap_write *w)
{
	diw_range_fini(&w->ranges, diw_ddp_ranges(&r->ddp));
	w->open = false;
}

static void end_incomplete(struct diw_rdmap *r, struct diw_rdmap_write *w)
{
	if (!w->open)
		return;
	r->c->write_incomplete++;
	write_end(r, w);
}

static uint16_t write_goes_on(const struct diw_rdmap_write *w, const struct diw_ddp_hdr *h)
{
	const struct diw_ddp_hdr *first = &w->first;

	if (!w->open)
		return DIW_FAULT_RECORD_LATE;
	if (h->stag != first->stag || h->to - h->mo != first->to || h->length != first->length ||
	    h->imm_valid != first->imm_valid || h->imm != first->imm)
		return DIW_FAULT_RECORD_MISMATCH;
	return 0;
}

/* ---- Epochs ---- */

static struct diw_rdmap_write *write_in_force(struct diw_rdmap *r)
{
	return &r->write.of[r->write.now];
}

static struct diw_rdmap_write *write_in_doubt(struct diw_rdmap *r)
{
	return &r->write.of[!r->write.now];
}

static void begin_epoch(struct diw_rdmap *r, struct diw_rdmap_write *w, uint16_t epoch)
{
	end_incomplete(r, w);
	w->any = false;
	w->known = true;
	w->epoch = epoch;
	w->asked_ns = 0;
}

/* The state of the segment's epoch, or an entry for a new epoch. An epoch that is not in force has its own entry until
 * the peer has proved it, so a forged epoch does not end the real one. */
static struct diw_rdmap_write *write_state(struct diw_rdmap *r, uint16_t epoch, uint64_t now)
{
	struct diw_rdmap_write *w = write_in_force(r), *doubt = write_in_doubt(r);

	if (!w->known || w->epoch == epoch)
		return w;
	if (doubt->known && doubt->epoch == epoch)
		return doubt;
	return !w->open && now >= w->last_ns + DIW_SOURCE_EXPIRY_NS ? w : doubt;
}

static void ask_epoch(struct diw_rdmap *r, struct diw_rdmap_write *w, const struct diw_ddp_seg *seg, uint64_t now)
{
	if (w == write_in_force(r) || (w->asked_ns && now < w->asked_ns + DIW_SOURCE_ASK_NS))
		return;
	w->asked_ns = now;
	diw_rdmap_challenge(r, seg, now);
}

static void end_epoch(struct diw_rdmap *r, struct diw_rdmap_write *w, uint64_t now)
{
	if (!w->known)
		return;
	end_incomplete(r, w);
	w->known = w->any = false;
	r->write.old_epoch = w->epoch;
	r->write.old_until_ns = now + DIW_SOURCE_OLD_EPOCH_NS;
}

void diw_rdmap_write_proved(struct diw_rdmap *r, uint16_t epoch, uint64_t now)
{
	struct diw_rdmap_write *old = write_in_force(r), *w = write_in_doubt(r);

	if (!old->known)
		return;
	if (old->epoch == epoch) {
		end_epoch(r, w, now);
		return;
	}
	end_epoch(r, old, now);
	if (!w->known || w->epoch != epoch)
		begin_epoch(r, w, epoch);
	w->last_ns = now;
	r->write.now = !r->write.now;
}

/* ---- Segments ---- */

/* The immediate finds no receive, and may wait for one. */
static bool must_wait(struct diw_rdmap *r, const struct diw_ddp_hdr *h, uint64_t now)
{
	struct diw_recv *recv;

	if (!h->imm_valid || !h->last || !diw_ddp_may_wait(&r->ddp, now))
		return false;
	recv = diw_ddp_recv_take(&r->ddp);
	if (recv)
		diw_ddp_recv_return(&r->ddp, recv);
	return !recv;
}

uint16_t diw_rdmap_write_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_rdmap_write *w;
	uint16_t fault;
	uint8_t *addr;

	if (h->to < h->mo)
		return DIW_FAULT_WRAP;
	fault = diw_ddp_resolve(&r->ddp, h->stag, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &addr);
	if (fault)
		return fault;
	if (h->epoch == r->write.old_epoch && now < r->write.old_until_ns)
		return DIW_FAULT_EPOCH_OLD;
	w = write_state(r, h->epoch, now);
	if (w->known && w->epoch == h->epoch && w->any) {
		if (h->msn == w->first.msn)
			return must_wait(r, h, now) ? DIW_FAULT_NO_BUFFER : write_goes_on(w, h);
		if (!diw_serial_after(h->msn, w->first.msn))
			return DIW_FAULT_RECORD_LATE;
	}
	if (must_wait(r, h, now))
		return DIW_FAULT_NO_BUFFER;
	end_incomplete(r, w);
	if (!w->known || w->epoch != h->epoch)
		begin_epoch(r, w, h->epoch);
	w->first = *h;
	w->first.to = h->to - h->mo;
	w->any = w->open = true;
	w->last_ns = now;
	ask_epoch(r, w, seg, now);
	return 0;
}

static uint64_t write_ends_at(const struct diw_rdmap *r, const struct diw_rdmap_write *w)
{
	return w->open ? w->last_ns + diw_ddp_record_timeout(&r->ddp) : DIW_NEVER;
}

uint64_t diw_rdmap_write_deadline(const struct diw_rdmap *r)
{
	return diw_min64(write_ends_at(r, &r->write.of[0]), write_ends_at(r, &r->write.of[1]));
}

void diw_rdmap_write_timer(struct diw_rdmap *r, uint64_t now)
{
	for (int i = 0; i < 2; i++)
		if (now >= write_ends_at(r, &r->write.of[i]))
			end_incomplete(r, &r->write.of[i]);
}

void diw_rdmap_write_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_rdmap_write *w = write_state(r, h->epoch, now);
	struct diw_recv *recv;

	(void)cookie;
	w->last_ns = now;
	if (seg->len && diw_range_add(&w->ranges, diw_ddp_ranges(&r->ddp), h->mo, h->mo + seg->len) < 0)
		r->c->record_ranges_full++;
	if (w->ranges.bytes < h->length)
		return;
	write_end(r, w);
	if (!h->imm_valid)
		return;
	recv = diw_ddp_cq_room(&r->ddp, 1) ? diw_ddp_recv_take(&r->ddp) : NULL;
	if (recv) {
		r->up->recv_done(r->up_ctx, recv, seg, 0);
		return;
	}
	diw_ddp_waited(&r->ddp);
	r->c->rx_no_recv++;
}
