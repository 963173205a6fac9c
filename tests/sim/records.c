/* SPDX-License-Identifier: BSD-2-Clause */
/* Write-Record to the microsecond: when a record closes, the content of its map, segments that come too late
 * (docs/ud-profile.md section 7). */
#include <errno.h>
#include <stdlib.h>

#include "tests/sim/sim.h"

#define WINDOW DIW_MS
#define TIMEOUT (100 * DIW_MS)

static struct ep *a, *b;
static struct diw_range ranges[DIW_MAX_RANGES];
static struct diw_wc wc;

static bool drop_last(const uint8_t *d, uint32_t len)
{
	(void)len;
	return is_record(d) && is_last(d);
}

static bool drop_third(const uint8_t *d, uint32_t len)
{
	(void)len;
	return is_record(d) && seen_mo(d) == 2000;
}

/* The record's last segment is lost, so the first segment of the next message starts the window. */
START_TEST(window_after_later_message)
{
	uint64_t second;

	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, 30 * DIW_MS);
	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	records_check(b);
	sim.net->drop = NULL;
	post_record(a, b, 500);
	second = sim.net->now + sim.net->latency;
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_uint_eq(wc.msg_len, 500);
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_uint_eq(sim.net->now, second);
	ck_assert(pair_wc(b, &wc, ranges, 10 * DIW_MS));
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	ck_assert_uint_eq(wc.byte_len, 9000);
	ck_assert_uint_eq(wc.nranges, 1);
	ck_assert_uint_eq(ranges[0].off, 0);
	ck_assert_uint_eq(ranges[0].len, 9000);
	ck_assert_uint_ge(sim.net->now, second + WINDOW);
	ck_assert_uint_le(sim.net->now, second + WINDOW + DIW_MS);
	sim_end();
}
END_TEST

/* A segment in the middle is lost: the segment with L starts the window, and later ones do not move it. */
START_TEST(window_after_last)
{
	uint64_t arrival;

	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_third;
	post_record(a, b, 10000);
	arrival = sim.net->now + sim.net->latency;
	net_run(sim.net, WINDOW / 2);
	post_record(a, b, 300);
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_uint_eq(wc.msg_len, 300);
	ck_assert(pair_wc(b, &wc, ranges, 10 * DIW_MS));
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	ck_assert_uint_eq(wc.nranges, 2);
	ck_assert_uint_eq(ranges[0].len, 2000);
	ck_assert_uint_eq(ranges[1].off, 3000);
	ck_assert_uint_eq(ranges[1].len, 7000);
	ck_assert_uint_ge(sim.net->now, arrival + WINDOW);
	ck_assert_uint_le(sim.net->now, arrival + WINDOW + DIW_MS);
	sim_end();
}
END_TEST

/* Segments that come late, but within the window, complete the record. */
START_TEST(late_but_in_the_window)
{
	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_third;
	post_record(a, b, 10000);
	net_run(sim.net, WINDOW / 2);
	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	ck_assert_uint_eq(seen_mo(seen[2].data), 2000);
	replay(&seen[2]);
	ck_assert(pair_wc(b, &wc, ranges, 0));
	ck_assert_int_eq(wc.close, DIW_RECORD_COMPLETE);
	ck_assert_uint_eq(wc.byte_len, 10000);
	sim_end();
}
END_TEST

static bool drop_records(const uint8_t *d, uint32_t len)
{
	(void)len;
	return is_record(d);
}

/* The network exchanges two messages: when the first segment of the first one comes, the message is known to have been
 * sent. */
START_TEST(window_of_a_reordered_message)
{
	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_records;
	post_record(a, b, 10000);
	sim.net->drop = NULL;
	post_record(a, b, 500);
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	replay(&seen[4]);
	ck_assert(pair_wc(b, &wc, ranges, WINDOW + DIW_MS));
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	ck_assert_uint_eq(ranges[0].off, 4000);
	ck_assert_uint_eq(wc.byte_len, 1000);
	sim_end();
}
END_TEST

START_TEST(timeout)
{
	uint64_t last;

	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	last = sim.net->now + sim.net->latency;
	ck_assert(pair_wc(b, &wc, ranges, DIW_S));
	ck_assert_int_eq(wc.close, DIW_RECORD_TIMEOUT);
	ck_assert_uint_eq(wc.byte_len, 9000);
	ck_assert_uint_ge(sim.net->now, last + TIMEOUT);
	ck_assert_uint_le(sim.net->now, last + TIMEOUT + DIW_MS);
	sim_end();
}
END_TEST

START_TEST(window_zero)
{
	struct diw_qp_attr attr;

	pair_attr(&attr);
	attr.dgram.reorder_window_ns = 0;
	pair_begin(&a, &b, &attr);
	sim.net->drop = drop_third;
	post_record(a, b, 10000);
	ck_assert(pair_wc(b, &wc, ranges, sim.net->latency));
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	ck_assert_uint_eq(wc.byte_len, 9000);
	sim_end();
}
END_TEST

/* The original design: without the last segment the message is not reported. */
START_TEST(close_last)
{
	struct diw_qp_attr attr;

	pair_attr(&attr);
	attr.dgram.record_close_last = true;
	pair_begin(&a, &b, &attr);
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, DIW_MS);
	sim.net->drop = drop_third;
	post_record(a, b, 5000);
	ck_assert(pair_wc(b, &wc, ranges, DIW_S));
	ck_assert_uint_eq(wc.msg_len, 5000);
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	ck_assert_uint_eq(wc.byte_len, 4000);
	ck_assert(!pair_wc(b, &wc, ranges, DIW_S));
	ck_assert_uint_eq(counter(b, "record_abandoned"), 1);
	sim_end();
}
END_TEST

START_TEST(open_map)
{
	struct diw_record_info info;

	pair_begin(&a, &b, NULL);
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, DIW_MS);
	ck_assert_int_eq(diw_qp_records(b->qp, &info, 1), 1);
	ck_assert_uint_eq(info.msg_len, 10000);
	ck_assert_uint_eq(info.byte_len, 9000);
	ck_assert_int_eq(diw_qp_record_ranges(b->qp, &info, ranges, 1), 1);
	ck_assert_uint_eq(ranges[0].len, 9000);
	records_check(b);
	net_run(sim.net, DIW_S);
	ck_assert_int_eq(diw_qp_record_ranges(b->qp, &info, ranges, 1), -ENOENT);
	ck_assert_int_eq(diw_qp_records(b->qp, &info, 1), 0);
	sim_end();
}
END_TEST

/* The table holds four records: three of a, one of b. The next one of b displaces a's oldest. */
START_TEST(evict_the_heaviest)
{
	struct diw_qp_attr attr;
	struct ep *c;

	pair_attr(&attr);
	attr.dgram.max_records = 4;
	attr.dgram.reorder_window_ns = (int64_t)(50 * DIW_MS);
	pair_begin(&a, &b, &attr);
	c = ep_open(a->host, &attr, 64, 4, 1000);
	sim.net->drop = drop_last;
	post_record(c, b, 4000);
	for (uint32_t i = 0; i < 3; i++)
		post_record(a, b, 5000 + i);
	net_run(sim.net, DIW_MS);
	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	post_record(c, b, 4001);
	ck_assert(pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_int_eq(wc.close, DIW_RECORD_EVICTED);
	ck_assert_uint_eq(wc.msg_len, 5000);
	ck_assert(!pair_wc(b, &wc, ranges, DIW_MS));
	ck_assert_uint_eq(counter(b, "record_evicted"), 1);
	sim_end();
}
END_TEST

/* Segments of a closed record are not placed, be it one second later or ten. */
START_TEST(late_segments)
{
	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_third;
	post_record(a, b, 10000);
	ck_assert(pair_wc(b, &wc, ranges, DIW_S));
	ck_assert_int_eq(nseen, 10);
	for (int s = 0; s < 9; s++) {
		for (int i = 0; i < 10; i++)
			replay(&seen[i]);
		ck_assert_uint_eq(counter(b, "record_late"), (uint64_t)(10 * (s + 1)));
		memory_check(b);
		net_run(sim.net, DIW_S);
	}
	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	sim_end();
}
END_TEST

/* 300 messages have closed. Late segments of each are dropped, those of the first 44 because of the floor. A message
 * that was never seen may still come if it is above the floor. */
START_TEST(closed_window_and_floor)
{
	pair_begin(&a, &b, NULL);
	watch();
	for (int i = 0; i < 301; i++) {
		sim.net->drop = i == 280 ? drop_last : NULL;             /* lost for the moment */
		post_record(a, b, 64);
		net_run(sim.net, 100 * DIW_US);
		if (i != 280)
			ck_assert(pair_wc(b, &wc, ranges, 0));
	}
	ck_assert_int_eq(nseen, 301);
	for (int i = 0; i < 301; i++)
		if (i != 280)
			replay(&seen[i]);
	ck_assert_uint_eq(counter(b, "record_late"), 300);
	memory_check(b);
	replay(&seen[280]);
	ck_assert_uint_eq(counter(b, "record_late"), 300);
	ck_assert(pair_wc(b, &wc, ranges, 0));
	sim_end();
}
END_TEST

START_TEST(epoch)
{
	int first;

	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, 10 * DIW_MS);
	first = nseen;
	sim.net->drop = NULL;
	ep_restart(a);
	post_record(a, b, 500);
	/* The restarted sender's segments are placed at once. A round trip later it has proved its epoch, and the old
	 * one ends. */
	ck_assert(pair_wc(b, &wc, ranges, 30 * DIW_US));
	ck_assert_uint_eq(wc.msg_len, 500);
	ck_assert(pair_wc(b, &wc, ranges, 60 * DIW_US));
	ck_assert_int_eq(wc.close, DIW_RECORD_EPOCH);
	ck_assert_uint_eq(wc.byte_len, 9000);
	for (int i = 0; i < first; i++)
		replay(&seen[i]);
	ck_assert_uint_eq(counter(b, "source_epoch_old"), (uint64_t)first);
	memory_check(b);
	ck_assert_int_eq(diw_cq_poll(b->rcq, &wc, 1, 0), 0);
	sim_end();
}
END_TEST

/* Closed records wait while the completion queue is full. While the table is full of them, no record opens, and nothing
 * is placed. */
START_TEST(never_overrun)
{
	struct diw_qp_attr attr;
	uint64_t late = 0;
	uint32_t got = 0;
	struct ep *c;

	pair_attr(&attr);
	attr.dgram.max_records = 8;
	pair_begin(&a, &b, NULL);
	c = ep_open(b->host, &attr, 4, 4, 1000);
	for (int i = 0; i < 100; i++) {
		post_record(a, c, 700);
		net_run(sim.net, 10 * DIW_MS);
	}
	ck_assert_uint_gt(counter(c, "record_full"), 0);
	memory_check(c);                                 /* no octet of the refused ones was placed */
	while (pair_wc(c, &wc, ranges, 10 * DIW_MS))
		got++;
	ck_assert_uint_ge(got, 4 + 8);
	ck_assert_uint_eq(got + counter(c, "record_full") + late, 100);
	post_record(a, c, 701);
	ck_assert(pair_wc(c, &wc, ranges, DIW_MS));
	sim_end();
}
END_TEST

START_TEST(deregistered)
{
	pair_begin(&a, &b, NULL);
	watch();
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, DIW_MS);
	ep_dereg(b);
	ck_assert(pair_wc(b, &wc, ranges, 0));
	ck_assert_int_eq(wc.close, DIW_RECORD_DEREG);
	ck_assert_uint_eq(wc.byte_len, 9000);
	for (int i = 0; i < 10; i++)
		replay(&seen[i]);
	ck_assert_uint_eq(counter(b, "rx_stag"), 10);
	memory_check(b);
	sim_end();
}
END_TEST

/* ---- Many ranges ---- */

static bool drop_odd(const uint8_t *d, uint32_t len)
{
	(void)len;
	return is_record(d) && (seen_mo(d) / 96) % 2 == 1;
}

/* Every other of 9000 segments comes: the map holds 4,096 ranges, and segments beyond that are not placed. */
START_TEST(too_many_ranges)
{
	struct diw_qp_attr attr;
	uint32_t bytes = 0;

	pair_attr(&attr);
	attr.mulpdu = 128;
	if (_i)
		attr.dgram.record_mode = DIW_RECORD_CHUNK;
	pair_begin(&a, &b, &attr);
	sim.net->drop = drop_odd;
	sim.net->gro = false;
	post_record(a, b, 9000 * 96);
	do {
		ck_assert(pair_wc(b, &wc, ranges, DIW_S));
		bytes += wc.byte_len;
	} while (!(wc.flags & DIW_WC_END));
	ck_assert_uint_eq(bytes, 4096 * 96);
	ck_assert_uint_eq(counter(b, "record_ranges_full"), 4500 - 4096);
	sim_end();
}
END_TEST

/* ---- Chunk mode ---- */

START_TEST(chunks)
{
	struct diw_qp_attr attr;

	pair_attr(&attr);
	attr.dgram.record_mode = DIW_RECORD_CHUNK;
	pair_begin(&a, &b, &attr);
	sim.net->drop = drop_third;
	post_record(a, b, 10000);
	ck_assert(pair_wc(b, &wc, NULL, DIW_MS));
	ck_assert_uint_eq(wc.mo, 0);
	ck_assert_uint_eq(wc.byte_len, 2000);
	ck_assert(!(wc.flags & DIW_WC_END));
	ck_assert(pair_wc(b, &wc, NULL, 0));
	ck_assert_uint_eq(wc.mo, 3000);
	ck_assert_uint_eq(wc.byte_len, 7000);
	ck_assert(!(wc.flags & DIW_WC_END));
	ck_assert(pair_wc(b, &wc, NULL, 2 * DIW_MS));
	ck_assert(wc.flags & DIW_WC_END);
	ck_assert_uint_eq(wc.byte_len, 0);
	ck_assert_int_eq(wc.close, DIW_RECORD_WINDOW);
	sim_end();
}
END_TEST

/* A segment that the network duplicates is not reported twice. */
START_TEST(chunks_duplicated)
{
	struct diw_qp_attr attr;
	uint32_t bytes = 0;

	pair_attr(&attr);
	attr.dgram.record_mode = DIW_RECORD_CHUNK;
	pair_begin(&a, &b, &attr);
	watch();
	sim.net->drop = drop_last;
	post_record(a, b, 10000);
	net_run(sim.net, DIW_MS);
	for (int i = 0; i < 9; i++)
		replay(&seen[i]);
	do {
		ck_assert(pair_wc(b, &wc, NULL, DIW_S));
		bytes += wc.byte_len;
	} while (!(wc.flags & DIW_WC_END));
	ck_assert_uint_eq(bytes, 9000);
	ck_assert_uint_eq(counter(b, "record_duplicate"), 9);
	sim_end();
}
END_TEST

Suite *suite_records(void)
{
	Suite *s = suite_create("records");
	TCase *tc = tcase_create("closing");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, window_after_later_message);
	tcase_add_test(tc, window_after_last);
	tcase_add_test(tc, late_but_in_the_window);
	tcase_add_test(tc, window_of_a_reordered_message);
	tcase_add_test(tc, timeout);
	tcase_add_test(tc, window_zero);
	tcase_add_test(tc, close_last);
	tcase_add_test(tc, open_map);
	tcase_add_test(tc, evict_the_heaviest);
	tcase_add_test(tc, late_segments);
	tcase_add_test(tc, closed_window_and_floor);
	tcase_add_test(tc, epoch);
	tcase_add_test(tc, never_overrun);
	tcase_add_test(tc, deregistered);
	tcase_add_loop_test(tc, too_many_ranges, 0, 2);
	tcase_add_test(tc, chunks);
	tcase_add_test(tc, chunks_duplicated);
	suite_add_tcase(s, tc);
	return s;
}
