/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf qos: the queue pairs of one end, and the connections of those that are RC. */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_qos.h"

#define IN_FLIGHT (1u << 20)         /* octets of a stream that are posted and not complete */
#define RECEIVES (4u << 20)          /* octets of posted receives */

static enum perf_qp stream_kind(const struct qos_plan *p, int i)
{
	return (uint64_t)i < p->prefer.n ? p->prefer.qp : p->beside.qp;
}

bool qos_is_rc(const struct qos_plan *p, int i)
{
	return stream_kind(p, i) == PERF_RC;
}

static uint32_t count_of(uint64_t octets, uint64_t size, uint32_t least, uint32_t most)
{
	uint64_t n = octets / size;

	return n < least ? least : n > most ? most : (uint32_t)n;
}

static int stream_open(struct qos_end *e, int i)
{
	static const enum diw_qp_type types[] = { [PERF_UD] = DIW_QP_UD, [PERF_RD] = DIW_QP_RD, [PERF_RC] = DIW_QP_RC };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct qos_stream *s = &e->stream[i];
	uint32_t receives = count_of(RECEIVES, e->p->size, 4, 512);
	int rc;

	attr.type = types[stream_kind(e->p, i)];
	attr.num = (uint32_t)i + 1;                     /* for wc.qp_num */
	attr.sq_depth = e->depth = count_of(IN_FLIGHT, e->p->size, 2, 64);
	attr.rq_depth = e->side->client ? 1 : receives;
	attr.weight = (uint64_t)i < e->p->prefer.n ? (uint32_t)e->p->weight : 1;
	attr.dgram.local = e->side->local;
	e->ep.qp = NULL;
	rc = endpoint_qp(&e->ep, &attr);
	s->qp = e->ep.qp;
	e->ep.qp = NULL;                                /* the streams own them */
	e->nrc += attr.type == DIW_QP_RC;
	if (!rc && !e->side->client)
		rc = inbox_open(&s->in, e->ep.pd, s->qp, receives, (uint32_t)e->p->size);
	return rc;
}

int qos_end_open(struct qos_end *e, const struct qos_plan *p, const struct perf_side *side)
{
	int rc;

	memset(e, 0, sizeof *e);
	e->p = p;
	e->side = side;
	e->n = (int)(p->prefer.n + p->beside.n);
	rc = endpoint_open(&e->ep, side->dev, side->dev ? NULL : &side->peer, 65536, false);
	if (!rc && diw_dev_set_arbiter(e->ep.dev, p->mode))
		rc = tool_failed("the arbiter's mode");
	if (!rc && side->client)
		rc = region_alloc(&e->tx, e->ep.pd, p->size, DIW_ACCESS_LOCAL_READ);
	for (int i = 0; i < e->n && !rc; i++)
		rc = stream_open(e, i);
	if (!rc && e->nrc && diw_cm_create(e->ep.dev, &e->cm))
		rc = tool_failed("channel of connections");
	return rc;
}

void qos_end_close(struct qos_end *e)
{
	for (int i = 0; i < e->n; i++) {
		if (e->stream[i].qp)
			diw_qp_destroy(e->stream[i].qp);
		inbox_close(&e->stream[i].in);
	}
	if (e->listener)
		diw_listener_close(e->listener);
	if (e->cm)
		diw_cm_destroy(e->cm);
	region_free(&e->tx);
	endpoint_close(&e->ep);
}

/* ---- RC ---- */

static void conn_attr(const struct qos_end *e, struct diw_conn_attr *attr)
{
	*attr = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	attr->connect.local = e->side->local;
}

int qos_end_listen(struct qos_end *e, uint16_t *port)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	struct diw_listener_info info;
	int rc;

	attr.local = e->side->local;
	attr.backlog = QOS_STREAMS;
	rc = diw_listen(e->cm, &attr, &e->listener);
	if (!rc)
		rc = diw_listener_query(e->listener, &info);
	if (rc)
		return tool_failed("rc: listen: %s", strerror(-rc));
	*port = info.local.port;
	return 0;
}

/* The next queue pair that is to be connected. */
static struct diw_qp *next_rc(const struct qos_end *e)
{
	int skip = e->established;

	for (int i = 0; i < e->n; i++)
		if (qos_is_rc(e->p, i) && skip-- == 0)
			return e->stream[i].qp;
	return NULL;
}

/* One after the other, so that the server accepts them in the same order. */
int qos_end_connect(struct qos_end *e, const struct diw_addr *dst)
{
	struct diw_conn_attr attr;
	int rc = 0;

	conn_attr(e, &attr);
	while (!rc && e->established < e->nrc) {
		int before = e->established;

		rc = diw_connect(next_rc(e), e->cm, dst, &attr);
		if (rc)
			return tool_failed("rc: connect: %s", strerror(-rc));
		while (!rc && e->established == before)
			rc = qos_end_cm(e, (int64_t)PERF_PATIENCE_NS);
	}
	return rc;
}

int qos_end_cm(struct qos_end *e, int64_t timeout_ns)
{
	struct diw_conn_attr attr;
	struct diw_cm_event ev;
	struct diw_qp *qp;
	int rc = diw_cm_get(e->cm, &ev, timeout_ns);

	if (rc == -EAGAIN && timeout_ns == 0)
		return 0;
	if (rc)
		return tool_failed("rc: no connection: %s", strerror(rc == -EAGAIN ? ETIMEDOUT : -rc));
	if (ev.type == DIW_CM_ESTABLISHED) {
		e->established++;
		return 0;
	}
	if (ev.type != DIW_CM_CONNECT_REQUEST)
		return tool_failed("rc: %s: %s", diw_cm_event_str(ev.type), strerror(ev.errnum));
	qp = next_rc(e);
	if (!qp || memcmp(ev.peer.ip, e->side->peer.ip, sizeof ev.peer.ip) != 0) {
		diw_reject(ev.req, NULL, 0);
		return 0;
	}
	conn_attr(e, &attr);
	rc = diw_accept(ev.req, qp, &attr);
	return rc ? tool_failed("rc: accept: %s", strerror(-rc)) : 0;
}
