/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams: a long segment is gathered from the request at each transmission. */
#include <string.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define HALF (KIT_SIZE / 2)
#define LEN 40000u                    /* many segments */
#define INLINE DIW_MAX_INLINE                   /* longer than what the link copies */
#define PIECES 16

static struct kit k;
static struct end a, b;
static uint32_t mulpdu = 1000;

static void end_open_rd(struct end *e, const char *impair, enum diw_rd_error error)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	attr.impair = impair;
	attr.rd.error = error;
	attr.mulpdu = mulpdu;
	attr.max_sge = PIECES;
	attr.max_inline = INLINE;
	end_open(e, &k, &attr, 128);
}

static void open_both_with(const char *impair, enum diw_rd_error error)
{
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open_rd(&a, impair, error);
	end_open_rd(&b, impair, error);
	kit_fill(&k);
}

static void open_both(const char *impair)
{
	open_both_with(impair, DIW_RD_ERROR_PEER);
}

static struct diw_wc next_of(struct diw_cq *cq)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, KIT_LIMIT), 1);
	return wc;
}

static void ends(struct end *e, uint64_t wr_id, int status)
{
	const struct diw_wc wc = next_of(e->scq);

	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_str_eq(diw_wc_status_str(wc.status), diw_wc_status_str(status));
}

static void send_list(const struct diw_sge *sge, int n, uint64_t wr_id, unsigned flags)
{
	struct diw_send_wr wr = { .wr_id = wr_id, .sge = sge, .num_sge = n, .opcode = DIW_WR_SEND,
				  .flags = DIW_SEND_SIGNALED | flags, .dst.addr = b.addr };

	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
}

/* The memory of a request goes before any of its segments has arrived. The request fails, and those behind it are
 * flushed, as behind one that the peer refuses. */
START_TEST(memory_that_is_deregistered_too_early_is_not_read)
{
	uint8_t *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct diw_sge sge = { mem, LEN, 0 };
	struct diw_mr *mr;

	open_both("");
	ck_assert_ptr_ne(mem, MAP_FAILED);
	ck_assert_int_eq(diw_mr_reg(k.pd, mem, LEN, 0, &mr), 0);
	sge.stag = mr->stag;
	ck_assert_int_eq(end_recv(&b, HALF, LEN, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 8, DIW_SEND_SIGNALED), 0);
	ends(&a, 0, DIW_WC_SUCCESS);
	ck_assert_int_eq(diw_qp_impair(a.qp, "loss=100%", NULL, 0), 0);
	ck_assert_int_eq(end_recv(&b, HALF, LEN, 2), 0);
	send_list(&sge, 1, 5, 0);
	ck_assert_int_eq(end_send(&a, &b, 6, 8, 0), 0);
	ck_assert_int_eq(end_read(&b, &a, LEN, 8), 0);
	KIT_UNTIL(end_counter(&a, "rd_timeouts") > 1);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(mprotect(mem, LEN, PROT_NONE), 0);
	ck_assert_int_eq(diw_qp_impair(a.qp, "", NULL, 0), 0);
	ends(&a, 5, DIW_WC_LOC_PROT_ERR);
	ends(&a, 6, DIW_WC_FLUSHED);
	ends(&b, LEN, DIW_WC_SUCCESS);                          /* the peer's Read notices nothing */
	ck_assert_int_eq(end_send(&a, &b, 7, 8, DIW_SEND_SIGNALED), 0);
	ends(&a, 7, DIW_WC_SUCCESS);
	munmap(mem, LEN);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The peer has refused the request: a queue pair that ends by errors ends, though the status is of this end. */
START_TEST(memory_that_is_gone_ends_the_queue_pair)
{
	struct diw_sge sge = { NULL, LEN, 0 };
	struct diw_qp_info info;
	struct diw_mr *mr;

	open_both_with("", DIW_RD_ERROR_QP);
	ck_assert_int_eq(diw_mr_reg(k.pd, k.mem, LEN, 0, &mr), 0);
	sge.addr = k.mem;
	sge.stag = mr->stag;
	ck_assert_int_eq(diw_qp_impair(a.qp, "loss=100%", NULL, 0), 0);
	ck_assert_int_eq(end_recv(&b, HALF, LEN, 1), 0);
	send_list(&sge, 1, 5, 0);
	end_until(&a, "tx_messages", 1);                        /* the link has all segments */
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	ck_assert_int_eq(diw_qp_impair(a.qp, "", NULL, 0), 0);
	ends(&a, 5, DIW_WC_LOC_PROT_ERR);
	ck_assert_int_eq(diw_qp_query(a.qp, &info), 0);
	ck_assert_int_eq(info.state, DIW_QPS_ERROR);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The program uses its buffer again at once. */
START_TEST(inline_data_is_kept)
{
	uint8_t data[INLINE];
	struct diw_sge sge = { data, INLINE, 0 };

	open_both("loss=20%,reorder=10%");
	for (uint32_t i = 0; i < 100; i++)
		ck_assert_int_eq(end_recv(&b, HALF + i * INLINE, INLINE, i), 0);
	for (uint32_t i = 0; i < 100; i++) {
		memcpy(data, k.mem + i * INLINE, INLINE);
		send_list(&sge, 1, i, DIW_SEND_INLINE);
		memset(data, 0, INLINE);
	}
	for (uint32_t i = 0; i < 100; i++)
		ends(&a, i, DIW_WC_SUCCESS);
	ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, 100 * INLINE), 0);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* Segments begin and end anywhere in the entries, of which some are empty. */
START_TEST(entries_are_gathered)
{
	struct diw_sge sge[PIECES];
	uint32_t at = 0;

	open_both("loss=20%,reorder=10%");
	for (uint32_t i = 0; i < PIECES; i++) {
		uint32_t len = i % 5 == 3 ? 0 : 1 + i * 397;

		sge[i] = (struct diw_sge){ k.mem + at, len, k.mr->stag };
		at += len;
	}
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_int_eq(end_recv(&b, HALF, at, i), 0);
		memset(k.mem + HALF, 0, at);
		send_list(sge, PIECES, i, 0);
		ends(&a, i, DIW_WC_SUCCESS);
		ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, at), 0);
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* An empty entry needs no memory. What is short is copied, at the post or by the link. */
START_TEST(empty_entries_are_not_read)
{
	open_both("");
	for (uint32_t i = 0; i < 2; i++) {
		const struct diw_sge sge[] = { { NULL, 0, 0 }, { k.mem, 8, k.mr->stag }, { NULL, 0, 0 },
					       { k.mem + 8, 8, k.mr->stag } };

		ck_assert_int_eq(end_recv(&b, HALF, 16, i), 0);
		memset(k.mem + HALF, 0, 16);
		send_list(sge, 4, i, i ? DIW_SEND_INLINE : 0);
		ends(&a, i, DIW_WC_SUCCESS);
		ck_assert_int_eq(memcmp(k.mem, k.mem + HALF, 16), 0);
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* Posts one by one, whose long segments share super-buffers. The memory of each is inaccessible from its completion on,
 * and each message has its own octets. */
START_TEST(memory_is_not_read_behind_the_completion)
{
	enum { N = 64, AHEAD = 12, SIZE = 32768 };
	const char *const impair[] = { "", "loss=10%,dup=10%,reorder=10%" };
	uint8_t *mem = mmap(NULL, N * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct diw_mr *mr;

	mulpdu = 0;
	open_both(impair[_i]);
	ck_assert_ptr_ne(mem, MAP_FAILED);
	ck_assert_int_eq(diw_mr_reg(k.pd, mem, N * SIZE, 0, &mr), 0);
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(end_recv(&b, HALF + i * SIZE, SIZE, i), 0);
	for (uint32_t i = 0; i < N + AHEAD; i++) {
		struct diw_sge sge = { mem + i * SIZE, 7000 + i * 400, mr->stag };
		uint32_t done = i - AHEAD;

		if (i < N) {
			memset(sge.addr, (int)i + 1, SIZE);
			send_list(&sge, 1, i, 0);
		}
		if (i < AHEAD)
			continue;
		ends(&a, done, DIW_WC_SUCCESS);
		ck_assert_int_eq(mprotect(mem + done * SIZE, SIZE, PROT_NONE), 0);
	}
	for (uint32_t i = 0; i < N; i++) {
		const uint8_t *p = k.mem + HALF + i * SIZE;

		ck_assert_uint_eq(next_of(b.rcq).byte_len, 7000 + i * 400);
		ck_assert_uint_eq(p[0], i + 1);
		ck_assert_int_eq(memcmp(p, p + 1, 7000 + i * 400 - 1), 0);
	}
	ck_assert_uint_eq(end_counter(&b, "rx_crc"), 0);
	ck_assert_uint_eq(end_counter(&a, "tx_error"), 0);
	ck_assert_int_eq(diw_mr_dereg(mr), 0);
	munmap(mem, N * SIZE);
	kit_close_ends(&k, &a, &b);
}
END_TEST

Suite *suite_rd_payload(void)
{
	Suite *s = suite_create("rd_payload");
	TCase *t = tcase_create("rd_payload");

	tcase_add_test(t, memory_that_is_deregistered_too_early_is_not_read);
	tcase_add_test(t, memory_that_is_gone_ends_the_queue_pair);
	tcase_add_test(t, inline_data_is_kept);
	tcase_add_test(t, entries_are_gathered);
	tcase_add_test(t, empty_entries_are_not_read);
	tcase_add_loop_test(t, memory_is_not_read_behind_the_completion, 0, 2);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}
