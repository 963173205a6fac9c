/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf qos: its options, the client's end, and the rows. */
#include "tools/perf/perf_qos.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#define WARM_NS (100 * DIW_MS)

static const char *const mode_name[] = { [DIW_ARBITER_WEIGHTED] = "weighted", [DIW_ARBITER_BLOCKING] = "blocking" };

/* ---- The client's end ---- */

static cJSON *class_json(const struct qos_plan *p)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddStringToObject(o, "prefer", perf_qp_name[p->prefer.qp]);
	cJSON_AddNumberToObject(o, "nprefer", (double)p->prefer.n);
	cJSON_AddStringToObject(o, "beside", perf_qp_name[p->beside.qp]);
	cJSON_AddNumberToObject(o, "nbeside", (double)p->beside.n);
	json_add_count(o, "size", p->size);
	return o;
}

/* The server's next object, or NULL after printing the error. */
static cJSON *server_answer(struct perf_ctl *ctl)
{
	cJSON *o = ctl_recv(ctl, (int64_t)PERF_PATIENCE_NS);
	const char *error = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "error"));

	if (o && !error)
		return o;
	tool_failed("%s", error ? error : tool_stopped ? "interrupted" : "the server has gone");
	cJSON_Delete(o);
	return NULL;
}

static int client_connect(struct qos_end *e, struct perf_ctl *ctl)
{
	cJSON *o = class_json(e->p), *peer;
	const cJSON *ports;
	struct diw_addr dst = e->side->peer;
	int rc = 0;

	cJSON_AddStringToObject(o, "do", "qos");
	peer = ctl_send(ctl, o) ? NULL : server_answer(ctl);
	if (!peer)
		return TOOL_FAILED;
	ports = cJSON_GetObjectItemCaseSensitive(peer, "ports");
	for (int i = 0; i < e->n; i++) {
		e->stream[i].to = e->side->peer;
		e->stream[i].to.port = (uint16_t)cJSON_GetNumberValue(cJSON_GetArrayItem(ports, i));
	}
	dst.port = (uint16_t)ctl_number(peer, "rc");
	if (e->nrc)
		rc = qos_end_connect(e, &dst);
	cJSON_Delete(peer);
	return rc;
}

static int stream_fill(struct qos_end *e, int i)
{
	struct qos_stream *s = &e->stream[i];
	struct diw_sge sge = { e->tx.addr, (uint32_t)e->p->size, e->tx.mr->stag };
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .wr_id = (uint64_t)i, .sge = &sge, .num_sge = 1,
		.flags = DIW_SEND_SIGNALED, .qkey = TOOL_QKEY, .dst.addr = s->to };
	int rc = 0;

	for (; s->waiting < e->depth && !rc; s->waiting += !rc)
		rc = diw_post_send(s->qp, &wr, NULL);
	return rc && rc != -ENOMEM ? tool_failed("post: %s", strerror(-rc)) : 0;
}

/* ENDS: the server may have gone. */
static int stream_sent(struct qos_end *e, const struct diw_wc *wc, bool ends)
{
	if (wc->status != DIW_WC_SUCCESS && !ends)
		return tool_failed("stream %d: %s", (int)wc->wr_id, diw_wc_status_str(wc->status));
	e->stream[wc->wr_id].waiting--;
	e->stream[wc->wr_id].bytes += wc->status == DIW_WC_SUCCESS ? e->p->size : 0;
	return 0;
}

/* Keeps every send queue full until the time UNTIL, or, with CTL, until the server has answered. */
static int client_send(struct qos_end *e, uint64_t until, struct perf_ctl *ctl)
{
	struct diw_wc wc[PERF_BATCH];
	uint64_t tick = 0, now;
	int n, rc = 0;

	while (!rc && (now = diw_clock_ns()) < until && !tool_stopped) {
		for (int i = 0; i < e->n && !rc; i++)
			rc = stream_fill(e, i);
		n = diw_cq_poll(e->ep.cq, wc, PERF_BATCH, 0);
		for (int i = 0; i < n && !rc; i++)
			rc = stream_sent(e, &wc[i], ctl);
		if (!ctl || now < tick)
			continue;
		tick = now + PERF_TICK_NS;
		if (ctl_ready(ctl))
			return 0;
	}
	return rc ? rc : tool_stopped ? tool_failed("interrupted") : 0;
}

static int qos_tell(struct perf_ctl *ctl, const char *what)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddTrueToObject(o, what);
	return ctl_send(ctl, o) ? tool_failed("the server has gone") : 0;
}

/* ---- Rows ---- */

/* Of one preferred stream to one beside it; 0: those beside it have nothing. */
static double qos_ratio(const struct qos_plan *p, const double *gbps, double sum[2])
{
	sum[0] = sum[1] = 0;
	for (uint64_t i = 0; i < p->prefer.n + p->beside.n; i++)
		sum[i >= p->prefer.n] += gbps[i];
	return sum[1] > 0 ? sum[0] / (double)p->prefer.n / (sum[1] / (double)p->beside.n) : 0;
}

static void qos_row_print(const struct perf_plan *plan, const double *gbps, const double *sent)
{
	static bool headed;
	const struct qos_plan *p = plan->qos;
	int n = (int)(p->prefer.n + p->beside.n);
	double sum[2], ratio, sent_ratio = qos_ratio(p, sent, sum);
	char size[24];
	cJSON *o, *list;

	ratio = qos_ratio(p, gbps, sum);
	if (!plan->json) {
		if (!headed)
			printf("%-8s  %6s  %9s  %-9s  %11s  %-9s  %11s  %7s  %7s  %8s\n", "mode", "weight", "size",
			       "preferred", "GB/s", "beside", "GB/s", "ratio", "sent", "sum GB/s");
		headed = true;
		printf("%-8s  %6d  %9s  %2d x %-4s  %11.4f  %2d x %-4s  %11.4f  %7.2f  %7.2f  %8.3f\n",
		       mode_name[p->mode], (int)p->weight, fmt_bytes(p->size, size), (int)p->prefer.n,
		       perf_qp_name[p->prefer.qp], sum[0], (int)p->beside.n, perf_qp_name[p->beside.qp], sum[1], ratio,
		       sent_ratio, sum[0] + sum[1]);
		fflush(stdout);
		return;
	}
	o = class_json(p);
	cJSON_AddStringToObject(o, "test", "qos");
	cJSON_AddStringToObject(o, "mode", mode_name[p->mode]);
	json_add_count(o, "weight", p->weight);
	json_add_number(o, "prefer_GBps", sum[0]);
	json_add_number(o, "beside_GBps", sum[1]);
	json_add_null_number(o, "ratio", sum[1] > 0, ratio);
	json_add_null_number(o, "sent_ratio", sent_ratio > 0, sent_ratio);
	json_add_number(o, "GBps", sum[0] + sum[1]);
	list = cJSON_AddArrayToObject(o, "stream_GBps");
	for (int i = 0; i < n; i++)
		cJSON_AddItemToArray(list, json_number(gbps[i]));
	json_print(o);
}

static int row_report(const struct perf_plan *plan, const struct qos_end *e, const cJSON *answer)
{
	const cJSON *bytes = cJSON_GetObjectItemCaseSensitive(answer, "bytes");
	int n = (int)(plan->qos->prefer.n + plan->qos->beside.n);
	double ns = ctl_number(answer, "ns"), gbps[QOS_STREAMS] = { 0 }, sent[QOS_STREAMS], sum = 0;

	for (int i = 0; i < n && ns > 0; i++) {
		gbps[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(bytes, i)) / ns;
		sent[i] = (double)e->stream[i].bytes / ns;
		sum += gbps[i];
	}
	if (!(sum > 0))
		return tool_failed("no message has come");
	qos_row_print(plan, gbps, sent);
	return 0;
}

static int row_run(const struct perf_plan *plan, struct perf_ctl *ctl)
{
	struct qos_end e;
	cJSON *answer = NULL;
	int rc = qos_end_open(&e, plan->qos, &plan->side);

	if (!rc)
		rc = client_connect(&e, ctl);
	if (!rc)
		rc = client_send(&e, diw_clock_ns() + WARM_NS, NULL);
	if (!rc)
		rc = qos_tell(ctl, "begin");
	for (int i = 0; i < e.n; i++)
		e.stream[i].bytes = 0;
	if (!rc)
		rc = client_send(&e, diw_clock_ns() + (uint64_t)(plan->secs * 1e9), NULL);
	if (!rc)
		rc = qos_tell(ctl, "end");
	if (!rc)
		rc = client_send(&e, diw_clock_ns() + PERF_PATIENCE_NS, ctl);
	if (!rc)
		answer = server_answer(ctl);
	if (!rc)
		rc = answer ? row_report(plan, &e, answer) : TOOL_FAILED;
	cJSON_Delete(answer);
	qos_end_close(&e);
	return rc;
}

static int rows_run(const struct perf_plan *plan, int fd)
{
	struct qos_plan *p = plan->qos;
	struct perf_ctl ctl;
	int rc = 0;

	ctl_init(&ctl, fd);
	for (int m = 0; m < p->nmodes; m++)
		for (int s = 0; s < p->nsizes; s++)
			for (int w = 0; w < p->nweights && !rc; w++) {
				p->mode = p->modes[m];
				p->size = p->sizes[s];
				p->weight = p->weights[w];
				rc = row_run(plan, &ctl);
			}
	ctl_close(&ctl);
	return rc;
}

/* ---- Options ---- */

/* QP or QP:N. */
static int class_option(const char *opt, const char *text, struct qos_class *c)
{
	static const enum perf_qp types[] = { PERF_UD, PERF_RD, PERF_RC };
	size_t len = strcspn(text, ":");

	c->n = 1;
	for (size_t i = 0; i < TOOL_COUNT(types); i++) {
		const char *name = perf_qp_name[types[i]];

		if (strlen(name) != len || strncmp(text, name, len) != 0)
			continue;
		c->qp = types[i];
		return text[len] ? opt_number(opt, text + len + 1, 1, QOS_STREAMS / 2, &c->n) : 0;
	}
	return tool_usage("%s: '%s' is not ud, rd or rc, or one of them with a number, like rc:3", opt, text);
}

static int mode_option(struct qos_plan *p, const char *text)
{
	int values[TOOL_COUNT(mode_name)], rc;

	rc = perf_opt_names("--mode", text, mode_name, TOOL_COUNT(mode_name), values, &p->nmodes);
	for (int i = 0; i < p->nmodes && !rc; i++)
		p->modes[i] = (enum diw_arbiter_mode)values[i];
	return rc;
}

static int qos_option(struct perf_plan *plan, int opt, char **argv)
{
	struct qos_plan *p = plan->qos;

	switch (opt) {
	case 'w': return opt_list("--weight", optarg, false, 1, DIW_MAX_WEIGHT, p->weights, PERF_VALUES, &p->nweights);
	case 'm': return mode_option(p, optarg);
	case 's': return opt_list("--size", optarg, true, 1, QOS_MAX_SIZE, p->sizes, PERF_VALUES, &p->nsizes);
	case 'p': return class_option("--prefer", optarg, &p->prefer);
	case 'b': return class_option("--beside", optarg, &p->beside);
	case 't': return opt_seconds("--secs", optarg, 0.05, 3600, &plan->secs);
	case 'P': return opt_port(optarg, &plan->port);
	case 'l': plan->place = PERF_LOCAL; return 0;
	case 'c':
		plan->place = PERF_CONNECT;
		plan->host = optarg;
		return 0;
	case 'B': plan->bind = optarg; return 0;
	case 'd': plan->side.dev = optarg; return 0;
	case 'j': plan->json = true; return 0;
	default: return tool_bad_option(argv);
	}
}

int perf_qos(int argc, char **argv)
{
	static const struct option opts[] = { { "weight", required_argument, NULL, 'w' },
		{ "mode", required_argument, NULL, 'm' }, { "size", required_argument, NULL, 's' },
		{ "prefer", required_argument, NULL, 'p' }, { "beside", required_argument, NULL, 'b' },
		{ "secs", required_argument, NULL, 't' }, { "port", required_argument, NULL, 'P' },
		{ "local", no_argument, NULL, 'l' }, { "connect", required_argument, NULL, 'c' },
		{ "bind", required_argument, NULL, 'B' }, { "dev", required_argument, NULL, 'd' },
		{ "json", no_argument, NULL, 'j' }, { 0 } };
	struct qos_plan q = { .prefer = { PERF_UD, 1 }, .beside = { PERF_UD, 1 }, .weights = { 1, 4, 16, 64, 255 },
		.nweights = 5, .sizes = { 64u << 10 }, .nsizes = 1, .nmodes = 1 };
	struct perf_plan p = { .port = DIW_PORT, .secs = 1, .run = rows_run, .qos = &q };
	int opt, rc = 0;

	while (!rc && (opt = getopt_long(argc, argv, "", opts, NULL)) != -1)
		rc = qos_option(&p, opt, argv);
	if (!rc && optind < argc)
		rc = tool_usage("'%s': qos takes no argument", argv[optind]);
	if (!rc && p.place == PERF_NOWHERE)
		rc = tool_usage("qos: --local or --connect HOST is needed");
	if (rc)
		return rc;
	return p.place == PERF_LOCAL ? perf_local(&p) : perf_connect(&p);
}
