/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf qos: the server's end, which counts what each stream receives. */
#include <string.h>

#include "tools/perf/perf_qos.h"

struct qos_server {
	struct qos_end end;
	uint64_t begun, tick;
};

static bool class_parse(const cJSON *o, const char *qp, const char *n, struct qos_class *c)
{
	static const enum perf_qp known[] = { PERF_UD, PERF_RD, PERF_RC };
	const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, qp));
	double count = ctl_number(o, n);

	if (!name || !(count >= 1 && count < QOS_STREAMS))
		return false;
	c->n = (uint64_t)count;
	for (size_t i = 0; i < TOOL_COUNT(known); i++)
		if (!strcmp(name, perf_qp_name[known[i]])) {
			c->qp = known[i];
			return true;
		}
	return false;
}

static bool plan_parse(const cJSON *o, struct qos_plan *p)
{
	double size = ctl_number(o, "size");

	memset(p, 0, sizeof *p);
	if (!class_parse(o, "prefer", "nprefer", &p->prefer) || !class_parse(o, "beside", "nbeside", &p->beside) ||
	    p->prefer.n + p->beside.n > QOS_STREAMS || !(size >= 1 && size <= QOS_MAX_SIZE))
		return false;
	p->size = (uint64_t)size;
	p->weight = 1;
	return true;
}

static int server_describe(struct qos_end *e, struct perf_ctl *ctl)
{
	cJSON *o = cJSON_CreateObject(), *ports = cJSON_AddArrayToObject(o, "ports");
	struct diw_qp_info info;
	uint16_t rc_port = 0;
	int rc = e->nrc ? qos_end_listen(e, &rc_port) : 0;

	for (int i = 0; i < e->n; i++) {
		diw_qp_query(e->stream[i].qp, &info);
		cJSON_AddItemToArray(ports, cJSON_CreateNumber(info.local.port));
	}
	cJSON_AddNumberToObject(o, "rc", rc_port);
	if (!rc)
		return ctl_send(ctl, o);
	cJSON_Delete(o);
	return rc;
}

static void server_count(struct qos_end *e, const struct diw_wc *wc)
{
	struct qos_stream *s = &e->stream[wc->qp_num - 1];

	if (wc->opcode != DIW_WC_RECV || wc->status != DIW_WC_SUCCESS)
		return;                      /* the client has ended its connection */
	s->bytes += wc->byte_len;
	inbox_post(&s->in, wc->wr_id);
}

/* 1: the client has said that the time is over. 0: not yet. TOOL_FAILED + 1: it has gone. */
static int server_hears(struct qos_server *s, struct perf_ctl *ctl)
{
	cJSON *o;
	bool end;

	if (!ctl_ready(ctl))
		return 0;
	o = ctl_recv(ctl, (int64_t)PERF_PATIENCE_NS);
	if (!o)
		return TOOL_FAILED + 1;
	end = cJSON_HasObjectItem(o, "end");
	cJSON_Delete(o);
	if (end)
		return 1;
	s->begun = diw_clock_ns();
	for (int i = 0; i < s->end.n; i++)
		s->end.stream[i].bytes = 0;
	return 0;
}

static int server_loop(struct qos_server *s, struct perf_ctl *ctl)
{
	struct diw_wc wc[PERF_BATCH];
	int n, heard = 0;

	while (!heard) {
		n = diw_cq_poll(s->end.ep.cq, wc, PERF_BATCH, (int64_t)PERF_TICK_NS);
		for (int i = 0; i < n; i++)
			server_count(&s->end, &wc[i]);
		if (n < 0 || (s->end.established < s->end.nrc && qos_end_cm(&s->end, 0)))
			return TOOL_FAILED;
		if (diw_clock_ns() < s->tick)
			continue;
		s->tick = diw_clock_ns() + PERF_TICK_NS;
		heard = server_hears(s, ctl);
	}
	return heard == 1 && s->begun ? 0 : TOOL_FAILED;
}

static cJSON *server_result(const struct qos_server *s)
{
	cJSON *o = cJSON_CreateObject(), *bytes = cJSON_AddArrayToObject(o, "bytes");

	cJSON_AddNumberToObject(o, "ns", (double)(diw_clock_ns() - s->begun));
	for (int i = 0; i < s->end.n; i++)
		cJSON_AddItemToArray(bytes, cJSON_CreateNumber((double)s->end.stream[i].bytes));
	return o;
}

cJSON *qos_serve(const cJSON *o, struct perf_ctl *ctl, const struct perf_side *side)
{
	struct qos_server s = { .begun = 0 };
	struct qos_plan p;
	cJSON *answer;
	int rc;

	if (!plan_parse(o, &p)) {
		answer = cJSON_CreateObject();
		cJSON_AddStringToObject(answer, "error", "the server does not know those streams");
		return answer;
	}
	rc = qos_end_open(&s.end, &p, side);
	if (!rc)
		rc = server_describe(&s.end, ctl);
	if (!rc)
		rc = server_loop(&s, ctl);
	answer = rc ? cJSON_CreateObject() : server_result(&s);
	if (rc)
		cJSON_AddStringToObject(answer, "error", "the server's end failed (see its messages)");
	qos_end_close(&s.end);
	return answer;
}
