/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: requests that do not fail with a refused one before them (DIW_SEND_APART). */
#include "base/fault.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define HALF (KIT_SIZE / 2)
#define LEN 20000u                    /* many segments */
#define MULPDU 1000
#define POSTS 8

static struct kit k;
static struct end a, b;

static void end_open_rd(struct end *e, const char *impair)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.impair = impair;
	attr.mulpdu = MULPDU;
	end_open(e, &k, &attr, 128);
}

static void open_both(const char *impair)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open_rd(&a, impair);
	end_open_rd(&b, impair);
	kit_fill(&k);
}

/* A request from the memory at I * LEN; a good one is to the memory at HALF + I * LEN. */
struct post { enum diw_wr_opcode opcode; unsigned flags; bool bad; enum diw_wc_status ends; };

static void post_all(const struct post *p, uint32_t n)
{
	struct diw_send_wr wr[POSTS];
	struct diw_sge sge[POSTS];

	for (uint32_t i = 0; i < n; i++) {
		sge[i] = (struct diw_sge){ k.mem + i * LEN, LEN, k.mr->stag };
		wr[i] = (struct diw_send_wr){ .next = i + 1 < n ? &wr[i + 1] : NULL, .wr_id = i, .sge = &sge[i],
					      .num_sge = 1, .opcode = p[i].opcode,
					      .flags = DIW_SEND_SIGNALED | p[i].flags, .dst.addr = b.addr,
					      .stag = k.mr->stag + p[i].bad, .to = k.mr->to + HALF + i * LEN };
	}
	ck_assert_int_eq(diw_post_send(a.qp, wr, NULL), 0);
}

static void expect_ends(const struct post *p, uint32_t n)
{
	struct diw_wc wc;

	for (uint32_t i = 0; i < n; i++) {
		ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str((int)p[i].ends));
	}
}

/* The octets of the request I. */
static void expect_octets(uint32_t at, uint32_t i)
{
	for (uint32_t j = 0; j < LEN; j++)
		ck_assert_uint_eq(k.mem[at + j], (uint8_t)((i * LEN + j) * 13 + (i * LEN + j) / 97));
}

/* Requests that depend on the refused one fail with it. From the first that does not, all take effect once. */
START_TEST(requests_behind_a_refused_one_are_sent_again)
{
	static const struct post p[] = {
		{ DIW_WR_WRITE, DIW_SEND_APART, true, DIW_WC_REM_ACCESS_ERR },
		{ DIW_WR_WRITE, 0, false, DIW_WC_FLUSHED }, { DIW_WR_SEND, 0, false, DIW_WC_FLUSHED },
		{ DIW_WR_SEND, DIW_SEND_APART, false, DIW_WC_SUCCESS }, { DIW_WR_WRITE, 0, false, DIW_WC_SUCCESS },
		{ DIW_WR_READ, DIW_SEND_APART, true, DIW_WC_REM_ACCESS_ERR },
		{ DIW_WR_SEND, DIW_SEND_APART, false, DIW_WC_SUCCESS }, { DIW_WR_WRITE, 0, false, DIW_WC_SUCCESS },
	};
	const uint32_t in = HALF + HALF / 2;
	struct diw_wc wc;

	open_both(_i ? "loss=5%,reorder=5%,dup=5%,seed=7" : "");
	for (uint32_t i = 0; i < 4; i++)
		ck_assert_int_eq(end_recv(&b, in + i * LEN, LEN, i), 0);
	post_all(p, POSTS);
	expect_ends(p, POSTS);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_uint_eq(wc.wr_id, i);
		ck_assert_uint_eq(wc.byte_len, LEN);
		expect_octets(in + i * LEN, i ? 6 : 3);
	}
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 20 * DIW_MS), 0);
	expect_octets(HALF + 4 * LEN, 4);
	expect_octets(HALF + 7 * LEN, 7);
	for (uint32_t i = 0; i < 2; i++)
		ck_assert_uint_eq(k.mem[HALF + i * LEN], (uint8_t)((HALF + i * LEN) * 13 + (HALF + i * LEN) / 97));
	kit_close_ends(&k, &a, &b);
}
END_TEST

Suite *suite_rd_apart(void)
{
	Suite *s = suite_create("rd_apart");
	TCase *t = tcase_create("rd_apart");

	tcase_add_loop_test(t, requests_behind_a_refused_one_are_sent_again, 0, 2);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}
