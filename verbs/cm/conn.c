/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection until its stream goes to its queue pair. States of the initiator: CONNECTING, REQUESTING, AWAIT_REPLY,
 * STARTED, UP. States of the responder: HALFOPEN, WAITING, REPLYING, STARTED, UP (RFC 5044 section 7.1.2). Before
 * STARTED the connection owns the stream.
 */
#include "verbs/cm/int.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/capture.h"
#include "verbs/loopback.h"

#define AGAIN_NS (5 * DIW_MS)        /* between attempts, after one was refused */

static const struct diw_cm_item_ops conn_ops;
static const struct diw_conn_up conn_up;

struct diw_cm_conn *diw_cm_conn_new(struct diw_cm_engine *e, struct diw_stream *s, enum diw_cm_state state)
{
	struct diw_conn_req *req = calloc(1, sizeof *req);
	struct diw_cm_conn *c = &req->conn;

	if (!req)
		return NULL;
	if (diw_cm_item_add(e, &c->item) < 0) {
		free(req);
		return NULL;
	}
	c->item.ops = &conn_ops;
	c->e = e;
	c->state = (uint8_t)state;
	c->stream = s;
	c->local = s->local;
	c->peer = s->peer;
	diw_list_init(&c->note);
	diw_list_init(&c->item.link);
	diw_list_add_tail(&e->conns, &c->item.link);
	return c;
}

static int conn_watch(struct diw_cm_conn *c, uint32_t events)
{
	return diw_cm_watch(c->e, &c->item, c->stream->ops->fd(c->stream), events);
}

static void conn_unwatch(struct diw_cm_conn *c)
{
	diw_cm_unwatch(c->e, &c->item, c->stream->ops->fd(c->stream));
}

void diw_cm_conn_stop(struct diw_cm_conn *c, bool abort)
{
	if (c->listener)
		diw_cm_listener_leave(c);
	if (c->stream) {
		conn_unwatch(c);
		/* A child after fork(2) shares the socket: it may close it, but not reset it. */
		c->stream->ops->close(c->stream, abort && diw_engine_alive(&c->e->dev->engine));
		c->stream = NULL;
	}
	if (c->state < DIW_CM_UP)
		diw_cm_item_del(c->e, &c->item);
	if (c->state == DIW_CM_REJECTING)
		c->e->nrejecting--;
	diw_list_del(&c->item.link);
	c->state = DIW_CM_OVER;
}

void diw_cm_conn_bind(struct diw_cm_conn *c, struct diw_cm *cm)
{
	c->cm = cm;
	c->bound = true;
	cm->users++;
}

/* Only undelivered events of the connection remain. */
static void conn_unbind(struct diw_cm_conn *c)
{
	if (c->bound)
		c->cm->users--;
	c->bound = false;
}

void diw_cm_conn_own(struct diw_cm_conn *c, struct diw_qp *qp, enum diw_cm_state state)
{
	c->qp = qp;
	c->state = (uint8_t)state;
	qp->conn = c;
	qp->conn_up = &conn_up;
	qp->cm = c->cm;
	diw_rc_move(qp, DIW_RC_CONNECTING);
}

void diw_cm_conn_disown(struct diw_cm_conn *c)
{
	c->qp->conn = NULL;
	c->qp->conn_up = NULL;
	c->qp->cm = NULL;
	c->qp = NULL;
}

void diw_cm_conn_free(struct diw_cm_conn *c)
{
	/* A reset could overtake a refusal that was sent. */
	diw_cm_conn_stop(c, c->state != DIW_CM_REJECTING || c->nego->done < c->nego->len);
	if (diw_engine_alive(&c->e->dev->engine)) {         /* otherwise channel and queue pair may have been freed */
		diw_cm_unpost(c);
		conn_unbind(c);
		if (c->qp)
			diw_cm_conn_disown(c);
	}
	free(c->nego);
	free(diw_container(c, struct diw_conn_req, conn));
}

/* ---- The end of a connection ---- */

static void conn_over(struct diw_cm_conn *c, enum diw_cm_event_type type, uint16_t fault, int errnum)
{
	diw_cm_conn_stop(c, true);
	c->fault = fault;
	c->errnum = errnum;
	if (diw_list_empty(&c->note))
		diw_cm_post(c, type);
	else
		c->ended = true;
	conn_unbind(c);
}

/* The attempt to connect a queue pair has failed. */
static void conn_fail(struct diw_cm_conn *c, enum diw_cm_event_type type, uint16_t fault, int errnum, uint64_t now)
{
	struct diw_qp *qp = c->qp;

	if (fault)
		diw_fault_count(qp->c, fault);
	if (type == DIW_CM_FAILED)
		c->nego->peer.len = 0;
	conn_over(c, type, fault, errnum);
	diw_rc_error(qp, fault, type == DIW_CM_REJECTED, errnum, now);
	diw_engine_hasten(&qp->dev->engine, 0); /* flushes its requests */
}

static void conn_disconnected(struct diw_qp *qp, uint16_t fault, int errnum)
{
	struct diw_cm_conn *c = qp->conn;

	if (c->state == DIW_CM_UP)
		conn_over(c, DIW_CM_DISCONNECTED, fault, errnum);
	else if (c->state == DIW_CM_STARTED)    /* ESTABLISHED was not reported, so DISCONNECTED is not either */
		conn_over(c, DIW_CM_FAILED, fault, errnum ? errnum : ECONNRESET);
}

static void conn_forget(struct diw_qp *qp, bool events)
{
	if (events || qp->conn->state < DIW_CM_UP)
		diw_cm_conn_free(qp->conn);
}

/* ---- Attempts, one after the other; with a pair of ports, in turn ---- */

static void drop_stream(struct diw_cm_conn *c)
{
	conn_unwatch(c);
	c->stream->ops->close(c->stream, true);
	c->stream = NULL;
}

static void swap_ports(struct diw_cm_conn *c)
{
	struct diw_cm_nego *n = c->nego;
	uint16_t port = n->sa.peer.port;

	n->sa.peer.port = n->other_port;
	n->other_port = port;
	n->turned = !n->turned;
	c->peer = n->sa.peer;
}

static void conn_try_again(struct diw_cm_conn *c, uint64_t now)
{
	int rc = diw_cm_stream_connect(c->e->dev, &c->nego->sa, &c->stream);

	diw_cm_arm(c->e, &c->item, c->nego->until);
	if (rc == 0)
		rc = conn_watch(c, EPOLLOUT);
	if (rc < 0)
		conn_fail(c, DIW_CM_FAILED, 0, -rc, now);
}

/* Retries after a pause, without a stream until then. A port that has ended a stream is not tried again. */
static bool again_later(struct diw_cm_conn *c, int rc, uint64_t now)
{
	if (rc != -ECONNREFUSED || c->nego->unanswered || now + AGAIN_NS >= c->nego->again_until)
		return false;
	drop_stream(c);
	if (c->nego->turned)
		swap_ports(c);
	diw_cm_arm(c->e, &c->item, now + AGAIN_NS);
	return true;
}

/* A port that refuses, or that ends the stream before the first byte of a reply, has no MPA peer. Tries the other port
 * of the pair. */
static bool other_port(struct diw_cm_conn *c, int rc, uint64_t now)
{
	struct diw_cm_nego *n = c->nego;

	if (!n->other_port || n->turned || (rc != -ECONNREFUSED && rc != -ECONNRESET))
		return false;
	n->unanswered = rc == -ECONNRESET;
	drop_stream(c);
	swap_ports(c);
	c->state = DIW_CM_CONNECTING;
	n->len = n->request;
	n->done = 0;
	conn_try_again(c, now);
	return true;
}

/* Of two ports, the one that accepted a connection determines the error, not the one that refused it. */
static void attempt_failed(struct diw_cm_conn *c, int rc, uint64_t now)
{
	if (rc == -ECONNREFUSED && c->nego->unanswered)
		rc = -ECONNRESET;
	conn_fail(c, DIW_CM_FAILED, 0, -rc, now);
}

/* ---- Success ---- */

static void conn_established(struct diw_qp *qp)
{
	struct diw_cm_conn *c = qp->conn;

	if (c->state != DIW_CM_STARTED)
		return;
	diw_cm_item_del(c->e, &c->item);
	diw_list_del(&c->item.link);
	c->state = DIW_CM_UP;
	diw_cm_post(c, DIW_CM_ESTABLISHED);
}

/* Passes the stream to the queue pair, with the bytes behind the peer's frame of FRAME_LEN bytes. FAULT: the initiator
 * does not accept the result of the negotiation, and reports that by a Terminate, its only FPDU (RFC 6581 section
 * 8). */
static void conn_start(struct diw_cm_conn *c, bool initiator, uint32_t frame_len, uint16_t fault, uint64_t now)
{
	const struct diw_cm_nego *n = c->nego;
	const struct diw_cm_terms *t = &n->terms;
	struct diw_rc_start s = {
		.early = n->frame + frame_len, .early_len = n->done - frame_len,
		.initiator = initiator, .rtr = fault ? 0 : t->rtr, .crc = t->crc, .tx_markers = t->tx_markers,
		.rx_markers = t->rx_markers, .rfc7306 = t->rfc7306, .words = t->words, .ird = t->ird,
		.ord = t->ord,
	};
	int rc;

	conn_unwatch(c);
	if (initiator && !fault && !n->sa.self)
		diw_loopback_stream(c->qp, true, &c->stream);
	s.stream = c->stream;
	c->stream = NULL;
	c->state = DIW_CM_STARTED;
	rc = diw_rc_start(c->qp, &s, now);
	if (rc < 0) {
		c->stream = s.stream;
		conn_fail(c, DIW_CM_FAILED, DIW_FAULT_MPA_LOCAL, -rc, now);
		return;
	}
	if (fault) {
		c->nego->peer.len = 0;
		diw_fault_count(c->qp->c, fault);
		diw_rdmap_terminate(&c->qp->rdmap, NULL, fault, now);
	} else if (initiator || !t->rtr) {
		conn_established(c->qp);
	}
}

/* ---- Sending and receiving a frame ---- */

/* The whole frame has been sent. */
static void conn_sent(struct diw_cm_conn *c, uint64_t now)
{
	if (c->state == DIW_CM_REQUESTING) {
		c->nego->len = c->nego->done = 0;
		c->state = DIW_CM_AWAIT_REPLY;
		conn_watch(c, EPOLLIN);
	} else if (c->state == DIW_CM_REPLYING) {
		c->nego->peer.len = 0;          /* its data is overwritten; the request event has already reported it */
		conn_start(c, false, c->nego->done, 0, now);
	} else {
		conn_unbind(c);
		conn_watch(c, EPOLLIN);
	}
}

int diw_cm_conn_push(struct diw_cm_conn *c, uint64_t now)
{
	struct diw_cm_nego *n = c->nego;

	while (n->done < n->len) {
		struct iovec iov = { n->frame + n->done, n->len - n->done };
		ssize_t rc = c->stream->ops->send(c->stream, &iov, 1);

		if (rc == -EAGAIN)
			return conn_watch(c, EPOLLOUT);
		if (rc < 0)
			return rc == -EPIPE ? -ECONNRESET : (int)rc;
		n->done += (uint32_t)rc;
	}
	conn_sent(c, now);
	return 0;
}

/* A rejected initiator ends the stream itself. If this end did so with the refusal, the initiator might see the end
 * first: siw then loses the private data. */
static void conn_rejecting(struct diw_cm_conn *c, uint64_t now)
{
	uint8_t byte;
	struct iovec iov = { &byte, sizeof byte };

	if (c->nego->done < c->nego->len) {
		if (diw_cm_conn_push(c, now) < 0)
			diw_cm_conn_free(c);
	} else if (c->stream->ops->recv(c->stream, &iov, 1) != -EAGAIN) {
		diw_cm_conn_free(c);
	}
}

/* Returns the length of the peer's frame. Reads at most the longest frame and what follows it. -EAGAIN; -errno of the
 * stream; -EPROTO and others of the decoder. */
static int frame_pull(struct diw_cm_conn *c, bool reply)
{
	uint8_t buf[DIW_MPA_FRAME_MAX];
	int len = 0;

	while (len == 0) {
		struct iovec iov = { buf, sizeof buf - (c->nego ? c->nego->done : 0) };
		ssize_t n = c->stream->ops->recv(c->stream, &iov, 1);

		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		if (!c->nego)
			c->nego = calloc(1, sizeof *c->nego);
		if (!c->nego)
			return -ENOMEM;
		memcpy(c->nego->frame + c->nego->done, buf, (size_t)n);
		c->nego->done += (uint32_t)n;
		len = diw_mpa_frame_decode(&c->nego->peer, reply, c->nego->frame, c->nego->done);
	}
	if (len > 0 && !c->nego->peer.enhanced)
		c->nego->peer.ird = c->nego->peer.ord = DIW_MPA_NO_LIMIT;
	return len;
}

/* Some peers refuse with the enhanced bit of the request, but without the words that the bit promises. */
static bool is_bare_refusal(const struct diw_cm_nego *n, int rc)
{
	return rc == -EBADMSG && n->peer.reject;
}

static void await_reply(struct diw_cm_conn *c, uint64_t now)
{
	struct diw_cm_nego *n = c->nego;
	int len = frame_pull(c, true);
	uint16_t fault;

	if (len == -EAGAIN)
		return;
	if ((len > 0 && n->peer.reject) || is_bare_refusal(n, len)) {
		conn_fail(c, DIW_CM_REJECTED, 0, ECONNREFUSED, now);
		return;
	}
	if (len == -EPROTO || len == -EMSGSIZE || len == -EBADMSG) {
		conn_fail(c, DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO, now);
		return;
	}
	if (len < 0) {
		if (n->done || !other_port(c, len, now))
			conn_fail(c, DIW_CM_FAILED, 0, -len, now);
		return;
	}
	fault = diw_cm_judge(&n->ask, n->announced, &n->peer, &n->terms);
	if (fault == DIW_FAULT_MPA_FRAME)
		conn_fail(c, DIW_CM_FAILED, fault, EPROTO, now);
	else
		conn_start(c, true, (uint32_t)len, fault, now);
}

static void half_open(struct diw_cm_conn *c, uint64_t now)
{
	int len = frame_pull(c, false);

	if (len == -EAGAIN)
		return;
	/* The reply determines the format of FPDUs, so none may follow the request. */
	if (len > 0 && c->nego->peer.revision <= 2 && c->nego->done == (uint32_t)len) {
		diw_cm_listener_request(c, now);
		return;
	}
	c->listener->malformed++;
	diw_cm_conn_free(c);
}

/* ---- Events ---- */

int diw_cm_stream_connect(struct diw_dev *dev, const struct diw_stream_attr *sa, struct diw_stream **s)
{
	struct diw_transport *t = dev->transport;
	int rc = t->connect ? t->connect(t, sa, s) : -EOPNOTSUPP;

	if (rc == 0)
		diw_dev_capture_stream(dev, false, s);
	return rc;
}

void diw_cm_conn_begin(struct diw_cm_conn *c, const struct diw_stream_attr *sa, const struct diw_conn_attr *a)
{
	uint64_t now = diw_engine_forward(&c->e->dev->engine, diw_engine_now(&c->e->dev->engine));

	c->nego->sa = *sa;
	c->nego->until = diw_until(now, a->timeout_ns);
	c->nego->again_until = diw_min64(c->nego->until, diw_until(now, a->connect.refused_ns));
	c->nego->other_port = a->connect.other_port;
	c->nego->request = c->nego->len;
	diw_cm_arm(c->e, &c->item, c->nego->until);
}

static void conn_connecting(struct diw_cm_conn *c, uint64_t now)
{
	int rc = c->stream ? c->stream->ops->connected(c->stream) : -EAGAIN;

	if (rc == -EAGAIN || other_port(c, rc, now) || again_later(c, rc, now))
		return;
	if (rc == 0 && c->nego->sa.self) {
		c->local = c->stream->local;
		diw_cm_agree(&c->nego->ask, &c->nego->terms);
		conn_start(c, true, 0, 0, now);
	} else if (rc == 0) {
		c->local = c->stream->local;
		c->state = DIW_CM_REQUESTING;
		diw_cm_request_crc(c->nego->frame, &c->nego->ask, c->nego->announced, c->stream->near);
		rc = diw_cm_conn_push(c, now);
	}
	if (rc < 0 && !other_port(c, rc, now))
		attempt_failed(c, rc, now);
}

/* The application gets the error when it answers. If it has not seen the request, the request is dropped. */
static void requester_gone(struct diw_cm_conn *c)
{
	if (c->taken)
		diw_cm_conn_stop(c, true);
	else
		diw_cm_conn_free(c);
}

void diw_cm_conn_event(struct diw_cm_conn *c, uint64_t now)
{
	int rc;

	switch (c->state) {
	case DIW_CM_CONNECTING:
		conn_connecting(c, now);
		break;
	case DIW_CM_AWAIT_REPLY:
		await_reply(c, now);
		break;
	case DIW_CM_HALFOPEN:
		half_open(c, now);
		break;
	case DIW_CM_WAITING:
		if (c->item.watched)            /* watched only for the end of the peer's half */
			requester_gone(c);
		break;
	case DIW_CM_REQUESTING:
	case DIW_CM_REPLYING:
		rc = diw_cm_conn_push(c, now);
		if (rc < 0 && !other_port(c, rc, now))
			conn_fail(c, DIW_CM_FAILED, 0, -rc, now);
		break;
	case DIW_CM_REJECTING:
		conn_rejecting(c, now);
		break;
	}
}

static void conn_event(struct diw_cm_item *it, uint64_t now)
{
	diw_cm_conn_event(diw_container(it, struct diw_cm_conn, item), now);
}

static void conn_expire(struct diw_cm_item *it, uint64_t now)
{
	struct diw_cm_conn *c = diw_container(it, struct diw_cm_conn, item);

	if (c->listener)
		c->listener->timeouts++;
	if (c->state == DIW_CM_HALFOPEN || c->state == DIW_CM_REJECTING)
		diw_cm_conn_free(c);
	else if (c->state == DIW_CM_WAITING)
		requester_gone(c);
	else if (c->state == DIW_CM_CONNECTING && !c->stream)
		conn_try_again(c, now);
	else
		conn_fail(c, DIW_CM_FAILED, 0, ETIMEDOUT, now);
}

static void conn_item_free(struct diw_cm_item *it)
{
	diw_cm_conn_free(diw_container(it, struct diw_cm_conn, item));
}

static const struct diw_cm_item_ops conn_ops = {
	.event = conn_event, .expire = conn_expire, .probe = conn_event, .free = conn_item_free,
};

static const struct diw_conn_up conn_up = {
	.established = conn_established, .disconnected = conn_disconnected, .forget = conn_forget,
};
