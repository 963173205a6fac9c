/* SPDX-License-Identifier: BSD-2-Clause */
/* The errors that a peer can make: the Terminate that answers each, octet by octet, the counter and the event
 * (docs/rc-wire.md). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"
#include "verbs/qp.h"

#define RECEIVE_QN "00000000 00000000 "              /* reserved, QN 0 */
#define READ_QN "00000000 00000001 "
#define READ_1 "4141 " READ_QN "00000001 00000000 "  /* a Read Request, before its sink */
#define SINK "00000abc 0000000000001000 "
#define ATOMIC_1 "414a " READ_QN "00000001 00000000 "
#define OPERANDS "0000000000000001 0000000000000000 0000000000000000 0000000000000000"
#define RECV_65 "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" \
	"00000000000000000000000000000000"

static struct wire w;

/* The quoted part of the segment. */
enum quote { NOTHING, DDP, DDP_AND_RDMAP };
/* The outstanding request of this end. */
enum ours { NONE, READ, ATOMIC };

/* Letters in a segment stand for values that are known at run time: see expand(). */
static const struct row {
	const char *segment;
	uint16_t told;               /* the fault in the Terminate */
	enum quote quote;
	const char *counter;
	enum ours ours;
	uint16_t fault;              /* the fault in the event, if it differs */
} rows[] = {
#define R(seg, code, quoted, count, ...) \
	{ .segment = seg, .told = code, .quote = quoted, .counter = count, __VA_ARGS__ }
	/* ---- RFC 5041 section 7: tagged ---- */
	R("c140 X T 61", 0x1100, DDP, "rx_stag"),
	R("c140 O T 61", 0x1100, DDP, "rx_stag"),
	R("c140 00000000 T 61", 0x1100, DDP, "rx_stag"),
	R("c140 S Z 6162636465", 0x1101, DDP, "rx_bounds"),
	R("c140 S 0000000000000000 61", 0x1101, DDP, "rx_bounds"),
	R("c140 S W 61626364", 0x1101, DDP, "rx_bounds"),     /* it ends exactly at 2^64 */
	R("c140 S W 6162636465", 0x1103, DDP, "rx_wrap"),
	R("c040 S T 61", 0x1104, DDP, "rx_version"),
	R("c240 S T 61", 0x1104, DDP, "rx_version"),
	R("c340 S T 61", 0x1104, DDP, "rx_version"),
	/* ---- untagged ---- */
	R("4143 00000000 00000001 00000001 00000000 61", 0x1201, DDP, "rx_qn"),
	R("4143 00000000 ffffffff 00000001 00000000 61", 0x1201, DDP, "rx_qn"),
	R("4141 00000000 00000000 00000001 00000000 " SINK "00000004 S T", 0x1201, DDP_AND_RDMAP, "rx_qn"),
	R("4147 00000000 00000003 00000001 00000000 01000000", 0x1201, DDP, "rx_qn"),
	R("4143 " RECEIVE_QN "00000000 00000000 61", 0x1203, DDP, "rx_msn"),
	R("4143 " RECEIVE_QN "00000002 00000000 61", 0x1203, DDP, "rx_msn"),
	R("4143 " RECEIVE_QN "ffffffff 00000000 61", 0x1203, DDP, "rx_msn"),
	R("4141 " READ_QN "00000002 00000000 " SINK "00000004 S T", 0x1203, DDP_AND_RDMAP, "rx_msn"),
	R("414a " READ_QN "00000002 00000000 00000000 00000007 S T " OPERANDS, 0x1203, DDP, "rx_msn"),
	R("4147 00000000 00000002 00000002 00000000 01000000", 0x1203, DDP, "rx_msn"),
	R("4143 " RECEIVE_QN "00000001 00000001 61", 0x1204, DDP, "rx_malformed"),
	R("0143 " RECEIVE_QN "00000001 ffffffff 61", 0x1204, DDP, "rx_malformed"),
	R("4141 " READ_QN "00000001 00000004 " SINK "00000004 S T", 0x1204, DDP_AND_RDMAP, "rx_malformed"),
	R("0148 " RECEIVE_QN "00000001 00000000 0000000000000000", 0x1204, DDP, "rx_malformed"),
	R("4143 " RECEIVE_QN "00000001 00000000 " RECV_65, 0x1205, DDP, "rx_too_long"),
	R("0143 " RECEIVE_QN "00000001 00000000 " RECV_65, 0x1205, DDP, "rx_too_long"),
	R("0141 " READ_QN "00000001 00000000 " SINK "00000004 S T", 0x1205, DDP_AND_RDMAP, "rx_too_long"),
	R("0147 00000000 00000002 00000001 00000000 01000000", 0x1205, DDP, "rx_too_long"),
	R("4043 " RECEIVE_QN "00000001 00000000 61", 0x1206, DDP, "rx_version"),
	R("4343 " RECEIVE_QN "00000001 00000000 61", 0x1206, DDP, "rx_version"),
	/* ---- RFC 5040 section 4.8: protection; RDMAP checks the source of a Read, whose header is quoted ---- */
	R(READ_1 SINK "00000004 X T", 0x0100, DDP_AND_RDMAP, "rx_stag"),
	R(READ_1 SINK "00000004 O T", 0x0100, DDP_AND_RDMAP, "rx_stag"),
	R(READ_1 SINK "00000005 S Z", 0x0101, DDP_AND_RDMAP, "rx_bounds"),
	R(READ_1 SINK "ffffffff S T", 0x0101, DDP_AND_RDMAP, "rx_bounds"),
	R(READ_1 SINK "00000004 N M", 0x0102, DDP_AND_RDMAP, "rx_access"),
	R(READ_1 SINK "00000004 S W", 0x0101, DDP_AND_RDMAP, "rx_bounds"),
	R(READ_1 SINK "00000005 S W", 0x0104, DDP_AND_RDMAP, "rx_wrap"),
	R(READ_1 "00000abc W 00000005 S T", 0x0104, DDP_AND_RDMAP, "rx_wrap"),
	R("c140 N M 61", 0x0102, DDP, "rx_access"),
	R("c140 H T 61", 0x0102, DDP, "rx_access"),
	R("4144 X 00000000 00000001 00000000 61", 0x0109, DDP, "rx_invalidate"),
	R("4146 00000000 00000000 00000001 00000000 61", 0x0109, DDP, "rx_invalidate"),
	R("4144 S 00000000 00000001 00000000 61", 0x0109, DDP, "rx_invalidate"),
	R("4144 O 00000000 00000001 00000000 61", 0x0109, DDP, "rx_invalidate"),
	/* ---- operation ---- */
	R("4103 " RECEIVE_QN "00000001 00000000 61", 0x0205, DDP, "rx_version"),
	R("4183 " RECEIVE_QN "00000001 00000000 61", 0x0205, DDP, "rx_version"),
	R("c1c0 S T 61", 0x0205, DDP, "rx_version"),
	R("414c " RECEIVE_QN "00000001 00000000 61", 0x0206, DDP, "rx_opcode"),
	R("414d " RECEIVE_QN "00000001 00000000 61", 0x0206, DDP, "rx_opcode"),
	R("c14c S T 61", 0x0206, DDP, "rx_opcode"),
	R("c14e S T 61", 0x0206, DDP, "rx_opcode"),
	R("c14f S T 61", 0x0206, DDP, "rx_opcode"),
	R("4140 " RECEIVE_QN "00000001 00000000 61", 0x0206, DDP, "rx_opcode"),
	R("4142 " RECEIVE_QN "00000001 00000000 61", 0x0206, DDP, "rx_opcode"),
	R("c141 S T " SINK "00000004 S T", 0x0206, DDP, "rx_opcode"),
	R("c143 S T 61", 0x0206, DDP, "rx_opcode"),
	R("c147 S T 01000000", 0x0206, DDP, "rx_opcode"),
	R("c148 S T 0000000000000000", 0x0206, DDP, "rx_opcode"),
	/* ---- responses without a request, or to another request ---- */
	R("c142 S T 61", 0x0206, DDP, "rx_opcode"),
	R("c142 S T", 0x0206, DDP, "rx_opcode"),
	R("414b 00000000 00000003 00000001 00000000 00000001 0000000000000000", 0x0206, DDP, "rx_opcode"),
	R("414b 00000000 00000003 00000001 00000000 00000001 0000000000000000", 0x0206, DDP, "rx_opcode", .ours = READ),
	R("c142 K J 6162636465666768", 0x0206, DDP, "rx_opcode", .ours = ATOMIC),
	R("c142 S J 6162636465666768", 0x1100, DDP, "rx_stag", .ours = READ),
	R("c142 K T 6162636465666768", 0x1101, DDP, "rx_bounds", .ours = READ),
	R("c142 K J 616263646566676869", 0x1101, DDP, "rx_bounds", .ours = READ),
	R("c142 K J 61626364656667", 0x1101, DDP, "rx_bounds", .ours = READ),
	R("c142 K J", 0x1101, DDP, "rx_bounds", .ours = READ),
	R("8142 K J 6162636465666768", 0x1101, DDP, "rx_bounds", .ours = READ),
	R("414b 00000000 00000003 00000002 00000000 I 0000000000000000", 0x1203, DDP, "rx_msn", .ours = ATOMIC),
	R("414b 00000000 00000003 00000001 00000000 fffffff0 0000000000000000", 0x0207, DDP, "rx_stream",
	  .ours = ATOMIC),
	R("414b 00000000 00000003 00000001 00000000 I 00000000000000", 0x0207, DDP, "rx_stream", .ours = ATOMIC),
	/* ---- lengths that the opcode does not allow, and RFC 7306 ---- */
	R(READ_1 SINK "00000004 S 00000000000000", 0x0207, DDP, "rx_stream"),
	R(READ_1 SINK "00000004 S T 00", 0x0207, DDP, "rx_stream"),
	R("4148 " RECEIVE_QN "00000001 00000000 00000000000000", 0x0207, DDP, "rx_stream"),
	R("4149 " RECEIVE_QN "00000001 00000000 000000000000000000", 0x0207, DDP, "rx_stream"),
	R(ATOMIC_1 "00000000 00000007 S T 00", 0x0207, DDP, "rx_stream"),
	R("4147 00000000 00000002 00000001 00000000 010000", 0x0207, DDP, "rx_stream"),
	R(ATOMIC_1 "00000000 00000007 S U " OPERANDS, 0x0207, DDP, "rx_stream"),
	R(ATOMIC_1 "00000001 00000007 S T " OPERANDS, 0x0209, DDP, "rx_opcode"),
	R(ATOMIC_1 "0000000f 00000007 S T " OPERANDS, 0x0209, DDP, "rx_opcode"),
	R(ATOMIC_1 "00000000 00000007 X T " OPERANDS, 0x0100, DDP, "rx_stag"),
	R(ATOMIC_1 "00000000 00000007 S 0000000000000000 " OPERANDS, 0x0101, DDP, "rx_bounds"),
	R(ATOMIC_1 "00000000 00000007 H T " OPERANDS, 0x0102, DDP, "rx_access"),
	R(ATOMIC_1 "00000002 00000007 S fffffffffffffff8 " OPERANDS, 0x0101, DDP, "rx_bounds"),
	/* ---- there is no header to quote ---- */
	R("41", 0x0207, NOTHING, "rx_malformed", .fault = DIW_FAULT_SHORT),
	R("4143 " RECEIVE_QN "00000001 000000", 0x0207, NOTHING, "rx_malformed", .fault = DIW_FAULT_SHORT),
	R("c140 S 00000000000000", 0x0207, NOTHING, "rx_malformed", .fault = DIW_FAULT_SHORT),
#undef R
};

static uint32_t sink(void) { return 1000; }

static void expand(struct seg *s, const char *text, uint32_t reqid)
{
	char hex[1024], *p = hex;

	for (; *text; text++)
		switch (*text) {
		case 'S': p += sprintf(p, "%08x", w.mr->stag); break;
		case 'X': p += sprintf(p, "%08x", w.mr->stag ^ 1); break;
		case 'O': p += sprintf(p, "%08x", w.other->stag); break;
		case 'N': p += sprintf(p, "%08x", w.recv_mr->stag); break;
		case 'H': p += sprintf(p, "%08x", w.may_end->stag); break;
		case 'K': p += sprintf(p, "%08x", w.p.all->stag); break;
		case 'I': p += sprintf(p, "%08x", reqid); break;
		case 'T': p += sprintf(p, "%016lx", w.mr->to); break;
		case 'U': p += sprintf(p, "%016lx", w.mr->to + 4); break;
		case 'Z': p += sprintf(p, "%016lx", w.mr->to + REGION - 4); break;
		case 'M': p += sprintf(p, "%016lx", w.recv_mr->to); break;
		case 'J': p += sprintf(p, "%016lx", w.p.all->to + sink()); break;
		case 'W': p += sprintf(p, "fffffffffffffffc"); break;
		default: *p++ = *text;
		}
	*p = 0;
	seg_hex(s, "%s", hex);
}

/* Returns the atomic's identifier. */
static uint32_t ask(enum ours ours)
{
	struct diw_send_wr rd = { .wr_id = 9, .opcode = DIW_WR_READ };
	struct diw_send_wr add = { .wr_id = 9, .opcode = DIW_WR_FETCH_ADD };
	static struct seg s;

	if (ours == NONE)
		return 0;
	wire_post(&w, ours == READ ? &rd : &add, sink(), 8);
	ck_assert(raw_read(&w.r, &s));
	return (uint32_t)raw_get(s.b + 22, 4);
}

static void ends_with(uint16_t told, uint16_t fault, const char *counter, const struct seg *s, enum quote q)
{
	if (s)
		raw_seg(&w.r, s);
	wire_expect_terminate(&w, told, s, q != NOTHING, q == DDP_AND_RDMAP);
	raw_expect_end(&w.r);
	wire_expect_down(&w, fault, EPROTO);
	ck_assert_uint_eq(end_counter(&w.e, counter), 1);
	ck_assert_uint_eq(end_counter(&w.e, "terminate_tx"), 1);
}

START_TEST(provoked)
{
	const struct row *row = &rows[_i];
	static struct seg s;
	struct diw_qp_error e;

	wire_open(&w, &(struct wire_attr){ .receives = 1 });
	expand(&s, row->segment, ask(row->ours));
	ends_with(row->told, row->fault ? row->fault : row->told, row->counter, &s, row->quote);
	ck_assert_int_eq(diw_qp_error_get(w.e.qp, &e), 0);
	ck_assert_uint_eq(e.fault, row->fault ? row->fault : row->told);
	ck_assert(!e.remote);
	if (row->ours)
		wire_expect_wc(w.e.scq, 9, DIW_WC_FLUSHED);
	wire_expect_wc(w.e.rcq, 0, row->told == 0x1205 && s.b[1] == 0x43 ? DIW_WC_LOC_LEN_ERR : DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* ---- Messages of several segments ---- */

START_TEST(no_receive)
{
	static struct seg s;

	wire_open(&w, NULL);
	seg_hex(&s, "4143 " RECEIVE_QN "00000001 00000000 61");
	ends_with(0x1202, 0x1202, "rx_no_recv", &s, DDP);
	wire_close(&w);
}
END_TEST

/* Two requests at the same time, where one is allowed. */
START_TEST(ird_exceeded)
{
	static uint8_t out[1000];
	static struct seg s;
	uint32_t n;

	wire_open(&w, &(struct wire_attr){ .ird = 1 });
	expand(&s, READ_1 SINK "00000004 S T", 0);
	n = raw_fpdu(&w.r, out, &s);
	raw_put(s.b + 10, 4, 2);
	n += raw_fpdu(&w.r, out + n, &s);
	raw_octets(&w.r, out, n);
	raw_expect(&w.r, "c142 " SINK "a5a5a5a5");
	wire_expect_terminate(&w, 0x1202, &s, true, true);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0x1202, EPROTO);
	ck_assert_uint_eq(end_counter(&w.e, "rx_no_recv"), 1);
	wire_close(&w);
}
END_TEST

static const struct {
	const char *first, *second;
	uint16_t told;
	const char *counter;
} pairs[] = {
#define SEG_1 "0143 " RECEIVE_QN "00000001 00000000 6162"
	/* The second segment does not continue the first. */
	{ SEG_1, "4143 " RECEIVE_QN "00000001 00000001 63", 0x1204, "rx_malformed" },
	{ SEG_1, "4143 " RECEIVE_QN "00000001 00000003 63", 0x1204, "rx_malformed" },
	{ SEG_1, "4143 " RECEIVE_QN "00000001 00000000 63", 0x1204, "rx_malformed" },
	{ SEG_1, "4143 " RECEIVE_QN "00000002 00000000 63", 0x1203, "rx_msn" },
	{ SEG_1, "4148 " RECEIVE_QN "00000001 00000000 0000000000000000", 0x1204, "rx_malformed" },
	{ SEG_1, "4143 " RECEIVE_QN "00000001 00000002 " RECV_65, 0x1205, "rx_too_long" },
	/* The second segment has another opcode, or another Invalidate STag. */
	{ SEG_1, "4145 " RECEIVE_QN "00000001 00000002 63", 0x0206, "rx_opcode" },
	{ SEG_1, "4144 H 00000000 00000001 00000002 63", 0x0206, "rx_opcode" },
	{ SEG_1, "0144 H 00000000 00000001 00000002 63", 0x0206, "rx_opcode" },
	{ SEG_1, "4148 " RECEIVE_QN "00000001 00000002 0000000000000000", 0x0206, "rx_opcode" },
	{ "0143 " RECEIVE_QN "00000001 00000000", "4145 " RECEIVE_QN "00000001 00000000 63", 0x0206, "rx_opcode" },
	{ "0145 " RECEIVE_QN "00000001 00000000 6162", "4143 " RECEIVE_QN "00000001 00000002 63", 0x0206, "rx_opcode" },
	{ "0144 H 00000000 00000001 00000000 6162", "4146 H 00000000 00000001 00000002 63", 0x0206, "rx_opcode" },
	{ "0144 H 00000000 00000001 00000000 6162", "4143 " RECEIVE_QN "00000001 00000002 63", 0x0206, "rx_opcode" },
	{ "0144 X 00000000 00000001 00000000 6162", "4144 H 00000000 00000001 00000002 63", 0x0109, "rx_invalidate" },
	/* A Write must continue at its position. */
	{ "8140 S T 6162", "c140 K J 63", 0x1100, "rx_stag" },
	{ "8140 S T 6162", "c140 S T 63", 0x1101, "rx_bounds" },
	{ "8140 S T", "c140 S U 63", 0x1101, "rx_bounds" },
	/* A message must not come twice. */
	{ "4143 " RECEIVE_QN "00000001 00000000 61", "4143 " RECEIVE_QN "00000001 00000000 61", 0x1203, "rx_msn" },
	{ "4143 " RECEIVE_QN "00000001 00000000 61", "4143 " RECEIVE_QN "00000003 00000000 61", 0x1203, "rx_msn" },
	/* An STag can be invalidated once. */
	{ "4144 H 00000000 00000001 00000000 61", "4144 H 00000000 00000002 00000000 61", 0x0109, "rx_invalidate" },
};

START_TEST(second_segment)
{
	static struct seg s;

	wire_open(&w, &(struct wire_attr){ .receives = 3 });
	expand(&s, pairs[_i].first, 0);
	raw_seg(&w.r, &s);
	expand(&s, pairs[_i].second, 0);
	ends_with(pairs[_i].told, pairs[_i].told, pairs[_i].counter, &s, DDP);
	wire_close(&w);
}
END_TEST

/* A Write without an end: the octet with number 2^32 is refused. The test claims that four GiB of it were sent. */
START_TEST(endless_write)
{
	static struct seg s;

	wire_open(&w, NULL);
	expand(&s, "8140 S T 61626364", 0);
	raw_seg(&w.r, &s);
	for (int ms = 0; ms < 3000 && end_counter(&w.e, "rx_payload") < 4; ms++)
		sleep_ms(1);
	ck_assert_int_eq(diw_engine_lock(&w.e.qp->dev->engine), 0);
	ck_assert_uint_eq(w.e.qp->rdmap.ddp.order.written, 4);
	w.e.qp->rdmap.ddp.order.written = UINT32_MAX - 3;
	diw_engine_unlock(&w.e.qp->dev->engine);
	if (_i) {
		expand(&s, "c140 S U 61626364", 0);
		ends_with(0x1101, 0x1101, "rx_bounds", &s, DDP);
	} else {
		expand(&s, "8140 S U 616263", 0);
		raw_seg(&w.r, &s);
		for (int ms = 0; ms < 3000 && end_counter(&w.e, "rx_payload") < 7; ms++)
			sleep_ms(1);
		ck_assert_uint_eq(end_counter(&w.e, "rx_payload"), 7);
	}
	wire_close(&w);
}
END_TEST

/* A Read Response with a correct beginning. */
START_TEST(response_goes_wrong)
{
	static const char *const second[] = { "c142 K J 6566676869", "c142 K J 65666768", "8142 K J 65666768",
					      "c142 S J 65666768" };
	static struct seg s;

	wire_open(&w, NULL);
	ask(READ);
	expand(&s, "8142 K J 61626364", 0);
	raw_seg(&w.r, &s);
	expand(&s, second[_i], 0);
	if (_i != 1)                    /* that one begins at the offset of the first */
		raw_put(s.b + 6, 8, w.p.all->to + sink() + 4);
	ends_with(_i == 3 ? 0x1100 : 0x1101, _i == 3 ? 0x1100 : 0x1101, _i == 3 ? "rx_stag" : "rx_bounds", &s, DDP);
	wire_expect_wc(w.e.scq, 9, DIW_WC_FLUSHED);
	wire_close(&w);
}
END_TEST

/* The source of a Read is deregistered before the answer, which waits behind a message that the peer does not read. */
START_TEST(source_deregistered)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE };
	const uint32_t big = KIT_SIZE / 2;
	static struct seg s, got;
	struct diw_mr *mr;

	wire_open(&w, NULL);
	ck_assert_int_eq(diw_mr_reg(w.p.k.pd, w.region, 64, DIW_ACCESS_REMOTE_READ, &mr), 0);
	for (int i = 0; i < 4; i++)
		wire_post(&w, &wr, 0, big);
	seg_hex(&s, READ_1 SINK "00000004 %08x %016lx", mr->stag, mr->to);
	raw_seg(&w.r, &s);
	for (int ms = 0; ms < 3000 && end_counter(&w.e, "read_requests_rx") == 0; ms++)
		sleep_ms(1);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	while (raw_read(&w.r, &got) && (got.b[1] & 15) != 7)
		ck_assert_uint_eq(got.b[1] & 15, 0);
	ck_assert_uint_eq(raw_get(got.b + 18, 4), 0x0100e000);
	ck_assert_uint_eq(raw_get(got.b + 22, 2), s.n);
	ck_assert_mem_eq(got.b + 24, s.b, s.n);
	ck_assert_uint_eq(got.n, 24 + s.n);
	wire_expect_down(&w, 0x0100, EPROTO);
	ck_assert_uint_eq(end_counter(&w.e, "rx_stag"), 1);
	wire_close(&w);
}
END_TEST

/* ---- RFC 5044 section 8 ---- */

START_TEST(bad_crc)
{
	static uint8_t out[100];
	static struct seg s;
	uint32_t n;

	wire_open(&w, &(struct wire_attr){ .receives = 1 });
	seg_hex(&s, "4143 " RECEIVE_QN "00000001 00000000 6162636465");
	n = raw_fpdu(&w.r, out, &s);
	ck_assert_uint_eq(n, 32);
	out[_i] ^= _i == 1 ? 1 : 0x10;  /* a bit of the length field that leaves it long enough */
	raw_octets(&w.r, out, n);
	ends_with(0x2002, DIW_FAULT_MPA_CRC, "rx_crc", NULL, NOTHING);
	ck_assert_uint_eq(end_counter(&w.e, "rx_fpdus"), 0);
	wire_close(&w);
}
END_TEST

START_TEST(bad_marker)
{
	static uint8_t out[2000];
	static struct seg s;
	uint32_t n, crc, at = _i ? 512 : 0;

	wire_open(&w, &(struct wire_attr){ .markers = true });
	expand(&s, "c140 S T", 0);
	memset(s.b + s.n, 0x61, 1000);
	s.n += 1000;
	n = raw_fpdu(&w.r, out, &s);
	ck_assert_uint_eq(raw_get(out + at, 4), at ? 508 : 0);
	out[at + 3] ^= 4;
	crc = raw_crc32c(out, n - 4);
	for (int i = 0; i < 4; i++)
		out[n - 4 + (uint32_t)i] = (uint8_t)(crc >> 8 * i);
	raw_octets(&w.r, out, n);
	ends_with(0x2003, DIW_FAULT_MPA_MARKER, "mpa_marker", NULL, NOTHING);
	wire_close(&w);
}
END_TEST

Suite *suite_rc_terminate(void)
{
	Suite *s = suite_create("rc_terminate");
	TCase *t = tcase_create("rc_terminate");

	tcase_add_loop_test(t, provoked, 0, sizeof rows / sizeof *rows);
	tcase_add_test(t, no_receive);
	tcase_add_test(t, ird_exceeded);
	tcase_add_loop_test(t, second_segment, 0, sizeof pairs / sizeof *pairs);
	tcase_add_loop_test(t, endless_write, 0, 2);
	tcase_add_loop_test(t, response_goes_wrong, 0, 4);
	tcase_add_test(t, source_deregistered);
	tcase_add_loop_test(t, bad_crc, 1, 32);
	tcase_add_loop_test(t, bad_marker, 0, 2);
	tcase_set_timeout(t, 30);
	suite_add_tcase(s, t);
	return s;
}
