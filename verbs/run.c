/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a queue pair: timers; requests in order, as far as budget, link and completion queue allow; answers to Reads;
 * the flush. The device's lock is held.
 */
#include <errno.h>

#include "base/log.h"
#include "verbs/qp.h"

/* Bytes of segments that a queue pair sends before the turn of another. */
#define STEP_SHARE (256 << 10)

static void tokens_refill(struct diw_qp *qp, uint64_t now)
{
	double add = (double)(now - qp->rate_at) * (double)qp->rate / (double)DIW_S;

	if (add >= (double)(qp->rate_burst - qp->tokens)) {
		qp->tokens = qp->rate_burst;
		qp->rate_at = now;
		return;
	}
	if (add < 1)                            /* frequent polls must not round the increment to 0 */
		return;
	qp->tokens += (int64_t)add;
	qp->rate_at = now - (uint64_t)((add - (double)(int64_t)add) * (double)DIW_S / (double)qp->rate);
}

/* ---- Results of sending ---- */

static void tell_unsent(struct diw_qp *qp, const struct diw_dgram_state *s)
{
	const char *why = s->tx_icmp ? "ICMP says that it is not reached" : "the kernel refuses to send";
	char peer[DIW_ADDR_STRLEN];

	diw_log_often(DIW_LOG_INFO, diw_engine_time(&qp->dev->engine), "queue pair %u: to %s: %s (errno %d)",
		      diw_qp_num(qp), diw_addr_str(&s->tx_errpeer, peer), why, s->tx_errno);
	diw_qp_error(qp, &(struct diw_qp_error){ .errnum = s->tx_errno, .remote = s->tx_icmp, .peer = s->tx_errpeer });
}

static void qp_after_send(struct diw_qp *qp)
{
	struct diw_dgram_state *s = qp->link->dgram ? qp->link->dgram->state : NULL;

	diw_qp_watch(qp);
	if (!s)
		return;
	if (s->tx_errno) {
		tell_unsent(qp, s);
		s->tx_errno = 0;
	}
	if (s->mtu_changed) {
		if (diw_dev_raises(qp->dev, DIW_EVENT_MTU_CHANGE))
			diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_MTU_CHANGE, .qp = qp,
								    .ctx = qp->ctx });
		s->mtu_changed = false;
		qp->link->sure = 0;
	}
}

/* Sends what is staged. In a burst of posts, the super-buffer stays open for the next one. */
static void qp_flush_link(struct diw_qp *qp, uint64_t now)
{
	struct diw_engine *e = &qp->dev->engine;

	qp->burst = qp->burst && !qp->blocked && !qp->more && qp->link->ops->staged(qp->link);
	if (qp->burst) {
		diw_engine_flush_later(e, &qp->member, now);
		return;
	}
	diw_engine_flushed(e, &qp->member);
	if (qp->link->ops->flush(qp->link, now) == -EAGAIN)
		qp->blocked = true;
}

/* ---- Metered queue pairs ---- */

/* The octets that the rate limit and the arbiter let the queue pair send, at most SHARE. */
static int64_t metered_budget(struct diw_qp *qp, int64_t share, uint64_t now)
{
	if (qp->rate) {
		tokens_refill(qp, now);
		share = qp->tokens < share ? qp->tokens : share;
	}
	return qp->dev->arbiter.weights ? diw_arbiter_grant(qp, share, now) : share;
}

/* The queue pair has sent all but LEFT of its budget HAD. If it waits for its rate limit, it keeps no other one from
 * sending. */
static void metered_sent(struct diw_qp *qp, int64_t had, int64_t left, uint64_t now)
{
	bool more = qp->more;

	if (qp->rate) {
		qp->tokens -= had - left;
		more &= qp->tokens > 0;
		qp->c->rate_limited += qp->more && !more;
	}
	if (!qp->dev->arbiter.weights)
		return;
	qp->c->weight_limited += more && had <= 0 && !qp->share.waits;
	diw_arbiter_sent(qp, had - left, more || qp->blocked || diw_rdmap_rd_waits(&qp->rdmap), now);
}

static uint64_t metered_deadline(const struct diw_qp *qp)
{
	if (qp->rate && qp->tokens <= 0)
		return qp->rate_at + (uint64_t)((double)(1 - qp->tokens) * (double)DIW_S / (double)qp->rate) + 1;
	return diw_max64(diw_rdmap_flow_deadline(&qp->rdmap), diw_arbiter_deadline(qp));
}

/* ---- Sending ---- */

void diw_qp_run_sends(struct diw_qp *qp, int64_t share, uint64_t now)
{
	int64_t budget = share, had;
	int rc = 0, rc_answers = 0;

	qp->nwaiting = 0;
	diw_sq_close(&qp->sq);
	if (!qp->ops->begin(qp, now)) {
		diw_arbiter_leave(qp, now);
		return;
	}
	if (qp->metered)
		budget = metered_budget(qp, share, now);
	had = budget;
	qp->answers_first = !qp->answers_first; /* each goes first in every second turn */
	qp->ops->run(qp, &budget, &rc, &rc_answers, now);
	qp->blocked = rc == -EAGAIN || rc_answers == -EAGAIN;
	qp->more = rc == -EBUSY || rc_answers == -EBUSY;
	qp_flush_link(qp, now);
	if (qp->metered)
		metered_sent(qp, had, budget, now);
	qp_after_send(qp);
	qp->ops->settle(qp, now);
	diw_sq_tell_drained(qp);
}

/* When the send queue can continue by itself: at once, when the rate limit or the arbiter allows, or at no time. */
static uint64_t sq_deadline(const struct diw_qp *qp)
{
	if (!qp->more || qp->blocked)
		return DIW_NEVER;
	return qp->metered ? metered_deadline(qp) : diw_rdmap_flow_deadline(&qp->rdmap);
}

uint64_t diw_qp_deadline(const struct diw_qp *qp, bool waiting)
{
	uint64_t t = diw_min64(diw_rdmap_deadline(&qp->rdmap, waiting), sq_deadline(qp));

	if (qp->ops->deadline)
		t = diw_min64(t, qp->ops->deadline(qp));
	return qp->link ? diw_min64(t, qp->link->ops->deadline(qp->link)) : t;
}

void diw_qp_run(struct diw_qp *qp, uint64_t now)
{
	qp->member.starved = false;
	if (diw_rdmap_is_waiting(&qp->rdmap))
		diw_engine_starve(&qp->dev->engine, &qp->member);
	diw_rdmap_timers(&qp->rdmap, now);
	diw_qp_run_sends(qp, STEP_SHARE, now);
	diw_engine_due_at(&qp->dev->engine, &qp->member, diw_qp_deadline(qp, true));
}
