/* SPDX-License-Identifier: BSD-2-Clause */
/* What a peer that may write here can do to the tables: how long its choice of MSNs makes a lookup, what is opened for
 * a segment that is refused then. */
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

/* Nanoseconds a message for N first segments whose MSNs are STEP apart, a few at a time; no timer ends a message. */
static uint64_t time_of(uint8_t op, uint32_t n, uint32_t step)
{
	struct diw_qp_attr attr;
	uint64_t begun;
	struct gram g;

	diw_qp_attr_init(&attr);
	attr.record_timeout_ns = attr.reorder_window_ns = attr.reasm_timeout_ns = 10 * (int64_t)DIW_S;
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

/* One source's messages cost the same whichever MSNs it gives them, and however many are open. */
START_TEST(msns_do_not_choose_their_bucket)
{
	uint8_t op = _i ? OP_SEND : OP_WRITE_RECORD;
	uint64_t few = time_of(op, FEW, 1), near = time_of(op, MANY, 1), far = time_of(op, MANY, 1u << 16);

	printf("a message, MSNs in a row: %lu ns of %u, %lu ns of %u; 65536 apart: %lu ns\n", few, FEW, near, MANY, far);
	ck_assert_uint_lt(near, 5 * few);
	ck_assert_uint_lt(far, 5 * few);
}
END_TEST

/* Chunk mode, completion queue full: nothing is opened for a segment that cannot be placed, and when there is room again the
 * message arrives as if that segment had been lost. */
START_TEST(refused_chunk_opens_nothing)
{
	struct diw_qp_attr attr;
	struct fields f;
	struct gram g;
	struct diw_wc wc;
	uint32_t n = 0;

	diw_qp_attr_init(&attr);
	attr.record_mode = DIW_RECORD_CHUNK;
	bench_open(&b, &attr);
	for (uint32_t i = 0; i < 1024; i++) {   /* fills it */
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

Suite *suite_tables(void)
{
	Suite *s = suite_create("tables");
	TCase *tc = tcase_create("tables");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, msns_do_not_choose_their_bucket, 0, 2);
	tcase_add_test(tc, refused_chunk_opens_nothing);
	suite_add_tcase(s, tc);
	return s;
}
