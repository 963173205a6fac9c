/* SPDX-License-Identifier: BSD-2-Clause */
/* The instance: its tables, its timers. */
#include "ddp/ddp.h"

#include "base/clock.h"

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
		d->ulp->recv_return(d->ulp_ctx, diw_container(l, struct diw_reasm, timer)->recv);
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

size_t diw_ddp_memory(const struct diw_ddp *d)
{
	return diw_sources_memory(&d->dg->sources) + d->dg->records.pool.used * d->dg->records.pool.size +
	       diw_range_pools_used(&d->dg->records.ranges) + d->dg->reasms.pool.used * d->dg->reasms.pool.size +
	       diw_range_pools_used(&d->dg->reasms.ranges);
}
