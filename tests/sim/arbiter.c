/* SPDX-License-Identifier: BSD-2-Clause */
/* The send arbiter on virtual time: the shares of queue pairs that send through one slow link, or post all the time. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"

#define FLOWS 4
#define RATE 20000000u               /* octets a second of the link */
#define RECVS 64u

/* Queue pairs of one device, and the queue pair of another device that each of them sends to. */
struct end {
	struct diw_pd *pd;
	struct diw_cq *cq;
	struct diw_mr *mr;
	struct diw_qp *qp;
	struct diw_addr addr;
};
static struct end from[FLOWS], to[FLOWS];
static struct net *net;
static struct diw_dev *dev;          /* of the senders */
static int flows;
static uint32_t length;              /* of a message */
static bool mute[FLOWS];             /* the program of that flow posts nothing */
static uint8_t mem[65536];

static void end_open(struct end *e, struct diw_dev *of, enum diw_qp_type type, uint32_t weight)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp_info info;

	ck_assert_int_eq(diw_pd_alloc(of, &e->pd), 0);
	ck_assert_int_eq(diw_mr_reg(e->pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &e->mr), 0);
	ck_assert_int_eq(diw_cq_create(of, 1024, NULL, NULL, &e->cq), 0);
	attr.type = type;
	attr.send_cq = attr.recv_cq = e->cq;
	attr.weight = weight;
	attr.rq_depth = RECVS;
	attr.dgram.qkey = SIM_QKEY;
	ck_assert_int_eq(diw_qp_create(e->pd, &attr, &e->qp), 0);
	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	e->addr = info.local;
}

static void end_close(struct end *e)
{
	ck_assert_int_eq(diw_qp_destroy(e->qp), 0);
	ck_assert_int_eq(diw_cq_destroy(e->cq), 0);
	ck_assert_int_eq(diw_mr_dereg(e->mr), 0);
	ck_assert_int_eq(diw_pd_free(e->pd), 0);
}

static void recv_post(struct end *e)
{
	struct diw_sge sge = { mem, sizeof mem, e->mr->stag };

	if (diw_post_recv(e->qp, &(struct diw_recv_wr){ .sge = &sge, .num_sge = 1 }, NULL) != 0)
		ck_abort_msg("diw_post_recv");  /* an assertion that holds costs a system call */
}

static void begin(enum diw_qp_type type, int n, const uint32_t *weights, uint64_t rate)
{
	struct net_host *a, *b;

	net = net_new(1);
	net->rate = rate;
	a = net_host_add(net);
	b = net_host_add(net);
	dev = a->dev;
	flows = n;
	length = 8000;
	for (int i = 0; i < n; i++) {
		end_open(&from[i], a->dev, type, weights[i]);
		end_open(&to[i], b->dev, type, 1);
		for (uint32_t r = 0; r < RECVS; r++)
			recv_post(&to[i]);
		mute[i] = false;
	}
}

static void end(void)
{
	for (int i = 0; i < flows; i++) {
		end_close(&from[i]);
		end_close(&to[i]);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(diw_dev_close(net->host[i].dev), 0);
	net_free(net);
}

/* ---- The programs ---- */

/* Posts a message. False: the send queue is full. */
static bool flow_post(int i)
{
	struct diw_sge sge = { mem, length, from[i].mr->stag };
	struct diw_send_wr wr = { .opcode = DIW_WR_SEND, .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED,
		.qkey = SIM_QKEY, .dst.addr = to[i].addr };
	int rc = diw_post_send(from[i].qp, &wr, NULL);

	if (rc != 0 && rc != -ENOMEM)
		ck_abort_msg("diw_post_send: %s", strerror(-rc));
	return rc == 0;
}

static void flow_poll(int i)
{
	struct diw_wc wc;

	while (diw_cq_poll(from[i].cq, &wc, 1, 0) == 1)
		if (wc.status != DIW_WC_SUCCESS)
			ck_abort_msg("%s", diw_wc_status_str(wc.status));
	while (diw_cq_poll(to[i].cq, &wc, 1, 0) == 1)
		recv_post(&to[i]);
}

/* Every program keeps its send queue full for DURATION. */
static void run_full(uint64_t duration)
{
	uint64_t until = net->now + duration;

	while (net->now < until) {
		for (int i = 0; i < flows; i++) {
			flow_poll(i);
			while (!mute[i] && flow_post(i))
				;
		}
		net_step(net, diw_min64(until, net->now + DIW_MS));
	}
}

/* One thread posts a message of each flow in turn, which takes a microsecond: nothing but its time is short. */
static void run_in_turn(int rounds)
{
	while (rounds--)
		for (int i = 0; i < flows; i++) {
			if (!mute[i])
				flow_post(i);
			flow_poll(i);
			net_step(net, net->now + DIW_US);
		}
}

static uint64_t octets(int i)
{
	uint64_t v[256];
	int n = diw_qp_counters(from[i].qp, v, 256);

	while (n-- > 0)
		if (strcmp(diw_counter_name(n), "tx_bytes") == 0)
			return v[n];
	ck_abort_msg("no tx_bytes");
}

static void run_and_count(uint64_t duration, uint64_t *sent)
{
	for (int i = 0; i < flows; i++)
		sent[i] = octets(i);
	run_full(duration);
	for (int i = 0; i < flows; i++)
		sent[i] = octets(i) - sent[i];
}

static void near(double value, double wanted, double share)
{
	ck_assert_msg(value > wanted * (1 - share) && value < wanted * (1 + share), "%g instead of %g", value, wanted);
}

/* ---- Weighted ---- */

static void shares(enum diw_qp_type type)
{
	static const uint32_t weights[] = { 1, 2, 4, 16 };
	uint64_t sent[FLOWS];

	begin(type, 4, weights, RATE);
	length = 1000;                           /* queues that are small beside what is sent */
	run_full(DIW_S / 10);
	run_and_count(2 * DIW_S, sent);
	for (int i = 1; i < 4; i++)
		near((double)sent[i] / (double)sent[0], weights[i], 0.12);
	near((double)(sent[0] + sent[1] + sent[2] + sent[3]), 2.0 * RATE, type == DIW_QP_UD ? 0.01 : 0.1);
	end();
}

START_TEST(shares_of_ud)
{
	shares(DIW_QP_UD);
}
END_TEST

/* The window of reliable datagrams, not the socket, makes requests wait. */
START_TEST(shares_of_rd)
{
	shares(DIW_QP_RD);
}
END_TEST

/* The largest weight, and messages that are much larger than the share of the smallest weight in a round. */
START_TEST(shares_of_one_to_255)
{
	uint64_t sent[FLOWS];

	begin(DIW_QP_UD, 2, (uint32_t[]){ 1, 255 }, 5 * RATE);
	length = 60000;
	run_and_count(2 * DIW_S, sent);
	near((double)sent[1] / (double)sent[0], 255, 0.15);
	end();
}
END_TEST

/* Each post is sent at once, so the queue of the preferred queue pair is always empty. */
START_TEST(shares_of_posts_in_turn)
{
	begin(DIW_QP_UD, 2, (uint32_t[]){ 1, 8 }, 0);
	length = 1000;
	run_in_turn(20000);
	near((double)octets(1) / (double)octets(0), 8, 0.1);
	end();
}
END_TEST

START_TEST(weight_is_changed)
{
	uint64_t sent[FLOWS];

	begin(DIW_QP_UD, 2, (uint32_t[]){ 1, 1 }, RATE);
	run_full(DIW_S / 10);
	ck_assert_int_eq(diw_qp_set_weight(from[1].qp, 4), 0);
	run_and_count(DIW_S, sent);
	near((double)sent[1] / (double)sent[0], 4, 0.05);
	ck_assert_int_eq(diw_qp_set_weight(from[0].qp, 4), 0);
	run_and_count(DIW_S, sent);
	near((double)sent[1] / (double)sent[0], 1, 0.05);
	ck_assert_int_eq(diw_qp_set_weight(from[0].qp, 1), 0);
	ck_assert_int_eq(diw_qp_set_weight(from[1].qp, 1), 0);
	run_and_count(DIW_S, sent);              /* the arbiter is off: nothing waits */
	near((double)(sent[0] + sent[1]), RATE, 0.01);
	end();
}
END_TEST

/* A share that is not used is the others'. */
START_TEST(share_of_the_silent)
{
	uint64_t sent[FLOWS];

	begin(DIW_QP_UD, 3, (uint32_t[]){ 1, 64, 2 }, RATE);
	run_full(DIW_S / 10);
	mute[1] = true;
	run_full(DIW_S / 10);                    /* what it has posted leaves */
	run_and_count(DIW_S, sent);
	ck_assert_uint_eq(sent[1], 0);
	near((double)sent[2] / (double)sent[0], 2, 0.03);
	near((double)(sent[0] + sent[2]), RATE, 0.01);
	end();
}
END_TEST

/* A preferred queue pair that cannot send, because its completions are not taken, does not stop the other. */
START_TEST(share_of_the_stuck)
{
	uint64_t sent[FLOWS], until;

	begin(DIW_QP_UD, 2, (uint32_t[]){ 1, 255 }, RATE);
	run_full(DIW_S / 10);
	for (until = net->now + DIW_S; net->now < until; net_step(net, net->now + DIW_MS))
		while (flow_post(1))             /* nobody polls */
			;
	sent[0] = octets(0);
	for (until = net->now + DIW_S; net->now < until; net_step(net, net->now + DIW_MS)) {
		flow_poll(0);
		while (flow_post(0))
			;
	}
	ck_assert_uint_gt(octets(0) - sent[0], 100u << 10);
	end();
}
END_TEST

/* ---- Blocking ---- */

START_TEST(blocking)
{
	uint64_t sent[FLOWS];

	begin(DIW_QP_UD, 3, (uint32_t[]){ 1, 2, 2 }, RATE);
	ck_assert_int_eq(diw_dev_set_arbiter(dev, DIW_ARBITER_BLOCKING), 0);
	run_full(DIW_S / 10);
	run_and_count(2 * DIW_S, sent);
	near((double)(sent[1] + sent[2]), 2.0 * RATE, 0.01);
	near((double)sent[1] / (double)sent[2], 1, 0.03);
	ck_assert_uint_gt(sent[0], 10 * 4096);  /* a share in 100 ms */
	ck_assert_uint_lt(sent[0], 40 * 4096);
	mute[1] = mute[2] = true;
	run_full(DIW_S / 10);
	run_and_count(DIW_S, sent);
	near((double)sent[0], RATE, 0.01);
	mute[1] = false;                         /* a class above the one that sends */
	run_and_count(DIW_S, sent);
	near((double)sent[1], RATE, 0.01);
	ck_assert_int_eq(diw_dev_set_arbiter(dev, DIW_ARBITER_WEIGHTED), 0);
	run_and_count(DIW_S, sent);
	near((double)sent[1] / (double)sent[0], 2, 0.05);
	end();
}
END_TEST

/* ---- Input ---- */

START_TEST(refused)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_qp *qp;

	begin(DIW_QP_UD, 1, (uint32_t[]){ 1 }, 0);
	attr.send_cq = attr.recv_cq = from[0].cq;
	attr.weight = 0;
	ck_assert_int_eq(diw_qp_create(from[0].pd, &attr, &qp), -EINVAL);
	attr.weight = 256;
	ck_assert_int_eq(diw_qp_create(from[0].pd, &attr, &qp), -EINVAL);
	attr.weight = 0;                         /* a program that was built before the attribute existed */
	attr.size = offsetof(struct diw_qp_attr, weight);
	ck_assert_int_eq(diw_qp_create(from[0].pd, &attr, &qp), 0);
	ck_assert_int_eq(diw_qp_destroy(qp), 0);
	ck_assert_int_eq(diw_qp_set_weight(from[0].qp, 0), -EINVAL);
	ck_assert_int_eq(diw_qp_set_weight(from[0].qp, 256), -EINVAL);
	ck_assert_int_eq(diw_qp_set_weight(from[0].qp, UINT32_MAX), -EINVAL);
	ck_assert_int_eq(diw_dev_set_arbiter(dev, (enum diw_arbiter_mode)2), -EINVAL);
	end();
}
END_TEST

Suite *suite_arbiter(void)
{
	Suite *s = suite_create("arbiter");
	TCase *tc = tcase_create("weighted");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, shares_of_ud);
	tcase_add_test(tc, shares_of_rd);
	tcase_add_test(tc, shares_of_one_to_255);
	tcase_add_test(tc, shares_of_posts_in_turn);
	tcase_add_test(tc, weight_is_changed);
	tcase_add_test(tc, share_of_the_silent);
	tcase_add_test(tc, share_of_the_stuck);
	suite_add_tcase(s, tc);
	tc = tcase_create("blocking");
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, blocking);
	suite_add_tcase(s, tc);
	tc = tcase_create("input");
	tcase_add_test(tc, refused);
	suite_add_tcase(s, tc);
	return s;
}
