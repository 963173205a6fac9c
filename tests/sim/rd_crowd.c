/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One link of reliable datagrams and thousands of peers: the cost of a step, the memory of a peer, a full table. The
 * peers are not links: they answer each datagram as a link with all segments in order would.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/list.h"
#include "base/wire.h"
#include "tests/net/net.h"
#include "tests/sim/rd_net.h"
#include "wire/rd_hdr.h"

#define CROWD 16384u
#define LEN 64u
#define EPOCH 77u

static struct crowd {
	struct diw_dgram d;
	struct diw_counters c;
	struct diw_link *l;
	uint64_t now;
	uint32_t peers, acked, rooms;
	uint32_t told[CROWD];        /* the peers to which there was room, in turn; a ring of `rooms` entries */
	bool mute;                   /* peers answer nothing */
	uint32_t head, tail, tag[CROWD];     /* tag: the one that the link gave to peer i */
	uint8_t out[CROWD][DIW_RD_HDR_MAX + LEN];
	struct { uint32_t peer, len; } order[CROWD];
	struct iovec iov;
} crowd;

static struct diw_addr crowd_addr(uint32_t i)
{
	return (struct diw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 1 }, .port = (uint16_t)(i + 1) };
}

/* Peer I sends H with BODY octets behind it; the link receives it at its next poll. */
static void crowd_say(uint32_t i, const struct diw_rd_hdr *h, uint32_t body)
{
	uint32_t slot = crowd.tail++ % CROWD, len;

	ck_assert_uint_le(crowd.tail - crowd.head, CROWD);
	len = diw_rd_hdr_encode(crowd.out[slot], h) + body;
	memset(crowd.out[slot] + len - body, 0, body);
	diw_put32le(crowd.out[slot] + len, diw_crc32(0, crowd.out[slot], len));
	crowd.order[slot].peer = i;
	crowd.order[slot].len = len + 4;
}

static void crowd_answer(uint32_t i, const struct diw_rd_hdr *h)
{
	struct diw_rd_hdr a = { .time = h->time, .echo = h->time };

	if (h->kind == DIW_RD_GRANT)
		crowd.tag[i] = h->my_tag;
	if (h->kind == DIW_RD_OPEN) {
		a.kind = DIW_RD_GRANT;
		a.flags = DIW_RD_ECHOES;
		a.tag = h->seq;
		a.my_tag = i + 1;
		a.my_epoch = EPOCH;
	} else if (h->kind == DIW_RD_DATA) {
		a.kind = DIW_RD_ACK;
		a.flags = DIW_RD_ACKS | DIW_RD_ECHOES;
		a.tag = h->my_tag ? crowd.tag[i] = h->my_tag : crowd.tag[i];
		a.ack = h->seq + 1;
		a.window = 64;
	} else {
		return;
	}
	crowd_say(i, &a, 0);
}

static int crowd_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	static uint8_t flat[DIW_DGRAM_MAX];

	(void)d;
	(void)now;
	for (int i = 0; i < n && !crowd.mute; i++) {
		uint32_t len = 0;

		for (int k = 0; k < b[i].niov; k++) {
			memcpy(flat + len, b[i].iov[k].iov_base, b[i].iov[k].iov_len);
			len += (uint32_t)b[i].iov[k].iov_len;
		}
		for (uint32_t off = 0; off < len; off += b[i].seg) {
			struct diw_rd_hdr h;

			if (diw_rd_hdr_decode(&h, flat + off, (len - off < b[i].seg ? len - off : b[i].seg) - 4))
				crowd_answer(b[i].peer.addr.port - 1u, &h);
		}
	}
	return n;
}

static int crowd_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	uint32_t slot = crowd.head % CROWD;

	(void)d;
	(void)now;
	if (crowd.head == crowd.tail || n < 1)
		return 0;
	crowd.head++;
	crowd.iov = (struct iovec){ crowd.out[slot], crowd.order[slot].len };
	b[0] = (struct diw_dgram_burst){ .peer.addr = crowd_addr(crowd.order[slot].peer), .iov = &crowd.iov, .niov = 1,
		.len = crowd.order[slot].len, .seg = crowd.order[slot].len };
	return 1;
}

static uint64_t crowd_deadline(struct diw_dgram *d) { (void)d; return DIW_NEVER; }
static uint32_t crowd_mtu(struct diw_dgram *d, const struct diw_addr *dst) { (void)d; (void)dst; return 1472; }
static int crowd_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS]) { (void)d; (void)fd; return 0; }
static void crowd_close(struct diw_dgram *d) { (void)d; }

static const struct diw_dgram_ops crowd_ops = {
	.name = "crowd", .send = crowd_send, .recv = crowd_recv, .deadline = crowd_deadline, .mtu = crowd_mtu,
	.fds = crowd_fds, .close = crowd_close,
};

static int crowd_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	(void)ctx;
	(void)src;
	(void)segs;
	(void)now;
	return n;
}

static void crowd_acked(void *ctx, uint32_t first, uint32_t n)
{
	(void)ctx;
	(void)first;
	crowd.acked += n;
}

static void crowd_room(void *ctx, const struct diw_addr *peer)
{
	(void)ctx;
	crowd.told[crowd.rooms++ % CROWD] = peer ? peer->port - 1u : CROWD;
}

static const struct diw_link_up crowd_up = { .rx = crowd_rx, .acked = crowd_acked, .room = crowd_room };

static void crowd_begin_with(uint32_t peers, uint32_t slots)
{
	const struct diw_rd_cfg cfg = { .dead_ns = 10 * DIW_S, .idle_ns = 60 * DIW_S, .ack_ns = 40 * DIW_US,
		.peers = peers, .slots = slots, .peer_slots = 2048, .held = 1024, .window = 1024, .max_seg = 1400 };

	net_random_seed(1);
	memset(&crowd, 0, sizeof crowd);
	crowd.now = DIW_S;
	crowd.d = (struct diw_dgram){ .ops = &crowd_ops, .state = &crowd.d.own, .c = &crowd.c };
	ck_assert_int_eq(diw_rd_open(&crowd.d, 0, &cfg, &crowd_up, NULL, &crowd.l), 0);
}

static void crowd_begin(uint32_t peers)
{
	crowd_begin_with(peers, 32768);
}

static int crowd_post(uint32_t peer)
{
	uint8_t data[LEN] = { 0 };
	const struct iovec iov = { data, LEN - 8 };
	const struct diw_link_seg seg = { .hdr = data, .hdr_len = 8, .len = LEN - 8, .iov = &iov };
	const struct diw_dest dst = { .addr = crowd_addr(peer) };

	return crowd.l->ops->send(crowd.l, &dst, &seg, 1, crowd.now);
}

/* Lets time pass, and runs the link when it is due. */
static void crowd_run(uint64_t ns)
{
	uint64_t end = crowd.now + ns;

	while (crowd.now < end) {
		uint64_t at = crowd.head == crowd.tail ? crowd.l->ops->deadline(crowd.l) : crowd.now + DIW_US;

		crowd.now = diw_max64(crowd.now, diw_min64(at, end));
		crowd.l->ops->poll(crowd.l, 64, crowd.now);
		crowd.l->ops->flush(crowd.l, crowd.now);
	}
}

static void crowd_meet(uint32_t peers)
{
	for (uint32_t i = 0; i < peers; i++) {
		ck_assert_int_eq(crowd_post(i), 1);
		if (i % 1024 == 1023)
			crowd_run(DIW_MS);
	}
	crowd_run(DIW_S);
	ck_assert_uint_eq(crowd.acked, peers);
}

/* ---- The cost of a step ---- */

static double clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* PEERS have a segment that is not acknowledged. Returns the CPU time of a message to one more peer and its answer. */
static double step_cost(uint32_t peers)
{
	double best = 1e18;

	crowd_begin(CROWD);
	crowd_meet(peers + 1);
	crowd.mute = true;
	for (uint32_t i = 1; i <= peers; i++)
		ck_assert_int_eq(crowd_post(i), 1);
	crowd.l->ops->flush(crowd.l, crowd.now);
	crowd.mute = false;
	crowd.acked = 0;
	for (int round = 0; round < 20; round++) {
		double began = clock_ns();

		for (int i = 0; i < 50; i++) {          /* in 1 ms, so there is no timeout */
			crowd_post(0);
			crowd.l->ops->flush(crowd.l, crowd.now);
			crowd.now++;
			crowd.l->ops->poll(crowd.l, 1, crowd.now);
		}
		best = clock_ns() - began < best ? clock_ns() - began : best;
	}
	ck_assert_uint_ge(crowd.acked, 1000);
	crowd.l->ops->close(crowd.l);
	return best / 50;
}

START_TEST(many_active)
{
	double one = step_cost(1), hundred = step_cost(100), thousands = step_cost(4000);

	printf("rd: a message and its acknowledgement, CPU: %.0f ns with 1 active peer, %.0f with 100, "
	       "%.0f with 4,000\n", one, hundred, thousands);
	ck_assert_double_lt(thousands, 4 * one);
}
END_TEST

/* Posts as many of the LEFT messages to PEER as the link takes. Returns how many are left. */
static uint32_t crowd_post_most(uint32_t peer, uint32_t left)
{
	while (left && crowd_post(peer) == 1)
		left--;
	return left;
}

/* A program sends several messages to each of many more peers than there are slots. An acknowledgement that frees one
 * does not wake all of those that wait, and each gets its turn. */
START_TEST(many_want_a_slot)
{
	enum { PEERS = 512, SLOTS = 64, EACH = 8 };
	uint32_t left[PEERS], tried = 0, unserved = 0;

	crowd_begin_with(PEERS, SLOTS);
	for (uint32_t i = 0; i < PEERS; i++)
		left[i] = crowd_post_most(i, EACH);
	for (uint32_t n = 0; crowd.acked < EACH * PEERS && n < 100 * PEERS; n++) {
		crowd.now += 10 * DIW_US;
		crowd.l->ops->flush(crowd.l, crowd.now);
		crowd.l->ops->poll(crowd.l, 1, crowd.now);
		for (uint32_t end = crowd.rooms; tried < end; tried++) {
			uint32_t i = crowd.told[tried % CROWD];

			left[i] = crowd_post_most(i, left[i]);
		}
		if (crowd.acked < 2 * PEERS)
			continue;
		for (uint32_t i = 0; i < PEERS; i++)
			unserved += left[i] == EACH;
	}
	ck_assert_uint_eq(crowd.acked, EACH * PEERS);
	ck_assert_uint_eq(unserved, 0);
	ck_assert_uint_le(tried, 2 * EACH * PEERS);
	crowd.l->ops->close(crowd.l);
}
END_TEST

/* Peers that wait for a slot, and have nothing to send when there is one, keep no other from it: the link is due until
 * all were told. */
START_TEST(many_want_no_slot_any_more)
{
	crowd_begin_with(512, 64);
	for (uint32_t i = 0; i < 512; i++)
		ck_assert_int_eq(crowd_post(i), i < 64);
	crowd_run(100 * DIW_MS);
	ck_assert_uint_eq(crowd.acked, 64);
	ck_assert_uint_eq(crowd.rooms, 512 - 64);
	crowd.l->ops->close(crowd.l);
}
END_TEST

/* ---- The memory of a peer ---- */

static long resident(void)
{
	long pages = 0, total;
	FILE *f = fopen("/proc/self/statm", "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%ld %ld", &total, &pages), 2);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

START_TEST(idle_memory)
{
	long before;

	crowd_begin(CROWD);
	memset(crowd.out, 1, sizeof crowd.out);         /* touches the memory of the test itself before the
							 * measurement */
	memset(crowd.order, 1, sizeof crowd.order);
	memset(crowd.tag, 1, sizeof crowd.tag);
	crowd_meet(1000);
	before = resident();
	for (uint32_t i = 1000; i < 9000; i++) {
		ck_assert_int_eq(crowd_post(i), 1);
		if (i % 100 == 99)
			crowd_run(DIW_MS);
	}
	crowd_run(DIW_S);
	ck_assert_uint_eq(crowd.acked, 9000);
	printf("rd: an idle peer needs %.0f octets\n", (double)(resident() - before) / 8000);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__   /* the memory of sanitizers is not the link's */
	ck_assert_int_le((resident() - before) / 8000, 512);
#endif
	crowd_run(200 * DIW_S);
	ck_assert_uint_eq(crowd.c.rd_forgotten, 9000);
	crowd.acked = 0;
	crowd_meet(2000);
	crowd.l->ops->close(crowd.l);
}
END_TEST

/* ---- A full table ---- */

static void crowd_announce(uint32_t i)
{
	const struct diw_rd_hdr data = { .kind = DIW_RD_DATA, .flags = DIW_RD_NEW, .tag = crowd.tag[i], .my_tag = i + 1,
		.my_epoch = EPOCH, .first = 9, .seq = 9 };

	crowd_say(i, &data, 16);
}

/* Peers that prove their address and send can fill three quarters of the table. The rest is for peers that the program
 * sends to; they also get the places of idle peers. */
START_TEST(table_full)
{
	crowd_begin(1024);
	for (uint32_t i = 0; i < 4000; i++) {
		const struct diw_rd_hdr open = { .kind = DIW_RD_OPEN, .seq = i, .my_epoch = EPOCH };

		crowd_say(i, &open, 0);
	}
	crowd_run(10 * DIW_MS);
	ck_assert_uint_eq(crowd.c.rd_peers_full, 0);
	for (uint32_t i = 0; i < 4000; i++)
		crowd_announce(i);
	crowd_run(10 * DIW_MS);
	ck_assert_uint_eq(crowd.c.rd_peers_full, 4000 - 768);
	for (uint32_t i = 5000; i < 5256; i++)
		ck_assert_int_eq(crowd_post(i), 1);
	ck_assert_int_eq(crowd_post(6000), 0);
	crowd_run(30 * DIW_S);
	ck_assert_uint_eq(crowd.acked, 256);
	ck_assert_uint_eq(crowd.c.rd_forgotten, 0);
	ck_assert_int_eq(crowd_post(6000), 0);
	ck_assert_uint_eq(crowd.rooms, 0);
	crowd_run(60 * DIW_S);
	ck_assert_uint_gt(crowd.rooms, 0);
	ck_assert_int_eq(crowd_post(6000), 1);
	crowd_run(DIW_S);
	ck_assert_uint_eq(crowd.acked, 257);
	crowd.l->ops->close(crowd.l);
}
END_TEST

/* A process that did not run for long sends to one peer more than its full table holds. The table forgets no peer for
 * it before the process could ask those that owe it answers. */
START_TEST(table_full_after_a_sleep)
{
	crowd_begin(64);
	crowd_meet(64);
	crowd.now += 120 * DIW_S;
	ck_assert_int_eq(crowd_post(100), 0);
	ck_assert_uint_eq(crowd.c.rd_forgotten, 0);
	crowd_run(10 * DIW_MS);
	ck_assert_int_eq(crowd_post(100), 0);
	ck_assert_int_eq(crowd_post(5), 1);
	crowd_run(10 * DIW_S);
	ck_assert_uint_gt(crowd.rooms, 0);
	ck_assert_int_eq(crowd_post(100), 1);
	crowd_run(10 * DIW_S);
	ck_assert_uint_eq(crowd.acked, 66);
	ck_assert_uint_eq(crowd.c.rd_forgotten, 63);
	crowd.l->ops->close(crowd.l);
}
END_TEST

TCase *tcase_rd_crowd(void)
{
	TCase *tc = tcase_create("crowd");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, many_active);
	tcase_add_test(tc, many_want_a_slot);
	tcase_add_test(tc, many_want_no_slot_any_more);
	tcase_add_test(tc, idle_memory);
	tcase_add_test(tc, table_full);
	tcase_add_test(tc, table_full_after_a_sleep);
	return tc;
}
