/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts of one call each, to a socket that keeps what comes: a burst of them shares super-buffers, and a lone message
 * is never held back. The device's clock is the test's, an hour ahead of the real one, so the progress thread sleeps
 * until a test wakes it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/kernel.h"
#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "verbs/qp.h"

#define LEN 4000u
#define FULL 16u                     /* datagrams of LEN and their headers in a super-buffer */
#define DEPTH 128u
#define SHORT(i) ((i) ? 64u : LEN)       /* short posts wait to be executed, see verbs/post.c */
#define EXECUTED 17u                 /* so many short posts of a burst are executed together */

static struct kit k;
static struct end a, sink;
static int sink_fd;
static uint32_t len = LEN;           /* of the messages */
static _Atomic uint64_t clock_at;

static _Atomic uint64_t sleeps_until;        /* the progress thread, in its last park */

int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	typedef int call(sem_t *, clockid_t, const struct timespec *);
	static call *_Atomic real;

	atomic_store(&sleeps_until, (uint64_t)until->tv_sec * DIW_S + (uint64_t)until->tv_nsec);
	if (!atomic_load(&real))
		atomic_store(&real, (call *)dlsym(RTLD_NEXT, "sem_clockwait"));
	return atomic_load(&real)(sem, clock, until);
}

static uint64_t test_clock(void *ctx)
{
	(void)ctx;
	return atomic_load(&clock_at);
}

static struct diw_engine *engine(void)
{
	return &k.dev->engine;
}

static void advance(uint64_t ns)
{
	atomic_fetch_add(&clock_at, ns);
}

/* Takes the lock as no public call does: none of them leaves a super-buffer open. */
static bool thread_is_parked(void)
{
	bool parked;

	pthread_mutex_lock(&engine()->lock);
	parked = atomic_load(&engine()->thread_parked) && !engine()->leader;
	pthread_mutex_unlock(&engine()->lock);
	return parked;
}

static void sink_open(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int size = 1 << 20;
	socklen_t len = sizeof in;

	sink_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	setsockopt(sink_fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	ck_assert_int_eq(bind(sink_fd, (struct sockaddr *)&in, len), 0);
	ck_assert_int_eq(getsockname(sink_fd, (struct sockaddr *)&in, &len), 0);
	sink.k = &k;
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", ntohs(in.sin_port), &sink.addr), 0);
}

/* Datagrams that have come since the last call. lo delivers within the sender's call. */
static unsigned arrived(void)
{
	static uint8_t buf[1 << 16];
	unsigned n = 0;

	while (recv(sink_fd, buf, sizeof buf, 0) > 0)
		n++;
	return n;
}

static void poll_once(void)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(a.rcq, &wc, 1, 0), 0);
}

static void post_some(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(end_send(&a, &sink, 0, len, 0), 0);
}

/* Opens A, and takes over the clock of the device. ThreadSanitizer is not told: the progress thread reads the pointer
 * without a lock, and both clocks will do there. */
__attribute__((noinline, no_sanitize_thread)) static void begin_on(enum diw_progress progress, uint32_t depth)
{
	uint64_t until = diw_clock_ns() + (uint64_t)KIT_LIMIT;
	struct diw_qp_attr attr;
	struct diw_wc wc;
	int left;

	end_attr(&attr);
	attr.sq_depth = depth;
	end_open(&a, &k, &attr, 64);
	pthread_mutex_lock(&engine()->lock);
	atomic_store(&clock_at, diw_clock_ns() + 3600 * DIW_S);
	engine()->clock = test_clock;
	pthread_mutex_unlock(&engine()->lock);
	poll_once();
	/* A datagram ends the sleep in which the progress thread leads. */
	while (progress == DIW_PROGRESS_THREAD && !thread_is_parked() && diw_clock_ns() < until) {
		ck_assert_int_eq(end_write(&a, &a, 0, 8, 0), 0);
		sleep_ms(1);
		advance(DIW_MS);                /* or a thread that stays awake for a while never ends that */
		while (diw_cq_poll(a.rcq, &wc, 1, 0) > 0)
			;
	}
	ck_assert(progress != DIW_PROGRESS_THREAD || thread_is_parked());
	do                                      /* it uses up what the posts above have given its semaphore */
		sleep_ms(5);
	while (sem_getvalue(&engine()->thread_sem, &left) == 0 && left > 0 && diw_clock_ns() < until);
	atomic_store(&engine()->watched, true);         /* not woken by the first post */
	advance(DIW_MS);
	poll_once();
}

static void begin_at_sink(enum diw_progress progress, uint32_t depth)
{
	kit_open(&k, progress);
	begin_on(progress, depth);
}

static void begin(enum diw_progress progress, uint32_t depth)
{
	sink_open();
	begin_at_sink(progress, depth);
}

static void end(void)
{
	if (a.qp)
		end_close(&a);
	close(sink_fd);
	kit_close(&k);
}

START_TEST(a_burst_shares_a_call)
{
	uint64_t before;

	begin(DIW_PROGRESS_THREAD, DEPTH);
	before = a.qp->c->tx_bursts;
	post_some(1);
	ck_assert_uint_eq(a.qp->c->tx_bursts, before + 1);
	ck_assert_uint_eq(arrived(), 1);
	post_some(FULL - 1);
	ck_assert_uint_eq(a.qp->c->tx_bursts, before + 1);
	post_some(1);                           /* full */
	ck_assert_uint_eq(a.qp->c->tx_bursts, before + 2);
	ck_assert_uint_eq(arrived(), FULL);
	post_some(3);
	ck_assert_uint_eq(arrived(), 0);
	poll_once();
	ck_assert_uint_eq(a.qp->c->tx_bursts, before + 3);
	ck_assert_uint_eq(arrived(), 3);
	end();
}
END_TEST

/* Sixteen wait, and the next one has all executed. A longer one is executed at once, behind those that wait. */
START_TEST(short_posts_are_executed_together)
{
	const uint64_t *sent, expect[] = { 1, EXECUTED + 1, EXECUTED + 1, EXECUTED + 5 };
	const unsigned posts[] = { EXECUTED, 1, 3, 1 };
	uint64_t before;

	begin(DIW_PROGRESS_THREAD, DEPTH);
	sent = &a.qp->c->tx_messages;
	before = *sent;
	for (int i = 0; i < 4; i++) {
		len = SHORT(i < 3);
		post_some(posts[i]);
		ck_assert_uint_eq(*sent - before, expect[i]);
	}
	poll_once();
	ck_assert_uint_eq(arrived(), EXECUTED + 5);
	end();
}
END_TEST

/* Behind a step, or behind a pause, a post sends at once. */
START_TEST(a_lone_message_leaves_at_once)
{
	begin(DIW_PROGRESS_THREAD, DEPTH);
	for (int i = 0; i < 10; i++) {
		post_some(1);
		ck_assert_uint_eq(arrived(), 1);
		poll_once();
	}
	for (int i = 0; i < 10; i++) {
		post_some(1);
		ck_assert_uint_eq(arrived(), 1);
		advance(3 * DIW_US);
	}
	end();
}
END_TEST

/* Without a progress thread nobody would send what a program leaves. */
START_TEST(no_burst_without_a_thread)
{
	begin(DIW_PROGRESS_INLINE, DEPTH);
	for (int i = 0; i < 10; i++) {
		post_some(1);
		ck_assert_uint_eq(arrived(), 1);
	}
	end();
}
END_TEST

/* A program that posts on without polling waits for 20 us at most. */
START_TEST(posts_bound_the_time)
{
	unsigned came = 0, posted = 0;

	begin(DIW_PROGRESS_THREAD, DEPTH);
	for (int i = 0; i < 60; i++) {
		ck_assert_int_eq(end_send(&a, &sink, 0, 64, 0), 0);
		came += arrived();
		posted++;
		ck_assert_uint_le(posted - came, 30);
		advance(DIW_US);
	}
	ck_assert_uint_ge(came, 20);
	end();
}
END_TEST

/* The ring is never full of requests that wait for others. It may be full while the progress thread has the lock. With
 * the clock at rest and no poll, nothing but the posts would send what waits for others. */
START_TEST(a_small_ring_keeps_room)
{
	len = SHORT(_i & 4);
	begin(DIW_PROGRESS_THREAD, (uint32_t[]){ 1, 2, 4, 16 }[_i & 3]);
	for (int posted = 0, ms = 0; posted < 100; ms++) {
		ck_assert_int_lt(ms, KIT_LIMIT_MS);
		while (posted < 100 && end_send(&a, &sink, 0, len, 0) == 0)
			posted++;
		if (posted < 100)
			sleep_ms(1);
	}
	poll_once();
	ck_assert_uint_eq(arrived(), 100);
	end();
}
END_TEST

/* A list of requests that fills the ring finds all its slots, although the messages before it wait. */
START_TEST(a_list_finds_room)
{
	static uint8_t data[64];
	struct diw_sge sge = { data, sizeof data, 0 };
	struct diw_send_wr wr[DEPTH];

	begin(DIW_PROGRESS_THREAD, DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		wr[i] = (struct diw_send_wr){ .next = i + 1 < DEPTH ? &wr[i + 1] : NULL, .sge = &sge, .num_sge = 1,
					      .opcode = DIW_WR_SEND, .flags = DIW_SEND_INLINE, .dst.addr = sink.addr };
	for (unsigned i = 0; i < DEPTH / 4; i++)
		ck_assert_int_eq(end_send(&a, &sink, 0, 64, 0), 0);
	ck_assert_uint_eq(arrived(), 1);
	ck_assert_int_eq(_i ? diw_post_send_all(a.qp, wr) : diw_post_send(a.qp, wr, NULL), 0);
	poll_once();
	ck_assert_uint_eq(arrived(), DEPTH / 4 - 1 + DEPTH);
	end();
}
END_TEST

static int refuse_all(const struct msghdr *m, int call)
{
	(void)m, (void)call;
	return EAGAIN;
}

/* A message that the socket has no room for leaves with the next post that finds room. */
START_TEST(a_full_socket_is_no_burst)
{
	begin(DIW_PROGRESS_THREAD, DEPTH);
	kernel_refuse = refuse_all;
	post_some(1);
	kernel_refuse = NULL;
	ck_assert_uint_eq(arrived(), 0);
	post_some(1);
	ck_assert_uint_eq(arrived(), 2);
	end();
}
END_TEST

/* Each call that takes the lock sends what is open; so does a poll that takes a completion without the lock. */
START_TEST(other_calls_flush)
{
	struct diw_qp_info info;
	struct diw_wc wc;

	len = SHORT(_i);
	begin(DIW_PROGRESS_THREAD, DEPTH);
	post_some(3);
	ck_assert_uint_eq(arrived(), 1);
	ck_assert_int_eq(diw_qp_query(a.qp, &info), 0);
	ck_assert_uint_eq(info.sq_pending, 0);
	ck_assert_uint_eq(arrived(), 2);
	post_some(2);
	ck_assert_int_eq(diw_cq_arm(a.rcq, false), 0);
	ck_assert_uint_eq(arrived(), 2);
	poll_once();
	ck_assert_int_eq(end_send(&a, &sink, 0, len, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(end_send(&a, &sink, 0, len, DIW_SEND_SIGNALED), 0);
	ck_assert_uint_eq(arrived(), 1);
	ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, 0), 1);
	ck_assert_uint_eq(arrived(), 1);
	ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, 0), 1);
	post_some(3);
	end_close(&a);
	a.qp = NULL;
	ck_assert_uint_eq(arrived(), 3);
	end();
}
END_TEST

/* A completion says that the message has left. */
START_TEST(completions_follow_the_flush)
{
	struct diw_wc wc;

	len = SHORT(_i);
	begin(DIW_PROGRESS_THREAD, DEPTH);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(end_send(&a, &sink, (uint32_t)i, len, DIW_SEND_SIGNALED), 0);
	ck_assert_uint_eq(arrived(), 1);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(diw_cq_poll(a.scq, &wc, 1, 0), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		ck_assert_uint_eq(wc.wr_id, (uint64_t)i);
	}
	ck_assert_uint_eq(arrived(), 3);
	end();
}
END_TEST

/* The progress thread sleeps for 2 to 4 ms beside a busy program, but not while messages wait. It sends them for a
 * program that makes no more calls, which then sends at once for a while. */
START_TEST(the_thread_flushes)
{
	unsigned came = 0;

	len = SHORT(_i);
	begin(DIW_PROGRESS_THREAD, DEPTH);
	atomic_store(&engine()->watched, false);
	post_some(2);
	ck_assert_uint_eq(arrived(), 1);
	KIT_UNTIL(atomic_load(&sleeps_until) == atomic_load(&clock_at) + 50 * DIW_US);
	advance(50 * DIW_US);
	sem_post(&engine()->thread_sem);
	KIT_UNTIL((came += arrived()) == 1);
	post_some(3);
	ck_assert_uint_eq(arrived(), 3);
	end();
}
END_TEST

/* Another thread has the lock whenever the progress thread looks: that thread sends as it unlocks. */
START_TEST(the_holder_flushes)
{
	len = SHORT(_i);
	begin(DIW_PROGRESS_THREAD, DEPTH);
	atomic_store(&engine()->watched, false);
	post_some(2);
	ck_assert_uint_eq(arrived(), 1);
	KIT_UNTIL(atomic_load(&sleeps_until) == atomic_load(&clock_at) + 50 * DIW_US);
	pthread_mutex_lock(&engine()->lock);
	advance(60 * DIW_US);
	sem_post(&engine()->thread_sem);
	KIT_UNTIL(atomic_load(&sleeps_until) == atomic_load(&clock_at) + 50 * DIW_US);
	diw_engine_unlock(engine());
	ck_assert_uint_eq(arrived(), 1);
	end();
}
END_TEST

static void be_busy(uint64_t ns)
{
	uint64_t until = diw_clock_ns() + ns;

	while (diw_clock_ns() < until)
		poll_once();
}

/* By the real clock: the progress thread, which leads until a program polls and posts, then sends what waits. */
START_TEST(a_program_that_stops_calling)
{
	bool held = false, quick = false;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&a, &k, NULL, 64);
	sink_open();
	for (int i = 0; i < 20 || (quick && !held && i < 1000); i++) {
		unsigned came;
		uint64_t began;

		be_busy(DIW_MS);
		post_some(2);                   /* the progress thread leads, and looks from here on */
		be_busy(10 * DIW_MS);           /* longer than posts send at once behind a late look */
		arrived();
		post_some(1);
		began = diw_clock_ns();
		post_some(2);
		quick |= diw_clock_ns() < began + 2 * DIW_US;   /* not so with a sanitizer */
		came = arrived();
		held |= came < 3;
		KIT_UNTIL((came += arrived()) == 3);
	}
	ck_assert(held || !quick);
	end();
}
END_TEST

/* By the real clock: beside a progress thread that leads, since the program never polls, a burst shares calls, and its
 * last message leaves. */
START_TEST(a_program_that_only_posts)
{
	bool shared = false, quick = false;

	kit_open(&k, DIW_PROGRESS_THREAD);
	end_open(&a, &k, NULL, 64);
	sink_open();
	for (int i = 0; i < 200; i++) {
		uint64_t before = end_counter(&a, "tx_bursts"), began;
		unsigned came = 0;

		sleep_ms(1 + (i % 16 == 0) * 10);
		began = diw_clock_ns();
		post_some(10);
		quick |= diw_clock_ns() < began + 10 * DIW_US;  /* not so with a sanitizer */
		KIT_UNTIL((came += arrived()) == 10);
		shared |= end_counter(&a, "tx_bursts") - before < 10;
	}
	ck_assert(shared || !quick);
	end();
}
END_TEST

/* Polls until N completions have come. The clock advances, for the pace of RD and for its acknowledgements. */
static void completed(struct diw_cq *cq, int n)
{
	uint64_t until = diw_clock_ns() + (uint64_t)KIT_LIMIT;
	struct diw_wc wc;

	while (n && diw_clock_ns() < until) {
		int got = diw_cq_poll(cq, &wc, 1, 0);

		ck_assert_int_ge(got, 0);
		if (got)
			ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
		n -= got;
		advance(5 * DIW_US);
	}
	ck_assert_int_eq(n, 0);
}

START_TEST(reliable_posts_share_a_call)
{
	const uint32_t N = 12, size = _i ? 8192 : 64;   /* long payloads are not copied */
	struct end from, to;
	struct diw_qp_attr attr;
	uint64_t before;

	begin(DIW_PROGRESS_THREAD, DEPTH);
	end_attr(&attr);
	attr.type = DIW_QP_RD;
	end_open(&from, &k, &attr, 64);
	end_open(&to, &k, &attr, 64);
	for (uint32_t i = 0; i <= N; i++)
		ck_assert_int_eq(end_recv(&to, size * i, size, i), 0);
	ck_assert_int_eq(end_send(&from, &to, 0, size, DIW_SEND_SIGNALED), 0);
	completed(from.scq, 1);                 /* the peers know each other */
	advance(DIW_MS);
	before = from.qp->c->tx_bursts;
	for (uint32_t i = 0; i < N; i++)
		ck_assert_int_eq(end_send(&from, &to, i, size, DIW_SEND_SIGNALED), 0);
	completed(from.scq, (int)N);
	completed(to.rcq, (int)N + 1);
	ck_assert_uint_le(from.qp->c->tx_bursts - before, N / 3);
	end_close(&from);
	end_close(&to);
	end();
}
END_TEST

static void write_to_peer(struct pair *p, uint32_t len)
{
	struct diw_send_wr wr = { .opcode = DIW_WR_WRITE };

	ck_assert_int_eq(rc_post(p, &p->a, &wr, 0, len), 0);
}

/* Small payloads are copied, and wait; a large one stays in the program's memory, and leaves at once with them. */
START_TEST(connected_posts_share_a_call)
{
	enum { N = 12, LARGE = 32768 };
	struct pair p;
	uint64_t before;

	pair_open(&p, NULL, NULL);
	k = p.k;
	begin_on(DIW_PROGRESS_THREAD, DEPTH);
	before = p.a.qp->c->tx_bursts;
	for (int i = 0; i < N; i++)
		write_to_peer(&p, 64);
	ck_assert_uint_eq(p.a.qp->c->tx_bursts, before + 1);
	write_to_peer(&p, LARGE);
	ck_assert_uint_eq(p.a.qp->c->tx_bursts, before + 2);
	completed(p.a.scq, N + 1);
	end_close(&a);
	pair_close(&p);
}
END_TEST

/* Posts, so that all messages but the first wait, and ends without another call. */
static void child_main(void)
{
	begin_at_sink(DIW_PROGRESS_THREAD, DEPTH);
	post_some(4);
	exit(diw_engine_has_unflushed(engine()) ? 0 : 1);
}

START_TEST(the_end_of_a_process_flushes)
{
	int status;
	pid_t pid;

	sink_open();
	pid = fork();
	if (pid == 0)
		child_main();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_uint_eq(arrived(), 4);
	close(sink_fd);
}
END_TEST

Suite *suite_burst(void)
{
	Suite *s = suite_create("burst");
	TCase *tc = tcase_create("burst");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_burst_shares_a_call);
	tcase_add_test(tc, short_posts_are_executed_together);
	tcase_add_test(tc, a_lone_message_leaves_at_once);
	tcase_add_test(tc, no_burst_without_a_thread);
	tcase_add_test(tc, posts_bound_the_time);
	tcase_add_loop_test(tc, a_small_ring_keeps_room, 0, 8);
	tcase_add_loop_test(tc, a_list_finds_room, 0, 2);
	tcase_add_test(tc, a_full_socket_is_no_burst);
	tcase_add_loop_test(tc, other_calls_flush, 0, 2);
	tcase_add_loop_test(tc, completions_follow_the_flush, 0, 2);
	tcase_add_loop_test(tc, the_thread_flushes, 0, 2);
	tcase_add_loop_test(tc, the_holder_flushes, 0, 2);
	tcase_add_test(tc, a_program_that_stops_calling);
	tcase_add_test(tc, a_program_that_only_posts);
	tcase_add_loop_test(tc, reliable_posts_share_a_call, 0, 2);
	tcase_add_test(tc, connected_posts_share_a_call);
	tcase_add_test(tc, the_end_of_a_process_flushes);
	suite_add_tcase(s, tc);
	return s;
}
