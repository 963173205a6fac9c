/* SPDX-License-Identifier: BSD-2-Clause */
/* Many threads on one device: every post is executed, no thread sleeps for ever, none works without need. */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/dev.h"

static struct kit k;
static struct end a, b;
static atomic_bool stop;

/* The next attempts to take a lock that find it held, as if by another thread. */
static _Thread_local int held_tries;

int pthread_mutex_trylock(pthread_mutex_t *m)
{
	static _Thread_local int (*real)(pthread_mutex_t *);

	if (held_tries > 0) {
		held_tries--;
		return EBUSY;
	}
	if (!real)
		real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
	return real(m);
}

/* Any call that takes the device's lock, and so does the pending work when it releases it. */
static struct diw_qp_info lock_and_unlock(struct end *e)
{
	struct diw_qp_info info;

	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	ck_assert_int_eq(diw_qp_query(e->qp, &info), 0);
	return info;
}

/* ---- Sharing work ---- */

static pthread_barrier_t held;

/* Has the device's lock until a post was left to it, and a while longer. */
static void *hold_lock(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&k.dev->engine.lock);
	pthread_barrier_wait(&held);
	do
		sleep_ms(1);
	while (!diw_engine_is_pending(&k.dev->engine));
	sleep_ms(1);
	diw_engine_unlock(&k.dev->engine);
	return NULL;
}

/* Posts while another thread has the lock, and ends. */
static void child_posts(const struct end *to, enum diw_progress progress)
{
	pthread_t t;

	kit_open(&k, progress);
	end_open(&a, &k, NULL, 64);
	pthread_barrier_init(&held, NULL, 2);
	pthread_create(&t, NULL, hold_lock, NULL);
	pthread_detach(t);                      /* ThreadSanitizer takes another one for a leak */
	pthread_barrier_wait(&held);
	exit(end_send(&a, to, 0, 8, 0) ? 1 : 0);
}

/* A post that was left to the holder of the lock leaves before the process ends. */
START_TEST(a_post_beside_the_end_of_a_process)
{
	struct end to;
	struct diw_wc wc;
	int status;
	pid_t pid;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&b, &k, NULL, 64);
	ck_assert_int_eq(end_recv(&b, 0, 8, 1), 0);
	to = b;
	pid = fork();
	if (pid == 0)
		child_posts(&to, _i ? DIW_PROGRESS_THREAD : DIW_PROGRESS_INLINE);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, DIW_S), 1);
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* Two posts find the lock held; the second then gets it. The first is not forgotten. */
START_TEST(a_post_beside_another)
{
	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 64);
	end_open(&b, &k, NULL, 64);
	held_tries = 2;
	ck_assert_int_eq(end_send(&a, &b, 0, 8, 0), 0);
	held_tries = 1;
	ck_assert_int_eq(end_send(&b, &a, 0, 8, 0), 0);
	ck_assert_uint_eq(lock_and_unlock(&b).sq_pending, 0);
	ck_assert_uint_eq(lock_and_unlock(&a).sq_pending, 0);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* A thread makes room in a completion queue while another one holds the lock: the latter then fills the queue. */
START_TEST(room_beside_another)
{
	struct diw_wc wc;

	kit_open(&k, DIW_PROGRESS_INLINE);
	end_open(&a, &k, NULL, 64);
	end_open(&b, &k, NULL, 1);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(end_write(&a, &b, 0, 8, 0), 0);
	for (int i = 0; i < KIT_LIMIT_MS && lock_and_unlock(&b).records_held < 2; i++)
		ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, (int64_t)DIW_MS), 0);
	ck_assert_uint_eq(lock_and_unlock(&b).records_held, 2);
	held_tries = 2;
	ck_assert_int_eq(diw_cq_poll(b.rcq, &wc, 1, 0), 1);
	ck_assert_uint_eq(lock_and_unlock(&b).records_held, 1);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* ---- Sleeping ---- */

static void *wait_for_ever(void *arg)
{
	struct diw_wc wc;

	while (!atomic_load(&stop))
		diw_cq_wait(((struct end *)arg)->rcq, &wc, 1, -1);
	return NULL;
}

static void end_waiter(pthread_t t, struct end *e, struct end *from)
{
	atomic_store(&stop, true);
	ck_assert_int_eq(end_recv(e, 0, 64, 0), 0);
	ck_assert_int_eq(end_send(from, e, 0, 8, 0), 0);
	pthread_join(t, NULL);
}

/* A socket that is never read, so that only the sender's own work wakes a thread. */
static int sink_open(struct end *sink)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof in;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, len), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*sink = (struct end){ .k = &k };
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", ntohs(in.sin_port), &sink->addr), 0);
	return fd;
}

/* The leader must wake for work that another thread's call has left: room in a completion queue lets a long message
 * begin, which takes several turns. */
START_TEST(a_turn_left_over_wakes_the_leader)
{
	struct end sink;
	struct diw_wc wc;
	pthread_t t;
	int fd = sink_open(&sink);

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&a, &k, NULL, 1);
	end_open(&b, &k, NULL, 64);
	pthread_create(&t, NULL, wait_for_ever, &b);
	sleep_ms(50);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(end_write(&a, &sink, 0, KIT_SIZE / 2, DIW_SEND_SIGNALED), 0);
	sleep_ms(50);
	for (int i = 0; i < 3; i++)
		ck_assert_msg(diw_cq_wait(a.scq, &wc, 1, KIT_LIMIT) == 1, "request %d never completes", i);
	end_waiter(t, &b, &a);
	close(fd);
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

/* The port of a destroyed queue pair is free, although a thread sleeps on its sockets. */
START_TEST(a_destroyed_queue_pair_frees_its_port)
{
	struct diw_qp_attr attr;
	uint16_t port;

	kit_open(&k, DIW_PROGRESS_THREAD);
	for (int i = 0; i < 100; i++) {
		end_attr(&attr);
		end_open(&a, &k, &attr, 4);
		port = a.addr.port;
		sleep_ms(3);                    /* the progress thread sleeps by then */
		end_close(&a);
		attr.dgram.local.port = port;
		end_open(&a, &k, &attr, 4);
		end_close(&a);
	}
	kit_close(&k);
}
END_TEST

#define ECHOES 101
#define EARLY 6                      /* the first echoes, before which the application has slept, do not count */

static struct kit far;
static struct diw_channel *channel;

static enum { POLLS, SLEEPS_FIRST } habit;

/* An application that sleeps in poll(2), or once in the call and then in poll(2). */
static void *echo(void *arg)
{
	struct pollfd p = { .fd = diw_channel_fd(channel), .events = POLLIN };
	struct diw_cq *cq;
	struct diw_wc wc;

	for (int i = 0; i < ECHOES; i++) {
		while (diw_cq_poll(b.rcq, &wc, 1, 0) == 0) {
			ck_assert_int_eq(diw_cq_arm(b.rcq, false), 0);
			if (diw_cq_poll(b.rcq, &wc, 1, 0) == 1)
				break;
			if (habit == POLLS || (habit == SLEEPS_FIRST && i > 0))
				ck_assert_int_eq(poll(&p, 1, KIT_LIMIT_MS), 1);
			ck_assert_int_eq(diw_channel_get(channel, &cq, habit == POLLS ? 0 : KIT_LIMIT), 0);
		}
		ck_assert_int_eq(end_write(&b, &a, 0, 8, 0), 0);
	}
	return arg;
}

static int by_size(const void *x, const void *y)
{
	return *(const uint64_t *)x < *(const uint64_t *)y ? -1 : 1;
}

/* The median time of an echo; for an application that polls, the slowest of the first ones, until the progress thread
 * has learned that no other thread receives. */
static uint64_t echoes(void)
{
	static uint64_t took[ECHOES];
	struct diw_qp_attr attr;
	struct diw_cq *cq;
	struct diw_wc wc;
	pthread_t t;

	kit_open(&k, DIW_PROGRESS_THREAD);
	kit_open(&far, DIW_PROGRESS_THREAD);
	ck_assert_int_eq(diw_channel_create(far.dev, &channel), 0);
	ck_assert_int_eq(diw_cq_create(far.dev, 16, channel, NULL, &cq), 0);
	end_open(&a, &k, NULL, 16);
	end_attr(&attr);
	attr.recv_cq = cq;
	end_open(&b, &far, &attr, 16);
	b.rcq = cq;
	pthread_create(&t, NULL, echo, NULL);
	sleep_ms(20);
	for (int i = 0; i < ECHOES; i++) {
		took[i] = diw_clock_ns();
		ck_assert_int_eq(end_write(&a, &b, 0, 8, 0), 0);
		ck_assert_int_eq(diw_cq_wait(a.rcq, &wc, 1, KIT_LIMIT), 1);
		took[i] = diw_clock_ns() - took[i];
	}
	pthread_join(t, NULL);
	if (habit == POLLS)
		qsort(took + 1, EARLY - 1, sizeof *took, by_size);
	else
		qsort(took, ECHOES, sizeof *took, by_size);
	end_close(&a);
	end_close(&b);
	ck_assert_int_eq(diw_channel_destroy(channel), 0);
	kit_close(&k);
	kit_close(&far);
	return took[habit == POLLS ? EARLY - 1 : ECHOES / 2];
}

static void *bare_echo(void *arg)
{
	int fd = *(int *)arg;
	char c;

	for (int i = 0; i < ECHOES; i++) {
		ck_assert_int_eq(read(fd, &c, 1), 1);
		ck_assert_int_eq(write(fd, &c, 1), 1);
	}
	return NULL;
}

/* The median time of an echo between two threads that only sleep: the limit of this machine. */
static uint64_t bare_echoes(void)
{
	static uint64_t took[ECHOES];
	char c = 0;
	int fd[2];
	pthread_t t;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	pthread_create(&t, NULL, bare_echo, &fd[1]);
	for (int i = 0; i < ECHOES; i++) {
		took[i] = diw_clock_ns();
		ck_assert_int_eq(write(fd[0], &c, 1), 1);
		ck_assert_int_eq(read(fd[0], &c, 1), 1);
		took[i] = diw_clock_ns() - took[i];
	}
	pthread_join(t, NULL);
	close(fd[0]);
	close(fd[1]);
	qsort(took, ECHOES, sizeof *took, by_size);
	return took[ECHOES / 2];
}

/* Sleeping on a channel's descriptor costs the wake-up of the progress thread, and not the time for which the thread
 * stays away from a busy application, which is twice the limit. */
START_TEST(asleep_on_a_descriptor)
{
	uint64_t took = DIW_NEVER, most = DIW_MS, bare;

	habit = (int[]){ POLLS, SLEEPS_FIRST }[_i];
	for (int i = 0; i < 50 && took >= most; i++) {
		took = echoes();
		bare = bare_echoes();
		most = 8 * bare > DIW_MS ? 8 * bare : DIW_MS;
	}
	ck_assert_uint_lt(took, most);
}
END_TEST

/* A program that arms for another thread, and then only polls, does not sleep: the progress thread stays away. It would
 * wake for each datagram. */
START_TEST(polling_behind_an_armed_queue)
{
	uint64_t until = diw_clock_ns() + 20 * DIW_S;
	struct diw_channel *channel;
	struct diw_qp_attr attr;
	struct diw_engine *e;
	struct diw_wc wc;

	kit_open(&k, DIW_PROGRESS_THREAD);
	e = &k.dev->engine;
	ck_assert_int_eq(diw_channel_create(k.dev, &channel), 0);
	ck_assert_int_ge(diw_channel_fd(channel), 0);
	end_attr(&attr);
	ck_assert_int_eq(diw_cq_create(k.dev, 64, channel, NULL, &attr.recv_cq), 0);
	end_open(&a, &k, &attr, 64);
	ck_assert_int_eq(diw_cq_arm(attr.recv_cq, true), 0);
	ck_assert(atomic_load(&e->app_away));
	for (int i = 0; i < 8; i++)             /* an event loop's polls */
		ck_assert_int_eq(diw_cq_poll(attr.recv_cq, &wc, 1, 0), 0);
	ck_assert(atomic_load(&e->app_away));
	while (!atomic_load(&e->thread_parked) && diw_clock_ns() < until) {
		ck_assert_int_eq(end_write(&a, &a, 0, 8, 0), 0);
		ck_assert_int_eq(diw_cq_poll(attr.recv_cq, &wc, 1, KIT_LIMIT), 1);
		for (int i = 0; i < 100; i++)
			ck_assert_int_eq(diw_cq_poll(attr.recv_cq, &wc, 1, 0), 0);
	}
	ck_assert(atomic_load(&e->thread_parked));
	end_close(&a);
	ck_assert_int_eq(diw_cq_destroy(attr.recv_cq), 0);
	ck_assert_int_eq(diw_channel_destroy(channel), 0);
	kit_close(&k);
}
END_TEST

/* ---- Clocks ---- */

static void *poll_on(void *arg)
{
	struct diw_wc wc;

	while (!atomic_load(&stop))
		diw_cq_poll(((struct end *)arg)->rcq, &wc, 1, (int64_t)DIW_MS);
	return NULL;
}

/* The clocks of two threads differ: a rate limit must not be exceeded by that. */
START_TEST(a_rate_limit_holds_beside_a_poller)
{
	struct diw_qp_attr attr;
	uint64_t begun, took, sent;
	struct diw_wc wc;
	pthread_t t[2];

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.rate_limit = 1 << 20;
	attr.rate_burst = 16 << 10;
	end_open(&a, &k, &attr, 64);
	end_open(&b, &k, NULL, 64);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, poll_on, i ? &a : &b);
	begun = diw_clock_ns();
	do {
		for (uint64_t until = diw_clock_ns() + DIW_S / 2; diw_clock_ns() < until;)
			if (end_write(&a, &b, 0, 1000, DIW_SEND_SIGNALED) < 0)
				diw_cq_poll(a.scq, &wc, 1, 0);
		sent = end_counter(&a, "tx_bytes");
		took = diw_clock_ns() - begun;
	} while (sent <= 100 << 10 && took < (uint64_t)KIT_LIMIT);      /* it had hardly any processor time */
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_gt(sent, 100 << 10);
	ck_assert_uint_lt(sent, (uint64_t)((double)took / 1e9 * 1.05 * (1 << 20)) + (32 << 10));
	end_close(&a);
	end_close(&b);
	kit_close(&k);
}
END_TEST

Suite *suite_threads(void)
{
	Suite *s = suite_create("threads");
	TCase *tc = tcase_create("threads");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, a_post_beside_another);
	tcase_add_loop_test(tc, a_post_beside_the_end_of_a_process, 0, 2);
	tcase_add_test(tc, room_beside_another);
	tcase_add_test(tc, a_turn_left_over_wakes_the_leader);
	tcase_add_test(tc, a_destroyed_queue_pair_frees_its_port);
	tcase_add_loop_test(tc, asleep_on_a_descriptor, 0, 2);
	tcase_add_test(tc, polling_behind_an_armed_queue);
	tcase_add_test(tc, a_rate_limit_holds_beside_a_poller);
	suite_add_tcase(s, tc);
	return s;
}
