/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting to a send queue: slots are filled under the posters' lock, and requests executed under the device's lock. */
#include <errno.h>

#include "base/trace.h"
#include "verbs/qp.h"

#define POST_SHARE (4 << 20)         /* bytes of segments that a post sends before the turn of another queue pair */
#define WAITING_MOST 16u             /* posts of a burst that wait to be executed together */
#define WAITING_LEN 1024u            /* octets of a request that waits: 16 of them are still in the cache then */
#define APPEND_LOOKS 8u              /* one in so many appends to a Send looks at the clock, the first among them */

static void wr_copy_payload(struct diw_sq *sq, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
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
		if (wr->sge[i].length == 0)     /* its address may be NULL */
			continue;
		memcpy(p, wr->sge[i].addr, wr->sge[i].length);
		p += wr->sge[i].length;
	}
	w->buf.n = 0;
	w->inline_data = data;
}

/* One call, so far. */
struct post {
	uint32_t n;                  /* requests that have slots, */
	uint64_t octets;             /* and those of their payloads */
	bool run;                    /* they are to be executed */
};

/* Fills the slot TAIL, which no other thread reads yet. */
static int send_post_one(struct diw_qp *qp, const struct diw_send_wr *wr, uint32_t tail, struct post *p)
{
	struct diw_sq *sq = &qp->sq;
	struct diw_rdmap_wr *w;
	uint64_t len;
	int opcode = diw_sq_check(qp, wr, &len);

	if (opcode < 0)
		return opcode;
	if (tail - atomic_load_explicit(&sq->head, memory_order_acquire) >= sq->depth)
		return -ENOMEM;
	w = diw_sq_slot(sq, tail);
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
	w->timeout = (uint64_t)wr->timeout_ns;
	w->buf.len = (uint32_t)len;
	wr_copy_payload(sq, w, wr);
	qp->ops->fill(qp, w, wr);
	DIW_TRACE_POST_SEND(qp->c, wr->wr_id, wr->opcode, w->buf.len, w->dst.addr.port);
	p->n++;
	p->octets += len;
	return 0;
}

/* Whether the super-buffer or write may stay open behind the post. The ring keeps room: a program that posts on must
 * not find it full of requests that have not left. */
static bool post_continues(struct diw_qp *qp, uint64_t now)
{
	const struct diw_sq *sq = &qp->sq;
	uint32_t posted = atomic_load_explicit(&sq->tail, memory_order_relaxed) -
			  atomic_load_explicit(&sq->head, memory_order_relaxed);

	return qp->link && !qp->blocked && posted <= sq->depth / 2 &&
	       diw_engine_in_burst(&qp->dev->engine, &qp->member, now);
}

/* Whether a post of one short request in a burst waits to be executed with the next ones, which takes less time than to
 * execute each alone. */
static bool post_waits(const struct diw_qp *qp, const struct post *p)
{
	return qp->burst && p->n == 1 && p->octets <= WAITING_LEN && qp->nwaiting < WAITING_MOST;
}

/* A post that has sent takes as long as its system call: the time at which it ends is read anew. */
static void post_ends(struct diw_qp *qp, uint64_t now)
{
	struct diw_engine *e = &qp->dev->engine;

	if (!qp->link)
		return;
	qp->member.posted_at = qp->burst ? now : diw_engine_now(e);
	qp->member.post_step = e->steps;
	qp->burst = false;
}

static void post_execute(struct diw_qp *qp, uint64_t now)
{
	struct diw_engine *e = &qp->dev->engine;

	diw_engine_take_posts(e, &qp->member);
	diw_qp_run_sends(qp, POST_SHARE, now);
	diw_engine_due_at(e, &qp->member, diw_min64(qp->member.deadline, diw_qp_deadline(qp, true)));
	/* The leader already sleeps, so it does not write the states, unless it looks again soon. */
	if (diw_engine_is_led(e) && qp->stat && !diw_engine_has_unflushed(e))
		diw_stat_gauges(qp);
}

/* The request posted last waits: if it is a Send of inline octets, it takes more of them. */
static void send_open(struct diw_sq *sq)
{
	uint32_t last = atomic_load_explicit(&sq->tail, memory_order_relaxed) - 1;
	const struct diw_rdmap_wr *w = diw_sq_slot(sq, last);

	diw_sq_close(sq);
	if (w->opcode != DIW_OP_SEND || !w->inline_data)
		return;
	sq->appends = 0;
	atomic_store_explicit(&sq->open, (uint64_t)last << 32 | w->buf.len, memory_order_relaxed);
}

/* Runs the send half of the step. The poster does it if the lock is free; otherwise the holder of the lock does when it
 * unlocks. */
static void post_run(struct diw_qp *qp, const struct post *p)
{
	struct diw_engine *e = &qp->dev->engine;
	uint64_t now;

	if (!diw_engine_lock_or_leave(e))
		return;
	now = diw_engine_forward(e, diw_engine_now(e));
	qp->burst = post_continues(qp, now);
	if (post_waits(qp, p)) {
		qp->nwaiting++;
		diw_engine_flush_later(e, &qp->member, now);
		send_open(&qp->sq);
	} else {
		post_execute(qp, now);
	}
	post_ends(qp, now);
	diw_engine_unlock(e);
}

static bool list_binds(const struct diw_send_wr *wr)
{
	while (wr && wr->opcode != DIW_WR_BIND_MW)
		wr = wr->next;
	return wr;
}

/* Whether all of the list can be posted: 0 or -errno. The slot TAIL would be the first. */
static int list_check(struct diw_qp *qp, const struct diw_send_wr *wr, uint32_t tail)
{
	const struct diw_sq *sq = &qp->sq;
	uint32_t used = tail - atomic_load_explicit(&sq->head, memory_order_acquire);
	uint32_t room = used < sq->depth ? sq->depth - used : 0;
	uint64_t len;
	int rc = 0;

	for (; wr && rc >= 0; wr = wr->next) {
		rc = diw_sq_check(qp, wr, &len);
		if (rc >= 0 && room-- == 0)
			rc = -ENOMEM;
	}
	return rc < 0 ? rc : 0;
}

/* Fills slots as far as there is room, and moves *WR to the first request that has none. ALL: no slot counts as filled
 * unless all do, and *WR stays. */
static int slots_fill(struct diw_qp *qp, const struct diw_send_wr **wr, bool all, struct post *p)
{
	const struct diw_send_wr *w = *wr;
	struct diw_sq *sq = &qp->sq;
	uint32_t tail;
	int rc = 0;

	pthread_mutex_lock(&sq->post);
	tail = atomic_load_explicit(&sq->tail, memory_order_relaxed);
	if (all && list_binds(w))               /* to fill the slot of a bind changes the window */
		rc = list_check(qp, w, tail);
	for (; w && rc == 0; w = rc == 0 ? w->next : w) {
		rc = send_post_one(qp, w, tail, p);
		tail += rc == 0;
		p->run = rc < 0 || !(w->flags & DIW_SEND_MORE);
	}
	if (rc == 0 || !all) {
		atomic_store_explicit(&sq->tail, tail, memory_order_release);
		*wr = w;
	}
	pthread_mutex_unlock(&sq->post);
	return rc;
}

static int post_list(struct diw_qp *qp, const struct diw_send_wr *wr, const struct diw_send_wr **bad, bool all)
{
	struct diw_engine *e = &qp->dev->engine;
	struct post p = { 0 };
	int rc;

	if (!diw_engine_alive(e))
		return -ENODEV;
	rc = slots_fill(qp, &wr, all, &p);
	/* Requests that wait to leave have the room that they would not have if each post sent. */
	if (rc == -ENOMEM && diw_engine_has_unflushed(e)) {
		diw_engine_flush_try(e);
		rc = slots_fill(qp, &wr, all, &p);
	}
	if (rc < 0 && bad)
		*bad = wr;
	if (p.run)
		post_run(qp, &p);
	else
		diw_engine_leave_post(e, &qp->member);
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

/* ---- Octets for a Send that waits ---- */

/* Whether LEN octets can join the Send of the slot W, which has HAD. The executor changes none of what is read. */
static bool append_fits(const struct diw_sq *sq, const struct diw_rdmap_wr *w, uint32_t had, const struct diw_addr *dst,
			uint32_t len)
{
	return had <= sq->max_inline && len <= sq->max_inline - had && (!dst || diw_addr_eq(&w->dst.addr, dst));
}

/* Whether the Send may wait on. To save time, only one append in APPEND_LOOKS looks at the clock. */
static bool append_is_due(struct diw_qp *qp)
{
	struct diw_engine *e = &qp->dev->engine;
	uint64_t now;

	if (qp->sq.appends++ % APPEND_LOOKS != 0)
		return true;
	now = diw_engine_now(e);
	if (!diw_engine_burst_lasts(e, &qp->member, now))
		return false;
	qp->member.posted_at = now;
	return true;
}

/* The lock is not needed: the executor closes the Send first, and reads what was appended before. */
int diw_post_append(struct diw_qp *qp, const struct diw_addr *dst, const void *data, uint32_t len)
{
	struct diw_sq *sq = &qp->sq;
	uint64_t open = atomic_load_explicit(&sq->open, memory_order_relaxed);
	uint32_t at = (uint32_t)(open >> 32), had = (uint32_t)open;
	const struct diw_rdmap_wr *w = diw_sq_slot(sq, at);

	if (!diw_engine_alive(&qp->dev->engine))
		return -ENODEV;
	if (open == DIW_SQ_CLOSED || at + 1 != atomic_load_explicit(&sq->tail, memory_order_relaxed) ||
	    !append_fits(sq, w, had, dst, len) || !append_is_due(qp))
		return -EAGAIN;
	memcpy((uint8_t *)(uintptr_t)w->inline_data + had, data, len);
	if (!atomic_compare_exchange_strong_explicit(&sq->open, &open, open + len, memory_order_release,
						     memory_order_relaxed))
		return -EAGAIN;
	__atomic_store_n(&qp->c->tx_appended, qp->c->tx_appended + 1, __ATOMIC_RELAXED); /* by no other thread */
	return 0;
}
