/* SPDX-License-Identifier: BSD-2-Clause */
/* One connection, several threads. */
#include <errno.h>
#include <pthread.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"

#define HALF (KIT_SIZE / 2)

static struct pair p;

static void open_all(void)
{
	pair_open(&p, NULL, NULL);
}

static void close_all(void)
{
	pair_close(&p);
}

#define POSTS 20000

static _Atomic uint32_t posted;

static void *post_many(void *arg)
{
	struct end *e = arg;

	for (int i = 0; i < POSTS;) {
		struct diw_send_wr wr = { .opcode = DIW_WR_SEND };
		int rc = rc_post(&p, e, &wr, 0, 100);

		if (rc == -ENOMEM)
			continue;
		ck_assert_int_eq(rc, 0);
		posted++;
		i++;
	}
	return NULL;
}

static void *close_some_time(void *arg)
{
	struct end *e = arg;

	while (posted < POSTS)
		sleep_ms(1);
	ck_assert_int_eq(diw_disconnect(e->qp), 0);
	return NULL;
}

/* Two threads post, one polls, one closes at some time: each request completes once, the first ones successfully, then
 * all flushed. */
START_TEST(threads)
{
	pthread_t post[2], close;
	uint32_t done = 0, good = 0, received = 0;
	struct diw_wc wc[16];
	bool flushed = false;

	posted = 0;
	for (uint64_t i = 0; i < 64; i++)
		rc_recv(&p, &p.b, HALF, 100, i);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&post[i], NULL, post_many, &p.a), 0);
	ck_assert_int_eq(pthread_create(&close, NULL, close_some_time, &p.a), 0);
	while (done < 2 * POSTS) {
		int n = diw_cq_poll(p.a.scq, wc, 16, 0), r;

		for (int i = 0; i < n; i++) {
			ck_assert_int_eq(wc[i].status, flushed ? DIW_WC_FLUSHED : wc[i].status);
			flushed |= wc[i].status == DIW_WC_FLUSHED;
			good += wc[i].status == DIW_WC_SUCCESS;
		}
		done += (uint32_t)n;
		r = diw_cq_poll(p.b.rcq, wc, 16, 0);
		for (int i = 0; i < r; i++) {
			received += wc[i].status == DIW_WC_SUCCESS;
			if (wc[i].status == DIW_WC_SUCCESS)
				rc_recv(&p, &p.b, HALF, 100, 0);
		}
	}
	for (int i = 0; i < 2; i++)
		pthread_join(post[i], NULL);
	pthread_join(close, NULL);
	while (received < good && diw_cq_wait(p.b.rcq, wc, 1, KIT_LIMIT) == 1) {
		received += wc[0].status == DIW_WC_SUCCESS;
		if (wc[0].status == DIW_WC_SUCCESS)
			rc_recv(&p, &p.b, HALF, 100, 0);
	}
	ck_assert_uint_ge(good, POSTS);
	ck_assert_uint_eq(received, good);
	ck_assert_int_eq(diw_cq_poll(p.a.scq, wc, 1, 0), 0);
}
END_TEST

Suite *suite_rc_threads(void)
{
	Suite *s = suite_create("rc_threads");
	TCase *t = tcase_create("threads");

	tcase_add_checked_fixture(t, open_all, close_all);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, threads);
	suite_add_tcase(s, t);
	return s;
}
