/* SPDX-License-Identifier: BSD-2-Clause */
/* Thousands of peers, real or forged: their memory is bounded, and they do not exclude others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/wire/wire.h"

#define SOURCES 10000u

static struct bench b;

static size_t qp_memory(void)
{
	ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
	return b.info.memory;
}

/* Resident octets of this process. */
static size_t rss(void)
{
	unsigned long size, resident;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%lu %lu", &size, &resident), 2);
	fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static struct diw_addr source(uint32_t i)
{
	return net_addr4(0x0b000000u + i / 50, (uint16_t)(1024 + i % 50));
}

/* The first octets of a message of 64, which is never completed. */
static void begin_record(uint32_t i, uint32_t msn)
{
	struct diw_addr from = source(i);
	struct fields f = record_fields(b.mr->stag, msn, TO, "0123456789abcdef", 16);
	struct gram g;

	f.c0 = BIT_T | 1;
	f.length = 64;
	gram_build(&g, &f);
	net_inject(b.net, &from, &b.addr, g.b, g.len, b.net->now);
}

static void begin_send(uint32_t i, uint32_t msn)
{
	struct diw_addr from = source(i);
	struct fields f = send_fields(msn, "0123456789abcdef", 16);
	struct gram g;

	f.c0 = 1;
	f.length = 64;
	gram_build(&g, &f);
	net_inject(b.net, &from, &b.addr, g.b, g.len, b.net->now);
}

static void image_of_records(void)
{
	memcpy(b.image + GUARD, "0123456789abcdef", 16);
}

static void image_of_sends(void)
{
	for (int i = 0; i < NRECV; i++)
		memcpy(b.image + (b.recv[i] - b.arena), b.recv[i], 64);
}

static void post_many(uint32_t n)
{
	while (n--)
		bench_post(&b, (int)(n % NRECV));
}

/* The goal: 10,000 sources, each with one open record and one partial send, in less than 40 MiB. */
START_TEST(ten_thousand_sources)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	size_t before, memory, grown;

	attr.rq_depth = 32768;
	attr.dgram.record_timeout_ns = attr.dgram.reasm_timeout_ns = (int64_t)DIW_S;
	bench_open(&b, &attr);
	post_many(2 * SOURCES + 100);
	net_settle(b.net);
	before = rss();
	bench_look(&b);
	for (uint32_t i = 0; i < SOURCES; i++) {
		begin_record(i, i);
		begin_send(i, i);
		net_settle(b.net);
	}
	memory = qp_memory();
	grown = rss() - before;
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_uint_eq(b.info.sources, SOURCES);
	ck_assert_uint_eq(b.info.records_open, SOURCES);
	ck_assert_uint_eq(b.info.reasm_open, SOURCES);
	printf("10,000 sources with a record and a partial send each: %zu octets by diw_qp_query, %zu resident\n",
	       memory, grown);
	ck_assert_uint_lt(memory, 40u << 20);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	ck_assert_uint_lt(grown, 40u << 20);
#endif
	ck_assert_uint_ge(memory, SOURCES * 100u);       /* the memory is counted */
	/* All of them end. Each source still remembers which of its messages have ended. */
	net_run(b.net, DIW_S + 10 * DIW_MS);
	memory = qp_memory();
	grown = rss() - before;
	ck_assert_uint_eq(b.info.records_open + b.info.reasm_open, 0);
	ck_assert_uint_eq(bench_count(&b, "record_closed_timeout"), SOURCES);
	printf("after they ended: %zu octets by diw_qp_query, %zu resident\n", memory, grown);
	ck_assert_uint_lt(memory, 40u << 20);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	ck_assert_uint_lt(grown, 40u << 20);
#endif
	image_of_records();
	image_of_sends();
	bench_close(&b);
}
END_TEST

START_TEST(quiet_sources)
{
	struct diw_wc wc;
	uint32_t completions = 0;

	bench_open(&b, NULL);
	for (uint32_t i = 0; i < SOURCES; i++) {
		begin_record(i, i);
		net_settle(b.net);
		while (diw_cq_poll(b.rcq, &wc, 1, 0) == 1)
			diw_wc_release(&wc);
	}
	/* All records have closed by timeout; a second later the sources are quiet. */
	for (int ms = 0; ms < 3000; ms += 10) {
		net_run(b.net, 10 * DIW_MS);
		while (diw_cq_poll(b.rcq, &wc, 1, 0) == 1) {
			diw_wc_release(&wc);
			completions++;
		}
	}
	ck_assert_uint_eq(completions, SOURCES);
	qp_memory();
	ck_assert_uint_eq(b.info.sources, SOURCES);
	ck_assert_uint_eq(b.info.records_open + b.info.records_held, 0);
	printf("quiet: %zu octets a source\n", b.info.memory / SOURCES);
	ck_assert_uint_gt(b.info.memory, 0);
	ck_assert_uint_lt(b.info.memory / SOURCES, 256);
	/* When they have expired, no memory is used. */
	net_run(b.net, 30 * DIW_S);
	ck_assert_uint_eq(qp_memory(), 0);
	ck_assert_uint_eq(b.info.sources, 0);
	ck_assert_uint_eq(bench_count(&b, "source_expired"), SOURCES);
	image_of_records();
	bench_close(&b);
}
END_TEST

/* 10,000 forged sources with ten records each, and an application that does not poll: the bounds hold, and segments of
 * sources beyond them are refused before a byte is placed. */
START_TEST(record_flood)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	size_t most = 0;
	uint64_t refused;

	attr.dgram.max_sources = 256;
	attr.dgram.max_records = 512;
	bench_open(&b, &attr);
	for (uint32_t n = 0; n < 10 * SOURCES; n++) {
		begin_record(n % SOURCES, n / SOURCES);
		if (n % 100 == 99) {
			net_run(b.net, 10 * DIW_US);
			most = qp_memory() > most ? b.info.memory : most;
			ck_assert_uint_le(b.info.sources, 256);
			ck_assert_uint_le(b.info.records_open, 512);
		}
	}
	printf("record flood: at most %zu octets\n", most);
	ck_assert_uint_lt(most, 256 * 2048 + 1024 * 512);
	refused = bench_count(&b, "source_full") + bench_count(&b, "record_full");
	ck_assert_uint_gt(bench_count(&b, "source_full"), 0);
	ck_assert_uint_gt(bench_count(&b, "record_full"), 0);
	ck_assert_uint_eq(refused + bench_count(&b, "record_opened") + bench_count(&b, "record_duplicate") +
			  bench_count(&b, "record_late"), 10 * SOURCES);
	image_of_records();
	bench_close(&b);
}
END_TEST

/* One source, a million MSNs. */
START_TEST(msn_flood)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct diw_wc wc[64];
	size_t most = 0;
	int n;

	attr.dgram.max_records = 64;
	bench_open(&b, &attr);
	for (uint32_t i = 0; i < 1000000; i++) {
		begin_record(0, i * 2654435761u);
		if (i % 64 == 63) {
			net_run(b.net, DIW_US);
			most = qp_memory() > most ? b.info.memory : most;
			ck_assert_uint_le(b.info.records_open, 64);
			ck_assert_uint_le(b.info.sources, 1);
			while ((n = diw_cq_poll(b.rcq, wc, 64, 0)) > 0)
				while (n--)
					diw_wc_release(&wc[n]);
		}
	}
	printf("MSN flood: at most %zu octets\n", most);
	ck_assert_uint_lt(most, 256 << 10);
	image_of_records();
	bench_close(&b);
}
END_TEST

/* A flood of partial Sends leaves half of the receives to other sources. */
START_TEST(partial_send_flood)
{
	struct fields f = send_fields(7, "whole", 5);
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	struct gram g;
	struct diw_wc wc;

	attr.dgram.reasm_timeout_ns = (int64_t)DIW_S;
	bench_open(&b, &attr);
	post_many(96);
	for (uint32_t i = 0; i < SOURCES; i++) {
		for (uint32_t m = 0; m < 8; m++)
			begin_send(i, m);
		net_run(b.net, 10 * DIW_US);
		qp_memory();
		ck_assert_uint_le(b.info.reasm_open, 50);
		ck_assert_uint_ge(b.info.rq_posted, 50);
	}
	ck_assert_uint_gt(bench_count(&b, "reasm_limit"), 0);
	gram_build(&g, &f);
	bench_inject(&b, &g);
	wc = bench_wc(&b, b.rcq);
	ck_assert_uint_eq(wc.byte_len, 5);
	ck_assert_int_eq(memcmp(b.recv[wc.wr_id], "whole", 5), 0);
	bench_no_wc(&b);
	image_of_sends();
	bench_close(&b);
}
END_TEST

/* Forged sources that do not know the Q_Key or an STag change nothing but counters. */
START_TEST(strangers_cost_nothing)
{
	struct fields f = record_fields(0, 1, TO, "0123456789abcdef", 16);
	struct gram g;

	bench_open(&b, NULL);
	for (uint32_t i = 0; i < SOURCES; i++) {
		struct diw_addr from = source(i);

		f.stag = i << 8 | (b.mr->stag & 0xff);
		if (f.stag == b.mr->stag)
			f.stag ^= 1;
		gram_build(&g, &f);
		net_inject(b.net, &from, &b.addr, g.b, g.len, b.net->now);
	}
	net_settle(b.net);
	ck_assert_uint_eq(bench_count(&b, "rx_stag"), SOURCES);
	ck_assert_uint_eq(qp_memory(), 0);
	ck_assert_uint_eq(b.info.sources, 0);
	bench_close(&b);
}
END_TEST

Suite *suite_flood(void)
{
	Suite *s = suite_create("flood");
	TCase *tc = tcase_create("flood");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, ten_thousand_sources);
	tcase_add_test(tc, quiet_sources);
	tcase_add_test(tc, record_flood);
	tcase_add_test(tc, msn_flood);
	tcase_add_test(tc, partial_send_flood);
	tcase_add_test(tc, strangers_cost_nothing);
	suite_add_tcase(s, tc);
	return s;
}
