/* SPDX-License-Identifier: BSD-2-Clause */
/* Work requests of verbs, translated to those of diw.h in chunks on the stack. */
#include <endian.h>
#include <errno.h>
#include <stddef.h>

#include "verbs/of/of.h"

#define SEND_CHUNK 16

/* Same layout under two names, so lists need no copy. */
_Static_assert(sizeof(struct ibv_sge) == sizeof(struct diw_sge) && sizeof(void *) == sizeof(uint64_t) &&
	       offsetof(struct ibv_sge, addr) == offsetof(struct diw_sge, addr) &&
	       offsetof(struct ibv_sge, length) == offsetof(struct diw_sge, length) &&
	       offsetof(struct ibv_sge, lkey) == offsetof(struct diw_sge, stag), "scatter/gather entries differ");

enum { OTHER, RDMA, ATOMIC, INV, BIND };         /* the part of the union that a request uses */

static const struct {
	bool known;
	uint8_t opcode, kind;
	uint8_t flags;
} kinds[] = {
	[IBV_WR_RDMA_WRITE] = { true, DIW_WR_WRITE, RDMA, 0 },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { true, DIW_WR_WRITE, RDMA, DIW_SEND_IMM },
	[IBV_WR_SEND] = { true, DIW_WR_SEND, OTHER, 0 },
	[IBV_WR_SEND_WITH_IMM] = { true, DIW_WR_SEND, OTHER, DIW_SEND_IMM },
	[IBV_WR_RDMA_READ] = { true, DIW_WR_READ, RDMA, 0 },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { true, DIW_WR_CMP_SWAP, ATOMIC, 0 },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { true, DIW_WR_FETCH_ADD, ATOMIC, 0 },
	[IBV_WR_LOCAL_INV] = { true, DIW_WR_LOCAL_INV, INV, 0 },
	[IBV_WR_BIND_MW] = { true, DIW_WR_BIND_MW, BIND, 0 },
	[IBV_WR_SEND_WITH_INV] = { true, DIW_WR_SEND, INV, DIW_SEND_INVALIDATE },
};

/* A fence has an effect with Reads and atomics only; verbs(3) allows the flag for other queue pairs. */
static unsigned send_wr_flags(const struct of_qp *qp, unsigned f)
{
	unsigned flags = 0;

	if (f & IBV_SEND_SIGNALED)
		flags |= DIW_SEND_SIGNALED;
	if (f & IBV_SEND_SOLICITED)
		flags |= DIW_SEND_SOLICITED;
	if (f & IBV_SEND_INLINE)
		flags |= DIW_SEND_INLINE;
	if ((f & IBV_SEND_FENCE) && of_has_fence(qp))
		flags |= DIW_SEND_FENCE;
	return flags;
}

/* A Q_Key with the highest bit set stands for the sender's own (InfiniBand, volume 1, section 10.2.5). */
int of_ud_dst(const struct of_qp *qp, struct diw_send_wr *w, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	const struct of_ah *h = (struct of_ah *)ah;

	if (!h || (h->group ? qpn != OF_QPN_GROUP : qpn == 0 || qpn > UINT16_MAX))
		return diw_fail(EINVAL, "ibv_post_send: %s, remote_qpn %#x",
				!h ? "no address handle" : h->group ? "to a group" : "to a queue pair", qpn);
	w->dst = h->dst;
	w->dst.addr.port = h->group ? DIW_GROUP_PORT : (uint16_t)qpn;
	w->qkey = qkey >> 31 ? qp->attr.qkey : qkey;
	return 0;
}

int of_bind_info(struct diw_send_wr *w, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
		 struct of_bind *bind)
{
	const unsigned remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const unsigned access = info->mw_access_flags & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;  /* does not concern peers */

	if (!mw || (info->length && !info->mr))
		return diw_fail(EINVAL, "a bind: no window, or no region");
	if (access & ~remote)
		return diw_fail(access & IBV_ACCESS_ZERO_BASED ? EOPNOTSUPP : EINVAL, "a bind: access %#x", access);
	w->opcode = DIW_WR_BIND_MW;
	w->bind.mw = ((struct of_mw *)mw)->diw;
	w->bind.mr = info->mr ? ((struct of_mr *)info->mr)->diw : NULL;
	w->bind.to = info->addr;
	w->bind.length = info->length;
	w->bind.access = (unsigned)of_access(access);
	w->bind.key = (uint8_t)rkey;
	bind->mw = mw;
	bind->before = mw->rkey;
	if (mw->type == IBV_MW_TYPE_2)          /* programs may read there what their request has made of the key */
		mw->rkey = (mw->rkey & ~0xffu) | w->bind.key;
	return 0;
}

/* From the last: a list may bind a window twice. */
void of_bind_undo(const struct of_bind *binds, uint32_t n, uint32_t first)
{
	while (n-- > 0 && binds[n].at >= first)
		binds[n].mw->rkey = binds[n].before;
}

/* The binds of a chunk. */
struct binds {
	uint32_t n;
	struct of_bind of[SEND_CHUNK];
};

static int fill_bind(struct diw_send_wr *w, const struct ibv_send_wr *wr, struct binds *binds, uint32_t at)
{
	struct of_bind *bind = &binds->of[binds->n];
	int rc;

	w->num_sge = 0;
	if (!wr->bind_mw.mw || wr->bind_mw.mw->type != IBV_MW_TYPE_2)
		return diw_fail(EINVAL, "ibv_post_send: a bind of no window of type 2");
	rc = of_bind_info(w, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, bind);
	if (rc == 0) {
		bind->at = at;
		binds->n++;
	}
	return rc;
}

static int fill_kind(struct diw_send_wr *w, const struct ibv_send_wr *wr, int kind, struct binds *binds, uint32_t at)
{
	switch (kind) {
	case RDMA:
		w->stag = wr->wr.rdma.rkey;
		w->to = wr->wr.rdma.remote_addr;
		return 0;
	case ATOMIC:
		w->stag = wr->wr.atomic.rkey;
		w->to = wr->wr.atomic.remote_addr;
		w->compare_add = wr->wr.atomic.compare_add;
		w->swap = wr->wr.atomic.swap;
		return 0;
	case INV:
		w->inv_stag = wr->invalidate_rkey;
		if (w->opcode == DIW_WR_LOCAL_INV)
			w->num_sge = 0;
		return 0;
	case BIND:
		return fill_bind(w, wr, binds, at);
	default:
		return 0;
	}
}

/* AT: its place in the chunk. */
static int wr_translate(const struct of_qp *qp, struct diw_send_wr *w, const struct ibv_send_wr *wr,
			struct binds *binds, uint32_t at)
{
	unsigned op = wr->opcode;

	if (op >= sizeof kinds / sizeof *kinds || !kinds[op].known || (wr->send_flags & IBV_SEND_IP_CSUM))
		return diw_fail(EINVAL, "ibv_post_send: opcode %u, send_flags %#x", op, wr->send_flags);
	w->next = NULL;
	w->wr_id = wr->wr_id;
	w->sge = (const struct diw_sge *)(const void *)wr->sg_list;
	w->num_sge = wr->num_sge;
	w->opcode = kinds[op].opcode;
	w->flags = kinds[op].flags | send_wr_flags(qp, wr->send_flags);
	w->imm = be32toh(wr->imm_data);
	w->qkey = 0;
	w->stag = 0;
	w->to = 0;
	w->timeout_ns = 0;
	if (!of_names_dst(qp))
		return fill_kind(w, wr, kinds[op].kind, binds, at);
	if (op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM)
		return diw_fail(EINVAL, "ibv_post_send: opcode %u: a datagram queue pair takes only Sends", op);
	return of_ud_dst(qp, w, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
}

/* A request that is too long is invalid, as with hardware providers. */
int of_post_errno(int rc)
{
	return rc == -EMSGSIZE ? EINVAL : -rc;
}

/* *WR becomes the first request that is not posted, of this chunk or the next. */
static int post_chunk(struct of_qp *qp, struct ibv_send_wr **wr)
{
	struct diw_send_wr w[SEND_CHUNK];
	const struct diw_send_wr *bad = w;
	struct ibv_send_wr *first = *wr;
	struct binds binds;
	int n = 0, rc = 0, posted;

	binds.n = 0;
	for (; *wr && n < SEND_CHUNK && rc == 0; n++) {
		rc = wr_translate(qp, &w[n], *wr, &binds, (uint32_t)n);
		if (rc)
			break;
		if (n)
			w[n - 1].next = &w[n];
		*wr = (*wr)->next;
	}
	if (n == 0)
		return rc;
	posted = diw_post_send(qp->diw, w, &bad);
	if (posted == 0)
		return rc;
	of_bind_undo(binds.of, binds.n, (uint32_t)(bad - w));
	for (*wr = first; bad != w; bad--)
		*wr = (*wr)->next;
	return of_post_errno(posted);
}

int of_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct of_qp *qp = of_qp(ibqp);
	int rc = of_may_send(qp) ? 0 : EINVAL;

	while (wr && rc == 0)
		rc = post_chunk(qp, &wr);
	if (rc)
		*bad = wr;
	return of_result(rc);
}

static int recv_chunk(struct diw_qp *qp, struct diw_srq *srq, struct ibv_recv_wr **wr)
{
	struct diw_recv_wr w[SEND_CHUNK];
	const struct diw_recv_wr *bad = w;
	struct ibv_recv_wr *first = *wr;
	int n, rc;

	for (n = 0; *wr && n < SEND_CHUNK; n++, *wr = (*wr)->next) {
		w[n] = (struct diw_recv_wr){
			.wr_id = (*wr)->wr_id, .sge = (const struct diw_sge *)(const void *)(*wr)->sg_list,
			.num_sge = (*wr)->num_sge,
		};
		if (n)
			w[n - 1].next = &w[n];
	}
	rc = srq ? diw_post_srq_recv(srq, w, &bad) : diw_post_recv(qp, w, &bad);
	if (rc == 0)
		return 0;
	for (*wr = first; bad != w; bad--)
		*wr = (*wr)->next;
	return -rc;
}

int of_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct of_qp *qp = of_qp(ibqp);
	int rc = atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RESET ? EINVAL : 0;

	while (wr && rc == 0)
		rc = recv_chunk(qp->diw, NULL, &wr);
	if (rc)
		*bad = wr;
	return of_result(rc);
}

int of_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int rc = 0;

	while (wr && rc == 0)
		rc = recv_chunk(NULL, ((struct of_srq *)srq)->diw, &wr);
	if (rc)
		*bad = wr;
	return of_result(rc);
}

/* Of two threads that bind one window, the rkey of the later bind stays. */
int of_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct of_qp *qp = of_qp(ibqp);
	struct of_mw *window = (struct of_mw *)mw;
	struct diw_send_wr w = { .wr_id = bind->wr_id, .flags = send_wr_flags(qp, bind->send_flags) };
	struct of_bind undo;
	int rc;

	if (!of_may_send(qp))
		return of_result(EINVAL);
	pthread_mutex_lock(&window->bind);
	rc = of_bind_info(&w, mw, 0, &bind->bind_info, &undo);
	if (rc == 0)
		rc = -diw_post_send(qp->diw, &w, NULL);
	if (rc == 0)
		mw->rkey = window->diw->stag;
	pthread_mutex_unlock(&window->bind);
	return of_result(rc);
}
