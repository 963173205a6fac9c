/* SPDX-License-Identifier: BSD-2-Clause */
/* All calls at the same time from many threads, for ThreadSanitizer, and to find threads that sleep for ever. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"

#define MESSAGE 3000u
#define LONG_NS KIT_LIMIT

static struct kit k;
static struct end a, b, c;
static struct diw_channel *ch;
static atomic_bool stop;
static atomic_uint sent, received;

static bool running(void)
{
	return !atomic_load(&stop);
}

/* Two threads share a queue pair and poll. */
static void *sender(void *arg)
{
	struct diw_wc wc[4];

	while (running()) {
		struct end *to = atomic_load(&sent) & 1 ? &b : &c;
		int rc = atomic_load(&sent) % 3 ? end_send(&a, to, 0, MESSAGE, DIW_SEND_SIGNALED | DIW_SEND_SOLICITED) :
			 end_write(&a, to, 0, MESSAGE, DIW_SEND_SIGNALED);

		ck_assert(rc == 0 || rc == -ENOMEM);
		if (rc == 0)
			atomic_fetch_add(&sent, 1);
		if (diw_cq_poll(a.scq, wc, 4, rc ? (int64_t)DIW_MS : 0) == 0 && rc && !arg)
			diw_cq_wait(a.scq, wc, 1, (int64_t)DIW_MS);
	}
	return NULL;
}

static void took(struct end *e, struct diw_wc *wc)
{
	if (wc->opcode == DIW_WC_RECV)
		ck_assert_int_eq(end_recv(e, KIT_SIZE / 4, MESSAGE, wc->wr_id), 0);
	diw_wc_release(wc);
	atomic_fetch_add(&received, 1);
}

/* Two threads wait on one completion queue. */
static void *waiter(void *arg)
{
	struct diw_wc wc[4];
	int n;

	(void)arg;
	while (running()) {
		n = diw_cq_wait(b.rcq, wc, 4, 5 * (int64_t)DIW_MS);
		while (n > 0)
			took(&b, &wc[--n]);
	}
	return NULL;
}

/* Waits by diw_channel_get(), or by poll(2) on the descriptor. */
static void *listener(void *arg)
{
	struct pollfd p = { .fd = diw_channel_fd(ch), .events = POLLIN };
	struct diw_cq *cq;
	struct diw_wc wc;

	while (running()) {
		diw_cq_arm(c.rcq, false);
		while (diw_cq_poll(c.rcq, &wc, 1, 0) == 1)
			took(&c, &wc);
		if (arg)
			poll(&p, 1, 5);
		diw_channel_get(ch, &cq, arg ? 0 : 5 * (int64_t)DIW_MS);
	}
	return NULL;
}

/* Creates and destroys regions and queue pairs. */
static void *builder(void *arg)
{
	static uint8_t mem[65536];
	struct diw_mr *mr;
	struct diw_event ev;
	struct end e;

	(void)arg;
	while (running()) {
		ck_assert_int_eq(diw_mr_reg(k.pd, mem, sizeof mem, DIW_ACCESS_LOCAL_WRITE, &mr), 0);
		end_open(&e, &k, NULL, 4);
		ck_assert_int_eq(end_send(&e, &b, 0, 64, 0), 0);
		ck_assert_int_eq(end_read(&e, &b, KIT_SIZE / 2, 20000), 0);
		diw_event_get(k.dev, &ev, (int64_t)DIW_MS);
		end_counter(&b, "rx_bytes");
		ck_assert_int_eq(diw_mr_dereg(mr), 0);
		end_close(&e);
	}
	return NULL;
}

static void open_all(enum diw_progress progress)
{
	struct diw_qp_attr attr;
	struct diw_cq *cq;

	kit_open(&k, progress);
	ck_assert_int_eq(diw_channel_create(k.dev, &ch), 0);
	ck_assert_int_eq(diw_cq_create(k.dev, 16, ch, NULL, &cq), 0);
	end_open(&a, &k, NULL, 16);
	end_open(&b, &k, NULL, 8);              /* often full */
	end_attr(&attr);
	attr.recv_cq = cq;
	end_open(&c, &k, &attr, 16);
	c.rcq = cq;
	for (uint64_t i = 0; i < 64; i++) {
		ck_assert_int_eq(end_recv(&b, KIT_SIZE / 4, MESSAGE, i), 0);
		ck_assert_int_eq(end_recv(&c, KIT_SIZE / 4, MESSAGE, i), 0);
	}
}

static void everything(enum diw_progress progress, unsigned ms)
{
	void *(*const run[])(void *) = { sender, sender, waiter, waiter, listener, listener, builder };
	pthread_t t[sizeof run / sizeof *run];
	struct diw_wc wc;

	open_all(progress);
	for (size_t i = 0; i < sizeof run / sizeof *run; i++)
		pthread_create(&t[i], NULL, run[i], i & 1 ? &t : NULL);
	sleep_ms(ms);
	KIT_UNTIL(atomic_load(&received) > 10);
	atomic_store(&stop, true);
	for (size_t i = 0; i < sizeof run / sizeof *run; i++)
		pthread_join(t[i], NULL);
	/* Everything still works. */
	while (diw_cq_poll(a.scq, &wc, 1, 20 * (int64_t)DIW_MS) == 1)
		;
	while (diw_cq_poll(b.rcq, &wc, 1, 20 * (int64_t)DIW_MS) == 1)
		took(&b, &wc);
	ck_assert_int_eq(end_send(&a, &b, 0, MESSAGE, 0), 0);
	ck_assert_int_eq(diw_cq_wait(b.rcq, &wc, 1, LONG_NS), 1);
	end_close(&a);
	end_close(&b);
	end_close(&c);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
	kit_close(&k);
}

START_TEST(everything_at_once)
{
	everything((enum diw_progress)_i, 400);
}
END_TEST

/* Two threads send a token back and forth, with each way to wait, and a progress thread that sleeps or spins; no
 * wake-up is lost. */
#define ROUNDS 300

static void await(struct end *e, int way)
{
	struct diw_channel *mine = e == &c ? ch : NULL;
	struct pollfd p = { .fd = mine ? diw_channel_fd(mine) : -1, .events = POLLIN };
	struct diw_cq *cq;
	struct diw_wc wc;

	while (diw_cq_poll(e->rcq, &wc, 1, 0) == 0) {
		if (way == 0 || !mine) {
			ck_assert_int_eq(diw_cq_wait(e->rcq, &wc, 1, LONG_NS), 1);
			break;
		}
		ck_assert_int_eq(diw_cq_arm(e->rcq, false), 0);
		if (way == 2)
			ck_assert_int_eq(poll(&p, 1, KIT_LIMIT_MS), 1);
		ck_assert_int_eq(diw_channel_get(mine, &cq, way == 1 ? LONG_NS : 0), 0);
	}
	took(e, &wc);
}

struct side { struct end *me, *other; int way; };

static void *pass_back(void *arg)
{
	struct side *s = arg;

	for (int i = 0; i < ROUNDS; i++) {
		await(s->me, s->way);
		ck_assert_int_eq(end_send(s->me, s->other, 0, MESSAGE, 0), 0);
	}
	return NULL;
}

START_TEST(a_token_goes_round)
{
	struct side s = { &c, &b, _i % 3 };
	pthread_t t;

	open_all(_i < 3 ? DIW_PROGRESS_THREAD : DIW_PROGRESS_SPIN);
	pthread_create(&t, NULL, pass_back, &s);
	for (int i = 0; i < ROUNDS; i++) {
		ck_assert_int_eq(end_send(&b, &c, 0, MESSAGE, 0), 0);
		await(&b, 0);
	}
	pthread_join(t, NULL);
	end_close(&a);
	end_close(&b);
	end_close(&c);
	ck_assert_int_eq(diw_channel_destroy(ch), 0);
	kit_close(&k);
}
END_TEST

Suite *suite_stress(void)
{
	Suite *s = suite_create("stress");
	TCase *tc = tcase_create("stress");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, everything_at_once, DIW_PROGRESS_THREAD, DIW_PROGRESS_SPIN + 1);
	tcase_add_loop_test(tc, a_token_goes_round, 0, 6);
	suite_add_tcase(s, tc);
	return s;
}
