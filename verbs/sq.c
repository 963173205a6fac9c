/* SPDX-License-Identifier: BSD-2-Clause */
/* Send queues: post_send fills slots under the posters' lock; whoever holds the device's lock executes them in order.
 * */
#include <errno.h>
#include <stdlib.h>

#include "base/trace.h"
#include "verbs/qp.h"

/* Bytes of segments that one queue pair sends before another has its turn. */
#define STEP_SHARE (256 << 10)
#define POST_SHARE (4 << 20)

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

static struct diw_rdmap_wr *slot_at(const struct diw_sq *sq, uint32_t i)
{
	return (void *)(sq->slots + (i & sq->mask) * sq->slot_size);
}

/* ---- Posting ---- */

/* By the verbs' opcode: RDMAP's, the completion's, and whose it is. */
static const struct {
	uint8_t opcode, wc;
	unsigned types;
} kinds[] = {
	[DIW_WR_SEND] = { DIW_OP_SEND, DIW_WC_SEND, DIW_TYPE_UD | DIW_TYPE_UC | DIW_TYPE_RC },
	[DIW_WR_WRITE] = { DIW_OP_WRITE, DIW_WC_WRITE, DIW_TYPE_UC | DIW_TYPE_RC },
	[DIW_WR_WRITE_RECORD] = { DIW_OP_WRITE_RECORD, DIW_WC_WRITE_RECORD, DIW_TYPE_UD },
	[DIW_WR_READ] = { DIW_OP_READ_REQUEST, DIW_WC_READ, DIW_TYPE_UD | DIW_TYPE_RC },
	[DIW_WR_FETCH_ADD] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_FETCH_ADD, DIW_TYPE_RC },
	[DIW_WR_CMP_SWAP] = { DIW_OP_ATOMIC_REQUEST, DIW_WC_CMP_SWAP, DIW_TYPE_RC },
	[DIW_WR_LOCAL_INV] = { DIW_OP_LOCAL_INV, DIW_WC_LOCAL_INV, DIW_TYPE_RC },
	[DIW_WR_BIND_MW] = { DIW_OP_BIND_MW, DIW_WC_BIND_MW, DIW_TYPE_RC },
};

static uint32_t length_limit(const struct diw_qp *qp, int opcode)
{
	if (qp->type == DIW_QP_RC)
		return DIW_MAX_RC;
	return opcode == DIW_OP_SEND ? DIW_MAX_SEND : opcode == DIW_OP_READ_REQUEST ? DIW_MAX_READ : DIW_MAX_RDMA;
}

static int check_rc(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	const unsigned remote = DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_REMOTE_ATOMIC;

	bool told = qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING || !qp->rc.early;

	if (qp->state == DIW_QPS_IDLE && !qp->rc.early)
		return -ENOTCONN;
	if ((wr->flags & DIW_SEND_INVALIDATE) && opcode != DIW_OP_SEND && opcode != DIW_OP_READ_REQUEST)
		return -EINVAL;
	if (opcode == DIW_OP_ATOMIC_REQUEST &&
	    (wr->num_sge != 1 || len != 8 || wr->to % 8 || (wr->flags & DIW_SEND_INLINE)))
		return -EINVAL;
	if (opcode == DIW_OP_BIND_MW &&
	    (!wr->bind.mw || (!wr->bind.mr && wr->bind.length) || (wr->bind.access & ~remote)))
		return -EINVAL;
	if ((wr->flags & DIW_SEND_IMM) && opcode != DIW_OP_SEND && opcode != DIW_OP_WRITE)
		return -EINVAL;
	if (qp->state != DIW_QPS_ERROR && told && !qp->rdmap.rc.rfc7306 &&
	    ((wr->flags & DIW_SEND_IMM) || opcode == DIW_OP_ATOMIC_REQUEST))
		return -EOPNOTSUPP;
	if ((qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING) && qp->rdmap.rc.ord == 0 &&
	    (opcode == DIW_OP_READ_REQUEST || opcode == DIW_OP_ATOMIC_REQUEST))
		return -EOPNOTSUPP;
	return opcode;
}

/* The opcode, or why it cannot be posted. */
static int check(const struct diw_qp *qp, const struct diw_send_wr *wr, uint64_t *len)
{
	const unsigned rc_flags = DIW_SEND_FENCE | DIW_SEND_INVALIDATE;
	const unsigned known = DIW_SEND_SIGNALED | DIW_SEND_SOLICITED | DIW_SEND_INLINE | DIW_SEND_IMM | DIW_SEND_MORE |
			       (qp->type == DIW_QP_RC ? rc_flags : 0);
	int opcode;

	if ((unsigned)wr->opcode >= sizeof kinds / sizeof *kinds || !(kinds[wr->opcode].types & qp->rdmap.type))
		return -EINVAL;
	opcode = kinds[wr->opcode].opcode;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->sq.max_sge || (wr->flags & ~known) ||
	    (wr->num_sge && !wr->sge))
		return -EINVAL;
	if (qp->type == DIW_QP_UD && (wr->dst.port == 0 || diw_addr_ip_is_zero(&wr->dst)))
		return -EINVAL;
	*len = 0;
	for (int i = 0; i < wr->num_sge; i++)
		*len += wr->sge[i].length;
	if (*len > length_limit(qp, opcode) || ((wr->flags & DIW_SEND_INLINE) && *len > qp->sq.max_inline))
		return -EINVAL;
	if (opcode != DIW_OP_SEND && wr->to + *len < wr->to)
		return -EINVAL;
	if (opcode == DIW_OP_READ_REQUEST && ((wr->flags & (DIW_SEND_INLINE | DIW_SEND_IMM)) || wr->timeout_ns < 0))
		return -EINVAL;
	return qp->type == DIW_QP_RC ? check_rc(qp, wr, opcode, *len) : opcode;
}

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
	int opcode = check(qp, wr, &len);

	if (opcode < 0)
		return opcode;
	if (tail - atomic_load_explicit(&sq->head, memory_order_acquire) == sq->depth)
		return -ENOMEM;
	w = slot_at(sq, tail);
	w->wr_id = wr->wr_id;
	w->opcode = (uint8_t)opcode;
	w->wc_opcode = kinds[wr->opcode].wc;
	w->signaled = qp->sig_all || (wr->flags & DIW_SEND_SIGNALED);
	w->imm_valid = wr->flags & DIW_SEND_IMM;
	w->solicited = wr->flags & DIW_SEND_SOLICITED;
	w->pending = w->unconfirmed = false;
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

/* The send half, by the poster itself if the lock is free; else its holder sees `pending` when it unlocks. Who gets the
 * lock at the second try leaves `pending` as it is, since others may rely on it. */
static void run_now(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	uint64_t now;

	if (pthread_mutex_trylock(&dev->lock) != 0) {
		atomic_store(&dev->pending, true);
		if (pthread_mutex_trylock(&dev->lock) != 0)
			return;
	}
	now = diw_dev_forward(dev, diw_dev_now(dev));
	diw_qp_run_sends(qp, POST_SHARE, now);
	qp->deadline = diw_min64(qp->deadline, diw_qp_deadline(qp, true));
	diw_dev_hasten(dev, qp->deadline);
	if (dev->leader && qp->stat)            /* it sleeps already */
		diw_stat_gauges(qp);
	diw_dev_unlock(dev);
}

static int post_list(struct diw_qp *qp, const struct diw_send_wr *wr, const struct diw_send_wr **bad, bool all)
{
	struct diw_sq *sq = &qp->sq;
	bool run = false;
	uint32_t tail;
	int rc = 0;

	if (!diw_dev_alive(qp->dev))
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
	return !qp->hold || qp->rdmap.tx.active || qp->rdmap.rc.imm_next;
}

/* Datagrams: a request is complete when it is executed; Reads go on by themselves. Returns why it stopped: 0 the queue
 * is empty, else -errno as diw_rdmap_send, -ENOBUFS no room for a completion. */
static int run_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);

	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) && may_begin(qp)) {
		struct diw_rdmap_wr *w = slot_at(sq, next);
		bool read = w->opcode == DIW_OP_READ_REQUEST;
		uint8_t status;
		int rc;

		if (w->signaled && !read && !diw_qp_up.send_room(qp))
			return -ENOBUFS;
		rc = diw_rdmap_send(&qp->rdmap, w, budget, &status, now);
		if (rc < 0)
			return rc;
		if (status != DIW_RDMAP_OK && !diw_qp_up.send_room(qp))
			return -ENOBUFS;
		atomic_store_explicit(&sq->next, ++next, memory_order_relaxed);
		leave(qp, w, next, status != DIW_RDMAP_OK || (w->signaled && !read), status);
	}
	return 0;
}

/* Complete, in order, what is done. False: no room for a completion. */
static bool retire(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);

	while (head != atomic_load_explicit(&sq->next, memory_order_relaxed)) {
		const struct diw_rdmap_wr *w = slot_at(sq, head);
		bool told;

		if (w->pending)
			break;
		told = w->signaled || w->status != DIW_RDMAP_OK;
		if (told && !diw_qp_up.send_room(qp))
			return false;
		leave(qp, w, ++head, told, w->status);
	}
	return true;
}

/* Somebody waits for its completion, and it is one that TCP's word is not enough for. */
static void doubt(struct diw_qp *qp, struct diw_rdmap_wr *w)
{
	if (!qp->rc.confirm || !w->signaled || qp->rdmap.rc.ord == 0 ||
	    (w->opcode != DIW_OP_SEND && w->opcode != DIW_OP_WRITE))
		return;
	w->pending = w->unconfirmed = true;
	qp->rc.unconfirmed++;
}

/* What the probe's answer confirms. */
static void collect(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;

	if (!qp->rc.asked || qp->rdmap.rc.probe->pending)
		return;
	qp->rc.asked = false;
	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != qp->rc.asked_for; i++) {
		struct diw_rdmap_wr *w = slot_at(sq, i);

		qp->rc.unconfirmed -= w->unconfirmed;
		w->pending &= !w->unconfirmed;
		w->unconfirmed = false;
	}
}

/* One probe at a time: what is sent meanwhile, the next one confirms. */
static void ask(struct diw_qp *qp, uint64_t now)
{
	const struct diw_rdmap *r = &qp->rdmap;

	if (!qp->rc.unconfirmed || qp->rc.asked || r->tx.active || r->rc.imm_next || r->rc.answer_tx.active ||
	    diw_rdmap_rc_probe(&qp->rdmap, now) < 0)
		return;
	qp->rc.asked = true;
	qp->rc.asked_for = atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
}

static int run_rc_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed);

	if (!retire(qp))
		return -ENOBUFS;
	while (next != atomic_load_explicit(&sq->tail, memory_order_acquire) && may_begin(qp)) {
		struct diw_rdmap_wr *w = slot_at(sq, next);
		uint8_t status;
		int rc;

		w->dst = qp->rdmap.ddp.cfg.peer;
		rc = diw_rdmap_send(&qp->rdmap, w, budget, &status, now);
		if (rc < 0)
			return rc;
		if (!w->pending)
			w->status = status;
		if (status == DIW_RDMAP_OK)
			doubt(qp, w);
		atomic_store_explicit(&sq->next, ++next, memory_order_relaxed);
		if (status != DIW_RDMAP_OK) {
			diw_fault_count(qp->c, DIW_FAULT_REQUEST);
			diw_rc_error(qp, DIW_FAULT_REQUEST, false, 0, now);
			return 0;
		}
		if (!retire(qp))
			return -ENOBUFS;
	}
	return 0;
}

/* The peer's Terminate refuses the request that it quotes, and what is older is placed; if it quotes none, the oldest
 * that the peer has not confirmed: what it refused is that one or a younger. */
void diw_sq_refuse(struct diw_qp *qp, uint16_t fault)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t head = atomic_load_explicit(&sq->head, memory_order_relaxed);
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), quoted = head;

	while (quoted != next && slot_at(sq, quoted)->status != DIW_RDMAP_REFUSED)
		quoted++;
	for (uint32_t i = head; i != quoted; i++) {
		struct diw_rdmap_wr *w = slot_at(sq, i);

		if (!w->unconfirmed)
			continue;
		w->pending = w->unconfirmed = false;
		if (quoted != next)
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

		if (w->unconfirmed) {
			w->pending = w->unconfirmed = false;
			w->status = DIW_RDMAP_FLUSHED;
		} else if (w->pending) {
			diw_rdmap_rc_finish(&qp->rdmap, w, DIW_RDMAP_FLUSHED);
		} else if (!executed || (failed && w->status == DIW_RDMAP_OK)) {
			w->status = DIW_RDMAP_FLUSHED;
		}
		failed |= w->status != DIW_RDMAP_OK;
	}
	atomic_store_explicit(&sq->next, tail, memory_order_relaxed);
	qp->rc.unconfirmed = 0;
	qp->rc.asked = false;
	retire(qp);
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
		*rc = retire(qp) ? 0 : -ENOBUFS;
		return;
	}
	if (answers_first)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
	collect(qp);
	if (!r->rc.answer_tx.active && *rc_answers != -EAGAIN)
		*rc = run_rc_queue(qp, budget, now);
	if (*rc != -EAGAIN && *rc_answers != -EAGAIN)
		ask(qp, now);
	if (!answers_first && !r->tx.active && *rc != -EAGAIN)
		*rc_answers = diw_rdmap_answer(&qp->rdmap, budget, now);
}

void diw_qp_run_sends(struct diw_qp *qp, int64_t share, uint64_t now)
{
	int64_t budget = share, had;
	int rc = 0, rc_answers = 0;
	bool answers_first = qp->answers_first;

	if (qp->type == DIW_QP_RC && !diw_rc_may_send(qp, now)) {
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
	if (qp->type == DIW_QP_RC)
		diw_rc_settle(qp, now);
	diw_sq_tell_drained(qp);
}

/* A Read of UD has left the queue when it was asked. */
bool diw_sq_busy(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;

	return r->tx.active || r->rc.imm_next ||
	       (r->reads && !(diw_list_empty(&r->reads->active) && diw_list_empty(&r->reads->done))) ||
	       atomic_load_explicit(&qp->sq.head, memory_order_relaxed) !=
	       atomic_load_explicit(&qp->sq.next, memory_order_relaxed);
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
	qp->starved = qp->rdmap.ddp.order.waiting;
	diw_rdmap_timers(&qp->rdmap, now);
	diw_qp_run_sends(qp, STEP_SHARE, now);
	qp->deadline = diw_qp_deadline(qp, true);
	diw_dev_hasten(qp->dev, qp->deadline);
}
