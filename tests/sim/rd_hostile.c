/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams and peers that forge, repeat, flood, or do not answer. */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/wire.h"
#include "tests/sim/rd_app.h"
#include "wire/rd_hdr.h"

/* The last datagram of KIND from node 0, to be changed. */
static uint8_t caught[2048];
static uint32_t caught_len;
static enum diw_rd_kind caught_kind;

static void catch(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p, uint32_t len)
{
	(void)n;
	(void)dst;
	if (src->ip[15] != 1 || p[0] >> 4 != caught_kind)
		return;
	memcpy(caught, p, len);
	caught_len = len;
}

static void forge(int field, uint32_t value)
{
	struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	uint8_t p[2048];

	memcpy(p, caught, caught_len);
	if (field == 2)
		diw_put16(p + field, (uint16_t)value);
	else
		diw_put32(p + field, value);
	diw_put32le(p + caught_len - 4, diw_crc32(0, p, caught_len - 4));
	rdn_inject(&rda_net, &src, &dst, p, caught_len, rda_net.now);
	rda_run(DIW_MS);
}

/* Acknowledgements of segments that were never sent, wrong tags, numbers beyond the window: they are counted and have
 * no other effect. */
START_TEST(forged)
{
	uint64_t stray, before;

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	for (int i = 0; i < 20; i++) {
		rda_send(0, 1, 100);
		rda_send(1, 0, 100);
		rda_run(10 * DIW_MS);
	}
	ck_assert_uint_eq(rda_app[1].from[0].came, 20);
	ck_assert(caught[1] & DIW_RD_ACKS);
	forge(12, diw_get32(caught + 12) + 1);                  /* ack */
	forge(12, diw_get32(caught + 12) + 0x7fffffff);
	forge(12, diw_get32(caught + 12) + 0x80000000);
	ck_assert_uint_ge(rda_net.node[1].c.rd_ack_ignored, 2);
	before = rda_net.node[1].c.rd_beyond;
	forge(8, diw_get32(caught + 8) + 5000);                 /* seq */
	forge(8, diw_get32(caught + 8) + 0x70000000);
	ck_assert_uint_eq(rda_net.node[1].c.rd_beyond, before + 2);
	before = rda_net.node[1].c.rd_duplicates;
	forge(8, diw_get32(caught + 8));
	forge(8, diw_get32(caught + 8) - 19);
	ck_assert_uint_ge(rda_net.node[1].c.rd_duplicates, before + 2);
	stray = rda_net.node[1].c.rd_stray;
	for (uint32_t bit = 0; bit < 32; bit++)
		forge(4, diw_get32(caught + 4) ^ 1u << bit);    /* tag */
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, stray + 32);
	forge(2, 0xffff);                                       /* window: the largest */
	rda_send_all(1, 0, 3000, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, rda_flow(1, 0)->sent);
	ck_assert_uint_eq(rda_app[0].from[1].came, rda_flow(1, 0)->sent);
	forge(2, 0);                                            /* window: 0 */
	ck_assert_int_eq(rda_send(1, 0, 100), 1);
	rda_send(0, 1, 100);
	rda_run(5 * DIW_S);
	ck_assert_uint_eq(rda_app[1].from[0].came, 21);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, rda_flow(1, 0)->sent);
	ck_assert_uint_eq(rda_flow(1, 0)->failed, 0);
	rdn_free(&rda_net);
}
END_TEST

static uint64_t answered;

static void count_answers(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			  uint32_t len)
{
	(void)n;
	(void)dst;
	(void)p;
	if (src->ip[15] == 2)
		answered += len;
}

/* A flood of OPEN and DATA from addresses that receive nothing uses no memory, and no answer is longer than its
 * cause. */
START_TEST(flood)
{
	struct diw_rd_hdr open = { .kind = DIW_RD_OPEN, .my_epoch = 7 };
	struct diw_rd_hdr data = { .kind = DIW_RD_DATA, .flags = DIW_RD_NEW, .my_tag = 1, .my_epoch = 7, .first = 9,
		.seq = 9 };
	uint8_t p[DIW_RD_HDR_MAX + 24] = { 0 };

	rda_begin(2);
	for (uint32_t i = 0; i < 10000; i++) {
		struct diw_addr src = rdn_addr(100), dst = rdn_addr(1);
		const struct diw_rd_hdr *h = i & 1 ? &open : &data;
		uint32_t len;

		src.port = (uint16_t)(i + 1);
		open.seq = data.tag = i * 2654435761u;
		len = diw_rd_hdr_encode(p, h) + (i & 1 ? 0 : 20);
		diw_put32le(p + len, diw_crc32(0, p, len));
		rdn_inject(&rda_net, &src, &dst, p, len + 4, rda_net.now);
	}
	answered = 0;
	rda_net.tap = count_answers;
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_net.node[1].c.rd_peers_full, 0);
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, 5000);
	ck_assert_uint_le(answered, 5000 * (DIW_RD_HDR_MAX + 4) + 5000 * (DIW_RD_HDR + 4));
	for (int i = 0; i < 50; i++)
		rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 50);
	rdn_free(&rda_net);
}
END_TEST

/* Injects the caught datagram unchanged. */
static void replay(void)
{
	const struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);

	rdn_inject(&rda_net, &src, &dst, caught, caught_len, rda_net.now);
	rda_run(DIW_MS);
}

/* The first datagram of an earlier process of node 0 comes again, from its address, after node 0 has restarted three
 * times. The association with the present process stays. */
START_TEST(replayed)
{
	const uint64_t lifetime[] = { DIW_S, 3 * DIW_S, 9 * DIW_S };
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t restarts;
	uint8_t first[sizeof caught];
	uint32_t first_len;

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	rda_send(0, 1, 100);
	rda_run(DIW_MS);
	ck_assert(caught[1] & DIW_RD_NEW);
	first_len = caught_len;
	memcpy(first, caught, first_len);
	for (int life = 2; life < 5; life++) {
		rda_run(lifetime[_i]);
		rda_kill(0);
		rda_revive(0, &cfg);
		rda_send_all(0, 1, 20, 100);
		rda_run(DIW_S);
		ck_assert_uint_eq(rda_flow(0, 1)->acked, 20);
	}
	rda_net.tap = NULL;
	restarts = rda_net.node[1].c.rd_restarts;
	memcpy(caught, first, first_len);
	caught_len = first_len;
	for (int i = 0; i < 100; i++)
		replay();
	ck_assert_uint_eq(rda_net.node[1].c.rd_restarts, restarts);
	ck_assert_uint_ge(rda_net.node[1].c.rd_stray, 100);
	rda_send_all(0, 1, 20, 100);
	rda_send_all(1, 0, 20, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 40);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 20);
	rdn_free(&rda_net);
}
END_TEST

static struct diw_rd_hdr heard[DIW_RD_KINDS];    /* the last header of each kind that node 1 has sent */

/* Sends H from node 0, with the tag of its datagrams; GRANT: with the nonce of the OPEN. */
static void say(struct diw_rd_hdr h)
{
	const struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	uint8_t p[DIW_RD_HDR_MAX + 4];
	uint32_t len;

	h.tag = h.kind == DIW_RD_GRANT ? heard[DIW_RD_OPEN].seq : diw_get32(caught + 4);
	len = diw_rd_hdr_encode(p, &h);
	diw_put32le(p + len, diw_crc32(0, p, len));
	rdn_inject(&rda_net, &src, &dst, p, len + 4, rda_net.now);
	rda_run(DIW_MS);
}

/* An acknowledgement of a number that is neither before nor behind all that was sent; and a refusal from that number
 * on. */
START_TEST(half_way_round)
{
	uint32_t far;

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	rda_send(0, 1, 100);
	rda_run(10 * DIW_MS);
	rda_send(1, 0, 100);
	rda_run(10 * DIW_MS);
	rda_send(0, 1, 100);
	rda_run(10 * DIW_MS);
	ck_assert(caught[1] & DIW_RD_ACKS);
	far = diw_get32(caught + 12) + 0x80000000u;
	say((struct diw_rd_hdr){ .kind = DIW_RD_ACK, .flags = DIW_RD_ACKS, .ack = far, .window = 1 });
	say((struct diw_rd_hdr){ .kind = DIW_RD_REFUSE, .ack = far, .window = 1 });
	ck_assert_uint_eq(rda_net.node[1].c.rd_rejected, 0);
	rda_send_all(1, 0, 50, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 51);
	rdn_free(&rda_net);
}
END_TEST

/* Node 0 has gone. Its RESET and its announcement come again and again. They are no answers: node 1's message fails in
 * time. */
START_TEST(answers_of_old)
{
	const struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	struct diw_rd_hdr reset = { .kind = DIW_RD_RESET };
	uint8_t p[DIW_RD_HDR_MAX + 4];
	uint32_t len;

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	rda_send(0, 1, 100);
	rda_run(DIW_MS);
	ck_assert(caught[1] & DIW_RD_NEW);
	rda_net.tap = NULL;
	reset.tag = diw_get32(caught + 24);
	len = diw_rd_hdr_encode(p, &reset);
	diw_put32le(p + len, diw_crc32(0, p, len));
	rda_send(1, 0, 100);
	rda_run(DIW_MS);
	ck_assert_uint_eq(rda_flow(1, 0)->acked, 1);
	rda_kill(0);
	rda_send(1, 0, 100);
	for (int i = 0; i < 130; i++) {
		rdn_inject(&rda_net, &src, &dst, p, len + 4, rda_net.now);
		rda_run(50 * DIW_MS);
		replay();
		rda_run(49 * DIW_MS);
	}
	ck_assert_uint_eq(rda_flow(1, 0)->failed, 1);
	rdn_free(&rda_net);
}
END_TEST

/* Segments of a node that has gone, and that were not taken, are not kept longer than the node is known. */
static void held_of_a_node_that_went(bool taken)
{
	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	for (int i = 0; i < 2; i++) {
		rda_send(0, 1, 100);
		rda_run(10 * DIW_MS);
	}
	rda_app[1].refuses_from[0] = !taken;
	rda_kill(0);
	forge(8, diw_get32(caught + 8) + 1 + taken);    /* the next number, or the one behind it */
	rda_run(40 * DIW_S);
	ck_assert_uint_eq(rda_net.node[1].c.rd_forgotten, 0);
	rda_run(80 * DIW_S);
	ck_assert_uint_eq(rda_net.node[1].c.rd_forgotten, 1);
	rdn_free(&rda_net);
}

START_TEST(leaves_a_gap)
{
	held_of_a_node_that_went(true);
	held_of_a_node_that_went(false);
}
END_TEST

/* Node 1, which has nothing to send, learns a tag that node 0 does not take. Its acknowledgements are answered by
 * RESET, and it asks for a good one. */
START_TEST(another_tag)
{
	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	rda_send(0, 1, 100);
	rda_run(DIW_MS);
	ck_assert(caught[1] & DIW_RD_NEW);
	rda_net.tap = NULL;
	forge(24, diw_get32(caught + 24) + 1);                  /* own tag */
	for (int i = 0; i < 20; i++) {
		rda_send(0, 1, 100);
		rda_run(DIW_S);
	}
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 21);
	ck_assert_uint_eq(rda_net.node[0].c.rd_dead, 0);
	ck_assert_uint_le(rda_net.node[1].c.rd_stray, 1);
	rdn_free(&rda_net);
}
END_TEST

static void hear(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p, uint32_t len)
{
	struct diw_rd_hdr h;

	(void)n;
	(void)dst;
	if (src->ip[15] == 2 && diw_rd_hdr_decode(&h, p, len - 4))
		heard[h.kind] = h;
}

/* Node 0 answers OPEN by GRANT, and sends a segment that it has not announced. The segment is dropped and counted. */
START_TEST(never_announces)
{
	struct diw_rd_cfg cfg = rda_cfg();
	const struct diw_addr src = rdn_addr(0), dst = rdn_addr(1);
	struct diw_rd_hdr data = { .kind = DIW_RD_DATA, .seq = 9 };
	uint8_t p[DIW_RD_HDR + 24] = { 0 };

	rdn_init(&rda_net, 1);
	rdn_start(&rda_net, 1, &cfg, &rda_up);
	rda_net.tap = hear;
	rda_send(1, 0, 100);
	rda_run(DIW_MS);
	say((struct diw_rd_hdr){ .kind = DIW_RD_GRANT, .my_tag = 5, .my_epoch = 7 });
	say((struct diw_rd_hdr){ .kind = DIW_RD_OPEN, .my_epoch = 7 });
	data.tag = heard[DIW_RD_GRANT].my_tag;
	diw_rd_hdr_encode(p, &data);
	diw_put32le(p + DIW_RD_HDR + 20, diw_crc32(0, p, DIW_RD_HDR + 20));
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, 0);
	rdn_inject(&rda_net, &src, &dst, p, sizeof p, rda_net.now);
	rda_run(DIW_MS);
	ck_assert_uint_eq(rda_net.node[1].c.rd_stray, 1);
	rdn_free(&rda_net);
}
END_TEST

/* RESETs with wrong tags have no effect. One with the right tag costs a round trip, and no message. */
START_TEST(reset_storm)
{
	uint8_t p[DIW_RD_HDR_MAX + 4];
	const struct diw_addr src = rdn_addr(1), dst = rdn_addr(0);

	rda_begin(2);
	caught_kind = DIW_RD_DATA;
	rda_net.tap = catch;
	for (int i = 0; i < 2000; i++) {
		const uint32_t tag = caught_len ? diw_get32(caught + 4) : 0;
		struct diw_rd_hdr h = { .kind = DIW_RD_RESET, .tag = i % 100 ? tag + (uint32_t)i : tag };
		uint32_t len = diw_rd_hdr_encode(p, &h);

		diw_put32le(p + len, diw_crc32(0, p, len));
		rdn_inject(&rda_net, &src, &dst, p, len + 4, rda_net.now);
		rda_send_all(0, 1, 5, 100);
		rda_run(100 * DIW_US);
	}
	rda_run(5 * DIW_S);
	ck_assert_uint_ge(rda_net.node[0].c.rd_stray, 1900);
	ck_assert_uint_gt(rda_flow(0, 1)->sent, 5000);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, rda_flow(0, 1)->sent);
	ck_assert_uint_eq(rda_app[1].from[0].came, rda_flow(0, 1)->sent);
	rdn_free(&rda_net);
}
END_TEST

/* A node opens the association, and then neither acknowledges nor answers. */
START_TEST(never_acknowledges)
{
	uint64_t from;

	rda_begin(3);
	rda_send(0, 1, 100);
	rda_run(DIW_MS);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 1);
	rda_net.node[0].deaf_from = rda_net.now;        /* node 1's answers are lost */
	rda_net.node[0].deaf_to = DIW_NEVER;
	ck_assert_uint_gt(rda_send_all(0, 1, 5000, 100), 100);
	from = rda_net.now;
	while (rda_flow(0, 1)->acked + rda_flow(0, 1)->failed < rda_flow(0, 1)->sent)
		rdn_step(&rda_net, from + 60 * DIW_S);
	ck_assert_uint_lt(rda_net.now - from, 13 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, rda_flow(0, 1)->sent - 1);
	ck_assert_int_eq(rda_error, ETIMEDOUT);
	ck_assert_uint_eq(rda_net.node[0].c.rd_dead, 1);
	ck_assert(!rda_flow(0, 1)->waits);
	rdn_free(&rda_net);
}
END_TEST

/* ---- Damage ---- */

static int tolerant_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	volatile uint8_t sum = 0;

	(void)ctx;
	(void)src;
	(void)now;
	for (int i = 0; i < n; i++)
		for (uint32_t k = 0; k < segs[i].len; k++)
			sum = (uint8_t)(sum + segs[i].data[k]);
	return rda_below(8) ? n : rda_below((uint32_t)n + 1);
}

static uint64_t fuzz_ended;

static void fuzz_count(void *ctx, uint32_t first, uint32_t n)
{
	(void)first;
	if (ctx == &rda_net.node[0])
		fuzz_ended += n;
}

static void fuzz_refused(void *ctx, uint32_t first, uint32_t n, int errnum)
{
	(void)errnum;
	fuzz_count(ctx, first, n);
}

static const struct diw_link_up fuzz_up = { .rx = tolerant_rx, .acked = fuzz_count, .refused = fuzz_refused };

static uint32_t fuzz_post(int from, int to, uint32_t most)
{
	static uint8_t data[1400];
	const struct iovec iov = { data + 8, 100 };
	const struct diw_link_seg seg = { .hdr = data, .hdr_len = 8, .len = 100, .iov = &iov };
	const struct diw_dest dst = { .addr = rdn_addr(to) };
	struct diw_link *l = rda_net.node[from].l;
	uint32_t n = 0;

	while (n < most && l->ops->send(l, &dst, &seg, 1, rda_net.now) == 1)
		n++;
	l->ops->flush(l, rda_net.now);
	return n;
}

/* Datagrams between node 0 and node 1, with some octets changed and a good CRC, from the right address or from another.
 * Whatever they do to these two nodes, all posted messages end, and node 2 is not affected. */
static void fuzz_inject(struct rdn *n, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *p,
			uint32_t len)
{
	struct diw_addr from = *src;
	uint8_t q[2048];

	if (src->ip[15] == 3 || dst->ip[15] == 3 || rda_below(4))
		return;
	memcpy(q, p, len);
	for (int k = 1 + rda_below(4); k--;)
		q[rda_below(rda_below(3) ? DIW_RD_HDR_MAX : len - 4) % (int)(len - 4)] = (uint8_t)rda_below(256);
	if (rda_below(8) == 0)
		len = 5 + (uint32_t)rda_below(len - 5);
	diw_put32le(q + len - 4, diw_crc32(0, q, len - 4));
	if (rda_below(4) == 0)
		from.port++;
	rdn_inject(n, &from, dst, q, len, n->now + (uint64_t)rda_below(2000) * DIW_US);
}

START_TEST(fuzz)
{
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t posted = 0, end;

	rdn_init(&rda_net, 4000 + (uint64_t)_i);
	fuzz_ended = 0;
	cfg.peers = 16;
	for (int i = 0; i < 2; i++)
		rdn_start(&rda_net, i, &cfg, &fuzz_up);
	rdn_start(&rda_net, 2, &cfg, &fuzz_up);
	rda_net.tap = fuzz_inject;
	for (end = rda_net.now + DIW_S / 2; rda_net.now < end; rdn_step(&rda_net, rda_net.now + DIW_MS)) {
		posted += fuzz_post(0, 1, 4);
		fuzz_post(1, 0, 4);
	}
	rda_net.tap = NULL;
	rda_run(100 * DIW_S);
	ck_assert_uint_eq(fuzz_ended, posted);
	posted += fuzz_post(0, 2, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(fuzz_ended, posted);
	posted += fuzz_post(0, 1, 100);
	rda_run(30 * DIW_S);
	ck_assert_uint_eq(fuzz_ended, posted);
	rdn_free(&rda_net);
}
END_TEST

TCase *tcase_rd_hostile(void)
{
	TCase *tc = tcase_create("hostile");

	tcase_add_test(tc, forged);
	tcase_add_test(tc, flood);
	tcase_add_loop_test(tc, replayed, 0, 3);
	tcase_add_test(tc, half_way_round);
	tcase_add_test(tc, answers_of_old);
	tcase_add_test(tc, leaves_a_gap);
	tcase_add_test(tc, another_tag);
	tcase_add_test(tc, never_announces);
	tcase_add_test(tc, reset_storm);
	tcase_add_test(tc, never_acknowledges);
	tcase_add_loop_test(tc, fuzz, 0, 100);
	tcase_set_timeout(tc, 60);
	return tc;
}
