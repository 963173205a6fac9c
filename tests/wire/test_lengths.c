/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The longest messages of docs/ud-profile.md section 11: at the limit, one octet above it, and 2^32 - 1, for each
 * operation of UD and UC, at the receiver and at the sender.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/wire/wire.h"

#define MAX_SEND (16u << 20)
#define MAX_WRITE (1u << 30)
#define MAX_READ (16u << 20)
#define BIG (MAX_SEND + 4096)

static struct bench b;
static uint8_t *big;                 /* octets that the messages of these tests do not fill */
static struct diw_mr *big_mr;

static void open_bench(int type)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;
	unsigned access = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_READ;

	attr.type = type;
	bench_open(&b, &attr);
	big = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(big, MAP_FAILED);
	ck_assert_int_eq(diw_mr_reg(b.pd, big, BIG, access, &big_mr), 0);
}

static void close_bench(void)
{
	ck_assert_int_eq(diw_mr_dereg(big_mr), 0);
	bench_close(&b);
	munmap(big, BIG);
}

static void post_big(void)
{
	struct diw_sge sge = { big, BIG, big_mr->stag };
	struct diw_recv_wr wr = { .wr_id = 99, .sge = &sge, .num_sge = 1 };

	ck_assert_int_eq(diw_post_recv(b.qp, &wr, NULL), 0);
}

#define FIRST 48u                    /* enough for an error message */
static const char payload[FIRST] = "the first octets of a message";

/* The first segment of a message of LENGTH. */
static void first_of(struct gram *g, uint8_t op, uint32_t msn, uint32_t length)
{
	bool tagged = op == OP_WRITE || op == OP_WRITE_RECORD;
	struct fields f = tagged ? record_fields(b.mr->stag, msn, TO, payload, FIRST) :
				  send_fields(msn, payload, FIRST);

	f.c0 = tagged ? BIT_T | 1 : 1;
	f.c1 = 0x40 | op;
	f.length = length;
	gram_build(g, &f);
}

static const struct { int type; uint8_t op; uint32_t limit; } kind[] = {
	{ DIW_QP_UD, OP_SEND, MAX_SEND }, { DIW_QP_UD, OP_SEND_SE, MAX_SEND },
	{ DIW_QP_UD, OP_WRITE_RECORD, MAX_WRITE },
	{ DIW_QP_UC, OP_SEND, MAX_SEND }, { DIW_QP_UC, OP_SEND_SE, MAX_SEND }, { DIW_QP_UC, OP_WRITE, MAX_WRITE },
};
#define NKINDS ((int)(sizeof kind / sizeof *kind))

START_TEST(received)
{
	const uint32_t limit = kind[_i].limit, above[] = { limit + 1, limit + 1000, 1u << 31, 0xffffffff };
	struct gram g;

	open_bench(kind[_i].type);
	for (int i = 0; i < NRECV / 2; i++) {   /* the small receives of the bench are used up */
		struct fields f = send_fields((uint32_t)i, "", 0);

		gram_build(&g, &f);
		bench_inject(&b, &g);
		ck_assert_uint_eq(bench_wc(&b, b.rcq).wr_id, (uint64_t)i);
	}
	post_big();
	for (uint32_t i = 0; i < sizeof above / sizeof *above; i++) {
		first_of(&g, kind[_i].op, 100 + i, above[i]);
		bench_refused(&b, &g, "rx_too_long");
		ck_assert_uint_eq(bench_count(&b, "record_opened") + bench_count(&b, "reasm_opened"), 0);
		ck_assert_uint_eq(bench_count(&b, "rx_payload"), 0);
		if (kind[_i].type == DIW_QP_UD)
			bench_answered(&b, 0x12, 0x05);
		else
			bench_silent(&b);
		ck_assert_int_eq(diw_qp_query(b.qp, &b.info), 0);
		ck_assert_uint_eq(b.info.sources, 0);
		ck_assert_uint_eq(b.info.memory, 0);
	}
	first_of(&g, kind[_i].op, 200, limit);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_uint_eq(bench_count(&b, "rx_payload"), FIRST);
	bench_silent(&b);
	if (kind[_i].op == OP_WRITE || kind[_i].op == OP_WRITE_RECORD)
		memcpy(b.image + GUARD, payload, FIRST);
	close_bench();
}
END_TEST

/* A Read Request may ask for no more than a message may have, even if the region is larger. */
START_TEST(asked_for)
{
	static const uint32_t above[] = { MAX_READ + 1, MAX_READ + 1000, 1u << 31, 0xffffffff };
	struct fields f;
	struct gram g;

	open_bench(DIW_QP_UD);
	for (uint32_t i = 0; i < sizeof above / sizeof *above; i++) {
		f = read_fields(1 + i, 7, 0, above[i], big_mr->stag, big_mr->to);
		gram_build(&g, &f);
		bench_refused(&b, &g, "rx_too_long");
		bench_answered(&b, 0x12, 0x05);
		ck_assert_uint_eq(bench_count(&b, "read_answered"), 0);
	}
	f = read_fields(9, 7, 0, MAX_READ, big_mr->stag, big_mr->to);
	gram_build(&g, &f);
	bench_refused(&b, &g, "read_unproved");
	bench_prove(&b, &b.peer, EPOCH);
	bench_look(&b);
	bench_inject(&b, &g);
	ck_assert_str_eq(bench_drops(&b), "");
	ck_assert_int_gt(b.nsent, 0);
	ck_assert_uint_eq(b.sent[0].b[1], 0x40 | OP_READ_RESP);
	ck_assert_uint_eq(gram_get32(&b.sent[0], 28), MAX_READ);
	close_bench();
}
END_TEST

static int post(int opcode, uint32_t len, uint32_t more)
{
	struct diw_sge sge[2] = { { big, len, big_mr->stag ^ 1 }, { big, more, big_mr->stag ^ 1 } };
	struct diw_send_wr wr = { .opcode = opcode, .sge = sge, .num_sge = more ? 2 : 1, .dst.addr = b.peer, .stag = 1,
				  .qkey = QKEY };

	return diw_post_send(b.qp, &wr, NULL);
}

/* The post itself reports that a message is too long. A message at the limit is accepted; these name no memory. */
START_TEST(sent)
{
	static const struct { int type, opcode; uint32_t limit; } op[] = {
		{ DIW_QP_UD, DIW_WR_SEND, MAX_SEND }, { DIW_QP_UD, DIW_WR_WRITE_RECORD, MAX_WRITE },
		{ DIW_QP_UD, DIW_WR_READ, MAX_READ }, { DIW_QP_UC, DIW_WR_SEND, MAX_SEND },
		{ DIW_QP_UC, DIW_WR_WRITE, MAX_WRITE },
	};

	for (size_t i = 0; i < sizeof op / sizeof *op; i++) {
		open_bench(op[i].type);
		ck_assert_int_eq(post(op[i].opcode, op[i].limit + 1, 0), -EMSGSIZE);
		ck_assert_int_eq(post(op[i].opcode, op[i].limit, 1), -EMSGSIZE);
		ck_assert_int_eq(post(op[i].opcode, 0xffffffff, 0), -EMSGSIZE);
		ck_assert_int_eq(post(op[i].opcode, 0xffffffff, 2), -EMSGSIZE);
		net_settle(b.net);
		bench_no_wc(&b);
		ck_assert_int_eq(post(op[i].opcode, op[i].limit, 0), 0);
		net_settle(b.net);
		ck_assert_int_eq(bench_wc(&b, b.scq).status, DIW_WC_LOC_PROT_ERR);
		bench_silent(&b);
		close_bench();
	}
}
END_TEST

Suite *suite_lengths(void)
{
	Suite *s = suite_create("lengths");
	TCase *tc = tcase_create("lengths");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, received, 0, NKINDS);
	tcase_add_test(tc, asked_for);
	tcase_add_test(tc, sent);
	suite_add_tcase(s, tc);
	return s;
}
