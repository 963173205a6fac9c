/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening, connecting, accepting. As with TCP, a connection is established before accept() is called: the thread of
 * connection events answers requests while the backlog has room.
 */
#include <stdlib.h>

#include "verbs/host/port.h"
#include "verbs/rs/int.h"

#define MAX_BACKLOG 4096
#define MAX_WAITING 1024

/* ---- Queue pairs ---- */

int rs_open_qp(struct rs *s, struct diw_qp_attr *a, uint32_t completions)
{
	int rc = diw_channel_create(s->dev->host.diw, &s->channel);

	if (rc == 0)
		rc = diw_cq_create(s->dev->host.diw, completions, s->channel, s, &s->cq);
	a->send_cq = a->recv_cq = s->cq;
	a->ctx = s;
	return rc == 0 ? diw_qp_create(s->dev->pd, a, &s->qp) : rc;
}

void rs_close_qp(struct rs *s)
{
	if (s->qp)
		diw_qp_destroy(s->qp);
	if (s->cq)
		diw_cq_destroy(s->cq);
	if (s->channel)
		diw_channel_destroy(s->channel);
	s->qp = NULL;
	s->cq = NULL;
	s->channel = NULL;
}

/* Whether both addresses are on one host. No wire can damage the data there, and TCP computes no checksum either, so
 * CRC-32C is off. */
static bool same_host(const struct diw_addr *a, const struct diw_addr *b)
{
	return memcmp(a->ip, b->ip, sizeof a->ip) == 0 || (diw_addr_is_v4(a) && a->ip[12] == 127);
}

static void rs_conn_attr(const struct rs *s, struct diw_conn_attr *a, uint8_t hello[RS_HELLO])
{
	rs_stream_hello(s, hello);
	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->data = hello;
	a->data_len = RS_HELLO;
	a->ird = a->ord = 1;
	a->plain = true;
	a->timeout_ns = (int64_t)RS_TIMEOUT_NS;
	rs_opt_conn(s, a);
}

/* ---- Connecting ---- */

static int begin_connect(struct rs *s, const struct diw_addr *peer)
{
	struct diw_addr to = *peer, source;
	uint8_t hello[RS_HELLO];
	struct diw_conn_attr a;
	int rc = diw_route_source(peer, &s->local, &source);

	if (rc == 0)
		rc = rs_dev_of(&source, &s->dev);
	if (rc == 0)
		rc = rs_stream_new(s);
	if (rc < 0)
		return rc;
	rs_conn_attr(s, &a, hello);
	a.crc = !same_host(&source, peer);
	if (s->bound) {
		a.connect.local = source;
		a.connect.local.port = s->local.port;
	}
	a.connect.other_port = diw_port_dial(&to);
	rs_hold_drop(s);
	s->state = RS_CONNECTING;
	s->peer = *peer;
	rc = diw_connect(s->qp, s->dev->conns.cm, &to, &a);
	if (rc == 0)
		return 0;
	s->state = RS_OPEN;
	rs_close_qp(s);
	rs_stream_free(s);
	return rc;
}

/* An unspecified address means this host, as for connect(2). */
static void to_this_host(struct diw_addr *a)
{
	if (!diw_route_is_any(a))
		return;
	if (diw_addr_is_v4(a))
		memcpy(a->ip + 12, "\x7f\0\0\1", 4);
	else
		a->ip[15] = 1;
}

/* rs_big must be taken first; the caller's reference keeps the socket. */
static int start_connect(struct rs *s, const struct diw_addr *peer)
{
	int rc;

	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&rs_big);
	pthread_mutex_lock(&s->lock);
	rc = s->closed ? -EBADF : s->state == RS_OPEN ? begin_connect(s, peer) : -EALREADY;
	pthread_mutex_unlock(&rs_big);
	return rc;
}

static int connect_stream(struct rs *s, struct diw_addr *peer)
{
	int rc;

	if (s->state == RS_CONNECTED || s->state == RS_LISTENING)
		return -EISCONN;
	if (s->state == RS_CONNECTING && s->nonblock)
		return -EALREADY;
	if (s->state == RS_OPEN) {
		if (s->err)
			return rs_take_error(s);
		to_this_host(peer);
		rc = start_connect(s, peer);
		if (rc < 0)
			return rc;
		if (s->nonblock)
			return -EINPROGRESS;
	}
	rc = rs_wait(s, POLLOUT | RS_END, rs_until(s->opt.sndtimeo));
	if (rc < 0)
		return rc == -EAGAIN ? -EINPROGRESS : rc;
	return s->state == RS_CONNECTED ? 0 : s->err ? rs_take_error(s) : -ECONNABORTED;
}

int diw_rs_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct diw_addr peer;
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	if (addr && len >= sizeof(sa_family_t) && addr->sa_family == AF_UNSPEC && s->dgram) {
		s->peer = (struct diw_addr){ 0 };
		rs_release(s);
		return 0;
	}
	rc = rs_addr_get(s, &peer, addr, len);
	if (rc == 0)
		rc = s->type == SOCK_DGRAM ? rs_dgram_connect(s, &peer) : connect_stream(s, &peer);
	rs_release(s);
	return rc;
}

/* ---- Listening ---- */

static int begin_listen(struct rs *s)
{
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;
	int rc = rs_dev_of(&s->local, &s->dev);

	if (rc < 0)
		return rc;
	a.local = s->local;
	a.local.port = diw_port_tcp(s->local.port);
	a.v6only = s->opt.v6only;
	a.backlog = MAX_BACKLOG;                /* the backlog is counted here */
	a.request_timeout_ns = (int64_t)RS_TIMEOUT_NS;
	a.ctx = s;
	rc = diw_listen(s->dev->conns.cm, &a, &s->listener);
	if (rc < 0)
		return rc;
	rs_hold_drop(s);
	s->state = RS_LISTENING;
	return 0;
}

static int any_address(struct rs *s)
{
	struct diw_addr any = { 0 };
	int rc;

	if (s->domain == AF_INET)
		any.ip[10] = any.ip[11] = 0xff;
	rc = rs_hold(s, &any);
	if (rc == 0)
		s->local = any;
	s->bound |= rc == 0;
	return rc;
}

int diw_rs_listen(int fd, int backlog)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	pthread_mutex_unlock(&s->lock);
	pthread_mutex_lock(&rs_big);
	pthread_mutex_lock(&s->lock);
	if (s->type != SOCK_STREAM)
		rc = -EOPNOTSUPP;
	else if (s->state != RS_OPEN && s->state != RS_LISTENING)
		rc = -EINVAL;
	s->backlog = backlog < 0 ? 0 : backlog > MAX_BACKLOG ? MAX_BACKLOG : backlog;
	if (rc == 0 && s->state == RS_OPEN) {
		if (!s->bound)
			rc = any_address(s);
		if (rc == 0)
			rc = begin_listen(s);
	}
	pthread_mutex_unlock(&rs_big);
	rs_release(s);
	return rc;
}

/* ---- Answering requests; rs_big is held ---- */

static struct rs *rs_child_new(struct rs *l, struct rs_dev *dev, const struct diw_cm_event *ev)
{
	struct rs *s = rs_new(l->domain, SOCK_STREAM);

	if (!s)
		return NULL;
	rs_opt_inherit(s, l);
	s->local = ev->local;
	s->local.port = l->local.port;
	s->peer = ev->peer;
	s->dev = dev;
	s->state = RS_CONNECTING;
	if (rs_stream_new(s) == 0 && rs_stream_meet(s, ev->data, ev->data_len))
		return s;
	s->state = RS_OPEN;
	rs_close_qp(s);
	rs_stream_free(s);
	rs_unref(s);
	return NULL;
}

static bool conn_answer(struct rs_dev *d, struct rs *l, const struct diw_cm_event *ev)
{
	uint8_t hello[RS_HELLO];
	struct diw_conn_attr a;
	struct rs_dev *dev;
	struct rs *s;

	if (rs_dev_of(&ev->local, &dev) < 0 || (dev != d && diw_conn_req_move(ev->req, dev->conns.cm) < 0))
		return false;
	s = rs_child_new(l, dev, ev);
	if (!s)
		return false;
	rs_conn_attr(s, &a, hello);
	a.crc = !same_host(&ev->local, &ev->peer);
	if (diw_accept(ev->req, s->qp, &a) < 0) {
		s->state = RS_OPEN;
		rs_close_qp(s);
		rs_stream_free(s);
		rs_unref(s);
		return false;
	}
	s->parent = l;
	diw_list_add_tail(&l->children, &s->sibling);
	l->nchildren++;
	return true;
}

/* A request that waits for room in the backlog, as with TCP. */
struct waiting {
	struct diw_list link;
	struct rs_dev *dev;
	struct diw_cm_event ev;
};

static bool keep_waiting(struct rs_dev *d, struct rs *l, const struct diw_cm_event *ev)
{
	struct waiting *w = l->nwaiting < MAX_WAITING ? malloc(sizeof *w) : NULL;

	if (!w)
		return false;
	w->dev = d;
	w->ev = *ev;
	diw_list_add_tail(&l->waiting, &w->link);
	l->nwaiting++;
	return true;
}

static bool has_room(const struct rs *l)
{
	return l->nchildren <= (unsigned)l->backlog;
}

static void rs_on_request(struct rs_dev *d, const struct diw_cm_event *ev)
{
	struct rs *l = ev->ctx;
	bool taken = false;

	pthread_mutex_lock(&l->lock);
	if (l->state == RS_LISTENING && !l->closed)
		taken = has_room(l) ? conn_answer(d, l, ev) : keep_waiting(d, l, ev);
	pthread_mutex_unlock(&l->lock);
	if (!taken)
		diw_reject(ev->req, NULL, 0);
}

static void take_waiting(struct rs *l, bool all)
{
	struct diw_list *p;

	while ((p = diw_list_first(&l->waiting)) && (all || has_room(l))) {
		struct waiting *w = diw_container(p, struct waiting, link);

		diw_list_del(p);
		l->nwaiting--;
		if (all || !conn_answer(w->dev, l, &w->ev))
			diw_reject(w->ev.req, NULL, 0);
		free(w);
	}
}

void rs_requests_forget(struct rs *l)
{
	take_waiting(l, true);
}

/* Called when accept() has made room. */
static void listener_admit(struct rs *l)
{
	pthread_mutex_lock(&rs_big);
	pthread_mutex_lock(&l->lock);
	if (!l->closed)
		take_waiting(l, false);
	pthread_mutex_unlock(&l->lock);
	pthread_mutex_unlock(&rs_big);
}

/* accept() reads a child's state under the listener's lock, the child's own calls under the child's lock. So both are
 * held. */
static void child_established(struct rs *l, struct rs *s)
{
	pthread_mutex_lock(&l->lock);
	pthread_mutex_lock(&s->lock);
	s->state = RS_CONNECTED;
	pthread_mutex_unlock(&s->lock);
	l->nready++;
	rs_signal(l, true);
	rs_bump(l);
	pthread_mutex_unlock(&l->lock);
}

/* Threads in poll() have slept on the descriptor alone. They are woken to watch the queue pair, too. */
static void rs_established(struct rs *s, const struct diw_cm_event *ev)
{
	pthread_mutex_lock(&s->lock);
	s->state = RS_CONNECTED;
	s->local = ev->local;
	if (!rs_stream_meet(s, ev->data, ev->data_len)) {
		rs_stream_down(s, 0);
		diw_abort(s->qp);
	}
	rs_bump(s);
	pthread_mutex_unlock(&s->lock);
}

/* No thread knows a child that was never in the queue. */
static void child_failed(struct rs *s)
{
	struct rs *l = s->parent;

	pthread_mutex_lock(&l->lock);
	diw_list_del(&s->sibling);
	l->nchildren--;
	s->parent = NULL;
	take_waiting(l, false);
	pthread_mutex_unlock(&l->lock);
	s->state = RS_OPEN;
	rs_close_qp(s);
	rs_stream_free(s);
	rs_unref(s);
}

static void rs_on_failed(struct rs *s, int errnum)
{
	if (s->parent) {
		child_failed(s);
		return;
	}
	pthread_mutex_lock(&s->lock);
	s->err = errnum;
	s->state = RS_OPEN;
	rs_close_qp(s);
	rs_stream_free(s);
	rs_bump(s);
	pthread_mutex_unlock(&s->lock);
}

static void on_disconnected(struct rs *s, int errnum)
{
	if (s->state == RS_CONNECTING && s->parent) {
		child_failed(s);
		return;
	}
	if (s->state == RS_CLOSING) {
		rs_lingerer_over(s);
		return;
	}
	pthread_mutex_lock(&s->lock);
	rs_stream_look(s, 0);
	rs_stream_down(s, errnum);
	rs_bump(s);
	pthread_mutex_unlock(&s->lock);
}

void rs_cm_event(struct diw_loop_cm *c, const struct diw_cm_event *ev)
{
	struct rs *s;

	switch (ev->type) {
	case DIW_CM_CONNECT_REQUEST:
		rs_on_request(diw_container(c, struct rs_dev, conns), ev);
		break;
	case DIW_CM_ESTABLISHED:
		s = ev->ctx;
		if (s->parent)
			child_established(s->parent, s);
		else
			rs_established(s, ev);
		break;
	case DIW_CM_REJECTED:
		rs_on_failed(ev->ctx, ECONNREFUSED);
		break;
	case DIW_CM_FAILED:
		rs_on_failed(ev->ctx, ev->errnum);
		break;
	case DIW_CM_DISCONNECTED:
		on_disconnected(ev->ctx, ev->errnum);
		break;
	}
}

/* ---- Accepting ---- */

static struct rs *first_ready(struct rs *l)
{
	struct diw_list *p, *next;

	diw_list_for_each_safe(p, next, &l->children) {
		struct rs *s = diw_container(p, struct rs, sibling);

		if (s->state != RS_CONNECTED)
			continue;
		diw_list_del(p);
		l->nchildren--;
		if (--l->nready == 0)
			rs_signal(l, false);
		s->parent = NULL;
		return s;
	}
	return NULL;
}

static int wait_child(struct rs *l, struct rs **child)
{
	int rc;

	if (l->state != RS_LISTENING)
		return -EINVAL;
	while (l->nready == 0) {
		if (l->nonblock)
			return -EAGAIN;
		rc = rs_wait(l, POLLIN | RS_END, rs_until(l->opt.rcvtimeo));
		if (rc < 0)
			return rc;
		if (l->state != RS_LISTENING)
			return -EINVAL;
	}
	*child = first_ready(l);
	return 0;
}

int diw_rs_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct rs *l, *s;
	int rc = rs_take(fd, &l);
	bool waits;

	if (rc < 0)
		return rc;
	rc = wait_child(l, &s);
	waits = l->nwaiting > 0;
	pthread_mutex_unlock(&l->lock);
	if (waits)
		listener_admit(l);
	rs_unref(l);
	if (rc < 0)
		return rc;
	rc = rs_enter_table(s, false);
	if (rc < 0) {
		rs_unref(s);
		return rc;
	}
	rs_addr_put(s, &s->peer, addr, len);
	return rc;
}
