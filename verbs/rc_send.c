/* SPDX-License-Identifier: BSD-2-Clause */
/* Send requests of an RC queue pair, from the post until they are complete. */
#include <errno.h>

#include "base/log.h"
#include "verbs/confirm.h"
#include "verbs/qp.h"

/* The longest time that a request which fails within its message waits for the requests before it. */
#define FAIL_NS (10 * DIW_S)

/* ---- Posting ---- */

int diw_rc_check_send(const struct diw_qp *qp, const struct diw_send_wr *wr, int opcode, uint64_t len)
{
	bool told = qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING || !qp->rc.early;

	if (qp->state == DIW_QPS_IDLE && !qp->rc.early)
		return diw_fail(-ENOTCONN, "diw_post_send: the queue pair is not connected");
	if (diw_sq_check_reliable(wr, opcode, len) < 0)
		return -EINVAL;
	if (qp->state != DIW_QPS_ERROR && told && !diw_rdmap_rc_rfc7306(&qp->rdmap) &&
	    ((wr->flags & DIW_SEND_IMM) || opcode == DIW_OP_ATOMIC_REQUEST))
		return diw_fail(-EOPNOTSUPP, "diw_post_send: the peer takes no immediates and atomics (RFC 7306)");
	if ((qp->state == DIW_QPS_RTS || qp->state == DIW_QPS_CLOSING) && diw_rdmap_rc_ord(&qp->rdmap) == 0 &&
	    (opcode == DIW_OP_READ_REQUEST || opcode == DIW_OP_ATOMIC_REQUEST))
		return diw_fail(-EOPNOTSUPP, "diw_post_send: a Read or atomic, and ORD is 0");
	return opcode;
}

/* Leaves the destination empty: the queue pair may be connected later, and execution sets the peer. */
void diw_rc_fill(const struct diw_qp *qp, struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	(void)qp;
	w->dst = (struct diw_dest){ 0 };
	diw_sq_fill_reliable(w, wr);
}

/* ---- Running ---- */

static bool may_begin(const struct diw_qp *qp)
{
	return (!qp->hold && !diw_rc_is(qp, DIW_RC_LAST)) || diw_rdmap_is_sending(&qp->rdmap);
}

/* Whether the request needs an answer, or waits behind one that does, while the peer's half has ended. */
static bool answer_never_comes(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	return diw_rc_is(qp, DIW_RC_PEER_ENDED) && !diw_rdmap_is_sending(&qp->rdmap) &&
	       (diw_wr_has_response(w) || (w->fence && diw_rdmap_rc_pending(&qp->rdmap)));
}

/* Whether the requests before one that cannot be executed are still to be answered. The failure ends the connection, so
 * it waits for them. Within a message no question and no answer can leave, and the peer may be in the same position:
 * the failure waits only for what is under way, and for a limited time. */
static bool fails_later(struct diw_qp *qp, uint64_t now)
{
	bool pending = diw_rdmap_rc_pending(&qp->rdmap), waits = pending || diw_confirm_waits(qp);

	if (!waits || diw_rc_is(qp, DIW_RC_PEER_ENDED))
		return false;
	if (!diw_rdmap_is_sending(&qp->rdmap))
		return true;
	if (!qp->rc.fails_at)
		qp->rc.fails_at = now + FAIL_NS;
	return now < qp->rc.fails_at && (pending || diw_confirm_asked(qp));
}

static int run_rc_queue(struct diw_qp *qp, int64_t *budget, uint64_t now)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t next = atomic_load_explicit(&sq->next, memory_order_relaxed), tail;

	if (!diw_sq_retire(qp)) {
		qp->rc.fails_at = 0;            /* the program has to take completions first */
		return -ENOBUFS;
	}
	while (next != (tail = atomic_load_explicit(&sq->tail, memory_order_acquire)) && may_begin(qp)) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, next);
		uint8_t status;
		int rc;

		if (answer_never_comes(qp, w)) {
			diw_rc_move(qp, DIW_RC_FINISHING);
			break;
		}
		w->dst = *diw_rdmap_peer(&qp->rdmap);
		if (!diw_rdmap_is_sending(&qp->rdmap) && diw_rdmap_rc_tell_rnr(&qp->rdmap, now) < 0)
			return -EAGAIN;
		diw_confirm_begin(qp, w, next + 1 != tail ? diw_sq_slot(sq, next + 1) : NULL);
		qp->link->stays = true;         /* until the request has left */
		rc = diw_rdmap_rc_send(&qp->rdmap, w, budget, &status, now);
		qp->link->stays = false;
		if (status == DIW_RDMAP_OK)
			qp->rc.fails_at = 0;
		if (rc < 0)
			return rc;
		if (status != DIW_RDMAP_OK && fails_later(qp, now))
			return -ENOSPC;
		if (!w->pending) {
			w->first = qp->link->taken;
			w->status = status;
		}
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

/* A begun message continues before another one begins. After the end of our half none begins: new requests are flushed
 * with the others. After a fault only answers are sent. */
void diw_rc_run(struct diw_qp *qp, int64_t *budget, int *rc, int *rc_answers, uint64_t now)
{
	const struct diw_rdmap *r = &qp->rdmap;
	bool answers_first = diw_rdmap_rc_answering(r) || (!diw_rdmap_is_sending(r) && !qp->answers_first);

	if (diw_rc_is(qp, DIW_RC_DRAINS)) {
		*rc_answers = diw_rdmap_rc_answer(&qp->rdmap, budget, now);
		return;
	}
	if (diw_rc_is(qp, DIW_RC_IS_SHUT)) {
		*rc = diw_sq_retire(qp) ? 0 : -ENOBUFS;
		return;
	}
	if (answers_first)
		*rc_answers = diw_rdmap_rc_answer(&qp->rdmap, budget, now);
	if (!diw_rdmap_rc_answering(r) && *rc_answers != -EAGAIN)
		*rc = run_rc_queue(qp, budget, now);
	if (*rc != -EAGAIN && *rc_answers != -EAGAIN)
		diw_confirm_run(qp, now);
	if (!answers_first && !diw_rdmap_is_sending(r) && *rc != -EAGAIN)
		*rc_answers = diw_rdmap_rc_answer(&qp->rdmap, budget, now);
}

/* ---- The end of a request ---- */

/* Whether the link has octets of W that the stream has not taken. What has its response has left. */
static bool link_holds(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	const struct diw_link *l = qp->link;

	return l && l->left != l->taken && !diw_wr_has_response(w) && (int32_t)(w->first - l->left) > 0;
}

/* In state ERROR a request that failed waits for the flush. */
bool diw_rc_outstanding(const struct diw_qp *qp, const struct diw_rdmap_wr *w)
{
	if (w->status == DIW_RDMAP_FLUSHED && qp->rc.flush_at)
		return true;
	return w->pending || diw_confirm_holds(qp, w) || link_holds(qp, w);
}

void diw_rc_lose(struct diw_qp *qp)
{
	struct diw_sq *sq = &qp->sq;
	uint32_t end = atomic_load_explicit(&sq->next, memory_order_relaxed);

	for (uint32_t i = atomic_load_explicit(&sq->head, memory_order_relaxed); i != end; i++) {
		struct diw_rdmap_wr *w = diw_sq_slot(sq, i);

		if (w->status == DIW_RDMAP_OK && link_holds(qp, w))
			w->status = DIW_RDMAP_FLUSHED;
	}
}

bool diw_rc_give_up(struct diw_qp *qp, struct diw_rdmap_wr *w, bool executed)
{
	bool held = diw_confirm_holds(qp, w);

	if (w->pending && !held)
		diw_rdmap_rc_finish(&qp->rdmap, w, DIW_RDMAP_FLUSHED);
	w->unconfirmed &= !held;
	return executed && !held;
}
