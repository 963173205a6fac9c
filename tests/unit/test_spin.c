/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread that spins (DIW_PROGRESS_SPIN): it does the work of threads that sleep, sleeps while the program
 * polls, and may begin, end, and lose a thread that it serves at any time. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/dev.h"

#define BUSY_NS (20 * DIW_MS)
#define TRIES 20
#define SLEEPERS 3
/* ThreadSanitizer ignores the calls of a thread that is cancelled in sem_wait(3), so it sees none of its locks. */
#ifdef __SANITIZE_THREAD__
#define CANCELS false
#else
#define CANCELS true
#endif

static struct kit k;
static struct end a, b;

static void open_ends(void)
{
	kit_open(&k, DIW_PROGRESS_SPIN);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 16);
}

static void send_one(void)
{
	ck_assert_int_eq(end_recv(&b, KIT_SIZE / 4, 64, 1), 0);
	ck_assert_int_eq(end_send(&a, &b, 0, 64, 0), 0);
}

static void *wait_for_one(void *arg)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, arg ? -1 : KIT_LIMIT), 1);
	return NULL;
}

/* Whether the thread spins, asked of the processor time: while the program sleeps, it takes most of a processor. */
START_TEST(it_spins_while_the_program_sleeps)
{
	uint64_t begun = cpu_ns();
	struct diw_dev_info info;
	pthread_t t;

	open_ends();
	ck_assert_int_eq(diw_dev_query(k.dev, &info), 0);
	ck_assert(info.progress_thread && info.progress_spins);
	pthread_create(&t, NULL, wait_for_one, NULL);
	KIT_UNTIL(cpu_ns() >= begun + BUSY_NS);
	send_one();
	pthread_join(t, NULL);
	kit_close_ends(&k, &a, &b);
}
END_TEST

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

/* The share of a processor that other threads of the process took while this one polled. */
static double others_share(void)
{
	uint64_t begun = diw_clock_ns(), cpu = cpu_ns(), mine = thread_cpu_ns();
	struct diw_wc wc;

	while (diw_clock_ns() < begun + BUSY_NS)
		ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 0), 0);
	mine = thread_cpu_ns() - mine;
	return (double)(cpu_ns() - cpu - mine) / (double)(diw_clock_ns() - begun);
}

START_TEST(it_sleeps_while_the_program_polls)
{
	double least = 1;

	open_ends();
	for (int i = 0; i < TRIES && least > 0.1; i++)
		least = others_share() < least ? others_share() : least;
	ck_assert(least <= 0.1);
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* A passive target is served while its program makes no calls. */
START_TEST(it_serves_a_passive_target)
{
	struct diw_wc wc;

	open_ends();
	for (int i = 0; i < TRIES; i++) {
		ck_assert_int_eq(end_read(&a, &b, 0, 4096), 0);
		ck_assert_int_eq(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

/* A thread that sleeps is cancelled; another one then gets the completion. */
START_TEST(a_follower_is_cancelled)
{
	pthread_t t;
	void *end;

	if (!CANCELS) {
		printf("SKIP: spin: ThreadSanitizer sees no locks of a thread that is cancelled\n");
		return;
	}
	open_ends();
	for (int i = 0; i < TRIES; i++) {
		pthread_create(&t, NULL, wait_for_one, &k);
		sleep_ms(i % 3);
		pthread_cancel(t);
		pthread_join(t, &end);
		ck_assert_ptr_eq(end, PTHREAD_CANCELED);
		send_one();
		wait_for_one(NULL);
	}
	kit_close_ends(&k, &a, &b);
}
END_TEST

static atomic_bool stop;

/* Takes events of the device, of which there are none, and completions of a queue that stays empty. */
static void *wait_in_vain(void *arg)
{
	struct diw_dev *dev = ((void **)arg)[0];
	struct diw_cq *cq = ((void **)arg)[1];
	struct diw_event ev;
	struct diw_wc wc;

	for (int i = 0; !atomic_load(&stop); i++) {
		if (i & 1)
			ck_assert_int_eq(diw_event_get(dev, &ev, (int64_t)DIW_MS), -EAGAIN);
		else
			ck_assert_int_eq(diw_cq_wait(cq, &wc, 1, (int64_t)DIW_MS), 0);
	}
	return NULL;
}

/* The thread lasts from the first protection domain to the last one. Threads that sleep do not depend on it. */
START_TEST(it_comes_and_goes)
{
	struct diw_dev_attr attr = { .progress = DIW_PROGRESS_SPIN };
	void *args[2];
	struct diw_dev *dev;
	struct diw_cq *cq;
	struct diw_pd *pd;
	pthread_t t[2];

	ck_assert_int_eq(diw_dev_open("diw_lo", &attr, &dev), 0);
	ck_assert_int_eq(diw_cq_create(dev, 16, NULL, NULL, &cq), 0);
	args[0] = dev, args[1] = cq;
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, wait_in_vain, args);
	for (int i = 0; i < 5 * TRIES; i++) {
		ck_assert_int_eq(diw_pd_alloc(dev, &pd), 0);
		sleep_ms(i % 4);
		ck_assert_int_eq(diw_pd_free(pd), 0);
		sleep_ms(i % 3);
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(diw_cq_destroy(cq), 0);
	ck_assert_int_eq(diw_dev_close(dev), 0);
}
END_TEST

static void *wait_for_event(void *dev)
{
	struct diw_event ev;

	diw_event_get(dev, &ev, 3 * (int64_t)DIW_S);
	return NULL;
}

/* Threads that slept before the thread began rely on it, too: not only the one that led. */
START_TEST(it_counts_threads_that_slept_before)
{
	struct diw_dev_attr attr = { .progress = DIW_PROGRESS_SPIN };
	struct diw_dev *dev;
	struct diw_pd *pd;
	pthread_t t[SLEEPERS];

	ck_assert_int_eq(diw_dev_open("diw_lo", &attr, &dev), 0);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&t[i], NULL, wait_for_event, dev);
	sleep_ms(50);
	ck_assert_int_eq(diw_pd_alloc(dev, &pd), 0);
	KIT_UNTIL(atomic_load(&dev->engine.followers) == SLEEPERS);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(atomic_load(&dev->engine.followers), 0);
	ck_assert_int_eq(diw_pd_free(pd), 0);
	ck_assert_int_eq(diw_dev_close(dev), 0);
}
END_TEST

Suite *suite_spin(void)
{
	Suite *s = suite_create("spin");
	TCase *tc = tcase_create("spin");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, it_spins_while_the_program_sleeps);
	tcase_add_test(tc, it_sleeps_while_the_program_polls);
	tcase_add_test(tc, it_serves_a_passive_target);
	tcase_add_test(tc, a_follower_is_cancelled);
	tcase_add_test(tc, it_comes_and_goes);
	tcase_add_test(tc, it_counts_threads_that_slept_before);
	suite_add_tcase(s, tc);
	return s;
}
