/* SPDX-License-Identifier: BSD-2-Clause */
/* Send queues: post_send fills slots under the posters' lock; whoever holds the device's lock executes them in order.
 * */
#include <errno.h>
#include <stdlib.h>

#include "base/trace.h"
#include "verbs/confirm.h"
#include "verbs/qp.h"

/* Bytes of segments that one queue pair sends before another has its turn. */
#define STEP_SHARE (256 << 10)
#define POST_SHARE (4 << 20)
#define SEQ_OPEN 0x7fffffffu         /* of a request that is being executed: more segments than follow */

int diw_sq_init(struct diw_sq *sq, const struct diw_qp_attr *attr)
{
	uint32_t size = 1;

	while (size < attr->sq_depth)
		size *= 2;
	sq->depth = attr->sq_depth;
	sq->mask = size - 1;
	sq->max_sge = attr->max_sge;
	sq->max_inline = attr->max_inline;
	sq->slot_size = sizeof(struct diw_rdmap_wr) + sq->max_sge * sizeof(struct diw_ddp_sge) + sq->max_inline;
	sq->slot_size = (sq->slot_size + 15) & ~(size_t)15;
	if (diw_arena_init(&sq->arena, size * sq->slot_size) < 0)
		return -ENOMEM;
	sq->slots = diw_arena_take(&sq->arena, size * sq->slot_size);
	pthread_mutex_init(&sq->post, NULL);
	return 0;
}

void diw_sq_fini(struct diw_sq *sq)
{
	if (sq->slots)
		pthread_mutex_destroy(&sq->post);
	diw_arena_fini(&sq->arena);
}

bool diw_sq_empty(const struct diw_sq *sq)
{
	return atomic_load_explicit(&sq->tail, memory_order_acquire) ==
	       atomic_load_explicit(&sq->next, memory_order_relaxed);
}

/* And is not complete. */
static bool has_executed(const struct diw_qp *qp)
{
	return atomic_load_explicit(&qp->sq.head, memory_order_relaxed) !=
	       atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
}

static struct diw_rdmap_wr *slot_at(const struct diw_sq *sq, uint32_t i)
{
	return (void *)(sq->slots + (i & sq->mask) * sq->slot_size);
}

/* ---- Posting ---- */

static void copy_payload(struct diw_sq *sq, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	struct diw_ddp_sge *sge = (void *)(w + 1);
	uint8_t *data = (uint8_t *)(sge + sq->max_sge), *p = data;

	if (!(wr->flags & DIW_SEND_INLINE)) {
		for (int i = 0; i < wr->num_sge; i++)
			sge[i] = (struct diw_ddp_sge){ (uintptr_t)wr->sge[i].addr, wr->sge[i].length, wr->sge[i].stag };
		w->buf.sge = sge;
		w->buf.n = (uint32_t)wr->num_sge;
		w->inline_data = NULL;
		return;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(p, wr->sge[i].addr, wr->sge[i].length);
		p += wr->sge[i].length;
	}
	w->buf.n = 0;
	w->inline_data = data;
}

static void fill_rc(struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	w->fence = wr->flags & DIW_SEND_FENCE;
	w->invalidate = wr->flags & DIW_SEND_INVALIDATE;
	w->inv_stag = wr->inv_stag;
	w->fault = 0;
	if (w->opcode == DIW_OP_ATOMIC_REQUEST) {
		w->atomic.swap = wr->opcode == DIW_WR_CMP_SWAP;
		w->atomic.compare_add = wr->compare_add;
		w->atomic.value = wr->swap;
	} else if (w->opcode == DIW_OP_BIND_MW) {
		diw_mw_post_bind(w, wr);
	}
}

/* Into the slot TAIL, which nobody looks at yet. */
static int post_one(struct diw_qp *qp, const struct diw_send_wr *wr, uint32_t tail)
{
	struct diw_sq *sq = &qp->sq;
	struct diw_rdmap_wr *w;
	uint64_t len;
	int opcode = diw_sq_check(qp, wr, &len);

	if (opcode < 0)
		return opcode;
	if (tail - atomic_load_explicit(&sq->head, memory_order_acquire) == sq->depth)
		return -ENOMEM;
	w = slot_at(sq, tail);
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)opcode;
	w->wc_opcode = diw_wr_kinds[wr->opcode].wc;
	w->signaled = qp->sig_all || (wr->flags & DIW_SEND_SIGNALED);
	w->imm_valid = wr->flags & DIW_SEND_IMM;
	w->solicited = wr->flags & DIW_SEND_SOLICITED;
	w->pending = w->unconfirmed = w->ask = false;
	w->status = DIW_RDMAP_OK;
	w->imm = wr->imm;
	w->qkey = wr->qkey;
	w->stag = wr->stag;
	w->to = wr->to;
	/* RC has a peer when it is connected, which may be now: its execution fills it in. */
	w->dst = qp->type == DIW_QP_UD ? wr->dst : qp->type == DIW_QP_UC ? qp->rdmap.ddp.cfg.peer :
		 (struct diw_addr){ 0 };
	if (qp->type == DIW_QP_UC)
		w->dst.path = qp->rdmap.ddp.cfg.path;
	w->timeout = (uint64_t)wr->timeout_ns;
	w->buf.len = (uint32_t)len;
	copy_payload(sq, w, wr);
	if (qp->type == DIW_QP_RC)
		fill_rc(w, wr);
	DIW_TRACE_POST_SEND(qp->c, wr->wr_id, wr->opcode, w->buf.len, w->dst.port);
	return 0;
}

/* The send half, by the poster itself if the lock is free; else by the lock's holder when it unlocks. */
static void run_now(struct diw_qp *qp)
{
	struct diw_engine *e = &qp->dev->engine;
	uint64_t now;

	if (!diw_engine_lock_or_leave(e))
		return;
	now = diw_engine_forward(e, diw_engine_now(e));
	diw_qp_run_sends(qp, POST_SHARE, now);
	qp->member.deadline = diw_min64(qp->member.deadline, diw_qp_deadline(qp, true));
	diw_engine_hasten(e, qp->member.deadline);
	if (diw_engine_is_led(e) && qp->stat)   /* it sleeps already */
		diw_stat_gauges(qp);
	diw_engine_unlock(e);
}

static int post_list(struct diw_qp *qp, const struct diw_send_wr *wr, const struct diw_send_wr **bad, bool all)
{
	struct diw_sq *sq = &qp->sq;
	bool run = false;
	uint32_t tail;
	int rc = 0;

	if (!diw_engine_alive(&qp->dev->engine))
		return -ENODEV;
	pthread_mutex_lock(&sq->post);
	tail = atomic_load_explicit(&sq->tail, memory_order_relaxed);
	for (; wr && rc == 0; wr = wr->next) {
		rc = post_one(qp, wr, tail);
		if (rc < 0 && bad)
			*bad = wr;
		tail += rc == 0;
		run = rc < 0 || !(wr->flags & DIW_SEND_MORE);
	}
	if (rc == 0 || !all)
		atomic_store_explicit(&sq->tail, tail, memory_order_release);
	pthread_mutex_unlock(&sq->post);
	if (run)
		run_now(qp);
	return rc;
}

int diw_post_send(struct diw_qp *qp, const struct diw_send_wr *wr, const struct diw_send_wr **bad)
{
	return post_list(qp, wr, bad, false);
}

int diw_post_send_all(struct diw_qp *qp, const struct diw_send_wr *wr)
{
	return post_list(qp, wr, NULL, true);
}

/* ---- Executing; the device's lock is held ---- */

/* W leaves the queue, whose oldest request is HEAD then. Its place is free before its completion is there: who polls
 * that may post at once. */
static void leave(struct diw_qp *qp, const struct diw_rdmap_wr *w, uint32_t head, bool told, uint8_t status)
{
	if (told)
		diw_qp_fill_send_wc(qp, w, status);
	atomic_store_explicit(&qp->sq.head, head, memory_order_release);
	if (told)
		diw_cq_push(qp->send_cq);
}

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

/* Segments of W are in the link still. */
static bool is_staged(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return (int32_t)(w->seq - qp->link->left) > 0;
}

/* Datagrams: a request is complete when its segments have left, or were refused; Reads go on by themselves. Returns why
 * it stopped: 0 the queue is empty, else -errno as diw_rdmap_send, -ENOBUFS no room for a completion. */
static int run_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	const struct diw_link *link = qp->link;
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);

	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) && may_begin(qp)) {
		struct diw_rdmap_wr *w = slot_at(sq, next);
		bool read = w->opcode == DIW_OP_READ_REQUEST;
		uint8_t status;
		int rc;

		if (w->signaled && !read && !diw_qp_up.send_room(qp))
			return -ENOBUFS;
		/* Between two parts of a message others may have been sent. */
		if (!qp->rdmap.tx.active || !is_staged(qp, w))
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

void diw_sq_unsent(struct diw_qp *qp, uint32_t first, uint32_t n, int errnum)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t end = atomic_load_explicit(&sq->next, memory_order_relaxed) + qp->rdmap.tx.active;

	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != end; i++) {
		struct diw_rdmap_wr *w = slot_at(sq, i);
		bool among = (int32_t)(w->first - (first + n)) < 0 && (int32_t)(w->seq - first) > 0;

		if (!among || w->status != DIW_RDMAP_OK || w->opcode == DIW_OP_READ_REQUEST)
			continue;
		w->status = DIW_RDMAP_UNSENT;
		w->fault = (uint16_t)errnum;
	}
}

/* A program that asks for no completion need not look for any: what the kernel refused of its requests must not keep
 * the others from being sent. */
static bool may_be_silent(const struct diw_rdmap_wr *w)
{
	return !w->signaled && w->status == DIW_RDMAP_UNSENT;
}

bool diw_sq_retire(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);

	while (head != atomic_load_explicit(&sq->next, memory_order_relaxed)) {
		const struct diw_rdmap_wr *w = slot_at(sq, head);
		bool told;

		if (qp->type == DIW_QP_RC ? w->pending || diw_confirm_holds(qp, w) : is_staged(qp, w))
			break;
		told = w->signaled || w->status != DIW_RDMAP_OK;
		if (told && !diw_qp_up.send_room(qp)) {
			if (!may_be_silent(w))
				return false;
			told = false;
		}
		leave(qp, w, ++head, told, w->status);
	}
	return true;
}

static int run_rc_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), tail;

	if (!diw_sq_retire(qp))
		return -ENOBUFS;
	while (next != (tail = atomic_load_explicit(&sq->tail, memory_order_acquire)) && may_begin(qp)) {
		struct diw_rdmap_wr *w = slot_at(sq, next);
		uint8_t status;
		int rc;

		if (answer_never_comes(qp, w)) {
			qp->rc.last = true;
			break;
		}
		w->dst = qp->rdmap.ddp.cfg.peer;
		if (!qp->rdmap.tx.active && !qp->rdmap.rc.imm_next && diw_rdmap_rc_tell_rnr(&qp->rdmap, now) < 0)
			return -EAGAIN;
		diw_confirm_begin(qp, w, next + 1 != tail ? slot_at(sq, next + 1) : NULL);
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

/* The peer's Terminate refuses the request that it quotes, and what is older is placed; if it quotes none, the oldest
 * that the peer has not confirmed: what it refused is that one or a younger. A Write alone needs no receive. */
void diw_sq_refuse(struct diw_qp *qp, uint16_t fault)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), quoted = head;

	while (quoted != next && slot_at(sq, quoted)->status != DIW_RDMAP_REFUSED)
		quoted++;
	for (uint32_t i = head; i != quoted; i++) {
		struct diw_rdmap_wr *w = slot_at(sq, i);

		if (!diw_confirm_holds(qp, w))
			continue;
		w->unconfirmed = false;
		if (quoted != next || (fault == DIW_FAULT_NO_BUFFER && w->opcode == DIW_OP_WRITE && !w->imm_valid))
			continue;
		w->status = DIW_RDMAP_REFUSED;
		w->fault = fault;
		return;
	}
}

void diw_sq_flush(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t tail = atomic_load_explicit(&sq->tail, memory_order_acquire);
	bool failed = false;                    /* nothing succeeds behind a request that did not */

	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != tail; i++) {
		struct diw_rdmap_wr *w = slot_at(sq, i);
		bool executed = i - atomic_load_explicit(&sq->next, memory_order_relaxed) >= sq->depth;

		if (qp->type != DIW_QP_RC) {
			executed &= !is_staged(qp, w);
			w->seq = qp->link->left;
		}
		if (diw_confirm_holds(qp, w)) {
			w->unconfirmed = false;
			w->status = DIW_RDMAP_FLUSHED;
		} else if (w->pending) {
			diw_rdmap_rc_finish(&qp->rdmap, w, DIW_RDMAP_FLUSHED);
		} else if (!executed || (failed && w->status == DIW_RDMAP_OK)) {
			w->status = DIW_RDMAP_FLUSHED;
		}
		failed |= w->status != DIW_RDMAP_OK;
	}
	atomic_store_explicit(&sq->next, tail, memory_order_relaxed);
	qp->rc.wanted = qp->rc.asked = qp->rdmap.rc.place.placed;
	diw_sq_retire(qp);
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
	diw_qp_after_send(qp);
	if (qp->type == DIW_QP_RC) {
		diw_rc_settle(qp, now);
	} else {
		if (has_executed(qp))
			diw_sq_retire(qp);
		if (qp->rdmap.reads->unsent)
			diw_rdmap_reads_settle(&qp->rdmap);
	}
	diw_sq_tell_drained(qp);
}

/* A Read of UD has left the queue when it was asked. */
bool diw_sq_busy(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;

	return r->tx.active || r->rc.imm_next || has_executed(qp) ||
	       (r->reads && !(diw_list_empty(&r->reads->active) && diw_list_empty(&r->reads->done)));
}

void diw_sq_tell_drained(struct diw_qp *qp)
{
	if (!qp->tell_drained || diw_sq_busy(qp))
		return;
	qp->tell_drained = false;
	diw_dev_event(qp->dev, &(struct diw_event){ .type = DIW_EVENT_SQ_DRAINED, .qp = qp, .ctx = qp->ctx });
}

/* When the send queue may go on by itself: at once, when the rate limit allows, or not by the clock. */
uint64_t diw_sq_deadline(const struct diw_qp *qp)
{
	if (!qp->more || qp->blocked)
		return DIW_NEVER;
	if (!qp->rate || qp->tokens > 0)
		return qp->type == DIW_QP_UC ? diw_rdmap_flow_deadline(&qp->rdmap) : 0;
	return qp->rate_at + (uint64_t)((double)(1 - qp->tokens) * (double)DIW_S / (double)qp->rate) + 1;
}

void diw_qp_run(struct diw_qp *qp, uint64_t now)
{
	qp->member.starved = qp->rdmap.ddp.order.waiting;
	diw_rdmap_timers(&qp->rdmap, now);
	diw_qp_run_sends(qp, STEP_SHARE, now);
	qp->member.deadline = diw_qp_deadline(qp, true);
	diw_engine_hasten(&qp->dev->engine, qp->member.deadline);
}
