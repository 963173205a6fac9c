/* SPDX-License-Identifier: BSD-2-Clause */
/* diw_post_append(): octets join the Send that was posted last, while it waits for more posts, and never another
 * request. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/unit/rc_kit.h"
#include "tests/unit/unit.h"
#include "verbs/qp.h"

#define INLINE 64u
#define IN (KIT_SIZE / 2)
#define IN_LEN 256u
#define LOOK_NS 50u

static const enum diw_qp_type types[] = { DIW_QP_UD, DIW_QP_RD, DIW_QP_RC };
static struct pair p;
static struct kit *const k = &p.k;
static bool rc;

static _Atomic uint64_t clock_at;

/* Time passes with each look at the clock, so calls one behind the other are a burst on the slowest machine. */
static uint64_t looks_clock(void *ctx)
{
	(void)ctx;
	return atomic_fetch_add(&clock_at, LOOK_NS);
}

/* ThreadSanitizer is not told: the progress thread reads the pointer without a lock, and both clocks will do there. */
__attribute__((noinline, no_sanitize_thread)) static void clock_take(struct diw_engine *e)
{
	pthread_mutex_lock(&e->lock);
	atomic_store(&clock_at, diw_clock_ns() + 3600 * DIW_S);
	e->clock = looks_clock;
	pthread_mutex_unlock(&e->lock);
}

static void open_pair(enum diw_qp_type type)
{
	struct diw_qp_attr attr;

	rc = type == DIW_QP_RC;
	(rc ? rc_attr : end_attr)(&attr);
	attr.type = type;
	attr.max_inline = INLINE;
	if (rc) {
		pair_open(&p, &attr, NULL);
	} else {
		kit_open(k, DIW_PROGRESS_THREAD);
		end_open(&p.a, k, &attr, 64);
		end_open(&p.b, k, &attr, 64);
	}
	kit_fill(k);
}

static void begin(enum diw_qp_type type)
{
	open_pair(type);
	clock_take(&k->dev->engine);
}

static void end(void)
{
	if (rc)
		pair_close(&p);
	else
		kit_close_ends(k, &p.a, &p.b);
}

static void post(enum diw_wr_opcode opcode, uint32_t len, unsigned flags, uint64_t wr_id)
{
	struct diw_sge sge = { k->mem, len, k->mr->stag };
	struct diw_send_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1, .opcode = opcode,
				  .flags = DIW_SEND_SIGNALED | flags, .dst.addr = p.b.addr, .stag = k->mr->stag,
				  .to = k->mr->to };

	ck_assert_int_eq(diw_post_send(p.a.qp, &wr, NULL), 0);
}

static int append(uint32_t at, uint32_t len)
{
	return diw_post_append(p.a.qp, rc ? NULL : &p.b.addr, k->mem + at, len);
}

static void recv_post(uint64_t wr_id)
{
	struct diw_sge sge = { k->mem + IN + wr_id * IN_LEN, IN_LEN, k->mr->stag };
	struct diw_recv_wr wr = { .wr_id = wr_id, .sge = &sge, .num_sge = 1 };

	ck_assert_int_eq(diw_post_recv(p.b.qp, &wr, NULL), 0);
}

/* Message WR_ID has come, with the LEN octets of the memory's begin; the Send WR_ID is complete. */
static void expect(uint64_t wr_id, uint32_t len)
{
	struct diw_wc wc;

	ck_assert_int_eq(diw_cq_poll(p.b.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert_mem_eq(k->mem + IN + wr_id * IN_LEN, k->mem, len);
	ck_assert_int_eq(diw_cq_poll(p.a.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_uint_eq(wc.wr_id, wr_id);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
}

/* Posts the Sends 0 and 1, the second of LEN octets. It waits if no step and no pause was between the two, which the
 * caller sees by its next call. */
static void post_two(uint32_t len)
{
	recv_post(0);
	recv_post(1);
	post(DIW_WR_SEND, 8, DIW_SEND_INLINE, 0);
	post(DIW_WR_SEND, len, DIW_SEND_INLINE, 1);
}

/* The progress thread may end a burst by its look: then nothing is appended, and another burst is tried. */
START_TEST(octets_join_the_last_send)
{
	uint64_t until = diw_clock_ns() + (uint64_t)KIT_LIMIT, before;
	bool joined = false;

	begin(types[_i]);
	while (!joined) {
		uint32_t len = 8;

		ck_assert_uint_lt(diw_clock_ns(), until);
		before = end_counter(&p.a, "tx_appended");
		post_two(len);
		if (append(len, 5) == 0)
			len += 5;
		if (len > 8 && append(len, INLINE - len) == 0) {
			len = INLINE;
			joined = true;
			ck_assert_int_eq(append(len, 1), -EAGAIN);      /* no room */
		}
		expect(0, 8);
		expect(1, len);
		ck_assert_uint_eq(end_counter(&p.a, "tx_appended"), before + (len > 8) + joined);
	}
	end();
}
END_TEST

/* A Send that has left takes nothing: a lone one, or one in front of a call that takes the lock. A poll does not, while
 * another thread has it. */
START_TEST(none_waits)
{
	begin(types[_i]);
	ck_assert_int_eq(append(8, 5), -EAGAIN);
	recv_post(0);
	atomic_fetch_add(&clock_at, DIW_MS);
	post(DIW_WR_SEND, 8, DIW_SEND_INLINE, 0);
	ck_assert_int_eq(append(8, 5), -EAGAIN);
	expect(0, 8);
	post_two(8);
	end_counter(&p.a, "tx_appended");
	ck_assert_int_eq(append(8, 5), -EAGAIN);
	expect(0, 8);
	expect(1, 8);
	end();
}
END_TEST

/* The last request is another one, or to another destination, or its octets are not inline. */
START_TEST(not_the_last_send)
{
	struct diw_addr other;

	begin(types[_i]);
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 9, &other), 0);
	for (int again = 0; again < 100; again++) {
		post_two(8);
		if (!rc)
			ck_assert_int_eq(diw_post_append(p.a.qp, &other, k->mem, 1), -EAGAIN);
		expect(0, 8);
		expect(1, 8);
		recv_post(0);
		recv_post(1);
		post(DIW_WR_SEND, 8, DIW_SEND_INLINE, 0);
		post(DIW_WR_SEND, 8, 0, 1);
		ck_assert_int_eq(append(8, 1), -EAGAIN);
		expect(0, 8);
		expect(1, 8);
	}
	end();
}
END_TEST

/* A pause ends the burst, though not each call sees it. */
START_TEST(pause_ends_the_burst)
{
	uint64_t until = diw_clock_ns() + (uint64_t)KIT_LIMIT;
	bool joined = false;

	begin(types[_i]);
	while (!joined) {
		uint32_t len = 1, unseen = 0;

		ck_assert_uint_lt(diw_clock_ns(), until);
		post_two(len);
		joined = append(len, 1) == 0;
		len += joined;
		atomic_fetch_add(&clock_at, DIW_MS);
		while (joined && append(len, 1) == 0) {
			len++;
			ck_assert_uint_lt(unseen++, 8);
		}
		expect(0, 8);
		expect(1, len);
	}
	end();
}
END_TEST

/* The progress thread sends what waits while octets join: each of them is sent, or refused. */
START_TEST(joined_or_refused)
{
	uint64_t until, now = 0;

	open_pair(types[_i]);
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t len = 1;

		sleep_ms(6);                                            /* the thread had to send: bursts pause */
		post_two(len);
		while (len < INLINE && append(len, 1) == 0) {
			len++;
			for (until = diw_clock_ns() + round % 20 * DIW_US; now < until;)
				now = diw_clock_ns();
		}
		expect(0, 8);
		expect(1, len);
	}
	end();
}
END_TEST

Suite *suite_append(void)
{
	Suite *s = suite_create("append");
	TCase *t = tcase_create("append");

	tcase_add_loop_test(t, octets_join_the_last_send, 0, 3);
	tcase_add_loop_test(t, none_waits, 0, 3);
	tcase_add_loop_test(t, not_the_last_send, 0, 3);
	tcase_add_loop_test(t, pause_ends_the_burst, 0, 3);
	tcase_add_loop_test(t, joined_or_refused, 0, 3);
	tcase_set_timeout(t, 90);
	suite_add_tcase(s, t);
	return s;
}
