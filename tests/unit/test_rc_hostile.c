/* SPDX-License-Identifier: BSD-2-Clause */
/* Peers that break off, send slowly, send garbage or mutations of valid streams: each ends only its own connection. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/rng.h"
#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

static struct wire w;

static struct diw_cm_event over(void)
{
	struct diw_cm_event ev = cm_event(&w.p, DIW_CM_DISCONNECTED);

	ck_assert_ptr_eq(ev.qp, w.e.qp);
	ck_assert_int_eq(rc_state(&w.e), DIW_QPS_ERROR);
	return ev;
}

/* A message of two segments, as octets of the stream; *middle is the beginning of the second. */
static uint32_t two_segments(uint8_t *out, uint32_t *middle)
{
	static struct seg s;

	seg_hex(&s, "0143 00000000 00000000 00000001 00000000 6162636465");
	*middle = raw_fpdu(&w.r, out, &s);
	seg_hex(&s, "4143 00000000 00000000 00000001 00000005 666768");
	return *middle + raw_fpdu(&w.r, out + *middle, &s);
}

/* ---- The stream ends ---- */

/* The stream ends behind each octet of a message. */
START_TEST(fin)
{
	uint8_t out[200];
	uint32_t middle, len;

	wire_open(&w, NULL);
	len = two_segments(out, &middle);
	for (uint32_t cut = 0; cut <= len; cut++) {
		bool whole = cut == 0 || cut == len;
		struct diw_cm_event ev;

		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .receives = 1 });
		if (cut)
			raw_octets(&w.r, out, cut);
		ck_assert_int_eq(shutdown(w.r.fd, SHUT_WR), 0);
		ev = over();
		ck_assert_msg(ev.errnum == (whole ? 0 : ECONNRESET), "cut at %u: %s", cut, strerror(ev.errnum));
		ck_assert_uint_eq(ev.fault, whole ? 0 : DIW_FAULT_MPA_CLOSED);
		ck_assert_uint_eq(end_counter(&w.e, "mpa_closed"), whole ? 0 : 1);
		wire_expect_wc(w.e.rcq, 0, cut == len ? DIW_WC_SUCCESS : DIW_WC_FLUSHED);
	}
	wire_close(&w);
}
END_TEST

START_TEST(reset)
{
	uint8_t out[200];
	uint32_t middle, len;

	wire_open(&w, NULL);
	len = two_segments(out, &middle);
	for (uint32_t cut = 0; cut < len; cut += 5) {
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .receives = 1 });
		if (cut)
			raw_octets(&w.r, out, cut);
		sleep_ms(1);
		raw_reset(dup(w.r.fd));
		close(w.r.fd);
		w.r.fd = -1;
		ck_assert_int_eq(over().errnum, ECONNRESET);
		ck_assert_uint_eq(end_counter(&w.e, "mpa_closed"), 1);
		wire_expect_wc(w.e.rcq, 0, DIW_WC_FLUSHED);
	}
	wire_close(&w);
}
END_TEST

/* ---- Octets that are no FPDU ---- */

START_TEST(garbage)
{
	struct diw_rng rng = { 5 };
	static uint8_t p[200000];

	wire_open(&w, NULL);
	for (int round = 0; round < 20; round++) {
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .receives = 1, .markers = round & 1, .responder = round & 2 });
		for (size_t i = 0; i < sizeof p; i++)
			p[i] = (uint8_t)diw_rng_next(&rng);
		raw_octets(&w.r, p, sizeof p);
		ck_assert_uint_eq(over().fault, DIW_FAULT_MPA_CRC);
		ck_assert_uint_eq(end_counter(&w.e, "rx_crc"), 1);
		ck_assert_uint_eq(end_counter(&w.e, "rx_segments"), 0);
		raw_drain(&w.r);
	}
	wire_close(&w);
}
END_TEST

/* Without CRC, any octets may be a segment. */
START_TEST(garbage_unchecked)
{
	struct diw_rng rng = { 6 };
	static uint8_t p[100000];

	wire_open(&w, NULL);
	for (int round = 0; round < 200; round++) {
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .receives = 1, .no_crc = true });
		for (size_t i = 0; i < sizeof p; i++)
			p[i] = (uint8_t)diw_rng_next(&rng);
		p[2] = round & 1 ? 0x41 : p[2];
		p[3] = round & 1 ? 0x40 | (p[3] & 15) : p[3];
		raw_octets(&w.r, p, sizeof p);
		shutdown(w.r.fd, SHUT_WR);
		ck_assert_uint_ne(over().errnum, 0);
		raw_drain(&w.r);
		wire_check_guards(&w);
	}
	wire_close(&w);
}
END_TEST

/* ---- One octet at a time ---- */

START_TEST(trickle)
{
	static uint8_t out[2000];
	static struct seg s;
	uint32_t n = 0, i;
	int one = 1;

	wire_open(&w, &(struct wire_attr){ .receives = 3, .markers = _i });
	ck_assert_int_eq(setsockopt(w.r.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), 0);
	n = two_segments(out, &i);
	seg_hex(&s, "c140 %08x %016lx 3132333435363738", w.mr->stag, w.mr->to + 8);
	n += raw_fpdu(&w.r, out + n, &s);
	seg_hex(&s, "4141 00000000 00000001 00000001 00000000 00000abc 0000000000001000 00000004 %08x %016lx",
		w.mr->stag, w.mr->to + 8);
	n += raw_fpdu(&w.r, out + n, &s);
	seg_hex(&s, "414a 00000000 00000001 00000002 00000000 00000000 00000007 %08x %016lx 0000000000000001 "
		"0000000000000000 0000000000000000 0000000000000000", w.mr->stag, w.mr->to + 8);
	n += raw_fpdu(&w.r, out + n, &s);
	seg_hex(&s, "4149 00000000 00000000 00000002 00000000 0000000000000009");
	n += raw_fpdu(&w.r, out + n, &s);
	seg_hex(&s, "4146 %08x 00000000 00000003 00000000", w.may_end->stag);
	n += raw_fpdu(&w.r, out + n, &s);
	for (i = 0; i < n; i++) {
		raw_octets(&w.r, out + i, 1);
		usleep(100);
	}
	ck_assert_uint_eq(rc_wc(w.e.rcq).byte_len, 8);
	ck_assert_uint_eq(rc_wc(w.e.rcq).imm, 9);
	ck_assert_int_eq(rc_wc(w.e.rcq).flags, DIW_WC_END | DIW_WC_SOLICITED | DIW_WC_INVALIDATED);
	ck_assert_mem_eq(w.recv, "abcdefgh", 8);
	raw_expect(&w.r, "c142 00000abc 0000000000001000 31323334");
	raw_expect(&w.r, "414b 00000000 00000003 00000001 00000000 00000007 3837363534333231");
	ck_assert_mem_eq(w.region + 8, "22345678", 8);
	ck_assert_uint_eq(end_counter(&w.e, "rx_fpdus"), 7);
	wire_close(&w);
}
END_TEST

/* ---- A fault while the peer does not read ---- */

/* Our direction is full, possibly within an FPDU, so the Terminate has to wait; it is not lost. */
START_TEST(terminate_waits)
{
	static struct seg got;
	int small = 65536;
	uint64_t wakeups;

	wire_open(&w, NULL);
	for (int round = 0; round < 4; round++) {
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .no_crc = true, .mulpdu = round & 1 ? 4096 : 0 });
		ck_assert_int_eq(setsockopt(w.r.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
		for (int i = 0; i < 8; i++) {
			struct diw_send_wr wr = { .opcode = DIW_WR_WRITE };

			wire_post(&w, &wr, 0, KIT_SIZE / 2);
		}
		KIT_UNTIL(end_counter(&w.e, "tx_blocked") > 0);
		raw_hex(&w.r, "c140 00000000 0000000000000000 61");
		ck_assert_uint_eq(over().fault, DIW_FAULT_STAG);
		while (raw_read(&w.r, &got) && (got.b[1] & 15) != 7)
			ck_assert_uint_eq(got.b[1] & 15, 0);
		ck_assert_msg((got.b[1] & 15) == 7, "round %d: no Terminate", round);
		ck_assert_uint_eq(raw_get(got.b + 18, 4), 0x1100c000);
		raw_expect_end(&w.r);
		wakeups = end_counter(&w.e, "wakeups");
		sleep_ms(100);                  /* nothing more is to be sent, and the peer is slow */
		ck_assert_uint_lt(end_counter(&w.e, "wakeups") - wakeups, 50);
		ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 1);
	}
	wire_close(&w);
}
END_TEST

/* Our half of the stream has ended: nothing can be sent behind it, and nothing is retried for ever. */
START_TEST(fault_while_closing)
{
	uint64_t wakeups;

	wire_open(&w, NULL);
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	raw_expect_end(&w.r);
	wakeups = end_counter(&w.e, "wakeups");
	raw_hex(&w.r, "c140 00000000 0000000000000000 61");
	ck_assert_uint_eq(over().fault, DIW_FAULT_STAG);
	sleep_ms(100);
	ck_assert_uint_lt(end_counter(&w.e, "wakeups") - wakeups, 50);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 0);
	wire_close(&w);
}
END_TEST

/* A request posted (0), or of the peer (1), after the end of our half waits for the end of the peer's half, without
 * retries. */
START_TEST(too_late)
{
	struct diw_send_wr wr = { .wr_id = 7, .opcode = DIW_WR_SEND };
	uint64_t wakeups;

	wire_open(&w, NULL);
	ck_assert_int_eq(diw_disconnect(w.e.qp), 0);
	raw_expect_end(&w.r);
	if (_i == 0)
		wire_post(&w, &wr, 0, 10);
	else
		raw_hex(&w.r, "4141 00000000 00000001 00000001 00000000 %08x %016llx 0000000a %08x %016llx", STAG, TO,
			w.mr->stag, (unsigned long long)w.mr->to);
	wakeups = end_counter(&w.e, "wakeups");
	sleep_ms(100);
	ck_assert_uint_lt(end_counter(&w.e, "wakeups") - wakeups, 50);
	ck_assert_int_eq(shutdown(w.r.fd, SHUT_WR), 0);
	ck_assert_int_eq(over().errnum, 0);
	if (_i == 0)
		wire_expect_wc(w.e.scq, 7, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

static bool quiet_end(void)
{
	struct diw_qp_info info;
	uint64_t wakeups;
	bool waited;

	raw_hex(&w.r, "c140 00000000 0000000000000000 61");
	ck_assert_uint_eq(over().fault, DIW_FAULT_STAG);
	sleep_ms(50);
	ck_assert_int_eq(diw_qp_query(w.e.qp, &info), 0);
	waited = info.num != 0;         /* its port */
	wakeups = end_counter(&w.e, "wakeups");
	ck_assert_int_eq(shutdown(w.r.fd, SHUT_WR), 0);
	sleep_ms(200);
	ck_assert_int_eq(diw_qp_query(w.e.qp, &info), 0);
	ck_assert_uint_lt(end_counter(&w.e, "wakeups") - wakeups, 30);
	return waited && info.num == 0;
}

/* The peer's end behind our Terminate closes the connection at once. Until then no thread spins, however many queue
 * pairs there are. */
START_TEST(ends_quietly)
{
	struct end idle[20];
	bool good;

	wire_open(&w, NULL);
	for (int i = 0; _i && i < 20; i++)
		end_open(&idle[i], &w.p.k, NULL, 16);
	good = quiet_end();
	for (int i = 1; i < 10 && !good; i++) { /* without a processor for a second, it gives the peer up before */
		wire_leave(&w);
		wire_join(&w, NULL);
		good = quiet_end();
	}
	ck_assert(good);
	for (int i = 0; _i && i < 20; i++)
		end_close(&idle[i]);
	wire_close(&w);
}
END_TEST

/* ---- Mutations ---- */

#define SEGS 12

static struct diw_rng rng;
static struct seg dialogue[SEGS];
static int nsegs;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(diw_rng_next(&rng) % n);
}

static uint64_t interesting(void)
{
	static const uint64_t v[] = { 0, 1, 2, 3, 14, 17, 18, 28, 52, 64, 65, 4095, 4096, 4097, 0x7fffffff, 0x80000000,
				      0xffffffff, 0xfffffffffffffff8, UINT64_MAX };

	return below(3) ? v[below(sizeof v / sizeof *v)] : diw_rng_next(&rng);
}

static struct seg *next_seg(void)
{
	return &dialogue[nsegs++];
}

static void add_octets(struct seg *s, uint32_t n)
{
	while (n--)
		s->b[s->n++] = (uint8_t)diw_rng_next(&rng);
}

/* All valid messages, from a peer that knows its STags. */
static void compose(void)
{
	uint32_t msn[2] = { 1, 1 }, n;

	for (nsegs = 0; nsegs < SEGS - 1;) {
		uint64_t to = w.mr->to + below(REGION / 8 - 64) * 8;

		switch (below(6)) {
		case 0:
			n = below(33);
			seg_hex(next_seg(), "0143 00000000 00000000 %08x 00000000", msn[0]);
			add_octets(&dialogue[nsegs - 1], n);
			seg_hex(next_seg(), "4143 00000000 00000000 %08x %08x", msn[0]++, n);
			add_octets(&dialogue[nsegs - 1], below(32));
			break;
		case 1:
			seg_hex(next_seg(), "4145 00000000 00000000 %08x 00000000", msn[0]++);
			add_octets(&dialogue[nsegs - 1], below(RECV + 1));
			break;
		case 2:
			seg_hex(next_seg(), "c140 %08x %016lx", w.mr->stag, to);
			add_octets(&dialogue[nsegs - 1], below(513));
			break;
		case 3:
			seg_hex(next_seg(), "4141 00000000 00000001 %08x 00000000 00000abc 0000000000001000 %08x %08x "
				"%016lx", msn[1]++, below(513), w.mr->stag, to);
			break;
		case 4:
			seg_hex(next_seg(), "414a 00000000 00000001 %08x 00000000 %08x 00000007 %08x %016lx "
				"0000000000000001 8000000000000000 0000000000000000 0000000000000000", msn[1]++,
				below(2) * 2, w.mr->stag, to);
			break;
		default:
			seg_hex(next_seg(), "4148 00000000 00000000 %08x 00000000 0000000000000001", msn[0]++);
		}
	}
}

static void mutate_segment(struct seg *s)
{
	uint32_t at = s->n ? below(s->n < 70 ? s->n : 70) : 0;

	switch (below(8)) {
	case 0:
		s->b[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		s->b[at] = (uint8_t)diw_rng_next(&rng);
		break;
	case 2:
		raw_put(s->b + 2 + below(12) * 4, 4, interesting());
		break;
	case 3:
		raw_put(s->b + 6 + below(10) * 4, 8, interesting());
		break;
	case 4:
		s->n = below(s->n + 1);
		break;
	case 5:
		add_octets(s, below(5000));
		break;
	case 6:
		*s = dialogue[below((uint32_t)nsegs)];
		break;
	default:
		s->b[1] = (uint8_t)(0x40 | below(16));
	}
}

/* The stream; if mutated, a tenth of the time it is damaged below the CRC, or cut. */
static uint32_t frame_all(uint8_t *out, bool mutated)
{
	uint32_t n = 0;

	for (int i = 0; i < nsegs; i++)
		n += raw_fpdu(&w.r, out + n, &dialogue[i]);
	if (!mutated)
		return n;
	if (below(10) == 0)
		out[below(n)] ^= (uint8_t)(1u << below(8));
	return below(10) ? n : below(n + 1);
}

static void send_pieces(const uint8_t *p, uint32_t n)
{
	while (n) {
		uint32_t some = below(3) ? n : 1 + below(n);

		if (send(w.r.fd, p, some, MSG_NOSIGNAL) < 0)
			return;                 /* it has already been ended */
		p += some;
		n -= some;
	}
}

static void check_end(struct diw_cm_event ev, bool mutated)
{
	uint64_t sent = end_counter(&w.e, "terminate_tx");
	const char *counter = ev.fault ? diw_fault_counter(ev.fault) : NULL;

	ck_assert_uint_le(sent, 1);
	ck_assert(!sent || ev.fault);
	ck_assert(mutated || (ev.errnum == 0 && !sent));
	ck_assert(!ev.fault || end_counter(&w.e, "terminate_rx") || (counter && end_counter(&w.e, counter) >= 1));
	wire_check_guards(&w);
}

START_TEST(mutations)
{
	static uint8_t out[SEGS * FPDU_MAX];
	const char *seed = getenv("FUZZ_SEED"), *rounds = getenv("FUZZ_N");
	uint64_t from = seed ? strtoull(seed, NULL, 0) : 1, n = rounds ? strtoull(rounds, NULL, 0) : 2000;
	uint32_t unhurt = 0;

	wire_open(&w, NULL);
	for (uint64_t i = from; i < from + n; i++) {
		struct diw_cm_event ev;
		bool mutated = i % 8;
		uint32_t len;

		rng = (struct diw_rng){ i };
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .receives = 2 * SEGS, .markers = i & 1, .responder = i & 2,
						   .no_crc = (i & 12) == 12 });
		compose();
		for (uint32_t m = mutated ? 1 + below(3) : 0; m > 0; m--)
			mutate_segment(&dialogue[below((uint32_t)nsegs)]);
		len = frame_all(out, mutated);
		send_pieces(out, len);
		shutdown(w.r.fd, SHUT_WR);
		raw_drain(&w.r);
		ev = over();
		unhurt += !ev.errnum;
		check_end(ev, mutated);
		if (i % 100 == 0)
			wire_check_neighbours(&w);
	}
	ck_assert(n < 100 || unhurt > n / 50);          /* neither all nor none were affected */
	ck_assert(n < 100 || unhurt < n / 2);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_hostile(void)
{
	Suite *s = suite_create("rc_hostile");
	TCase *t = tcase_create("rc_hostile");

	tcase_add_test(t, fin);
	tcase_add_test(t, reset);
	tcase_add_test(t, garbage);
	tcase_add_test(t, garbage_unchecked);
	tcase_add_loop_test(t, trickle, 0, 2);
	tcase_add_test(t, terminate_waits);
	tcase_add_test(t, fault_while_closing);
	tcase_add_loop_test(t, too_late, 0, 2);
	tcase_add_loop_test(t, ends_quietly, 0, 2);
	tcase_add_test(t, mutations);
	tcase_set_timeout(t, 120);
	suite_add_tcase(s, t);
	return s;
}
