/* SPDX-License-Identifier: BSD-2-Clause */
/* The alarm of short sleeps (verbs/engine/sleep.c): it ends each sleep in time and none of them early, and is set
 * seldom. Also: polls that follow each other closely end the absence of the program (verbs/engine/wake.c). */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/qp.h"

#define WAIT (15 * DIW_MS)
#define PAUSE_US 100
#define RECVS 8                          /* posted at a time: more messages at a time would be lost */

static struct kit k;
static struct end a, b;
static atomic_int alarms;            /* calls */

int timerfd_settime(int fd, int flags, const struct itimerspec *in, struct itimerspec *old)
{
	static int (*real)(int, int, const struct itimerspec *, struct itimerspec *);

	if (!real)
		real = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT,
											    "timerfd_settime");
	alarms++;
	return real(fd, flags, in, old);
}

static atomic_bool socket_closed;    /* the first descriptor of a sleep, as another thread may close it */
static atomic_int pauses;            /* sleeps without a descriptor */

int ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	typedef int call(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
	static call *_Atomic real;
	int rc;

	if (!real)
		real = (call *)dlsym(RTLD_NEXT, "ppoll");
	pauses += n == 0;
	rc = real(p, n, ts, mask);
	if (n > 1 && rc >= 0 && socket_closed) {
		p[0].revents = POLLNVAL;
		return rc + 1;
	}
	return rc;
}

/* An earlier alarm, or one that is set for later, changes no timeout. */
START_TEST(timeouts_are_kept)
{
	static const int64_t ms[] = { 3, 8, 1, 15, 2, 50, 1, 4, 30, 19, 1 };
	struct diw_wc wc;

	kit_open(&k, _i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 64);
	for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
		uint64_t began = diw_clock_ns(), took;

		ck_assert_int_eq(diw_cq_wait(a.rcq, &wc, 1, ms[i] * (int64_t)DIW_MS), 0);
		took = diw_clock_ns() - began;
		ck_assert_uint_ge(took, (uint64_t)ms[i] * DIW_MS);
		ck_assert_uint_lt(took, (uint64_t)ms[i] * DIW_MS + KIT_LIMIT / 10);
	}
	end_close(&a);
	kit_close(&k);
}
END_TEST

/* ---- With messages ---- */

static atomic_int taken;                 /* messages for which a receive is posted again */

/* Sends ARG messages from a to b, at least PAUSE_US apart. */
static void *sender(void *arg)
{
	for (int i = 0; i < *(int *)arg; i++) {
		do
			usleep(PAUSE_US);
		while (i - atomic_load(&taken) >= RECVS);
		ck_assert_int_eq(end_send(&a, &b, 0, 64, 0), 0);
	}
	return NULL;
}

/* Receives N messages, each with one sleep of at most WAIT. Returns the time. */
static uint64_t receive(int n)
{
	uint64_t began = diw_clock_ns();
	struct diw_wc wc;
	pthread_t t;

	atomic_store(&taken, 0);
	ck_assert_int_eq(pthread_create(&t, NULL, sender, &n), 0);
	for (int got = 0; got < n;) {
		int more = diw_cq_wait(b.rcq, &wc, 1, WAIT);

		got += more;
		if (more)
			ck_assert_int_eq(end_recv(&b, 0, 64, 1), 0);
		atomic_store(&taken, got);
	}
	pthread_join(t, NULL);
	return diw_clock_ns() - began;
}

static void open_ends(void)
{
	kit_open_ends(&k, &a, &b);
	for (int i = 0; i < RECVS; i++)
		ck_assert_int_eq(end_recv(&b, 0, 64, 1), 0);
}

/* A sleep of WAIT ends early by a message. The next one ends before the alarm of the first. On a busy machine it may
 * last longer, but not each time. */
START_TEST(a_shorter_one_next)
{
	uint64_t began, least = DIW_NEVER;
	struct diw_wc wc;

	open_ends();
	for (int i = 0; i < 10; i++) {
		receive(1);
		began = diw_clock_ns();
		ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, (int64_t)DIW_MS), 0);
		least = diw_min64(least, diw_clock_ns() - began);
	}
	ck_assert_uint_ge(least, DIW_MS);
	ck_assert_uint_lt(least, WAIT / 2);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* An alarm covers all sleeps that begin within WAIT. */
START_TEST(set_seldom)
{
	uint64_t took;

	open_ends();
	alarms = 0;
	took = receive(300);
	ck_assert_int_ge(alarms, 1);
	ck_assert_uint_le((uint64_t)alarms, 3 + 2 * took / WAIT);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* The end of a connection closes a socket on which another thread is about to sleep. That is no program that closes all
 * descriptors, for which a thread pauses. */
START_TEST(a_closed_socket)
{
	struct diw_wc wc;

	kit_open(&k, _i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 64);
	pauses = 0;
	socket_closed = true;
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(diw_cq_wait(a.rcq, &wc, 1, 100 * DIW_US), 0);
	socket_closed = false;
	ck_assert_int_eq(pauses, 0);
	end_close(&a);
	kit_close(&k);
}
END_TEST

/* A program that armed, and polls, is back only when it has polled closely for 2 ms. */
START_TEST(polls_behind_the_arming)
{
	struct diw_engine *e;
	uint64_t now = DIW_S;

	kit_open(&k, DIW_PROGRESS_INLINE);
	e = &k.dev->engine;
	for (int gap = 1; gap <= 200; gap += 199) {
		diw_engine_hand_over(e);
		for (int us = 0; us < 1900; us += gap)
			diw_engine_app_polls(e, now += (uint64_t)gap * DIW_US);
		ck_assert(atomic_load(&e->app_away));
		diw_engine_hand_over(e);
		for (int us = 0; us < 2100; us += gap)
			diw_engine_app_polls(e, now += (uint64_t)gap * DIW_US);
		ck_assert(atomic_load(&e->app_away) == (gap > 100));
	}
	kit_close(&k);
}
END_TEST

Suite *suite_alarm(void)
{
	Suite *s = suite_create("alarm");
	TCase *t = tcase_create("alarm");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, timeouts_are_kept, 0, 2);
	tcase_add_test(t, a_shorter_one_next);
	tcase_add_test(t, set_seldom);
	tcase_add_loop_test(t, a_closed_socket, 0, 2);
	tcase_add_test(t, polls_behind_the_arming);
	suite_add_tcase(s, t);
	return s;
}
