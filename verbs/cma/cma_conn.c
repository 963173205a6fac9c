/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections of RC queue pairs: request and reply are MPA's frames. */
#include <stdlib.h>

#include "verbs/host/port.h"
#include "verbs/cma/cma.h"

#define QP_BUCKETS 4096u
#define KEEPALIVE_S 10
/* How long a refused connect is retried. Some programs send the port between bind and listen (qperf), and hardware
 * takes longer to resolve a route. */
#define REFUSED_NS 200000000ll
/* With hardware a request that finds no room is sent again. Ours is refused, so the backlog has a minimum. */
#define BACKLOG_MIN 128
/* InfiniBand's reject reasons: the service does not exist; the program refuses. */
#define REJ_NO_SERVICE 8
#define REJ_CONSUMER 28

/* ---- Connections and their identifiers ---- */

static struct cma_id *buckets[QP_BUCKETS];

static struct cma_id **qp_bucket(const struct diw_qp *qp)
{
	return &buckets[((uintptr_t)qp >> 6) * 0x9e3779b97f4a7c15u >> 32 & (QP_BUCKETS - 1)];
}

/* Maps QP to ID. The newest entry is first: an earlier one with the same address is of a destroyed queue pair. */
static void qp_map(struct cma_id *id, struct diw_qp *qp)
{
	id->diw = qp;
	id->hash_next = *qp_bucket(qp);
	*qp_bucket(qp) = id;
}

void cma_unmap(struct cma_id *id)
{
	struct cma_id **p;

	if (!id->diw)
		return;
	for (p = qp_bucket(id->diw); *p != id; p = &(*p)->hash_next)
		;
	*p = id->hash_next;
	id->diw = NULL;
}

static struct cma_id *conn_id_find(const struct diw_qp *qp)
{
	struct cma_id *id = *qp_bucket(qp);

	while (id && id->diw != qp)
		id = id->hash_next;
	return id;
}

/* ---- Listening ---- */

static int listen_rc(struct cma_id *id)
{
	struct cma_dev *dev = id->dev ? id->dev : cma_dev_of(&id->local);
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;
	int rc;

	if (!dev)
		return errno;
	a.local = id->local;
	a.local.port = diw_port_tcp(id->local.port);
	a.v6only = id->afonly;
	a.backlog = CMA_BACKLOG;
	a.request_timeout_ns = CMA_TIMEOUT_NS;
	a.ctx = id;
	rc = -diw_listen(dev->conns.cm, &a, &id->listener);
	if (rc)
		return rc;
	cma_hold_drop(id);
	return 0;
}

int rdma_listen(struct rdma_cm_id *cm_id, int backlog)
{
	static const struct diw_addr any4 = { .ip = { [10] = 0xff, [11] = 0xff } };
	struct cma_id *id = cma_id(cm_id);
	int rc;

	cma_enter();
	rc = id->state == CMA_IDLE ? cma_bind(id, &any4) : id->state == CMA_BOUND ? 0 : EINVAL;
	if (rc == 0) {
		id->backlog = backlog <= 0 || backlog > CMA_BACKLOG ? CMA_BACKLOG : (uint32_t)backlog;
		if (id->backlog < BACKLOG_MIN)
			id->backlog = BACKLOG_MIN;
		rc = cma_is_ud(id) ? cma_ud_listen(id) : listen_rc(id);
	}
	if (rc == 0) {
		id->state = CMA_LISTENING;
		cma_id_show(id);
	}
	cma_leave();
	return cma_result(rc);
}

static uint8_t retry_shown(uint16_t n)
{
	return n < UINT8_MAX ? (uint8_t)n : UINT8_MAX;
}

static struct cma_id *conn_child_new(struct cma_id *l, struct cma_dev *dev, const struct diw_cm_event *ev)
{
	struct cma_id *id = cma_id_new(l->sync ? NULL : l->id.channel, l->id.context, l->id.ps, l->id.qp_type);

	if (!id)
		return NULL;
	id->local = ev->local;
	id->local.port = l->local.port;
	id->peer = ev->peer;
	id->tos = l->tos;
	id->ack_timeout = l->ack_timeout;
	id->ird = ev->ird;
	id->ord = ev->ord;
	id->req = ev->req;
	id->state = CMA_REQUESTED;
	cma_id_device(id, dev);
	cma_id_show(id);
	return id;
}

static void cma_on_request(struct cma_dev *d, const struct diw_cm_event *ev)
{
	struct cma_id *l = ev->ctx, *id = NULL;
	struct cma_dev *dev = l->dev ? l->dev : cma_dev_of(&ev->local);
	struct cma_event *e = NULL;

	if (dev && l->id.channel && l->queued < l->backlog &&
	    (dev == d || diw_conn_req_move(ev->req, dev->conns.cm) == 0))
		id = conn_child_new(l, dev, ev);
	if (id)
		e = cma_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	if (!e) {
		if (id)
			cma_id_free(id);
		else
			diw_reject(ev->req, NULL, 0);
		return;
	}
	e->owner = l;
	e->ev.listen_id = &l->id;
	/* The most that the peer has outstanding is the most that we must answer, and vice versa. */
	e->ev.param.conn.responder_resources = retry_shown(ev->ord);
	e->ev.param.conn.initiator_depth = retry_shown(ev->ird);
	cma_event_data(e, ev->data, ev->data_len);
	l->queued++;
	cma_event_post(e);
}

/* ---- Requests and answers ---- */

static uint16_t at_most(uint16_t n)
{
	return n < DIW_MAX_IRD ? n : DIW_MAX_IRD;
}

/* N of a program; ALL (RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH) is MOST. 0 is one: programs that leave the depths 0 and
 * read all the same run on adapters whose smallest depth is one. */
static uint16_t reads_depth(uint8_t n, uint8_t all, uint16_t most)
{
	if (n == all)
		return most;
	return n ? n : 1;
}

static int cma_conn_attr(struct diw_conn_attr *a, const struct cma_id *id, const struct rdma_conn_param *p)
{
	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->timeout_ns = CMA_TIMEOUT_NS;
	a->connect.refused_ns = REFUSED_NS;
	a->keepalive_s = KEEPALIVE_S;
	a->dscp = id->tos >> 2;
	a->ird = id->req ? at_most(id->ord) : DIW_MAX_IRD;
	a->ord = id->req ? at_most(id->ird) : DIW_MAX_IRD;
	if (!p)
		return 0;
	if ((p->responder_resources != RDMA_MAX_RESP_RES && p->responder_resources > DIW_MAX_IRD) ||
	    (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > DIW_MAX_IRD))
		return EINVAL;
	a->ird = reads_depth(p->responder_resources, RDMA_MAX_RESP_RES, a->ird);
	a->ord = reads_depth(p->initiator_depth, RDMA_MAX_INIT_DEPTH, a->ord);
	a->data = p->private_data;
	a->data_len = cma_data_len(p);
	return 0;
}

/* From here on, this library connects the queue pair. */
static struct diw_qp *qp_claim(struct cma_id *id, const struct rdma_conn_param *p)
{
	struct diw_qp *qp;

	if (id->id.qp)
		id->qp_num = id->id.qp->qp_num;
	else
		id->qp_num = p ? p->qp_num : 0;
	qp = diw_of_claim(id->id.verbs, id->qp_num);
	if (qp)
		qp_map(id, qp);
	return qp;
}

static int connect_rc(struct cma_id *id, const struct rdma_conn_param *p)
{
	struct diw_addr to = id->peer;
	struct diw_conn_attr a;
	int rc = cma_conn_attr(&a, id, p);
	struct diw_qp *qp = rc ? NULL : qp_claim(id, p);

	if (!qp)
		return EINVAL;
	a.connect.other_port = diw_port_dial(&to);
	a.connect.local = id->local;
	if (id->any_port || id->hold < 0)
		a.connect.local.port = 0;
	cma_hold_drop(id);
	if (id->data && !a.data_len) {
		a.data = id->data;
		a.data_len = id->data_len;
	}
	id->active = true;
	rc = -diw_connect(qp, id->dev->conns.cm, &to, &a);
	if (rc)
		cma_unmap(id);
	return rc;
}

int rdma_connect(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	cma_enter();
	rc = id->state == CMA_ROUTE_RESOLVED ? 0 : EINVAL;
	if (rc == 0)
		rc = cma_is_ud(id) ? cma_ud_connect(id, param) : connect_rc(id, param);
	if (rc == 0)
		id->state = CMA_CONNECTING;
	cma_leave();
	return rc ? cma_result(rc) : cma_complete(id);
}

static int accept_rc(struct cma_id *id, const struct rdma_conn_param *p)
{
	struct diw_conn_attr a;
	int rc = cma_conn_attr(&a, id, p);
	struct diw_qp *qp = rc ? NULL : qp_claim(id, p);

	if (!qp)
		return EINVAL;
	rc = -diw_accept(id->req, qp, &a);
	if (rc) {
		cma_unmap(id);
		return rc;
	}
	id->req = NULL;
	if (id->id.qp)
		cma_qp_connected(id);                   /* the queue pair may send, and its requests wait */
	return 0;
}

int rdma_accept(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	cma_enter();
	rc = id->state == CMA_REQUESTED ? 0 : EINVAL;
	if (rc == 0)
		rc = cma_is_ud(id) ? cma_ud_accept(id, param) : accept_rc(id, param);
	if (rc == 0)
		id->state = CMA_CONNECTING;
	cma_leave();
	/* No event answers it. The request's event must not hold the listener (rdma_destroy_id()). */
	if (rc == 0 && cma_is_ud(id) && id->sync)
		cma_own_event_drop(id);
	return rc || cma_is_ud(id) ? cma_result(rc) : cma_complete(id);
}

int rdma_reject(struct rdma_cm_id *cm_id, const void *data, uint8_t len)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	if (len && !data)
		return cma_result(EINVAL);
	cma_enter();
	rc = id->state == CMA_REQUESTED ? 0 : EINVAL;
	if (rc == 0) {
		rc = cma_is_ud(id) ? cma_ud_reject(id, data, len) : -diw_reject(id->req, data, len);
		id->req = NULL;
		id->state = CMA_OVER;
	}
	cma_leave();
	return cma_result(rc);
}

/* ECE is not reported: no peer here has it. */
int rdma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return rdma_reject(id, data, len);
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	(void)id;
	(void)ece;
	return cma_result(EOPNOTSUPP);
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || !ece)
		return cma_result(EINVAL);
	memset(ece, 0, sizeof *ece);
	return 0;
}

/* The program has moved its own queue pair to RTS. MPA's negotiation has already told the peer. */
int rdma_establish(struct rdma_cm_id *cm_id)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	cma_enter();
	rc = id->id.qp || cma_is_ud(id) || id->state != CMA_CONNECTED ? EINVAL : 0;
	cma_leave();
	return cma_result(rc);
}

/* Not needed: the device itself detects a message that comes before ESTABLISHED. */
int rdma_notify(struct rdma_cm_id *cm_id, enum ibv_event_type event)
{
	struct cma_id *id = cma_id(cm_id);
	int rc;

	cma_enter();
	if (event != IBV_EVENT_COMM_EST || cma_is_ud(id))
		rc = EINVAL;
	else
		rc = id->state == CMA_CONNECTED ? EISCONN : id->state == CMA_CONNECTING ? 0 : EINVAL;
	cma_leave();
	return cma_result(rc);
}

int rdma_disconnect(struct rdma_cm_id *cm_id)
{
	struct cma_id *id = cma_id(cm_id);
	bool was_up;
	int rc;

	cma_enter();
	was_up = id->state == CMA_CONNECTED && id->diw;
	rc = id->inherited ? ENODEV : id->state < CMA_CONNECTING || cma_is_ud(id) ? EINVAL : 0;
	if (rc == 0 && id->diw) {
		id->leaving = true;
		diw_of_disconnect(id->id.verbs, id->qp_num, id->diw);
	}
	cma_leave();
	/* otherwise the event has come already, or is queued */
	return rc || !was_up ? cma_result(rc) : cma_complete(id);
}

/* ---- Events ---- */

static void cma_on_established(struct cma_id *id, const struct diw_cm_event *ev)
{
	bool half = id->active && !id->id.qp && !id->dev->rnic;
	struct cma_event *e = cma_event_new(id, half ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_ESTABLISHED, 0);

	id->state = CMA_CONNECTED;
	if (id->active)                          /* a responder's port is its listener's */
		id->local = ev->local;
	cma_id_show(id);
	if (id->id.qp)
		cma_qp_connected(id);
	if (!e)
		return;
	e->ev.param.conn.responder_resources = retry_shown(ev->ird);
	e->ev.param.conn.initiator_depth = retry_shown(ev->ord);
	cma_event_data(e, ev->data, ev->data_len);
	cma_event_post(e);
}

static void on_rejected(struct cma_id *id, const struct diw_cm_event *ev, int reason)
{
	int status = id->dev->rnic ? -ECONNREFUSED : reason;
	struct cma_event *e = cma_event_new(id, RDMA_CM_EVENT_REJECTED, status);

	if (!e)
		return;
	cma_event_data(e, ev->data, ev->data_len);
	cma_event_post(e);
}

static void cma_on_failed(struct cma_id *id, const struct diw_cm_event *ev)
{
	switch (ev->errnum) {
	case ECONNREFUSED:
	case ECONNRESET:
		if (id->active) {
			on_rejected(id, ev, REJ_NO_SERVICE);
			return;
		}
		break;
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EHOSTDOWN:
		cma_post(id, RDMA_CM_EVENT_UNREACHABLE, -ev->errnum);
		return;
	}
	cma_post(id, RDMA_CM_EVENT_CONNECT_ERROR, -ev->errnum);
}

/* The end of a connection is reported after this delay. The peer's last messages and the end of its stream may arrive
 * together. A program that fetches an event between two polls of its completion queue, such as libfabric, would see the
 * end first, and drop the messages that it has not polled. With an adapter the event comes later, since it passes
 * through a kernel. */
#define LATE_NS 2000000u
/* InfiniBand's connection manager keeps an ended connection for the lifetime of a packet (InfiniBand, volume 1, section
 * 12.9.8.4). Programs destroy the queue pair after that. An RNIC has no such state. */
#define TIMEWAIT_NS (4096ull << CMA_PACKET_LIFE)

static void forget_late(struct cma_id *id)
{
	if (id->late.ready)
		diw_loop_del(&cma_loop, &id->late);
	id->late.ready = NULL;
}

/* Calls READY after NS; at once if nothing can be watched. */
static void id_call_later(struct cma_id *id, void (*ready)(struct diw_watch *w, uint64_t now), uint64_t ns)
{
	forget_late(id);
	id->late = (struct diw_watch){ .fd = -1, .ready = ready };
	if (diw_loop_add(&cma_loop, &id->late)) {
		id->late.ready = NULL;
		ready(&id->late, diw_clock_ns());
		return;
	}
	diw_loop_call(&cma_loop, &id->late, diw_clock_ns() + ns);
}

static void tell_timewait(struct diw_watch *w, uint64_t now)
{
	struct cma_id *id = diw_container(w, struct cma_id, late);

	(void)now;
	forget_late(id);
	cma_post(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

void cma_disconnected(struct cma_id *id)
{
	cma_post(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	if (!id->dev->rnic)
		id_call_later(id, tell_timewait, TIMEWAIT_NS);
}

static void tell_late(struct diw_watch *w, uint64_t now)
{
	struct cma_id *id = diw_container(w, struct cma_id, late);

	(void)now;
	forget_late(id);
	cma_disconnected(id);
}

void cma_conn_event(struct diw_loop_cm *c, const struct diw_cm_event *ev)
{
	struct cma_id *id = ev->qp ? conn_id_find(ev->qp) : NULL;

	if (ev->type == DIW_CM_CONNECT_REQUEST) {
		cma_on_request(diw_container(c, struct cma_dev, conns), ev);
		return;
	}
	if (!id)
		return;
	switch (ev->type) {
	case DIW_CM_ESTABLISHED:
		cma_on_established(id, ev);
		return;
	case DIW_CM_REJECTED:
		on_rejected(id, ev, REJ_CONSUMER);
		break;
	case DIW_CM_FAILED:
		if (id->leaving)
			cma_disconnected(id);
		else
			cma_on_failed(id, ev);
		break;
	default:
		if (id->leaving)
			cma_disconnected(id);
		else
			id_call_later(id, tell_late, LATE_NS);
		break;
	}
	id->state = CMA_OVER;
}

/* ---- The end of a connection ---- */

void cma_conn_forget(struct cma_id *id)
{
	forget_late(id);
	if (id->ud)
		cma_ud_forget(id);
	if (id->listener)
		diw_listener_close(id->listener);
	id->listener = NULL;
	if (id->req)
		diw_reject(id->req, NULL, 0);
	id->req = NULL;
	if (id->diw && (id->state == CMA_CONNECTING || id->state == CMA_CONNECTED))
		diw_of_disconnect(id->id.verbs, id->qp_num, id->diw);
	cma_unmap(id);
	id->state = CMA_OVER;
}
