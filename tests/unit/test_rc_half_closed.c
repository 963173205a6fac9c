/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that ends its half and still reads: the answers to its requests, and messages that had begun, arrive
 * completely before the stream ends (docs/rc-wire.md section 10). The answers arrive, too, if the peer was at fault
 * behind its requests (section 9). */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"
#include "verbs/qp.h"

#define BIG (KIT_SIZE / 2)           /* eight of them fill any socket buffer */
#define MANY 8
#define WAIT_MS 200                  /* until the peer reads */

static struct wire w;

static void half_close(void)
{
	ck_assert_int_eq(shutdown(w.r.fd, SHUT_WR), 0);
}

/* Requests 1 to N for LEN octets of the memory. */
static void ask_reads(uint32_t n, uint32_t len)
{
	static struct seg s;

	for (uint32_t i = 1; i <= n; i++) {
		seg_hex(&s, "4141 00000000 00000001 %08x 00000000 %08x %016x %08x %08x %016lx", i, 0xabc + i, 0x1000,
			len, w.p.all->stag, w.p.all->to);
		raw_seg(&w.r, &s);
	}
}

/* The whole response to request I. */
static void expect_response(uint32_t i, uint32_t len)
{
	static struct seg s;
	uint32_t got = 0;

	do {
		ck_assert_msg(raw_read(&w.r, &s), "the stream ended in response %u, at %u", i, got);
		ck_assert_uint_eq(s.b[0] & 0xbf, 0x81);
		ck_assert_uint_eq(s.b[1], 0x42);
		ck_assert_uint_eq(raw_get(s.b + 2, 4), 0xabc + i);
		ck_assert_uint_eq(raw_get(s.b + 6, 8), 0x1000 + got);
		ck_assert_int_eq(memcmp(s.b + 14, w.p.k.mem + got, s.n - 14), 0);
		got += s.n - 14;
	} while (!(s.b[0] & 0x40));
	ck_assert_uint_eq(got, len);
}

/* Reads a whole Write; false: the stream ended before it. */
static bool whole_write(uint32_t len)
{
	static struct seg s;
	uint32_t got = 0;

	do {
		if (!raw_read(&w.r, &s)) {
			ck_assert_uint_eq(got, 0);
			return false;
		}
		ck_assert_uint_eq(s.b[1], 0x40);
		got += s.n - 14;
	} while (!(s.b[0] & 0x40));
	ck_assert_uint_eq(got, len);
	return true;
}

static void fill_memory(void)
{
	for (uint32_t i = 0; i < KIT_SIZE; i++)
		w.p.k.mem[i] = (uint8_t)(i * 2654435761u >> 23);
	wire_share_memory(&w);
}

static void post_writes(int n)
{
	for (int i = 0; i < n; i++) {
		struct diw_send_wr wr = { .wr_id = (uint64_t)i, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED };

		wire_post(&w, &wr, 0, BIG);
	}
}

/* Of N Writes, those that arrived completely succeeded, and the others were flushed. */
static void expect_writes(int n, int whole)
{
	for (int i = 0; i < n; i++)
		wire_expect_wc(w.e.scq, (uint64_t)i, i < whole ? DIW_WC_SUCCESS : DIW_WC_FLUSHED);
}

/* ---- Reads of the peer ---- */

START_TEST(reads_are_answered)
{
	static const uint32_t len[] = { 0, 1, 1000, 100000 };

	wire_open(&w, &(struct wire_attr){ .responder = _i & 1, .receives = 1 });
	fill_memory();
	ask_reads(16, len[_i / 2]);
	half_close();
	for (uint32_t i = 1; i <= 16; i++)
		expect_response(i, len[_i / 2]);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0, 0);
	wire_expect_wc(w.e.rcq, 0, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

START_TEST(atomic_is_answered)
{
	wire_open(&w, NULL);
	memcpy(w.region, &(uint64_t){ 40 }, 8);
	wire_share_memory(&w);
	raw_hex(&w.r, "414a 00000000 00000001 00000001 00000000 00000000 00000007 %08x %016lx 0000000000000002 "
		"0000000000000000 0000000000000000 0000000000000000", w.mr->stag, w.mr->to);
	half_close();
	raw_expect(&w.r, "414b 00000000 00000003 00000001 00000000 00000007 0000000000000028");
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0, 0);
	wire_close(&w);
}
END_TEST

/* The stream is full when the end comes, and the peer reads only later. */
START_TEST(large_reads_are_answered)
{
	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	fill_memory();
	ask_reads(MANY, BIG);
	half_close();
	sleep_ms(WAIT_MS);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_response(i, BIG);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0, 0);
	wire_close(&w);
}
END_TEST

/* ---- Reads of a peer that is at fault behind them ---- */

/* The Terminate for write_without_access(). */
static void expect_refused(void)
{
	static struct seg s;

	seg_hex(&s, "c140 %08x %016lx 61", w.mr->stag ^ 1, w.mr->to);
	wire_expect_terminate(&w, 0x1100, &s, true, false);
	raw_expect_end(&w.r);
}

static void write_without_access(void)
{
	raw_hex(&w.r, "c140 %08x %016lx 61", w.mr->stag ^ 1, w.mr->to);
}

/* The stream is full when the fault is found, and the peer reads only later, or has ended its half. */
START_TEST(reads_before_a_fault)
{
	const uint32_t len = _i & 1 ? BIG : 1000;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	fill_memory();
	ask_reads(MANY, len);
	write_without_access();
	if (_i & 2)
		half_close();
	wire_expect_down(&w, 0x1100, EPROTO);
	sleep_ms(WAIT_MS);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_response(i, len);
	expect_refused();
	wire_close(&w);
}
END_TEST

/* The peer reads nothing: this end waits a second. */
START_TEST(reads_of_a_deaf_peer)
{
	struct diw_qp_info info;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	ask_reads(MANY, BIG);
	write_without_access();
	wire_expect_down(&w, 0x1100, EPROTO);
	ck_assert_int_eq(diw_qp_query(w.e.qp, &info), 0);
	ck_assert(info.leaving);
	for (int ms = 0; ms < 10000 && info.leaving; ms += 10) {
		sleep_ms(10);
		ck_assert_int_eq(diw_qp_query(w.e.qp, &info), 0);
	}
	ck_assert(!info.leaving);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 0);
	raw_drain(&w.r);
	wire_close(&w);
}
END_TEST

/* A source becomes invalid while its answer waits: the Terminate is for that Read. */
START_TEST(source_goes_after_a_fault)
{
	static struct seg s;
	struct diw_mr *mr;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	fill_memory();
	ck_assert_int_eq(diw_mr_reg(w.p.k.pd, w.p.k.mem, BIG, DIW_ACCESS_REMOTE_READ, &mr), 0);
	ask_reads(MANY, BIG);
	seg_hex(&s, "4141 00000000 00000001 %08x 00000000 00000abc 0000000000001000 %08x %08x %016lx", MANY + 1, BIG,
		mr->stag, mr->to);
	raw_seg(&w.r, &s);
	raw_hex(&w.r, "4141 00000000 00000001 %08x 00000000 00000abc 0000000000001000 00000001 %08x %016lx", MANY + 2,
		w.mr->stag ^ 1, w.mr->to);
	wire_expect_down(&w, 0x0100, EPROTO);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_response(i, BIG);
	wire_expect_terminate(&w, 0x0100, &s, true, true);
	raw_expect_end(&w.r);
	ck_assert_uint_eq(end_counter(&w.e, "rx_stag"), 2);
	wire_close(&w);
}
END_TEST

/* This end has begun a Write. The Responses and the Terminate cut it, if the peer takes placement words; the word of
 * the Terminate says what was placed. Otherwise there are no Responses. */
START_TEST(fault_within_a_write)
{
	const bool words = _i;
	static struct seg s;
	uint32_t answered = 0;

	wire_open(&w, &(struct wire_attr){ .no_crc = true, .confirm = words, .words = words });
	fill_memory();
	post_writes(MANY);
	sleep_ms(WAIT_MS);
	raw_hex(&w.r, words ? "c150 %08x %016lx 80000000 61" : "c140 %08x %016lx 61", w.mr->stag, w.mr->to);
	ask_reads(4, 1000);
	write_without_access();
	wire_expect_down(&w, 0x1100, EPROTO);
	while (raw_read(&w.r, &s) && (s.b[1] & 15) != 7)
		answered += (s.b[1] & 15) == 2;
	ck_assert_uint_eq(answered, words ? 4 : 0);
	ck_assert_uint_eq(s.b[1], words ? 0x57 : 0x47);
	ck_assert(!words || raw_get(s.b + 18, 4) == 1);
	ck_assert_uint_eq(raw_get(s.b + (words ? 22 : 18), 4), 0x1100c000);
	raw_expect_end(&w.r);
	wire_close(&w);
}
END_TEST

/* ---- Requests of this end ---- */

START_TEST(begun_message_is_sent)
{
	int whole = 0;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	post_writes(MANY);
	sleep_ms(WAIT_MS);
	half_close();
	sleep_ms(WAIT_MS);
	while (whole_write(BIG))
		whole++;
	ck_assert_int_ge(whole, 1);
	ck_assert_int_lt(whole, MANY);
	wire_expect_down(&w, 0, 0);
	expect_writes(MANY, whole);
	wire_close(&w);
}
END_TEST

/* Requests of both ends: a Write that had begun, and Reads of the peer. */
START_TEST(both)
{
	static struct seg s;
	uint32_t answered = 0, last = 0;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	post_writes(MANY);
	ask_reads(4, BIG);
	half_close();
	sleep_ms(WAIT_MS);
	while (raw_read(&w.r, &s)) {
		last = s.b[0] & 0x40;
		answered += last && (s.b[1] & 15) == 2;
	}
	ck_assert_uint_eq(answered, 4);
	ck_assert_uint_ne(last, 0);
	wire_expect_down(&w, 0, 0);
	wire_close(&w);
}
END_TEST

/* After diw_disconnect() posted requests are executed, although the peer has ended its half meanwhile. */
START_TEST(disconnect_executes)
{
	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	post_writes(MANY);
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	half_close();
	sleep_ms(WAIT_MS);
	for (int i = 0; i < MANY; i++)
		ck_assert(whole_write(BIG));
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0, 0);
	expect_writes(MANY, MANY);
	wire_close(&w);
}
END_TEST

/* A Read would not be answered: it and the requests behind it are flushed, without a wait. */
START_TEST(unanswerable_read)
{
	struct diw_send_wr write = { .wr_id = 1, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED };
	struct diw_send_wr rd = { .wr_id = 2, .opcode = DIW_WR_READ, .flags = DIW_SEND_SIGNALED };
	struct diw_send_wr behind = { .wr_id = 3, .opcode = DIW_WR_WRITE, .flags = DIW_SEND_SIGNALED };
	int reads = 0, writes = 0;
	static struct seg s;

	wire_open(&w, &(struct wire_attr){ .no_crc = true, .ird = 1 });
	post_writes(MANY);
	wire_post(&w, &write, 0, 8);
	for (int i = 0; i < 20; i++)            /* more than may be outstanding */
		wire_post(&w, &rd, 0, 8);
	behind.flags |= _i ? DIW_SEND_FENCE : 0;
	wire_post(&w, &behind, 0, 8);
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	half_close();
	sleep_ms(WAIT_MS);
	while (raw_read(&w.r, &s)) {
		reads += (s.b[1] & 15) == 1;
		writes += (s.b[1] & 15) == 0 && (s.b[0] & 0x40);
	}
	ck_assert_int_eq(writes, MANY + 1);
	ck_assert_int_eq(reads, 0);
	wire_expect_down(&w, 0, 0);
	expect_writes(MANY, MANY);
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	for (int i = 0; i < 20; i++)
		wire_expect_wc(w.e.scq, 2, DIW_WC_FLUSHED);
	wire_expect_wc(w.e.scq, 3, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* diw_disconnect() while the answers leave changes nothing. */
START_TEST(disconnect_behind_the_end)
{
	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	ask_reads(MANY, BIG);
	half_close();
	for (int ms = 0; ms < KIT_LIMIT_MS && rc_state(&w.e) != DIW_QPS_CLOSING; ms++)
		sleep_ms(1);
	ck_assert_int_eq(rc_state(&w.e), DIW_QPS_CLOSING);
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	for (uint32_t i = 1; i <= MANY; i++)
		expect_response(i, BIG);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0, 0);
	ck_assert_int_eq(diw_disconnect(w.e.qp), -ENOTCONN);
	wire_close(&w);
}
END_TEST

/* ---- Faults ---- */

START_TEST(peer_resets)
{
	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	ask_reads(MANY, BIG);
	half_close();
	sleep_ms(WAIT_MS);
	raw_reset(w.r.fd);
	w.r.fd = -1;
	wire_expect_down(&w, DIW_FAULT_MPA_CLOSED, ECONNRESET);
	ck_assert_uint_eq(end_counter(&w.e, "mpa_closed"), 1);
	wire_close(&w);
}
END_TEST

/* The Terminate is sent behind the octets in flight, although the peer has ended its half. */
START_TEST(fault_before_the_end)
{
	static struct seg s, bad;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	ask_reads(MANY, BIG);
	seg_hex(&bad, "4143 00000000 00000001 00000001 00000000 61");
	sleep_ms(WAIT_MS);
	raw_seg(&w.r, &bad);
	half_close();
	sleep_ms(WAIT_MS);
	do
		ck_assert(raw_read(&w.r, &s));
	while ((s.b[1] & 15) != 7);
	ck_assert_uint_eq(raw_get(s.b + 18, 2), 0x1201);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0x1201, EPROTO);
	wire_close(&w);
}
END_TEST

/* ---- The last message ---- */

/* A program that ends with the peer's last message does not find a flushed receive in the same poll. */
START_TEST(flush_is_behind_the_last_message)
{
	struct diw_wc wc[2];

	wire_open(&w, &(struct wire_attr){ .receives = 2 });
	raw_hex(&w.r, "4143 00000000 00000000 00000001 00000000 61");
	if (_i) {
		sleep_ms(WAIT_MS);
		raw_reset(w.r.fd);
		w.r.fd = -1;
		wire_expect_down(&w, DIW_FAULT_MPA_CLOSED, ECONNRESET);
	} else {
		half_close();
		wire_expect_down(&w, 0, 0);
	}
	sleep_ms(WAIT_MS);
	ck_assert_int_eq(diw_cq_poll(w.e.rcq, wc, 2, 0), 1);
	ck_assert_int_eq(wc[0].status, DIW_WC_SUCCESS);
	wire_expect_wc(w.e.rcq, 1, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* With rc.tell_end the end is told although a message in front of it waits for a receive. It is still taken. */
START_TEST(end_is_told_in_front_of_a_message)
{
	struct diw_wc wc;

	wire_open(&w, &(struct wire_attr){ .rnr_ns = 60 * (int64_t)DIW_S });
	ck_assert_int_eq(diw_engine_lock(&w.e.qp->dev->engine), 0);
	w.e.qp->rc.tell_end = _i;
	diw_engine_unlock(&w.e.qp->dev->engine);
	raw_hex(&w.r, "4143 00000000 00000000 00000001 00000000 61");
	sleep_ms(WAIT_MS);
	half_close();
	if (_i) {
		ck_assert_int_eq(cm_event(&w.p, DIW_CM_DISCONNECTED).errnum, 0);
		ck_assert_int_eq(rc_state(&w.e), DIW_QPS_RTS);
	} else {
		sleep_ms(10 * WAIT_MS);
		ck_assert_int_eq(diw_cm_get(w.p.cm, &(struct diw_cm_event){ 0 }, 0), -EAGAIN);
	}
	wire_receive(&w, 5);
	ck_assert_int_eq(diw_cq_wait(w.e.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.wr_id, 5);
	if (!_i)
		wire_expect_down(&w, 0, 0);
	raw_expect_end(&w.r);
	wire_close(&w);
}
END_TEST

/* _i: requests complete when the peer has placed them. Then what is not complete need not arrive, and a peer that does
 * not read is told of the end by a reset. Otherwise TCP keeps what it has taken. */
START_TEST(close_in_front_of_a_peer_that_does_not_read)
{
	wire_open(&w, NULL);
	fill_memory();
	for (int i = 0; i < MANY; i++) {
		struct diw_send_wr wr = { .opcode = DIW_WR_WRITE };

		wire_post(&w, &wr, 0, 50000);
	}
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	sleep_ms(WAIT_MS);
	ck_assert_int_eq(diw_qp_confirm(w.e.qp, _i), 0);
	ck_assert_int_eq(diw_qp_reset(w.e.qp), 0);
	sleep_ms(WAIT_MS);
	ck_assert_int_eq(poll(&(struct pollfd){ .fd = w.r.fd }, 1, 0), _i);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_half_closed(void)
{
	Suite *s = suite_create("rc_half_closed");
	TCase *t = tcase_create("rc_half_closed");

	tcase_add_loop_test(t, reads_are_answered, 0, 8);
	tcase_add_test(t, atomic_is_answered);
	tcase_add_test(t, large_reads_are_answered);
	tcase_add_loop_test(t, reads_before_a_fault, 0, 4);
	tcase_add_test(t, reads_of_a_deaf_peer);
	tcase_add_test(t, source_goes_after_a_fault);
	tcase_add_loop_test(t, fault_within_a_write, 0, 2);
	tcase_add_test(t, begun_message_is_sent);
	tcase_add_test(t, both);
	tcase_add_test(t, disconnect_executes);
	tcase_add_loop_test(t, unanswerable_read, 0, 2);
	tcase_add_test(t, disconnect_behind_the_end);
	tcase_add_test(t, peer_resets);
	tcase_add_test(t, fault_before_the_end);
	tcase_add_loop_test(t, flush_is_behind_the_last_message, 0, 2);
	tcase_add_loop_test(t, close_in_front_of_a_peer_that_does_not_read, 0, 2);
	tcase_add_loop_test(t, end_is_told_in_front_of_a_message, 0, 2);
	tcase_set_timeout(t, 30);
	suite_add_tcase(s, t);
	return s;
}
