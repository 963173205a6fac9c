/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator against hand-written responders: its requests to the byte, and its reaction to replies. */
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/cm_kit.h"
#include "tests/unit/unit.h"

static struct cmkit m;
static struct end e;
static int lfd;
static struct diw_addr laddr;

/* ---- Requests ---- */

static const struct {
	uint8_t revision;
	bool crc, markers;
	unsigned rtr;
	uint16_t ird, ord;
	const char *request;
} requests[] = {
	{ 2, false, false, 0, 1, 1, "1002000400010001" },               /* as siw sends it */
	{ 2, false, false, DIW_RTR_WRITE, 16, 1, "1002000480108001" },
	{ 2, true, false, DIW_RTR_WRITE | DIW_RTR_READ, 16, 16, "500200048010c010" },
	{ 2, false, true, 7, 128, 2, "90020004c080c002" },
	{ 2, false, false, DIW_RTR_WRITE | DIW_RTR_READ, 4, 0, "1002000480048000" },    /* a Read needs ORD */
	{ 1, false, false, 7, 16, 16, "00010000" }, { 1, true, true, 0, 16, 16, "c0010000" },
	{ 0, false, false, 0, 16, 16, "00000000" },
};

static int connect_to_hand(const struct diw_conn_attr *a)
{
	rc_open(&e, &m);
	ck_assert_int_eq(diw_connect(e.qp, m.cm, &laddr, a), 0);
	ck_assert_int_eq(diw_connect(e.qp, m.cm, &laddr, a), -EISCONN);
	return raw_accept(lfd);
}

START_TEST(request_bytes)
{
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	char reply[64];
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	lfd = raw_listen(&laddr, 5);
	plain_attr(&a);
	a.connect.revision = requests[_i].revision;
	a.crc = requests[_i].crc;
	a.markers = requests[_i].markers;
	a.rtr = requests[_i].rtr;
	a.ird = requests[_i].ird;
	a.ord = requests[_i].ord;
	fd = connect_to_hand(&a);
	expect_frame(fd, false, requests[_i].request);
	strcpy(reply, requests[_i].request);
	if (a.connect.revision == 2) {                  /* at most the peer's values; no peer-to-peer */
		reply[8] = reply[9] = reply[12] = '0';
		strcpy(reply + 13, "000");
	}
	send_frame(fd, true, reply);
	cm_expect(m.cm, &ev, DIW_CM_ESTABLISHED);
	ck_assert_ptr_eq(ev.qp, e.qp);
	ck_assert_uint_eq(ev.revision, a.connect.revision);
	ck_assert_int_eq(ev.crc, a.crc);
	ck_assert(!ev.rfc7306);
	end_close(&e);
	close(fd);
	close(lfd);
	cm_close(&m);
}
END_TEST

/* ---- Malformed replies ---- */

static const struct {
	const char *reply;
	enum diw_cm_event_type type;
	uint16_t fault;
	int errnum;
} answers[] = {
	{ "1002000400040004", DIW_CM_ESTABLISHED, 0, 0 },
	{ "1002000480048004", DIW_CM_ESTABLISHED, 0, 0 }, { "100200043fff3fff", DIW_CM_ESTABLISHED, 0, 0 },
	{ "1002000400040005", DIW_CM_FAILED, DIW_FAULT_MPA_IRD, EPROTO },
	{ "1002000480044004", DIW_CM_FAILED, DIW_FAULT_MPA_RTR, EPROTO },       /* a Read was not offered */
	{ "1002000480040004", DIW_CM_FAILED, DIW_FAULT_MPA_RTR, EPROTO },
	{ "00010000", DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO },             /* another revision */
	{ "00020000", DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO },             /* not enhanced */
	{ "1003000400040004", DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO },
	{ "10020000", DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO },
	{ "10020201", DIW_CM_FAILED, DIW_FAULT_MPA_FRAME, EPROTO },
	{ "3002000600000000beef", DIW_CM_REJECTED, 0, ECONNREFUSED },
	{ "70020000", DIW_CM_REJECTED, 0, ECONNREFUSED },                       /* siw's, without its words */
	{ "20010000", DIW_CM_REJECTED, 0, ECONNREFUSED },
	{ "", DIW_CM_FAILED, 0, ECONNRESET },                                   /* only the key, then the end */
};

/* RFC 6581 section 8: what the initiator does not accept, it reports in its first and only FPDU. */
static void expect_terminate(int fd, uint16_t fault)
{
	static const uint8_t hdr[] = { 0, 22, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0 };
	uint8_t fpdu[28];

	ck_assert_int_eq(recv(fd, fpdu, sizeof fpdu, MSG_WAITALL), sizeof fpdu);
	ck_assert_mem_eq(fpdu, hdr, sizeof hdr);
	ck_assert_uint_eq((unsigned)(fpdu[20] << 8 | fpdu[21]), fault);
	ck_assert_uint_eq(fpdu[22], 0);         /* there is no header to quote */
}

START_TEST(reply_judged)
{
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	uint8_t p[64];
	size_t len;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	lfd = raw_listen(&laddr, 5);
	plain_attr(&a);
	a.ird = a.ord = 4;
	a.rtr = DIW_RTR_WRITE;
	fd = connect_to_hand(&a);
	expect_frame(fd, false, "1002000480048004");
	len = frame(p, true, answers[_i].reply);
	for (size_t i = 0; i < len; i++) {
		raw_send(fd, p + i, 1);
		if (i % 4 == 0)
			sleep_ms(1);
	}
	if (len == 16)
		close(fd);
	cm_expect(m.cm, &ev, answers[_i].type);
	ck_assert_ptr_eq(ev.qp, e.qp);
	ck_assert_uint_eq(ev.fault, answers[_i].fault);
	ck_assert_int_eq(ev.errnum, answers[_i].errnum);
	if (ev.type == DIW_CM_ESTABLISHED) {
		ck_assert_uint_eq(ev.ird, 4);
		ck_assert_uint_eq(ev.ord, 4);
	} else {
		ck_assert_uint_eq(ev.data_len, len == 26 ? 2 : 0);
		ck_assert_int_eq(diw_connect(e.qp, m.cm, &laddr, &a), -EISCONN);
		if (answers[_i].fault == DIW_FAULT_MPA_IRD || answers[_i].fault == DIW_FAULT_MPA_RTR)
			expect_terminate(fd, answers[_i].fault);
		if (len != 16)
			expect_closed(fd);
	}
	cm_expect_none(m.cm, 5);
	end_close(&e);
	close(lfd);
	cm_close(&m);
}
END_TEST

/* Ready-to-receive by a Read, which the reply's IRD of 0 forbids: a Write is used if that is allowed, else none. */
START_TEST(read_without_ird)
{
	static const char *const replies[] = { "1002000480004004", "100200048000c004" };
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	lfd = raw_listen(&laddr, 5);
	plain_attr(&a);
	a.ird = a.ord = 4;
	a.rtr = DIW_RTR_WRITE | DIW_RTR_READ;
	fd = connect_to_hand(&a);
	expect_frame(fd, false, "100200048004c004");
	send_frame(fd, true, replies[_i]);
	cm_expect(m.cm, &ev, _i ? DIW_CM_ESTABLISHED : DIW_CM_FAILED);
	ck_assert_uint_eq(ev.fault, _i ? 0 : DIW_FAULT_MPA_RTR);
	if (_i) {
		uint8_t fpdu[20];

		ck_assert_int_eq(recv(fd, fpdu, sizeof fpdu, MSG_WAITALL), sizeof fpdu);
		ck_assert_uint_eq(fpdu[3] & 15, 0);     /* opcode of RDMAP: Write */
	}
	end_close(&e);
	close(fd);
	close(lfd);
	cm_close(&m);
}
END_TEST

/* A request in place of a reply, a reply without a request, nothing at all. */
START_TEST(strange_replies)
{
	static const int errnums[] = { EPROTO, EPROTO, ECONNRESET, ETIMEDOUT };
	struct diw_conn_attr a;
	struct diw_cm_event ev;
	uint64_t begin;
	int fd;

	cm_open(&m, DIW_PROGRESS_THREAD, NULL);
	lfd = raw_listen(&laddr, 5);
	plain_attr(&a);
	if (_i == 3)
		a.timeout_ns = 100 * (int64_t)DIW_MS;
	begin = diw_clock_ns();
	fd = connect_to_hand(&a);
	if (_i == 0)
		send_frame(fd, false, "1002000480048004");
	else if (_i == 1)
		raw_send(fd, "SSH-2.0", 7);
	else if (_i == 2)
		raw_reset(fd);
	cm_expect(m.cm, &ev, DIW_CM_FAILED);
	ck_assert_int_eq(ev.errnum, errnums[_i]);
	ck_assert_uint_eq(ev.fault, _i < 2 ? DIW_FAULT_MPA_FRAME : 0);
	ck_assert_uint_lt(diw_clock_ns() - begin, 8 * DIW_S);   /* less than the default of 10 s */
	end_close(&e);
	close(lfd);
	cm_close(&m);
}
END_TEST

Suite *suite_cm_reply(void)
{
	Suite *s = suite_create("cm_reply");
	TCase *tc = tcase_create("cm_reply");

	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, request_bytes, 0, sizeof requests / sizeof *requests);
	tcase_add_loop_test(tc, reply_judged, 0, sizeof answers / sizeof *answers);
	tcase_add_loop_test(tc, read_without_ird, 0, 2);
	tcase_add_loop_test(tc, strange_replies, 0, 4);
	suite_add_tcase(s, tc);
	return s;
}
