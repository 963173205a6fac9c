/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Running a queue pair: timers, requests in order as far as budget, link and completion queue allow, answers to Reads,
 * and the flush behind them. The device's lock is held.
 */
#include <errno.h>

#include "base/log.h"
#include "verbs/confirm.h"
#include "verbs/qp.h"

/* Bytes of segments that one queue pair sends before another has its turn. */
#define STEP_SHARE (256 << 10)
#define SEQ_OPEN 0x7fffffffu         /* of a request that is being executed: more segments than follow */

static bool may_begin(const struct diw_qp *qp)
{
	return (!qp->hold && !qp->rc.last) || qp->rdmap.tx.active || qp->rdmap.rc.imm_next;
}

/* A request that needs an answer, or waits for one, behind the end of the peer's half. */
static bool answer_never_comes(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return qp->rc.peer_ended && !qp->rdmap.tx.active &&
	       (w->opcode == DIW_OP_READ_REQUEST || w->opcode == DIW_OP_ATOMIC_REQUEST ||
		(w->fence && qp->rdmap.rc.nout));
}

/* Datagrams: a request is complete when its segments have left, or were refused; Reads go on by themselves. Returns why
 * it stopped: 0 the queue is empty, else -errno as diw_rdmap_send, -ENOBUFS no room for a completion. */
static int run_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	const struct diw_link *link = qp->link;
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);

	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) && may_begin(qp)) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, next);
		bool read = w->opcode == DIW_OP_READ_REQUEST;
		uint8_t status;
		int rc;

		if (w->signaled && !read && !diw_qp_has_room(qp, qp->send_cq, 1))
			return -ENOBUFS;
		/* Between two parts of a message others may have been sent. */
		if (!qp->rdmap.tx.active || !diw_sq_is_staged(qp, w))
			w->first = link->taken;
		w->seq = link->taken + SEQ_OPEN;
		rc = diw_rdmap_send(&qp->rdmap, w, budget, &status, now);
		w->seq = link->taken;
		if (rc < 0)
			return rc;
		if (status != DIW_RDMAP_OK)
			w->status = status;
		else if (read)
			w->signaled = false;    /* the Read completes by itself */
		atomic_store_explicit(&sq->next, ++next, memory_order_relaxed);
	}
	return 0;
}

static int run_rc_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), tail;

	if (!diw_sq_retire(qp))
		return -ENOBUFS;
	while (next != (tail = atomic_load_explicit(&sq->tail, memory_order_acquire)) && may_begin(qp)) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, next);
		uint8_t status;
		int rc;

		if (answer_never_comes(qp, w)) {
			qp->rc.last = true;
			break;
		}
		w->dst = qp->rdmap.ddp.cfg.peer;
		if (!qp->rdmap.tx.active && !qp->rdmap.rc.imm_next && diw_rdmap_rc_tell_rnr(&qp->rdmap, now) < 0)
			return -EAGAIN;
		diw_confirm_begin(qp, w, next + 1 != tail ? diw_sq_slot(sq, next + 1) : NULL);
		rc = diw_rdmap_send(&qp->rdmap, w, budget, &status, now);
		if (rc < 0)
			return rc;
		if (!w->pending)
			w->status = status;
		if (status == DIW_RDMAP_OK)
			diw_confirm_sent(qp, w);
		atomic_store_explicit(&sq->next, ++next, memory_order_relaxed);
		if (status != DIW_RDMAP_OK) {
			diw_fault_count(qp->c, DIW_FAULT_REQUEST);
			diw_rc_error(qp, DIW_FAULT_REQUEST, false, 0, now);
			return 0;
		}
		if (!diw_sq_retire(qp))
			return -ENOBUFS;
	}
	return 0;
}

static void refill(struct diw_qp *qp, uint64_t now)
{
	double add = (double)(now - qp->rate_at) * (double)qp->rate / (double)DIW_S;

	if (add >= (double)(qp->rate_burst - qp->tokens)) {
		qp->tokens = qp->rate_burst;
		qp->rate_at = now;
		return;
	}
	if (add < 1)                            /* who polls often must not round its share away */
		return;
	qp->tokens += (int64_t)add;
	qp->rate_at = now - (uint64_t)((add - (double)(int64_t)add) * (double)DIW_S / (double)qp->rate);
}

/* UC: as far as the peer's window reaches, and no further than where it is to be asked before more is sent. */
static int run_paced(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_rdmap *r = &qp->rdmap;
	int rc, said;

	do {
		int64_t left = diw_rdmap_flow_left(r, now), had = left < *budget ? left : *budget, b = had;
		uint64_t segments = qp->c->tx_segments;

		rc = run_queue(qp, &b, now);
		r->flow.sent += (uint32_t)(had - b);
		*budget -= had - b - (int64_t)(qp->c->tx_segments - segments) * DIW_RDMAP_FLOW_TOLL;
		said = rc == -EAGAIN ? 0 : diw_rdmap_flow_run(r, rc == -EBUSY, now);
	} while (rc == -EBUSY && said == 0 && *budget > 0 && diw_rdmap_flow_left(r, now) > 0);
	return said < 0 ? said : rc;
}

/* A message that has begun goes on before another begins. Behind the end of our half nothing does: what comes to be
 * posted or asked for is flushed with the rest. */
static void run_rc(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now)
{
	const struct diw_rdmap *r = &qp->rdmap;
	bool answers_first = r->rc.answer_tx.active || (!r->tx.active && !r->rc.imm_next && !qp->answers_first);

	if (qp->rc.shut) {
		*rc = diw_sq_retire(qp) ? 0 : -ENOBUFS;
		return;
	}
	if (answers_first)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
	if (!r->rc.answer_tx.active && *rc_answers != -EAGAIN)
		*rc = run_rc_queue(qp, budget, now);
	if (*rc != -EAGAIN && *rc_answers != -EAGAIN)
		diw_confirm_run(qp, now);
	if (!answers_first && !r->tx.active && *rc != -EAGAIN)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
}

/* ---- What the sends have shown ---- */

static void tell_unsent(struct diw_qp *qp, const struct diw_dgram *d)
{
	const char *why = d->tx_icmp ? "ICMP says that it is not reached" : "the kernel refuses to send";
	char peer[DIW_ADDR_STRLEN];

	diw_log_often(DIW_LOG_INFO, diw_engine_time(&qp->dev->engine), "queue pair %u: to %s: %s (errno %d)",
		      diw_qp_num(qp), diw_addr_str(&d->tx_errpeer, peer), why, d->tx_errno);
	diw_qp_error(qp, &(struct diw_qp_error){ .errnum = d->tx_errno, .remote = d->tx_icmp, .peer = d->tx_errpeer });
}

static void qp_after_send(struct diw_qp *qp)
{
	struct diw_dgram *d = qp->link->dgram;

	diw_qp_watch(qp);
	if (!d)
		return;
	if (d->tx_errno) {
		tell_unsent(qp, d);
		d->tx_errno = 0;
	}
	if (d->mtu_changed) {
		diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_MTU_CHANGE, .qp = qp, .ctx = qp->ctx });
		d->mtu_changed = false;
	}
}

void diw_qp_run_sends(struct diw_qp *qp, int64_t share, uint64_t now)
{
	int64_t budget = share, had;
	int rc = 0, rc_answers = 0;
	bool answers_first = qp->answers_first;

	if (qp->type == DIW_QP_RC && !diw_rc_may_send(qp)) {
		qp->more = false;               /* what a step's share had left over is due no more */
		diw_rc_settle(qp, now);
		return;
	}
	if (qp->state == DIW_QPS_ERROR) {
		diw_qp_flush(qp);
		return;
	}
	if (qp->rate) {
		refill(qp, now);
		budget = qp->tokens < share ? qp->tokens : share;
	}
	had = budget;
	qp->answers_first = !answers_first;     /* neither waits until the other has nothing left */
	if (qp->type == DIW_QP_RC) {
		run_rc(qp, &budget, &rc, &rc_answers, now);
	} else if (qp->type == DIW_QP_UC) {
		rc = run_paced(qp, &budget, now);
	} else {
		if (answers_first)
			rc_answers = diw_rdmap_answer(&qp->rdmap, &budget, now);
		if (rc_answers != -EAGAIN)
			rc = run_queue(qp, &budget, now);
		if (!answers_first && rc != -EAGAIN)
			rc_answers = diw_rdmap_answer(&qp->rdmap, &budget, now);
	}
	qp->blocked = rc == -EAGAIN || rc_answers == -EAGAIN;
	qp->more = rc == -EBUSY || rc_answers == -EBUSY;
	if (qp->rate) {
		qp->tokens -= had - budget;
		if (qp->more && qp->tokens <= 0)
			qp->c->rate_limited++;
	}
	if (qp->link->ops->flush(qp->link, now) == -EAGAIN)
		qp->blocked = true;
	qp_after_send(qp);
	if (qp->type == DIW_QP_RC) {
		diw_rc_settle(qp, now);
	} else {
		if (diw_sq_has_executed(qp))
			diw_sq_retire(qp);
		if (qp->rdmap.reads->unsent)
			diw_rdmap_reads_settle(&qp->rdmap);
	}
	diw_sq_tell_drained(qp);
}

/* When the send queue may go on by itself: at once, when the rate limit allows, or not by the clock. */
static uint64_t sq_deadline(const struct diw_qp *qp)
{
	if (!qp->more || qp->blocked)
		return DIW_NEVER;
	if (!qp->rate || qp->tokens > 0)
		return qp->type == DIW_QP_UC ? diw_rdmap_flow_deadline(&qp->rdmap) : 0;
	return qp->rate_at + (uint64_t)((double)(1 - qp->tokens) * (double)DIW_S / (double)qp->rate) + 1;
}

uint64_t diw_qp_deadline(const struct diw_qp *qp, bool waiting)
{
	uint64_t t = diw_min64(diw_rdmap_deadline(&qp->rdmap, waiting), sq_deadline(qp));

	if (qp->type == DIW_QP_RC)
		t = diw_min64(t, diw_min64(diw_rc_deadline(qp), diw_confirm_deadline(qp)));
	return qp->link ? diw_min64(t, qp->link->ops->deadline(qp->link)) : t;
}

void diw_qp_run(struct diw_qp *qp, uint64_t now)
{
	qp->member.starved = qp->rdmap.ddp.order.waiting;
	diw_rdmap_timers(&qp->rdmap, now);
	diw_qp_run_sends(qp, STEP_SHARE, now);
	qp->member.deadline = diw_qp_deadline(qp, true);
	diw_engine_hasten(&qp->dev->engine, qp->member.deadline);
}
