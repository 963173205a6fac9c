/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf group: a receiver. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire.h"
#include "tools/perf/perf_group.h"

#define RECVS 256u
#define RECV_BYTES (64u << 20)       /* of all receives together */
#define QUIET_NS (50 * DIW_MS)       /* after this silence, all has come */

struct sink {
	struct endpoint ep;
	struct inbox in;                     /* for Sends */
	struct region region;                /* for Write-Records */
	struct diw_mr *mr;
	uint32_t credit;                     /* messages between two reports */
	uint32_t latest, told;
	uint64_t msgs, bytes;
	bool begun;
};

static int sink_open_memory(struct sink *s, const cJSON *o)
{
	uint64_t size = (uint64_t)ctl_number(o, "size");
	uint32_t slots = size * RECVS <= RECV_BYTES ? RECVS : (uint32_t)(RECV_BYTES / size);
	struct diw_mr_attr attr = { .length = size, .use_iova = true, .stag = (uint32_t)ctl_number(o, "stag"),
		.access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_GROUP_WRITE | DIW_ACCESS_REMOTE_WRITE };
	int rc;

	if ((enum perf_op)ctl_number(o, "op") == PERF_SEND)
		return inbox_open(&s->in, s->ep.pd, s->ep.qp, slots > 2 ? slots : 2, (uint32_t)size);
	rc = region_alloc(&s->region, s->ep.pd, size, DIW_ACCESS_LOCAL_WRITE);
	attr.addr = s->region.addr;
	if (!rc)
		rc = diw_mr_reg_attr(s->ep.pd, &attr, &s->mr);
	return rc ? tool_failed("memory of %llu bytes: %s", (unsigned long long)size, strerror(-rc)) : 0;
}

static int sink_open(struct sink *s, const struct group_plan *p, const cJSON *o)
{
	const char *to = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(o, "to"));
	uint16_t port = (uint16_t)ctl_number(o, "port");
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_addr addr;
	char buf[DIW_ADDR_STRLEN];
	int rc;

	if (!to || !(ctl_number(o, "size") >= 1) || ctl_number(o, "size") > DIW_MAX_SEND || opt_host(to, port, &addr))
		return tool_failed("the sender's message is not valid (are both ends the same version?)");
	attr.rq_depth = RECVS;
	attr.max_inline = 64;
	attr.mulpdu = (uint32_t)ctl_number(o, "mulpdu");
	attr.impair = p->impair;
	attr.dgram.local.port = group_is_multicast(&addr) ? 0 : port;
	s->credit = (uint32_t)ctl_number(o, "credit");
	rc = group_end_open(&s->ep, p, &addr, &attr);
	if (!rc)
		rc = sink_open_memory(s, o);
	if (!rc && group_is_multicast(&addr) && (rc = diw_qp_attach(s->ep.qp, &addr)) < 0)
		rc = tool_failed("%s: %s", diw_addr_str(&addr, buf), strerror(-rc));
	return rc;
}

static void sink_close(struct sink *s)
{
	if (s->ep.qp)
		diw_qp_destroy(s->ep.qp);
	s->ep.qp = NULL;
	if (s->mr)
		diw_mr_dereg(s->mr);
	region_free(&s->region);
	inbox_close(&s->in);
	endpoint_close(&s->ep);
}

static void sink_take(struct sink *s, struct diw_wc *wc)
{
	uint8_t number[4];
	struct diw_sge sge = { number, sizeof number, 0 };
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .flags = DIW_SEND_INLINE,
		.qkey = TOOL_QKEY, .dst.addr = wc->src };

	if (wc->opcode != DIW_WC_RECV && wc->opcode != DIW_WC_RECV_WRITE_RECORD)
		return;
	if (wc->status == DIW_WC_SUCCESS && wc->flags & DIW_WC_IMM) {
		if (!s->begun)
			s->latest = s->told = wc->imm - 1;
		s->begun = true;
		s->msgs += wc->opcode == DIW_WC_RECV || wc->byte_len == wc->msg_len;
		s->bytes += wc->byte_len;
		if (diw_serial_after(wc->imm, s->latest))
			s->latest = wc->imm;
		if (s->latest - s->told >= s->credit) {
			s->told = s->latest;
			diw_put32(number, s->latest);
			diw_post_send(s->ep.qp, &wr, NULL);
		}
	}
	if (wc->opcode == DIW_WC_RECV)
		inbox_post(&s->in, wc->wr_id);
	else
		diw_wc_release(wc);
}

/* Receives until the control connection says stop, and then until nothing comes. */
static void sink_loop(struct sink *s, struct perf_ctl *ctl)
{
	struct diw_wc wc[PERF_BATCH];
	bool stop = false;
	uint64_t look_at = 0, now;
	int n;

	do {
		n = diw_cq_wait(s->ep.cq, wc, PERF_BATCH, stop ? QUIET_NS : 5 * DIW_MS);
		for (int i = 0; i < n; i++)
			sink_take(s, &wc[i]);
		now = diw_clock_ns();
		if (!stop && now >= look_at) {
			stop = ctl_ready(ctl);
			look_at = now + PERF_TICK_NS;
		}
	} while (n > 0 || (n == 0 && !stop));
}

static int sink_serve(struct sink *s, const struct group_plan *p, struct perf_ctl *ctl)
{
	cJSON *o = ctl_recv(ctl, PERF_PATIENCE_NS);
	int rc = o ? sink_open(s, p, o) : tool_failed("the sender has gone");

	cJSON_Delete(o);
	if (rc || ctl_send(ctl, cJSON_CreateObject()))
		return TOOL_FAILED;
	sink_loop(s, ctl);
	cJSON_Delete(ctl_recv(ctl, PERF_PATIENCE_NS));
	o = cJSON_CreateObject();
	cJSON_AddNumberToObject(o, "msgs", (double)s->msgs);
	cJSON_AddNumberToObject(o, "bytes", (double)s->bytes);
	cJSON_AddNumberToObject(o, "cpu", perf_cpu_now());
	return ctl_send(ctl, o) ? TOOL_FAILED : TOOL_OK;
}

int group_sink_run(const struct group_plan *p, struct perf_ctl *ctl)
{
	struct sink s;
	int rc;

	memset(&s, 0, sizeof s);
	rc = sink_serve(&s, p, ctl);
	sink_close(&s);
	return rc;
}
