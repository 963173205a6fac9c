/* SPDX-License-Identifier: BSD-2-Clause */
/* Group and broadcast destinations: which queue pairs may send to them, and that messages to them are not answered. */
#include <check.h>
#include <errno.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

static struct kit k;
static struct end a, b;

static void open_ends(void)
{
	struct diw_qp_attr attr;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.dgram.any_addr = true;
	end_open(&b, &k, &attr, 16);
	ck_assert_int_eq(diw_addr_parse("127.255.255.255", b.addr.port, &b.addr), 0);
	end_attr(&attr);
	attr.dgram.broadcast = true;
	end_open(&a, &k, &attr, 16);
}

static void close_ends(void)
{
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}

/* A message is delivered; a fault is counted and not reported; a Read is counted and not executed. */
START_TEST(not_answered)
{
	struct diw_sge sge;
	struct diw_send_wr wr;
	struct diw_qp_error e;
	struct diw_wc wc;

	open_ends();
	ck_assert_int_eq(end_recv(&b, 0, 4096, 9), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 200, 0), 0);
	ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.wr_id, 9);

	sge = (struct diw_sge){ k.mem, 200, k.mr->stag };
	wr = (struct diw_send_wr){ .sge = &sge, .num_sge = 1, .opcode = DIW_WR_WRITE_RECORD, .dst.addr = b.addr,
				   .stag = ~k.mr->stag, .to = k.mr->to };
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	end_until(&b, "rx_stag", 1);
	wr.stag = k.mr->stag;                   /* it allows remote write, but not group write */
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	end_until(&b, "rx_access", 1);

	wr.opcode = DIW_WR_READ;
	wr.stag = k.mr->stag;
	wr.flags = DIW_SEND_SIGNALED;
	wr.timeout_ns = 50 * DIW_MS;
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	end_until(&b, "rx_group", 1);
	ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_TIMEOUT);
	ck_assert_uint_eq(end_counter(&b, "read_answered"), 0);
	ck_assert_uint_eq(end_counter(&b, "error_tx"), 0);
	ck_assert_int_eq(diw_qp_error_get(a.qp, &e), -EAGAIN);

	/* The same message to the queue pair's own address is executed. */
	wr.timeout_ns = KIT_LIMIT;
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", b.addr.port, &wr.dst.addr), 0);
	ck_assert_int_eq(diw_post_send(a.qp, &wr, NULL), 0);
	ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	close_ends();
}
END_TEST

Suite *suite_broadcast(void)
{
	Suite *s = suite_create("broadcast");
	TCase *tc = tcase_create("broadcast");

	tcase_add_test(tc, not_answered);
	suite_add_tcase(s, tc);
	return s;
}
