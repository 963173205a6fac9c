/* SPDX-License-Identifier: BSD-2-Clause */
/* The instance: its tables, its timers. */
#include "ddp/ddp.h"

#include "base/clock.h"

int diw_ddp_init(struct diw_ddp *d)
{
	const struct diw_ddp_cfg *cfg = &d->cfg;
	size_t bytes = diw_sources_bytes(cfg->max_sources) + diw_records_bytes(cfg->max_records) +
		       diw_reasms_bytes(cfg->max_reasm);
	int rc = diw_arena_init(&d->arena, bytes);

	if (rc < 0)
		return rc;
	diw_sources_init(&d->sources, &d->arena, cfg->max_sources);
	diw_records_init(&d->records, &d->arena, cfg->max_records);
	diw_reasms_init(&d->reasms, &d->arena, cfg->max_reasm);
	return 0;
}

void diw_ddp_fini(struct diw_ddp *d)
{
	struct diw_list *l;

	for (l = d->reasms.open.next; l != &d->reasms.open; l = l->next)
		d->ulp->recv_return(d->ulp_ctx, diw_container(l, struct diw_reasm, timer)->recv);
	diw_arena_fini(&d->arena);
}

void diw_ddp_timers(struct diw_ddp *d, uint64_t now)
{
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
	return diw_sources_memory(&d->sources) + d->records.pool.used * d->records.pool.size +
	       diw_range_pools_used(&d->records.ranges) + d->reasms.pool.used * d->reasms.pool.size +
	       diw_range_pools_used(&d->reasms.ranges);
}
