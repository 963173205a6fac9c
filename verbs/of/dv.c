/* SPDX-License-Identifier: BSD-2-Clause */
/* infiniband/diwdv.h: queue pairs for reliable datagrams, and the records of completions. */
#include <string.h>

#include "verbs/of/of.h"

#define BORROWED 0x80000000u         /* of the cursor, which releases the map itself */

_Static_assert(sizeof(struct diwdv_range) == sizeof(struct diw_range) &&
	       offsetof(struct diwdv_range, off) == offsetof(struct diw_range, off), "ranges differ");
_Static_assert((int)DIWDV_CLOSE_EPOCH == (int)DIW_RECORD_EPOCH, "as diw.h numbers them");

bool diwdv_is_supported(struct ibv_device *device)
{
	return device;
}

/* ---- Queue pairs ---- */

static bool is_rd(const struct diwdv_qp_attr *a)
{
	const uint32_t more = a->comp_mask & (DIWDV_QP_SEGMENT | DIWDV_QP_FLAGS);

	return a->comp_mask == more + DIWDV_QP_DRIVER_TYPE && a->driver_type == DIWDV_DRIVER_RD &&
	       !((a->comp_mask & DIWDV_QP_FLAGS) && (a->flags & ~(uint32_t)DIWDV_QP_ERROR_ENDS));
}

struct ibv_qp *diwdv_create_qp(struct ibv_context *c, struct ibv_qp_init_attr_ex *init,
			       const struct diwdv_qp_attr *attr)
{
	const uint32_t known = DIWDV_QP_FLAGS | DIWDV_QP_SEGMENT | DIWDV_QP_MAX_RECORDS | DIWDV_QP_REORDER_WINDOW |
			       DIWDV_QP_RECORD_TIMEOUT | DIWDV_QP_READ_TIMEOUT;
	const uint32_t flags = DIWDV_QP_CHUNKS | DIWDV_QP_LAST_CLOSES;

	if (!attr)
		return of_null(diw_fail(EINVAL, "diwdv_create_qp: no attributes"));
	if (init->qp_type == IBV_QPT_DRIVER) {
		if (is_rd(attr))
			return of_create_qp_dv(c, init, attr);
		return of_null(diw_fail(EINVAL,
					"diwdv_create_qp: comp_mask %#x: IBV_QPT_DRIVER takes driver_type, which is "
					"DIWDV_DRIVER_RD, segment, and flags of DIWDV_QP_ERROR_ENDS", attr->comp_mask));
	}
	if ((attr->comp_mask & ~known) || init->qp_type != IBV_QPT_UD ||
	    ((attr->comp_mask & DIWDV_QP_FLAGS) && (attr->flags & ~flags)))
		return of_null(diw_fail(EINVAL, "diwdv_create_qp: comp_mask %#x, flags %#x, or the type is not UD",
					attr->comp_mask, attr->flags));
	return of_create_qp_dv(c, init, attr);
}

static int64_t dv_ns(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

void of_dv_attr(struct diw_qp_attr *a, const struct diwdv_qp_attr *dv)
{
	const uint32_t mask = dv->comp_mask;

	if (mask & DIWDV_QP_FLAGS) {
		a->dgram.record_mode = dv->flags & DIWDV_QP_CHUNKS ? DIW_RECORD_CHUNK : DIW_RECORD_MESSAGE;
		a->dgram.record_close_last = dv->flags & DIWDV_QP_LAST_CLOSES;
		a->rd.error = dv->flags & DIWDV_QP_ERROR_ENDS ? DIW_RD_ERROR_QP : DIW_RD_ERROR_PEER;
	}
	if (mask & DIWDV_QP_SEGMENT)
		a->mulpdu = dv->segment;
	if (mask & DIWDV_QP_MAX_RECORDS)
		a->dgram.max_records = dv->max_records;
	if (mask & DIWDV_QP_REORDER_WINDOW)
		a->dgram.reorder_window_ns = dv_ns(dv->reorder_window_ns);
	if (mask & DIWDV_QP_RECORD_TIMEOUT)
		a->dgram.record_timeout_ns = dv_ns(dv->record_timeout_ns);
	if (mask & DIWDV_QP_READ_TIMEOUT)
		a->dgram.read_timeout_ns = dv_ns(dv->read_timeout_ns);
}

/* ---- Records ---- */

static bool has_record(const struct diw_wc *wc)
{
	return wc->opcode == DIW_WC_RECV_WRITE_RECORD || (wc->opcode == DIW_WC_READ && wc->qp_num < OF_QPN_RC);
}

void of_dv_record(struct diwdv_record *r, const struct diw_wc *wc)
{
	*r = (struct diwdv_record){ 0 };
	if (!has_record(wc)) {
		if (wc->opcode != DIW_WC_RECV && wc->opcode != DIW_WC_RECV_WRITE_IMM)
			return;
		r->src_qp = of_wc_src_qp(wc);
		of_gid_from_addr(&r->src, &wc->src);
		return;
	}
	*r = (struct diwdv_record){
		.addr = wc->to, .rkey = wc->stag, .msg_len = wc->msg_len, .byte_len = wc->byte_len, .offset = wc->mo,
		.nranges = wc->nranges, .number = wc->msn, .src_qp = wc->src.port, .waited_ns = wc->waited_ns,
		.close = wc->close, .last = (wc->flags & DIW_WC_END) != 0, .priv_flags = wc->opcode,
		.priv = { wc->map, wc->qp },
	};
	of_gid_from_addr(&r->src, &wc->src);
}

/* The fields of a completion that its map needs. */
static struct diw_wc wc_of(const struct diwdv_record *r)
{
	return (struct diw_wc){
		.map = r->priv[0], .qp = r->priv[1], .opcode = (uint8_t)r->priv_flags, .mo = r->offset,
		.byte_len = r->byte_len, .nranges = r->nranges,
	};
}

int diwdv_wc_read_record(struct ibv_cq_ex *ex, struct diwdv_record *r)
{
	const struct diw_wc *wc = &OF_CONTAINER(ex, struct of_cq, ex)->now;

	if (!has_record(wc))
		return ENOENT;
	of_dv_record(r, wc);
	r->priv_flags |= BORROWED;
	return 0;
}

int diwdv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records)
{
	return of_poll_records((struct of_cq *)cq, n, wc, records);
}

int diwdv_record_ranges(const struct diwdv_record *r, struct diwdv_range *ranges, int max)
{
	const struct diw_wc wc = wc_of(r);

	return diw_wc_ranges(&wc, (struct diw_range *)(void *)ranges, max);
}

void diwdv_record_release(struct diwdv_record *r)
{
	struct diw_wc wc = wc_of(r);

	if (r->priv_flags & BORROWED)
		return;
	diw_wc_release(&wc);
	r->priv[0] = wc.map;
	r->nranges = wc.nranges;
}

const char *diwdv_close_str(int close)
{
	return diw_record_close_str(close);
}
