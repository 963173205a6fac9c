/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams between two ends of which one has forgotten the other, has given it up, or has restarted, and the
 * other end does not know yet. */
#include <errno.h>
#include <string.h>

#include "tests/sim/rd_app.h"

/* Node FIRST sends, and then the other. All of it arrives within a second. */
static void talk(int first)
{
	for (int i = 0; i < 2; i++) {
		int from = i ? !first : first;
		uint32_t came = rda_app[!from].from[from].came, acked = rda_flow(from, !from)->acked;

		ck_assert_uint_eq(rda_send_all(from, !from, 3, 100), 3);
		rda_run(DIW_S);
		ck_assert_uint_eq(rda_app[!from].from[from].came, came + 3);
		ck_assert_uint_eq(rda_flow(from, !from)->acked, acked + 3);
	}
}

/* No message has failed, and neither end was told that the other one is gone. */
static void nothing_was_lost(void)
{
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(rda_flow(i, !i)->failed, 0);
		ck_assert_uint_eq(rda_app[i].from[!i].gone, 0);
	}
}

/* Two nodes that were silent until exactly one has forgotten the other. Returns that one. */
static int one_forgets(void)
{
	rda_begin(2);
	talk(0);
	while (!rda_net.node[0].c.rd_forgotten && !rda_net.node[1].c.rd_forgotten)
		rda_run(10 * DIW_MS);
	return rda_net.node[1].c.rd_forgotten && !rda_net.node[0].c.rd_forgotten;
}

START_TEST(a_forgotten_end_speaks_first)
{
	int forgot = one_forgets();

	talk(!forgot);
	nothing_was_lost();
	rdn_free(&rda_net);
}
END_TEST

START_TEST(an_end_that_forgot_speaks_first)
{
	int forgot = one_forgets();

	talk(forgot);
	nothing_was_lost();
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_views(void)
{
	TCase *tc = tcase_create("views");

	tcase_add_loop_test(tc, a_forgotten_end_speaks_first, 0, 10);
	tcase_add_loop_test(tc, an_end_that_forgot_speaks_first, 0, 10);
	tcase_set_timeout(tc, 60);
	return tc;
}
