/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners: connections whose request has not come, requests that wait for the application, and the application's
 * answers. */
#include "verbs/cm/int.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/log.h"
#include "verbs/attr_take.h"
#include "verbs/capture.h"
#include "verbs/loopback.h"

#define ACCEPT_SHARE 16              /* connections a step */
/* A connection without a complete request after this time may be displaced by a new one. A genuine initiator has sent
 * its request by then. */
#define EVICT_NS DIW_S
#define RETRY_NS (100 * DIW_MS)      /* the pause after which descriptors or memory may be available again */
#define REJECT_NS DIW_S              /* for a refusal to be sent, and for the initiator to end the stream */
#define MAX_REJECTING 256            /* of a device; each holds a descriptor until REJECT_NS */
#define KERNEL_BACKLOG 65535         /* the kernel applies its own limit */

static int watch_listener(struct diw_listener *l, uint32_t events)
{
	return diw_cm_watch(l->cm->dev->cm, &l->item, l->sock->ops->fd(l->sock), events);
}

/* During a pause connections stay in the kernel's queue, and the kernel wakes no thread for them. */
static void pause_until(struct diw_listener *l, uint64_t t)
{
	l->paused = true;
	watch_listener(l, 0);
	diw_cm_arm(l->cm->dev->cm, &l->item, t);
}

static void listener_resume(struct diw_listener *l)
{
	if (!l->paused)
		return;
	l->paused = false;
	diw_cm_disarm(l->cm->dev->cm, &l->item);
	watch_listener(l, EPOLLIN);
}

void diw_cm_listener_leave(struct diw_cm_conn *c)
{
	struct diw_listener *l = c->listener;

	diw_list_del(&c->item.link);
	c->listener = NULL;
	if (c->state == DIW_CM_WAITING) {
		l->nwaiting--;
	} else {
		l->nhalfopen--;
		listener_resume(l);
	}
}

/* Admits S. -errno: no memory. */
static int admit_stream(struct diw_listener *l, struct diw_stream *s, uint64_t now)
{
	struct diw_cm_engine *e = l->cm->dev->cm;
	struct diw_cm_conn *c;

	diw_dev_capture_stream(e->dev, true, &s);
	c = diw_cm_conn_new(e, s, DIW_CM_HALFOPEN);
	if (!c) {
		s->ops->close(s, true);
		return -ENOMEM;
	}
	c->cm = l->cm;
	c->listener = l;
	l->nhalfopen++;
	diw_list_del(&c->item.link);
	diw_list_add_tail(&l->halfopen, &c->item.link);
	diw_cm_arm(e, &c->item, now + l->request_timeout);
	if (diw_cm_watch(e, &c->item, s->ops->fd(s), EPOLLIN) < 0) {
		diw_cm_conn_free(c);
		return -ENOMEM;
	}
	diw_cm_conn_event(c, now);              /* its request may have already come */
	return 0;
}

/* The half-open connection that the next one displaces; NULL: there is room. All have the same timeout, so it is the
 * oldest. */
static struct diw_cm_conn *backlog_victim(struct diw_listener *l)
{
	if (l->nhalfopen < l->max_halfopen)
		return NULL;
	return diw_container(diw_list_first(&l->halfopen), struct diw_cm_conn, item.link);
}

static void listener_event(struct diw_cm_item *it, uint64_t now)
{
	struct diw_listener *l = diw_container(it, struct diw_listener, item);

	for (int i = 0; i < ACCEPT_SHARE; i++) {
		struct diw_cm_conn *old = backlog_victim(l);
		uint64_t replaceable = old ? old->item.at - l->request_timeout + EVICT_NS : 0;
		struct diw_stream *s;
		int rc;

		if (now < replaceable) {
			pause_until(l, replaceable);
			return;
		}
		rc = l->sock->ops->accept(l->sock, &s);
		if (rc == -EAGAIN)
			return;
		if (rc == 0 && old) {
			l->timeouts++;
			diw_cm_conn_free(old);
		}
		if (rc < 0 || admit_stream(l, s, now) < 0) {
			l->starved++;
			pause_until(l, now + RETRY_NS);
			return;
		}
	}
}

static void listener_expire(struct diw_cm_item *it, uint64_t now)
{
	(void)now;
	listener_resume(diw_container(it, struct diw_listener, item));
}

/* Checks half-open connections only. If the peer of a waiting request has gone, that is found when the request is
 * answered. */
static void listener_probe(struct diw_cm_item *it, uint64_t now)
{
	struct diw_listener *l = diw_container(it, struct diw_listener, item);

	if (!l->paused)
		listener_event(it, now);
	diw_cm_probe(&l->halfopen, now);
}

/* The timer of a listener ends a pause. The application closes the listener. */
static const struct diw_cm_item_ops listener_ops = {
	.event = listener_event, .expire = listener_expire, .probe = listener_probe,
};

void diw_cm_listener_request(struct diw_cm_conn *c, uint64_t now)
{
	struct diw_listener *l = c->listener;

	if (l->nwaiting >= l->backlog) {
		l->refused++;
		diw_cm_conn_free(c);
		return;
	}
	c->nego->takes = diw_cm_strip(&c->nego->peer);
	diw_cm_listener_leave(c);
	c->listener = l;
	c->state = DIW_CM_WAITING;
	diw_list_add_tail(&l->waiting, &c->item.link);
	l->nwaiting++;
	l->requests++;
	diw_cm_watch(c->e, &c->item, c->stream->ops->fd(c->stream), EPOLLRDHUP);
	diw_cm_arm(c->e, &c->item, now + l->request_timeout);
	diw_cm_conn_bind(c, l->cm);
	diw_cm_post(c, DIW_CM_CONNECT_REQUEST);
}

/* ---- Calls of the application ---- */

static int open_listener(struct diw_listener *l, const struct diw_listen_attr *a)
{
	struct diw_dev *dev = l->cm->dev;
	struct diw_stream_attr sa = { .local = a->local, .backlog = KERNEL_BACKLOG, .v6only = a->v6only };
	int rc = dev->transport->listen ? dev->transport->listen(dev->transport, &sa, &l->sock) : -EOPNOTSUPP;

	if (rc < 0)
		return rc;
	rc = diw_cm_item_add(dev->cm, &l->item);
	if (rc < 0) {
		l->sock->ops->close(l->sock);
		return rc;
	}
	rc = watch_listener(l, EPOLLIN);
	if (rc < 0) {
		diw_cm_item_del(dev->cm, &l->item);
		l->sock->ops->close(l->sock);
		return rc;
	}
	diw_list_add_tail(&dev->cm->listeners, &l->item.link);
	l->cm->users++;
	return 0;
}

/* Peers that never send a request must not take the descriptors that the application needs. */
static uint32_t halfopen_bound(uint32_t asked)
{
	struct rlimit lim;
	uint64_t most;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return asked;
	most = diw_max64(lim.rlim_cur / 4, 1);
	return (uint32_t)diw_min64(asked, most);
}

int diw_listen(struct diw_cm *cm, const struct diw_listen_attr *attr, struct diw_listener **out)
{
	char name[DIW_ADDR_STRLEN];
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;
	struct diw_listener *l;
	int rc = diw_attr_take("diw_listen", &a, sizeof a, attr);

	if (rc < 0)
		return rc;
	if (a.backlog < 1 || a.backlog > 65535)
		return diw_fail(-EINVAL, "diw_listen: backlog %d: not 1 to 65535", a.backlog);
	if (a.max_halfopen < 1 || a.request_timeout_ns <= 0)
		return diw_fail(-EINVAL, "diw_listen: max_halfopen %u, request_timeout_ns %lld: not positive",
				a.max_halfopen, (long long)a.request_timeout_ns);
	l = calloc(1, sizeof *l);
	if (!l)
		return -ENOMEM;
	l->item.ops = &listener_ops;
	l->cm = cm;
	l->ctx = a.ctx;
	l->backlog = (uint32_t)a.backlog;
	l->max_halfopen = halfopen_bound(a.max_halfopen);
	l->request_timeout = diw_min64((uint64_t)a.request_timeout_ns, 1ull << 60);
	diw_list_init(&l->halfopen);
	diw_list_init(&l->waiting);
	diw_list_init(&l->item.link);
	rc = diw_engine_lock(&cm->dev->engine);
	if (rc == 0) {
		rc = open_listener(l, &a);
		diw_engine_unlock(&cm->dev->engine);
	}
	if (rc < 0) {
		free(l);
		return diw_fail(rc, "diw_listen: %s", diw_addr_str(&a.local, name));
	}
	*out = l;
	return 0;
}

int diw_listener_query(struct diw_listener *l, struct diw_listener_info *info)
{
	int rc = diw_engine_lock(&l->cm->dev->engine);

	if (rc < 0)
		return rc;
	*info = (struct diw_listener_info){
		.local = l->sock->local, .halfopen = l->nhalfopen, .waiting = l->nwaiting, .requests = l->requests,
		.refused = l->refused, .timeouts = l->timeouts, .malformed = l->malformed,
		.starved = l->starved,
	};
	diw_engine_unlock(&l->cm->dev->engine);
	return 0;
}

/* Takes C out of the listener's list; another list holds it from here on. */
static void conn_depart(struct diw_cm_conn *c)
{
	if (c->listener)
		diw_cm_listener_leave(c);
	diw_list_del(&c->item.link);
	diw_list_add_tail(&c->e->conns, &c->item.link);
}

/* Closes the connections whose requests the application has not fetched. The others wait elsewhere for its answer. */
static void listener_empty(struct diw_listener *l)
{
	struct diw_list *n, *next;

	diw_list_for_each_safe(n, next, &l->halfopen)
		diw_cm_conn_free(diw_container(n, struct diw_cm_conn, item.link));
	diw_list_for_each_safe(n, next, &l->waiting) {
		struct diw_cm_conn *c = diw_container(n, struct diw_cm_conn, item.link);

		if (c->taken)
			conn_depart(c);
		else
			diw_cm_conn_free(c);
	}
}

int diw_listener_close(struct diw_listener *l)
{
	struct diw_dev *dev = l->cm->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		listener_empty(l);
		diw_cm_unwatch(dev->cm, &l->item, l->sock->ops->fd(l->sock));
		diw_cm_item_del(dev->cm, &l->item);
		diw_list_del(&l->item.link);
		l->cm->users--;
		diw_engine_unlock(&dev->engine);
	}
	l->sock->ops->close(l->sock);
	free(l);
	return 0;
}

/* ---- Answers ---- */

static int accept_locked(struct diw_cm_conn *c, struct diw_qp *qp, const struct diw_conn_attr *a)
{
	struct diw_cm_nego *n = c->nego;
	uint64_t now = diw_engine_forward(&qp->dev->engine, diw_engine_now(&qp->dev->engine));
	struct diw_stream_attr sa = { 0 };
	int rc;

	if (qp->state != DIW_QPS_IDLE)
		return diw_fail(-EISCONN, "diw_accept: the queue pair is in state %s", diw_qp_state_str(qp->state));
	diw_cm_look(c->e, now);                 /* the end of the peer's half may not have been read yet */
	if (c->state != DIW_CM_WAITING)
		return diw_fail(-ECONNRESET, "diw_accept: the peer is gone");
	rc = diw_cm_attr_check(a, n->peer.enhanced);
	if (rc < 0)
		return rc;
	diw_cm_stream_attr(&sa, a);
	rc = c->stream->ops->tune ? c->stream->ops->tune(c->stream, &sa) : 0;
	if (rc < 0)
		return diw_fail(rc, "diw_accept: keepalive_s %u, dscp %u, congestion \"%.15s\"", a->keepalive_s,
				a->dscp, a->congestion);
	diw_cm_ask(&n->ask, a);
	n->len = (uint32_t)diw_cm_reply(n->frame, &n->ask, &n->peer, n->takes, c->stream->near, a->data, a->data_len,
					&n->terms);
	n->done = 0;
	conn_depart(c);
	diw_cm_arm(c->e, &c->item, diw_until(now, a->timeout_ns));
	diw_cm_conn_own(c, qp, DIW_CM_REPLYING);
	diw_loopback_stream(qp, false, &c->stream);
	rc = diw_cm_conn_push(c, now);
	if (rc < 0) {
		diw_cm_conn_disown(c);
		diw_rc_move(qp, DIW_RC_IDLE);
		diw_cm_conn_stop(c, true);
		return diw_fail(-ECONNRESET, "diw_accept: the reply could not be sent");
	}
	return 0;
}

int diw_accept(struct diw_conn_req *req, struct diw_qp *qp, const struct diw_conn_attr *attr)
{
	struct diw_cm_conn *c = &req->conn;
	struct diw_conn_attr a = DIW_CONN_ATTR_INIT;
	int rc = diw_attr_take("diw_accept", &a, sizeof a, attr);

	if (rc == 0)
		rc = diw_cm_qp_check("diw_accept", qp, c->e->dev);
	if (rc == 0)
		rc = diw_engine_lock(&qp->dev->engine);
	if (rc < 0)
		return rc;
	rc = accept_locked(c, qp, &a);
	diw_engine_unlock(&qp->dev->engine);
	return rc;
}

/* Moves C to the connections that are being rejected. The oldest makes room: the kernel has had its refusal, unless the
 * initiator does not read. */
static void reject_begin(struct diw_cm_conn *c, uint64_t now)
{
	struct diw_cm_engine *e = c->e;

	if (e->nrejecting == MAX_REJECTING)
		diw_cm_conn_free(diw_container(diw_list_first(&e->rejecting), struct diw_cm_conn, item.link));
	conn_depart(c);
	diw_list_del(&c->item.link);
	diw_list_add_tail(&e->rejecting, &c->item.link);
	e->nrejecting++;
	c->state = DIW_CM_REJECTING;
	diw_cm_arm(e, &c->item, now + REJECT_NS);
}

static int reject_locked(struct diw_cm_conn *c, const void *data, uint32_t data_len, uint64_t now)
{
	struct diw_cm_nego *n = c->nego;
	int rc;

	if (c->state != DIW_CM_WAITING) {
		diw_cm_conn_free(c);
		return 0;
	}
	rc = diw_cm_refusal(n->frame, &n->peer, data, data_len);
	if (rc < 0)
		return diw_fail(rc, "diw_reject: %u bytes of private data", data_len);
	n->len = (uint32_t)rc;
	n->done = 0;
	reject_begin(c, now);
	if (diw_cm_conn_push(c, now) < 0)
		diw_cm_conn_free(c);            /* the initiator has gone */
	return 0;
}

int diw_reject(struct diw_conn_req *req, const void *data, uint32_t data_len)
{
	struct diw_dev *dev = req->conn.e->dev;
	int rc;

	if (data_len && !data)
		return diw_fail(-EINVAL, "diw_reject: %u bytes of private data at NULL", data_len);
	rc = diw_engine_lock(&dev->engine);
	if (rc < 0)
		return rc;
	rc = reject_locked(&req->conn, data, data_len, diw_engine_forward(&dev->engine, diw_engine_now(&dev->engine)));
	diw_engine_unlock(&dev->engine);
	return rc;
}

/* ---- Moving a request to another device ---- */

static int listener_let_go(struct diw_cm_conn *c)
{
	if (c->state != DIW_CM_WAITING || !c->taken)
		return diw_fail(-ECONNRESET, "diw_conn_req_move: the peer is gone");
	if (c->listener)
		diw_cm_listener_leave(c);
	diw_cm_unwatch(c->e, &c->item, c->stream->ops->fd(c->stream));
	diw_cm_item_del(c->e, &c->item);
	diw_list_del(&c->item.link);
	c->cm->users--;
	c->bound = false;
	return 0;
}

/* Adds C, which belongs to no engine, to that of CM. */
static int take_in(struct diw_cm_conn *c, struct diw_cm *cm)
{
	struct diw_cm_engine *e = cm->dev->cm;
	uint64_t until = c->item.at;
	int rc = diw_cm_item_add(e, &c->item);

	c->e = e;
	c->cm = cm;
	if (rc < 0) {
		c->stream->ops->close(c->stream, true);
		c->stream = NULL;
		c->state = DIW_CM_OVER;
		return rc;
	}
	diw_list_add_tail(&e->conns, &c->item.link);
	diw_cm_conn_bind(c, cm);
	diw_cm_arm(e, &c->item, until);
	diw_cm_watch(e, &c->item, c->stream->ops->fd(c->stream), EPOLLRDHUP);
	return 0;
}

int diw_conn_req_move(struct diw_conn_req *req, struct diw_cm *cm)
{
	struct diw_dev *from = req->conn.e->dev, *to = cm->dev;
	int rc = diw_engine_lock(&from->engine);

	if (rc < 0)
		return rc;
	rc = listener_let_go(&req->conn);
	diw_engine_unlock(&from->engine);
	if (rc < 0)
		return rc;
	rc = diw_engine_lock(&to->engine);
	if (rc == 0) {
		rc = take_in(&req->conn, cm);
		diw_engine_unlock(&to->engine);
	}
	return rc;
}
