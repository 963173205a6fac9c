/* SPDX-License-Identifier: BSD-2-Clause */
/* Group datagrams under load, with impairment, with threads that begin and end, and with fork(2). */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "tests/unit/group_kit.h"
#include "tests/unit/unit.h"

/* A flood to a group does not delay datagrams to the device's queue pairs. */
START_TEST(flooded)
{
	struct kit inl;
	struct end e[2];
	struct diw_qp_attr attr;
	struct diw_wc wc;
	char junk[1000] = "";
	int steps = 0;

	attr_of(&attr);
	kit_open(&inl, DIW_PROGRESS_INLINE);
	for (int i = 0; i < 2; i++)
		end_open(&e[i], &inl, &attr, 16);
	ck_assert_int_eq(diw_qp_attach(e[0].qp, &group), 0);
	ck_assert_int_eq(end_recv(&e[1], 0, AREA, 1), 0);
	bare(&group, junk, sizeof junk, 1000);
	ck_assert_int_eq(post(DIW_WR_SEND, &e[1].addr, 10), 0);
	end_sent(&from);
	sleep_ms(50);                   /* until the kernel has delivered it */
	while (diw_cq_poll(e[1].rcq, &wc, 1, 0) == 0)
		ck_assert_int_lt(++steps, 100);
	ck_assert_uint_lt(end_counter(&e[0], "rx_crc"), 500);
	end_close(&e[0]);
	end_close(&e[1]);
	kit_close(&inl);
}
END_TEST

/* The number of datagrams whose fate is known. */
static uint64_t fates(struct end *e)
{
	return end_counter(e, "rx_messages") + end_counter(e, "rx_crc") + end_counter(e, "impair_lost");
}

/* The impairment of a queue pair delays, cuts and duplicates a group's bursts like its own. A burst's memory is not
 * valid any more when the next one comes, and a delayed datagram keeps its group. Nothing is polled until all have
 * come. */
START_TEST(impaired)
{
	static const char *const spec[] = { "rx.loss=30%,seed=3", "rx.reorder=20%,rx.dup=20%,rx.corrupt=10%,seed=4",
					    "rx.delay=2ms,seed=5" };
	const uint32_t each = 100, n = 200, room = each + 40;
	int seen[256] = { 0 }, got;
	uint64_t begun;
	struct diw_qp_attr attr;
	struct diw_wc wc;
	struct kit inl;
	struct end e;

	attr_of(&attr);
	attr.impair = spec[_i];
	attr.rq_depth = 2 * n;
	attr.dgram.grh = true;
	kit_open(&inl, DIW_PROGRESS_INLINE);
	end_open(&e, &inl, &attr, 1024);
	for (uint32_t i = 0; i < 2 * n; i++)
		ck_assert_int_eq(end_recv(&e, i * room, room, i), 0);
	ck_assert_int_eq(diw_qp_attach(e.qp, &group), 0);
	for (uint32_t i = 0; i < n; i++) {
		struct diw_sge sge = { far.mem + 4 * AREA + i * each, each, far.mr->stag };
		struct diw_send_wr wr = { .sge = &sge, .num_sge = 1, .dst.addr = group, .qkey = QKEY,
					  .flags = DIW_SEND_MORE };

		memset(sge.addr, (int)i, each);
		if (i % 20 == 19)
			wr.flags = 0;
		ck_assert_int_eq(diw_post_send(from.qp, &wr, NULL), 0);
	}
	end_sent(&from);
	begun = diw_clock_ns();
	while ((got = diw_cq_poll(e.rcq, &wc, 1, 50 * DIW_MS)) == 1 ||
	       (fates(&e) < n + end_counter(&e, "impair_duplicated") && diw_clock_ns() - begun < (uint64_t)KIT_LIMIT)) {
		const uint8_t *p = inl.mem + wc.wr_id * room;

		if (!got)
			continue;
		ck_assert_uint_eq(wc.byte_len, room);
		ck_assert_mem_eq(p + 36, group.ip + 12, 4);
		for (uint32_t i = 1; i < each; i++)
			ck_assert_int_eq(p[40 + i], p[40]);
		ck_assert_int_le(++seen[p[40]], _i == 1 ? 2 : 1);
	}
	ck_assert_uint_eq(fates(&e), n + end_counter(&e, "impair_duplicated"));
	ck_assert_uint_ge(end_counter(&e, "rx_messages"), n / 2);
	ck_assert_uint_eq(end_counter(&e, "rx_crc"), end_counter(&e, "impair_corrupted"));
	end_close(&e);
	kit_close(&inl);
}
END_TEST

static void *attach_later(void *arg)
{
	(void)arg;
	sleep_ms(30);
	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	send_group("awake");
	return NULL;
}

/* Sleeping threads, the progress thread or a waiter, learn of the new port; with few queue pairs and with many. */
START_TEST(sleepers)
{
	uint64_t begun, waiter = DIW_NEVER, thread = DIW_NEVER;
	struct end more[8];
	pthread_t t;

	for (int i = 0; i < 8 && _i; i++)
		end_open(&more[i], &k, NULL, 16);
	for (uint64_t i = 0; i < 10 && (waiter >= DIW_S / 2 || thread >= DIW_S / 2); i++) {
		begun = diw_clock_ns();
		recv_in(0, 0);
		pthread_create(&t, NULL, attach_later, NULL);
		expect(0, "awake");
		waiter = diw_min64(waiter, diw_clock_ns() - begun);
		pthread_join(t, NULL);
		recv_in(0, 0);
		sleep_ms(20);           /* the progress thread sleeps by then */
		begun = diw_clock_ns();
		send_group("passive");
		end_until(&to[0], "rx_messages", 2 * i + 2);
		thread = diw_min64(thread, diw_clock_ns() - begun);
		expect(0, "passive");
		ck_assert_int_eq(diw_qp_detach(to[0].qp, &group), 0);
	}
	ck_assert_uint_lt(waiter, DIW_S / 2);   /* a second later both wake for the counters */
	ck_assert_uint_lt(thread, DIW_S / 2);
	for (int i = 0; i < 8 && _i; i++)
		end_close(&more[i]);
}
END_TEST

static atomic_bool stop;

static void *in_and_out(void *arg)
{
	struct end *e = arg;

	while (!atomic_load(&stop)) {
		ck_assert_int_eq(diw_qp_attach(e->qp, &group), 0);
		ck_assert_int_eq(diw_qp_detach(e->qp, &group), 0);
	}
	return NULL;
}

static void *look(void *arg)
{
	struct end *e = arg;
	struct diw_wc wc[8];

	while (!atomic_load(&stop))
		diw_cq_wait(e->rcq, wc, 8, (int64_t)DIW_MS);
	return NULL;
}

/* The port is opened and closed while threads sleep on it. */
START_TEST(restless)
{
	pthread_t t[4];

	atomic_store(&stop, false);
	for (int i = 0; i < 2; i++) {
		pthread_create(&t[2 * i], NULL, in_and_out, &to[i]);
		pthread_create(&t[2 * i + 1], NULL, look, &to[i]);
	}
	for (int i = 0; i < 200; i++) {
		end_recv(&to[0], 0, AREA, 0);
		end_recv(&to[1], 0, AREA, 0);
		send_group("now or never");
		sleep_ms(1);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(memberships(), 0);
}
END_TEST

/* A child's handles do not work; the parent continues. */
START_TEST(forked)
{
	int status;
	pid_t pid;

	ck_assert_int_eq(diw_qp_attach(to[0].qp, &group), 0);
	pid = fork();
	if (pid == 0) {
		struct diw_addr a = named("239.192.71.5", 0);
		int rc = diw_qp_attach(to[0].qp, &a), rc2 = diw_qp_detach(to[0].qp, &group);

		diw_qp_destroy(to[0].qp);
		diw_dev_close(k.dev);
		_exit(rc == -ENODEV && rc2 == -ENODEV ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(memberships(), 1);
	recv_in(0, 0);
	send_group("parent");
	expect(0, "parent");
}
END_TEST

Suite *suite_group_life(void)
{
	Suite *s = suite_create("group_life");
	TCase *tc = tcase_create("group_life");

	suite_add_tcase(s, tc);
	if (!kernel_can_own_network()) {
		printf("SKIP: group_life: no network namespace\n");
		return s;
	}
	tcase_set_timeout(tc, 20);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, flooded);
	tcase_add_loop_test(tc, impaired, 0, 3);
	tcase_add_loop_test(tc, sleepers, 0, 2);
	tcase_add_test(tc, restless);
	tcase_add_test(tc, forked);
	return s;
}
