/* SPDX-License-Identifier: BSD-2-Clause */
/* What changes a queue pair after it was made, and what its states do to its requests. */
#include <errno.h>

#include "base/log.h"
#include "verbs/qp.h"

/* Nobody hears of what was posted. */
static void forget_requests(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t tail = atomic_load(&sq->tail);
	struct diw_recv *r;

	atomic_store(&sq->next, tail);
	atomic_store(&sq->head, tail);
	while (!qp->srq && (r = diw_rq_take(qp->rq)))
		diw_rq_done(qp->rq, r);
}

/* A protocol that has heard of nobody. */
static int renew(struct diw_qp *qp)
{
	diw_cq_forget_maps(qp->send_cq, qp);
	diw_cq_forget_maps(qp->recv_cq, qp);
	return diw_rdmap_renew(&qp->rdmap);
}

int diw_qp_reset(struct diw_qp *qp)
{
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	if (qp->type == DIW_QP_RC)
		rc = diw_rc_reset(qp);
	if (rc == 0)
		rc = renew(qp);
	if (rc == 0 && qp->type != DIW_QP_RC)
		qp->link->ops->discard(qp->link);
	if (rc == 0) {
		forget_requests(qp);
		qp->blocked = qp->more = qp->member.starved = qp->hold = qp->tell_drained = qp->silent = false;
		qp->errors_n = 0;
		qp->error_event = qp->errors_lost = false;
		diw_dev_forget_events(qp->dev, qp);
		qp->state = qp->type == DIW_QP_RC ? DIW_QPS_IDLE : DIW_QPS_RTS;
		qp->member.deadline = 0;
	}
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

int diw_qp_set_peer(struct diw_qp *qp, const struct diw_addr *peer, const struct diw_addr *local)
{
	struct diw_ddp_cfg *cfg = &qp->rdmap.ddp.cfg;
	int rc;

	if (qp->type != DIW_QP_UC || peer->port == 0 || diw_addr_ip_is_zero(peer))
		return diw_fail(-EINVAL, "diw_qp_set_peer: %s", qp->type != DIW_QP_UC ? "of UC alone" :
				"the peer has no address or port");
	if (!diw_dgram_reaches(qp->socket, peer))
		return diw_fail(-EAFNOSUPPORT,
				"diw_qp_set_peer: the queue pair's address is of IPv%d, the peer's is not",
				qp->socket->only);
	rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	cfg->peer = *peer;
	cfg->peer.path = 0;                     /* it is what its datagrams are known by */
	cfg->path = peer->path;
	if (local && diw_addr_is_v4(local) != diw_addr_is_v4(peer))
		local = NULL;
	if (qp->socket->ops->from)
		qp->socket->ops->from(qp->socket, local);
	rc = renew(qp);
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

int diw_qp_set_qkey(struct diw_qp *qp, uint32_t qkey)
{
	int rc = qp->type == DIW_QP_RC ? diw_fail(-EINVAL, "diw_qp_set_qkey: RC has none") :
		 diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->rdmap.ddp.cfg.qkey = qkey;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_access(struct diw_qp *qp, unsigned access)
{
	const unsigned all = DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC;
	int rc = access & ~all ? diw_fail(-EINVAL, "diw_qp_set_access: %#x: more than %#x", access, all) :
		 diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->rdmap.ddp.user.deny = all & ~access;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_confirm(struct diw_qp *qp, bool confirm)
{
	int rc = qp->type != DIW_QP_RC ? diw_fail(-EINVAL, "diw_qp_confirm: of RC alone") :
		 diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->rc.confirm = confirm;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_retry(struct diw_qp *qp, int64_t retry_ns)
{
	int rc = qp->type != DIW_QP_RC ? diw_fail(-EINVAL, "diw_qp_set_retry: of RC alone") :
		 retry_ns < 0 ? diw_fail(-EINVAL, "diw_qp_set_retry: %lld ns", (long long)retry_ns) :
		 diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->rc.retry_ns = (uint64_t)retry_ns;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_rnr(struct diw_qp *qp, unsigned retry, int64_t timer_ns)
{
	struct diw_rdmap_rc *rc = &qp->rdmap.rc;
	int err = qp->type != DIW_QP_RC ? diw_fail(-EINVAL, "diw_qp_set_rnr: of RC alone") :
		  retry > 7 || timer_ns < 0 ? diw_fail(-EINVAL, "diw_qp_set_rnr: retry %u, timer %lld ns", retry,
						       (long long)timer_ns) : diw_engine_lock(&qp->dev->engine);

	if (err < 0)
		return err;
	rc->tell_rnr |= retry != (rc->rnr_limits ? rc->rnr_retry : 7u);
	rc->rnr_limits = retry < 7;
	rc->rnr_retry = (uint8_t)retry;
	qp->rdmap.ddp.cfg.rnr_unit = (uint64_t)timer_ns;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_hold(struct diw_qp *qp, bool hold)
{
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->hold = hold;
	qp->tell_drained &= hold;
	if (!hold)
		diw_qp_run(qp, diw_engine_forward(&qp->dev->engine, diw_engine_now(&qp->dev->engine)));
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_drained(struct diw_qp *qp)
{
	int rc = diw_engine_lock(&qp->dev->engine);

	if (rc < 0)
		return rc;
	qp->tell_drained = qp->hold;
	rc = qp->hold ? 0 : diw_fail(-EINVAL, "diw_qp_drained: it is not held");
	diw_sq_tell_drained(qp);
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

/* The lock is held. */
static void abort_dgram(struct diw_qp *qp)
{
	qp->state = DIW_QPS_ERROR;
	qp->rdmap.ddp.order.dead = true;
	diw_qp_flush(qp);
	qp->link->ops->discard(qp->link);
}

int diw_abort(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	if (qp->type == DIW_QP_RC)
		diw_rc_abort(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	else
		abort_dgram(qp);
	diw_engine_unlock(&dev->engine);
	return 0;
}

int diw_qp_withdraw(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	qp->silent = true;
	if (qp->type == DIW_QP_RC)
		diw_rc_leave(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	else
		abort_dgram(qp);
	diw_dev_forget_events(dev, qp);
	diw_engine_unlock(&dev->engine);
	return 0;
}

int diw_leave(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = qp->type == DIW_QP_RC ? diw_engine_lock(&dev->engine) : diw_fail(-EINVAL, "diw_leave: of RC alone");

	if (rc < 0)
		return rc;
	diw_rc_leave(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	diw_engine_unlock(&dev->engine);
	return 0;
}

int diw_disconnect(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = qp->type == DIW_QP_RC ? diw_engine_lock(&dev->engine) :
		 diw_fail(-EINVAL, "diw_disconnect: of RC alone");
	uint64_t now;

	if (rc < 0)
		return rc;
	now = diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine));
	rc = diw_rc_close(qp, now);
	if (rc == 0)
		diw_qp_run(qp, now);
	diw_engine_unlock(&dev->engine);
	return rc;
}
