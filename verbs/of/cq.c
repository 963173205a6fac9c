/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues, and the translation of completions to verbs. */
#include <arpa/inet.h>
#include <sched.h>
#include <stdlib.h>

#include "base/addr.h"
#include "base/fault.h"
#include "base/ident.h"
#include "verbs/of/of.h"

#define POLL_BURST 16
#define EMPTIES_A_YIELD 32

/* ---- Translation ---- */

/* A channel adapter distinguishes the request that could not be delivered from the flushed requests behind it. diw.h
 * flushes all of them, as an RNIC does. */
static enum ibv_wc_status wc_failed(struct of_cq *cq, const struct diw_wc *wc, enum ibv_wc_status status)
{
	bool first = of_qp_failed(of_context(cq->cq.context), wc->qp_num) && !of_is_rnic(cq->cq.context);

	return first && wc->status == DIW_WC_FLUSHED && wc->opcode != DIW_WC_RECV ? IBV_WC_RETRY_EXC_ERR : status;
}

enum ibv_wc_status of_wc_status(struct of_cq *cq, const struct diw_wc *wc)
{
	static const enum ibv_wc_status map[] = {
		[DIW_WC_SUCCESS] = IBV_WC_SUCCESS, [DIW_WC_LOC_PROT_ERR] = IBV_WC_LOC_PROT_ERR,
		[DIW_WC_REM_ACCESS_ERR] = IBV_WC_REM_ACCESS_ERR, [DIW_WC_TIMEOUT] = IBV_WC_RESP_TIMEOUT_ERR,
		[DIW_WC_LOC_LEN_ERR] = IBV_WC_LOC_LEN_ERR, [DIW_WC_REM_OP_ERR] = IBV_WC_REM_OP_ERR,
		[DIW_WC_MW_BIND_ERR] = IBV_WC_MW_BIND_ERR, [DIW_WC_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
		[DIW_WC_LOC_QP_OP_ERR] = IBV_WC_LOC_QP_OP_ERR, [DIW_WC_PEER_GONE] = IBV_WC_RETRY_EXC_ERR,
	};

	if (wc->status == DIW_WC_SUCCESS)
		return IBV_WC_SUCCESS;
	if (wc->status == DIW_WC_REM_OP_ERR && wc->fault == DIW_FAULT_NO_BUFFER && !of_is_rnic(cq->cq.context) &&
	    (wc->opcode == DIW_WC_SEND || wc->opcode == DIW_WC_WRITE))
		return wc_failed(cq, wc, IBV_WC_RNR_RETRY_EXC_ERR);
	if (wc->status == DIW_WC_REM_OP_ERR && wc->fault == DIW_FAULT_TOO_LONG && !of_is_rnic(cq->cq.context))
		return wc_failed(cq, wc, IBV_WC_REM_INV_REQ_ERR);  /* InfiniBand: the NAK is Invalid Request */
	return wc_failed(cq, wc, wc->status < sizeof map / sizeof *map ? map[wc->status] : IBV_WC_GENERAL_ERR);
}

enum ibv_wc_opcode of_wc_opcode(const struct diw_wc *wc)
{
	static const enum ibv_wc_opcode map[] = {
		[DIW_WC_SEND] = IBV_WC_SEND, [DIW_WC_WRITE] = IBV_WC_RDMA_WRITE,
		[DIW_WC_WRITE_RECORD] = IBV_WC_RDMA_WRITE, [DIW_WC_READ] = IBV_WC_RDMA_READ,
		[DIW_WC_RECV] = IBV_WC_RECV,
		/* no receive is consumed, so it has an opcode of its own */
		[DIW_WC_RECV_WRITE_RECORD] = IBV_WC_DRIVER1, [DIW_WC_RECV_WRITE_IMM] = IBV_WC_RECV_RDMA_WITH_IMM,
		[DIW_WC_FETCH_ADD] = IBV_WC_FETCH_ADD, [DIW_WC_CMP_SWAP] = IBV_WC_COMP_SWAP,
		[DIW_WC_BIND_MW] = IBV_WC_BIND_MW, [DIW_WC_LOCAL_INV] = IBV_WC_LOCAL_INV,
	};

	return wc->opcode < sizeof map / sizeof *map ? map[wc->opcode] : IBV_WC_DRIVER3;
}

/* The fault that the target reported, or the kernel's error. */
uint32_t of_wc_vendor_err(const struct diw_wc *wc)
{
	return wc->errnum ? wc->errnum : wc->fault;
}

/* On RoCE v2 each message comes behind an IP header, and adapters say so of every queue pair type. Only those of UD put
 * the header in front of the message. */
unsigned of_wc_flags(const struct of_cq *cq, const struct diw_wc *wc)
{
	bool received = wc->opcode == DIW_WC_RECV || wc->opcode == DIW_WC_RECV_WRITE_IMM;
	bool behind = received && wc->status == DIW_WC_SUCCESS && !of_is_rnic(cq->cq.context);

	return (wc->flags & DIW_WC_IMM ? IBV_WC_WITH_IMM : 0) | (wc->flags & DIW_WC_INVALIDATED ? IBV_WC_WITH_INV : 0) |
	       (wc->flags & DIW_WC_GRH || behind ? IBV_WC_GRH : 0);
}

/* UD and UC: the peer's port is its queue pair number. RC has only one peer. */
uint32_t of_wc_src_qp(const struct diw_wc *wc)
{
	return wc->qp_num >= OF_QPN_RC ? 0 : wc->src.port;
}

/* Ethernet has no service levels. Drivers put the kind of header there: 1 IPv6, 2 IPv4. UCX finds the address by it. */
uint8_t of_wc_sl(const struct diw_wc *wc)
{
	return !(wc->flags & DIW_WC_GRH) ? 0 : diw_addr_is_v4(&wc->src) ? 2 : 1;
}

uint16_t of_wc_slid(const struct diw_wc *wc)
{
	return wc->flags & DIW_WC_GRH ? diw_ident_lid(&wc->src) : 0;
}

static void wc_translate(struct of_cq *cq, struct ibv_wc *to, const struct diw_wc *wc)
{
	*to = (struct ibv_wc){
		.wr_id = wc->wr_id, .status = of_wc_status(cq, wc), .opcode = of_wc_opcode(wc),
		.vendor_err = of_wc_vendor_err(wc), .byte_len = wc->byte_len, .qp_num = wc->qp_num,
		.src_qp = of_wc_src_qp(wc), .wc_flags = of_wc_flags(cq, wc),
		.sl = of_wc_sl(wc), .slid = of_wc_slid(wc),
	};
	if (wc->flags & DIW_WC_IMM)
		to->imm_data = htonl(wc->imm);
	else if (wc->flags & DIW_WC_INVALIDATED)
		to->invalidated_rkey = wc->stag;
}

/* ---- Queues ---- */

/* A poll found nothing. If there are fewer processors than spinning threads, the program may be waiting for a peer that
 * has no processor. So the thread yields, which costs little when no other thread waits. Completions that came
 * meanwhile are returned at once. Otherwise the program, which checks its connections next, would see the end of a
 * connection before the last message. */
bool of_cq_empty(struct of_cq *cq)
{
	bool lend = atomic_fetch_add_explicit(&cq->empties, 1, memory_order_relaxed) % EMPTIES_A_YIELD == 0;

	if (lend)
		sched_yield();
	return lend;
}

static int of_cq_take(struct of_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records)
{
	struct diw_wc burst[POLL_BURST];
	int got = 0;

	while (got < n) {
		int want = n - got < POLL_BURST ? n - got : POLL_BURST, rc = of_cq_ex_take(cq, burst, want);

		if (rc < 0)
			return got ? got : rc;
		for (int i = 0; i < rc; i++) {
			wc_translate(cq, &wc[got], &burst[i]);
			if (records)
				of_dv_record(&records[got], &burst[i]);
			else
				diw_wc_release(&burst[i]);
			got++;
		}
		if (rc < want)
			break;
	}
	return got;
}

int of_poll_records(struct of_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records)
{
	int got = n < 0 ? -EINVAL : of_cq_take(cq, n, wc, records);

	return got == 0 && n > 0 && of_cq_empty(cq) ? of_cq_take(cq, n, wc, records) : got;
}

int of_poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	return of_poll_records((struct of_cq *)ibv, n, wc, NULL);
}

void of_cq_forget(struct of_cq *cq, const struct diw_qp *qp)
{
	of_cq_ex_forget(cq, qp);
	diw_cq_forget(cq->diw, qp);
}

int of_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return -diw_cq_arm_later(((struct of_cq *)cq)->diw, solicited_only);
}

static void of_cq_init(struct of_cq *cq, struct ibv_context *c, void *ctx, struct ibv_comp_channel *ch)
{
	cq->cq.context = c;
	cq->cq.channel = ch;
	cq->cq.cq_context = ctx;
	cq->cq.cqe = (int)diw_cq_depth(cq->diw);
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	pthread_mutex_init(&cq->take, NULL);
	if (ch)
		__atomic_fetch_add(&ch->refcnt, 1, __ATOMIC_RELAXED);
}

static struct of_cq *of_cq_make(struct ibv_context *c, uint32_t cqe, void *ctx, struct ibv_comp_channel *ch,
				uint32_t vector)
{
	struct of_cq *cq;
	int rc;

	if (cqe < 1 || cqe > OF_MAX_CQE || vector >= (uint32_t)c->num_comp_vectors)
		return of_null(diw_fail(EINVAL, "ibv_create_cq: cqe %d: not 1 to %d; or vector %d: there are %d",
					(int)cqe, OF_MAX_CQE, (int)vector, c->num_comp_vectors));
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return of_null(ENOMEM);
	rc = diw_cq_create(of_context(c)->dev, cqe, ch ? ((struct of_channel *)ch)->diw : NULL, cq, &cq->diw);
	if (rc < 0) {
		free(cq);
		return of_null(-rc);
	}
	of_cq_init(cq, c, ctx, ch);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *ctx, struct ibv_comp_channel *ch, int vector)
{
	struct of_cq *cq = of_cq_make(c, cqe < 0 ? 0 : (uint32_t)cqe, ctx, ch,
				      vector < 0 ? UINT32_MAX : (uint32_t)vector);

	return cq ? &cq->cq : NULL;
}

struct ibv_cq_ex *of_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *a)
{
	const uint64_t can = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	const uint32_t flags = a->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? a->flags : 0;
	struct of_cq *cq;

	if (a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return of_null(diw_fail(EOPNOTSUPP, "ibv_create_cq_ex: comp_mask %#x", a->comp_mask));
	if ((a->wc_flags & ~(uint64_t)IBV_CREATE_CQ_SUP_WC_FLAGS) ||
	    (flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)) ||
	    ((a->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && (!a->parent_domain || a->parent_domain->context != c)))
		return of_null(diw_fail(EINVAL, "ibv_create_cq_ex: wc_flags %#llx, flags %#x, or the domain is of "
					"another device", (unsigned long long)a->wc_flags, flags));
	if (a->wc_flags & ~can)
		return of_null(diw_fail(EOPNOTSUPP, "ibv_create_cq_ex: wc_flags %#llx: only %#llx",
					(unsigned long long)a->wc_flags, (unsigned long long)can));
	cq = of_cq_make(c, a->cqe, a->cq_context, a->channel, a->comp_vector);
	if (!cq)
		return NULL;
	cq->single = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	of_cq_ex_init(cq);
	return &cq->ex;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct of_cq *cq = (struct of_cq *)ibv;
	int rc = cqe < 1 || cqe > OF_MAX_CQE ?
		 diw_fail(-EINVAL, "ibv_resize_cq: cqe %d: not 1 to %d", cqe, OF_MAX_CQE) :
		 diw_cq_resize(cq->diw, (uint32_t)cqe);

	if (rc < 0)
		return of_result(-rc);
	cq->cq.cqe = (int)diw_cq_depth(cq->diw);
	return 0;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct of_cq *cq = (struct of_cq *)ibv;
	uint32_t taken;
	int rc = diw_cq_retire(cq->diw, &taken);

	if (rc == -EBUSY)
		return of_result(-rc);
	if (rc == 0)                            /* not in a child after fork(2) */
		of_cq_await(cq, taken);
	diw_cq_destroy(cq->diw);
	if (ibv->channel)
		__atomic_fetch_sub(&ibv->channel->refcnt, 1, __ATOMIC_RELAXED);
	pthread_mutex_destroy(&cq->take);
	pthread_cond_destroy(&cq->cq.cond);
	pthread_mutex_destroy(&cq->cq.mutex);
	free(cq);
	return 0;
}
