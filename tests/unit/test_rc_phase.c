/* SPDX-License-Identifier: BSD-2-Clause */
/* The phases of an RC queue pair (verbs/rc_phase.c): the table, and the paths through it by calls and peers. */
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"
#include "verbs/qp.h"

static struct pair p;

static bool leads(enum diw_rc_phase from, enum diw_rc_phase to)
{
	return diw_rc_phases[from].next >> to & 1;
}

static unsigned reachable(unsigned from)
{
	unsigned all = from;

	for (int i = 0; i < DIW_RC_PHASES; i++)
		for (int phase = 0; phase < DIW_RC_PHASES; phase++)
			if (all >> phase & 1)
				all |= diw_rc_phases[phase].next;
	return all;
}

START_TEST(test_table)
{
	const unsigned all = (1u << DIW_RC_PHASES) - 1;

	ck_assert_uint_eq(reachable(1u << DIW_RC_IDLE), all);
	for (enum diw_rc_phase from = 0; from < DIW_RC_PHASES; from++) {
		const struct diw_rc_phase_info *f = &diw_rc_phases[from];

		ck_assert_msg(f->name && leads(from, DIW_RC_IDLE), "phase %d", (int)from);
		for (enum diw_rc_phase to = 0; to < DIW_RC_PHASES; to++) {
			const struct diw_rc_phase_info *t = &diw_rc_phases[to];

			if (!leads(from, to) || to == DIW_RC_IDLE)
				continue;
			/* States only advance, and an ended queue pair stays so. */
			ck_assert_msg(t->state >= f->state, "%s to %s", f->name, t->name);
			if (f->traits & DIW_RC_IS_SHUT && t->state != DIW_QPS_ERROR)
				ck_assert_msg(t->traits & DIW_RC_IS_SHUT, "%s to %s", f->name, t->name);
			if (f->traits & DIW_RC_PEER_ENDED && t->state != DIW_QPS_ERROR)
				ck_assert_msg(t->traits & DIW_RC_PEER_ENDED, "%s to %s", f->name, t->name);
		}
	}
}
END_TEST

static enum diw_rc_phase phase_of(const struct end *e)
{
	struct diw_engine *engine = &e->qp->dev->engine;
	enum diw_rc_phase phase;

	ck_assert_int_eq(diw_engine_lock(engine), 0);
	phase = e->qp->rc.phase;
	ck_assert_int_eq(e->qp->state, diw_rc_phases[phase].state);
	diw_engine_unlock(engine);
	return phase;
}

static void until_phase(const struct end *e, enum diw_rc_phase phase)
{
	for (int i = 0; i < 5000 && phase_of(e) != phase; i++)
		sleep_ms(1);
	ck_assert_str_eq(diw_rc_phases[phase_of(e)].name, diw_rc_phases[phase].name);
}

/* The initiator sends nothing: the responder waits for its first FPDU, and ends its half without it. */
START_TEST(test_disconnect)
{
	struct diw_conn_attr conn = DIW_CONN_ATTR_INIT;

	conn.rtr = 0;
	pair_open(&p, NULL, &conn);
	until_phase(&p.a, DIW_RC_OPEN);
	until_phase(&p.b, DIW_RC_HELD);
	ck_assert_int_eq(diw_disconnect(p.b.qp), 0);
	until_phase(&p.b, DIW_RC_DOWN);
	until_phase(&p.a, DIW_RC_DOWN);
	ck_assert_int_eq(diw_qp_reset(p.a.qp), 0);
	until_phase(&p.a, DIW_RC_IDLE);
	pair_close(&p);
}
END_TEST

START_TEST(test_abort_keeps_nothing)
{
	struct diw_qp_attr attr;

	rc_attr(&attr);
	attr.rc.keep_recvs = true;
	pair_open(&p, &attr, NULL);
	until_phase(&p.b, DIW_RC_OPEN);
	ck_assert_int_eq(diw_abort(p.a.qp), 0);
	until_phase(&p.a, DIW_RC_DOWN);
	until_phase(&p.b, DIW_RC_KEPT);
	ck_assert_int_eq(diw_leave(p.b.qp), 0);
	until_phase(&p.b, DIW_RC_DOWN);
	pair_close(&p);
}
END_TEST

Suite *suite_rc_phase(void)
{
	Suite *s = suite_create("rc_phase");
	TCase *t = tcase_create("rc_phase");

	tcase_add_test(t, test_table);
	tcase_add_test(t, test_disconnect);
	tcase_add_test(t, test_abort_keeps_nothing);
	suite_add_tcase(s, t);
	return s;
}
