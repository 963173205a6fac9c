/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer process that is killed while this process only waits for it: no message to the peer is under way, so no
 * message can find out. A peer that is alive and makes no call of libfabric is not given up.
 * usage: fabric_died DEVICE
 */
#include "tests/system/mpi/fabric_peer.h"

#define WAITS 60                         /* seconds until everything has failed */
#define COMPUTES 16                      /* seconds: longer than the link waits until it gives up a peer */

#define SENDS 200                        /* more completions than an endpoint handles at once */
#define PLACES 60000                     /* operations at a time */
#define REPORTS 8                        /* so that the ids of some are those of another process */

enum waits { RECEIVE, MANY, RENDEZVOUS, DELIVERY, ATOMIC, WAITERS };

static int waiter[WAITERS];              /* the contexts */
static uint64_t number, word;
static struct fid_mr *mr;

/* The key of the peer's memory, and its address. */
struct memory { uint64_t key, addr; };

static struct memory memory_register(void)
{
	REQUIRE(fi_mr_reg(domain, &word, sizeof word, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL) == 0);
	return (struct memory){ fi_mr_key(mr), info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)&word : 0 };
}

static int peer_main(const char *role, int fd, unsigned port)
{
	fi_addr_t to = peer_open(role, fd, port);
	const struct iovec iov = { out, 8 };
	const struct fi_msg_tagged report = { .msg_iov = &iov, .iov_count = 1, .addr = to, .tag = 3 };
	struct memory m = memory_register();
	uint64_t value = 5;

	exchange(&a, &b, to, 7);
	if (strcmp(role, "offers") == 0)
		REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, to, 2, NULL) == 0);
	tell(fd, &m, sizeof m);
	for (int i = 0; i < REPORTS && strcmp(role, "reports") == 0; i++)
		REQUIRE(fi_tsendmsg(a.ep, &report, FI_DELIVERY_COMPLETE) == 0);
	while (strcmp(role, "holds") == 0 || strcmp(role, "offers") == 0)
		progress();
	if (strcmp(role, "computes") != 0)
		pause();
	sleep(COMPUTES);
	exchange(&a, &b, to, value);
	REQUIRE(fi_close(&mr->fid) == 0);
	ends_close();
	return 0;
}

/* The next completion of endpoint a, which may take WAITS seconds. */
static int next_late(struct fi_cq_tagged_entry *c)
{
	time_t until = time(NULL) + WAITS;
	struct fi_cq_err_entry err;
	ssize_t n;

	while ((n = fi_cq_sread(a.cq, c, 1, NULL, 1000 * WAITS)) == -FI_EAGAIN && time(NULL) < until)
		;
	if (n == -FI_EAVAIL) {
		REQUIRE(fi_cq_readerr(a.cq, &err, 0) == 1);
		c->op_context = err.op_context;
		c->flags = err.flags;
		return err.err;
	}
	REQUIRE(n == 1);
	return 0;
}

static bool is_gone(int err)
{
	return over_rc() ? is_lost(err) : err == FI_ETIMEDOUT;
}

/* Operations of every kind that wait for the peer, whose messages the peer's link has acknowledged. */
static void operations_begin(const struct memory *m)
{
	const struct iovec iov = { out, 8 };
	const struct iovec room = { in + 4096, 4096 };
	const struct fi_msg many = { .msg_iov = &room, .iov_count = 1, .addr = peer.addr, .context = &waiter[MANY] };
	const struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = peer.addr, .tag = 9,
					   .context = &waiter[DELIVERY] };

	REQUIRE(fi_recvmsg(a.ep, &many, FI_MULTI_RECV) == 0);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 9, 0, &waiter[RECEIVE]) == 0);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 9, &waiter[RENDEZVOUS]) == 0);
	REQUIRE(fi_tsendmsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE) == 0);
	REQUIRE(fi_fetch_atomic(a.ep, &number, 1, NULL, &word, NULL, peer.addr, m->addr, m->key, FI_UINT64, FI_SUM,
				&waiter[ATOMIC]) == 0);
	for (int i = 0; i < 300; i++) {
		progress();
		usleep(1000);
	}
	expect_none(&a);
}

/* The places of operations that were many at one time are looked at from then on. */
static void operations_use_places(void)
{
	struct fi_cq_tagged_entry c;

	for (int i = 0; i < PLACES; i++)
		REQUIRE(fi_trecv(a.ep, in, 8, NULL, a.addr, 1, 0, &number) == 0);
	for (int i = 0; i < PLACES; i++)
		REQUIRE(fi_cancel(&a.ep->fid, &number) == 0);
	for (int i = 0; i < PLACES; i++)
		REQUIRE(next_late(&c) == FI_ECANCELED);
}

/* This process sleeps meanwhile. */
static void check_waiters_fail(void)
{
	struct fi_cq_tagged_entry c;
	bool failed[WAITERS] = { false };
	struct memory m;

	operations_use_places();
	peer_start("hang", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	operations_begin(&m);
	peer_end(SIGKILL);
	for (int i = 0; i < WAITERS; i++) {
		REQUIRE(is_gone(next_late(&c)));
		REQUIRE(c.op_context != &waiter[MANY] || c.flags & FI_MULTI_RECV);
		failed[(int *)c.op_context - waiter] = true;
	}
	for (int i = 0; i < WAITERS; i++)
		REQUIRE(failed[i]);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 9, 0, &waiter[RECEIVE]) == 0);
	REQUIRE(is_gone(next_late(&c)) && c.op_context == &waiter[RECEIVE]);
	exchange(&a, &b, a.addr, 1);
}

/* Makes progress for so many seconds. */
static void progress_for(time_t seconds)
{
	for (time_t until = time(NULL) + seconds; time(NULL) < until; usleep(1000))
		progress();
}

/* Waits for a message that no receive takes. */
static void await_message(const struct fi_msg_tagged *peek, uint64_t flags)
{
	time_t until = time(NULL) + WAITS;
	struct fi_cq_tagged_entry c;

	do
		REQUIRE(fi_trecvmsg(a.ep, peek, FI_PEEK | flags) == 0 && time(NULL) < until);
	while (next_late(&c) != 0);
}

/* A report to the peer is lost. A later send fails at once: had it found out itself, it would fail 10 s later. */
static void check_lost_report(void)
{
	const struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = 2 };
	struct fi_cq_tagged_entry c;
	struct memory m;

	if (over_rc())                   /* the connection's end tells */
		return;
	peer_start("offers", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	await_message(&peek, 0);
	peer_end(SIGKILL);
	REQUIRE(fi_trecv(a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 2, 0, NULL) == 0);
	REQUIRE(next_late(&c) == FI_ETRUNC);
	progress_for(14);
	if (fi_tinject(a.ep, out, 8, peer.addr, 1) != -FI_ETIMEDOUT) {
		progress_for(8);
		REQUIRE(fi_tinject(a.ep, out, 8, peer.addr, 1) == -FI_ETIMEDOUT);
	}
}

/* A peer that holds is killed. fi_inject(), which asks for a repetition meanwhile, fails then, although no operation
 * waits for the peer. On a busy machine the 3 s may be a pause of a peer that does not hold yet: some calls then still
 * succeed. */
static void check_holder_fails(void)
{
	time_t until = time(NULL) + WAITS, held = time(NULL) + 3;
	struct memory m;
	ssize_t rc;

	peer_start("holds", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	while (time(NULL) < held) {
		rc = fi_tinject(a.ep, out, 4096, peer.addr, 3);
		REQUIRE((rc == 0 || rc == -FI_EAGAIN) && time(NULL) < until);
		held = rc == 0 ? time(NULL) + 3 : held;
		progress();
	}
	peer_end(SIGKILL);
	until = time(NULL) + WAITS;
	do {
		progress();
		rc = fi_tinject(a.ep, out, 8, peer.addr, 3);
	} while ((rc == 0 || rc == -FI_EAGAIN) && time(NULL) < until);
	REQUIRE(is_gone((int)-rc));
}

/* The address of a peer that is gone is inserted again, while errors of earlier sends have not been fetched. These do
 * not concern the new peer. */
static void check_inserted_again(void)
{
	const struct iovec iov = { out, 8 };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 9, .context = &waiter[DELIVERY] };
	struct fi_cq_tagged_entry c;
	uint64_t value = 7, got = 0;
	struct memory m;

	if (over_rc())                   /* sends fail as soon as the connection ends */
		return;
	peer_start("hang", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	peer_end(SIGKILL);
	msg.addr = peer.addr;
	for (int i = 0; i < SENDS; i++)
		REQUIRE(fi_tsendmsg(a.ep, &msg, FI_COMPLETION | FI_TRANSMIT_COMPLETE) == 0);
	REQUIRE(is_gone(next_late(&c)));
	peer_start("hang", ntohs(peer.name.sin_port));
	REQUIRE(fi_tinject(a.ep, &value, 8, peer.addr, 1) == 0);
	REQUIRE(fi_trecv(a.ep, &got, 8, NULL, peer.addr, 1, 0, &got) == 0);
	for (int i = 1; i < SENDS; i++)
		REQUIRE(is_gone(next_late(&c)) && c.op_context == &waiter[DELIVERY]);
	REQUIRE(next_late(&c) == 0 && c.op_context == &got && got == 7);
	hear(peer.fd, &m, sizeof m);
	peer_end(SIGKILL);
}

/* The peer is killed, and noticed to be gone. */
static void lose_peer(void)
{
	struct fi_cq_tagged_entry c;

	peer_end(SIGKILL);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 9, 0, &waiter[RECEIVE]) == 0);
	REQUIRE(is_gone(next_late(&c)) && c.op_context == &waiter[RECEIVE]);
}

/* The peer is killed, and noticed to be gone. A process gets its address, and this process learns of it before the
 * address is inserted again. */
static void replace_peer_early(void)
{
	struct memory m;

	lose_peer();
	peer_launch("hang", ntohs(peer.name.sin_port));
	progress_for(2);
	peer_insert();
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
}

/* The process that gets the address of a peer that is gone sends a message before the address is inserted again. It is
 * not told that this end had given it up. */
static void check_early(void)
{
	struct memory m;

	peer_start("hang", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	replace_peer_early();
	peer_end(SIGKILL);
}

/* The peer is killed, and noticed to be gone. A process that acts as ROLE gets its address. */
static void replace_peer(const char *role)
{
	struct memory m;

	lose_peer();
	peer_start(role, ntohs(peer.name.sin_port));
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
}

/* A peek claims a long message, whose sender is killed then. Another process gets the address: the receive fails with
 * the error that its sender was given up with, and does not wait for that process. */
static void check_claimed(void)
{
	struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = 2, .context = &waiter[RENDEZVOUS] };
	const struct iovec iov = { in, sizeof in };
	struct fi_cq_tagged_entry c;
	struct memory m;

	peer_start("offers", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	await_message(&peek, FI_CLAIM);
	replace_peer_early();
	peek.msg_iov = &iov;
	peek.iov_count = 1;
	REQUIRE(fi_trecvmsg(a.ep, &peek, FI_CLAIM) == 0);
	REQUIRE(is_gone(next_late(&c)) && c.op_context == &waiter[RENDEZVOUS]);
	peer_end(SIGKILL);
}

/* A message of a peer that was killed is received. Its sender wanted to be told so. The process that has its address
 * now, and operations with the same ids, is not told: the octets of its long message come. */
static void check_reports(void)
{
	const struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = 3 };
	struct fi_cq_tagged_entry c;
	struct memory m;

	peer_start("reports", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	await_message(&peek, 0);
	progress_for(1);
	replace_peer("offers");
	while (fi_trecvmsg(a.ep, &peek, FI_PEEK) == 0 && next_late(&c) == 0)
		REQUIRE(fi_trecv(a.ep, in, 8, NULL, FI_ADDR_UNSPEC, 3, 0, NULL) == 0 && next_late(&c) == 0);
	REQUIRE(fi_trecv(a.ep, in, sizeof in, NULL, peer.addr, 2, 0, NULL) == 0);
	REQUIRE(next_late(&c) == 0 && c.len == LARGE);
	peer_end(SIGKILL);
}

static void check_computing_peer_stays(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t value = 5, got = 0;
	struct memory m;

	peer_start("computes", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &m, sizeof m);
	REQUIRE(fi_trecv(a.ep, &got, 8, NULL, peer.addr, 1, 0, NULL) == 0);
	REQUIRE(next_late(&c) == 0 && got == 5);
	REQUIRE(fi_tinject(a.ep, &value, 8, peer.addr, 1) == 0);
	peer_end(0);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && (argc == 2 || argc == 5));
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE | FI_MULTI_RECV;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	device = argv[1];
	wanted = hints;
	if (argc == 5)
		return peer_main(argv[2], atoi(argv[3]), (unsigned)atoi(argv[4]));
	ends_open(device, FI_VERSION(1, 5), hints);
	fill(3);
#define CHECK(what) doing = #what, check_##what(), printf("right: %s\n", doing), fflush(stdout)
	CHECK(waiters_fail);
	CHECK(lost_report);
	CHECK(holder_fails);
	CHECK(inserted_again);
	CHECK(early);
	CHECK(claimed);
	CHECK(reports);
	CHECK(computing_peer_stays);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
