/* SPDX-License-Identifier: BSD-2-Clause */
/* The provider by libfabric's calls: two endpoints of one process exchange messages; every byte and every field of the
 * completions is checked. */
#include <poll.h>

#include "tests/system/mpi/fabric_kit.h"

/* EARLY: the receive is posted before the message is sent. */
static void one_message(size_t len, bool early, uint64_t tag)
{
	struct fi_cq_tagged_entry c;
	fi_addr_t from;
	int ctx[2];

	fill((uint8_t)len);
	if (early)
		REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, a.addr, tag, 0, &ctx[1]) == 0);
	REQUIRE(fi_tsenddata(a.ep, out, len, NULL, ~tag, b.addr, tag, &ctx[0]) == 0);
	if (!early) {
		expect_none(&b);
		REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, a.addr, tag, 0, &ctx[1]) == 0);
	}
	REQUIRE(next(&b, &a, &c, &from) == 0);
	REQUIRE(c.op_context == &ctx[1] && c.len == len && c.tag == tag && c.data == ~tag && from == a.addr);
	REQUIRE((c.flags & (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA)) == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
	expect_in(len);
	REQUIRE(next(&a, &b, &c, NULL) == 0);
	REQUIRE(c.op_context == &ctx[0] && (c.flags & (FI_SEND | FI_TAGGED)) == (FI_SEND | FI_TAGGED));
}

static void check_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 8, 255, 256, 257, 480, 481, 512, 4096, 16383, 16384, 16385, 70000,
				       LARGE };

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		one_message(sizes[i], true, i);
		one_message(sizes[i], false, ~i);
	}
}

/* Receives match in the order of the posts, messages in the order of the sends, with wildcards between them. */
static void check_order(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t got[4];
	int ctx[4];

	REQUIRE(fi_trecv(b.ep, &got[0], 8, NULL, a.addr, 5, 0, &ctx[0]) == 0);
	REQUIRE(fi_trecv(b.ep, &got[1], 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &ctx[1]) == 0);
	REQUIRE(fi_trecv(b.ep, &got[2], 8, NULL, a.addr, 5, 0, &ctx[2]) == 0);
	REQUIRE(fi_trecv(b.ep, &got[3], 8, NULL, b.addr, 5, 0, &ctx[3]) == 0);
	for (uint64_t i = 0; i < 3; i++)
		REQUIRE(fi_tinject(a.ep, &i, 8, b.addr, 5) == 0);
	for (int i = 0; i < 3; i++) {
		REQUIRE(next(&b, &a, &c, NULL) == 0);
		REQUIRE(c.op_context == &ctx[i] && got[i] == (uint64_t)i);
	}
	expect_none(&b);
	REQUIRE(fi_tinject(b.ep, &(uint64_t){ 3 }, 8, b.addr, 5) == 0);  /* to itself */
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx[3] && got[3] == 3);
}

static void check_truncation(void)
{
	static const size_t sizes[] = { 100, 10000, 100000 };
	struct fi_cq_tagged_entry c;
	int ctx;

	for (int i = 0; i < 3; i++) {
		fill(9);
		REQUIRE(fi_trecv(b.ep, in, 50, NULL, a.addr, 1, 0, &ctx) == 0);
		REQUIRE(fi_tsend(a.ep, out, sizes[i], NULL, b.addr, 1, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == FI_ETRUNC && c.op_context == &ctx && c.len == 50);
		expect_in(50);
		REQUIRE(next(&a, &b, &c, NULL) == 0);
	}
}

static ssize_t peek(uint64_t tag, uint64_t flags, void *ctx)
{
	struct fi_msg_tagged m = { .addr = a.addr, .tag = tag, .context = ctx };

	return fi_trecvmsg(b.ep, &m, FI_PEEK | flags);
}

static void check_peek(size_t len)
{
	struct iovec iov = { in, sizeof in };
	struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = a.addr, .tag = 6 };
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	uint64_t received = fi_cntr_read(b.received), failed = fi_cntr_readerr(b.received);
	int ctx[2], err;

	fill(3);
	m.context = &ctx[1];
	REQUIRE(peek(6, 0, &ctx[0]) == 0 && next(&b, &a, &c, NULL) == FI_ENOMSG && c.op_context == &ctx[0]);
	REQUIRE(fi_tsend(a.ep, out, len, NULL, b.addr, 6, NULL) == 0);
	REQUIRE(fi_tsend(a.ep, out, len, NULL, b.addr, 6, NULL) == 0);
	do
		REQUIRE(peek(6, 0, &ctx[0]) == 0);
	while ((err = next(&b, &a, &c, NULL)) == FI_ENOMSG && time(NULL) < until);
	REQUIRE(err == 0 && c.len == len && c.tag == 6);
	REQUIRE(peek(6, FI_CLAIM, &ctx[1]) == 0 && next(&b, &a, &c, NULL) == 0);
	do
		REQUIRE(peek(6, FI_DISCARD, &ctx[0]) == 0);
	while ((err = next(&b, &a, &c, NULL)) == FI_ENOMSG && time(NULL) < until);
	REQUIRE(err == 0);
	REQUIRE(peek(6, 0, &ctx[0]) == 0 && next(&b, &a, &c, NULL) == FI_ENOMSG);
	REQUIRE(fi_trecvmsg(b.ep, &m, FI_CLAIM) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx[1] && c.len == len);
	expect_in(len);
	REQUIRE(fi_cntr_read(b.received) == received + 1 && fi_cntr_readerr(b.received) == failed);
	REQUIRE(next(&a, &b, &c, NULL) == 0 && next(&a, &b, &c, NULL) == 0);
}

/* The same without tags; FLAGS of the receive of the claimed message. */
static void claim_untagged(size_t len, uint64_t flags)
{
	struct iovec iov = { in, sizeof in };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = a.addr };
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	int ctx, err;

	fill(5);
	m.context = &ctx;
	REQUIRE(fi_recvmsg(b.ep, &m, FI_PEEK) == 0 && next(&b, &a, &c, NULL) == FI_ENOMSG);
	REQUIRE((c.flags & (FI_MSG | FI_TAGGED)) == FI_MSG);
	REQUIRE(fi_recvmsg(b.ep, &m, FI_CLAIM) == -FI_EINVAL);   /* nothing is claimed */
	REQUIRE(fi_send(a.ep, out, len, NULL, b.addr, NULL) == 0);
	do
		REQUIRE(fi_recvmsg(b.ep, &m, FI_PEEK | FI_CLAIM) == 0);
	while ((err = next(&b, &a, &c, NULL)) == FI_ENOMSG && time(NULL) < until);
	REQUIRE(err == 0 && c.len == len && (c.flags & (FI_MSG | FI_TAGGED)) == FI_MSG);
	REQUIRE(fi_recvmsg(b.ep, &m, FI_CLAIM | flags) == 0 && next(&b, &a, &c, NULL) == 0);
	REQUIRE(c.op_context == &ctx && c.len == len && (c.flags & (FI_MSG | FI_TAGGED)) == FI_MSG);
	if (!(flags & FI_DISCARD))
		expect_in(len);
	REQUIRE(next(&a, &b, &c, NULL) == 0);
}

static void check_cancel(void)
{
	struct fi_cq_tagged_entry c;
	int ctx[2];

	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 7, 0, &ctx[0]) == 0);
	REQUIRE(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, &ctx[1]) == 0);
	REQUIRE(fi_cancel(&b.ep->fid, &ctx[0]) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == FI_ECANCELED && c.op_context == &ctx[0]);
	REQUIRE(fi_cancel(&b.ep->fid, &ctx[1]) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == FI_ECANCELED && c.op_context == &ctx[1]);
	expect_none(&b);
}

/* A buffer takes messages until less than the least room is left; the last completion returns it. */
static void check_multi_recv(void)
{
	struct iovec iov = { in, 40000 };
	struct fi_msg m = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	size_t least = 5000, at = 0;
	struct fi_cq_tagged_entry c;
	int ctx;

	fill(4);
	m.context = &ctx;
	REQUIRE(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least) == 0);
	REQUIRE(fi_send(a.ep, out, 10000, NULL, b.addr, NULL) == 0);     /* before the buffer is posted */
	expect_none(&b);
	REQUIRE(fi_recvmsg(b.ep, &m, FI_MULTI_RECV) == 0);
	REQUIRE(fi_send(a.ep, out + 10000, 20000, NULL, b.addr, NULL) == 0);
	REQUIRE(fi_send(a.ep, out + 30000, 6000, NULL, b.addr, NULL) == 0);
	for (int i = 0; i < 3; i++) {
		REQUIRE(next(&b, &a, &c, NULL) == 0);
		REQUIRE(c.op_context == &ctx && (c.flags & FI_MSG));
		at += c.len;
		REQUIRE((i == 2) == ((c.flags & FI_MULTI_RECV) != 0));
	}
	REQUIRE(at == 36000);
	expect_in(36000);
	for (int i = 0; i < 3; i++)
		REQUIRE(next(&a, &b, &c, NULL) == 0);
}

/* With FI_DELIVERY_COMPLETE a Send completes when the message is in the receiver's buffer. */
static void check_delivery(void)
{
	struct iovec iov = { out, 100 };
	struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .tag = 8 };
	struct fi_cq_tagged_entry c;
	int ctx;

	fill(5);
	m.context = &ctx;
	REQUIRE(fi_tsendmsg(a.ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0);
	expect_none(&b);
	expect_none(&a);
	REQUIRE(fi_trecv(b.ep, in, 200, NULL, a.addr, 8, 0, NULL) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0);
	expect_in(100);
	REQUIRE(next(&a, &b, &c, NULL) == 0 && c.op_context == &ctx);
}

/* A send that waits for delivery completes when the receiver discards the message. */
static void check_discard(void)
{
	struct iovec iov = { out, 100 };
	struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .tag = 15 };
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	int ctx, err;

	m.context = &ctx;
	REQUIRE(fi_tsendmsg(a.ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0);
	do
		REQUIRE(peek(15, FI_DISCARD, NULL) == 0);
	while ((err = next(&b, &a, &c, NULL)) == FI_ENOMSG && time(NULL) < until);
	REQUIRE(err == 0);
	REQUIRE(next(&a, &b, &c, NULL) == 0 && c.op_context == &ctx);
}

/* fi_tinject() has no completion; a message with FI_INJECT has one. */
static void check_inject(void)
{
	struct iovec iov = { out, 100 };
	struct fi_msg_tagged m = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .tag = 16 };
	struct fi_cq_tagged_entry c;
	int ctx;

	m.context = &ctx;
	REQUIRE(fi_tinject(a.ep, out, 100, b.addr, 16) == 0);
	REQUIRE(fi_tsendmsg(a.ep, &m, FI_INJECT) == 0);
	REQUIRE(next(&a, &b, &c, NULL) == 0 && c.op_context == &ctx);
	expect_none(&a);
	for (int i = 0; i < 2; i++)
		REQUIRE(fi_trecv(b.ep, in, 200, NULL, a.addr, 16, 0, NULL) == 0 && next(&b, &a, &c, NULL) == 0);
}

/* Several vectors on both sides. */
static void check_vectors(size_t len)
{
	struct iovec from[3] = { { out, len / 3 }, { out + len / 3, 0 }, { out + len / 3, len - len / 3 } };
	struct iovec to[2] = { { in, 7 }, { in + 7, len - 7 } };
	struct fi_cq_tagged_entry c;

	fill(6);
	REQUIRE(fi_trecvv(b.ep, to, NULL, 2, a.addr, 9, 0, NULL) == 0);
	REQUIRE(fi_tsendv(a.ep, from, NULL, 3, b.addr, 9, NULL) == 0);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.len == len);
	expect_in(len);
	REQUIRE(next(&a, &b, &c, NULL) == 0);
}

/* A message wakes a sleeper. Before it, the descriptor is readable only for acknowledgements of earlier messages. */
static void check_wait(void)
{
	int quiet = 0;
	struct fid *fids[] = { &b.cq->fid };
	struct fi_cq_tagged_entry c;
	struct pollfd p = { .events = POLLIN };

	REQUIRE(fi_control(&b.cq->fid, FI_GETWAIT, &p.fd) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 10, 0, NULL) == 0);
	for (int i = 0; i < 20 && !quiet; i++) {
		REQUIRE(fi_trywait(fabric, fids, 1) == 0);
		quiet = poll(&p, 1, 50) == 0;
	}
	REQUIRE(quiet);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, 50) == -FI_EAGAIN);
	REQUIRE(fi_trywait(fabric, fids, 1) == 0);
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 10) == 0);
	REQUIRE(poll(&p, 1, PATIENCE * 1000) == 1);
	REQUIRE(fi_cq_sread(b.cq, &c, 1, NULL, PATIENCE * 1000) == 1 && c.tag == 10);
}

/* While a queue has completions, its descriptor is readable, although a thread has looked: another one may sleep. */
static void check_sleepers(void)
{
	uint64_t all = fi_cntr_read(b.received) + 2;
	struct fid *fids[] = { &b.cq->fid };
	struct fi_cq_tagged_entry c;
	struct pollfd p = { .events = POLLIN };
	time_t until = time(NULL) + PATIENCE;

	REQUIRE(fi_control(&b.cq->fid, FI_GETWAIT, &p.fd) == 0);
	for (int i = 0; i < 2; i++)
		REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 19, 0, NULL) == 0);
	for (int i = 0; i < 2; i++)
		REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 19) == 0);
	while (fi_cntr_read(b.received) < all && time(NULL) < until)
		;
	for (int i = 0; i < 2; i++) {
		REQUIRE(fi_trywait(fabric, fids, 1) == -FI_EAGAIN && poll(&p, 1, 0) == 1);
		REQUIRE(fi_cq_read(b.cq, &c, 1) == 1);
	}
}

/* A read of no entry makes progress, whatever the queue contains. */
static void check_progress(void)
{
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	int ctx;

	fill(8);
	REQUIRE(fi_tsend(a.ep, out, 8, NULL, a.addr, 17, NULL) == 0);
	REQUIRE(fi_trecv(b.ep, in, sizeof in, NULL, a.addr, 18, 0, &ctx) == 0);
	REQUIRE(fi_tsend(a.ep, out, sizeof in, NULL, b.addr, 18, NULL) == 0);
	while (memcmp(in, out, sizeof in) != 0 && time(NULL) < until)
		REQUIRE(fi_cq_read(a.cq, NULL, 0) == -FI_EAGAIN);
	expect_in(sizeof in);
	REQUIRE(next(&b, &a, &c, NULL) == 0 && c.op_context == &ctx);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, a.addr, 17, 0, NULL) == 0);
	for (int i = 0; i < 3; i++)
		REQUIRE(next(&a, &b, &c, NULL) == 0);
}

/* Many messages without a receive: all are kept, and arrive in order. */
static void check_unexpected(void)
{
	struct fi_cq_tagged_entry c;
	time_t until = time(NULL) + PATIENCE;
	uint64_t got;

	for (uint64_t i = 0; i < 5000; i++)
		while (fi_tinject(a.ep, &i, 8, b.addr, 11) == -FI_EAGAIN && time(NULL) < until)
			expect_none(&b);
	for (uint64_t i = 0; i < 5000; i++) {
		REQUIRE(fi_trecv(b.ep, &got, 8, NULL, a.addr, 11, 0, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && got == i);
	}
}

/* A peer that is gone: a short and a long send, which wait for its acknowledgement, fail in bounded time. */
static void check_gone(void)
{
	static const size_t sizes[] = { 8, 4096, 100000 };
	struct iovec iov[3];
	struct fi_cq_tagged_entry c;
	struct end gone = { 0 };
	time_t begin;

	end_open(&gone);
	end_close(&gone);
	begin = time(NULL);
	for (int i = 0; i < 3; i++) {
		struct fi_msg_tagged m = { .msg_iov = &iov[i], .iov_count = 1, .addr = gone.addr, .context = &iov[i] };

		iov[i] = (struct iovec){ out, sizes[i] };
		REQUIRE(fi_tsendmsg(a.ep, &m, FI_TRANSMIT_COMPLETE | FI_COMPLETION) == 0);
	}
	for (int i = 0; i < 3; i++)
		REQUIRE(next(&a, &b, &c, NULL) != 0 && c.op_context == &iov[i] && (c.flags & FI_SEND));
	REQUIRE(time(NULL) - begin < 2 * PATIENCE);
}

static const struct { const char *name; void (*run)(void); } checks[] = {
	{ "sizes", check_sizes }, { "order", check_order }, { "truncation", check_truncation },
	{ "cancel", check_cancel },
	{ "multi-recv", check_multi_recv }, { "delivery", check_delivery }, { "wait", check_wait },
	{ "discard", check_discard }, { "inject", check_inject },
	{ "sleepers", check_sleepers }, { "progress", check_progress },
	{ "unexpected", check_unexpected }, { "gone", check_gone },
};

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc == 2);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE;
	ends_open(argv[1], FI_VERSION(1, 5), hints);
	for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
		doing = checks[i].name;
		checks[i].run();
		printf("right: %s\n", doing);
	}
	doing = "peek";
	check_peek(20);
	check_peek(5000);
	check_peek(200000);
	doing = "claim without tags";
	for (size_t len = 20; len <= 200000; len *= 100) {
		claim_untagged(len, 0);
		claim_untagged(len, FI_DISCARD);
	}
	doing = "vectors";
	check_vectors(100);
	check_vectors(10000);
	check_vectors(200000);
	doing = "counters";
	REQUIRE(fi_cntr_read(a.sent) > 5000 && fi_cntr_read(b.received) > 5000 && fi_cntr_readerr(b.received) > 0);
	REQUIRE(fi_cntr_readerr(a.sent) == 3);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
