/* SPDX-License-Identifier: BSD-2-Clause */
/* The checks of send requests when they are posted. */
#include <errno.h>

#include "base/log.h"
#include "base/wire.h"
#include "verbs/qp.h"

/* Indexed by the opcode of verbs. */
const struct diw_wr_kind diw_wr_kinds[] = {
	[DIW_WR_SEND] = { DIW_OP_SEND, DIW_WC_SEND, DIW_MAX_SEND },
	[DIW_WR_WRITE] = { DIW_OP_WRITE, DIW_WC_WRITE, DIW_MAX_RDMA },
	[DIW_WR_WRITE_RECORD] = { DIW_OP_WRITE_RECORD, DIW_WC_WRITE_RECORD, DIW_MAX_RDMA },
	[DIW_WR_READ] = { DIW_OP_READ_REQUEST, DIW_WC_READ, DIW_MAX_READ },
	[DIW_WR_FETCH_ADD] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_FETCH_ADD, DIW_MAX_RC },
	[DIW_WR_CMP_SWAP] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_CMP_SWAP, DIW_MAX_RC },
	[DIW_WR_LOCAL_INV] = { DIW_OP_LOCAL_INV, DIW_WC_LOCAL_INV, DIW_MAX_RC },
	[DIW_WR_BIND_MW] = { DIW_OP_BIND_MW, DIW_WC_BIND_MW, DIW_MAX_RC },
};

/* NOLINTBEGIN(misc-redundant-expression): the values of two headers */
_Static_assert(DIW_MAX_SEND == DIW_RDMAP_MAX_SEND && DIW_MAX_RDMA == DIW_RDMAP_MAX_WRITE &&
	       DIW_MAX_READ == DIW_RDMAP_MAX_READ, "what may be posted is what a receiver takes");
/* NOLINTEND(misc-redundant-expression) */

static int check_entries(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t *len)
{
	uint32_t max = qp->ops->max_len ? qp->ops->max_len : diw_wr_kinds[wr->opcode].max;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge || (wr->num_sge && !wr->sge))
		return diw_fail(-EINVAL, "diw_post_send: num_sge %d: not 0 to %u, or sge is NULL", wr->num_sge,
				qp->sq.max_sge);
	*len = 0;
	for (int i = 0; i < wr->num_sge; i++)
		*len += wr->sge[i].length;
	if (*len > max)
		return diw_fail(-EMSGSIZE, "diw_post_send: %llu bytes: more than %u", (unsigned long long)*len, max);
	if ((wr->flags & DIW_SEND_INLINE) && *len > qp->sq.max_inline)
		return diw_fail(-EINVAL, "diw_post_send: %llu bytes inline: more than max_inline, %u",
				(unsigned long long)*len, qp->sq.max_inline);
	if (opcode != DIW_OP_SEND && diw_to_wraps(wr->to, *len))
		return diw_fail(-EINVAL, "diw_post_send: to %#llx and %llu bytes wrap", (unsigned long long)wr->to,
				(unsigned long long)*len);
	return 0;
}

int diw_sq_check(const struct diw_qp *qp, const struct diw_send_wr *wr, uint64_t *len)
{
	const unsigned known = DIW_SEND_SIGNALED | DIW_SEND_SOLICITED | DIW_SEND_INLINE | DIW_SEND_IMM | DIW_SEND_MORE |
			       qp->ops->flags;
	int opcode, rc;

	if ((unsigned)wr->opcode >= sizeof diw_wr_kinds / sizeof *diw_wr_kinds ||
	    !(qp->ops->requests & 1u << wr->opcode))
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: not of a queue pair of type %d", wr->opcode,
				qp->ops->type);
	opcode = diw_wr_kinds[wr->opcode].opcode;
	if (wr->flags & ~known)
		return diw_fail(-EINVAL, "diw_post_send: flags %#x: %#x is not of a queue pair of type %d", wr->flags,
				wr->flags & ~known, qp->ops->type);
	rc = check_entries(qp, wr, opcode, len);
	if (rc < 0)
		return rc;
	if (opcode == DIW_OP_READ_REQUEST && ((wr->flags & (DIW_SEND_INLINE | DIW_SEND_IMM)) || wr->timeout_ns < 0))
		return diw_fail(-EINVAL, "diw_post_send: a Read: flags %#x, timeout_ns %lld", wr->flags,
				(long long)wr->timeout_ns);
	return qp->ops->check_send ? qp->ops->check_send(qp, wr, opcode, *len) : opcode;
}

static int check_atomic(const struct diw_send_wr *wr, uint64_t len)
{
	if (wr->num_sge == 1 && len == 8 && wr->to % 8 == 0 && !(wr->flags & DIW_SEND_INLINE))
		return 0;
	return diw_fail(-EINVAL, "diw_post_send: an atomic: num_sge %d, %llu bytes, to %#llx: one entry of 8 bytes and "
			"an aligned offset", wr->num_sge, (unsigned long long)len, (unsigned long long)wr->to);
}

int diw_sq_check_reliable(const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	const unsigned remote = DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC;

	if ((wr->flags & DIW_SEND_INVALIDATE) && opcode != DIW_OP_SEND && opcode != DIW_OP_READ_REQUEST)
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: DIW_SEND_INVALIDATE is for Sends and Reads",
				wr->opcode);
	if (opcode == DIW_OP_ATOMIC_REQUEST && check_atomic(wr, len) < 0)
		return -EINVAL;
	if (opcode == DIW_OP_BIND_MW &&
	    (!wr->bind.mw || (!wr->bind.mr && wr->bind.length) || (wr->bind.access & ~remote)))
		return diw_fail(-EINVAL, "diw_post_send: a bind without window or region, or access %#x",
				wr->bind.access);
	if ((wr->flags & DIW_SEND_IMM) && opcode != DIW_OP_SEND && opcode != DIW_OP_WRITE &&
	    opcode != DIW_OP_WRITE_RECORD)
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: DIW_SEND_IMM is for Sends and Writes", wr->opcode);
	return 0;
}

void diw_sq_fill_reliable(struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	w->fence = wr->flags & DIW_SEND_FENCE;
	w->invalidate = wr->flags & DIW_SEND_INVALIDATE;
	w->apart = wr->flags & DIW_SEND_APART;
	w->inv_stag = wr->inv_stag;
	w->fault = 0;
	if (w->opcode == DIW_OP_ATOMIC_REQUEST) {
		w->atomic.swap = wr->opcode == DIW_WR_CMP_SWAP;
		w->atomic.compare_add = wr->compare_add;
		w->atomic.value = wr->swap;
	} else if (w->opcode == DIW_OP_BIND_MW) {
		diw_mw_post_bind(w, wr);
	}
}
