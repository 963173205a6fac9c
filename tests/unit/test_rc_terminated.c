/* SPDX-License-Identifier: BSD-2-Clause */
/* Terminates of peers, also in the form of the kernel's siw: the request that fails and its status, the event, the
 * counters. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

#define TERMINATE "4147 00000000 00000002 00000001 00000000 "

static struct wire w;

/* Requests of this end are numbered from 1: two Reads, an atomic. */
static const struct row {
	uint32_t control;            /* 4 octets */
	int about;                   /* the request whose header is quoted; 0: none */
	uint32_t octets;             /* quoted octets */
	uint32_t msn;                /* the MSN in that header, if it differs */
	uint16_t fault;
	uint64_t fails;              /* the request that fails, 0: none */
	int status;
} rows[] = {
	/* As RFC 5040 section 4.8 says. */
	{ 0x0100e000, 1, 46, 0, 0x0100, 1, DIW_WC_REM_ACCESS_ERR },
	{ 0x0101e000, 2, 46, 0, 0x0101, 2, DIW_WC_REM_ACCESS_ERR },
	{ 0x0102e000, 1, 46, 0, 0x0102, 1, DIW_WC_REM_ACCESS_ERR },
	{ 0x0104e000, 2, 46, 0, 0x0104, 2, DIW_WC_REM_ACCESS_ERR },
	{ 0x0100c000, 2, 18, 0, 0x0100, 2, DIW_WC_REM_ACCESS_ERR },
	{ 0x0101c000, 3, 18, 0, 0x0101, 3, DIW_WC_REM_ACCESS_ERR },
	{ 0x0207c000, 3, 18, 0, 0x0207, 3, DIW_WC_REM_OP_ERR },
	{ 0x0209c000, 3, 18, 0, 0x0209, 3, DIW_WC_REM_OP_ERR },
	{ 0x0206c000, 3, 18, 0, 0x0206, 3, DIW_WC_REM_OP_ERR },
	/* No request is named. */
	{ 0x00000000, 0, 0, 0, 0x0000, 0, 0 },
	{ 0x00ff0000, 0, 0, 0, 0x00ff, 0, 0 },
	{ 0x02060000, 0, 0, 0, 0x0206, 0, 0 },
	{ 0x02070000, 0, 0, 0, 0x0207, 0, 0 },
	{ 0x02080000, 0, 0, 0, 0x0208, 0, 0 },
	{ 0x02ff0000, 0, 0, 0, 0x02ff, 0, 0 },
	{ 0x10000000, 0, 0, 0, 0x1000, 0, 0 },
	{ 0x1203c000, 1, 0, 0, 0x1203, 0, 0 },
	{ 0x1203c000, 1, 17, 0, 0x1203, 0, 0 },
	{ 0x0100c000, 1, 18, 0xfffffff0, 0x0100, 0, 0 },
	{ 0x0100c000, 1, 18, 4, 0x0100, 0, 0 },
	{ 0x01000000, 1, 46, 0, 0x0100, 0, 0 },          /* the control bits say that nothing is quoted */
	{ 0x20010000, 0, 0, 0, 0x2001, 0, 0 },
	{ 0x20020000, 0, 0, 0, 0x2002, 0, 0 },
	{ 0x20030000, 0, 0, 0, 0x2003, 0, 0 },
	{ 0xf1230000, 0, 0, 0, 0xf123, 0, 0 },
	/* As siw sends it: the halves of the first octet exchanged, the bits of the third in reverse order. */
	{ 0x10000700, 1, 46, 0, 0x0100, 1, DIW_WC_REM_ACCESS_ERR },
	{ 0x10010700, 2, 46, 0, 0x0101, 2, DIW_WC_REM_ACCESS_ERR },
	{ 0x10020700, 1, 46, 8, 0x0102, 1, DIW_WC_REM_ACCESS_ERR },      /* with the length in place of the MSN */
	{ 0x10020700, 2, 46, 16, 0x0102, 2, DIW_WC_REM_ACCESS_ERR },
	{ 0x20070300, 1, 18, 0, 0x0207, 1, DIW_WC_REM_OP_ERR },
	{ 0x11000300, 0, 0, 0, 0x1100, 0, 0 },
	{ 0x11010300, 0, 0, 0, 0x1101, 0, 0 },
	{ 0x11040000, 0, 0, 0, 0x1104, 0, 0 },
	{ 0x21020300, 1, 18, 0, 0x1202, 1, DIW_WC_REM_OP_ERR },
	{ 0x21060000, 0, 0, 0, 0x1206, 0, 0 },
	{ 0x01000300, 0, 0, 0, 0x1000, 0, 0 },
	{ 0x20050000, 0, 0, 0, 0x0205, 0, 0 },
	{ 0x20060000, 0, 0, 0, 0x0206, 0, 0 },
	{ 0x02020000, 0, 0, 0, 0x2002, 0, 0 },
	/* The halves as siw sends them, the bits as in the RFC. */
	{ 0x1000e000, 1, 46, 0, 0x0100, 1, DIW_WC_REM_ACCESS_ERR },
	{ 0x2007c000, 1, 18, 0, 0x0207, 1, DIW_WC_REM_OP_ERR },
};

static void ask(struct seg q[3])
{
	struct diw_send_wr rd = { .wr_id = 1, .opcode = DIW_WR_READ }, more = { .wr_id = 2, .opcode = DIW_WR_READ };
	struct diw_send_wr add = { .wr_id = 3, .opcode = DIW_WR_FETCH_ADD };

	wire_post(&w, &rd, 1000, 8);
	wire_post(&w, &more, 2000, 16);
	wire_post(&w, &add, 3000, 8);
	for (int i = 0; i < 3; i++)
		ck_assert(raw_read(&w.r, &q[i]));
}

static void say(const struct row *row, const struct seg q[3])
{
	static struct seg s, header;
	const uint8_t len[2] = { 0, 46 };

	seg_hex(&s, TERMINATE "%08x", row->control);
	if (row->about) {
		header = q[row->about - 1];
		if (row->msn)
			raw_put(header.b + 10, 4, row->msn);
		seg_add(&s, len, 2);
		seg_add(&s, header.b, row->octets);
	}
	raw_seg(&w.r, &s);
}

START_TEST(received)
{
	static struct seg q[3];
	const struct row *row = &rows[_i];
	struct diw_qp_error e;

	wire_open(&w, &(struct wire_attr){ .receives = 1 });
	ask(q);
	say(row, q);
	raw_expect_end(&w.r);
	wire_expect_down(&w, row->fault, EPROTO);
	for (uint64_t id = 1; id <= 3; id++) {
		struct diw_wc wc = rc_wc(w.e.scq);

		ck_assert_uint_eq(wc.wr_id, id);
		ck_assert_int_eq(wc.status, id == row->fails ? row->status : DIW_WC_FLUSHED);
		ck_assert_uint_eq(wc.fault, id == row->fails ? row->fault : 0);
	}
	wire_expect_wc(w.e.rcq, 0, DIW_WC_FLUSHED);
	ck_assert_int_eq(diw_qp_error_get(w.e.qp, &e), 0);
	ck_assert(e.remote);
	ck_assert_uint_eq(e.fault, row->fault);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_rx"), 1);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 0);
	wire_close(&w);
}
END_TEST

/* The first message of an initiator may be MPA's error of the negotiation (RFC 6581 section 8). */
START_TEST(first_word)
{
	static const struct { const char *before; uint32_t control; uint16_t fault; } words[] = {
		{ NULL, 0x20060000, 0x2006 }, { NULL, 0x20070000, 0x2007 }, { NULL, 0x20050000, 0x2005 },
		{ NULL, 0x02060000, 0x2006 }, { NULL, 0x02070000, 0x2007 }, { NULL, 0x02080000, 0x0208 },
		{ "", 0x20060000, 0x0206 }, { "", 0x02060000, 0x0206 },
		{ "c140 00000000 0000000000000000", 0x20070000, 0x0207 },
	};

	wire_open(&w, NULL);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		wire_leave(&w);
		wire_join(&w, &(struct wire_attr){ .responder = true });
		if (words[i].before)
			raw_hex(&w.r, "%s", words[i].before);
		raw_hex(&w.r, TERMINATE "%08x", words[i].control);
		raw_expect_end(&w.r);
		wire_expect_down(&w, words[i].fault, EPROTO);
	}
	wire_close(&w);
}
END_TEST

/* Messages of the peer after its Terminate are neither processed nor answered. */
START_TEST(last_word)
{
	static uint8_t out[400];
	struct seg s;
	uint32_t n = 0;

	wire_open(&w, &(struct wire_attr){ .receives = 1 });
	for (uint32_t i = 1; i <= 2; i++) {
		seg_hex(&s, "4147 00000000 00000002 %08x 00000000 02070000", i);
		n += raw_fpdu(&w.r, out + n, &s);
	}
	seg_hex(&s, "4143 00000000 00000000 00000001 00000000 61");
	n += raw_fpdu(&w.r, out + n, &s);
	memset(out + n, 0xff, 40);
	raw_octets(&w.r, out, n + 40);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0x0207, EPROTO);
	wire_expect_wc(w.e.rcq, 0, DIW_WC_FLUSHED);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_rx"), 1);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 0);
	ck_assert_uint_eq(end_counter(&w.e, "rx_crc"), 0);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_terminated(void)
{
	Suite *s = suite_create("rc_terminated");
	TCase *t = tcase_create("rc_terminated");

	tcase_add_loop_test(t, received, 0, sizeof rows / sizeof *rows);
	tcase_add_test(t, first_word);
	tcase_add_test(t, last_word);
	tcase_set_timeout(t, 30);
	suite_add_tcase(s, t);
	return s;
}
