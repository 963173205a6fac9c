/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw perf --qps: many queue pairs of a rig. Lists of messages leave by one after another of those that send. All have
 * one completion queue, and one shared receive queue, so that their number is all that grows. Credits travel by the
 * first queue pair.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/perf/perf_rig.h"

#define QP_FILES 2u                  /* descriptors of a queue pair */
#define OTHER_FILES 256u

int qps_prepare(struct rig *r, struct diw_qp_attr *attr)
{
	struct rlimit l;
	rlim_t need = QP_FILES * r->nqps + OTHER_FILES;
	int rc;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < need) {
		l.rlim_cur = l.rlim_max < need ? l.rlim_max : need;
		setrlimit(RLIMIT_NOFILE, &l);        /* too few: qps_open() fails */
	}
	r->qps = calloc(r->nqps, sizeof(struct diw_qp *));
	r->dsts = calloc(r->active, sizeof *r->dsts);
	if (!r->qps || !r->dsts)
		return tool_failed("out of memory");
	rc = diw_srq_create(r->ep.pd, attr->rq_depth, attr->max_sge, NULL, &r->srq);
	attr->srq = r->srq;
	return rc ? tool_failed("shared receive queue: %s", strerror(-rc)) : 0;
}

struct diw_qp *rig_qp(const struct rig *r, uint32_t i)
{
	return i ? r->qps[i] : r->ep.qp;
}

int qps_open(struct rig *r, struct diw_qp_attr *attr)
{
	int rc = 0;

	attr->dgram.local.port = 0;
	for (uint32_t i = 1; i < r->nqps && !rc; i++) {
		rc = diw_qp_create(r->ep.pd, attr, &r->qps[i]);
		if (!rc && attr->impair)
			rc = diw_qp_impair(r->qps[i], attr->impair, NULL, 0);
		if (rc)
			rc = tool_failed("queue pair %u of %u: %s", i + 1, r->nqps, strerror(-rc));
	}
	return rc;
}

void qps_describe(const struct rig *r, cJSON *o)
{
	cJSON *ports = cJSON_AddArrayToObject(o, "ports");
	struct diw_qp_info info;

	for (uint32_t i = 0; i < r->active && !perf_is_rc(r->pc.qp); i++)
		if (diw_qp_query(rig_qp(r, i), &info) == 0)
			cJSON_AddItemToArray(ports, cJSON_CreateNumber(info.local.port));
}

int qps_connect(struct rig *r, const cJSON *peer)
{
	const cJSON *ports = cJSON_GetObjectItemCaseSensitive(peer, "ports"), *port;
	uint32_t i = 0;

	if (perf_is_rc(r->pc.qp))
		return 0;
	cJSON_ArrayForEach(port, ports) {
		if (i == r->active || !cJSON_IsNumber(port))
			break;
		r->dsts[i] = r->dst;
		r->dsts[i++].port = (uint16_t)port->valuedouble;
	}
	return i == r->active ? 0 : tool_failed("the other end has %u queue pairs, not %u", i, r->active);
}

struct diw_qp *qps_next(struct rig *r, struct diw_send_wr *wr, uint32_t n)
{
	uint32_t turn = r->turn;

	r->turn = turn + 1 == r->active ? 0 : turn + 1;
	for (uint32_t i = 0; i < n && !perf_is_rc(r->pc.qp); i++)
		wr[i].dst.addr = r->dsts[turn];
	return rig_qp(r, turn);
}

uint32_t rig_pending(const struct rig *r)
{
	struct diw_qp_info info;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->active; i++)     /* --provider verbs: none */
		if (diw_qp_query(rig_qp(r, i), &info) == 0)
			n += info.sq_pending;
	return n;
}

/* Call after the first queue pair was destroyed. */
void qps_close(struct rig *r)
{
	for (uint32_t i = 1; r->qps && i < r->nqps; i++)
		if (r->qps[i])
			diw_qp_destroy(r->qps[i]);
	if (r->srq)
		diw_srq_destroy(r->srq);
	free(r->qps);
	free(r->dsts);
}
