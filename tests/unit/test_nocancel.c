/* SPDX-License-Identifier: BSD-2-Clause */
/* base/nocancel.h: where a waiting thread is cancelled. */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/nocancel.h"
#include "tests/unit/unit.h"

#define ROUNDS 2000
#define READS 50

static atomic_uint word;
static atomic_int wrong;
static atomic_bool begun;
static int zero;
static _Thread_local bool disabled;

static void cancelled(void *arg)
{
	(void)arg;
	atomic_fetch_add(&wrong, disabled);
}

/* Waits, and then makes system calls with cancellation disabled, as the libraries do. */
static void *wait_then_read(void *arg)
{
	int state;
	char c;

	pthread_cleanup_push(cancelled, NULL);
	atomic_store(&begun, true);
	diw_wait_futex(&word, 0, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	disabled = true;
	for (int i = 0; i < READS; i++)
		(void)!read(zero, &c, 1);
	disabled = false;
	pthread_setcancelstate(state, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

static void spend(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/* A thread is woken and cancelled at the same time. */
START_TEST(woken_and_cancelled)
{
	unsigned seed = 1;

#ifdef __SANITIZE_ADDRESS__
	printf("SKIP: nocancel: AddressSanitizer fails a check of its own when a thread is cancelled in an "
	       "instrumented frame\n");
	return;
#endif
	zero = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;

		atomic_store(&word, 0);
		atomic_store(&begun, false);
		ck_assert_int_eq(pthread_create(&thread, NULL, wait_then_read, NULL), 0);
		while (!atomic_load(&begun))
			sched_yield();
		spend((unsigned)rand_r(&seed) % 20000);
		atomic_store(&word, 1);
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		spend((unsigned)rand_r(&seed) % 2000);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	close(zero);
	ck_assert_int_eq(atomic_load(&wrong), 0);
}
END_TEST

Suite *suite_nocancel(void)
{
	Suite *s = suite_create("nocancel");
	TCase *t = tcase_create("default");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, woken_and_cancelled);
	suite_add_tcase(s, t);
	return s;
}
