/* SPDX-License-Identifier: BSD-2-Clause */
/* FPDUs without CRC that are received in place, from a peer made by hand that sends them in parts. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"
#include "verbs/dev.h"

#define LEN 60000u                   /* payload of the FPDU */
#define PART 30000u                  /* octets of the FPDU that the peer sends first */
#define EARLY (PART - 100)           /* payload that is certainly in the first part */

static struct wire w;
static struct seg s;
static uint8_t *big;                 /* LEN octets and a guard */
static struct diw_mr *mr;            /* of the LEN octets */
static uint8_t fpdu[FPDU_MAX];
static uint32_t len;

static void direct_open(void)
{
	big = malloc(LEN + GUARD);
	memset(big, 0xee, LEN + GUARD);
	wire_open(&w, NULL);
	wire_leave(&w);
	wire_join(&w, &(struct wire_attr){ .no_crc = true });
	ck_assert_int_eq(diw_mr_reg(w.p.k.pd, big, LEN, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &mr), 0);
}

static void direct_close(void)
{
	wire_share_memory(&w);
	for (uint32_t i = 0; i < GUARD; i++)
		ck_assert_uint_eq(big[LEN + i], 0xee);
	if (mr)
		ck_assert_int_eq(diw_mr_dereg(mr), 0);
	wire_close(&w);
	free(big);
}

static void add_payload(void)
{
	for (uint32_t i = 0; i < LEN; i++)
		s.b[s.n + i] = (uint8_t)(i * 7 + 1);
	s.n += LEN;
	len = raw_fpdu(&w.r, fpdu, &s);
}

static void make_write(uint64_t to)
{
	seg_hex(&s, "c140 %08x %016llx", mr->stag, (unsigned long long)to);
	add_payload();
}

static void make_send(uint32_t msn)
{
	seg_hex(&s, "4143 00000000 00000000 %08x 00000000", msn);
	add_payload();
}

static void receive(uint64_t wr_id, uint32_t room)
{
	struct diw_sge sge[2] = { { big, 1000, mr->stag }, { big + 1000, room - 1000, mr->stag } };
	struct diw_recv_wr wr = { .wr_id = wr_id, .sge = sge, .num_sge = 2 };

	ck_assert_int_eq(diw_post_recv(w.e.qp, &wr, NULL), 0);
}

static bool is_there(uint32_t n)
{
	wire_share_memory(&w);
	return memcmp(big, s.b + s.n - LEN, n) == 0;
}

/* Sends the first part, whose payload gets to its place before the FPDU is complete. The first octets of a Write are
 * copied in the end. */
static void first_part(void)
{
	pthread_mutex_t *lock = &w.p.k.dev->engine.lock;

	wire_share_memory(&w);
	raw_octets(&w.r, fpdu, PART);
	for (int ms = 0; ms < KIT_LIMIT_MS; ms++) {
		bool placed;

		pthread_mutex_lock(lock);       /* the progress thread may be writing there */
		placed = memcmp(big + 64, s.b + s.n - LEN + 64, EARLY - 64) == 0;
		pthread_mutex_unlock(lock);
		if (placed)
			return;
		sleep_ms(1);
	}
	ck_abort_msg("the first part is not in place");
}

static void rest(void)
{
	raw_octets(&w.r, fpdu + PART, len - PART);
}

START_TEST(in_parts)
{
	direct_open();
	for (uint32_t i = 0; i < 3; i++) {
		memset(big, 0xee, LEN);
		make_write(mr->to);
		first_part();
		rest();
		receive(i, LEN);
		raw_hex(&w.r, "4143 00000000 00000000 %08x 00000000", 2 * i + 1);
		wire_expect_wc(w.e.rcq, i, DIW_WC_SUCCESS);
		ck_assert(is_there(LEN));

		memset(big, 0xee, LEN);
		receive(i, LEN);
		make_send(2 * i + 2);
		first_part();
		rest();
		wire_expect_wc(w.e.rcq, i, DIW_WC_SUCCESS);
		ck_assert(is_there(LEN));
	}
	direct_close();
}
END_TEST

/* The memory is deregistered after the first part. _i: a Write, a Send. */
START_TEST(withdrawn)
{
	direct_open();
	if (_i) {
		receive(5, LEN);
		make_send(1);
	} else {
		make_write(mr->to);
	}
	first_part();
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	mr = NULL;
	rest();
	wire_expect_terminate(&w, _i ? 0x0207 : DIW_FAULT_STAG, &s, true, false);
	wire_expect_down(&w, _i ? DIW_FAULT_LOCAL_PROT : DIW_FAULT_STAG, EPROTO);
	if (_i)
		wire_expect_wc(w.e.rcq, 5, DIW_WC_LOC_PROT_ERR);
	for (uint32_t i = PART; i < LEN; i++)
		ck_assert_uint_eq(big[i], 0xee);
	direct_close();
}
END_TEST

/* No octet is placed of an FPDU that is refused. _i: a Write beyond the region, a Send longer than its receive. */
START_TEST(too_long)
{
	direct_open();
	if (_i) {
		receive(5, LEN - 1);
		make_send(1);
	} else {
		make_write(mr->to + 1);
	}
	raw_octets(&w.r, fpdu, PART);
	rest();
	wire_expect_terminate(&w, _i ? DIW_FAULT_TOO_LONG : DIW_FAULT_BOUNDS, &s, true, false);
	wire_expect_down(&w, _i ? DIW_FAULT_TOO_LONG : DIW_FAULT_BOUNDS, EPROTO);
	for (uint32_t i = 0; i < LEN; i++)
		ck_assert_uint_eq(big[i], 0xee);
	direct_close();
}
END_TEST

/* A Send waits for its receive, which is posted after the first part. */
START_TEST(waits)
{
	direct_open();
	make_send(1);
	raw_octets(&w.r, fpdu, PART);
	sleep_ms(5);
	receive(5, LEN);
	rest();
	wire_expect_wc(w.e.rcq, 5, DIW_WC_SUCCESS);
	ck_assert(is_there(LEN));
	direct_close();
}
END_TEST

/* The stream ends within the FPDU. _i: a Write, a Send, whose receive has a prefix of it. */
START_TEST(cut)
{
	direct_open();
	if (_i) {
		receive(5, LEN);
		make_send(1);
	} else {
		make_write(mr->to);
	}
	first_part();
	shutdown(w.r.fd, SHUT_WR);
	wire_expect_down(&w, DIW_FAULT_MPA_CLOSED, ECONNRESET);
	if (_i) {
		wire_expect_wc(w.e.rcq, 5, DIW_WC_FLUSHED);
		ck_assert(is_there(EARLY));
	}
	direct_close();
}
END_TEST

Suite *suite_rc_direct(void)
{
	Suite *suite = suite_create("rc_direct");
	TCase *t = tcase_create("rc_direct");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, in_parts);
	tcase_add_loop_test(t, withdrawn, 0, 2);
	tcase_add_loop_test(t, too_long, 0, 2);
	tcase_add_test(t, waits);
	tcase_add_loop_test(t, cut, 0, 2);
	suite_add_tcase(suite, t);
	return suite;
}
