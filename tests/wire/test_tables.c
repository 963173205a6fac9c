/* SPDX-License-Identifier: BSD-2-Clause */
/* The effects of a peer with write access on the tables: the cost of lookups for MSNs that it chooses, state for
 * segments that are refused later, unusual times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/wire/wire.h"

static struct bench b;

static uint64_t cpu(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

/* The first 16 octets of a message of 64. */
static void first_segment(struct gram *g, uint8_t op, uint32_t msn)
{
	struct fields f = op == OP_SEND ? send_fields(msn, "0123456789abcdef", 16) :
			  record_fields(b.mr->stag, msn, TO, "0123456789abcdef", 16);

	f.c0 = op == OP_SEND ? 1 : BIT_T | 1;
	f.length = 64;
	gram_build(g, &f);
}

static void image_of_first(void)
{
	if (memcmp(b.region, "0123456789abcdef", 16) == 0)
		memcpy(b.image + GUARD, b.region, 16);
	for (int i = 0; i < NRECV; i++)
		memcpy(b.image + (b.recv[i] - b.arena), b.recv[i], 16);
}

#define MANY 16000u
#define FEW 512u

/* Nanoseconds for each of N first segments whose MSNs are STEP apart, a few at a time; no timer ends a message. */
static uint64_t time_of(uint8_t op, uint32_t n, uint32_t step)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint64_t begun;
	struct gram g;

	attr.dgram.record_timeout_ns = attr.dgram.reorder_window_ns = attr.dgram.reasm_timeout_ns = 10 * (int64_t)DIW_S;
	bench_open(&b, &attr);
	begun = cpu();
	for (uint32_t i = 0; i < n; i++) {
		first_segment(&g, op, i * step);
		net_inject(b.net, &b.peer, &b.addr, g.b, g.len, b.net->now);
		if (i % 16 == 15)
			net_settle(b.net);
	}
	begun = (cpu() - begun) / n;
	ck_assert_uint_eq(bench_count(&b, op == OP_SEND ? "reasm_opened" : "record_opened"), n);
	image_of_first();
	bench_close(&b);
	return begun;
}

/* The messages of a source cost the same for any MSNs, and for any number of open messages. */
START_TEST(msns_do_not_choose_their_bucket)
{
	uint8_t op = _i ? OP_SEND : OP_WRITE_RECORD;
	uint64_t few = 0, near = 0, far = 0;

	for (int i = 0; i < 10 && (near >= 5 * few || far >= 5 * few); i++) {    /* other processes use the caches,
										  * too */
		few = time_of(op, FEW, 1);
		near = time_of(op, MANY, 1);
		far = time_of(op, MANY, 1u << 16);
		printf("a message, MSNs in a row: %lu ns of %u, %lu ns of %u; 65536 apart: %lu ns\n", few, FEW, near,
		       MANY, far);
	}
	ck_assert_uint_lt(near, 5 * few);
	ck_assert_uint_lt(far, 5 * few);
}
END_TEST

/* Chunk mode with a full completion queue: a segment that cannot be placed opens no record. When there is room again,
 * the message arrives as if that segment had been lost. */
START_TEST(refused_chunk_opens_nothing)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct fields f;
	struct gram g;
	struct diw_wc wc;
	uint32_t n = 0;

	attr.dgram.record_mode = DIW_RECORD_CHUNK;
	bench_open(&b, &attr);
	for (uint32_t i = 0; i < 1024; i++) {   /* fills the queue */
		f = record_fields(b.mr->stag, i, TO, "w", 1);
		gram_build(&g, &f);
		bench_inject(&b, &g);
	}
	b.image[GUARD] = 'w';
	first_segment(&g, OP_WRITE_RECORD, 2000);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "rx_cq_full");
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.records_open + b.info.records_held, 0);
	bench_check_memory(&b);
	while (diw_cq_poll(b.rcq, &wc, 1, 0) == 1)
		n++;
	ck_assert_uint_eq(n, 1024);
	net_run(b.net, DIW_MS);
	bench_look(&b);
	bench_inject(&b, &g);                   /* the same again */
	ck_assert_str_eq(bench_drops(&b), "");
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 16);
	ck_assert_uint_eq(wc.msn, 2000);
	image_of_first();
	bench_close(&b);
}
END_TEST

/* "For ever" is a timeout like others: the source does not expire while it has an open record and a partial Send. */
START_TEST(longest_timeouts)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct gram g;

	attr.dgram.record_timeout_ns = attr.dgram.reasm_timeout_ns = INT64_MAX;
	attr.dgram.reorder_window_ns = attr.dgram.read_timeout_ns = INT64_MAX;
	bench_open(&b, &attr);
	first_segment(&g, OP_WRITE_RECORD, 7);
	bench_inject(&b, &g);
	first_segment(&g, OP_SEND, 7);
	bench_inject(&b, &g);
	net_run(b.net, 3600 * DIW_S);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sources, 1);
	ck_assert_uint_eq(b.info.records_open, 1);
	ck_assert_uint_eq(b.info.reasm_open, 1);
	image_of_first();
	bench_close(&b);
}
END_TEST

/* Two threads step a device, one with an earlier reading of the clock: this must have no effect. */
START_TEST(a_late_clock)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct fields f;
	struct diw_wc wc;
	struct gram g;

	attr.rate_limit = 1000;
	attr.rate_burst = 100;
	bench_open(&b, &attr);
	net_run(b.net, DIW_S);
	/* 100 octets may be sent, so one segment is; the next waits until its excess is paid for. */
	for (int i = 0; i < 3; i++) {
		struct diw_sge sge = { b.recv[7], RECV, b.recv_mr->stag };
		struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND, .dst.addr = b.peer };

		ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	}
	ck_assert_int_eq(b.nsent, 1);
	for (int i = 0; i < 100; i++) {
		diw_dev_step(b.host->dev, b.net->now - DIW_US);
		diw_dev_step(b.host->dev, b.net->now);
	}
	ck_assert_int_eq(b.nsent, 1);
	/* Error messages do not come faster either. */
	bench_look(&b);
	f = record_fields(b.mr->stag ^ 1, 1, TO, "0123456789abcdef", 16);
	for (int i = 0; i < 200; i++) {
		f.msn++;
		gram_build(&g, &f);
		net_inject(b.net, &b.peer, &b.addr, g.b, g.len, b.net->now);
		net_deliver(b.net);
		diw_dev_step(b.host->dev, b.net->now - (i & 1) * DIW_US);
	}
	diw_dev_step(b.host->dev, b.net->now);
	ck_assert_uint_le(bench_count(&b, "error_tx"), 100);
	ck_assert_int_eq(diw_cq_poll(b.scq, &wc, 1, 0), 0);
	bench_close(&b);
}
END_TEST

/* A segment larger than the allowance of a second is paid for like any other: the next one leaves when that is done,
 * not later. */
START_TEST(a_debt_of_seconds)
{
	struct diw_sge sge;
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_SEND };
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	uint64_t begun;

	attr.rate_limit = 100;
	attr.rate_burst = 1;
	bench_open(&b, &attr);
	wr.dst.addr = b.peer;
	sge = (struct diw_sge){ b.recv[7], RECV, b.recv_mr->stag };
	net_run(b.net, DIW_S);
	begun = b.net->now;
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	while (b.nsent < 3 && b.net->now - begun < 60 * DIW_S)
		net_step(b.net, begun + 60 * DIW_S);
	/* Two segments of 540 octets at 100 a second. */
	ck_assert_int_eq(b.nsent, 3);
	ck_assert_uint_ge(b.net->now - begun, 10 * DIW_S);
	ck_assert_uint_le(b.net->now - begun, 12 * DIW_S);
	bench_close(&b);
}
END_TEST

/* A reset draws an epoch that differs from the one before, and does not follow from it. */
START_TEST(reset_epochs)
{
	uint16_t before, step, last = 0;
	int same = 0, ones = 0;

	bench_open(&b, NULL);
	for (int i = 0; i < 20000; i++) {
		before = b.info.epoch;
		ck_assert_int_eq(diw_qp_reset(b.qp), 0);
		ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
		step = (uint16_t)(b.info.epoch - before);
		ck_assert_uint_ne(step, 0);
		same += step == last;
		ones += step == 1;
		last = step;
	}
	ck_assert_int_lt(same, 10);
	ck_assert_int_lt(ones, 10);
	bench_close(&b);
}
END_TEST

/* A queue pair with endless requests of its own still answers Reads of its peers. */
START_TEST(answers_among_requests)
{
	static uint8_t big[64 << 20];
	struct fields f;
	struct diw_mr *mr;
	struct diw_sge sge;
	struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD };
	struct gram g;

	bench_open(&b, NULL);
	ck_assert_int_eq(diw_mr_reg(b.pd, big, sizeof big, 0, &mr), 0);
	sge = (struct diw_sge){ big, sizeof big, mr->stag };
	wr.dst.addr = net_addr4(0x0a000064, 9);
	ck_assert_int_eq(diw_post_send(b.qp, &wr, NULL), 0);
	f = read_fields(5, 0x1234, 0x5000, 64, b.mr->stag, TO);
	gram_build(&g, &f);
	net_inject(b.net, &b.peer, &b.addr, g.b, g.len, b.net->now);
	net_deliver(b.net);
	for (int i = 0; i < 4; i++)
		diw_dev_step(b.host->dev, b.net->now);
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	ck_assert_uint_eq(b.info.sq_pending, 1);         /* the long message continues */
	ck_assert_uint_eq(bench_count(&b, "read_answered"), 1);
	net_settle(b.net);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	bench_close(&b);
}
END_TEST

Suite *suite_tables(void)
{
	Suite *s = suite_create("tables");
	TCase *tc = tcase_create("tables");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, msns_do_not_choose_their_bucket, 0, 2);
	tcase_add_test(tc, refused_chunk_opens_nothing);
	tcase_add_test(tc, longest_timeouts);
	tcase_add_test(tc, a_late_clock);
	tcase_add_test(tc, a_debt_of_seconds);
	tcase_add_test(tc, reset_epochs);
	tcase_add_test(tc, answers_among_requests);
	suite_add_tcase(s, tc);
	return s;
}
