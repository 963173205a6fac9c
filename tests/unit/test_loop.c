/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread of the ABI libraries (verbs/host/loop.c) in a program that closes its descriptors. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/host/loop.h"

#define DUE (40 * DIW_MS)

/* A loop whose memory is written over when it ends. */
struct owner {
	pthread_mutex_t lock;
	struct diw_loop loop;
	struct diw_watch watch[2];
	atomic_int calls;
};

static void count_call(struct diw_watch *w, uint64_t now)
{
	struct owner *o = diw_container(w, struct owner, watch[0]);

	(void)now;
	atomic_fetch_add(&o->calls, 1);
}

static void ignore_call(struct diw_watch *w, uint64_t now)
{
	(void)w;
	(void)now;
}

static struct owner *owner_new(void)
{
	struct owner *o = malloc(sizeof *o);

	memset(o, 0, sizeof *o);
	pthread_mutex_init(&o->lock, NULL);
	o->loop = (struct diw_loop)DIW_LOOP_INIT(o->loop, &o->lock);
	o->watch[0] = (struct diw_watch)DIW_WATCH_INIT(o->watch[0], -1, count_call);
	o->watch[1] = (struct diw_watch)DIW_WATCH_INIT(o->watch[1], -1, ignore_call);
	return o;
}

static void watch_add(struct owner *o, int i)
{
	pthread_mutex_lock(&o->lock);
	ck_assert_int_eq(diw_loop_add(&o->loop, &o->watch[i]), 0);
	pthread_mutex_unlock(&o->lock);
}

static void owner_end(struct owner *o)
{
	struct diw_loop_thread *t;

	pthread_mutex_lock(&o->lock);
	t = diw_loop_stop(&o->loop);
	pthread_mutex_unlock(&o->lock);
	diw_loop_join(t);
	memset(o, 0, sizeof *o);                /* as free() and a new object may */
	o->loop.lock = (pthread_mutex_t *)(uintptr_t)1;
}

START_TEST(called)
{
	struct owner *o = owner_new();

	watch_add(o, 0);
	for (int i = 1; i <= 3; i++) {
		diw_loop_call(&o->loop, &o->watch[0], 1);
		KIT_UNTIL(atomic_load(&o->calls) == i);
	}
	owner_end(o);
	free(o);
}
END_TEST

/* Writes down which descriptors are open, or closes those that were not. */
static void close_new(bool down)
{
	static bool was[1024];

	for (int fd = 0; fd < 1024; fd++) {
		if (down)
			was[fd] = fcntl(fd, F_GETFD) >= 0;
		else if (!was[fd])
			syscall(SYS_close, fd);         /* ThreadSanitizer knows that a thread uses it */
	}
}

/* The thread cannot be woken, so it is not joined. It wakes by its timeout, when its loop is no more. */
START_TEST(closed)
{
	for (int round = 0; round < 3; round++) {
		struct owner *o = owner_new();

		close_new(true);
		watch_add(o, 0);
		diw_loop_call(&o->loop, &o->watch[0], diw_clock_ns() + (round ? (uint64_t)DUE : 1));
		sleep_ms(5);
		close_new(false);
		if (round == 2)                 /* another thread does the work of that one */
			watch_add(o, 1);
		owner_end(o);
		sleep_ms(3 * (int)(DUE / DIW_MS));
		ck_assert_ptr_eq(o->loop.lock, (void *)(uintptr_t)1);
		free(o);
	}
}
END_TEST

Suite *suite_loop(void)
{
	Suite *s = suite_create("loop");
	TCase *tc = tcase_create("loop");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, called);
	tcase_add_test(tc, closed);
	suite_add_tcase(s, tc);
	return s;
}
