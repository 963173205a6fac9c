/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builder of work requests, ibv_wr_*(3). The call that names the operation takes a place in the list; the call that
 * sets the data finishes the request. The first error is remembered and returned by wr_complete, which then posts
 * nothing.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/of/of.h"

#define ATOMICS (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define SENDS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define INVALIDATIONS (IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)

static struct of_qp *of_ex(struct ibv_qp_ex *ex)
{
	return (struct of_qp *)ex;
}

static void wr_fail(struct of_qp *qp, int error)
{
	if (!qp->build.error)
		qp->build.error = error;
}

/* The request that a call fills; NULL after an error. */
static struct diw_send_wr *wr_current(struct of_qp *qp)
{
	if (qp->build.n == 0)
		wr_fail(qp, EINVAL);
	return qp->build.error ? NULL : &qp->build.wrs[qp->build.n - 1];
}

static unsigned ex_flags(const struct of_qp *qp)
{
	unsigned f = qp->ex.wr_flags, flags = 0;

	if (f & IBV_SEND_SIGNALED)
		flags |= DIW_SEND_SIGNALED;
	if (f & IBV_SEND_SOLICITED)
		flags |= DIW_SEND_SOLICITED;
	if ((f & IBV_SEND_FENCE) && of_has_fence(qp))
		flags |= DIW_SEND_FENCE;
	return flags;
}

static struct diw_send_wr *build_add(struct ibv_qp_ex *ex, enum diw_wr_opcode opcode, unsigned flags)
{
	struct of_qp *qp = of_ex(ex);
	struct of_build *b = &qp->build;
	struct diw_send_wr *w;

	if (b->n == qp->init.cap.max_send_wr)
		wr_fail(qp, ENOMEM);
	if (b->error)
		return NULL;
	w = &b->wrs[b->n];
	w->next = NULL;
	if (b->n)
		w[-1].next = w;
	b->n++;
	w->wr_id = ex->wr_id;
	w->opcode = opcode;
	w->flags = flags | ex_flags(qp);
	w->num_sge = 0;
	w->qkey = 0;
	w->stag = 0;
	w->to = 0;
	w->timeout_ns = 0;
	w->dst.addr.port = 0;                        /* not set yet */
	return w;
}

/* ---- Operations ---- */

static struct diw_send_wr *add_rdma(struct ibv_qp_ex *ex, enum diw_wr_opcode op, unsigned flags, uint32_t rkey,
				    uint64_t to)
{
	struct diw_send_wr *w = build_add(ex, op, flags);

	if (!w)
		return NULL;
	w->stag = rkey;
	w->to = to;
	return w;
}

static enum diw_wr_opcode write_of(struct ibv_qp_ex *ex)
{
	return ex->qp_base.qp_type == IBV_QPT_UD ? DIW_WR_WRITE_RECORD : DIW_WR_WRITE;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to)
{
	add_rdma(ex, write_of(ex), 0, rkey, to);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to, __be32 imm)
{
	struct diw_send_wr *w = add_rdma(ex, write_of(ex), DIW_SEND_IMM, rkey, to);

	if (w)
		w->imm = be32toh(imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to)
{
	add_rdma(ex, DIW_WR_READ, 0, rkey, to);
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to, uint64_t compare, uint64_t swap)
{
	struct diw_send_wr *w = add_rdma(ex, DIW_WR_CMP_SWAP, 0, rkey, to);

	if (!w)
		return;
	w->compare_add = compare;
	w->swap = swap;
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t to, uint64_t value)
{
	struct diw_send_wr *w = add_rdma(ex, DIW_WR_FETCH_ADD, 0, rkey, to);

	if (w)
		w->compare_add = value;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	build_add(ex, DIW_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct diw_send_wr *w = build_add(ex, DIW_WR_SEND, DIW_SEND_IMM);

	if (w)
		w->imm = be32toh(imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct diw_send_wr *w = build_add(ex, DIW_WR_SEND, DIW_SEND_INVALIDATE);

	if (w)
		w->inv_stag = rkey;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct diw_send_wr *w = build_add(ex, DIW_WR_LOCAL_INV, 0);

	if (w)
		w->inv_stag = rkey;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct diw_send_wr *w = build_add(ex, DIW_WR_BIND_MW, 0);
	struct of_build *b = &of_ex(ex)->build;
	struct of_bind *bind;
	int rc;

	if (!w)
		return;
	bind = &b->binds[b->nbinds];
	rc = mw && mw->type == IBV_MW_TYPE_2 ? of_bind_info(w, mw, rkey, info, bind) : EINVAL;
	if (rc) {
		wr_fail(of_ex(ex), rc);
		return;
	}
	bind->at = b->n - 1;
	b->nbinds++;
}

/* ---- Attributes of an operation ---- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct of_qp *qp = of_ex(ex);
	struct diw_send_wr *w = wr_current(qp);
	int rc = w ? of_ud_dst(qp, w, ah, qpn, qkey) : 0;

	if (rc)
		wr_fail(qp, rc);
}

static struct diw_sge *wr_entries(const struct of_qp *qp)
{
	return qp->build.sge + (size_t)(qp->build.n - 1) * qp->init.cap.max_send_sge;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct of_qp *qp = of_ex(ex);
	struct diw_send_wr *w = wr_current(qp);
	struct diw_sge *s;

	if (!w)
		return;
	s = wr_entries(qp);
	*s = (struct diw_sge){ (void *)(uintptr_t)addr, length, lkey };
	w->sge = s;
	w->num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct of_qp *qp = of_ex(ex);
	struct diw_send_wr *w = wr_current(qp);
	struct diw_sge *s;

	if (!w)
		return;
	if (n > qp->init.cap.max_send_sge) {
		wr_fail(qp, EINVAL);
		return;
	}
	s = wr_entries(qp);
	for (size_t i = 0; i < n; i++)
		s[i] = (struct diw_sge){ (void *)(uintptr_t)list[i].addr, list[i].length, list[i].lkey };
	w->sge = s;
	w->num_sge = (int)n;
}

/* The data is copied: the caller may reuse its buffers when this returns. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct of_qp *qp = of_ex(ex);
	struct diw_send_wr *w = wr_current(qp);
	uint32_t room = qp->init.cap.max_inline_data, len = 0;
	struct diw_sge *s;
	uint8_t *data;

	if (!w)
		return;
	data = qp->build.data + (size_t)(qp->build.n - 1) * room;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > room - len) {
			wr_fail(qp, ENOMEM);
			return;
		}
		memcpy(data + len, list[i].addr, list[i].length);
		len += (uint32_t)list[i].length;
	}
	s = wr_entries(qp);
	*s = (struct diw_sge){ data, len, 0 };
	w->sge = s;
	w->num_sge = 1;
	w->flags |= DIW_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buf = { addr, length };

	wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- The list of requests ---- */

static void wr_start(struct ibv_qp_ex *ex)
{
	struct of_qp *qp = of_ex(ex);

	pthread_mutex_lock(&qp->build.lock);
	qp->build.n = qp->build.nbinds = 0;
	qp->build.error = of_may_send(qp) ? 0 : EINVAL;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct of_qp *qp = of_ex(ex);
	int rc = qp->build.error;

	if (rc == 0 && qp->build.n)
		rc = of_post_errno(diw_post_send_all(qp->diw, qp->build.wrs));
	if (rc)
		of_bind_undo(qp->build.binds, qp->build.nbinds, 0);
	pthread_mutex_unlock(&qp->build.lock);
	return rc;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct of_build *b = &of_ex(ex)->build;

	of_bind_undo(b->binds, b->nbinds, 0);
	pthread_mutex_unlock(&b->lock);
}

/* ---- The calls that a queue pair has ---- */

static uint64_t operations_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_DRIVER:
		return SENDS | WRITES | IBV_QP_EX_WITH_RDMA_READ | ATOMICS | INVALIDATIONS;
	case IBV_QPT_UC:
		return SENDS | WRITES;
	default:                                /* their Writes are Write-Records */
		return SENDS | WRITES | IBV_QP_EX_WITH_RDMA_READ;
	}
}

static void set_operations(struct ibv_qp_ex *ex, uint64_t ops)
{
#define HAVE(bit, member, call) ex->member = ops & (bit) ? (call) : NULL
	HAVE(IBV_QP_EX_WITH_RDMA_WRITE, wr_rdma_write, wr_rdma_write);
	HAVE(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm, wr_rdma_write_imm);
	HAVE(IBV_QP_EX_WITH_SEND, wr_send, wr_send);
	HAVE(IBV_QP_EX_WITH_SEND_WITH_IMM, wr_send_imm, wr_send_imm);
	HAVE(IBV_QP_EX_WITH_SEND_WITH_INV, wr_send_inv, wr_send_inv);
	HAVE(IBV_QP_EX_WITH_RDMA_READ, wr_rdma_read, wr_rdma_read);
	HAVE(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp, wr_cmp_swp);
	HAVE(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add, wr_fetch_add);
	HAVE(IBV_QP_EX_WITH_LOCAL_INV, wr_local_inv, wr_local_inv);
	HAVE(IBV_QP_EX_WITH_BIND_MW, wr_bind_mw, wr_bind_mw);
#undef HAVE
}

int of_wr_init(struct of_qp *qp)
{
	const struct ibv_qp_cap *cap = &qp->init.cap;
	struct of_build *b = &qp->build;
	size_t n = cap->max_send_wr ? cap->max_send_wr : 1;

	if (qp->ops & ~operations_of(qp->qp.qp_type))
		return diw_fail(EOPNOTSUPP, "ibv_create_qp_ex: send_ops_flags %#llx: a queue pair of type %d has %#llx",
				(unsigned long long)qp->ops, (int)qp->qp.qp_type,
				(unsigned long long)operations_of(qp->qp.qp_type));
	b->wrs = calloc(n, sizeof *b->wrs);
	b->sge = calloc(n * cap->max_send_sge, sizeof *b->sge);
	b->data = calloc(n, cap->max_inline_data ? cap->max_inline_data : 1);
	if (qp->ops & IBV_QP_EX_WITH_BIND_MW)
		b->binds = calloc(n, sizeof *b->binds);
	if (!b->wrs || !b->sge || !b->data || (!b->binds && (qp->ops & IBV_QP_EX_WITH_BIND_MW)))
		return ENOMEM;
	pthread_mutex_init(&b->lock, NULL);
	set_operations(&qp->ex, qp->ops);
	if (of_names_dst(qp))
		qp->ex.wr_set_ud_addr = wr_set_ud_addr;
	qp->ex.wr_set_inline_data = wr_set_inline_data;
	qp->ex.wr_set_inline_data_list = wr_set_inline_data_list;
	qp->ex.wr_set_sge = wr_set_sge;
	qp->ex.wr_set_sge_list = wr_set_sge_list;
	qp->ex.wr_start = wr_start;
	qp->ex.wr_complete = wr_complete;
	qp->ex.wr_abort = wr_abort;
	return 0;
}

void of_wr_fini(struct of_qp *qp)
{
	struct of_build *b = &qp->build;

	if (b->data)
		pthread_mutex_destroy(&b->lock);
	free(b->binds);
	free(b->wrs);
	free(b->sge);
	free(b->data);
}
