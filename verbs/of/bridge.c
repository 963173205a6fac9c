/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of libibverbs that librdmacm calls beyond the ABI. */
#include "verbs/of/bridge.h"

#include "verbs/of/of.h"

struct diw_dev *diw_of_dev(struct ibv_context *c)
{
	return of_context(c)->dev;
}

bool diw_of_has_rc(struct ibv_context *c)
{
	struct of_context *ctx = of_context(c);
	bool has;

	pthread_mutex_lock(&ctx->lock);
	has = ctx->rc;
	pthread_mutex_unlock(&ctx->lock);
	return has;
}

struct diw_qp *diw_of_claim(struct ibv_context *c, uint32_t qp_num)
{
	struct of_context *ctx = of_context(c);
	struct diw_qp *diw = NULL;
	struct of_qp *qp;

	pthread_mutex_lock(&ctx->lock);
	qp = of_rc_find(ctx, qp_num);
	if (qp) {
		of_rc_claim(qp);
		diw = qp->diw;
	}
	pthread_mutex_unlock(&ctx->lock);
	return diw;
}

static void bridge_take_values(struct ibv_qp_attr *to, const struct ibv_qp_attr *from)
{
	to->ah_attr = from->ah_attr;
	to->path_mtu = from->path_mtu;
	to->timeout = from->timeout;
	to->retry_cnt = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
	to->max_rd_atomic = from->max_rd_atomic;
	to->max_dest_rd_atomic = from->max_dest_rd_atomic;
}

void diw_of_connected(struct ibv_context *c, uint32_t qp_num, const struct ibv_qp_attr *attr)
{
	struct of_context *ctx = of_context(c);
	struct of_qp *qp;

	pthread_mutex_lock(&ctx->lock);
	qp = of_rc_find(ctx, qp_num);
	if (qp && atomic_load(&qp->state) < IBV_QPS_RTS) {
		bridge_take_values(&qp->attr, attr);
		of_qp_set_state(qp, IBV_QPS_RTS);
	}
	pthread_mutex_unlock(&ctx->lock);
}

/* Whether an RNIC's queue pair closes: it does if no request is outstanding. Otherwise it goes to ERROR. */
static bool rnic_closes(const struct of_qp *qp)
{
	struct diw_qp_info info;

	return of_is_rnic(qp->qp.context) && diw_qp_query(qp->diw, &info) == 0 && info.sq_pending == 0 &&
	       diw_disconnect(qp->diw) == 0;
}

void diw_of_disconnect(struct ibv_context *c, uint32_t qp_num, const struct diw_qp *diw)
{
	struct of_context *ctx = of_context(c);
	struct of_qp *qp;

	pthread_mutex_lock(&ctx->lock);
	qp = of_rc_find(ctx, qp_num);
	if (qp && qp->diw == diw && !rnic_closes(qp)) {
		of_qp_set_state(qp, IBV_QPS_ERR);
		diw_leave(qp->diw);
	}
	pthread_mutex_unlock(&ctx->lock);
}
