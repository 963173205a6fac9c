/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair with posted receives and an armed completion queue raises no event when it is destroyed or reset. */
#include <fcntl.h>

#include "of_pair.h"

#define QUIET_MS 100                 /* an event would have come by then */
#define RECVS 8

struct quiet {
	struct ibv_comp_channel *ch;
	struct ibv_srq *srq;
	struct side a, b;
};

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

/* A queue pair whose completions raise events, connected to one whose completions do not. */
static bool open_quiet(struct quiet *q, enum ibv_qp_type type, bool shared)
{
	struct ibv_qp_init_attr_ex a = {
		.cap = { DEPTH, DEPTH, 1, 1, 0 }, .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	*q = (struct quiet){ .ch = ibv_create_comp_channel(dev) };
	if (shared)
		a.srq = q->srq = ibv_create_srq(pd, &sa);
	a.send_cq = a.recv_cq = q->a.cq = ibv_create_cq(dev, 4 * DEPTH, NULL, q->ch, 0);
	q->a.qp = ibv_create_qp_ex(dev, &a);
	if (!q->a.qp || !side_open(&q->b, type, 0, NULL) || !connect_pair(&q->a, &q->b))
		return false;
	/* wait until it is connected */
	return type != IBV_QPT_RC ||
	       (post_recv(&q->b, HALF, 64, 1) == 0 && post_send(&q->a, 0, 64, 2) == 0 &&
		next_is(&q->a, 2, IBV_WC_SUCCESS) && next_is(&q->b, 1, IBV_WC_SUCCESS));
}

static bool close_quiet(struct quiet *q)
{
	return (!q->a.qp || ibv_destroy_qp(q->a.qp) == 0) && ibv_destroy_cq(q->a.cq) == 0 &&
	       (!q->srq || ibv_destroy_srq(q->srq) == 0) && ibv_destroy_comp_channel(q->ch) == 0 &&
	       side_close(&q->b) == 0;
}

static void post_recvs(struct quiet *q)
{
	for (int i = 0; i < RECVS; i++) {
		struct ibv_sge sge = sge_at(HALF + 256 * (uint32_t)i, 256);
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

		if (q->srq)
			ibv_post_srq_recv(q->srq, &wr, &bad);
		else
			ibv_post_recv(q->a.qp, &wr, &bad);
	}
}

static void silent(enum ibv_qp_type type, bool shared, bool destroy, int solicited_only)
{
	static const char *const names[] = { [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD" };
	char what[128];
	struct ibv_async_event ev;
	struct quiet q;
	struct ibv_wc wc;

	snprintf(what, sizeof what, "%s%s, %s%s", names[type], shared ? " with a shared receive queue" : "",
		 destroy ? "destroyed" : "reset", solicited_only ? ", armed for solicited ones" : "");
	if (!CHECK(open_quiet(&q, type, shared), what))
		return;
	post_recvs(&q);
	ibv_req_notify_cq(q.a.cq, solicited_only);
	if (destroy) {
		ibv_destroy_qp(q.a.qp);
		q.a.qp = NULL;
	} else {
		to_state(&q.a, IBV_QPS_RESET);
	}
	CHECK(ibv_poll_cq(q.a.cq, 1, &wc) == 0 && !readable(q.ch->fd, QUIET_MS), "... raises no completion event");
	CHECK(ibv_get_async_event(dev, &ev) < 0 && errno == EAGAIN, "... and no asynchronous one");
	close_quiet(&q);
}

/* A completion still raises its event, even if it was flushed. */
static void flushed(void)
{
	struct ibv_wc wc[RECVS + 1];
	struct ibv_cq *cq;
	struct quiet q;
	void *ctx;

	CHECK(open_quiet(&q, IBV_QPT_RC, false), "a queue pair in state ERR");
	post_recvs(&q);
	ibv_req_notify_cq(q.a.cq, 1);
	to_state(&q.a, IBV_QPS_ERR);
	CHECK(readable(q.ch->fd, SOON * 1000) && ibv_get_cq_event(q.ch, &cq, &ctx) == 0 && cq == q.a.cq,
	      "... tells of its receives");
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(q.a.cq, 0);
	ibv_destroy_qp(q.a.qp);
	q.a.qp = NULL;
	CHECK(ibv_poll_cq(q.a.cq, RECVS + 1, wc) == 0 && !readable(q.ch->fd, QUIET_MS),
	      "... whose completions go with it, silently");
	CHECK(close_quiet(&q), "... and all goes");
}

/* After a reset it raises events as before. */
static void again(void)
{
	struct ibv_wc wc;
	struct quiet q;

	CHECK(open_quiet(&q, IBV_QPT_UD, false), "a queue pair is reset");
	post_recvs(&q);
	to_state(&q.a, IBV_QPS_RESET);
	to_init(&q.a);
	to_rtr(&q.a, 0);
	to_rts(&q.a);
	ibv_req_notify_cq(q.a.cq, 0);
	post_recvs(&q);
	to_state(&q.a, IBV_QPS_ERR);
	CHECK(readable(q.ch->fd, SOON * 1000) && next_wc(&q.a, &wc, SOON) && wc.status == IBV_WC_WR_FLUSH_ERR,
	      "... and completes again");
	CHECK(close_quiet(&q), "... and all goes");
}

int main(void)
{
	open_all();
	fcntl(dev->async_fd, F_SETFL, fcntl(dev->async_fd, F_GETFL) | O_NONBLOCK);
	for (int i = 0; i < 8; i++)
		silent(IBV_QPT_RC, i & 1, i & 2, i >> 2);
	for (int i = 0; i < 4; i++) {
		silent(IBV_QPT_UD, i & 1, i & 2, 0);
		silent(IBV_QPT_UC, i & 1, i & 2, 0);
	}
	flushed();
	again();
	CHECK(close_all() == 0, "everything closes");
	return failed;
}
