/* SPDX-License-Identifier: BSD-2-Clause */
/* The DDP instance: its tables and timers. */
#include "ddp/ddp.h"

#include "base/clock.h"
#include "base/rng.h"

/* Draws an epoch other than OLD; all others are equally likely. Peers refuse OLD for a while. If the next epoch could
 * be predicted, a forger could begin it first (docs/ud-profile.md section 3.4). */
static uint16_t epoch_other_than(uint16_t old)
{
	uint16_t drawn = (uint16_t)(diw_random() % UINT16_MAX);

	return drawn < old ? drawn : (uint16_t)(drawn + 1);
}

void diw_ddp_setup(struct diw_ddp *d, const struct diw_ddp_attr *a)
{
	*d = (struct diw_ddp){
		.ulp = a->ulp, .ulp_ctx = a->ulp_ctx, .recvs = a->recvs, .recvs_ctx = a->recvs_ctx, .c = a->c,
		.stags = a->stags, .user = a->user, .cfg = a->cfg,
		.epoch = (uint16_t)diw_random(), .msn_tagged = (uint32_t)diw_random(),
		.msn_untagged = (uint32_t)diw_random(),
	};
}

void diw_ddp_setup_again(struct diw_ddp *d, const struct diw_ddp *old, void *ulp_ctx)
{
	*d = (struct diw_ddp){
		.ulp = old->ulp, .ulp_ctx = ulp_ctx, .recvs = old->recvs, .recvs_ctx = old->recvs_ctx,
		.link = old->link, .c = old->c, .stags = old->stags, .user = old->user, .cfg = old->cfg,
		.epoch = epoch_other_than(old->epoch), .msn_tagged = (uint32_t)diw_random(),
		.msn_untagged = (uint32_t)diw_random(),
	};
}

int diw_ddp_init(struct diw_ddp *d)
{
	const struct diw_ddp_cfg *cfg = &d->cfg;
	struct diw_arena arena = { 0 };
	int rc = diw_arena_init(&arena, diw_arena_round(sizeof *d->dg) + diw_sources_bytes(cfg->max_sources) +
					diw_records_bytes(cfg->max_records) + diw_reasms_bytes(cfg->max_reasm));

	if (rc < 0)
		return rc;
	d->dg = diw_arena_take(&arena, sizeof *d->dg);
	d->dg->arena = arena;
	diw_sources_init(&d->dg->sources, &d->dg->arena, cfg->max_sources);
	diw_records_init(&d->dg->records, &d->dg->arena, cfg->max_records);
	diw_reasms_init(&d->dg->reasms, &d->dg->arena, cfg->max_reasm);
	return 0;
}

void diw_ddp_fini(struct diw_ddp *d)
{
	struct diw_arena arena = d->dg->arena;
	struct diw_list *l;

	for (l = d->dg->reasms.open.next; l != &d->dg->reasms.open; l = l->next)
		diw_ddp_recv_return(d, diw_container(l, struct diw_reasm, timer)->recv);
	if (d->dg->records.nopen)               /* without any, the lock may not be held */
		d->stags->records -= d->dg->records.nopen;
	diw_arena_fini(&arena);
	d->dg = NULL;
}

void diw_ddp_timers(struct diw_ddp *d, uint64_t now)
{
	d->dg->sources.now = now;
	diw_records_timers(d, now);
	diw_reasms_timers(d, now);
	diw_sources_timers(d, now);
}

uint64_t diw_ddp_deadline(const struct diw_ddp *d)
{
	uint64_t t = diw_min64(diw_records_deadline(d), diw_reasms_deadline(d));

	return diw_min64(t, diw_sources_deadline(d));
}

struct diw_ddp_stats diw_ddp_stats(const struct diw_ddp *d)
{
	const struct diw_ddp_dgram *dg = d->dg;

	if (!dg)
		return (struct diw_ddp_stats){ 0 };
	return (struct diw_ddp_stats){
		.sources = dg->sources.pool.used, .records_open = dg->records.nopen,
		.records_held = dg->records.pool.used - dg->records.nopen, .reasm_open = dg->reasms.nopen,
		.memory = diw_sources_memory(&dg->sources) + dg->records.pool.used * dg->records.pool.size +
			  diw_range_pools_used(&dg->records.ranges) + dg->reasms.pool.used * dg->reasms.pool.size +
			  diw_range_pools_used(&dg->reasms.ranges),
	};
}

/* ---- STags ---- */

bool diw_ddp_invalidate(struct diw_ddp *d, uint32_t stag, const struct diw_ddp_seg *by, bool dry)
{
	struct diw_stag *s = diw_stag_find(d->stags, stag, &d->user);

	if (!s || s->windows || (s->window && !s->qp) ||
	    (by && !s->window && !(s->access & DIW_STAG_REMOTE_INVALIDATE)) ||
	    (by && by->src && !diw_stag_is_for(s, by->src)))
		return false;
	if (!dry)
		diw_stag_invalidate(d->stags, s);
	return true;
}

bool diw_ddp_bind(struct diw_ddp *d, const struct diw_ddp_bind *b)
{
	struct diw_stag *w = diw_stag_at(d->stags, b->window);
	struct diw_stag *mr = diw_stag_find(d->stags, b->region, &d->user);
	const unsigned writes = DIW_STAG_REMOTE_WRITE | DIW_STAG_REMOTE_ATOMIC;
	uint64_t off;

	if (!w || !w->window || w->pd != d->user.pd || (b->type2 && !w->invalid))
		return false;
	if (!b->type2 && (int32_t)(b->turn - w->turn) < 0)      /* a bind that was posted later has ended it */
		return true;
	if (b->len == 0 && !b->type2) {
		diw_stag_invalidate(d->stags, w);
		w->turn = b->turn;
		return true;
	}
	if (!mr || mr->window || !(mr->access & DIW_STAG_MW_BIND) || b->len == 0 ||
	    ((b->access & writes) && !(mr->access & DIW_STAG_LOCAL_WRITE)))
		return false;
	off = b->to - mr->to;
	if (b->to < mr->to || off > mr->len || b->len > mr->len - off)
		return false;
	diw_stag_invalidate(d->stags, w);
	diw_stag_set_key(w, b->key);
	w->turn = b->turn;
	w->addr = mr->addr + off;
	w->to = b->to;
	w->len = b->len;
	w->access = b->access;
	w->bound = mr->bound;                   /* a region of one peer has windows for that peer alone */
	w->peer = mr->peer;
	diw_stag_set_qp(d->stags, w, b->type2 ? d->user.qp : NULL);
	w->region = mr;
	w->invalid = false;
	mr->windows++;
	return true;
}
