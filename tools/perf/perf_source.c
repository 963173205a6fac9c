/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf group: the sender, and the row of its figures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/addr.h"
#include "base/wire.h"
#include "tools/perf/perf_group.h"

#define WINDOW_MAX 256u              /* the most messages in flight beyond the slowest receiver */
#define STALL_NS (20 * DIW_MS)       /* messages that were not reported by then count as lost */
#define SINK_SLOTS 256u

struct source {
	const struct group_plan *p;
	struct endpoint ep;
	struct inbox in;
	struct region data;
	struct diw_addr seen[GROUP_RECEIVERS];
	uint32_t got[GROUP_RECEIVERS];       /* the latest number that each receiver has reported */
	int n, nseen;
	uint32_t next, base, window, stag;   /* next: number; base: all before it are reported, or count as lost */
	uint64_t moved_at, stalls, elapsed;
	double cpu;
};

struct sink_figures { double msgs, bytes, cpu; };

static int source_open(struct source *s)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc;

	attr.sq_depth = attr.rq_depth = 2 * WINDOW_MAX;
	attr.mulpdu = (uint32_t)s->p->mulpdu;
	attr.impair = s->p->impair;
	attr.dgram.broadcast = true;
	rc = group_end_open(&s->ep, s->p, &s->p->to, &attr);
	if (!rc)
		rc = inbox_open(&s->in, s->ep.pd, s->ep.qp, SINK_SLOTS, 64);
	if (!rc)
		rc = region_alloc(&s->data, s->ep.pd, s->p->size, DIW_ACCESS_LOCAL_WRITE);
	if (rc)
		return rc;
	memset(s->data.addr, 'x', s->p->size);
	s->window = (uint32_t)(s->ep.info.rcvbuf / 4 / s->p->size);
	s->window = s->window < 4 ? 4 : s->window > WINDOW_MAX ? WINDOW_MAX : s->window;
	if (getrandom(&s->stag, sizeof s->stag, 0) != sizeof s->stag)
		return tool_failed("getrandom: %s", strerror(errno));
	s->stag = DIW_STAG_CHOSEN_MIN + s->stag % (DIW_STAG_CHOSEN_MAX - DIW_STAG_CHOSEN_MIN);
	return 0;
}

static void source_close(struct source *s)
{
	if (s->ep.qp)
		diw_qp_destroy(s->ep.qp);
	s->ep.qp = NULL;
	region_free(&s->data);
	inbox_close(&s->in);
	endpoint_close(&s->ep);
}

static int sinks_open(struct source *s, struct perf_ctl *ctl)
{
	uint32_t credit = s->window / 4;
	char to[DIW_ADDR_STRLEN];
	cJSON *o;

	for (int i = 0; i < s->n; i++) {
		o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "to", diw_addr_ip_str(&s->p->to, to));
		cJSON_AddNumberToObject(o, "port", s->p->to.port);
		cJSON_AddNumberToObject(o, "op", s->p->op);
		cJSON_AddNumberToObject(o, "size", (double)s->p->size);
		cJSON_AddNumberToObject(o, "mulpdu", (double)s->p->mulpdu);
		cJSON_AddNumberToObject(o, "stag", s->stag);
		cJSON_AddNumberToObject(o, "credit", credit);
		if (ctl_send(&ctl[i], o))
			return tool_failed("receiver %d has gone", i);
	}
	for (int i = 0; i < s->n; i++) {
		o = ctl_recv(&ctl[i], PERF_PATIENCE_NS);
		if (!o)
			return tool_failed("receiver %d cannot open its end (see its messages)", i);
		cJSON_Delete(o);
	}
	return 0;
}

static int sinks_stop(struct source *s, struct perf_ctl *ctl, struct sink_figures *f)
{
	cJSON *o;

	for (int i = 0; i < s->n; i++)
		if (ctl_send(&ctl[i], cJSON_CreateObject()))
			return tool_failed("receiver %d has gone", i);
	for (int i = 0; i < s->n; i++) {
		o = ctl_recv(&ctl[i], PERF_PATIENCE_NS);
		if (!o)
			return tool_failed("receiver %d has gone", i);
		f[i] = (struct sink_figures){ ctl_number(o, "msgs"), ctl_number(o, "bytes"), ctl_number(o, "cpu") };
		cJSON_Delete(o);
	}
	return 0;
}

static void source_take(struct source *s, const struct diw_wc *wc)
{
	uint32_t least, number;
	int i = 0;

	if (wc->opcode != DIW_WC_RECV)
		return;
	number = diw_get32(inbox_at(&s->in, wc->wr_id));
	if (wc->status == DIW_WC_SUCCESS && wc->byte_len == 4) {
		while (i < s->nseen && memcmp(&s->seen[i], &wc->src, sizeof wc->src) != 0)
			i++;
		if (i == s->nseen && i < s->n)
			s->seen[s->nseen++] = wc->src;
		if (i < s->n)
			s->got[i] = number;
	}
	inbox_post(&s->in, wc->wr_id);
	if (s->nseen < s->n)
		return;
	least = s->got[0];
	for (i = 1; i < s->n; i++)
		if (diw_serial_after(least, s->got[i]))
			least = s->got[i];
	if (diw_serial_after(least + 1, s->base) && !diw_serial_after(least + 1, s->next)) {
		s->base = least + 1;
		s->moved_at = wc->time_ns;
	}
}

static int source_post(struct source *s)
{
	struct diw_sge sge = { s->data.addr, (uint32_t)s->p->size, s->data.mr->stag };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .flags = DIW_SEND_IMM, .qkey = TOOL_QKEY,
		.opcode = s->p->op == PERF_SEND ? DIW_WR_SEND : DIW_WR_WRITE_RECORD, .dst.addr = s->p->to,
		.stag = s->stag };
	int rc = 0;

	while (!rc && s->next - s->base < s->window) {
		wr.imm = s->next;
		rc = diw_post_send(s->ep.qp, &wr, NULL);
		s->next += rc == 0;
	}
	return rc == -ENOMEM ? 0 : rc;
}

static int source_loop(struct source *s)
{
	uint64_t begin = diw_clock_ns(), now = begin, end = begin + (uint64_t)(s->p->secs * 1e9);
	struct diw_wc wc[PERF_BATCH];
	double cpu = perf_cpu_now();
	int n, rc = 0;

	s->moved_at = begin;
	while (!rc && now < end && !tool_stopped) {
		rc = source_post(s);
		n = diw_cq_wait(s->ep.cq, wc, PERF_BATCH, DIW_MS);
		for (int i = 0; i < n; i++)
			source_take(s, &wc[i]);
		now = diw_clock_ns();
		if (now > s->moved_at && now - s->moved_at > STALL_NS) {
			s->base = s->next;
			s->moved_at = now;
			s->stalls++;
		}
	}
	s->elapsed = now - begin;
	s->cpu = perf_cpu_now() - cpu;
	return rc ? tool_failed("send: %s", strerror(-rc)) : tool_stopped ? tool_failed("interrupted") : 0;
}

/* Of the sum of all receivers to so many times that of one, in the row of one receiver and this size; 0: none. */
static double source_scaling(const struct source *s, double sum)
{
	double rate = sum / (double)s->elapsed * 1e9;

	if (s->n == 1)
		*s->p->one = rate;
	return *s->p->one > 0 ? rate / *s->p->one / s->n : 0;
}

static void source_print_json(const struct source *s, const struct sink_figures *f, double sum, double least)
{
	cJSON *o = cJSON_CreateObject(), *list, *row;
	char buf[DIW_ADDR_STRLEN];
	double sec = (double)s->elapsed / 1e9;

	cJSON_AddStringToObject(o, "test", "group");
	cJSON_AddStringToObject(o, "to", diw_addr_str(&s->p->to, buf));
	cJSON_AddStringToObject(o, "mode", group_mode(&s->p->to));
	cJSON_AddStringToObject(o, "llp", s->ep.dev_info.llp);
	cJSON_AddStringToObject(o, "op", perf_op_name[s->p->op]);
	json_add_count(o, "size", s->p->size);
	json_add_count(o, "receivers", (uint64_t)s->n);
	json_add_count(o, "msgs_sent", s->next);
	json_add_number(o, "GBps_sent", (double)s->next * (double)s->p->size / sec / 1e9);
	json_add_number(o, "GBps_min", least / sec / 1e9);
	json_add_number(o, "GBps_aggregate", sum / sec / 1e9);
	json_add_null_number(o, "scaling", source_scaling(s, sum) > 0, source_scaling(s, sum));
	json_add_count(o, "stalls", s->stalls);
	json_add_number(o, "cpu_s", s->cpu);
	list = cJSON_AddArrayToObject(o, "per_receiver");
	for (int i = 0; i < s->n; i++) {
		row = cJSON_CreateObject();
		json_add_number(row, "GBps", f[i].bytes / sec / 1e9);
		json_add_count(row, "bytes_valid", (uint64_t)f[i].bytes);
		json_add_count(row, "msgs", (uint64_t)f[i].msgs);
		json_add_number(row, "lost", (double)s->next - f[i].msgs);
		json_add_number(row, "cpu_s", f[i].cpu);
		cJSON_AddItemToArray(list, row);
	}
	json_print(o);
}

static int source_report(const struct source *s, const struct sink_figures *f)
{
	double sum = 0, least = f[0].bytes, lost = 0, sec = (double)s->elapsed / 1e9;
	static bool headed;
	char size[24], scaling[16] = "-";

	for (int i = 0; i < s->n; i++) {
		sum += f[i].bytes;
		lost += (double)s->next - f[i].msgs;
		least = f[i].bytes < least ? f[i].bytes : least;
	}
	if (s->p->json) {
		source_print_json(s, f, sum, least);
	} else {
		if (!headed)
			printf("%9s  %-5s  %9s  %9s  %10s  %9s  %7s  %8s\n", "receivers", "op", "size", "sent GB/s",
			       "least GB/s", "sum GB/s", "x one", "lost");
		headed = true;
		if (source_scaling(s, sum) > 0)
			snprintf(scaling, sizeof scaling, "%.3f", source_scaling(s, sum));
		printf("%9d  %-5s  %9s  %9.3f  %10.3f  %9.3f  %7s  %8.0f\n", s->n, perf_op_name[s->p->op],
		       fmt_bytes(s->p->size, size), (double)s->next * (double)s->p->size / sec / 1e9, least / sec / 1e9,
		       sum / sec / 1e9, scaling, lost);
		fflush(stdout);
	}
	return least > 0 ? TOOL_OK : tool_failed("a receiver has received no message");
}

int group_source_run(const struct group_plan *p, struct perf_ctl *ctl, int n)
{
	struct sink_figures f[GROUP_RECEIVERS];
	struct source s;
	int rc;

	memset(&s, 0, sizeof s);
	s.p = p;
	s.n = n;
	rc = source_open(&s);
	if (!rc)
		rc = sinks_open(&s, ctl);
	if (!rc)
		rc = source_loop(&s);
	if (!rc)
		rc = sinks_stop(&s, ctl, f);
	if (!rc)
		rc = source_report(&s, f);
	source_close(&s);
	return rc;
}
