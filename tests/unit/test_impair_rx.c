/* SPDX-License-Identifier: BSD-2-Clause */
/* The impairment of received datagrams: the same decisions as when sending, from a seed of its own. */
#include "base/clock.h"
#include "tests/unit/impair_kit.h"

static int receive_all(uint32_t *out, uint64_t now)
{
	struct diw_dgram_burst b;
	int n = 0;

	while (d->ops->recv(d, &b, 1, now) == 1) {
		ck_assert_int_eq(b.niov, 1);
		ck_assert_uint_eq(b.iov->iov_len, b.len);
		for (uint32_t at = 0; at < b.len; at += b.seg)
			out[n++] = diw_get32((uint8_t *)b.iov->iov_base + at);
	}
	return n;
}

static void deliver_numbered(uint32_t n, uint32_t per, uint32_t seg)
{
	for (uint32_t at = 0; at < n; at += per) {
		struct iovec iov[2];
		struct diw_dgram_burst b = burst_of(iov, at, per, seg, seg);

		fake_deliver(f, &b.peer.addr, buf, b.len, b.seg);
	}
}

START_TEST(receive_side)
{
	int n;

	open_with("rx.mask=6");
	deliver_numbered(128, 64, 100);
	ck_assert_int_eq(receive_all(no, 0), 124);
	ck_assert_uint_eq(no[0], 0);
	ck_assert_uint_eq(no[1], 3);
	ck_assert_uint_eq(no[62], 64);
	ck_assert_uint_eq(no[63], 67);
	send_burst(0, 64, 100, 100, 0);      /* the other direction is idle */
	ck_assert_uint_eq(f->tx[0].len, 6400);
	done();
	open_with("rx.loss=10%,seed=2");
	deliver_numbered(50000, 50, 100);
	n = receive_all(no, 0);
	rate_is(f->c.impair_lost, 50000, 0.1, 1);
	ck_assert_int_eq(n, 50000 - (int)f->c.impair_lost);
	for (int i = 1; i < n; i++)
		ck_assert_uint_gt(no[i], no[i - 1]);
	done();
	open_with("rx.dup=10%");
	deliver_numbered(5000, 50, 100);
	n = receive_all(no, 0);
	ck_assert_int_eq(n, 5000 + (int)f->c.impair_duplicated);
	rate_is(f->c.impair_duplicated, 5000, 0.1, 1);
	done();
	open_with("rx.reorder=10%,rx.corrupt=0%");
	deliver_numbered(5000, 50, 100);
	n = receive_all(no, 0);
	n += receive_all(no + n, DIW_MS);
	ck_assert_int_eq(n, 5000);
	rate_is(f->c.impair_reordered, 5000, 0.1, 1);
	done();
}
END_TEST

static int receive_pattern(const char *text, uint32_t *out)
{
	int n;

	open_with(text);
	deliver_numbered(5000, 50, 100);
	n = receive_all(out, 0);
	done();
	return n;
}

/* A seed without a direction is for both directions, unless the other has one of its own. */
START_TEST(receive_seed)
{
	static uint32_t other[5000];
	int n = receive_pattern("rx.loss=10%,seed=2", no);

	ck_assert_int_eq(receive_pattern("rx.loss=10%,rx.seed=2,seed=3", other), n);
	ck_assert_mem_eq(no, other, sizeof *no * (size_t)n);
	ck_assert(receive_pattern("rx.loss=10%,seed=3", other) != n || memcmp(no, other, sizeof *no * (size_t)n));
	/* With one seed, the directions do not lose the same datagrams. */
	ck_assert_int_gt(loss_pattern("loss=10%,seed=2", 50, other), 3000);
	ck_assert_mem_ne(no, other, sizeof *no * 3000);
}
END_TEST

START_TEST(receive_delay)
{
	open_with("rx.delay=1ms");
	deliver_numbered(100, 50, 100);
	ck_assert_int_eq(receive_all(no, 10), 0);
	ck_assert_uint_eq(d->ops->deadline(d), 10 + DIW_MS);
	ck_assert_int_eq(receive_all(no, 9 + DIW_MS), 0);
	ck_assert_int_eq(receive_all(no, 10 + DIW_MS), 100);
	for (uint32_t i = 0; i < 100; i++)
		ck_assert_uint_eq(no[i], i);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	done();
}
END_TEST

START_TEST(receive_in_part)
{
	struct diw_dgram_burst b;

	/* The results of one burst are fetched by several calls; until then the dgram asks to be called again. */
	open_with("rx.mask=2");
	deliver_numbered(4, 4, 100);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 1);
	ck_assert_uint_eq(b.len, 100);
	ck_assert_uint_eq(d->ops->deadline(d), 0);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 1);
	ck_assert_uint_eq(b.len, 200);
	ck_assert_uint_eq(b.seg, 100);
	ck_assert_uint_eq(diw_get32(b.iov->iov_base), 2);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	fake_deliver(f, &b.peer.addr, "", 0, 0);  /* an empty datagram stays one */
	fake_deliver(f, &b.peer.addr, "", 0, 0);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 1);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 1);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 0);
	done();
}
END_TEST

Suite *suite_impair_rx(void)
{
	Suite *s = suite_create("impair_rx");
	TCase *t = tcase_create("impair_rx");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, receive_side);
	tcase_add_test(t, receive_seed);
	tcase_add_test(t, receive_delay);
	tcase_add_test(t, receive_in_part);
	suite_add_tcase(s, t);
	return s;
}
