/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs of reliable datagrams: how a program sees that another process has the address of a peer. */
#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

static struct kit k;
static struct end a, b;

static void open_rd(struct end *e, const struct diw_addr *local)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RD;
	if (local)
		attr.dgram.local = *local;
	end_open(e, &k, &attr, 64);
}

/* Sends from one end to the other. Returns the epoch in the receiver's completion. */
static uint16_t sends(struct end *from, struct end *to)
{
	struct diw_wc wc;

	ck_assert_int_eq(end_recv(to, KIT_SIZE / 2, 64, 1), 0);
	ck_assert_int_eq(end_send(from, to, 0, 64, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_cq_poll(from->scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_uint_eq(wc.epoch, 0);
	ck_assert_int_eq(diw_cq_poll(to->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	return wc.epoch;
}

static uint16_t epoch_of(struct end *e)
{
	struct diw_qp_info info;

	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	return info.epoch;
}

START_TEST(a_restarted_peer_is_renewed)
{
	uint64_t met, restarted, now;
	struct diw_addr at;

	kit_open(&k, DIW_PROGRESS_THREAD);
	open_rd(&a, NULL);
	open_rd(&b, NULL);
	ck_assert_int_eq(diw_qp_peer(a.qp, &b.addr, &met, &restarted), -ENOENT);
	ck_assert_uint_eq(sends(&a, &b), epoch_of(&a));
	ck_assert_uint_eq(sends(&b, &a), epoch_of(&b));
	ck_assert_int_eq(diw_qp_peer(a.qp, &b.addr, &met, &restarted), 0);
	ck_assert_uint_gt(met, 0);
	ck_assert_uint_eq(restarted, 0);
	at = b.addr;
	end_close(&b);
	open_rd(&b, &at);
	ck_assert_int_eq(diw_qp_peer(a.qp, &b.addr, &now, &restarted), 0);
	ck_assert_uint_eq(now, met);
	ck_assert_uint_eq(sends(&b, &a), epoch_of(&b));
	ck_assert_int_eq(diw_qp_peer(a.qp, &b.addr, &now, &restarted), 0);
	ck_assert_uint_gt(now, met);
	ck_assert_uint_eq(restarted, now);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

START_TEST(only_rd_has_associations)
{
	uint64_t met, restarted;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&a, &k, NULL, 64);
	ck_assert_int_eq(diw_qp_peer(a.qp, &a.addr, &met, &restarted), -EOPNOTSUPP);
	end_close(&a);
	kit_close(&k);
}
END_TEST

Suite *suite_rd_renewed(void)
{
	Suite *s = suite_create("rd_renewed");
	TCase *t = tcase_create("rd_renewed");

	tcase_add_test(t, a_restarted_peer_is_renewed);
	tcase_add_test(t, only_rd_has_associations);
	suite_add_tcase(s, t);
	return s;
}
