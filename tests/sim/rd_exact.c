/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams, scenarios one by one: peers that end, restart, are slow, or are forgotten. */
#include <errno.h>
#include <string.h>

#include "tests/sim/rd_app.h"

/* Without faults no segment is sent twice, and acknowledgements are a fraction of the datagrams. */
START_TEST(calm)
{
	rda_begin(2);
	for (int i = 0; i < 4000; i++) {
		while (!rda_send(0, 1, 1000))
			rda_run(100 * DIW_US);
	}
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 4000);
	ck_assert_uint_eq(rda_app[1].from[0].came, 4000);
	ck_assert_uint_eq(rda_net.node[0].c.rd_retransmits, 0);
	ck_assert_uint_eq(rda_net.node[1].c.rd_duplicates, 0);
	ck_assert_uint_lt(rda_net.node[1].c.rd_acks, 4000 / 8);
	rdn_free(&rda_net);
}
END_TEST

/* 32 segments leave in one burst, and cause two acknowledgements. */
START_TEST(bursts)
{
	static uint8_t data[1000];
	const struct iovec iov = { data, sizeof data };
	const struct diw_dest dst = { .addr = rdn_addr(1) };
	struct diw_link_seg seg[32];
	struct diw_link *l;
	uint64_t sent, acks;

	rda_begin(2);
	rda_send_all(0, 1, 100, 1000);
	rda_run(DIW_S);
	rda_app[1].refuses_from[0] = true;           /* the following messages have no number of the program */
	for (int i = 0; i < 32; i++)
		seg[i] = (struct diw_link_seg){ .hdr = data, .hdr_len = 16, .len = 984, .iov = &iov };
	l = rda_net.node[0].l;
	sent = rda_net.node[0].bursts;
	acks = rda_net.node[1].bursts;
	ck_assert_int_eq(l->ops->send(l, &dst, seg, 32, rda_net.now), 32);
	l->ops->flush(l, rda_net.now);
	ck_assert_uint_eq(rda_net.node[0].bursts, sent + 1);
	rda_run(200 * DIW_US);
	ck_assert_uint_eq(rda_net.node[0].bursts, sent + 1);
	ck_assert_uint_gt(rda_net.node[1].bursts, acks);
	ck_assert_uint_le(rda_net.node[1].bursts, acks + 3);
	rdn_free(&rda_net);
}
END_TEST

/* An acknowledgement that a segment has carried is not due any more: the link sleeps until the retransmission. */
START_TEST(carried_acknowledgement)
{
	struct diw_link *l;

	rda_begin(2);
	for (int i = 0; i < 10; i++) {
		rda_send(0, 1, 100);
		rda_run(300 * DIW_US);
		rda_send(1, 0, 100);
		rda_run(300 * DIW_US);
	}
	rda_send(0, 1, 100);
	while (rda_app[1].from[0].came < 11)
		rda_run(DIW_US);
	rda_send(1, 0, 100);
	l = rda_net.node[1].l;
	l->ops->poll(l, 1, rda_net.now);
	l->ops->flush(l, rda_net.now);
	ck_assert_uint_gt(l->ops->deadline(l), rda_net.now + rda_cfg().ack_ns);
	rdn_free(&rda_net);
}
END_TEST

static uint32_t acked_before;

static int before_rx(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now)
{
	acked_before = rda_flow(0, 1)->acked;
	return rda_up.rx(ctx, src, segs, n, now);
}

/* A segment goes up before the acknowledgement that it carries is looked at. The next flush or poll does that. */
START_TEST(segment_before_its_acknowledgement)
{
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link_up up = rda_up;

	up.rx = before_rx;
	rda_begin(2);
	rdn_stop(&rda_net, 0);
	rdn_start(&rda_net, 0, &cfg, &up);
	for (uint32_t i = 0; i < 4; i++) {
		rda_send(0, 1, 100);
		while (rda_app[1].from[0].came < i + 1)
			rda_run(DIW_US);
		rda_send(1, 0, 100);
		while (rda_app[0].from[1].came < i + 1)
			rda_run(DIW_US);
		ck_assert_uint_eq(acked_before, i);
		ck_assert_uint_eq(rda_flow(0, 1)->acked, i + 1);
	}
	rdn_free(&rda_net);
}
END_TEST

static const struct diw_dgram_ops *open_ops;
static bool full;                    /* the socket of node 0 */

static int full_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	return full ? -EAGAIN : open_ops->send(d, b, n, now);
}

/* A flow that waits for its pace goes on at that time, although the socket was full meanwhile. */
START_TEST(paced_behind_full_socket)
{
	struct diw_dgram_ops ops;
	struct diw_link *l;
	uint64_t paced, begin;

	rda_begin(4);
	rda_net.latency = 10 * DIW_MS;
	begin = rda_net.now;
	l = rda_net.node[0].l;
	open_ops = rda_net.node[0].d.ops;
	ops = *open_ops;
	ops.send = full_send;
	rda_net.node[0].d.ops = &ops;
	for (int to = 2; to < 4; to++)
		rda_send(0, to, 100);
	/* Until only the pace keeps the flow from sending. */
	do {
		rda_send_all(0, 1, 2000, 1000);
		rda_run(100 * DIW_US);
		paced = l->ops->deadline(l);
	} while (rda_net.now < begin + 100 * DIW_MS || paced <= rda_net.now || paced > rda_net.now + DIW_MS);
	full = true;
	rda_send(0, 2, 100);
	rda_send(0, 3, 100);
	ck_assert_int_eq(l->ops->flush(l, rda_net.now), -EAGAIN);
	ck_assert_uint_le(l->ops->deadline(l), paced);
	full = false;
	ck_assert_int_eq(l->ops->flush(l, rda_net.now), 0);
	ck_assert_uint_le(l->ops->deadline(l), paced);
	rda_net.node[0].d.ops = open_ops;
	rdn_free(&rda_net);
}
END_TEST

/* Segments to two peers in turn leave as one burst to each, at flush. */
START_TEST(turns_share_bursts)
{
	static uint8_t data[100];
	const struct iovec iov = { data, sizeof data };
	const struct diw_link_seg seg = { .hdr = data, .hdr_len = 16, .len = 84, .iov = &iov };
	struct diw_link *l;
	uint64_t sent;

	rda_begin(3);
	for (int to = 1; to <= 2; to++)
		rda_send_all(0, to, 100, 1000);
	rda_run(DIW_S);
	l = rda_net.node[0].l;
	sent = rda_net.node[0].bursts;
	for (int i = 0; i < 16; i++) {
		const struct diw_dest dst = { .addr = rdn_addr(1 + i % 2) };

		ck_assert_int_eq(l->ops->send(l, &dst, &seg, 1, rda_net.now), 1);
		ck_assert(l->ops->staged(l));
	}
	ck_assert_uint_eq(rda_net.node[0].bursts, sent);
	ck_assert_int_eq(l->ops->flush(l, rda_net.now), 0);
	ck_assert_uint_eq(rda_net.node[0].bursts, sent + 2);
	ck_assert(!l->ops->staged(l));
	rdn_free(&rda_net);
}
END_TEST

/* A segment is lost with none behind it: after 0.2 ms a probe asks, and its answer shows the loss. */
START_TEST(tail_loss)
{
	rda_begin(2);
	rda_net.latency = 10 * DIW_US;
	rda_net.jitter = 0;
	for (int i = 0; i < 100; i++) {
		ck_assert(rda_send(0, 1, 100));
		rda_run(100 * DIW_US);
	}
	for (int i = 0; i < 20; i++) {
		rda_net.node[1].deaf_from = rda_net.now;
		rda_net.node[1].deaf_to = rda_net.now + 50 * DIW_US;
		ck_assert(rda_send(0, 1, 100));
		rda_run(500 * DIW_US);
		ck_assert_uint_eq(rda_flow(0, 1)->acked, 101 + i);
	}
	ck_assert_uint_eq(rda_net.node[0].c.rd_timeouts, 20);
	ck_assert_uint_eq(rda_net.node[0].c.rd_retransmits, 20);
	rdn_free(&rda_net);
}
END_TEST

/* A peer that does not exist is reported after dead_ns, and delays no other peer. */
START_TEST(dead_peer)
{
	rda_begin(3);
	rdn_stop(&rda_net, 2);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(rda_send(0, 2, 100), 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(rda_send(0, 1, 100), 1);
	rda_run(100 * DIW_MS);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 100);
	ck_assert_uint_eq(rda_flow(0, 2)->failed, 0);
	rda_run(11 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 2)->failed, 10);
	ck_assert_int_eq(rda_error, ETIMEDOUT);
	rdn_free(&rda_net);
}
END_TEST

/* A sender that gets a processor every 3 s only does not give up a peer that it has asked ten times, not even one that
 * has answered for a long time, but has taken nothing. */
START_TEST(starved_sender)
{
	struct diw_link *l;

	rda_begin(2);
	for (int known = 0; known < 3; known++) {
		l = rda_net.node[0].l;
		rda_net.node[1].deaf_from = rda_net.now;
		rda_net.node[1].deaf_to = DIW_NEVER;
		ck_assert_int_eq(rda_send(0, 1, 100), 1);
		if (known == 2) {
			rda_net.node[1].deaf_from = DIW_NEVER;
			rda_app[1].stalled_to = DIW_NEVER;
			rda_run(30 * DIW_S);
			rda_app[1].stalled_to = 0;
			rda_net.node[1].deaf_from = rda_net.now;
		}
		for (int i = 0; i < 10; i++) {
			rda_net.now += 3 * DIW_S;
			l->ops->poll(l, 64, rda_net.now);
			l->ops->flush(l, rda_net.now);
		}
		ck_assert_uint_eq(rda_flow(0, 1)->failed, 0);
		rda_net.node[1].deaf_to = rda_net.now;
		rda_run(DIW_S);
		ck_assert_uint_eq(rda_flow(0, 1)->acked, 1 + known);
	}
	ck_assert_uint_eq(rda_net.node[0].c.rd_dead, 0);
	rdn_free(&rda_net);
}
END_TEST

/* Node 0 receives one datagram each 100 ms, and has junk in its socket at any time. */
static void junk_read(int seconds)
{
	const struct diw_addr self = rdn_addr(0), other = rdn_addr(2);
	struct diw_link *l = rda_net.node[0].l;

	rda_net.service = 1;
	rda_net.node[0].ready_at = DIW_NEVER;           /* this function polls it */
	for (int i = 0; i <= 10 * seconds; i++)
		rdn_inject(&rda_net, &other, &self, "junk", 4, rda_net.now);
	rda_run(DIW_MS);
	for (int i = 0; i < 10 * seconds; i++) {
		ck_assert_int_eq(l->ops->poll(l, 1, rda_net.now), 1);
		l->ops->flush(l, rda_net.now);
		rda_run(100 * DIW_MS);
	}
	rda_net.node[0].ready_at = 0;
}

/* An end that receives seldom does not give up a peer whose answers are behind others in its socket, for 30 s. */
START_TEST(full_socket)
{
	rda_begin(3);
	rdn_stop(&rda_net, 2);
	ck_assert_int_eq(rda_send(0, 1, 100), 1);
	ck_assert_int_eq(rda_send(0, 2, 100), 1);
	junk_read(25);
	ck_assert_uint_eq(rda_net.node[0].c.rd_dead, 0);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 1);
	rda_run(12 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 2)->failed, 1);
	ck_assert_int_eq(rda_send(0, 2, 100), 1);
	ck_assert_int_eq(rda_send(0, 1, 100), 1);
	junk_read(25);
	ck_assert_uint_eq(rda_net.node[0].c.rd_dead, 1);
	junk_read(30);
	ck_assert_uint_eq(rda_flow(0, 2)->failed, 2);
	rdn_free(&rda_net);
}
END_TEST

/* Many peers that do not exist, each of which is sent as much as the link takes, leave slots for one that does. */
START_TEST(dead_peers)
{
	uint32_t given = 0;

	rda_begin(22);
	for (int i = 2; i < 22; i++) {
		rdn_stop(&rda_net, i);
		given += rda_send_all(0, i, 5000, 100);
	}
	ck_assert_uint_gt(given, 20);
	for (int ms = 0; ms < 300; ms++) {
		rda_send_all(0, 1, 30000 - rda_flow(0, 1)->sent, 100);
		rda_run(DIW_MS);
	}
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 30000);
	rda_run(20 * DIW_S);
	for (int i = 2; i < 22; i++) {
		ck_assert_uint_eq(rda_flow(0, i)->failed, rda_flow(0, i)->sent);
		ck_assert(!rda_flow(0, i)->waits);
	}
	rdn_free(&rda_net);
}
END_TEST

/* There are fewer slots than peers: each peer gets its turn. */
START_TEST(few_slots)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rda_begin(20);
	rdn_stop(&rda_net, 0);
	cfg.slots = 3;
	rdn_start(&rda_net, 0, &cfg, &rda_up);
	for (int i = 0; i < 4000; i++) {
		for (int to = 0; to < 19; to++)
			rda_send(0, 1 + (i + to) % 19, 100);
		rda_run(100 * DIW_US);
	}
	for (int to = 1; to < 20; to++)
		ck_assert_uint_gt(rda_flow(0, to)->acked, 100);
	rdn_free(&rda_net);
}
END_TEST

/* A receiver that refuses the segments of one peer receives as much from another one as before. The first peer loses
 * nothing. */
START_TEST(slow_for_one)
{
	rda_begin(3);
	rda_app[2].refuses_from[0] = true;
	for (int ms = 0; ms < 200; ms++) {
		rda_send_all(0, 2, 5000, 100);
		rda_send_all(1, 2, 5000, 100);
		rda_send_all(0, 1, 20000 - rda_flow(0, 1)->sent, 100);
		rda_run(DIW_MS);
	}
	ck_assert_uint_eq(rda_flow(0, 2)->acked, 0);
	ck_assert_uint_gt(rda_flow(1, 2)->acked, 20000);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 20000);
	ck_assert_uint_eq(rda_net.node[2].c.rd_held_full, 0);
	rda_run(30 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 2)->failed, 0);
	rda_app[2].refuses_from[0] = false;
	rda_run(10 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 2)->acked, rda_flow(0, 2)->sent);
	rdn_free(&rda_net);
}
END_TEST

/* A receiver is killed and starts again: messages that it had not acknowledged fail, later ones arrive. */
START_TEST(restart_receiver)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rda_begin(2);
	for (int i = 0; i < 20; i++)
		rda_send(0, 1, 100);
	rda_run(100 * DIW_MS);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 20);
	rdn_stop(&rda_net, 1);
	for (int i = 0; i < 5; i++)
		rda_send(0, 1, 100);
	rda_run(100 * DIW_MS);
	rdn_start(&rda_net, 1, &cfg, &rda_up);
	rda_run(2 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 5);
	ck_assert_int_eq(rda_error, ECONNRESET);
	ck_assert_uint_eq(rda_net.node[0].c.rd_restarts, 1);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	for (int i = 0; i < 5; i++)
		rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 25);
	ck_assert_uint_eq(rda_app[1].from[0].came, 30);
	rdn_free(&rda_net);
}
END_TEST

/* A receiver is killed, and given up. It starts again: messages that are sent after that go to it. */
START_TEST(restart_given_up)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rda_begin(2);
	rda_send(0, 1, 100);
	rda_run(100 * DIW_MS);
	rdn_stop(&rda_net, 1);
	rda_send(0, 1, 100);
	rda_run(15 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 1);
	ck_assert_int_eq(rda_error, ETIMEDOUT);
	rdn_start(&rda_net, 1, &cfg, &rda_up);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	for (int i = 0; i < 5; i++)
		rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 1);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 6);
	ck_assert_uint_eq(rda_net.node[0].c.rd_restarts, 1);
	ck_assert_uint_eq(rda_app[0].from[1].gone, 1);
	rdn_free(&rda_net);
}
END_TEST

/* A sender that is killed and starts again on its port. */
START_TEST(restart_sender)
{
	struct diw_rd_cfg cfg = rda_cfg();

	rda_begin(2);
	for (int i = 0; i < 20; i++)
		rda_send(0, 1, 100);
	rda_run(100 * DIW_MS);
	rdn_stop(&rda_net, 0);
	rdn_start(&rda_net, 0, &cfg, &rda_up);
	memset(&rda_app[0], 0, sizeof rda_app[0]);
	rda_app[0].life = 2;
	for (int i = 0; i < 20; i++)
		rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 20);
	ck_assert_uint_eq(rda_app[1].from[0].came, 20);
	ck_assert_uint_eq(rda_app[1].from[0].life, 2);
	rdn_free(&rda_net);
}
END_TEST

/* A peer that was silent for long is forgotten, and later accepted again without loss. */
START_TEST(forgotten)
{
	rda_begin(2);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			rda_send(round & 1, !(round & 1), 100);
		rda_run(200 * DIW_S);
		ck_assert_uint_eq(rda_flow(round & 1, !(round & 1))->acked, round == 2 ? 40 : 20);
	}
	ck_assert_uint_ge(rda_net.node[0].c.rd_forgotten, 2);
	ck_assert_uint_eq(rda_app[1].from[0].came, 40);
	rdn_free(&rda_net);
}
END_TEST

/* A sender that gets no answer for long gives up the messages that the receiver has not taken. Each end reports it
 * once. */
START_TEST(given_up)
{
	rda_begin(2);
	rda_send(0, 1, 100);
	rda_run(100 * DIW_MS);
	rda_net.node[1].deaf_from = rda_net.now;
	rda_net.node[1].deaf_to = rda_net.now + 15 * DIW_S;
	rda_send(0, 1, 100);
	rda_run(20 * DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->failed, 1);
	ck_assert_uint_eq(rda_app[0].from[1].gone, 1);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 0);
	rda_app[1].from[0].came = rda_flow(0, 1)->sent;
	rda_send(0, 1, 100);
	rda_run(DIW_S);
	ck_assert_uint_eq(rda_flow(0, 1)->acked, 2);
	ck_assert_uint_eq(rda_app[0].from[1].gone, 1);
	ck_assert_uint_eq(rda_app[1].from[0].gone, 1);
	rdn_free(&rda_net);
}
END_TEST

static int sockets_closed;

static void socket_close(struct diw_dgram *d)
{
	(void)d;
	sockets_closed++;
}

/* Segments behind the missing ones of all peers fill the memory for held segments. The missing ones need none of it. */
START_TEST(few_held)
{
	enum { SENDERS = 5, MESSAGES = 200 };
	struct diw_rd_cfg cfg = rda_cfg();
	uint64_t end;

	rdn_init(&rda_net, (uint64_t)_i);
	memset(rda_app, 0, sizeof rda_app);
	cfg.held = 8;
	cfg.window = 16;
	rda_net.loss = 0.4;
	rda_net.jitter = 5 * DIW_MS;
	for (int i = 0; i <= SENDERS; i++) {
		rdn_start(&rda_net, i, &cfg, &rda_up);
		rda_app[i].life = 1;
	}
	for (int i = 1; i <= SENDERS; i++)
		ck_assert_uint_eq(rda_send_all(i, 0, MESSAGES, 100), MESSAGES);
	end = rda_net.now + 1800 * DIW_S;
	while (!rda_all_ended(SENDERS + 1)) {
		rda_run(100 * DIW_MS);
		rda_must(rda_net.now < end, "no end after 1,800 s\n");
	}
	for (int i = 1; i <= SENDERS; i++)
		ck_assert_uint_eq(rda_app[0].from[i].came, MESSAGES);
	rdn_free(&rda_net);
}
END_TEST

/* More slots than there are addresses: the open fails, and the socket stays the caller's. */
START_TEST(no_memory)
{
	static const struct diw_dgram_ops ops = { .name = "none", .close = socket_close };
	struct diw_counters c = { 0 };
	struct diw_dgram d = { .ops = &ops, .c = &c };
	struct diw_rd_cfg cfg = rda_cfg();
	struct diw_link *l;

	cfg.slots = UINT32_MAX;
	cfg.max_seg = DIW_DGRAM_MAX;
	sockets_closed = 0;
	ck_assert_int_eq(diw_rd_open(&d, 0, &cfg, &rda_up, NULL, &l), -ENOMEM);
	ck_assert_int_eq(sockets_closed, 0);
}
END_TEST

Suite *suite_rd(void)
{
	Suite *s = suite_create("rd");
	TCase *tc = tcase_create("exact");

	tcase_add_test(tc, calm);
	tcase_add_test(tc, bursts);
	tcase_add_test(tc, carried_acknowledgement);
	tcase_add_test(tc, segment_before_its_acknowledgement);
	tcase_add_test(tc, paced_behind_full_socket);
	tcase_add_test(tc, turns_share_bursts);
	tcase_add_test(tc, tail_loss);
	tcase_add_test(tc, dead_peer);
	tcase_add_test(tc, starved_sender);
	tcase_add_test(tc, full_socket);
	tcase_add_test(tc, dead_peers);
	tcase_add_test(tc, few_slots);
	tcase_add_loop_test(tc, few_held, 0, 60);
	tcase_add_test(tc, slow_for_one);
	tcase_add_test(tc, restart_receiver);
	tcase_add_test(tc, restart_given_up);
	tcase_add_test(tc, restart_sender);
	tcase_add_test(tc, forgotten);
	tcase_add_test(tc, given_up);
	tcase_add_test(tc, no_memory);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, tcase_rd_hostile());
	suite_add_tcase(s, tcase_rd_fair());
	suite_add_tcase(s, tcase_rd_crowd());
	suite_add_tcase(s, tcase_rd_views());
	suite_add_tcase(s, tcase_rd_waiting());
	suite_add_tcase(s, tcase_rd_forget());
	return s;
}
