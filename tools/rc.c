/* SPDX-License-Identifier: BSD-2-Clause */
/* RC connections of several commands: an initiator, and a listener for one or many peers. */
#include <errno.h>
#include <string.h>

#include "tools/rc.h"

#define CONNECT_NS (5 * DIW_S)
#define LEAVE_NS DIW_S
#define KEEPALIVE_S 10               /* after this silence of a lost host, its connection becomes free */
#define STEP_EVENTS 256              /* bound on new connections in a step, so that the others need not wait */
#define BUSY "too many connections"

const char *opt_qp_name(enum diw_qp_type type)
{
	switch (type) {
	case DIW_QP_UD: return "ud";
	case DIW_QP_UC: return "uc";
	case DIW_QP_RC: return "rc";
	case DIW_QP_RD: return "rd";
	}
	return "?";
}

int opt_qp(const char *text, unsigned types, enum diw_qp_type *type)
{
	char known[32] = "";
	size_t n = 0;

	for (unsigned t = DIW_QP_UD; t <= DIW_QP_RD; t++) {
		if (!(types & 1u << t))
			continue;
		*type = (enum diw_qp_type)t;
		if (!strcmp(text, opt_qp_name(*type)))
			return 0;
		n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", opt_qp_name(*type));
	}
	return tool_usage("--qp: '%s' is none of %s", text, known);
}

/* ---- The initiator ---- */

static int tell_refused(const struct diw_cm_event *ev, const char *host, const char *who)
{
	if (ev->type == DIW_CM_REJECTED && ev->data_len == sizeof BUSY - 1 && !memcmp(ev->data, BUSY, ev->data_len))
		return tool_failed("%s refuses: " BUSY, host);
	if (ev->errnum == ECONNREFUSED)
		return tool_failed("%s: no RC connection: refused (is '%s' running there?)", host, who);
	return tool_failed("%s: no RC connection: %s%s%s%s", host, diw_cm_event_str(ev->type),
			   ev->errnum || ev->fault ? ", " : "",
			   ev->errnum && !ev->fault ? strerror(ev->errnum) : "",
			   ev->fault ? diw_fault_str(ev->fault) : "");
}

int rc_connect(struct endpoint *e, const struct diw_addr *dst, const char *host, const char *who, struct diw_cm **cm)
{
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	int rc = diw_cm_create(e->dev, cm);

	attr.timeout_ns = (int64_t)CONNECT_NS;
	attr.keepalive_s = KEEPALIVE_S;
	if (!rc)
		rc = diw_connect(e->qp, *cm, dst, &attr);
	if (rc)
		return tool_failed("%s: no RC connection: %s", host, strerror(-rc));
	do
		rc = diw_cm_get(*cm, &ev, 100 * (int64_t)DIW_MS);
	while (rc == -EAGAIN && !tool_stopped);
	if (rc)
		return tool_failed("%s: no RC connection: %s", host, tool_stopped ? "interrupted" : strerror(-rc));
	return ev.type == DIW_CM_ESTABLISHED ? TOOL_OK : tell_refused(&ev, host, who);
}

void rc_disconnect(struct endpoint *e, struct diw_cm *cm)
{
	struct diw_cm_event ev;

	if (e->qp && cm && diw_disconnect(e->qp) == 0)
		diw_cm_get(cm, &ev, (int64_t)LEAVE_NS);
	if (e->qp)
		diw_qp_destroy(e->qp);
	e->qp = NULL;
	if (cm)
		diw_cm_destroy(cm);
}

/* ---- The listener ---- */

int rc_serve(struct rc_server *s, uint16_t port)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	int rc = diw_cm_create(s->ep->dev, &s->cm);

	attr.local.port = port;
	if (!rc)
		rc = diw_listen(s->cm, &attr, &s->listener);
	if (rc == -EADDRINUSE) {
		tool_failed("TCP port %u is another program's: serving datagrams only", port);
		rc_serve_end(s);
		return TOOL_OK;
	}
	return rc ? tool_failed("TCP port %u: %s", port, strerror(-rc)) : TOOL_OK;
}

static void conn_drop(struct rc_server *s, struct rc_conn *c)
{
	if (s->gone && c->used)
		s->gone(s->ctx, c);
	diw_cq_forget(s->ep->cq, c->in.qp);
	diw_qp_destroy(c->in.qp);
	inbox_close(&c->in);
	memset(c, 0, sizeof *c);
}

static int conn_make(struct rc_server *s, struct rc_conn *c)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;
	int rc;

	attr.type = DIW_QP_RC;
	attr.send_cq = attr.recv_cq = s->ep->cq;
	attr.sq_depth = s->sq_depth;
	attr.rq_depth = s->slots;
	attr.max_inline = s->max_inline;
	rc = diw_qp_create(s->ep->pd, &attr, &qp);
	if (rc)
		return tool_failed("queue pair: %s", strerror(-rc));
	rc = inbox_open(&c->in, s->ep->pd, qp, s->slots, s->slot_size);
	if (rc)
		conn_drop(s, c);
	return rc;
}

static struct rc_conn *conn_free(struct rc_server *s)
{
	for (uint32_t i = 0; i < RC_CONNS; i++)
		if (!s->conn[i].in.qp)
			return &s->conn[i];
	return NULL;
}

/* A request that cannot be served is refused; the other connections continue. */
static void accept_request(struct rc_server *s, const struct diw_cm_event *ev)
{
	struct rc_conn *c = conn_free(s);
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;

	attr.keepalive_s = KEEPALIVE_S;
	if (!c || conn_make(s, c)) {
		diw_reject(ev->req, BUSY, sizeof BUSY - 1);
		return;
	}
	if (diw_accept(ev->req, c->in.qp, &attr)) {
		diw_reject(ev->req, NULL, 0);
		conn_drop(s, c);
		return;
	}
	c->used = true;
	c->peer = ev->peer;
	s->accepted++;
}

int rc_serve_step(struct rc_server *s)
{
	struct diw_cm_event ev;
	struct rc_conn *c;
	int rc = 0;

	if (!s->cm)
		return TOOL_OK;
	for (int i = 0; i < STEP_EVENTS && (rc = diw_cm_get(s->cm, &ev, 0)) == 0; i++) {
		c = rc_conn_of(s, ev.qp);
		if (ev.type == DIW_CM_CONNECT_REQUEST)
			accept_request(s, &ev);
		else if (ev.type != DIW_CM_ESTABLISHED && c)
			conn_drop(s, c);
	}
	return !rc || rc == -EAGAIN ? TOOL_OK : tool_failed("connections: %s", strerror(-rc));
}

void rc_serve_end(struct rc_server *s)
{
	for (uint32_t i = 0; i < RC_CONNS; i++)
		if (s->conn[i].in.qp)
			conn_drop(s, &s->conn[i]);
	if (s->listener)
		diw_listener_close(s->listener);
	if (s->cm)
		diw_cm_destroy(s->cm);
	s->listener = NULL;
	s->cm = NULL;
}

struct rc_conn *rc_conn_of(struct rc_server *s, const struct diw_qp *qp)
{
	for (uint32_t i = 0; qp && i < RC_CONNS; i++)
		if (s->conn[i].in.qp == qp)
			return &s->conn[i];
	return NULL;
}
