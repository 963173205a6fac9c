/* SPDX-License-Identifier: BSD-2-Clause */
/* The instance, and DDP's calls of RDMAP as far as types share their answers, which are in the opcode table. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "rdmap/int.h"

int diw_rdmap_dgram_init(struct diw_rdmap *r)
{
	for (int i = 0; i < 2; i++) {
		r->proof_key[i] = diw_random();
		diw_range_init(&r->write.of[i].ranges);
	}
	return diw_ddp_init(&r->ddp);
}

int diw_rdmap_init(struct diw_rdmap *r, const struct diw_rdmap_attr *a)
{
	struct diw_ddp_attr below = a->ddp;

	below.ulp = &a->type->ulp;
	below.ulp_ctx = r;
	below.recvs = &a->up->recvs;
	below.recvs_ctx = a->up_ctx;
	*r = (struct diw_rdmap){
		.type = a->type, .up = a->up, .up_ctx = a->up_ctx, .c = below.c, .read_timeout = a->read_timeout,
		.requests = a->requests, .peers = a->peers, .request_size = a->request_size,
	};
	diw_ddp_setup(&r->ddp, &below);
	return r->type->init(r);
}

void diw_rdmap_fini(struct diw_rdmap *r)
{
	r->type->fini(r);
}

int diw_rdmap_renew(struct diw_rdmap *r)
{
	struct diw_rdmap fresh = {
		.type = r->type, .up = r->up, .up_ctx = r->up_ctx, .c = r->c, .read_timeout = r->read_timeout,
		.requests = r->requests, .peers = r->peers, .request_size = r->request_size,
	};
	int rc;

	diw_ddp_setup_again(&fresh.ddp, &r->ddp, &fresh);
	rc = fresh.type->init(&fresh);
	if (rc < 0)
		return rc;
	diw_rdmap_fini(r);
	*r = fresh;                             /* fresh's pointers into itself are set again below */
	diw_ddp_set_ctx(&r->ddp, r);
	diw_list_init(&r->rc.out);
	for (int i = 0; i < 2; i++)
		diw_range_init(&r->write.of[i].ranges);
	return 0;
}

/* ---- DDP's calls for types over datagrams ---- */

uint16_t diw_rdmap_dgram_target(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t)
{
	const struct diw_rdmap_op *op = &diw_rdmap_ops[seg->h.opcode];
	uint16_t fault = diw_rdmap_check(r, seg);

	if (fault)
		return fault;
	if (seg->group && seg->to && !op->group)
		return DIW_FAULT_GROUP;
	if (op->max && seg->h.length > op->max)
		return DIW_FAULT_TOO_LONG;
	t->cookie = NULL;
	t->kind = op->target;
	return t->kind == DIW_TARGET_MESSAGE && seg->len != seg->h.length ? DIW_FAULT_MO : 0;
}

uint16_t diw_rdmap_target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	uint16_t fault = diw_rdmap_dgram_target(r, seg, t);

	if (fault == 0 && t->kind == DIW_TARGET_BUF)
		fault = diw_rdmap_read_target(r, seg, t);
	else if (fault == 0 && t->kind == DIW_TARGET_STAG)
		fault = diw_rdmap_write_target(r, seg, now);
	return fault;
}

void diw_rdmap_recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault)
{
	struct diw_rdmap *r = ctx;

	r->c->rx_messages++;
	r->up->recv_done(r->up_ctx, recv, seg, fault);
}

bool diw_rdmap_record_done(void *ctx, struct diw_record *rec, uint32_t lo, uint32_t hi, bool end)
{
	struct diw_rdmap *r = ctx;

	r->c->rx_messages += end;
	return r->up->record_done(r->up_ctx, rec, lo, hi, end);
}

void diw_rdmap_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	struct diw_rdmap *r = ctx;

	r->up->unsent(r->up_ctx, first, n, errnum);
}

/* ---- State for display ---- */

struct diw_rdmap_stats diw_rdmap_stats(const struct diw_rdmap *r)
{
	return (struct diw_rdmap_stats){
		.ddp = diw_ddp_stats(&r->ddp), .reads_open = r->reads ? r->reads->pool.used : r->rc.nout,
	};
}

bool diw_rdmap_has_reads(const struct diw_rdmap *r)
{
	return r->reads && !(diw_list_empty(&r->reads->active) && diw_list_empty(&r->reads->done));
}

const struct diw_record *diw_rdmap_record_next(const struct diw_rdmap *r, const struct diw_record *prev)
{
	return diw_record_next(&r->ddp, prev);
}

const struct diw_record *diw_rdmap_record_find(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn)
{
	return diw_ddp_is_dgram(&r->ddp) ? diw_record_find(&r->ddp, src, -1, msn) : NULL;
}

void diw_rdmap_record_release(struct diw_rdmap *r, struct diw_record *record)
{
	diw_record_release(&r->ddp, record);
}

void diw_rdmap_dereg(struct diw_rdmap *r, uint32_t stag)
{
	diw_records_dereg(&r->ddp, stag);
}
