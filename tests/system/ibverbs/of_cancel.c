/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads of libibverbs' programs that are cancelled: afterwards everything works. */
#include <fcntl.h>

#include "tests/system/native/cancel_kit.h"
#include "of_pair.h"

#define TIMES 1500

static struct ibv_comp_channel *ch;
static struct side a, b;             /* completions of a are reported by ch */

static bool open_rc(void)
{
	struct ibv_qp_init_attr_ex at = {
		.cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};

	at.send_cq = at.recv_cq = a.cq = ibv_create_cq(dev, 4 * DEPTH, NULL, ch, 0);
	a.qp = ibv_create_qp_ex(dev, &at);
	return a.qp && side_open(&b, IBV_QPT_RC, 0, NULL) && connect_pair(&a, &b) && post_recv(&b, HALF, 64, 1) == 0 &&
	       post_send(&a, 0, 64, 2) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) && next_is(&b, 1, IBV_WC_SUCCESS);
}

static int drain(struct side *s)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(s->cq, 1, &wc) == 1)
		n++;
	return n;
}

/* The completion of request 2; completions of earlier requests may come late. */
static bool sent(void)
{
	struct ibv_wc wc;

	while (next_wc(&b, &wc, SOON) && wc.status == IBV_WC_SUCCESS)
		if (wc.wr_id == 2)
			return true;
	printf("# wr_id %llu: %s\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	return false;
}

/* Takes all completions and events; then a message arrives and is reported. */
static bool works(void)
{
	struct ibv_cq *cq;
	double until;
	void *ctx;

	usleep(100);
	drain(&a);
	drain(&b);
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	while (ibv_get_cq_event(ch, &cq, &ctx) == 0)
		ibv_ack_cq_events(cq, 1);
	fcntl(ch->fd, F_SETFL, 0);
	ibv_req_notify_cq(a.cq, 0);
	post_recv(&a, HALF, 64, 1);
	if (post_send(&b, 0, 64, 2) || !sent() ||
	    poll(&(struct pollfd){ .fd = ch->fd, .events = POLLIN }, 1, SOON * 1000) != 1 ||
	    ibv_get_cq_event(ch, &cq, &ctx))
		return false;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(a.cq, 0);
	post_recv(&a, HALF, 64, 3);
	until = seconds() + SOON;
	while (!drain(&a) && seconds() < until)
		;
	return seconds() < until;
}

static void get_event(void *arg)
{
	struct ibv_cq *cq;
	void *ctx;

	(void)arg;
	if (ibv_get_cq_event(ch, &cq, &ctx) == 0)
		ibv_ack_cq_events(cq, 1);
}

static void send_one(void)
{
	post_send(&b, 0, 64, 5);
}

static void exchange(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	post_send(&b, 0, 64, 6);
	for (int i = 0; i < 4; i++)
		ibv_poll_cq(a.cq, 1, &wc);
	ibv_req_notify_cq(a.cq, 0);
}

static void objects(void *arg)
{
	struct side s = { 0 };

	(void)arg;
	if (side_open(&s, IBV_QPT_RC, 0, NULL)) {
		to_init(&s);
		to_state(&s, IBV_QPS_ERR);
		side_close(&s);
	}
}

static void get_async(void *arg)
{
	struct ibv_async_event ev;

	(void)arg;
	if (ibv_get_async_event(dev, &ev) == 0)
		ibv_ack_async_event(&ev);
}

/* Cancelled at any instruction, as by MVAPICH2. The calls do not sleep. */
static void look_for_events(void *arg)
{
	(void)arg;
	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		get_event(NULL);
}

static void look_for_async(void *arg)
{
	(void)arg;
	fcntl(dev->async_fd, F_SETFL, O_NONBLOCK);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		get_async(NULL);
}

/* As in rping: a thread waits for completions, its peer goes, and the thread is cancelled at once. */
static bool peer_leaves(void)
{
	struct victim v = { .call = get_event };

	for (int i = 0; i < 100; i++) {
		post_recv(&a, HALF, 64, 0);
		ibv_req_notify_cq(a.cq, 0);
		victim_start(&v);
		if (i & 1)
			usleep(200);
		ibv_destroy_qp(b.qp);
		pthread_cancel(v.thread);
		victim_join(&v);
		ibv_destroy_qp(a.qp);
		ibv_destroy_cq(b.cq);
		ibv_destroy_cq(a.cq);
		if (!open_rc())
			return false;
	}
	return true;
}

int main(void)
{
	int n;

	alarm(120);
	open_all();
	ch = ibv_create_comp_channel(dev);
	if (!CHECK(open_rc() && works(), "a connection"))
		return 1;
	n = sweep(get_event, NULL, send_one, works);
	printf("# %d points\n", n);
	CHECK(n > 1, "a thread is cancelled at each point of ibv_get_cq_event()");
	n = sweep(exchange, NULL, NULL, works);
	printf("# %d points\n", n);
	CHECK(n > 1, "... of posting, polling and arming");
	n = sweep(objects, NULL, NULL, works);
	printf("# %d points\n", n);
	CHECK(n > 1, "... of creating, modifying and destroying");
	CHECK(shoot(get_event, NULL, TIMES, send_one, works), "... at any time while it waits for completions");
	CHECK(shoot(get_async, NULL, TIMES / 5, NULL, works), "... or for an asynchronous event");
	CHECK(shoot(look_for_events, NULL, TIMES / 5, NULL, works),
	      "... asynchronously while it looks for completions");
	CHECK(shoot(look_for_async, NULL, TIMES / 5, NULL, works), "... or for an asynchronous event");
	CHECK(peer_leaves(), "... when the peer leaves");
	CHECK(pair_close(&a, &b) == 0 && ibv_destroy_comp_channel(ch) == 0 && close_all() == 0, "everything closes");
	return failed;
}
