/* SPDX-License-Identifier: BSD-2-Clause */
/* Our end of the exchange, by diw.h only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/interop/exchange.h"
#include "verbs/diw_cm.h"

#define PATIENCE_NS (PATIENCE_MS * 1000000ll)

const bool end_tells = true;

static struct {
	struct diw_dev *dev;
	struct diw_pd *pd;
	struct diw_channel *channel;
	struct diw_cq *send_cq, *recv_cq;
	struct diw_qp *qp;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct diw_mr *mr, *victim;
	uint8_t *base, *page;
	size_t slot_at;
	uint32_t slot_len;
} e;

static int failed(const char *what, int rc)
{
	return rc ? complain("%s: %s", what, strerror(-rc)) : 0;
}

/* ---- The beginning ---- */

static int open_objects(const struct diw_addr *dst)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	int rc = dst ? diw_dev_open_route(dst, NULL, &e.dev) : diw_dev_open(NULL, NULL, &e.dev);

	if (rc || (rc = diw_pd_alloc(e.dev, &e.pd)) || (rc = diw_channel_create(e.dev, &e.channel)) ||
	    (rc = diw_cq_create(e.dev, 64, NULL, NULL, &e.send_cq)) ||
	    (rc = diw_cq_create(e.dev, 64, e.channel, NULL, &e.recv_cq)) || (rc = diw_cm_create(e.dev, &e.cm)))
		return failed("open", rc);
	attr.type = DIW_QP_RC;
	attr.send_cq = e.send_cq;
	attr.recv_cq = e.recv_cq;
	return failed("queue pair", diw_qp_create(e.pd, &attr, &e.qp));
}

static int register_memory(struct memory *m, size_t bytes)
{
	const unsigned write = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE;
	int rc;

	e.base = calloc(1, bytes);
	e.page = calloc(1, VICTIM_BYTES);
	if (!e.base || !e.page)
		return complain("no memory");
	rc = diw_mr_reg(e.pd, e.base, bytes, write | DIW_ACCESS_REMOTE_READ, &e.mr);
	if (!rc)
		rc = diw_mr_reg(e.pd, e.page, VICTIM_BYTES, write | DIW_ACCESS_REMOTE_INVALIDATE, &e.victim);
	if (rc)
		return failed("register", rc);
	*m = (struct memory){ .base = e.base, .to = e.mr->to, .stag = e.mr->stag,
			      .victim = e.page, .victim_to = e.victim->to, .victim_stag = e.victim->stag };
	return 0;
}

static void conn_attr(struct diw_conn_attr *a, const void *data)
{
	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->data = data;
	a->data_len = plan.data;
	a->crc = plan.crc;
	a->plain = !plan.discovery;
	a->connect.revision = plan.revision;
	a->rtr = (strchr(plan.rtr, 'w') ? DIW_RTR_WRITE : 0) | (strchr(plan.rtr, 'r') ? DIW_RTR_READ : 0) |
		 (strchr(plan.rtr, 'f') ? DIW_RTR_FPDU : 0);
	a->timeout_ns = PATIENCE_NS;
}

static int wait_event(struct diw_cm_event *ev)
{
	return failed("no event", diw_cm_get(e.cm, ev, PATIENCE_NS));
}

static int begin_listening(void)
{
	struct diw_listen_attr attr = DIW_LISTEN_ATTR_INIT;

	if (diw_addr_parse(plan.local, plan.port, &attr.local))
		return complain("no address: %s", plan.local);
	if (strcmp(plan.local, "0.0.0.0") == 0)
		memset(attr.local.ip, 0, sizeof attr.local.ip);
	return failed("listen", diw_listen(e.cm, &attr, &e.listener));
}

static int outcome(const struct diw_cm_event *ev)
{
	if (ev->type == DIW_CM_REJECTED && plan.reject && plan.addr) {
		printf("refused, with %u bytes of private data\n", ev->data_len);
		return data_check(ev->data, ev->data_len) ? -1 : 1;
	}
	if (ev->type != DIW_CM_ESTABLISHED)
		return complain("%s: %s, %s", diw_cm_event_str(ev->type), strerror(ev->errnum),
				diw_fault_str(ev->fault));
	if (ev->crc != plan.crc || ev->revision != plan.revision)
		return complain("CRC %d, revision %d", ev->crc, ev->revision);
	printf("established: revision %d, CRC %d, IRD %d, ORD %d\n", ev->revision, ev->crc, ev->ird, ev->ord);
	return plan.addr ? data_check(ev->data, ev->data_len) : 0;
}

static int answer(void)
{
	uint8_t data[DIW_MAX_PRIVATE];
	struct diw_conn_attr attr;
	struct diw_cm_event ev;

	if (begin_listening() || wait_event(&ev))
		return -1;
	if (ev.type != DIW_CM_CONNECT_REQUEST)
		return complain("%s", diw_cm_event_str(ev.type));
	if (data_check(ev.data, ev.data_len))
		return -1;
	data_fill(data, plan.data, false);
	if (plan.reject) {
		if (failed("reject", diw_reject(ev.req, data, plan.data)))
			return -1;
		usleep(500000);         /* the end of the process would end the stream too soon */
		return 1;
	}
	conn_attr(&attr, data);
	if (failed("accept", diw_accept(ev.req, e.qp, &attr)) || wait_event(&ev))
		return -1;
	return outcome(&ev);
}

static int ask(const struct diw_addr *dst)
{
	uint8_t data[DIW_MAX_PRIVATE];
	struct diw_conn_attr attr;
	struct diw_cm_event ev;

	data_fill(data, plan.data, true);
	conn_attr(&attr, data);
	if (failed("connect", diw_connect(e.qp, e.cm, dst, &attr)) || wait_event(&ev))
		return -1;
	return outcome(&ev);
}

int end_meet(struct memory *m, size_t bytes, size_t slot_at, uint32_t slot_len)
{
	struct diw_addr dst;

	if (plan.addr && diw_addr_parse(plan.addr, plan.port, &dst))
		return complain("no address: %s", plan.addr);
	if (open_objects(plan.addr ? &dst : NULL) || register_memory(m, bytes))
		return -1;
	e.slot_at = slot_at;
	e.slot_len = slot_len;
	for (uint32_t i = 0; i < SLOTS; i++)
		if (end_repost(i))
			return -1;
	return plan.addr ? ask(&dst) : answer();
}

/* ---- The middle ---- */

int end_repost(uint32_t slot)
{
	struct diw_sge sge = { e.base + e.slot_at + slot * (size_t)e.slot_len, e.slot_len, e.mr->stag };
	struct diw_recv_wr wr = { .wr_id = slot, .sge = &sge, .num_sge = 1 };

	return failed("post a receive", diw_post_recv(e.qp, &wr, NULL));
}

int end_recv(struct got *g, bool wait)
{
	struct diw_wc wc;
	int n = diw_cq_wait(e.recv_cq, &wc, 1, wait ? PATIENCE_NS : 0);

	if (n == 0 && !wait)
		return -1;
	if (n != 1)
		return n < 0 ? failed("poll", n) : complain("nothing received");
	if (wc.status != DIW_WC_SUCCESS)
		return complain("receive: %s", diw_wc_status_str(wc.status));
	*g = (struct got){ .at = e.slot_at + wc.wr_id * e.slot_len, .len = wc.byte_len, .slot = (uint32_t)wc.wr_id,
			   .solicited = (wc.flags & DIW_WC_SOLICITED) != 0,
			   .invalidated = (wc.flags & DIW_WC_INVALIDATED) != 0, .inv_stag = wc.stag };
	return 0;
}

static int post(const char *what, struct diw_send_wr wr, size_t at, uint32_t len)
{
	struct diw_sge sge = { e.base + at, len, e.mr->stag };

	wr.sge = &sge;
	wr.num_sge = 1;
	wr.flags |= DIW_SEND_SIGNALED;
	return failed(what, diw_post_send(e.qp, &wr, NULL));
}

int end_send(size_t at, uint32_t len, unsigned how, uint32_t inv_stag)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .inv_stag = inv_stag,
				  .flags = (how & HOW_SOLICITED ? DIW_SEND_SOLICITED : 0) |
					   (how & HOW_INVALIDATE ? DIW_SEND_INVALIDATE : 0) };

	return post("send", wr, at, len);
}

int end_write(size_t at, uint32_t len, uint32_t stag, uint64_t to)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE, .stag = stag, .to = to };

	return post("write", wr, at, len);
}

int end_read(size_t at, uint32_t len, uint32_t stag, uint64_t to)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_READ, .stag = stag, .to = to };

	return post("read", wr, at, len);
}

int end_done(unsigned n)
{
	struct diw_wc wc;
	int got;

	while (n-- > 0) {
		got = diw_cq_wait(e.send_cq, &wc, 1, PATIENCE_NS);
		if (got != 1)
			return got < 0 ? failed("poll", got) : complain("nothing completes");
		if (wc.status != DIW_WC_SUCCESS)
			return complain("%s: %s, %s", diw_wc_opcode_str(wc.opcode), diw_wc_status_str(wc.status),
					diw_fault_str(wc.fault));
	}
	return 0;
}

int end_arm(void)
{
	return failed("arm", diw_cq_arm(e.recv_cq, true));
}

int end_event(void)
{
	struct diw_cq *cq;

	return failed("no completion event", diw_channel_get(e.channel, &cq, PATIENCE_NS));
}

/* ---- The end ---- */

int end_disconnect(void)
{
	return failed("disconnect", diw_disconnect(e.qp));
}

int end_abort(void)
{
	printf("end: aborts\n");
	return failed("abort", diw_abort(e.qp));
}

static unsigned long long fpdus(void)
{
	uint64_t values[256];
	int n = diw_qp_counters(e.qp, values, 256);

	for (int i = 0; i < n && i < 256; i++)
		if (strcmp(diw_counter_name(i), "rx_fpdus") == 0)
			return values[i];
	return 0;
}

int end_gone(void)
{
	struct diw_qp_error err = { 0 };
	struct diw_cm_event ev;

	if (wait_event(&ev))
		return -1;
	diw_qp_error_get(e.qp, &err);
	printf("end: %s, %s, fault %04x, %s %04x, %llu FPDUs received\n", diw_cm_event_str(ev.type),
	       ev.errnum ? strerror(ev.errnum) : "ok", ev.fault,
	       err.remote ? "told by the peer" : "found here", err.fault, fpdus());
	return ev.type == DIW_CM_DISCONNECTED ? 0 : -1;
}

void end_close(void)
{
	if (e.qp)
		diw_qp_destroy(e.qp);
	if (e.listener)
		diw_listener_close(e.listener);
	if (e.cm)
		diw_cm_destroy(e.cm);
	if (e.mr)
		diw_mr_dereg(e.mr);
	if (e.victim)
		diw_mr_dereg(e.victim);
	if (e.recv_cq)
		diw_cq_destroy(e.recv_cq);
	if (e.send_cq)
		diw_cq_destroy(e.send_cq);
	if (e.channel)
		diw_channel_destroy(e.channel);
	if (e.pd)
		diw_pd_free(e.pd);
	if (e.dev)
		diw_dev_close(e.dev);
	free(e.base);
	free(e.page);
}
