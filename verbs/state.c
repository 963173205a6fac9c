/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes of a queue pair's state and attributes, and their effect on its requests. */
#include <errno.h>

#include "base/log.h"
#include "verbs/qp.h"

/* Drops posted requests without completions. */
static void forget_requests(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t tail = atomic_load(&sq->tail);
	struct diw_recv *r;

	atomic_store(&sq->next, tail);
	atomic_store(&sq->head, tail);
	sq->since = tail;
	while (!qp->srq && (r = diw_rq_take(qp->rq)))
		diw_rq_done(qp->rq, r);
}

int diw_qp_renew(struct diw_qp *qp)
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
	rc = qp->ops->reset(qp);
	if (rc == 0) {
		forget_requests(qp);
		diw_arbiter_leave(qp, diw_engine_time(&qp->dev->engine));
		qp->blocked = qp->more = qp->member.starved = qp->hold = qp->tell_drained = qp->silent = false;
		qp->errors_n = 0;
		qp->error_event = qp->errors_lost = false;
		diw_dev_forget_events(qp->dev, qp);
		diw_engine_due_at(&qp->dev->engine, &qp->member, 0);
	}
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

int diw_qp_set_qkey(struct diw_qp *qp, uint32_t qkey)
{
	int rc = qp->ops->qkey ? diw_engine_lock(&qp->dev->engine) :
		 diw_fail(-EINVAL, "diw_qp_set_qkey: an RC queue pair has no Q_Key");

	if (rc < 0)
		return rc;
	diw_rdmap_set_qkey(&qp->rdmap, qkey);
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
	diw_rdmap_set_deny(&qp->rdmap, (all & ~access) |
					      (access & DIW_ACCESS_REMOTE_WRITE ? 0 : DIW_ACCESS_GROUP_WRITE));
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_weight(struct diw_qp *qp, uint32_t weight)
{
	struct diw_engine *e = &qp->dev->engine;
	int rc = weight >= 1 && weight <= DIW_MAX_WEIGHT ? diw_engine_lock(e) :
		 diw_fail(-EINVAL, "diw_qp_set_weight: weight %u: not 1 to %d", weight, DIW_MAX_WEIGHT);

	if (rc < 0)
		return rc;
	diw_arbiter_weigh(qp, weight, diw_engine_time(e));
	diw_engine_unlock(e);
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
	rc = qp->hold ? 0 : diw_fail(-EINVAL, "diw_qp_drained: the queue pair is not held");
	diw_sq_tell_drained(qp);
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

int diw_abort(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	qp->ops->abort(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
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
	qp->ops->leave(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	diw_dev_forget_events(dev, qp);
	diw_engine_unlock(&dev->engine);
	return 0;
}
