/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that are received in place: llp/udp_place.c on lo, llp/seal.c above it, and reliable datagrams above
 * both. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/wire.h"
#include "llp/link.h"
#include "llp/udp.h"
#include "tests/unit/fake_dgram.h"
#include "tests/unit/kernel.h"
#include "tests/unit/unit.h"
#include "tests/unit/verbs_kit.h"
#include "wire/seal.h"

#define LARGE 50000u
#define END 4u                       /* octets behind those in place */

/* A layer above that has two places, of which the second has what is left. */
struct above {
	struct diw_dgram_reach r;
	uint8_t mem[2][70000];
	uint32_t first;              /* octets of the first place; 0: there is none */
	uint32_t asked, len;
	struct diw_addr src;
	uint8_t head[DIW_DGRAM_HEAD];
};

static struct above up;
static struct diw_counters ca, cb;
static struct diw_dgram *a, *b;
static uint64_t at;                  /* the clock: no thread polls all the time */
static uint8_t out[DIW_DGRAM_MAX];

static int above_ask(struct diw_dgram_reach *r, const struct diw_addr *src, const uint8_t *head, uint32_t len,
		     uint64_t now)
{
	ck_assert_ptr_eq(r, &up.r);
	ck_assert_uint_eq(now, at);
	up.asked++;
	up.src = *src;
	up.len = len;
	memcpy(up.head, head, sizeof up.head);
	if (!up.first)
		return 0;
	r->place[0] = (struct iovec){ up.mem[0], up.first };
	r->place[1] = (struct iovec){ up.mem[1], len - DIW_DGRAM_HEAD - up.first - END };
	return 2;
}

static struct diw_dgram *udp_at(struct diw_addr local, const struct diw_addr *peer, struct diw_counters *c)
{
	struct diw_dgram_attr attr = { .local = local, .mtu = 65536, .rcvbuf = 4 << 20, .c = c };
	struct diw_dgram *d;

	if (peer)
		attr.peer = *peer;
	ck_assert_int_eq(diw_udp_open(&attr, &d), 0);
	return d;
}

static void setup(void)
{
	const struct diw_addr lo = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };

	memset(&ca, 0, sizeof ca);
	memset(&up, 0, sizeof up);
	up.r.ask = above_ask;
	up.first = 1000;
	a = udp_at(lo, NULL, &ca);
	b = udp_at(lo, NULL, &cb);
	a->reach = &up.r;
}

static void teardown(void)
{
	kernel_looked = NULL;
	a->ops->close(a);
	b->ops->close(b);
}

static void send_large(uint32_t len, uint8_t mark)
{
	struct iovec iov = { out, len };
	struct diw_dgram_burst t = { .peer.addr = a->local, .iov = &iov, .niov = 1, .len = len, .seg = len };

	for (uint32_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 7 + i / 251 + mark);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
}

/* The next datagram, which is that of `out` with LEN octets. Returns how many of these were in place. */
static uint32_t recv_large(uint32_t len)
{
	struct diw_dgram_burst r;
	const uint8_t *p;
	uint32_t rest;

	up.r.placed = 0;
	at += DIW_MS;
	ck_assert_int_eq(a->ops->recv(a, &r, 1, at), 1);
	ck_assert_uint_eq(r.len, len);
	ck_assert_uint_eq(r.seg, len);
	ck_assert(diw_addr_eq(&r.peer.addr, &b->local));
	p = r.iov->iov_base;
	if (!up.r.placed) {
		ck_assert_mem_eq(p, out, len);
		return 0;
	}
	rest = up.r.placed - up.first;
	ck_assert_mem_eq(p, out, DIW_DGRAM_HEAD);
	ck_assert_mem_eq(up.mem[0], out + DIW_DGRAM_HEAD, up.first);
	ck_assert_mem_eq(up.mem[1], out + DIW_DGRAM_HEAD + up.first, rest);
	ck_assert_mem_eq(p + DIW_DGRAM_HEAD, out + DIW_DGRAM_HEAD + up.r.placed, len - DIW_DGRAM_HEAD - up.r.placed);
	return up.r.placed;
}

START_TEST(in_place)
{
	send_large(LARGE, 0);
	ck_assert_uint_eq(recv_large(LARGE), 0);        /* nothing told that it would be large */
	for (uint8_t i = 1; i < 100; i++) {
		uint32_t len = i % 2 ? LARGE + i : DIW_DGRAM_MAX - i;

		send_large(len, i);
		ck_assert_uint_eq(recv_large(len), len - DIW_DGRAM_HEAD - END);
		ck_assert_uint_eq(up.asked, i);
		ck_assert_uint_eq(up.len, len);
		ck_assert(diw_addr_eq(&up.src, &b->local));
		ck_assert_mem_eq(up.head, out, DIW_DGRAM_HEAD);
	}
	ck_assert_uint_eq(ca.rx_in_place, 99);
	ck_assert_uint_eq(ca.rx_datagrams, 100);
	ck_assert_uint_gt(ca.rx_bytes, 100 * LARGE);
}
END_TEST

/* Answers to a peer make it the hot one: its datagrams come to a connected socket, which reads no names. */
START_TEST(hot)
{
	struct iovec iov = { out, 8 };
	struct diw_dgram_burst r, t = { .peer.addr = b->local, .iov = &iov, .niov = 1, .len = 8, .seg = 8 };

	for (int i = 0; i < 1100; i++) {
		ck_assert_int_eq(a->ops->send(a, &t, 1, at), 1);
		ck_assert_int_eq(b->ops->recv(b, &r, 1, at), 1);
	}
	ck_assert_int_ge(((struct diw_udp *)a)->hot_fd, 0);
	for (uint8_t i = 0; i < 20; i++) {
		send_large(LARGE, i);
		ck_assert_uint_eq(recv_large(LARGE) > 0, i > 0);
	}
	ck_assert(diw_addr_eq(&up.src, &b->local));
}
END_TEST

/* A datagram without a place comes as a whole. Looks in vain become rare. */
START_TEST(no_place)
{
	up.first = 0;
	for (int i = 0; i < 300; i++) {
		send_large(LARGE, (uint8_t)i);
		ck_assert_uint_eq(recv_large(LARGE), 0);
	}
	ck_assert_uint_ge(up.asked, 5);
	ck_assert_uint_le(up.asked, 12);
	ck_assert_uint_eq(ca.rx_in_place, 0);
	up.first = 1000;
	for (int i = 0; i < 100; i++) {
		send_large(LARGE, (uint8_t)i);
		recv_large(LARGE);
	}
	ck_assert_uint_ge(ca.rx_in_place, 30);
}
END_TEST

/* One vain look of each three is no reason to look less. */
START_TEST(some_have_none)
{
	for (uint8_t i = 0; i < 90; i++) {
		up.first = i % 3 ? 1000 : 0;
		send_large(LARGE, i);
		ck_assert_uint_eq(recv_large(LARGE) > 0, i % 3 != 0);
	}
	ck_assert_uint_eq(up.asked, 89);
}
END_TEST

/* Small datagrams, and those that share a super-buffer. */
START_TEST(not_asked)
{
	struct iovec iov = { out, 60000 };
	struct diw_dgram_burst r, t = { .peer.addr = a->local, .iov = &iov, .niov = 1, .len = 60000, .seg = 20000 };

	send_large(LARGE, 0);
	recv_large(LARGE);
	for (uint32_t got = 0; got < 60000; got += r.len) {
		if (!got)
			ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
		ck_assert_int_eq(a->ops->recv(a, &r, 1, at), 1);
		ck_assert_mem_eq(r.iov->iov_base, out + got, r.len);
	}
	send_large(20000, 0);
	ck_assert_uint_eq(recv_large(20000), 0);
	ck_assert_uint_eq(up.asked, 0);
}
END_TEST

static void other_reader(int fd)
{
	char c;

	ck_assert_int_eq(recv(fd, &c, 1, 0), 1);
	kernel_looked = NULL;
}

/* Another process takes the datagram of the look: the next one, shorter or longer, is read to that place and comes as a
 * whole. */
START_TEST(stolen)
{
	static const uint32_t len[] = { LARGE, LARGE + 5000, LARGE - 20000, DIW_DGRAM_HEAD + 500, 60, 1 };

	send_large(LARGE, 1);
	recv_large(LARGE);
	for (size_t i = 0; i < sizeof len / sizeof *len; i++) {
		send_large(LARGE, 2);
		recv_large(LARGE);
		ck_assert_uint_gt(ca.rx_in_place, 0);
		send_large(LARGE, 3);
		send_large(len[i], (uint8_t)(4 + i));
		kernel_looked = other_reader;
		ck_assert_uint_eq(recv_large(len[i]), 0);
		ck_assert_ptr_null(kernel_looked);
		ck_assert_uint_eq(up.r.placed, 0);
		send_large(LARGE, 9);
		recv_large(LARGE);
	}
}
END_TEST

/* The next one is several in a super-buffer, which together have the length and the head of that of the look. */
START_TEST(stolen_of_several)
{
	struct iovec iov = { out, LARGE };
	struct diw_dgram_burst r, t = { .peer.addr = a->local, .iov = &iov, .niov = 1, .len = LARGE, .seg = LARGE / 2 };

	send_large(LARGE, 1);
	recv_large(LARGE);
	send_large(LARGE, 2);
	ck_assert_int_eq(b->ops->send(b, &t, 1, 1), 1);
	kernel_looked = other_reader;
	ck_assert_int_eq(a->ops->recv(a, &r, 1, at), 1);
	ck_assert_ptr_null(kernel_looked);
	ck_assert_uint_eq(r.seg, LARGE / 2);
	ck_assert_uint_eq(up.r.placed, 0);
	ck_assert_mem_eq(r.iov->iov_base, out, r.len);
}
END_TEST

/* ---- llp/seal.c ---- */

static struct diw_link *l;
static uint8_t place[LARGE];
static uint32_t segments, came_len, came_placed;

static int link_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	(void)ctx;
	(void)src;
	(void)now;
	ck_assert_int_eq(n, 1);
	segments++;
	came_len = segs->len;
	came_placed = segs->placed;
	ck_assert_mem_eq(segs->data, out, segs->len - segs->placed);
	ck_assert_mem_eq(place, out + DIW_DGRAM_HEAD, segs->placed);
	return n;
}

static int link_reach(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		      struct iovec *iov, uint64_t now)
{
	(void)ctx;
	(void)src;
	(void)now;
	ck_assert_uint_eq(from, DIW_DGRAM_HEAD);
	*iov = (struct iovec){ place, seg->len - from };
	return 1;
}

static const struct diw_link_up link_up = { .rx = link_rx, .reach = link_reach };
static bool own = true;

static bool is_own(struct diw_dgram *d, const struct diw_addr *addr)
{
	(void)d;
	(void)addr;
	return own;
}

/* The next datagram comes in place if the layer above has a place. */
static int recv_placed(struct diw_dgram *d, struct diw_dgram_burst *r, int n, uint64_t now)
{
	struct fake *f = (struct fake *)d;
	struct fake_burst *k = f->rx + f->next_rx;

	if (n < 1 || f->next_rx == f->nrx)
		return 0;
	f->next_rx++;
	f->rx_iov[0] = (struct iovec){ k->data, k->len };
	*r = (struct diw_dgram_burst){ .peer = k->peer, .iov = f->rx_iov, .niov = 1, .len = k->len, .seg = k->seg };
	if (d->reach->ask(d->reach, &k->peer.addr, k->data, k->len, now) == 1) {
		d->reach->placed = (uint32_t)d->reach->place->iov_len;
		memcpy(place, k->data + DIW_DGRAM_HEAD, d->reach->placed);
		memmove(k->data + DIW_DGRAM_HEAD, k->data + DIW_DGRAM_HEAD + d->reach->placed,
			k->len - DIW_DGRAM_HEAD - d->reach->placed);
		memset(k->data + k->len - d->reach->placed, 0xee, d->reach->placed);
	}
	return 1;
}

/* A segment without CRC stays in place. One with a CRC, in which BAD octets are wrong, is checked as any other. */
static void sealed_comes(bool open, bool bad, bool taken, bool placed)
{
	static uint8_t sent[LARGE];
	struct diw_dgram_ops ops;
	struct fake *f = fake_new();

	ops = *f->d.ops;
	ops.recv = recv_placed;
	ops.own = is_own;
	f->d.ops = &ops;
	ck_assert_int_eq(diw_seal_open(&f->d, 0, &link_up, NULL, &l), 0);
	l->takes_bare = true;
	for (uint32_t i = 0; i < LARGE; i++)
		out[i] = (uint8_t)(i * 13 + i / 200);
	if (open)
		diw_seal_leave_open(out, LARGE);
	else
		diw_seal_put(out + LARGE - DIW_SEAL_LEN, diw_crc32(0, out, LARGE - DIW_SEAL_LEN));
	memcpy(sent, out, LARGE);
	sent[LARGE / 2] ^= bad;
	segments = 0;
	fake_deliver(f, &f->d.local, sent, LARGE, LARGE);
	l->ops->poll(l, 8, 5);
	ck_assert_uint_eq(segments, taken);
	ck_assert_uint_eq(f->c.rx_crc, !taken);
	if (taken) {
		ck_assert_uint_eq(came_len, LARGE - DIW_SEAL_LEN);
		ck_assert_uint_eq(came_placed, placed ? LARGE - DIW_SEAL_LEN - DIW_DGRAM_HEAD : 0);
	}
	l->ops->close(l);
	fake_free(f);
}

START_TEST(sealed)
{
	sealed_comes(true, false, true, true);
	sealed_comes(false, false, true, false);
	sealed_comes(false, true, false, false);
	own = false;
	sealed_comes(false, false, true, false);
	sealed_comes(true, false, false, false);        /* from another host: the end is a wrong CRC */
}
END_TEST

/* ---- Reliable datagrams ---- */

#define MESSAGE 500001u
#define MANY 4u
#define SMALL 100000u
#define TARGET (KIT_SIZE / 2)

static struct kit k;
static struct end from, to;

static void open_rd(const char *crc)
{
	struct diw_qp_attr attr;

	setenv("DIWARP_LLP", "udp", 1);         /* a ring receives nothing in place */
	kit_open(&k, DIW_PROGRESS_THREAD);
	end_attr(&attr);
	attr.type = DIW_QP_RD;
	ck_assert_int_eq(crc ? setenv("DIWARP_CRC", crc, 1) : unsetenv("DIWARP_CRC"), 0);
	end_open(&from, &k, &attr, 64);
	end_open(&to, &k, &attr, 64);
	unsetenv("DIWARP_CRC");
	kit_fill(&k);
	memset(k.mem + TARGET, 0, TARGET);
}

static void close_rd(void)
{
	end_close(&from);
	end_close(&to);
	kit_close(&k);
}

static void completes(struct diw_cq *cq)
{
	struct diw_wc wc;

	for (uint32_t i = 0; i < MANY; i++) {
		ck_assert_int_eq(diw_cq_poll(cq, &wc, 1, KIT_LIMIT), 1);
		ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	}
}

static void arrived(void)
{
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(memcmp(k.mem + TARGET + i * MESSAGE, k.mem + i * MESSAGE, MESSAGE), 0);
	for (uint32_t i = MANY * MESSAGE; i < TARGET; i++)
		ck_assert_uint_eq(k.mem[TARGET + i], 0);
}

static void sends_come(void)
{
	for (uint32_t i = 0; i < MANY; i++) {
		uint8_t *at = k.mem + TARGET + i * MESSAGE;
		struct diw_sge sge[3] = { { at, 70000, k.mr->stag }, { at + 70000, 1, k.mr->stag },
					  { at + 70001, MESSAGE - 70001, k.mr->stag } };
		struct diw_recv_wr wr = { .sge = sge, .num_sge = 3 };

		ck_assert_int_eq(diw_post_recv(to.qp, &wr, NULL), 0);
	}
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(end_send(&from, &to, i * MESSAGE, MESSAGE, DIW_SEND_SIGNALED), 0);
	completes(to.rcq);
	completes(from.scq);
}

START_TEST(sends)
{
	open_rd(NULL);
	sends_come();
	arrived();
	ck_assert_uint_gt(end_counter(&to, "rx_in_place"), 0);
	ck_assert_uint_eq(end_counter(&to, "rd_held_full"), 0);
	close_rd();
}
END_TEST

START_TEST(with_crc)
{
	open_rd("on");
	sends_come();
	arrived();
	ck_assert_uint_eq(end_counter(&to, "rx_in_place"), 0);
	close_rd();
}
END_TEST

/* No octet passes an impairment unseen. */
START_TEST(impaired)
{
	uint64_t before;

	open_rd(NULL);
	sends_come();
	ck_assert_int_eq(diw_qp_impair(to.qp, "rx.dup=5%,seed=3", NULL, 0), 0);
	before = end_counter(&to, "rx_in_place");
	memset(k.mem + TARGET, 0, TARGET);
	sends_come();
	arrived();
	ck_assert_uint_eq(end_counter(&to, "rx_in_place"), before);
	close_rd();
}
END_TEST

START_TEST(writes)
{
	open_rd(NULL);
	for (uint32_t i = 0; i < MANY; i++)
		ck_assert_int_eq(end_write(&from, &to, i * MESSAGE, MESSAGE, DIW_SEND_SIGNALED), 0);
	completes(to.rcq);
	completes(from.scq);
	arrived();
	ck_assert_uint_gt(end_counter(&to, "rx_in_place"), 0);
	close_rd();
}
END_TEST

/* A message of two segments: both fit the ring, so none takes the wire and overtakes another. */
static void small_comes(void)
{
	struct diw_wc wc;

	ck_assert_int_eq(end_recv(&to, TARGET, SMALL, 1), 0);
	ck_assert_int_eq(end_send(&from, &to, 0, SMALL, DIW_SEND_SIGNALED), 0);
	ck_assert_int_eq(diw_cq_poll(to.rcq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(wc.status, DIW_WC_SUCCESS);
	ck_assert_int_eq(diw_cq_poll(from.scq, &wc, 1, KIT_LIMIT), 1);
	ck_assert_int_eq(memcmp(k.mem, k.mem + TARGET, SMALL), 0);
	memset(k.mem + TARGET, 0, SMALL);
}

/* Through shared memory, too. The first messages take the wire. */
START_TEST(by_memory)
{
	uint64_t placed;

	setenv("DIWARP_LOOPBACK", "memory", 1);
	open_rd(_i ? "on" : NULL);
	for (int i = 0; i < 1000 && end_counter(&to, "shm_rx_datagrams") < 10; i++)
		small_comes();
	placed = end_counter(&to, "rx_in_place");
	ck_assert_uint_ge(end_counter(&to, "shm_rx_datagrams"), 10);
	for (int i = 0; i < 100; i++)
		small_comes();
	ck_assert_uint_gt(end_counter(&to, "rx_in_place"), placed + 10);
	ck_assert(!_i || end_counter(&from, "rd_bare") == 0);
	close_rd();
	unsetenv("DIWARP_LOOPBACK");
}
END_TEST

START_TEST(reads)
{
	open_rd(NULL);
	for (uint32_t i = 0; i < MANY; i++) {
		struct diw_sge sge = { k.mem + TARGET + i * MESSAGE, MESSAGE, k.mr->stag };
		struct diw_send_wr wr = { .opcode = DIW_WR_READ, .sge = &sge, .num_sge = 1, .flags = DIW_SEND_SIGNALED,
					  .dst.addr = to.addr, .stag = k.mr->stag,
					  .to = k.mr->to + i * MESSAGE };

		ck_assert_int_eq(diw_post_send(from.qp, &wr, NULL), 0);
	}
	completes(from.scq);
	arrived();
	ck_assert_uint_gt(end_counter(&from, "rx_in_place"), 0);
	close_rd();
}
END_TEST

Suite *suite_place(void)
{
	Suite *s = suite_create("place");
	TCase *tc = tcase_create("udp");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, in_place);
	tcase_add_test(tc, hot);
	tcase_add_test(tc, no_place);
	tcase_add_test(tc, some_have_none);
	tcase_add_test(tc, not_asked);
	tcase_add_test(tc, stolen);
	tcase_add_test(tc, stolen_of_several);
	suite_add_tcase(s, tc);
	tc = tcase_create("links");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, sealed);
	tcase_add_test(tc, sends);
	tcase_add_test(tc, with_crc);
	tcase_add_test(tc, impaired);
	tcase_add_test(tc, writes);
	tcase_add_loop_test(tc, by_memory, 0, 2);
	tcase_add_test(tc, reads);
	suite_add_tcase(s, tc);
	return s;
}
