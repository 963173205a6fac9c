/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that cannot be executed (docs/rc-wire.md section 9): the requests before them complete as the peer answers
 * them. The peer is made by hand and accepts placement words. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"
#include "verbs/diw_provider.h"

#define BIG (KIT_SIZE / 2)           /* eight of them fill any socket buffer */
#define MANY 8
#define AHEAD 64                     /* requests that are not complete */
#define QUIET_MS 200                 /* within this time the queue pair looks at its requests again */

static struct wire w;

static void post(uint64_t id, enum diw_wr_opcode op, uint32_t stag, uint32_t len, unsigned flags)
{
	struct diw_sge sge = { w.p.k.mem, len, stag };
	struct diw_send_wr wr = { .wr_id = id, .opcode = op, .sge = &sge, .num_sge = 1, .stag = STAG, .to = TO,
				  .flags = flags };

	ck_assert_int_eq(diw_post_send(w.e.qp, &wr, NULL), 0);
}

/* Request 1, a Read or a Write, has come to the peer, which has not answered it. */
static void ask_first(bool read)
{
	static struct seg s;

	wire_open(&w, &(struct wire_attr){ .confirm = true, .words = true, .receives = 1 });
	post(1, read ? DIW_WR_READ : DIW_WR_WRITE, w.p.all->stag, 8, DIW_SEND_SIGNALED);
	ck_assert(raw_read(&w.r, &s));
	ck_assert_uint_eq(s.b[1] & 0xf, read ? 1 : 0);
}

static void answer_first(bool read)
{
	if (read)
		raw_hex(&w.r, "c142 %08x %016lx 6162636465666768", w.p.all->stag, w.p.all->to);
	else
		raw_hex(&w.r, "c150 00000000 0000000000000000 00000001");
}

static void nothing_completes(void)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(w.e.scq, &wc, 1, QUIET_MS * (int64_t)DIW_MS), 0);
}

/* Reads what comes, until nothing more comes. */
static void read_all(void)
{
	static uint8_t octets[65536];
	struct pollfd p = { .fd = w.r.fd, .events = POLLIN };

	while (poll(&p, 1, QUIET_MS) == 1 && recv(w.r.fd, octets, sizeof octets, 0) > 0)
		continue;
}

/* A request that fails before any octet of it has left. Loop index 1: request 1 is a Read. */
START_TEST(before_its_message)
{
	ask_first(_i);
	post(2, DIW_WR_SEND, w.p.all->stag ^ 0xff, 8, 0);
	post(3, DIW_WR_SEND, w.p.all->stag, 8, 0);
	nothing_completes();
	answer_first(_i);
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(w.e.scq, 2, DIW_WC_LOC_PROT_ERR);
	wire_expect_wc(w.e.scq, 3, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* A request that fails after the first octets of it have left. */
START_TEST(within_its_message)
{
	struct diw_mr *mr;
	struct diw_wc wc;

	ask_first(_i);
	ck_assert_int_eq(diw_mr_reg(w.p.k.pd, w.p.k.mem, BIG, 0, &mr), 0);
	for (uint64_t i = 1; i <= MANY; i++)
		post(1 + i, DIW_WR_WRITE, mr->stag, BIG, 0);
	KIT_UNTIL(end_counter(&w.e, "tx_blocked") > 0);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	read_all();
	answer_first(_i);
	wire_expect_wc(w.e.scq, 1, DIW_WC_SUCCESS);
	wc = rc_wc(w.e.scq);
	ck_assert_int_eq(wc.status, DIW_WC_LOC_PROT_ERR);
	for (uint64_t i = wc.wr_id; i <= MANY; i++)
		wire_expect_wc(w.e.scq, i + 1, DIW_WC_FLUSHED);
	nothing_completes();
	wire_close(&w);
}
END_TEST

/* The peer ends the stream without an answer to request 1: the failure has nothing to wait for. */
START_TEST(without_answer)
{
	struct diw_mr *mr;

	ask_first(_i);
	ck_assert_int_eq(diw_mr_reg(w.p.k.pd, w.p.k.mem, BIG, 0, &mr), 0);
	for (uint64_t i = 1; i <= MANY; i++)
		post(1 + i, DIW_WR_WRITE, mr->stag, BIG, 0);
	KIT_UNTIL(end_counter(&w.e, "tx_blocked") > 0);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	read_all();
	ck_assert_int_eq(shutdown(w.r.fd, SHUT_WR), 0);
	wire_expect_wc(w.e.scq, 1, DIW_WC_FLUSHED);
	ck_assert_int_ne(rc_wc(w.e.scq).status, DIW_WC_SUCCESS);
	KIT_UNTIL(rc_state(&w.e) == DIW_QPS_ERROR);
	wire_close(&w);
}
END_TEST

/* The peer reads nothing, and resets the stream. Requests of which the stream has not taken every octet are flushed. */
START_TEST(not_taken)
{
	const uint32_t len = _i ? 20000 : 5000;
	const struct linger none = { .l_onoff = 1 };
	uint64_t posted = 0, done = 0;
	struct diw_wc wc;

	wire_open(&w, &(struct wire_attr){ .no_crc = true });
	do {
		while (posted - done < AHEAD)
			post(++posted, DIW_WR_WRITE, w.p.all->stag, len, DIW_SEND_SIGNALED);
		while (diw_cq_wait(w.e.scq, &wc, 1, QUIET_MS * (int64_t)DIW_MS) == 1) {
			ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
			ck_assert_uint_eq(wc.wr_id, ++done);
		}
	} while (posted - done < AHEAD);
	ck_assert_uint_le(done * len, end_counter(&w.e, "tx_bytes"));
	ck_assert_int_eq(setsockopt(w.r.fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
	close(w.r.fd);
	w.r.fd = -1;
	while (done < posted)
		wire_expect_wc(w.e.scq, ++done, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* Requests that fail wait for the retries, also those that are not signalled and of which octets have left. */
START_TEST(not_taken_in_time)
{
	const int64_t retry = 10 * QUIET_MS * (int64_t)DIW_MS;
	const struct linger none = { .l_onoff = 1 };
	struct diw_wc wc;

	wire_open(&w, &(struct wire_attr){ .no_crc = true, .keep = true });
	ck_assert_int_eq(diw_qp_set_retry(w.e.qp, retry), 0);
	while (end_counter(&w.e, "tx_blocked") == 0)
		post(1, DIW_WR_WRITE, w.p.all->stag, 20000, 0);
	ck_assert_int_eq(setsockopt(w.r.fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
	close(w.r.fd);
	w.r.fd = -1;
	ck_assert_int_eq(diw_cq_wait(w.e.scq, &wc, 1, retry / 2), 0);
	wire_expect_wc(w.e.scq, 1, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_fails(void)
{
	Suite *s = suite_create("rc_fails");
	TCase *t = tcase_create("rc_fails");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, before_its_message, 0, 2);
	tcase_add_loop_test(t, within_its_message, 0, 2);
	tcase_add_loop_test(t, without_answer, 0, 2);
	tcase_add_loop_test(t, not_taken, 0, 2);
	tcase_add_test(t, not_taken_in_time);
	suite_add_tcase(s, t);
	return s;
}
