/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm.so.1: the last message of a peer that disconnects. A program that polls completions, and then events, gets
 * the message before the event of the end. A program that gets the event first still finds the message. A Send that the
 * program posts meanwhile fails later than both.
 */
#include "tests/system/rdmacm/cma_kit.h"

#define TIMES 20
#define RETRIES_S 1.0                   /* the time that retries take */
#define LATE_S 0.002                    /* the event of the end comes this much later than the end is known */

static struct rdma_event_channel *srv, *cli;
static char out[] = "the last words", in[sizeof out], spare[16];
static struct ibv_mr *out_mr, *in_mr;

/* ---- A program yields while its queue is empty; here to this ---- */

static struct rdma_cm_id *sender;
static bool sent;

static bool say(struct rdma_cm_id *by)
{
	struct ibv_wc wc;
	double until = seconds() + SOON_MS / 1000;
	int n;

	if (rdma_post_send(by, NULL, out, sizeof out, out_mr, IBV_SEND_SIGNALED))
		return false;
	while ((n = ibv_poll_cq(by->send_cq, 1, &wc)) == 0 && seconds() < until)
		;
	return n == 1 && wc.status == IBV_WC_SUCCESS;
}

/* The thread that had the device when the message was placed has made its completion: registering memory waits for that
 * thread. */
static bool arrived(struct rdma_cm_id *by)
{
	double until = seconds() + SOON_MS / 1000;
	struct ibv_wc wc;
	struct ibv_mr *mr;

	while (strcmp(in, out) != 0 && seconds() < until)
		ibv_poll_cq(by->send_cq, 1, &wc);
	mr = rdma_reg_msgs(by, spare, sizeof spare);
	return mr && rdma_dereg_mr(mr) == 0 && strcmp(in, out) == 0;
}

/* Replaces the C library's function. */
__attribute__((visibility("default"))) int sched_yield(void)
{
	struct rdma_cm_id *id = sender;

	if (id && !sent) {
		sent = true;
		sent = say(id) && arrived(id);
	}
	return 0;
}

/* ---- Connections ---- */

static bool connect_pair(uint16_t port, struct ibv_cq *cq, struct rdma_cm_id **a, struct rdma_cm_id **b)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 }, .send_cq = cq, .recv_cq = cq,
	};
	struct rdma_cm_event *ev;

	*a = asker(cli, RDMA_PS_TCP, port);
	if (rdma_connect(*a, NULL) || !(ev = expect(srv, RDMA_CM_EVENT_CONNECT_REQUEST)))
		return false;
	*b = ev->id;
	if (!out_mr) {
		out_mr = rdma_reg_msgs(*a, out, sizeof out);
		in_mr = rdma_reg_msgs(*b, in, sizeof in);
	}
	memset(in, 0, sizeof in);
	return (cq ? rdma_create_qp(*b, NULL, &init) == 0 : make_qp(*b)) &&
	       rdma_post_recv(*b, NULL, in, sizeof in, in_mr) == 0 && rdma_accept(*b, NULL) == 0 &&
	       rdma_ack_cm_event(ev) == 0 && comes(cli, RDMA_CM_EVENT_ESTABLISHED) &&
	       comes(srv, RDMA_CM_EVENT_ESTABLISHED);
}

static bool part(struct rdma_cm_id *a, struct rdma_cm_id *b)
{
	return rdma_disconnect(a) == 0 && comes(cli, RDMA_CM_EVENT_DISCONNECTED) &&
	       comes(srv, RDMA_CM_EVENT_DISCONNECTED) && destroy(a) == 0 && destroy(b) == 0;
}

static bool polled(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	return ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && strcmp(in, out) == 0;
}

static bool polled_ex(struct ibv_cq_ex *ex)
{
	struct ibv_poll_cq_attr attr = { 0 };
	bool good;

	if (ibv_start_poll(ex, &attr))
		return false;
	good = ex->status == IBV_WC_SUCCESS && strcmp(in, out) == 0;
	ibv_end_poll(ex);
	return good;
}

/* The poll that yields returns the completion that came meanwhile. */
static void lent(uint16_t port, bool extended)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 8 };
	struct rdma_cm_id *a, *b, *any = asker(cli, RDMA_PS_TCP, port);
	struct ibv_cq_ex *ex = extended ? ibv_create_cq_ex(any->verbs, &attr) : NULL;
	bool got = false;

	CHECK(connect_pair(port, extended ? ibv_cq_ex_to_cq(ex) : NULL, &a, &b), "a connection");
	sent = false;
	sender = a;
	for (int i = 0; i < 1000 && !sent && !got; i++)
		got = extended ? polled_ex(ex) : polled(b->recv_cq);
	sender = NULL;
	CHECK(sent && got, extended ? "an extended queue that found nothing looks again after it lent the processor" :
	      "a queue that found nothing looks again after it lent the processor");
	CHECK(part(a, b) && destroy(any) == 0 && (!ex || ibv_destroy_cq(ibv_cq_ex_to_cq(ex)) == 0), "both go");
}

/* The end follows the message at once. */
static void late(uint16_t port)
{
	struct rdma_cm_id *a, *b;
	int connections = 0, later = 0, there = 0;
	double begin, least = 1e9;

	for (int i = 0; i < TIMES; i++) {
		connections += connect_pair(port, NULL, &a, &b);
		begin = say(a) ? seconds() : 0;
		rdma_disconnect(a);
		later += begin && comes(srv, RDMA_CM_EVENT_DISCONNECTED);
		least = seconds() - begin < least ? seconds() - begin : least;
		there += polled(b->recv_cq);
		comes(cli, RDMA_CM_EVENT_DISCONNECTED);
		destroy(a);
		destroy(b);
	}
	CHECK(connections == TIMES && later == TIMES, "20 peers leave behind a message");
	CHECK(there == TIMES, "which is there when that is told");
	CHECK(least >= LATE_S, "2 ms after it was known at the soonest");
}

/* The end is behind a message for which there is no receive. */
static void left_behind(uint16_t port)
{
	struct rdma_cm_id *a, *b;
	struct rdma_cm_event *ev;

	CHECK(connect_pair(port, NULL, &a, &b) && say(a) &&
	      rdma_post_send(a, NULL, out, sizeof out, out_mr, IBV_SEND_SIGNALED) == 0 && rdma_disconnect(a) == 0 &&
	      comes(cli, RDMA_CM_EVENT_DISCONNECTED) && destroy(a) == 0, "a peer leaves behind one message too many");
	ev = next(srv, 10 * SOON_MS);
	CHECK(ev && ev->event == RDMA_CM_EVENT_DISCONNECTED && rdma_ack_cm_event(ev) == 0 && polled(b->recv_cq),
	      "which is told, though later");
	CHECK(destroy(b) == 0, "its other end goes");
}

/* The status of the Send that B posted at BEGIN, and how long it took. */
static enum ibv_wc_status send_status(struct rdma_cm_id *b, double begin, double *took)
{
	double until = seconds() + SOON_MS / 1000;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	while (ibv_poll_cq(b->send_cq, 1, &wc) == 0 && seconds() < until)
		;
	*took = seconds() - begin;
	return wc.status;
}

/* A Send to a peer that has left. A channel adapter repeats it for some time, unless the program disconnects, too. An
 * RNIC flushes it. */
static void left_already(uint16_t port, bool disconnects)
{
	bool rnic = diw_port_is_rnic();
	enum ibv_wc_status status;
	struct rdma_cm_id *a, *b;
	double begin, took;

	CHECK(connect_pair(port, NULL, &a, &b), "a connection");
	rdma_disconnect(a);
	CHECK(comes(cli, RDMA_CM_EVENT_DISCONNECTED), "a peer leaves");
	begin = seconds();
	CHECK(rdma_post_send(b, NULL, out, sizeof out, out_mr, IBV_SEND_SIGNALED) == 0, "a Send to it");
	CHECK(comes(srv, RDMA_CM_EVENT_DISCONNECTED), "that the peer has left is told");
	if (disconnects)
		rdma_disconnect(b);
	status = send_status(b, begin, &took);
	if (rnic || disconnects)
		CHECK(status == IBV_WC_WR_FLUSH_ERR && took < RETRIES_S / 2, "the Send is flushed");
	else
		CHECK(status == IBV_WC_RETRY_EXC_ERR && took > RETRIES_S / 2, "the Send fails after retries");
	destroy(a);
	destroy(b);
}

int main(void)
{
	struct rdma_cm_id *l;
	uint16_t port;

	srv = rdma_create_event_channel();
	cli = rdma_create_event_channel();
	l = listener(srv, RDMA_PS_TCP, &port);
	late(port);
	lent(port, false);
	lent(port, true);
	left_already(port, true);
	left_already(port, false);
	if (getenv("DIW_TEST_FULL"))
		left_behind(port);
	CHECK(rdma_dereg_mr(out_mr) == 0 && rdma_dereg_mr(in_mr) == 0 && rdma_destroy_id(l) == 0, "all go");
	return failed;
}
