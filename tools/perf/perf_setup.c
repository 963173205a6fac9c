/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf setup: the cost of creating, changing and destroying completion queues and queue pairs against their depth,
 * and of RC connections. Both ends of a connection are in this process, so its figures have the work of both.
 */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_cost.h"
#include "verbs/diw_cm.h"

#define SETUP_ACTS 3
#define SETUP_MAX 5000u              /* times: each connection keeps a TCP port for some time */

/* ---- Completion queues ---- */

static int setup_cq_once(struct endpoint *ep, uint32_t depth, struct hist *h)
{
	uint64_t t0 = diw_clock_ns(), t1, t2;
	struct diw_cq *cq;
	int rc = diw_cq_create(ep->dev, depth, NULL, NULL, &cq);

	if (rc)
		return tool_failed("completion queue of %u: %s", depth, strerror(-rc));
	t1 = diw_clock_ns();
	rc = diw_cq_resize(cq, 2 * depth);
	t2 = diw_clock_ns();
	diw_cq_destroy(cq);
	hist_add(&h[0], t1 - t0);
	hist_add(&h[1], t2 - t1);
	hist_add(&h[2], diw_clock_ns() - t2);
	return rc ? tool_failed("completion queue of %u: resize: %s", depth, strerror(-rc)) : 0;
}

/* ---- Queue pairs ---- */

static int setup_qp_create(const struct cost_plan *p, struct endpoint *ep, enum perf_qp qp, uint32_t depth)
{
	struct diw_qp_attr attr;
	int rc;

	cost_qp_attr(p, qp, &attr);
	attr.send_cq = attr.recv_cq = ep->cq;
	attr.sq_depth = attr.rq_depth = depth;
	rc = diw_qp_create(ep->pd, &attr, &ep->qp);
	return rc ? tool_failed("queue pair of depth %u: %s", depth, strerror(-rc)) : 0;
}

static void setup_qp_destroy(struct endpoint *ep)
{
	if (ep->qp)
		diw_qp_destroy(ep->qp);
	ep->qp = NULL;
}

static int setup_qp_once(const struct cost_plan *p, struct endpoint *ep, enum perf_qp qp, uint32_t depth,
			 struct hist *h)
{
	uint64_t t0 = diw_clock_ns(), t1, t2;
	int rc = setup_qp_create(p, ep, qp, depth);

	if (rc)
		return rc;
	t1 = diw_clock_ns();
	rc = diw_qp_reset(ep->qp);
	t2 = diw_clock_ns();
	setup_qp_destroy(ep);
	hist_add(&h[0], t1 - t0);
	hist_add(&h[1], t2 - t1);
	hist_add(&h[2], diw_clock_ns() - t2);
	return rc ? tool_failed("reset: %s", strerror(-rc)) : 0;
}

/* ---- Connections ---- */

struct pair {
	struct endpoint *active, passive;    /* on one device: the thread that waits does the work of both ends */
	struct diw_cm *cm[2];                /* of the active end, of the passive end */
	struct diw_listener *listener;
	struct diw_addr to;
};

static int conns_open(struct pair *c, const struct cost_plan *p, struct endpoint *ep)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;
	int rc;

	*c = (struct pair){ .active = ep, .passive = *ep };
	attr.local = p->local;
	rc = diw_cm_create(ep->dev, &c->cm[0]);
	if (!rc)
		rc = diw_cm_create(c->passive.dev, &c->cm[1]);
	if (!rc)
		rc = diw_listen(c->cm[1], &attr, &c->listener);
	if (!rc)
		rc = diw_listener_query(c->listener, &info);
	if (!rc)
		c->to = info.local;
	return rc ? tool_failed("listen: %s", strerror(-rc)) : 0;
}

static void conns_close(struct pair *c)
{
	setup_qp_destroy(c->active);
	setup_qp_destroy(&c->passive);
	if (c->listener)
		diw_listener_close(c->listener);
	for (int i = 0; i < 2; i++)
		if (c->cm[i])
			diw_cm_destroy(c->cm[i]);
}

/* Waits for an event of that type. */
static int conns_await(struct diw_cm *cm, enum diw_cm_event_type type, struct diw_cm_event *ev)
{
	int rc = diw_cm_get(cm, ev, (int64_t)PERF_PATIENCE_NS);

	if (rc)
		return tool_failed("awaiting '%s': %s", diw_cm_event_str(type), strerror(-rc));
	return ev->type == type ? 0 : tool_failed("'%s' came, and not '%s': %s", diw_cm_event_str(ev->type),
						  diw_cm_event_str(type), strerror(ev->errnum));
}

static int conns_connect(struct pair *c, const struct cost_plan *p)
{
	struct diw_conn_attr attr = DIW_CONN_ATTR_INIT;
	struct diw_cm_event ev;
	int rc;

	attr.connect.local = p->local;
	rc = diw_connect(c->active->qp, c->cm[0], &c->to, &attr);
	if (rc)
		return tool_failed("connect: %s", strerror(-rc));
	rc = conns_await(c->cm[1], DIW_CM_CONNECT_REQUEST, &ev);
	if (!rc && (rc = diw_accept(ev.req, c->passive.qp, &attr)) < 0) {
		diw_reject(ev.req, NULL, 0);
		rc = tool_failed("accept: %s", strerror(-rc));
	}
	if (!rc)
		rc = conns_await(c->cm[0], DIW_CM_ESTABLISHED, &ev);
	return rc ? rc : conns_await(c->cm[1], DIW_CM_ESTABLISHED, &ev);
}

static int conns_disconnect(struct pair *c)
{
	struct diw_cm_event ev;
	int rc = diw_disconnect(c->active->qp);

	if (rc)
		return tool_failed("disconnect: %s", strerror(-rc));
	rc = conns_await(c->cm[1], DIW_CM_DISCONNECTED, &ev);
	return rc ? rc : conns_await(c->cm[0], DIW_CM_DISCONNECTED, &ev);
}

/* Every second connection is not disconnected: its queue pair is destroyed. */
static int setup_conn_once(const struct cost_plan *p, struct pair *c, enum perf_qp qp, uint32_t depth, struct hist *h)
{
	int rc = setup_qp_create(p, c->active, qp, depth);
	bool disconnect = h[0].n % 2 == 0;
	struct diw_cm_event ev;
	uint64_t t0, t1;

	if (!rc)
		rc = setup_qp_create(p, &c->passive, qp, depth);
	t0 = diw_clock_ns();
	if (!rc)
		rc = conns_connect(c, p);
	t1 = diw_clock_ns();
	if (rc)
		return rc;
	hist_add(&h[0], t1 - t0);
	if (disconnect)
		rc = conns_disconnect(c);
	else
		setup_qp_destroy(c->active);
	hist_add(&h[disconnect ? 1 : 2], diw_clock_ns() - t1);
	setup_qp_destroy(c->active);
	if (!disconnect)
		rc = conns_await(c->cm[1], DIW_CM_DISCONNECTED, &ev);
	setup_qp_destroy(&c->passive);
	return rc;
}

/* ---- Rows ---- */

struct setup {
	enum cost_object object;
	enum perf_qp qp;                     /* but for completion queues */
	struct endpoint ep;
	struct pair pair;
};

static int setup_once(const struct cost_plan *p, struct setup *s, uint32_t depth, struct hist *h)
{
	switch (s->object) {
	case COST_CQ: return setup_cq_once(&s->ep, depth, h);
	case COST_QP: return setup_qp_once(p, &s->ep, s->qp, depth, h);
	default: return setup_conn_once(p, &s->pair, s->qp, depth, h);
	}
}

static int setup_depth(const struct cost_plan *p, struct setup *s, uint32_t depth, uint64_t ns)
{
	static const struct { const char *object, *act[SETUP_ACTS]; } name[COST_OBJECTS] = {
		[COST_CQ] = { "cq", { "create", "resize", "destroy" } },
		[COST_QP] = { "qp", { "create", "reset", "destroy" } },
		[COST_CONN] = { "conn", { "connect", "disconnect", "destroy" } },
	};
	uint64_t end = diw_clock_ns() + ns;
	struct hist h[SETUP_ACTS];
	int rc = cost_hists_init(h, SETUP_ACTS);

	if (rc)
		return rc;
	do
		rc = setup_once(p, s, depth, h);
	while (!rc && !tool_stopped && h[0].n < SETUP_MAX && (h[0].n < 2 || diw_clock_ns() < end));
	for (int i = 0; i < SETUP_ACTS && !rc; i++) {
		struct cost_row r = { .test = "setup", .object = name[s->object].object, .act = name[s->object].act[i],
			.depth = depth, .qp = s->object == COST_CQ ? NULL : perf_qp_name[s->qp] };

		cost_print_hist(p, &r, &h[i]);
	}
	cost_hists_fini(h, SETUP_ACTS);
	return rc || !tool_stopped ? rc : tool_failed("interrupted");
}

static int setup_depths(const struct cost_plan *p, enum cost_object object, enum perf_qp qp, uint64_t ns)
{
	struct setup s = { .object = object, .qp = qp };
	int rc = endpoint_open(&s.ep, p->dev, &p->local, 1, false);

	if (!rc && object == COST_CONN)
		rc = conns_open(&s.pair, p, &s.ep);
	for (int i = 0; i < p->ndepths && !rc; i++)
		rc = setup_depth(p, &s, (uint32_t)p->depths[i], ns);
	if (s.pair.active)
		conns_close(&s.pair);
	endpoint_close(&s.ep);
	return rc;
}

/* Whether the queue pair types of the plan apply: RC alone has connections. */
static bool setup_applies(enum cost_object object, enum perf_qp qp)
{
	return object != COST_CONN || perf_is_rc(qp);
}

int cost_setup_run(const struct cost_plan *p)
{
	int kinds = 0, rc = 0;

	for (int o = 0; o < p->nobjects; o++)
		for (int q = 0; q < (p->objects[o] == COST_CQ ? 1 : p->nqps); q++)
			kinds += setup_applies(p->objects[o], p->qps[q]);
	if (!kinds)
		return tool_usage("--object conn needs --qp rc or rc-confirm");
	for (int o = 0; o < p->nobjects && !rc; o++)
		for (int q = 0; q < (p->objects[o] == COST_CQ ? 1 : p->nqps) && !rc; q++)
			if (setup_applies(p->objects[o], p->qps[q]))
				rc = setup_depths(p, p->objects[o], p->qps[q],
						  (uint64_t)(p->secs * 1e9 / kinds / p->ndepths));
	return rc;
}
