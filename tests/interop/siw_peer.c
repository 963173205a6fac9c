/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's end of the exchange: libibverbs and librdmacm over siw, in the guest. It sends solicited messages. A
 * solicited message that it receives completes like others, and wakes no thread that waits for solicited ones only. Its
 * completions do not report an invalidated STag.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "tests/interop/exchange.h"

#define READS 16                     /* outstanding in each direction */

const bool end_tells = false;

static struct {
	struct rdma_event_channel *cm;
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr, *victim;
	uint8_t *base, *page;
	size_t slot_at;
	uint32_t slot_len;
} e;

static int failed(const char *what, int rc)
{
	return rc ? complain("%s: %s", what, strerror(rc < 0 ? errno : rc)) : 0;
}

static int readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, PATIENCE_MS) == 1 ? 0 : complain("nothing happens");
}

/* ---- The beginning ---- */

/* Its private data is not valid after the acknowledgement. */
static int wait_event(struct rdma_cm_event **ev)
{
	return readable(e.cm->fd) || failed("event", rdma_get_cm_event(e.cm, ev));
}

static int expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type got;
	int status;

	if (wait_event(&ev))
		return -1;
	got = ev->event;
	status = ev->status;
	rdma_ack_cm_event(ev);
	return got == type ? 0 : complain("%s (%d), not %s", rdma_event_str(got), status, rdma_event_str(type));
}

static int check_private_data(const struct rdma_conn_param *c)
{
	uint32_t len = c->private_data_len;

	if (plan.discovery && !plan.addr) {
		if (len < DISCOVERY_BYTES)
			return complain("no word of RFC 7306");
		len -= DISCOVERY_BYTES;
	}
	return data_check(c->private_data, len);
}

static int open_objects(struct memory *m, size_t bytes)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	e.pd = ibv_alloc_pd(e.id->verbs);
	e.channel = ibv_create_comp_channel(e.id->verbs);
	if (!e.pd || !e.channel)
		return complain("protection domain, channel: %s", strerror(errno));
	attr.send_cq = e.send_cq = ibv_create_cq(e.id->verbs, 64, NULL, NULL, 0);
	attr.recv_cq = e.recv_cq = ibv_create_cq(e.id->verbs, 64, NULL, e.channel, 0);
	if (!e.send_cq || !e.recv_cq)
		return complain("completion queues: %s", strerror(errno));
	if (failed("queue pair", rdma_create_qp(e.id, e.pd, &attr)))
		return -1;
	e.base = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	e.page = aligned_alloc(4096, VICTIM_BYTES);
	if (!e.base || !e.page)
		return complain("no memory");
	memset(e.base, 0, bytes);
	memset(e.page, 0, VICTIM_BYTES);
	e.mr = ibv_reg_mr(e.pd, e.base, bytes, all);
	e.victim = ibv_reg_mr(e.pd, e.page, VICTIM_BYTES, all);
	if (!e.mr || !e.victim)
		return complain("register: %s", strerror(errno));
	*m = (struct memory){ .base = e.base, .to = (uintptr_t)e.base, .stag = e.mr->rkey,
			      .victim = e.page, .victim_to = (uintptr_t)e.page, .victim_stag = e.victim->rkey };
	for (uint32_t i = 0; i < SLOTS; i++)
		if (end_repost(i))
			return -1;
	return 0;
}

static int answer(struct memory *m, size_t bytes, struct rdma_conn_param *param)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(plan.port) };
	struct rdma_cm_event *ev;
	int rc;

	inet_pton(AF_INET, plan.local, &at.sin_addr);
	if (failed("id", rdma_create_id(e.cm, &e.listener, NULL, RDMA_PS_TCP)) ||
	    failed("bind", rdma_bind_addr(e.listener, (struct sockaddr *)&at)) ||
	    failed("listen", rdma_listen(e.listener, 4)) || wait_event(&ev))
		return -1;
	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return complain("%s", rdma_event_str(ev->event));
	e.id = ev->id;
	rc = check_private_data(&ev->param.conn);
	rdma_ack_cm_event(ev);
	if (rc)
		return -1;
	if (plan.reject)
		return failed("reject", rdma_reject(e.id, param->private_data, param->private_data_len)) ? -1 : 1;
	if (open_objects(m, bytes) || failed("accept", rdma_accept(e.id, param)))
		return -1;
	return expect(RDMA_CM_EVENT_ESTABLISHED);
}

static int outcome(void)
{
	struct rdma_cm_event *ev;
	int rc;

	if (wait_event(&ev))
		return -1;
	if (ev->event == RDMA_CM_EVENT_ESTABLISHED) {
		printf("established: IRD %d, ORD %d\n", ev->param.conn.responder_resources,
		       ev->param.conn.initiator_depth);
		rc = check_private_data(&ev->param.conn);
	} else if (ev->event == RDMA_CM_EVENT_REJECTED && plan.reject) {
		printf("refused, with %d bytes of private data\n", ev->param.conn.private_data_len);
		rc = check_private_data(&ev->param.conn) ? -1 : 1;
	} else {
		rc = complain("%s (%d)", rdma_event_str(ev->event), ev->status);
	}
	rdma_ack_cm_event(ev);
	return rc;
}

static int ask(struct memory *m, size_t bytes, struct rdma_conn_param *param)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(plan.port) };

	inet_pton(AF_INET, plan.addr, &to.sin_addr);
	if (failed("id", rdma_create_id(e.cm, &e.id, NULL, RDMA_PS_TCP)) ||
	    failed("address", rdma_resolve_addr(e.id, NULL, (struct sockaddr *)&to, PATIENCE_MS)) ||
	    expect(RDMA_CM_EVENT_ADDR_RESOLVED) || failed("route", rdma_resolve_route(e.id, PATIENCE_MS)) ||
	    expect(RDMA_CM_EVENT_ROUTE_RESOLVED) || open_objects(m, bytes) ||
	    failed("connect", rdma_connect(e.id, param)))
		return -1;
	return outcome();
}

int end_meet(struct memory *m, size_t bytes, size_t slot_at, uint32_t slot_len)
{
	uint8_t data[512];
	struct rdma_conn_param param = {
		.private_data = data, .private_data_len = (uint8_t)plan.data, .responder_resources = READS,
		.initiator_depth = READS,
	};

	if (plan.data > UINT8_MAX)
		return complain("librdmacm takes 255 bytes of private data");
	data_fill(data, plan.data, plan.addr);
	e.slot_at = slot_at;
	e.slot_len = slot_len;
	e.cm = rdma_create_event_channel();
	if (!e.cm)
		return complain("event channel: %s", strerror(errno));
	return plan.addr ? ask(m, bytes, &param) : answer(m, bytes, &param);
}

/* ---- The middle ---- */

int end_repost(uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)e.base + e.slot_at + slot * (size_t)e.slot_len, e.slot_len, e.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

	return failed("post a receive", ibv_post_recv(e.id->qp, &wr, &bad));
}

/* Polls; only end_event() reads events. */
static int completion(struct ibv_cq *cq, struct ibv_wc *wc, bool wait)
{
	int n;

	for (int ms = 0; (n = ibv_poll_cq(cq, 1, wc)) == 0 && wait && ms < PATIENCE_MS; ms++)
		usleep(1000);
	if (n == 0 && !wait)
		return -1;
	if (n != 1)
		return n < 0 ? complain("poll") : complain("nothing completes");
	return wc->status == IBV_WC_SUCCESS ? 0 : complain("%d: %s", wc->opcode, ibv_wc_status_str(wc->status));
}

int end_recv(struct got *g, bool wait)
{
	struct ibv_wc wc;

	if (completion(e.recv_cq, &wc, wait))
		return -1;
	*g = (struct got){ .at = e.slot_at + wc.wr_id * e.slot_len, .len = wc.byte_len, .slot = (uint32_t)wc.wr_id };
	return 0;
}

/* siw's library takes the Invalidate STag from the place of a Write's STag. */
static int post(const char *what, enum ibv_wr_opcode opcode, unsigned flags, size_t at, uint32_t len, uint32_t stag,
		uint64_t to)
{
	struct ibv_sge sge = { (uintptr_t)e.base + at, len, e.mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags,
		.wr.rdma = { .remote_addr = to, .rkey = stag },
	}, *bad;

	if (opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = stag;
	return failed(what, ibv_post_send(e.id->qp, &wr, &bad));
}

int end_send(size_t at, uint32_t len, unsigned how, uint32_t inv_stag)
{
	return post("send", how & HOW_INVALIDATE ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND,
		    how & HOW_SOLICITED ? IBV_SEND_SOLICITED : 0, at, len, inv_stag, 0);
}

int end_write(size_t at, uint32_t len, uint32_t stag, uint64_t to)
{
	return post("write", IBV_WR_RDMA_WRITE, 0, at, len, stag, to);
}

int end_read(size_t at, uint32_t len, uint32_t stag, uint64_t to)
{
	return post("read", IBV_WR_RDMA_READ, 0, at, len, stag, to);
}

int end_done(unsigned n)
{
	struct ibv_wc wc;

	while (n-- > 0)
		if (completion(e.send_cq, &wc, true))
			return -1;
	return 0;
}

int end_arm(void)
{
	return failed("arm", ibv_req_notify_cq(e.recv_cq, 0));
}

int end_event(void)
{
	struct ibv_cq *cq;
	void *ctx;

	if (readable(e.channel->fd) || failed("completion event", ibv_get_cq_event(e.channel, &cq, &ctx)))
		return -1;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

/* ---- The end ---- */

int end_disconnect(void)
{
	return failed("disconnect", rdma_disconnect(e.id));
}

/* Moves the queue pair to the state ERROR, which ends the connection. */
int end_abort(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	printf("end: aborts\n");
	return failed("abort", ibv_modify_qp(e.id->qp, &attr, IBV_QP_STATE));
}

int end_gone(void)
{
	struct rdma_cm_event *ev;
	enum rdma_cm_event_type type;

	if (wait_event(&ev))
		return -1;
	type = ev->event;
	printf("end: %s (%d)\n", rdma_event_str(type), ev->status);
	rdma_ack_cm_event(ev);
	return type == RDMA_CM_EVENT_DISCONNECTED ? 0 : -1;
}

void end_close(void)
{
	if (e.id && e.id->qp)
		rdma_destroy_qp(e.id);
	if (e.mr)
		ibv_dereg_mr(e.mr);
	if (e.victim)
		ibv_dereg_mr(e.victim);
	if (e.recv_cq)
		ibv_destroy_cq(e.recv_cq);
	if (e.send_cq)
		ibv_destroy_cq(e.send_cq);
	if (e.channel)
		ibv_destroy_comp_channel(e.channel);
	if (e.pd)
		ibv_dealloc_pd(e.pd);
	if (e.id)
		rdma_destroy_id(e.id);
	if (e.listener)
		rdma_destroy_id(e.listener);
	if (e.cm)
		rdma_destroy_event_channel(e.cm);
	free(e.base);
	free(e.page);
}
