/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and their states. diw.h has fewer states: RESET, INIT and RTR exist in this library only. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "verbs/of/of.h"

/* The time that the last messages of a destroyed queue pair have to leave; after that they are lost. */
#define LEAVE_NS 1000000000ll
#define LEAVE_STEP_NS 200000
#define UC_PATIENCE_NS 1000000000ll
/* Hardware grants inline data even if none was asked for. rdma_xclient and others rely on that. */
#define INLINE_MIN 64

/* ---- The table of a context's queue pairs. Multiplication spreads the numbers (Knuth, volume 3, section 6.4) ---- */

static struct of_qp **number_bucket(struct of_context *ctx, uint32_t num)
{
	return &ctx->qps[num * 2654435769u / (UINT32_MAX / OF_QP_BUCKETS + 1)];
}

static void number_add(struct of_context *ctx, struct of_qp *qp)
{
	struct of_qp **at = number_bucket(ctx, qp->qp.qp_num);

	pthread_mutex_lock(&ctx->names);
	qp->next = *at;
	*at = qp;
	ctx->nqps++;
	pthread_mutex_unlock(&ctx->names);
}

static void number_del(struct of_context *ctx, struct of_qp *qp)
{
	struct of_qp **at = number_bucket(ctx, qp->qp.qp_num);

	pthread_mutex_lock(&ctx->names);
	while (*at != qp)
		at = &(*at)->next;
	*at = qp->next;
	ctx->nqps--;
	pthread_mutex_unlock(&ctx->names);
}

static struct of_qp *number_find(struct of_context *ctx, uint32_t num)
{
	struct of_qp *qp = *number_bucket(ctx, num);

	while (qp && qp->qp.qp_num != num)
		qp = qp->next;
	return qp;
}

/* ---- Creation ---- */

static int check_cap(const struct ibv_qp_cap *cap)
{
	if (cap->max_send_wr > OF_MAX_QP_WR || cap->max_recv_wr > OF_MAX_QP_WR)
		return diw_fail(EINVAL, "ibv_create_qp: max_send_wr %u, max_recv_wr %u: more than the device's %d",
				cap->max_send_wr, cap->max_recv_wr, OF_MAX_QP_WR);
	if (cap->max_send_sge > OF_MAX_SGE || cap->max_recv_sge > OF_MAX_SGE)
		return diw_fail(EINVAL, "ibv_create_qp: max_send_sge %u, max_recv_sge %u: more than the device's %d",
				cap->max_send_sge, cap->max_recv_sge, OF_MAX_SGE);
	if (cap->max_inline_data > OF_MAX_INLINE)
		return diw_fail(EINVAL, "ibv_create_qp: max_inline_data %u: more than the device's %d",
				cap->max_inline_data, OF_MAX_INLINE);
	return 0;
}

static int qp_check_init(const struct ibv_context *c, const struct ibv_qp_init_attr_ex *a, bool dv)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd || !a->send_cq || !a->recv_cq)
		return diw_fail(EINVAL, "ibv_create_qp: pd %p, send_cq %p, recv_cq %p: all are needed", (void *)a->pd,
				(void *)a->send_cq, (void *)a->recv_cq);
	if (a->pd->context != c || a->send_cq->context != c || a->recv_cq->context != c ||
	    (a->srq && a->srq->context != c))
		return diw_fail(EINVAL, "ibv_create_qp: the %s is of another context", a->pd->context != c ? "pd" :
				a->send_cq->context != c ? "send_cq" : a->recv_cq->context != c ? "recv_cq" : "srq");
	if ((a->comp_mask & ~known) || ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && a->create_flags))
		return diw_fail(EOPNOTSUPP, "ibv_create_qp_ex: comp_mask %#x, create_flags %#x", a->comp_mask,
				a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS ? a->create_flags : 0);
	if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD &&
	    (a->qp_type != IBV_QPT_DRIVER || !dv))
		return diw_fail(EOPNOTSUPP, "ibv_create_qp: qp_type %d: not RC, UC or UD", (int)a->qp_type);
	return check_cap(&a->cap);
}

static uint32_t at_least(uint32_t v, uint32_t least)
{
	return v > least ? v : least;
}

/* Grants capabilities. Both queues of a diw_qp have the same limit of entries, so each gets the larger value. */
static void caps_grant(struct of_qp *qp, const struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp_cap cap = a->cap;

	/* Hardware rounds up, and programs rely on it: ib_send_lat -e asks for one request, and posts two before it
	 * polls. */
	cap.max_send_wr = at_least(cap.max_send_wr, 16);
	cap.max_inline_data = at_least(INLINE_MIN, cap.max_inline_data);
	cap.max_send_sge = cap.max_recv_sge = at_least(2, at_least(cap.max_send_sge, cap.max_recv_sge));
	if (a->srq) {
		cap.max_recv_wr = 0;
		cap.max_recv_sge = 0;
	}
	qp->init = (struct ibv_qp_init_attr){
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = cap,
		.qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all,
	};
	qp->attr.cap = cap;
}

static int create_diw(struct of_qp *qp, struct ibv_pd *pd, uint32_t num, const struct diwdv_qp_attr *dv)
{
	static const enum diw_qp_type types[] = {
		[IBV_QPT_RC] = DIW_QP_RC, [IBV_QPT_UC] = DIW_QP_UC, [IBV_QPT_UD] = DIW_QP_UD,
		[IBV_QPT_DRIVER] = DIW_QP_RD,
	};
	const struct ibv_qp_init_attr *init = &qp->init;
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;

	a.type = types[init->qp_type];
	a.send_cq = ((struct of_cq *)init->send_cq)->diw;
	a.recv_cq = ((struct of_cq *)init->recv_cq)->diw;
	a.srq = init->srq ? ((struct of_srq *)init->srq)->diw : NULL;
	a.sq_depth = at_least(init->cap.max_send_wr, 1);
	a.rq_depth = at_least(init->cap.max_recv_wr, 1);
	a.max_sge = init->cap.max_send_sge;
	a.max_inline = init->cap.max_inline_data;
	a.sq_sig_all = init->sq_sig_all;
	a.dgram.grh = a.type == DIW_QP_UD;
	/* A peer may address any of the device's GIDs. */
	a.dgram.any_addr = (a.type == DIW_QP_UD || a.type == DIW_QP_UC) &&
			   qp->ctx->device->info.naddrs > 1;
	a.rc.early = true;
	a.rc.keep_recvs = !qp->rnic;
	a.rc.tell_end = true;                   /* an adapter's connection manager does not wait for receives */
	/* For ever, as with rnr_retry 7. A peer of ours with a smaller rnr_retry announces it (of_rc_limits()). */
	a.rc.rnr_timeout_ns = INT64_MAX;
	/* A UC message that makes no progress is not lost yet: its sender may have no processor for a while. */
	if (a.type == DIW_QP_UC)
		a.dgram.reasm_timeout_ns = a.dgram.record_timeout_ns = UC_PATIENCE_NS;
	a.num = num;
	a.ctx = qp;
	if (dv)
		of_dv_attr(&a, dv);
	return -diw_qp_create(of_diw_pd(pd), &a, &qp->diw);
}

static int create_numbered(struct of_qp *qp, struct ibv_pd *pd, const struct diwdv_qp_attr *dv)
{
	struct diw_qp_info info;
	uint32_t num = 0;
	int rc = qp->init.qp_type == IBV_QPT_RC ? of_rc_listen(qp, &num) : 0;

	if (rc == 0) {
		rc = create_diw(qp, pd, num, dv);
		if (rc)
			of_rc_unlisten(qp);
	}
	if (rc)
		return rc;
	if (num == 0 && diw_qp_query(qp->diw, &info) == 0)
		num = info.num;
	qp->qp.qp_num = num;
	of_async_watch(qp);
	return 0;
}

static enum ibv_qp_state first_state(const struct of_qp *qp)
{
	return qp->rnic ? IBV_QPS_INIT : IBV_QPS_RESET;    /* iWARP has no RESET */
}

static struct of_qp *new_qp(struct ibv_context *c, const struct ibv_qp_init_attr_ex *a)
{
	struct of_qp *qp = calloc(1, sizeof *qp);

	if (!qp)
		return NULL;
	qp->ctx = of_context(c);
	qp->qp = (struct ibv_qp){
		.context = c, .qp_context = a->qp_context, .pd = a->pd, .send_cq = a->send_cq, .recv_cq = a->recv_cq,
		.srq = a->srq, .qp_type = a->qp_type,
	};
	qp->rnic = of_is_rnic(c);
	pthread_mutex_init(&qp->qp.mutex, NULL);
	pthread_cond_init(&qp->qp.cond, NULL);
	qp->extended = a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp->ops = qp->extended ? a->send_ops_flags : 0;
	caps_grant(qp, a);
	of_qp_set_state(qp, first_state(qp));
	qp->qp.state = IBV_QPS_RESET;           /* the state of the last modification: programs continue from there */
	return qp;
}

static void free_qp(struct of_qp *qp)
{
	of_wr_fini(qp);
	pthread_cond_destroy(&qp->qp.cond);
	pthread_mutex_destroy(&qp->qp.mutex);
	free(qp);
}

struct ibv_qp *of_create_qp_dv(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr, const struct diwdv_qp_attr *dv)
{
	struct of_context *ctx = of_context(c);
	int rc = qp_check_init(c, attr, dv);
	struct of_rc *unused = NULL;
	struct of_qp *qp;

	if (rc)
		return of_null(rc);
	qp = new_qp(c, attr);
	if (!qp)
		return of_null(ENOMEM);
	rc = qp->extended ? of_wr_init(qp) : 0;
	if (rc == 0) {
		pthread_mutex_lock(&ctx->lock);
		rc = create_numbered(qp, attr->pd, dv);
		if (rc == 0)
			number_add(ctx, qp);
		else
			unused = of_rc_unused(ctx);
		pthread_mutex_unlock(&ctx->lock);
	}
	if (rc) {
		of_rc_end(unused);
		free_qp(qp);
		return of_null(rc);
	}
	of_pd_hold(attr->pd);
	attr->cap = qp->init.cap;
	return &qp->qp;
}

struct ibv_qp *of_create_qp_ex(struct ibv_context *c, struct ibv_qp_init_attr_ex *attr)
{
	return of_create_qp_dv(c, attr, NULL);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_context = init->qp_context, .send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq,
		.cap = init->cap, .qp_type = init->qp_type, .sq_sig_all = init->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_qp *qp;

	if (!pd)
		return of_null(diw_fail(EINVAL, "ibv_create_qp: no protection domain"));
	qp = of_create_qp_ex(pd->context, &a);
	if (qp)
		init->cap = a.cap;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return of_qp(qp)->extended ? &of_qp(qp)->ex : NULL;
}

/* ---- Destruction ---- */

/* Waits until the last messages have left before the socket closes: a send request was complete when diw had taken
 * it. */
static void qp_leave(struct of_qp *qp)
{
	const struct timespec step = { .tv_nsec = LEAVE_STEP_NS };
	struct diw_qp_info info;

	diw_qp_withdraw(qp->diw);
	for (int64_t waited = 0; waited < LEAVE_NS; waited += LEAVE_STEP_NS) {
		if (diw_qp_query(qp->diw, &info) < 0 || !info.leaving)
			return;
		nanosleep(&step, NULL);
	}
}

static void forget_completions(struct of_qp *qp)
{
	of_cq_forget((struct of_cq *)qp->init.send_cq, qp->diw);
	if (qp->init.recv_cq != qp->init.send_cq)
		of_cq_forget((struct of_cq *)qp->init.recv_cq, qp->diw);
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct of_qp *qp = of_qp(ibqp);
	struct of_context *ctx = qp->ctx;
	struct of_rc *unused;

	qp_leave(qp);
	pthread_mutex_lock(&ctx->lock);
	of_rc_unlisten(qp);
	number_del(ctx, qp);
	/* After diw_qp_withdraw() no more completions come. The memory of these belongs to the queue pair. */
	forget_completions(qp);
	diw_qp_destroy(qp->diw);
	unused = of_rc_unused(ctx);
	pthread_mutex_unlock(&ctx->lock);
	of_rc_end(unused);
	of_async_forget_qp(ctx, qp);
	of_pd_drop(ibqp->pd);
	free_qp(qp);
	return 0;
}

/* ---- States ---- */

static int check_values(const struct of_qp *qp, const struct ibv_qp_attr *a, int mask)
{
	if ((mask & IBV_QP_PORT) && a->port_num != OF_PORT)
		return diw_fail(EINVAL, "ibv_modify_qp: port_num %u: the device's port is %d", a->port_num, OF_PORT);
	if ((mask & IBV_QP_PKEY_INDEX) && a->pkey_index != 0)
		return diw_fail(EINVAL, "ibv_modify_qp: pkey_index %u: the table has one entry", a->pkey_index);
	if ((mask & IBV_QP_PATH_MTU) && (a->path_mtu < IBV_MTU_256 || a->path_mtu > IBV_MTU_4096))
		return diw_fail(EINVAL, "ibv_modify_qp: path_mtu %d: not IBV_MTU_256 to IBV_MTU_4096",
				(int)a->path_mtu);
	if ((mask & IBV_QP_DEST_QPN) && a->dest_qp_num > OF_QPN_MAX)
		return diw_fail(EINVAL, "ibv_modify_qp: dest_qp_num %#x: more than %#x", a->dest_qp_num, OF_QPN_MAX);
	if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) && a->max_rd_atomic > OF_MAX_RD_ATOM) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) && a->max_dest_rd_atomic > OF_MAX_RD_ATOM))
		return diw_fail(EINVAL, "ibv_modify_qp: max_rd_atomic %u, max_dest_rd_atomic %u: more than %d",
				a->max_rd_atomic, a->max_dest_rd_atomic, OF_MAX_RD_ATOM);
	if (((mask & IBV_QP_TIMEOUT) && a->timeout > 31) || ((mask & IBV_QP_RETRY_CNT) && a->retry_cnt > 7) ||
	    ((mask & IBV_QP_RNR_RETRY) && a->rnr_retry > 7) || ((mask & IBV_QP_MIN_RNR_TIMER) && a->min_rnr_timer > 31))
		return diw_fail(EINVAL,
				"ibv_modify_qp: timeout %u, retry_cnt %u, rnr_retry %u, min_rnr_timer %u: at most "
				"31, 7, 7, 31", a->timeout, a->retry_cnt, a->rnr_retry, a->min_rnr_timer);
	if ((mask & IBV_QP_AV) && !of_is_path(&a->ah_attr, qp->ctx))
		return diw_fail(EINVAL,
				"ibv_modify_qp: ah_attr: port_num %u, sgid_index %u: port %d and %d GIDs are there",
				a->ah_attr.port_num, a->ah_attr.grh.sgid_index, OF_PORT, qp->ctx->ngids);
	return mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE) ?
	       diw_fail(EOPNOTSUPP, "ibv_modify_qp: mask %#x: no alternate paths", mask) : 0;
}

static void qp_take_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *a, int mask)
{
#define TAKE(bit, field) do { if (mask & (bit)) to->field = a->field; } while (0)
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
#undef TAKE
	if (!to->ah_attr.is_global)             /* otherwise the caller's grh is not initialized */
		to->ah_attr.grh = (struct ibv_global_route){ 0 };
}

/* Verbs have no access flags for Writes to UD or RD queue pairs, so these are always allowed. */
static int set_access(struct of_qp *qp)
{
	const unsigned remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	if (of_names_dst(qp))
		return 0;
	return -diw_qp_set_access(qp->diw, (unsigned)of_access(qp->attr.qp_access_flags & remote) &
				  ~(unsigned)DIW_ACCESS_LOCAL_WRITE);
}

static int to_reset(struct of_qp *qp)
{
	int rc;

	if (qp->init.qp_type == IBV_QPT_RC)
		of_rc_forget(qp);
	rc = -diw_qp_reset(qp->diw);
	if (rc)
		return rc;
	forget_completions(qp);
	diw_qp_hold(qp->diw, false);
	qp->attr = (struct ibv_qp_attr){ .cap = qp->init.cap };
	return 0;
}

/* The peer of the address vector. */
static int take_path(struct of_qp *qp)
{
	struct diw_dest peer = { 0 };
	int rc = of_addr_from_ah_attr(&peer.addr, &qp->attr.ah_attr, qp->ctx);

	if (rc || of_is_group(&qp->attr.ah_attr.grh.dgid))
		return diw_fail(EINVAL, "ibv_modify_qp: the address vector names no peer");
	peer.addr.port = (uint16_t)qp->attr.dest_qp_num;
	qp->peer = peer.addr;
	if (qp->init.qp_type == IBV_QPT_RC)
		return of_rc_rtr(qp);
	if (qp->attr.dest_qp_num >= OF_QPN_RC)
		return diw_fail(EINVAL, "ibv_modify_qp: dest_qp_num %#x: that of an RC queue pair",
				qp->attr.dest_qp_num);
	of_dest_header(&peer, &qp->attr.ah_attr.grh);
	return -diw_qp_set_peer(qp->diw, &peer, &qp->ctx->gids[qp->attr.ah_attr.grh.sgid_index]);
}

static int to_rtr(struct of_qp *qp)
{
	return of_names_dst(qp) ? 0 : take_path(qp);
}

/* From SQD to SQD. A connection over TCP keeps its path. A request that has begun cannot change its path (InfiniBand,
 * volume 1, section 10.3.1.5). */
static int change_path(struct of_qp *qp)
{
	const struct diw_addr before = qp->peer;
	struct diw_qp_info info;
	int rc;

	if (qp->init.qp_type != IBV_QPT_UC)
		return 0;
	if (diw_qp_query(qp->diw, &info) == 0 && info.sq_busy)
		return diw_fail(EINVAL, "ibv_modify_qp: IBV_QP_AV: the send queue has not drained yet");
	rc = take_path(qp);
	if (rc)
		qp->peer = before;
	return rc;
}

static int to_sqd(struct of_qp *qp, bool tell)
{
	diw_qp_hold(qp->diw, true);
	return tell ? -diw_qp_drained(qp->diw) : 0;
}

static int qp_enter(struct of_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int rc = 0;

	if ((mask & IBV_QP_QKEY) && to != IBV_QPS_RESET)
		rc = -diw_qp_set_qkey(qp->diw, qp->attr.qkey);
	if (qp->init.qp_type == IBV_QPT_RC && from == to && to >= IBV_QPS_RTS)
		of_rc_limits(qp);
	if (rc == 0 && from == to && to == IBV_QPS_SQD && (mask & IBV_QP_AV))
		rc = change_path(qp);
	if (rc || (from == to && to != IBV_QPS_RESET))
		return rc;
	switch (to) {
	case IBV_QPS_RESET:
		return to_reset(qp);
	case IBV_QPS_RTR:
		return to_rtr(qp);
	case IBV_QPS_RTS:
		return qp->init.qp_type == IBV_QPT_RC ? of_rc_rts(qp) : -diw_qp_hold(qp->diw, false);
	case IBV_QPS_SQD:
		return to_sqd(qp, (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) && qp->attr.en_sqd_async_notify);
	case IBV_QPS_ERR:
		return qp->init.qp_type == IBV_QPT_RC ? -diw_leave(qp->diw) : -diw_abort(qp->diw);
	default:
		return 0;
	}
}

static int modify_locked(struct of_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = atomic_load(&qp->state), to = mask & IBV_QP_STATE ? attr->qp_state : from;
	struct ibv_qp_attr before = qp->attr;
	int rc = of_modify_check(qp->init.qp_type, from, to, mask);

	if (rc == 0 && (mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != from)
		rc = diw_fail(EINVAL, "ibv_modify_qp: cur_qp_state %d: the state is %d", (int)attr->cur_qp_state,
			      (int)from);
	if (rc == 0)
		rc = check_values(qp, attr, mask);
	if (rc)
		return rc;
	qp_take_values(&qp->attr, attr, mask);
	if (mask & IBV_QP_ACCESS_FLAGS)
		set_access(qp);
	/* Before its effects: requests that fail by it must fail in the new state. */
	if (to == IBV_QPS_ERR)
		of_qp_set_state(qp, to);
	rc = qp_enter(qp, from, to, mask);
	if (rc) {
		qp->attr = before;
		return rc;
	}
	of_qp_set_state(qp, to);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct of_qp *qp = of_qp(ibqp);
	int rc;

	pthread_mutex_lock(&qp->ctx->lock);
	rc = modify_locked(qp, attr, mask);
	pthread_mutex_unlock(&qp->ctx->lock);
	return of_result(rc);
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct of_qp *qp = of_qp(ibqp);
	struct diw_qp_info info;

	(void)mask;
	pthread_mutex_lock(&qp->ctx->lock);
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = atomic_load(&qp->state);
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD && diw_qp_query(qp->diw, &info) == 0 && info.sq_busy;
	*init = qp->init;
	pthread_mutex_unlock(&qp->ctx->lock);
	return 0;
}

/* Bytes are placed as they arrive, and a copy may write them in any order. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

/* DIWDV_QP_ERROR_ENDS. */
static bool rd_has_ended(struct of_qp *qp)
{
	struct diw_qp_info info;

	return qp->init.qp_type == IBV_QPT_DRIVER && diw_qp_query(qp->diw, &info) == 0 && info.state == DIW_QPS_ERROR;
}

bool of_qp_failed(struct of_context *ctx, uint32_t num)
{
	bool first = false;
	struct of_qp *qp;

	pthread_mutex_lock(&ctx->names);
	qp = number_find(ctx, num);
	if (qp && atomic_load(&qp->state) != IBV_QPS_ERR) {
		if (qp->init.qp_type == IBV_QPT_RC) {
			first = true;
			of_qp_set_state(qp, IBV_QPS_ERR);
			diw_leave(qp->diw);     /* flushes the receives, too */
		} else if (rd_has_ended(qp)) {
			of_qp_set_state(qp, IBV_QPS_ERR);
		}
	}
	pthread_mutex_unlock(&ctx->names);
	return first;
}
