/* SPDX-License-Identifier: BSD-2-Clause */
/* Many queue pairs of a device: few are polled one by one, many through an epoll set, and all get their turn. */
#include <check.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/engine/engine.h"

#define MANY 24

static struct kit k, far;
static struct end from, to[MANY];

static void open_kits(enum diw_progress progress)
{
	kit_open(&k, progress);
	kit_open(&far, DIW_PROGRESS_THREAD);
	end_open(&from, &far, NULL, 64);
}

static void close_kits(void)
{
	end_close(&from);
	kit_close(&far);
	kit_close(&k);
}

static void expect_write(struct end *e, bool spin)
{
	struct diw_wc wc;

	ck_assert_int_eq(end_write(&from, e, 0, 100, 0), 0);
	if (spin)
		ck_assert_int_eq(diw_cq_poll(e->rcq, &wc, 1, KIT_LIMIT), 1);
	else
		ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_ptr_eq(wc.qp, e->qp);
	ck_assert_uint_eq(wc.byte_len, 100);
}

/* For any number of queue pairs, created in any order, each receives its datagrams. */
START_TEST(come_and_go)
{
	open_kits(DIW_PROGRESS_THREAD);
	for (int n = 0; n < MANY; n++) {
		end_open(&to[n], &k, NULL, 64);
		for (int i = 0; i <= n; i++)
			expect_write(&to[i], i % 2);
	}
	for (int n = 0; n < MANY; n++) {
		end_close(&to[n]);
		for (int i = n + 1; i < MANY; i++)
			expect_write(&to[i], i % 2);
	}
	close_kits();
}
END_TEST

/* The time in which a progress thread that was asleep reads from all of them. */
static uint64_t passive_reads(void)
{
	uint64_t took;

	open_kits(DIW_PROGRESS_THREAD);
	sleep_ms(20);                   /* until it sleeps */
	for (int i = 0; i < MANY; i++) {
		end_open(&to[i], &k, NULL, 64);
		sleep_ms(1);
	}
	took = diw_clock_ns();
	for (int i = 0; i < MANY; i++)
		ck_assert_int_eq(end_write(&from, &to[i], 0, 100, 0), 0);
	for (int i = 0; i < MANY; i++)
		end_until(&to[i], "record_complete", 1);
	took = diw_clock_ns() - took;
	ck_assert_uint_gt(end_counter(&to[0], "thread_receives"), 0);
	ck_assert_uint_eq(end_counter(&from, "thread_receives"), 0);
	for (int i = 0; i < MANY; i++)
		end_close(&to[i]);
	close_kits();
	return took;
}

/* No thread polls or waits: the datagrams wake the progress thread, before it wakes for the counters a second later. */
START_TEST(passive)
{
	uint64_t took = DIW_NEVER;

	for (int i = 0; i < 10 && took >= DIW_S / 2; i++)
		took = passive_reads();
	ck_assert_uint_lt(took, DIW_S / 2);
}
END_TEST

static void flood(const struct diw_addr *dst, int n)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(dst, &ss);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char junk[1000] = "";

	ck_assert_int_ge(fd, 0);
	while (n--)
		ck_assert_int_eq(sendto(fd, junk, sizeof junk, 0, (struct sockaddr *)&ss, len), sizeof junk);
	close(fd);
}

/* One queue pair has a thousand datagrams waiting, the others one each: the latter are not delayed. */
START_TEST(flooded)
{
	int n = _i ? MANY : 3, left = n - 1;
	struct diw_wc wc;

	open_kits(DIW_PROGRESS_INLINE);
	for (int i = 0; i < n; i++)
		end_open(&to[i], &k, NULL, 64);
	flood(&to[0].addr, 1000);
	for (int i = 1; i < n; i++)
		ck_assert_int_eq(end_write(&from, &to[i], 0, 100, 0), 0);
	end_sent(&from);
	sleep_ms(50);                   /* until the kernel has delivered it */
	for (int steps = 0; left; steps++) {
		ck_assert_int_lt(steps, 10 * n);
		for (int i = 1; i < n; i++)
			left -= diw_cq_poll(to[i].rcq, &wc, 1, 0);
	}
	ck_assert_uint_lt(end_counter(&to[0], "rx_datagrams"), 500);
	for (int i = 0; i < n; i++)
		end_close(&to[i]);
	close_kits();
}
END_TEST

/* The steps in which a queue pair of this type receives N datagrams that wait in its socket. */
static int steps_for(enum diw_qp_type type, unsigned n)
{
	struct diw_qp_attr a = DIW_QP_ATTR_INIT;
	struct end *e = &to[0];
	struct diw_wc wc;
	int steps = 0;

	a.type = type;
	setenv("DIWARP_LLP", "udp", 1);
	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(e, &k, &a, 64);
	flood(&e->addr, (int)n);
	sleep_ms(50);
	for (; end_counter(e, "rx_datagrams") < n; steps++) {
		ck_assert_int_lt(steps, 1000);
		ck_assert_int_eq(diw_cq_poll(e->rcq, &wc, 1, 0), 0);
	}
	end_close(e);
	kit_close(&k);
	return steps;
}

/* A step that has not emptied the socket is followed by one that receives more: 1, 2, 4, 8, then 16 datagrams. UD
 * receives one, since a message that finds no receive is dropped. */
START_TEST(drains)
{
	ck_assert_int_eq(steps_for(DIW_QP_RD, 15 + 10 * 16), 14);
	ck_assert_int_eq(steps_for(DIW_QP_UD, 165), 165);
}
END_TEST

/* A request that waits for another post leaves at a poll, also when the descriptors are in an epoll set. */
START_TEST(polls_send)
{
	struct diw_wc wc;

	kit_open(&k, _i ? DIW_PROGRESS_INLINE : DIW_PROGRESS_THREAD);
	for (int i = 0; i < MANY; i++)
		end_open(&to[i], &k, NULL, 64);
	for (int i = 0; i < MANY; i++) {
		ck_assert_int_eq(end_recv(&to[0], 0, 100, (uint64_t)i), 0);
		ck_assert_int_eq(end_send(&to[i], &to[0], 100, 100, DIW_SEND_MORE), 0);
		ck_assert_int_eq(diw_cq_poll(to[0].rcq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_uint_eq(wc.wr_id, (uint64_t)i);
	}
	ck_assert_int_eq(end_send(&to[1], &to[0], 100, 100, DIW_SEND_MORE), 0);
	for (int i = 0; i < MANY; i++)          /* one of them ends with a request that has not left */
		end_close(&to[i]);
	kit_close(&k);
}
END_TEST

/* In front of a sleep the descriptors are not read, but what was posted is sent. */
START_TEST(waits_unread)
{
	struct end *e = &to[0];
	struct diw_wc wc;
	int before;

	setenv("DIWARP_LLP", "udp", 1);         /* a ring receives without calls */
	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(e, &k, NULL, 64);
	ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, 5 * DIW_MS), 0);
	before = kernel_receives;
	ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, 5 * DIW_MS), 0);
	ck_assert_int_eq(kernel_receives - before, 1);  /* the last look */
	ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, 0), 0);
	ck_assert_int_eq(kernel_receives - before, 2);
	ck_assert_int_eq(end_recv(e, 0, 100, 7), 0);
	ck_assert_int_eq(end_send(e, e, 100, 100, DIW_SEND_MORE), 0);
	ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.wr_id, 7);
	end_close(e);
	kit_close(&k);
}
END_TEST

/* ---- Members without queue pairs ---- */

#define FEW 64
#define MEMBERS 16384
#define STEPS 100

static struct diw_engine engine;
static int served;

static bool idle_serve(struct diw_member *m, uint64_t now)
{
	(void)now;
	served++;
	m->starved = false;
	diw_engine_due_at(&engine, m, DIW_NEVER);
	return false;
}

static const struct diw_member_ops idle_ops = { .serve = idle_serve };

static uint64_t engine_clock(void *ctx)
{
	(void)ctx;
	return diw_clock_ns();
}

static void step_serves(int n)
{
	served = 0;
	diw_engine_step(&engine, diw_clock_ns());
	ck_assert_int_eq(served, n);
}

/* The time of STEPS steps, each with one member to serve, one due and the next starved. FEW members take turns. */
static uint64_t steps_time(struct diw_member *m)
{
	uint64_t begin = diw_clock_ns();

	served = 0;
	for (int i = 0; i < STEPS; i++) {
		if (i % 2)
			diw_engine_starve(&engine, &m[i % FEW]);
		else
			diw_engine_due_at(&engine, &m[i % FEW], 0);
		diw_engine_recheck(&engine);
		diw_engine_step(&engine, diw_clock_ns());
	}
	begin = diw_clock_ns() - begin;
	ck_assert_int_eq(served, STEPS);
	return begin;
}

/* Adds members until there are N. A new member is served once. Returns the least of some times of steps. */
static uint64_t steps_with(struct diw_member *m, int n)
{
	uint64_t least = DIW_NEVER;
	int have = engine.nturn;

	for (int i = have; i < n; i++) {
		m[i].ops = &idle_ops;
		ck_assert_int_eq(diw_engine_add(&engine, &m[i]), 0);
	}
	step_serves(n - have);
	step_serves(0);
	for (int i = 0; i < 20; i++)
		least = diw_min64(least, steps_time(m));
	return least;
}

/* A step serves only the member that is due or starved, and does not look at the others: 256 times as many
 * members do not make it eight times as long. */
START_TEST(idle_members)
{
	struct diw_member *m = calloc(MEMBERS, sizeof *m);
	uint64_t few, many;

	ck_assert_ptr_nonnull(m);
	diw_engine_init(&engine, engine_clock, NULL);
	ck_assert_int_eq(diw_engine_open(&engine, false, false), 0);
	few = steps_with(m, FEW);
	many = steps_with(m, MEMBERS);
	ck_assert_uint_lt(many, 8 * few);
	for (int i = 0; i < MEMBERS; i++)
		diw_engine_remove(&engine, &m[i]);
	diw_engine_fini(&engine);
	free(m);
}
END_TEST

Suite *suite_ready(void)
{
	Suite *s = suite_create("ready");
	TCase *tc = tcase_create("ready");

	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, come_and_go);
	tcase_add_test(tc, passive);
	tcase_add_loop_test(tc, flooded, 0, 2);
	tcase_add_test(tc, drains);
	tcase_add_loop_test(tc, polls_send, 0, 2);
	tcase_add_test(tc, waits_unread);
	tcase_add_test(tc, idle_members);
	suite_add_tcase(s, tc);
	return s;
}
