/* SPDX-License-Identifier: BSD-2-Clause */
/* Which send requests a queue pair takes, and why it refuses the others. */
#include <errno.h>

#include "base/log.h"
#include "base/wire.h"
#include "verbs/qp.h"

/* By the verbs' opcode: RDMAP's, the completion's, and whose it is. */
const struct diw_wr_kind diw_wr_kinds[] = {
	[DIW_WR_SEND] = { DIW_OP_SEND, DIW_WC_SEND, DIW_TYPE_UD | DIW_TYPE_UC | DIW_TYPE_RC },
	[DIW_WR_WRITE] = { DIW_OP_WRITE, DIW_WC_WRITE, DIW_TYPE_UC | DIW_TYPE_RC },
	[DIW_WR_WRITE_RECORD] = { DIW_OP_WRITE_RECORD, DIW_WC_WRITE_RECORD, DIW_TYPE_UD },
	[DIW_WR_READ] = { DIW_OP_READ_REQUEST, DIW_WC_READ, DIW_TYPE_UD | DIW_TYPE_RC },
	[DIW_WR_FETCH_ADD] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_FETCH_ADD, DIW_TYPE_RC },
	[DIW_WR_CMP_SWAP] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_CMP_SWAP, DIW_TYPE_RC },
	[DIW_WR_LOCAL_INV] = { DIW_OP_LOCAL_INV, DIW_WC_LOCAL_INV, DIW_TYPE_RC },
	[DIW_WR_BIND_MW] = { DIW_OP_BIND_MW, DIW_WC_BIND_MW, DIW_TYPE_RC },
};

/* NOLINTBEGIN(misc-redundant-expression): the values of two headers */
_Static_assert(DIW_MAX_SEND == DIW_RDMAP_MAX_SEND && DIW_MAX_RDMA == DIW_RDMAP_MAX_WRITE &&
	       DIW_MAX_READ == DIW_RDMAP_MAX_READ, "what may be posted is what a receiver takes");
/* NOLINTEND(misc-redundant-expression) */

static uint32_t length_limit(const struct diw_qp *qp, int opcode)
{
	if (qp->type == DIW_QP_RC)
		return DIW_MAX_RC;
	return opcode == DIW_OP_SEND ? DIW_MAX_SEND : opcode == DIW_OP_READ_REQUEST ? DIW_MAX_READ : DIW_MAX_RDMA;
}

static int check_rc(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	const unsigned remote = DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC;

	bool told = qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING || !qp->rc.early;

	if (qp->state == DIW_QPS_IDLE && !qp->rc.early)
		return diw_fail(-ENOTCONN, "diw_post_send: the queue pair is not connected");
	if ((wr->flags & DIW_SEND_INVALIDATE) && opcode != DIW_OP_SEND && opcode != DIW_OP_READ_REQUEST)
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: DIW_SEND_INVALIDATE is for Sends and Reads",
				wr->opcode);
	if (opcode == DIW_OP_ATOMIC_REQUEST &&
	    (wr->num_sge != 1 || len != 8 || wr->to % 8 || (wr->flags & DIW_SEND_INLINE)))
		return diw_fail(-EINVAL, "diw_post_send: an atomic: num_sge %d, %llu bytes, to %#llx: one entry of 8 "
				"bytes and an aligned offset", wr->num_sge, (unsigned long long)len,
				(unsigned long long)wr->to);
	if (opcode == DIW_OP_BIND_MW &&
	    (!wr->bind.mw || (!wr->bind.mr && wr->bind.length) || (wr->bind.access & ~remote)))
		return diw_fail(-EINVAL, "diw_post_send: a bind without window or region, or access %#x",
				wr->bind.access);
	if ((wr->flags & DIW_SEND_IMM) && opcode != DIW_OP_SEND && opcode != DIW_OP_WRITE)
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: DIW_SEND_IMM is for Sends and Writes", wr->opcode);
	if (qp->state != DIW_QPS_ERROR && told && !qp->rdmap.rc.rfc7306 &&
	    ((wr->flags & DIW_SEND_IMM) || opcode == DIW_OP_ATOMIC_REQUEST))
		return diw_fail(-EOPNOTSUPP, "diw_post_send: the peer takes no immediates and atomics (RFC 7306)");
	if ((qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING) && qp->rdmap.rc.ord == 0 &&
	    (opcode == DIW_OP_READ_REQUEST || opcode == DIW_OP_ATOMIC_REQUEST))
		return diw_fail(-EOPNOTSUPP, "diw_post_send: a Read or atomic, and ORD is 0");
	return opcode;
}

static int check_entries(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t *len)
{
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge || (wr->num_sge && !wr->sge))
		return diw_fail(-EINVAL, "diw_post_send: num_sge %d: not 0 to %u, or sge is NULL", wr->num_sge,
				qp->sq.max_sge);
	*len = 0;
	for (int i = 0; i < wr->num_sge; i++)
		*len += wr->sge[i].length;
	if (*len > length_limit(qp, opcode))
		return diw_fail(-EMSGSIZE, "diw_post_send: %llu bytes: more than %u", (unsigned long long)*len,
				length_limit(qp, opcode));
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
	const unsigned rc_flags = DIW_SEND_FENCE | DIW_SEND_INVALIDATE;
	const unsigned known = DIW_SEND_SIGNALED | DIW_SEND_SOLICITED | DIW_SEND_INLINE | DIW_SEND_IMM | DIW_SEND_MORE |
			       (qp->type == DIW_QP_RC ? rc_flags : 0);
	int opcode, rc;

	if ((unsigned)wr->opcode >= sizeof diw_wr_kinds / sizeof *diw_wr_kinds ||
	    !(diw_wr_kinds[wr->opcode].types & qp->rdmap.type))
		return diw_fail(-EINVAL, "diw_post_send: opcode %d: not of a queue pair of type %d", wr->opcode,
				qp->type);
	opcode = diw_wr_kinds[wr->opcode].opcode;
	if (wr->flags & ~known)
		return diw_fail(-EINVAL, "diw_post_send: flags %#x: %#x is not of a queue pair of type %d", wr->flags,
				wr->flags & ~known, qp->type);
	if (qp->type == DIW_QP_UD && (wr->dst.port == 0 || diw_addr_ip_is_zero(&wr->dst)))
		return diw_fail(-EINVAL, "diw_post_send: no destination");
	if (qp->type == DIW_QP_UD && !diw_dgram_reaches(qp->socket, &wr->dst))
		return diw_fail(-EAFNOSUPPORT,
				"diw_post_send: the queue pair's address is of IPv%d, the destination is not",
				qp->socket->only);
	rc = check_entries(qp, wr, opcode, len);
	if (rc < 0)
		return rc;
	if (opcode == DIW_OP_READ_REQUEST && ((wr->flags & (DIW_SEND_INLINE | DIW_SEND_IMM)) || wr->timeout_ns < 0))
		return diw_fail(-EINVAL, "diw_post_send: a Read: flags %#x, timeout_ns %lld", wr->flags,
				(long long)wr->timeout_ns);
	return qp->type == DIW_QP_RC ? check_rc(qp, wr, opcode, *len) : opcode;
}
