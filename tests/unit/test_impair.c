/* SPDX-License-Identifier: BSD-2-Clause */
/* llp/impair.c, sending: loss, duplication, reordering, delay, damage, and blocked sends. */
#include <errno.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/unit/impair_kit.h"

START_TEST(idle_is_untouched)
{
	struct iovec iov[2];
	struct diw_dgram_burst b;

	open_with(_i ? "" : NULL);
	b = burst_of(iov, 0, 45, 1400, 77);
	ck_assert_int_eq(d->ops->send(d, &b, 1, 0), 1);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert_ptr_eq(f->tx[0].first, buf);
	ck_assert_int_eq(f->tx[0].niov, 2);
	fake_deliver(f, &b.peer.addr, buf, b.len, b.seg);
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 1);
	ck_assert_ptr_eq(b.iov->iov_base, f->rx[0].data);
	ck_assert_uint_eq(d->ops->mtu(d, &b.peer.addr), 1472);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	f->room = 0;
	ck_assert_int_eq(d->ops->send(d, &b, 1, 0), -EAGAIN);
	f->d.state->tx_errno = EPERM;
	f->d.state->mtu_changed = true;
	ck_assert_int_eq(d->ops->recv(d, &b, 1, 0), 0);
	ck_assert_int_eq(d->state->tx_errno, EPERM);
	ck_assert(d->state->mtu_changed);
	done();
}
END_TEST

START_TEST(mask_is_exact)
{
	int n;

	open_with("mask=8000000000000006");
	ck_assert_int_eq(send_burst(0, 128, 100, 100, 0), 1);
	ck_assert_int_eq(f->ntx, 1);         /* still one super-buffer */
	n = left(no, 200);
	ck_assert_int_eq(n, 122);
	for (int i = 0, want = 0; i < n; i++, want++) {
		while (want % 64 == 1 || want % 64 == 2 || want % 64 == 63)
			want++;
		ck_assert_uint_eq(no[i], want);
	}
	for (uint32_t i = 0; i < f->tx[0].len; i++)
		if (i % 100 >= 4)
			ck_assert_uint_eq(f->tx[0].data[i], (uint8_t)(no[i / 100] * 100 + i % 100));
	ck_assert_uint_eq(f->c.impair_lost, 6);
	done();
	/* The first and the last of a burst, and the short last one alone. */
	open_with("mask=9");
	send_burst(0, 4, 100, 30, 0);
	ck_assert_uint_eq(f->tx[0].len, 200);
	ck_assert_uint_eq(f->tx[0].seg, 100);
	done();
	open_with("mask=7");
	send_burst(0, 4, 100, 30, 0);
	ck_assert_uint_eq(f->tx[0].len, 30);
	ck_assert_uint_eq(f->tx[0].seg, 30);
	done();
	open_with("mask=ffffffffffffffff");
	ck_assert_int_eq(send_burst(0, 4, 100, 30, 0), 1);
	ck_assert_int_eq(f->ntx, 0);
	done();
}
END_TEST

START_TEST(loss_rate)
{
	open_with("loss=1%,seed=5");
	send_numbered(100000, 50, 60);
	rate_is(f->c.impair_lost, 100000, 0.01, 1);
	ck_assert_int_eq(left(no, 1 << 18), 100000 - (int)f->c.impair_lost);
	ck_assert_int_eq(f->ntx, 2000);      /* super-buffers stay whole in spite of loss */
	done();
	open_with("loss=0.3");
	send_numbered(100000, 50, 60);
	rate_is(f->c.impair_lost, 100000, 0.3, 1);
	done();
	open_with("loss=1");
	send_numbered(1000, 50, 60);
	ck_assert_uint_eq(f->c.impair_lost, 1000);
	done();
}
END_TEST

START_TEST(loss_in_bursts)
{
	uint32_t gaps = 0, prev = UINT32_MAX;
	int n;

	open_with("burst=5%:10,seed=3");
	send_numbered(200000, 100, 60);
	rate_is(f->c.impair_lost, 200000, 0.05, 5);  /* losses are correlated: the spread is larger */
	n = left(no, 1 << 18);
	for (int i = 0; i < n; prev = no[i++])
		gaps += no[i] != prev + 1;
	/* The mean length of a gap is 10. */
	ck_assert_double_gt((double)f->c.impair_lost / gaps, 9);
	ck_assert_double_lt((double)f->c.impair_lost / gaps, 11);
	done();
	open_with("burst=1");
	send_numbered(1000, 50, 60);
	ck_assert_uint_eq(f->c.impair_lost, 1000);
	done();
}
END_TEST

START_TEST(fragments_are_lost_together)
{
	/* 8000 B + 8 are 6 fragments of 1480; 1472 B + 8 fit one packet. */
	open_with("loss=2%,mtu=1500");
	send_numbered(20000, 8, 8000);
	rate_is(f->c.impair_lost, 20000, 1 - pow(0.98, 6), 1);
	done();
	open_with("loss=2%,mtu=1500");
	send_numbered(50000, 40, 1472);
	rate_is(f->c.impair_lost, 50000, 0.02, 1);
	done();
	open_with("loss=2%,mtu=1500");
	send_numbered(50000, 40, 1473);
	rate_is(f->c.impair_lost, 50000, 1 - pow(0.98, 2), 1);
	done();
	/* IPv6: 40 and a fragment header of 8 leave 1448; 8 + 1452 fit one packet, 8 + 2889 need three. */
	for (uint32_t seg = 1452; seg <= 2889; seg = seg == 1452 ? 2888 : seg + 1) {
		int parts = seg == 1452 ? 1 : seg == 2888 ? 2 : 3;

		open_with("loss=10%,mtu=1500");
		for (uint32_t at = 0; at < 50000; at += 20) {
			struct iovec iov[2];
			struct diw_dgram_burst b = burst_of(iov, at, 20, seg, seg);

			b.peer.addr = (struct diw_addr){ .ip = { 0x20, 1, 0xd, 0xb8, [15] = 1 }, .port = 5 };
			ck_assert_int_eq(d->ops->send(d, &b, 1, 0), 1);
		}
		rate_is(f->c.impair_lost, 50000, 1 - pow(0.9, parts), 1);
		done();
	}
}
END_TEST

START_TEST(seed_decides)
{
	static const char *const spec[] = { "loss=5%,seed=9", "burst=5%,seed=9", "loss=5%,dup=3%,seed=9",
					    "loss=5%,reorder=10%,dup=1%,corrupt=1%,seed=9" };
	static uint32_t other[1 << 18];
	int n = loss_pattern(spec[_i], 100, no), m;

	m = loss_pattern(spec[_i], 100, other);
	ck_assert_int_eq(n, m);
	ck_assert_mem_eq(no, other, sizeof *no * (size_t)n);
	/* Decisions are made for each datagram, independent of the packing into bursts. */
	m = loss_pattern(spec[_i], 1, other);
	ck_assert_int_eq(n, m);
	ck_assert_mem_eq(no, other, sizeof *no * (size_t)n);
	m = loss_pattern("loss=5%,seed=10", 100, other);
	ck_assert(n != m || memcmp(no, other, sizeof *no * (size_t)n));
}
END_TEST

START_TEST(blocked_decides_the_same)
{
	static uint32_t want[1 << 18];
	int n = loss_pattern("loss=20%,seed=4", 50, want);
	struct diw_rng r = { 8 };

	open_with("loss=20%,seed=4");
	for (uint32_t at = 0; at < 4000;) {
		int rc;

		f->room = (int)(diw_rng_next(&r) % 2);
		rc = send_burst(at, 50, 60, 60, 0);
		ck_assert(rc == 1 || rc == -EAGAIN);
		ck_assert(rc == 1 || !f->room);
		at += rc == 1 ? 50 : 0;
	}
	ck_assert_int_eq(left(no, 1 << 18), n);
	ck_assert_mem_eq(no, want, sizeof *no * (size_t)n);
	ck_assert_uint_eq(f->c.impair_lost, 4000 - n);
	done();
}
END_TEST

START_TEST(duplicates)
{
	uint32_t twice = 0;
	int n;

	open_with("dup=10%");
	send_numbered(20000, 100, 60);
	rate_is(f->c.impair_duplicated, 20000, 0.1, 1);
	n = left(no, 1 << 18);
	ck_assert_int_eq(n, 20000 + (int)f->c.impair_duplicated);
	for (int i = 1; i < n; i++) {
		ck_assert(no[i] == no[i - 1] || no[i] == no[i - 1] + 1);
		twice += no[i] == no[i - 1];
	}
	ck_assert_uint_eq(twice, f->c.impair_duplicated);
	done();
}
END_TEST

/* Datagrams that are held back survive a lower dgram that refuses the burst which would have freed them. */
START_TEST(blocked_while_held)
{
	struct diw_rng r = { 5 };
	static bool seen[4000];
	struct diw_dgram_burst b;
	int n;

	memset(seen, 0, sizeof seen);
	open_with("reorder=20%");
	for (uint32_t at = 0; at < 4000;) {
		f->room = (int)(diw_rng_next(&r) % 2);
		at += send_burst(at, 5, 60, 60, at) == 1 ? 5 : 0;
	}
	f->room = -1;
	d->ops->recv(d, &b, 1, DIW_MS);
	n = left(no, 1 << 18);
	ck_assert_int_eq(n, 4000);
	for (int i = 0; i < n; i++) {
		ck_assert(!seen[no[i]]);
		seen[no[i]] = true;
	}
	done();
}
END_TEST

/* Datagrams that the lower dgram refuses in the middle of a burst leave later, once, in order. */
START_TEST(blocked_in_the_middle)
{
	struct diw_rng r = { (uint64_t)_i };
	struct diw_dgram_burst b;
	int n;

	/* Duplicated to 200 datagrams a burst, which do not fit one super-buffer. */
	open_with("dup=100%");
	for (uint32_t at = 0; at < 3000;) {
		int rc;

		f->room = (int)(diw_rng_next(&r) % 3);
		rc = send_burst(at, 100, 60, 60, at);
		ck_assert(rc == 1 || rc == -EAGAIN);
		at += rc == 1 ? 100 : 0;
	}
	f->room = -1;
	d->ops->recv(d, &b, 1, 3000);
	n = left(no, 1 << 18);
	ck_assert_int_eq(n, 6000);
	for (int i = 0; i < n; i++)
		ck_assert_uint_eq(no[i], i / 2);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	ck_assert_uint_eq(f->c.impair_lost, 0);
	done();
}
END_TEST

START_TEST(corruption_flips_one_bit)
{
	uint32_t bad = 0;

	open_with("corrupt=10%");
	for (uint32_t at = 0; at < 20000; at += 100)
		ck_assert_int_eq(send_burst(at, 100, 60, 60, 0), 1);
	rate_is(f->c.impair_corrupted, 20000, 0.1, 1);
	uint32_t k = 0;

	for (int i = 0; i < f->ntx; i++)
		for (uint32_t at = 0; at < f->tx[i].len; at += 60, k++) {
			const uint8_t *p = f->tx[i].data + at;
			uint8_t want[4];
			int flipped = 0;

			diw_put32(want, k);
			for (uint32_t j = 0; j < 60; j++)
				flipped += __builtin_popcount(p[j] ^ (j < 4 ? want[j] : (uint8_t)(k % 100 * 60 + j)));
			ck_assert_int_le(flipped, 1);
			bad += (uint32_t)flipped;
		}
	ck_assert_uint_eq(k, 20000);
	ck_assert_uint_eq(bad, f->c.impair_corrupted);
	/* The caller's bytes are unchanged. */
	for (uint32_t j = 4; j < 60; j++)
		ck_assert_uint_eq(buf[j], j);
	done();
}
END_TEST

START_TEST(reordering)
{
	uint32_t behind = 0, highest = 0;
	static bool seen[20000];
	struct diw_dgram_burst b;
	int n;

	memset(seen, 0, sizeof seen);
	open_with("reorder=5%");
	send_numbered(20000, 100, 60);
	d->ops->recv(d, &b, 1, DIW_MS);
	rate_is(f->c.impair_reordered, 20000, 0.05, 1);
	n = left(no, 1 << 18);
	ck_assert_int_eq(n, 20000);          /* all are there, once */
	for (int i = 0; i < n; i++) {
		ck_assert(!seen[no[i]]);
		seen[no[i]] = true;
		if (no[i] < highest) {
			behind++;
			ck_assert_uint_le(highest - no[i], 16);
		}
		highest = MAX(highest, no[i]);
	}
	ck_assert_uint_ge(behind, f->c.impair_reordered * 9 / 10);
	ck_assert_uint_le(behind, f->c.impair_reordered);
	done();
}
END_TEST

START_TEST(held_back_no_longer_than_500us)
{
	struct diw_dgram_burst b;

	open_with("reorder=100%");
	ck_assert_int_eq(send_burst(1, 1, 60, 60, 1000), 1);
	ck_assert_int_eq(f->ntx, 0);
	ck_assert_uint_eq(d->ops->deadline(d), 1000 + 500 * DIW_US);
	d->ops->recv(d, &b, 1, 999 + 500 * DIW_US);
	ck_assert_int_eq(f->ntx, 0);
	d->ops->recv(d, &b, 1, 1000 + 500 * DIW_US);
	ck_assert_int_eq(f->ntx, 1);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	done();
}
END_TEST

START_TEST(delay_on_virtual_time)
{
	struct diw_dgram_burst b;

	open_with("delay=200us");
	f->deadline = 900 * DIW_US;
	for (uint32_t i = 0; i < 3; i++)
		ck_assert_int_eq(send_burst(i * 10, 10, 100, i == 2 ? 50 : 100, 1000 * i), 1);
	ck_assert_int_eq(f->ntx, 0);
	ck_assert_uint_eq(f->c.impair_delayed, 30);
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t due = 1000 * i + 200 * DIW_US;

		ck_assert_uint_eq(d->ops->deadline(d), due);
		d->ops->recv(d, &b, 1, due - 1);
		ck_assert_int_eq(f->ntx, (int)i);
		d->ops->recv(d, &b, 1, due);
		ck_assert_int_eq(f->ntx, (int)i + 1);
		ck_assert_uint_eq(f->tx[i].len, i == 2 ? 950 : 1000);   /* one super-buffer again */
		ck_assert_uint_eq(f->tx[i].now, due);
	}
	ck_assert_uint_eq(d->ops->deadline(d), 900 * DIW_US);
	/* A later send also sends the datagrams that are due. */
	send_burst(100, 1, 60, 60, DIW_MS);
	send_burst(101, 1, 60, 60, 2 * DIW_MS);
	ck_assert_int_eq(f->ntx, 4);
	/* While the lower dgram is full, datagrams that are due stay, and block. */
	f->room = 0;
	ck_assert_int_eq(send_burst(102, 1, 60, 60, 3 * DIW_MS), -EAGAIN);
	f->room = -1;
	ck_assert_int_eq(send_burst(102, 1, 60, 60, 3 * DIW_MS), 1);
	ck_assert_int_eq(f->ntx, 5);
	/* Ending the impairment does not drop waiting datagrams. */
	ck_assert_int_eq(diw_impair_set(d, NULL), 0);
	ck_assert_uint_eq(d->ops->deadline(d), 900 * DIW_US);
	d->ops->recv(d, &b, 1, 3 * DIW_MS + 200 * DIW_US);
	ck_assert_int_eq(left(no, 100), 33);
	ck_assert_uint_eq(no[32], 102);
	done();
}
END_TEST

START_TEST(queue_is_bounded)
{
	open_with("delay=1s");
	for (uint32_t i = 0; i < 6000; i++)
		ck_assert_int_eq(send_burst(i, 1, 60, 60, 0), 1);
	ck_assert_uint_eq(f->c.impair_lost, 6000 - f->c.impair_delayed);
	ck_assert_uint_eq(f->c.impair_delayed, 4096);
	done();
	open_with("delay=1ms");
	for (uint32_t i = 0; i < 1000; i++) {
		ck_assert_int_eq(send_burst(i, 1, 60000, 60000, i * 10 * DIW_US), 1);
		ck_assert_uint_eq(f->c.impair_lost, 0);
	}
	for (uint32_t i = 0; i < 1000; i++)
		ck_assert_int_eq(send_burst(i, 1, 60000, 60000, 10 * DIW_MS), 1);
	ck_assert_uint_gt(f->c.impair_lost, 800);
	done();
	/* More in flight than there is room for, several times around the ring: each is lost or whole, never
	 * overwritten. */
	open_with("delay=1500us");
	for (uint32_t i = 0; i < 2000; i++)
		ck_assert_int_eq(send_burst(i, 1, 60000, 60000, i * 10 * DIW_US), 1);
	ck_assert_uint_gt(f->c.impair_lost, 0);
	ck_assert_int_gt(left(no, 1 << 18), 1700);
	for (int i = 1, n = left(no, 1 << 18); i < n; i++)
		ck_assert_uint_gt(no[i], no[i - 1]);
	done();
}
END_TEST

START_TEST(everything_at_once)
{
	struct diw_dgram_burst b;
	uint64_t out;

	open_with("loss=5%,burst=2%:4,dup=5%,reorder=10%,delay=50us,corrupt=5%,mtu=1500,seed=77");
	for (uint32_t at = 0; at < 20000; at += 40) {
		int rc;

		f->room = at % 3 ? -1 : 1;
		rc = send_burst(at, 40, 1400, 900, at * 500ull);
		f->room = -1;
		if (rc == -EAGAIN)
			rc = send_burst(at, 40, 1400, 900, at * 500ull);
		ck_assert_int_eq(rc, 1);
	}
	d->ops->recv(d, &b, 1, DIW_S);
	d->ops->recv(d, &b, 1, 2 * DIW_S);
	out = 0;
	for (int i = 0; i < f->ntx; i++)
		out += (f->tx[i].len + f->tx[i].seg - 1) / f->tx[i].seg;
	ck_assert_uint_eq(out, 20000 + f->c.impair_duplicated - f->c.impair_lost);
	rate_is(f->c.impair_lost, 20000, 1 - 0.95 * 0.98, 3);
	ck_assert_uint_eq(d->ops->deadline(d), DIW_NEVER);
	done();
}
END_TEST

Suite *suite_impair(void)
{
	Suite *s = suite_create("impair");
	TCase *t = tcase_create("impair");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, idle_is_untouched, 0, 2);
	tcase_add_test(t, mask_is_exact);
	tcase_add_test(t, loss_rate);
	tcase_add_test(t, loss_in_bursts);
	tcase_add_test(t, fragments_are_lost_together);
	tcase_add_loop_test(t, seed_decides, 0, 4);
	tcase_add_test(t, blocked_decides_the_same);
	tcase_add_test(t, duplicates);
	tcase_add_test(t, blocked_while_held);
	tcase_add_loop_test(t, blocked_in_the_middle, 0, 10);
	tcase_add_test(t, corruption_flips_one_bit);
	tcase_add_test(t, reordering);
	tcase_add_test(t, held_back_no_longer_than_500us);
	tcase_add_test(t, delay_on_virtual_time);
	tcase_add_test(t, queue_is_bounded);
	tcase_add_test(t, everything_at_once);
	suite_add_tcase(s, t);
	return s;
}
