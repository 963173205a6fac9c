/* SPDX-License-Identifier: BSD-2-Clause */
/* Every segment: length check, parse, ask upward who takes it, check, and only then place (RFC 5041 section 5). */
#include <string.h>

#include "base/clock.h"
#include "ddp/ddp.h"

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

/* Called once for each entry that [off, off + len) of the buffer touches. */
uint16_t diw_ddp_place(const struct diw_ddp *d, const struct diw_ddp_buf *buf, uint32_t off, const uint8_t *data,
		       uint32_t len)
{
	for (uint32_t i = 0; i < buf->n && len; i++) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint32_t n = s->len - off;
		uint16_t fault;
		uint8_t *to;

		if (off >= s->len) {
			off -= s->len;
			continue;
		}
		if (n > len)
			n = len;
		fault = diw_stag_resolve(d->stags, s->stag, d->pd, DIW_STAG_LOCAL_WRITE, NULL, s->to + off, n, &to);
		if (fault)
			return fault;
		memcpy(to, data, n);
		data += n;
		len -= n;
		off = 0;
	}
	return len ? DIW_FAULT_BOUNDS : 0;
}

uint16_t diw_ddp_gather(const struct diw_ddp *d, const struct diw_ddp_buf *buf, struct iovec *iov)
{
	for (uint32_t i = 0; i < buf->n; i++) {
		const struct diw_ddp_sge *s = &buf->sge[i];
		uint8_t *from = NULL;
		uint16_t fault = 0;

		if (s->len)
			fault = diw_stag_resolve(d->stags, s->stag, d->pd, 0, NULL, s->to, s->len, &from);
		if (fault)
			return fault;
		iov[i] = (struct iovec){ from, s->len };
	}
	return 0;
}

static uint16_t place_by_stag(struct diw_ddp *d, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	uint16_t fault;
	uint8_t *to;

	fault = diw_stag_resolve(d->stags, h->stag, d->pd, DIW_STAG_REMOTE_WRITE, seg->src, h->to, seg->len, &to);
	if (fault == 0)
		memcpy(to, seg->payload, seg->len);
	return fault;
}

static uint16_t take(struct diw_ddp *d, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_ddp_target t;
	uint16_t fault;

	fault = d->ulp->target(d->ulp_ctx, seg, &t, now);
	if (fault)
		return fault;
	if (t.kind == DIW_TARGET_RECORD)
		return diw_record_rx(d, seg, now);
	diw_record_burst_end(d);                /* completions keep the order of arrival */
	switch (t.kind) {
	case DIW_TARGET_RECV:
		return diw_reasm_rx(d, seg, now);
	case DIW_TARGET_BUF:
		fault = diw_ddp_place(d, &t.buf, seg->h.mo, seg->payload, seg->len);
		break;
	case DIW_TARGET_STAG:
		fault = place_by_stag(d, seg);
		break;
	default:
		d->ulp->message(d->ulp_ctx, seg, now);
		return 0;
	}
	if (fault)
		return fault;
	d->c->rx_payload += seg->len;
	d->ulp->placed(d->ulp_ctx, t.cookie, seg, now);
	return 0;
}

static void link_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	struct diw_ddp *d = ctx;
	uint16_t fault;

	d->c->rx_segments += (uint64_t)n;
	for (int i = 0; i < n; i++) {
		struct diw_ddp_seg seg;

		seg.src = src;
		seg.raw = segs[i].data;
		fault = diw_ddp_hdr_decode(&seg.h, &seg.hdr_len, segs[i].data, segs[i].len);
		seg.payload = seg.raw + seg.hdr_len;
		seg.len = segs[i].len - seg.hdr_len;
		if (fault == 0 && d->cfg.fixed_peer && !diw_addr_eq(src, &d->cfg.peer))
			fault = DIW_FAULT_PEER;
		if (fault == 0)
			fault = take(d, &seg, now);
		if (fault) {
			diw_fault_count(d->c, fault);
			d->ulp->fault(d->ulp_ctx, &seg, fault, now);
		}
	}
	diw_record_burst_end(d);
}

const struct diw_link_up diw_ddp_link_up = { .rx = link_rx };

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
