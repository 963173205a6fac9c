/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects the queue pairs of an RC rig. The server listens, and answers when the first round begins. */
#include <errno.h>
#include <string.h>

#include "tools/perf/perf_rig.h"

static int rc_failed(const char *what, int err)
{
	return tool_failed("rc: %s: %s", what, strerror(err < 0 ? -err : err));
}

int rc_rig_open(struct rig *r)
{
	struct diw_listener_info info;
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;
	int rc = diw_cm_create(r->ep.dev, &r->cm);

	if (rc || r->side.client)
		return rc ? rc_failed("channel", rc) : 0;
	attr.local = r->side.local;
	attr.local.port = 0;
	attr.backlog = (int)r->nqps + 16;
	rc = diw_listen(r->cm, &attr, &r->listener);
	if (!rc)
		rc = diw_listener_query(r->listener, &info);
	if (rc)
		return rc_failed("listen", rc);
	r->port[0] = info.local.port;
	return 0;
}

static void rig_conn_attr(const struct rig *r, struct diw_conn_attr *attr)
{
	*attr = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	attr->ird = attr->ord = RIG_READS;
	attr->crc = r->pc.crc ? DIW_CRC_ON : r->pc.no_crc ? DIW_CRC_OFF : DIW_CRC_AUTO;
	attr->markers = r->pc.markers;
	attr->timeout_ns = (int64_t)PERF_PATIENCE_NS;
	raw_tcp_congestion_choice(attr->congestion);         /* the same as the baselines */
	attr->connect.local = r->side.local;
	attr->connect.local.port = 0;
}

int rc_rig_connect(struct rig *r)
{
	struct diw_conn_attr attr;
	int rc = 0;

	if (!r->side.client)
		return 0;
	rig_conn_attr(r, &attr);
	for (uint32_t i = 0; i < r->nqps && !rc; i++)
		rc = diw_connect(rig_qp(r, i), r->cm, &r->dst, &attr);
	return rc ? rc_failed("connect", rc) : 0;
}

/* Requests from other hosts are refused. */
static int answer_request(struct rig *r, const struct diw_cm_event *ev)
{
	struct diw_conn_attr attr;

	if (memcmp(ev->peer.ip, r->side.peer.ip, sizeof ev->peer.ip) != 0 || r->accepted == r->nqps)
		return diw_reject(ev->req, NULL, 0);
	rig_conn_attr(r, &attr);
	return diw_accept(ev->req, rig_qp(r, r->accepted++), &attr);
}

int rc_rig_establish(struct rig *r)
{
	struct diw_cm_event ev;
	int rc;

	while (r->connected < r->nqps) {
		rc = diw_cm_get(r->cm, &ev, (int64_t)PERF_PATIENCE_NS);
		if (!rc && ev.type == DIW_CM_CONNECT_REQUEST)
			rc = answer_request(r, &ev);
		else if (!rc && ev.type == DIW_CM_ESTABLISHED)
			r->connected++;
		else if (!rc)
			return tool_failed("rc: %s: %s%s%s", diw_cm_event_str(ev.type), strerror(ev.errnum),
					   ev.fault ? ": " : "", ev.fault ? diw_fault_str(ev.fault) : "");
		if (rc)
			return rc_failed("no connection", rc == -EAGAIN ? ETIMEDOUT : rc);
	}
	return 0;
}

/* Called after the queue pair was destroyed. */
void rc_rig_close(struct rig *r)
{
	if (r->listener)
		diw_listener_close(r->listener);
	if (r->cm)
		diw_cm_destroy(r->cm);
}
