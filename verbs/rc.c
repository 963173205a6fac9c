/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC queue pairs, from the end of the negotiation to the end of the stream. A fault may be found deep within the
 * processing of received segments. diw_rc_error() then only changes the phase, and diw_rc_settle() acts on it after the
 * processing.
 */
#include "verbs/rc.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault.h"
#include "base/log.h"
#include "verbs/confirm.h"
#include "verbs/qp.h"

/* The time that the peer has to end its half: after diw_disconnect(); after a Terminate, which a reset could
 * overtake. */
#define CLOSE_NS (10 * DIW_S)
#define DRAIN_NS DIW_S
#define TAKE_NS DIW_MS               /* between two looks at whether the completions before a flush are taken */
#define LOOK_NS (100 * DIW_MS)       /* between two looks at the end of a stream that waits for the program */

#define RC_ERRORS 4                  /* entries of the error queue: the first fault ends the connection */

/* ---- Begin ---- */

/* An impairment loses, delays and damages datagrams. On a stream, TCP would undo that, or end. */
static int rc_check(const struct diw_qp_attr *a)
{
	const char *env = getenv("DIWARP_IMPAIR");

	if (a->impair ? *a->impair : env && *env) {
		diw_log(DIW_LOG_TELL, "diw_qp_create: %s=%s is for datagrams (UD, UC, RD): an RC queue pair is refused",
			a->impair ? "impair" : "DIWARP_IMPAIR", a->impair ? a->impair : env);
		return -EOPNOTSUPP;
	}
	return diw_qp_check_time("rnr_timeout_ns", a->rc.rnr_timeout_ns, 0);
}

static int rc_create(struct diw_qp *qp, const struct diw_qp_attr *a)
{
	qp->rc.mulpdu = a->mulpdu;
	qp->rc.packed = a->rc.packed;
	qp->rc.early = a->rc.early;
	qp->rc.confirm = a->rc.confirm;
	qp->rc.keep = a->rc.keep_recvs;
	qp->rc.tell_end = a->rc.tell_end;
	qp->rc.until = DIW_NEVER;
	return 0;
}

static int open_link(struct diw_qp *qp, const struct diw_rc_start *s)
{
	struct diw_dev *dev = qp->dev;
	struct diw_mpa_attr a = {
		.stream = s->stream, .c = qp->c, .crc = s->crc, .tx_markers = s->tx_markers,
		.rx_markers = s->rx_markers, .mulpdu = qp->rc.mulpdu, .packed = qp->rc.packed,
		.early = s->early, .early_len = s->early_len,
	};
	int rc = dev->mpa_pool ? 0 : diw_mpa_pool_new(&dev->mpa_pool);

	if (rc < 0)
		return rc;
	a.pool = dev->mpa_pool;
	return diw_mpa_open(&a, &diw_ddp_ordered_up, diw_rdmap_link_ctx(&qp->rdmap), &qp->link);
}

/* Sends the ready-to-receive message; the posted requests follow it. */
static void send_rtr(struct diw_qp *qp, unsigned rtr, uint64_t now)
{
	if (rtr & DIW_RTR_FPDU)
		diw_mpa_send_empty(qp->link, now);
	else if (rtr)
		diw_rdmap_rc_rtr(&qp->rdmap, rtr & DIW_RTR_READ, now);
}

int diw_rc_start(struct diw_qp *qp, const struct diw_rc_start *s, uint64_t now)
{
	int rc = qp->dev->snap_pool ? 0 : diw_rdmap_snap_pool_new(&qp->dev->snap_pool);

	if (rc == 0)
		rc = diw_rdmap_rc_begin(&qp->rdmap, &(struct diw_rdmap_rc_attr){
			.peer = &s->stream->peer, .ird = s->ird, .ord = s->ord, .rfc7306 = s->rfc7306,
			.words = s->words, .initiator = s->initiator, .pool = qp->dev->snap_pool,
			.self = diw_addr_eq(&s->stream->local, &s->stream->peer) });
	if (rc == 0)
		rc = open_link(qp, s);
	if (rc < 0)
		return rc;
	diw_rdmap_set_link(&qp->rdmap, qp->link);
	qp->link->may_lose = qp->rc.confirm;    /* a request that is not complete need not be executed */
	qp->rc.crc = s->crc;
	qp->rc.until = DIW_NEVER;
	diw_rc_move(qp, s->initiator ? DIW_RC_OPEN : DIW_RC_HELD);
	if (s->initiator)
		send_rtr(qp, s->rtr, now);
	qp->want_write = false;
	qp->want_read = true;
	diw_ready_open(&qp->dev->engine, &qp->member);
	diw_stat_show(qp, &s->stream->peer);
	/* Runs posted requests, and segments that have already arrived. */
	diw_engine_due_at(&qp->dev->engine, &qp->member, 0);
	return 0;
}

/* The initiator's first FPDU has come: ends the hold. */
static void end_hold(struct diw_qp *qp)
{
	if (!diw_rc_is(qp, DIW_RC_HOLDS) || !diw_rdmap_rc_seen(&qp->rdmap))
		return;
	diw_rc_move(qp, qp->rc.phase == DIW_RC_HELD ? DIW_RC_OPEN :
		    qp->rc.phase == DIW_RC_HELD_CLOSING ? DIW_RC_CLOSING : DIW_RC_SHUT);
	if (qp->conn)
		qp->conn_up->established(qp);
}

/* After a fault, the answers to the requests before it are still to be sent. */
static bool rc_drains_answers(const struct diw_qp *qp)
{
	return qp->rc.phase == DIW_RC_DRAINING && diw_rdmap_rc_owes_answers(&qp->rdmap);
}

static bool rc_begin(struct diw_qp *qp, uint64_t now)
{
	end_hold(qp);
	if (diw_rc_is(qp, DIW_RC_SENDS) || rc_drains_answers(qp))
		return true;
	qp->more = false;                       /* the remainder of a step's share is not due any more */
	diw_rc_settle(qp, now);
	return false;
}

/* ---- End ---- */

/* Ends our half of the stream, if it has not ended. */
static void rc_shut(struct diw_qp *qp, enum diw_rc_phase to, uint64_t now)
{
	if (!diw_rc_is(qp, DIW_RC_IS_SHUT)) {
		diw_confirm_last(qp, now);
		qp->link->ops->shutdown(qp->link, now);
	}
	diw_rc_move(qp, to);
}

/* The phase of a stream that ends. A broken stream ends at once. Otherwise this end waits until the peer has read the
 * last octets, and has ended the stream. */
static enum diw_rc_phase end_phase(const struct diw_qp *qp, bool told, int errnum)
{
	bool kept = qp->rc.keep && (errnum || !told);

	if (!qp->link)                          /* a failed attempt has nothing to wait for */
		return kept ? DIW_RC_KEPT : DIW_RC_DOWN;
	if (errnum || !told)
		return kept ? DIW_RC_ENDED_KEPT : DIW_RC_ENDED;
	return diw_rc_is(qp, DIW_RC_IS_SHUT) ? DIW_RC_DRAINED : DIW_RC_DRAINING;
}

void diw_rc_error(struct diw_qp *qp, uint16_t fault, bool remote, int errnum, uint64_t now)
{
	bool told = fault || remote;            /* by a Terminate; 0 is a fault too, RDMAP's local catastrophic error */
	enum diw_rc_phase end = end_phase(qp, told, errnum);

	if (qp->state == DIW_QPS_ERROR)
		return;
	if (told || errnum)
		diw_qp_error(qp, &(struct diw_qp_error){ .fault = fault, .remote = remote, .errnum = errnum,
							 .peer = diw_rdmap_peer(&qp->rdmap)->addr });
	qp->rc.until = qp->link ? now + DRAIN_NS : DIW_NEVER;
	qp->rc.fails_at = 0;
	diw_rdmap_stop(&qp->rdmap);
	if (remote || (told && diw_rdmap_rc_is_self(&qp->rdmap)))
		diw_rc_refuse(qp, fault);
	if (qp->link && !told && !errnum)       /* the peer has ended the stream regularly, so this end does */
		rc_shut(qp, end, now);
	else
		diw_rc_move(qp, end);
	if (rc_drains_answers(qp))              /* the program may use the memory when it learns of the fault */
		diw_rdmap_rc_snap(&qp->rdmap);
	diw_engine_due_at(&qp->dev->engine, &qp->member, 0);
	qp->rc.flush_at = diw_rc_is(qp, DIW_RC_KEEPS) ? now + qp->rc.retry_ns : 0;
	qp->rc.behind = errnum || !told;
	qp->rc.last = atomic_load_explicit(&qp->recv_cq->tail, memory_order_relaxed);
	if (!diw_rc_is(qp, DIW_RC_KEEPS))
		diw_qp_tell_last_recv(qp);
	if (qp->conn)
		qp->conn_up->disconnected(qp, fault, errnum ? errnum : told ? EPROTO : 0);
}

void diw_rc_peer_ended(struct diw_qp *qp, uint64_t now)
{
	if (qp->state != DIW_QPS_RTS && qp->state != DIW_QPS_CLOSING) {
		diw_rc_error(qp, 0, false, 0, now);
		return;
	}
	end_hold(qp);
	/* After diw_disconnect() posted requests are still executed, except those that would wait for the peer. */
	diw_rc_move(qp, diw_rc_is(qp, DIW_RC_IS_SHUT) ? DIW_RC_BOTH_SHUT :
		    qp->rc.phase == DIW_RC_CLOSING ? DIW_RC_ANSWERING : DIW_RC_FINISHING);
	qp->rc.until = now + CLOSE_NS;
	diw_engine_due_at(&qp->dev->engine, &qp->member, 0);
}

static void close_link(struct diw_qp *qp)
{
	diw_ready_close(&qp->dev->engine, &qp->member);
	diw_rc_lose(qp);
	qp->link->ops->close(qp->link);
	diw_rdmap_snap_clear(&qp->rdmap);
	qp->link = NULL;
	diw_rdmap_set_link(&qp->rdmap, NULL);
	qp->blocked = qp->more = false;
	qp->rc.until = DIW_NEVER;
}

/* The peer waits for an answer, or something of ours is still to be sent. */
static bool rc_owes(const struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;
	bool requests = !diw_rc_is(qp, DIW_RC_LAST) && !qp->hold && !diw_sq_empty(&qp->sq);

	return requests || diw_rdmap_rc_asked(r) || diw_rdmap_is_sending(r);
}

/* Ends the stream on our side, by which both halves have ended. */
static void settle_peer_ended(struct diw_qp *qp, uint64_t now)
{
	int rc;

	if (qp->rc.phase != DIW_RC_BOTH_SHUT && !rc_owes(qp))
		rc_shut(qp, DIW_RC_BOTH_SHUT, now);
	rc = qp->link->ops->flush(qp->link, now);
	if (rc == 0 && qp->rc.phase == DIW_RC_BOTH_SHUT) {
		diw_rc_error(qp, 0, false, 0, now);
	} else if (rc < 0 && rc != -EAGAIN) {
		diw_fault_count(qp->c, DIW_FAULT_MPA_CLOSED);
		diw_rc_error(qp, DIW_FAULT_MPA_CLOSED, false, -rc, now);
	}
}

/* A slow peer gets more time, a silent one does not. */
static void rc_extend(struct diw_qp *qp, uint64_t ns, uint64_t now)
{
	if (qp->rc.progress == qp->c->tx_bytes)
		return;
	qp->rc.progress = qp->c->tx_bytes;
	qp->rc.until = now + ns;
}

/* After diw_disconnect(), or the end of the peer's half: ends the stream when all has been sent. */
static void settle_closing(struct diw_qp *qp, uint64_t now)
{
	rc_extend(qp, CLOSE_NS, now);
	if (diw_rc_is(qp, DIW_RC_PEER_ENDED))
		settle_peer_ended(qp, now);
	else if (!diw_rc_is(qp, DIW_RC_IS_SHUT) && diw_sq_empty(&qp->sq) && !diw_rdmap_rc_pending(&qp->rdmap) &&
		 !diw_rdmap_rc_asked(&qp->rdmap) && !diw_confirm_waits(qp))
		rc_shut(qp, qp->rc.phase == DIW_RC_CLOSING ? DIW_RC_SHUT : DIW_RC_HELD_SHUT, now);
	if (now >= qp->rc.until)
		diw_rc_error(qp, 0, false, ETIMEDOUT, now);
}

/* Sends the staged octets, and a Terminate behind them. -EAGAIN: the link is blocked. -EBUSY: diw_rc_run() has to send
 * answers before. */
static int rc_flush_last(struct diw_qp *qp, uint64_t now)
{
	int rc = qp->link->ops->flush(qp->link, now);

	if (rc == 0 && rc_drains_answers(qp))
		return -EBUSY;
	if (rc == 0 && qp->rc.phase == DIW_RC_DRAINING)
		rc = diw_rdmap_terminate_rest(&qp->rdmap, now);
	return rc == 0 ? qp->link->ops->flush(qp->link, now) : rc;
}

static void settle_draining(struct diw_qp *qp, uint64_t now)
{
	int rc;

	if (qp->rc.phase == DIW_RC_DRAINING)
		rc_extend(qp, DRAIN_NS, now);
	rc = rc_flush_last(qp, now);
	qp->blocked = rc == -EAGAIN;
	qp->more = rc == -EBUSY;
	if (!qp->blocked && !qp->more && qp->rc.phase == DIW_RC_DRAINING)
		rc_shut(qp, DIW_RC_DRAINED, now);
	diw_qp_watch(qp);
	if ((qp->link->down && !qp->blocked && !qp->more) || now >= qp->rc.until)
		diw_rc_move(qp, DIW_RC_ENDED);
}

/* The end of the stream is behind a message that waits for a receive, or for room for its completion. A program that
 * has seen enough takes no more messages, and waits for the end. */
static void tell_hung_up(struct diw_qp *qp, uint64_t now)
{
	struct diw_link *l = qp->link;

	if (!l || !qp->conn || !diw_rdmap_is_waiting(&qp->rdmap)) {
		qp->rc.looks_at = 0;
		return;
	}
	if (!qp->rc.looks_at)
		qp->rc.looks_at = now + LOOK_NS;
	if (now < qp->rc.looks_at)
		return;
	qp->rc.looks_at = now + LOOK_NS;
	if (l->ops->hung_up(l)) {
		qp->rc.looks_at = DIW_NEVER;
		qp->conn_up->disconnected(qp, 0, 0);
	}
}

/* A completion that came before the end of the stream is in the receive completion queue. A program may end with its
 * last message, and must not find flushed receives in the same poll: the peer ends with that message, too. */
static bool receives_wait(const struct diw_qp *qp)
{
	uint32_t head = atomic_load_explicit(&qp->recv_cq->head, memory_order_relaxed);

	return qp->rc.behind && (int32_t)(qp->rc.last - head) > 0;
}

/* Flushes what was posted, receives as soon as the completions before them are taken. */
static void flush_requests(struct diw_qp *qp, uint64_t now)
{
	if (!receives_wait(qp)) {
		qp->rc.behind = false;
		diw_qp_flush(qp);
		return;
	}
	if (qp->send_cq != qp->recv_cq)
		diw_sq_flush(qp);
	qp->rc.flush_at = now + TAKE_NS;
}

void diw_rc_settle(struct diw_qp *qp, uint64_t now)
{
	if (qp->state != DIW_QPS_ERROR && diw_sq_has_executed(qp))
		diw_sq_retire(qp);              /* requests whose memory the link has used */
	if (qp->state == DIW_QPS_CLOSING)
		settle_closing(qp, now);
	if (qp->rc.tell_end)
		tell_hung_up(qp, now);
	if (qp->state != DIW_QPS_ERROR)
		return;
	if (diw_rc_is(qp, DIW_RC_DRAINS))
		settle_draining(qp, now);
	if (qp->rc.phase == DIW_RC_ENDED || qp->rc.phase == DIW_RC_ENDED_KEPT) {
		close_link(qp);
		diw_rc_move(qp, diw_rc_is(qp, DIW_RC_KEEPS) ? DIW_RC_KEPT : DIW_RC_DOWN);
	}
	if (now < qp->rc.flush_at) {
		diw_sq_retire(qp);
		return;
	}
	qp->rc.flush_at = 0;
	qp->rc.wanted = qp->rc.asked = diw_rdmap_rc_place(&qp->rdmap)->placed;
	if (diw_rc_is(qp, DIW_RC_KEEPS))
		diw_sq_flush(qp);
	else
		flush_requests(qp, now);
}

/* The program itself ends the queue pair: flushes receives and send requests at once. */
static void rc_let_go(struct diw_qp *qp)
{
	qp->rc.flush_at = 0;
	qp->rc.behind = false;
	if (!diw_rc_is(qp, DIW_RC_KEEPS))
		return;
	diw_qp_tell_last_recv(qp);
	diw_rc_move(qp, qp->link ? DIW_RC_ENDED : DIW_RC_DOWN);
}

static int rc_close(struct diw_qp *qp, uint64_t now)
{
	if (diw_rc_is(qp, DIW_RC_PEER_ENDED))
		return 0;
	if (qp->state != DIW_QPS_RTS)
		return diw_fail(-ENOTCONN, "diw_disconnect: the queue pair is in state %s",
				diw_qp_state_str(qp->state));
	diw_rc_move(qp, qp->rc.phase == DIW_RC_OPEN ? DIW_RC_CLOSING : DIW_RC_HELD_CLOSING);
	qp->rc.until = now + CLOSE_NS;
	return 0;
}

static void rc_abort(struct diw_qp *qp, uint64_t now)
{
	diw_qp_forget_conn(qp, false);
	diw_rc_error(qp, 0, false, ECONNABORTED, now);
	rc_let_go(qp);
	if (diw_rc_is(qp, DIW_RC_DRAINS))
		diw_rc_move(qp, DIW_RC_ENDED);
	diw_rc_settle(qp, now);
}

static void rc_leave(struct diw_qp *qp, uint64_t now)
{
	bool leaves;

	if (!qp->link) {
		rc_abort(qp, now);
		return;
	}
	leaves = qp->state != DIW_QPS_ERROR;
	diw_rc_error(qp, 0, false, 0, now);
	rc_let_go(qp);
	if (leaves) {                           /* the peer ends the stream, or the timeout does */
		diw_rc_move(qp, DIW_RC_DRAINED);
		qp->rc.until = now + CLOSE_NS;
	}
	diw_rc_settle(qp, now);
}

static int rc_reset(struct diw_qp *qp)
{
	if (qp->rc.phase == DIW_RC_CONNECTING)
		return diw_fail(-EBUSY, "diw_qp_reset: the queue pair is connecting");
	diw_qp_forget_conn(qp, true);
	if (qp->link)
		close_link(qp);
	diw_stat_hide(qp);
	qp->rc.seq = qp->rc.wanted = qp->rc.asked = 0;
	qp->rc.flush_at = qp->rc.fails_at = 0;
	diw_rc_move(qp, DIW_RC_IDLE);
	return diw_qp_renew(qp);
}

/* ---- Queries ---- */

static void rc_query(const struct diw_qp *qp, struct diw_qp_info *info)
{
	info->ird = diw_rdmap_rc_ird(&qp->rdmap);
	info->ord = diw_rdmap_rc_ord(&qp->rdmap);
	info->crc = qp->rc.crc;
	info->rfc7306 = diw_rdmap_rc_rfc7306(&qp->rdmap);
	if (!qp->link)
		return;
	info->leaving = rc_drains_answers(qp) ||
			(diw_rc_is(qp, DIW_RC_DRAINS) &&
			 qp->link->ops->flush(qp->link, diw_engine_now(&qp->dev->engine)) != 0);
	info->mulpdu = qp->link->ops->mulpdu(qp->link, &info->peer);
}

static uint64_t rc_deadline(const struct diw_qp *qp)
{
	uint64_t t = diw_min64(qp->rc.until, diw_confirm_deadline(qp));

	if (qp->rc.looks_at)
		t = diw_min64(t, qp->rc.looks_at);
	if (qp->rc.fails_at)
		t = diw_min64(t, qp->rc.fails_at);
	return qp->rc.flush_at ? diw_min64(t, qp->rc.flush_at) : t;
}

/* A message has come, and is neither a question nor the end of anything. */
static bool rc_rests(struct diw_qp *qp)
{
	const struct diw_rdmap *r = &qp->rdmap;

	return qp->rc.phase == DIW_RC_OPEN && !diw_rdmap_rc_asked(r) && !diw_rdmap_rc_answering(r) &&
	       !diw_rdmap_rc_place(r)->due && !diw_confirm_waits(qp) && !diw_rdmap_is_waiting(r) &&
	       !qp->rc.looks_at && !qp->link->down && qp->want_read && !qp->metered;
}

const struct diw_qp_ops diw_qp_ops_rc = {
	.type = DIW_QP_RC, .rdmap = &diw_rdmap_type_rc, .first = DIW_QPS_IDLE, .awaits_recv = true, .confirms = true,
	.requests = 1u << DIW_WR_SEND | 1u << DIW_WR_WRITE | 1u << DIW_WR_READ | 1u << DIW_WR_FETCH_ADD |
		    1u << DIW_WR_CMP_SWAP | 1u << DIW_WR_LOCAL_INV | 1u << DIW_WR_BIND_MW,
	.flags = DIW_SEND_FENCE | DIW_SEND_INVALIDATE, .max_len = DIW_MAX_RC, .max_mulpdu = DIW_MPA_MAX_ULPDU,
	.max_errors = RC_ERRORS, .num_kind = 1u << 16,
	.check = rc_check, .open = rc_create, .reset = rc_reset, .abort = rc_abort, .leave = rc_leave,
	.query = rc_query, .check_send = diw_rc_check_send, .fill = diw_rc_fill,
	.outstanding = diw_rc_outstanding, .give_up = diw_rc_give_up, .begin = rc_begin, .run = diw_rc_run,
	.settle = diw_rc_settle, .deadline = rc_deadline, .rests = rc_rests,
};

/* ---- Calls of RC alone ---- */

/* Locks an RC queue pair. Other types have no stream, so CALL fails for them. */
static int lock_rc(struct diw_qp *qp, const char *call)
{
	return qp->ops == &diw_qp_ops_rc ? diw_engine_lock(&qp->dev->engine) :
	       diw_fail(-EINVAL, "%s: only for RC queue pairs", call);
}

int diw_qp_confirm(struct diw_qp *qp, bool confirm)
{
	int rc = lock_rc(qp, "diw_qp_confirm");

	if (rc < 0)
		return rc;
	qp->rc.confirm = confirm;
	if (qp->link)
		qp->link->may_lose = confirm;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_errors(struct diw_qp *qp, unsigned raise)
{
	const unsigned known = DIW_RAISE_FOUND | DIW_RAISE_TOLD;
	int rc = raise & ~known ? diw_fail(-EINVAL, "diw_qp_set_errors: raise %#x: %#x are unknown", raise,
					   raise & ~known) : lock_rc(qp, "diw_qp_set_errors");

	if (rc < 0)
		return rc;
	qp->raise = raise;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_retry(struct diw_qp *qp, int64_t retry_ns)
{
	int rc = retry_ns < 0 ? diw_fail(-EINVAL, "diw_qp_set_retry: %lld ns", (long long)retry_ns) :
		 lock_rc(qp, "diw_qp_set_retry");

	if (rc < 0)
		return rc;
	qp->rc.retry_ns = (uint64_t)retry_ns;
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_qp_set_rnr(struct diw_qp *qp, unsigned retry, int64_t timer_ns)
{
	int err = retry > 7 || timer_ns < 0 ?
		  diw_fail(-EINVAL, "diw_qp_set_rnr: retry %u, timer %lld ns", retry, (long long)timer_ns) :
		  lock_rc(qp, "diw_qp_set_rnr");

	if (err < 0)
		return err;
	diw_rdmap_rc_set_rnr(&qp->rdmap, retry, (uint64_t)timer_ns);
	diw_engine_unlock(&qp->dev->engine);
	return 0;
}

int diw_leave(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = lock_rc(qp, "diw_leave");

	if (rc < 0)
		return rc;
	rc_leave(qp, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	diw_engine_unlock(&dev->engine);
	return 0;
}

int diw_disconnect(struct diw_qp *qp)
{
	struct diw_dev *dev = qp->dev;
	int rc = lock_rc(qp, "diw_disconnect");
	uint64_t now;

	if (rc < 0)
		return rc;
	now = diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine));
	rc = rc_close(qp, now);
	if (rc == 0)
		diw_qp_run(qp, now);
	diw_engine_unlock(&dev->engine);
	return rc;
}
