/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes of which one is stopped until the other has given it up, or is killed and followed by another one that
 * speaks first. Neither of them waits for ever.
 * usage: fabric_apart DEVICE
 */
#include "tests/system/mpi/fabric_peer.h"

#define WAITS 60                         /* seconds until everything has failed */

enum waits { RECEIVE, RENDEZVOUS, DELIVERY, WAITERS };

static int waiter[WAITERS];              /* the contexts */

/* The next completion of endpoint a, which may take WAITS seconds. */
static int next_late(struct fi_cq_tagged_entry *c)
{
	time_t until = time(NULL) + WAITS;
	struct fi_cq_err_entry err;
	ssize_t n;

	while ((n = fi_cq_sread(a.cq, c, 1, NULL, 1000)) == -FI_EAGAIN && time(NULL) < until)
		;
	if (n == -FI_EAVAIL) {
		REQUIRE(fi_cq_readerr(a.cq, &err, 0) == 1);
		c->op_context = err.op_context;
		return err.err;
	}
	REQUIRE(n == 1);
	return 0;
}

/* Operations that wait for TO, whose messages TO's link acknowledges, and nothing matches. */
static void operations_begin(fi_addr_t to)
{
	const struct iovec iov = { out, 8 };
	const struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = to, .tag = 9,
					   .context = &waiter[DELIVERY] };

	REQUIRE(fi_trecv(a.ep, in, 8, NULL, to, 8, 0, &waiter[RECEIVE]) == 0);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, to, 9, &waiter[RENDEZVOUS]) == 0);
	REQUIRE(fi_tsendmsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE) == 0);
	for (int i = 0; i < 300; i++) {
		progress();
		usleep(1000);
	}
	expect_none(&a);
}

static void operations_fail(int err)
{
	bool failed[WAITERS] = { false };
	struct fi_cq_tagged_entry c;

	for (int i = 0; i < WAITERS; i++) {
		REQUIRE(next_late(&c) == err);
		failed[(int *)c.op_context - waiter] = true;
	}
	for (int i = 0; i < WAITERS; i++)
		REQUIRE(failed[i]);
}

static int peer_main(const char *role, int fd, unsigned port)
{
	fi_addr_t to = peer_open(role, fd, port);
	uint8_t ready = 0;

	if (strcmp(role, "hangs") == 0) {
		tell(fd, &ready, 1);
		pause();
	} else if (strcmp(role, "meets") == 0) {
		exchange(&a, &b, to, 7);
		tell(fd, &ready, 1);
		pause();
	} else if (strcmp(role, "waits") == 0) {
		exchange(&a, &b, to, 7);
		operations_begin(to);
		tell(fd, &ready, 1);
		operations_fail(FI_ECONNRESET);
		tell(fd, &ready, 1);
		REQUIRE(fi_tsend(a.ep, out, 8, NULL, to, 1, NULL) == -FI_ECONNRESET);
	} else if (strcmp(role, "speaks") == 0 || strcmp(role, "listens") == 0) {
		if (strcmp(role, "speaks") == 0) {
			REQUIRE(fi_tinject(a.ep, out, 8, to, 1) == 0);
			progress();
		}
		tell(fd, &ready, 1);
		hear(fd, &ready, 1);
		exchange(&a, &b, to, 7);
		tell(fd, &ready, 1);
		pause();
	}
	_Exit(0);
}

/* The peer is stopped until this end has given it up. It waits then for operations of this end, which will not come,
 * and is told so, although another endpoint was closed meanwhile, with a message to the peer under way. */
static void check_stopped(void)
{
	struct fi_cq_tagged_entry c;
	uint8_t ready;

	peer_start("waits", 0);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &ready, 1);
	kill(peer.pid, SIGSTOP);
	REQUIRE(fi_tinject(b.ep, out, 8, peer.addr, 9) == 0);
	end_close(&b);
	end_open(&b);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 8, 0, &waiter[RECEIVE]) == 0);
	REQUIRE(next_late(&c) == FI_ETIMEDOUT && c.op_context == &waiter[RECEIVE]);
	kill(peer.pid, SIGCONT);
	for (time_t until = time(NULL) + WAITS; recv(peer.fd, &ready, 1, MSG_DONTWAIT) != 1; usleep(1000)) {
		REQUIRE(time(NULL) < until);
		progress();
	}
	peer_end(0);
}

/* A process that acts as FIRST is killed, and one that acts as SECOND gets its address. What waited for the first one
 * fails. FIRST: "meets" if it sends a message before. */
static void replace_peer(const char *first, const char *second)
{
	uint8_t ready = 0;

	peer_start(first, 0);
	if (strcmp(first, "meets") == 0)
		exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &ready, 1);
	operations_begin(peer.addr);
	peer_end(SIGKILL);
	peer_start(second, ntohs(peer.name.sin_port));
	hear(peer.fd, &ready, 1);
	operations_fail(FI_ECONNRESET);
}

/* The process that gets the address sends at once. */
static void restarted(const char *role)
{
	struct fi_cq_tagged_entry c;
	uint8_t ready = 0;

	replace_peer(role, "speaks");
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 1, 0, NULL) == 0 && next_late(&c) == 0);
	expect_in(8);
	tell(peer.fd, &ready, 1);
	exchange(&a, &b, peer.addr, 7);
	hear(peer.fd, &ready, 1);
	peer_end(SIGKILL);
}

/* The process that has the address of one that was killed sends nothing, so the link finds out. What waits for the new
 * process from then on does not fail when its first message comes. */
static void check_restarted_silently(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t got = 0, value = 7;
	uint8_t ready = 0;

	replace_peer("meets", "listens");
	REQUIRE(fi_trecv(a.ep, &got, 8, NULL, peer.addr, 1, 0, &got) == 0);
	REQUIRE(fi_tinject(a.ep, &value, 8, peer.addr, 1) == 0);
	tell(peer.fd, &ready, 1);
	REQUIRE(next_late(&c) == 0 && c.op_context == &got && got == 7);
	hear(peer.fd, &ready, 1);
	peer_end(SIGKILL);
}

static void check_restarted(void) { restarted("hangs"); }
static void check_restarted_known(void) { restarted("meets"); }

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && (argc == 2 || argc == 5));
	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	hints->addr_format = FI_SOCKADDR_IN;
	device = argv[1];
	wanted = hints;
	fill(3);
	if (argc == 5)
		return peer_main(argv[2], atoi(argv[3]), (unsigned)atoi(argv[4]));
	ends_open(device, FI_VERSION(1, 10), hints);
#define CHECK(what) doing = #what, check_##what(), printf("right: %s\n", doing), fflush(stdout)
	CHECK(restarted);
	CHECK(restarted_known);
	CHECK(restarted_silently);
	CHECK(stopped);
	puts("done");
	fflush(stdout);
	_Exit(0);
}
