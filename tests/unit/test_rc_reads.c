/* SPDX-License-Identifier: BSD-2-Clause */
/* An RDMA Read returns the memory's content from when its request came, whatever follows it in the stream
 * (rdmap/rc_snap.c). */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/wire_kit.h"

#define MIB (1u << 20)
#define HALF (KIT_SIZE / 2)
#define STAG_TO "11223344 1122334455667788"
#define MAX_OCTETS 1024u

/* ---- A hand-written peer: requests and the messages behind them arrive together ---- */

static struct wire w;

static void wire_begin(void)
{
	wire_open(&w, &(struct wire_attr){ .receives = 2 });
	for (uint32_t i = 0; i < REGION; i++)
		w.region[i] = (uint8_t)i;
	wire_share_memory(&w);
}

static void wire_end(void)
{
	wire_close(&w);
}

struct octets { uint8_t b[MAX_OCTETS]; uint32_t n; };

static void add(struct octets *o, const struct seg *s)
{
	o->n += raw_fpdu(&w.r, o->b + o->n, s);
}

static void add_read(struct octets *o, uint32_t msn, uint32_t stag, uint32_t off, uint32_t len)
{
	static struct seg s;

	seg_hex(&s, "4141 00000000 00000001 %08x 00000000 " STAG_TO " %08x %08x %016lx", msn, len, stag,
		w.mr->to + off);
	add(o, &s);
}

static void add_write(struct octets *o, uint32_t off, const char *hex)
{
	static struct seg s;

	seg_hex(&s, "c140 %08x %016lx %s", w.mr->stag, w.mr->to + off, hex);
	add(o, &s);
}

static void add_fetch_add(struct octets *o, uint32_t msn, uint32_t off)
{
	static struct seg s;

	seg_hex(&s, "414a 00000000 00000001 %08x 00000000 00000000 0000abcd %08x %016lx 0000000000000001 "
		"0000000000000000 0000000000000000 0000000000000000", msn, w.mr->stag, w.mr->to + off);
	add(o, &s);
}

START_TEST(write_behind)
{
	struct octets o = { .n = 0 };

	add_read(&o, 1, w.mr->stag, 3, 5);
	add_read(&o, 2, w.mr->stag, 0, 4);
	add_write(&o, 0, "a0a1a2a3a4a5a6a7");
	add_read(&o, 3, w.mr->stag, 3, 5);
	raw_octets(&w.r, o.b, o.n);
	raw_expect(&w.r, "c142 " STAG_TO " 0304050607");
	raw_expect(&w.r, "c142 " STAG_TO " 00010203");
	raw_expect(&w.r, "c142 " STAG_TO " a3a4a5a6a7");
	ck_assert_uint_eq(end_counter(&w.e, "read_copied"), 2);
}
END_TEST

/* The atomic is executed when it comes: after the Read, and before the Write. */
START_TEST(atomic_between)
{
	uint64_t *word = (void *)(w.region + 64), first = 41;
	struct octets o = { .n = 0 };
	uint8_t now[8];

	__atomic_store_n(word, first, __ATOMIC_SEQ_CST);
	wire_share_memory(&w);
	add_read(&o, 1, w.mr->stag, 64, 8);
	add_fetch_add(&o, 2, 64);
	add_read(&o, 3, w.mr->stag, 64, 8);
	add_write(&o, 64, "0101010101010101");
	raw_octets(&w.r, o.b, o.n);
	raw_put(now, 8, __builtin_bswap64(first));
	raw_expect(&w.r, "c142 " STAG_TO " %016lx", (unsigned long)raw_get(now, 8));
	raw_expect(&w.r, "414b 00000000 00000003 00000001 00000000 0000abcd %016lx", first);
	raw_expect(&w.r, "c142 " STAG_TO " %016lx", (unsigned long)__builtin_bswap64(first + 1));
	wire_share_memory(&w);
	ck_assert_uint_eq(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0x0101010101010101);
}
END_TEST

/* The answers to what came before a fault are sent, and show the memory as it was then. */
START_TEST(fault_behind)
{
	struct octets o = { .n = 0 };
	static struct seg s;

	memset(w.region + 64, 0, 8);
	wire_share_memory(&w);
	add_read(&o, 1, w.mr->stag, 3, 5);
	add_fetch_add(&o, 2, 64);
	add_write(&o, 0, "a0a1a2a3a4a5a6a7");
	add_read(&o, 3, w.mr->stag, 3, 5);
	seg_hex(&s, "c140 %08x %016lx 61", w.mr->stag ^ 1, w.mr->to);
	add(&o, &s);
	add_write(&o, 0, "b0");
	raw_octets(&w.r, o.b, o.n);
	raw_expect(&w.r, "c142 " STAG_TO " 0304050607");
	raw_expect(&w.r, "414b 00000000 00000003 00000001 00000000 0000abcd 0000000000000000");
	raw_expect(&w.r, "c142 " STAG_TO " a3a4a5a6a7");
	wire_expect_terminate(&w, 0x1100, &s, true, false);
	raw_expect_end(&w.r);
	wire_expect_down(&w, 0x1100, EPROTO);
	wire_share_memory(&w);
	ck_assert_uint_eq(w.region[0], 0xa0);
	ck_assert_uint_eq(end_counter(&w.e, "read_copied"), 2);
}
END_TEST

/* The source of the Read may be invalidated behind it, and the receiver of that message is told. */
START_TEST(invalidated_behind)
{
	static struct seg s;
	struct octets o = { .n = 0 };

	seg_hex(&s, "4144 %08x 00000000 00000001 00000000 61", w.may_end->stag);
	add_read(&o, 1, w.may_end->stag, 16, 4);
	add(&o, &s);
	raw_octets(&w.r, o.b, o.n);
	raw_expect(&w.r, "c142 " STAG_TO " 10111213");
	wire_expect_wc(w.e.rcq, 0, DIW_WC_SUCCESS);
	/* It has been invalidated: the next Read is refused. */
	o.n = 0;
	seg_hex(&s, "4141 00000000 00000001 00000002 00000000 " STAG_TO " 00000004 %08x %016lx", w.may_end->stag,
		w.may_end->to);
	add(&o, &s);
	raw_octets(&w.r, o.b, o.n);
	wire_expect_terminate(&w, DIW_FAULT_READ_STAG, &s, true, true);
	raw_expect_end(&w.r);
	wire_expect_down(&w, DIW_FAULT_READ_STAG, EPROTO);
}
END_TEST

/* ---- Two queue pairs ---- */

static struct pair p;

static void pair_begin(void)
{
	pair_open(&p, NULL, NULL);
}

static void pair_end(void)
{
	pair_close(&p);
}

static bool all_are(const uint8_t *m, uint32_t len, uint8_t v)
{
	return len == 0 || (m[0] == v && memcmp(m, m + 1, len - 1) == 0);
}

/* Posts a Read, and a Write to its source, together. */
static void read_then_write(struct end *e, uint32_t sink, uint32_t from, uint32_t target, uint32_t len)
{
	struct diw_sge sge[] = { { p.k.mem + sink, len, p.all->stag }, { p.k.mem + from, len, p.all->stag } };
	struct diw_send_wr wr[] = {
		{ .next = &wr[1], .wr_id = 1, .opcode = DIW_WR_READ, .sge = &sge[0], .num_sge = 1, .stag = p.all->stag,
		  .to = p.all->to + target, .flags = DIW_SEND_SIGNALED },
		{ .wr_id = 2, .opcode = DIW_WR_WRITE, .sge = &sge[1], .num_sge = 1, .stag = p.all->stag,
		  .to = p.all->to + target, .flags = DIW_SEND_SIGNALED },
	};

	ck_assert_int_eq(diw_post_send(e->qp, wr, NULL), 0);
}

/* A Read of one octet behind all that was posted: it is answered when the Writes before it are placed. */
static void writes_placed(uint32_t sink, uint32_t target)
{
	struct diw_sge sge = { p.k.mem + sink, 1, p.all->stag };
	struct diw_send_wr wr = { .wr_id = 3, .opcode = DIW_WR_READ, .sge = &sge, .num_sge = 1, .stag = p.all->stag,
				  .to = p.all->to + target, .flags = DIW_SEND_SIGNALED };

	ck_assert_int_eq(diw_post_send(p.a.qp, &wr, NULL), 0);
	wire_expect_wc(p.a.scq, 3, DIW_WC_SUCCESS);
}

START_TEST(unfenced)
{
	static const struct { uint32_t len; int times; } sizes[] = {
		{ 8, 2000 }, { 4096, 500 }, { 65536, 100 }, { 65537, 50 }, { 200000, 20 }, { MIB, 20 },
	};

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint32_t len = sizes[i].len;

		for (int n = 0; n < sizes[i].times; n++) {
			memset(p.k.mem + HALF, n & 0x7f, len);
			memset(p.k.mem + HALF / 2, 0x80 | (n & 0x7f), len);
			read_then_write(&p.a, 0, HALF / 2, HALF, len);
			wire_expect_wc(p.a.scq, 1, DIW_WC_SUCCESS);
			wire_expect_wc(p.a.scq, 2, DIW_WC_SUCCESS);
			ck_assert_msg(all_are(p.k.mem, len, n & 0x7f), "%u octets, round %d: the Read shows the Write",
				      len, n);
			writes_placed(0, HALF);
		}
	}
	ck_assert_uint_eq(end_counter(&p.b, "read_uncopied"), 0);
}
END_TEST

/* More than can be copied, in both directions: either value is correct, and nothing waits for ever. */
START_TEST(beyond_the_bound)
{
	const uint32_t len = 2 * MIB - 64;

	for (int n = 0; n < 4; n++) {
		read_then_write(&p.a, 0, HALF, HALF, len);
		read_then_write(&p.b, 2 * MIB, HALF + 2 * MIB, HALF + 2 * MIB, len);
	}
	for (int n = 0; n < 4; n++) {
		wire_expect_wc(p.a.scq, 1, DIW_WC_SUCCESS);
		wire_expect_wc(p.a.scq, 2, DIW_WC_SUCCESS);
		wire_expect_wc(p.b.scq, 1, DIW_WC_SUCCESS);
		wire_expect_wc(p.b.scq, 2, DIW_WC_SUCCESS);
	}
	ck_assert_uint_gt(end_counter(&p.a, "read_uncopied") + end_counter(&p.b, "read_uncopied"), 0);
	/* After that, small Reads are copied again. */
	memset(p.k.mem + HALF, 1, 64);
	memset(p.k.mem + 100, 2, 64);
	read_then_write(&p.a, 0, 100, HALF, 64);
	wire_expect_wc(p.a.scq, 1, DIW_WC_SUCCESS);
	wire_expect_wc(p.a.scq, 2, DIW_WC_SUCCESS);
	ck_assert(all_are(p.k.mem, 64, 1));
}
END_TEST

Suite *suite_rc_reads(void)
{
	Suite *s = suite_create("rc_reads");
	TCase *raw = tcase_create("raw"), *two = tcase_create("two");

	tcase_add_test(raw, write_behind);
	tcase_add_test(raw, atomic_between);
	tcase_add_test(raw, fault_behind);
	tcase_add_test(raw, invalidated_behind);
	tcase_add_checked_fixture(raw, wire_begin, wire_end);
	tcase_add_test(two, unfenced);
	tcase_add_test(two, beyond_the_bound);
	tcase_add_checked_fixture(two, pair_begin, pair_end);
	tcase_set_timeout(two, 60);
	suite_add_tcase(s, raw);
	suite_add_tcase(s, two);
	return s;
}
