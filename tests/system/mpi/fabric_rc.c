/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between endpoints over RC queue pairs (FI_DIWARP_MODE=rc): both ends begin at once, the peer is killed, a
 * new process has its address, and strangers connect.
 * usage: fabric_rc DEVICE [COMMAND]: the shell executes COMMAND when a stranger was refused. */
#include <pthread.h>
#include <sys/resource.h>

#include "tests/system/mpi/fabric_peer.h"
#include "tests/system/mpi/fabric_stranger.h"

#define LATE 4                           /* seconds: longer than an endpoint waits for acknowledgements */
#define PAIRS 24
#define ROUNDS 20
#define SILENT 400                       /* more than an endpoint admits */

/* The other process: its only endpoint is a; b is there for the kit. */
static int peer_main(const char *role, int fd, unsigned port)
{
	fi_addr_t to = peer_open(role, fd, port);
	uint64_t go;

	if (strcmp(role, "exchange") != 0) {
		exchange(&a, &b, to, 7);
		if (strcmp(role, "offer") == 0)
			REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, to, 1, NULL) == 0);
		pause();
	}
	hear(fd, &go, sizeof go);
	exchange(&a, &b, to, go);
	ends_close();
	return 0;
}

/* ---- Checks ---- */

/* Pairs of endpoints of one process. */
static void check_both_begin(void)
{
	static struct end ends[2 * PAIRS];
	struct fi_cq_tagged_entry c;
	uint64_t got;

	for (int i = 0; i < 2 * PAIRS; i++)
		end_open(&ends[i]);
	for (int i = 0; i < 2 * PAIRS; i++)
		for (uint64_t k = 0; k < 3; k++)
			REQUIRE(fi_tinject(ends[i].ep, &k, 8, ends[i ^ 1].addr, 2) == 0);
	for (int i = 0; i < 2 * PAIRS; i++)
		for (uint64_t k = 0; k < 3; k++) {
			REQUIRE(fi_trecv(ends[i].ep, &got, 8, NULL, ends[i ^ 1].addr, 2, 0, &ends[i]) == 0);
			REQUIRE(next(&ends[i], &ends[i ^ 1], &c, NULL) == 0 && got == k);
		}
	for (int i = 0; i < 2 * PAIRS; i++)
		end_close(&ends[i]);
}

/* Two processes, which begin when they are told. */
static void check_both_begin_apart(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		peer_start("exchange", 0);
		tell(peer.fd, &i, sizeof i);
		exchange(&a, &b, peer.addr, i);
		peer_end(0);
	}
}

/* A peer is killed, whose address was inserted twice. The sends that wait for it fail, later ones do at once, and other
 * peers are not affected. */
static void check_killed(void)
{
	struct fi_cq_tagged_entry c;
	time_t begin, until;
	ssize_t rc;
	const void *failed[2];
	int ctx[2];

	peer_start("hang", 0);
	exchange(&a, &b, peer.addr, 7);
	REQUIRE(fi_av_insert(av, &peer.name, 1, &peer.addr, 0, NULL) == 1);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx[0]) == 0);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx[1]) == 0);
	expect_none(&a);
	begin = time(NULL);
	peer_end(SIGKILL);
	for (int i = 0; i < 2; i++) {           /* completions have no order (comp_order) */
		REQUIRE(is_lost(next(&a, &b, &c, NULL)) && (c.op_context == &ctx[0] || c.op_context == &ctx[1]));
		failed[i] = c.op_context;
	}
	REQUIRE(failed[0] != failed[1]);
	until = begin + 10;
	while ((rc = fi_tinject(a.ep, out, 8, peer.addr, 5)) == 0 && time(NULL) < until)
		progress();
	REQUIRE(is_lost(-rc) && time(NULL) <= until);
	exchange(&a, &b, a.addr, 1);
}

/* Waits for a message with tag 1 that no receive takes. */
static void await_unexpected(void)
{
	const struct fi_msg_tagged m = { .addr = peer.addr, .tag = 1 };
	time_t until = time(NULL) + PATIENCE;
	struct fi_cq_tagged_entry c;

	do
		REQUIRE(fi_trecvmsg(a.ep, &m, FI_PEEK) == 0 && time(NULL) < until);
	while (next(&a, &b, &c, NULL) != 0);
}

/* A process with the address of one that was killed is a new peer, also while a message waits for the old one, or while
 * a message of the old one waits, whose octets cannot come any more. */
static void check_replaced(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t value = 9;
	int ctx;

	for (int i = 0; i < 3; i++) {
		peer_start(i == 2 ? "offer" : "hang", 0);
		exchange(&a, &b, peer.addr, 7);
		if (i == 1)
			REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx) == 0);
		if (i == 2)
			await_unexpected();
		peer_end(SIGKILL);
		peer_start("exchange", ntohs(peer.name.sin_port));
		tell(peer.fd, &value, sizeof value);
		if (i == 1)
			REQUIRE(is_lost(next(&a, &b, &c, NULL)) && c.op_context == &ctx);
		REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 1, 0, NULL) == 0 && next(&a, &b, &c, NULL) == 0);
		REQUIRE(memcmp(in, &value, 8) == 0 && fi_tinject(a.ep, &value, 8, peer.addr, 1) == 0);
		peer_end(0);
	}
}

/* A connection that cannot be made for lack of memory is lost until the address is inserted again. */
static void check_shortage(void)
{
	const struct rlimit none = { 0, RLIM_INFINITY };
	struct end late = { 0 };
	struct rlimit before;
	uint8_t name[64];
	size_t len = sizeof name;
	ssize_t rc;

	end_open(&late);
	REQUIRE(fi_getname(&late.ep->fid, name, &len) == 0);
	REQUIRE(getrlimit(RLIMIT_AS, &before) == 0 && setrlimit(RLIMIT_AS, &none) == 0);
	rc = fi_tinject(a.ep, out, 8, late.addr, 1);
	REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
	REQUIRE(rc == -FI_ENOSPC && fi_tinject(a.ep, out, 8, late.addr, 1) == -FI_ENOSPC);
	REQUIRE(fi_av_insert(av, name, 1, &late.addr, 0, NULL) == 1);
	REQUIRE(fi_tinject(a.ep, out, 8, late.addr, 1) == 0);
	end_close(&late);
}

/* The first message to a peer is a long one: no connection is up when it is offered. */
static void check_first_is_long(void)
{
	for (int from = 0; from < 2; from++) {
		struct end pair[2] = { 0 }, *x = &pair[from], *y = &pair[!from];
		struct fi_cq_tagged_entry c;

		end_open(&pair[0]);
		end_open(&pair[1]);
		fill((uint8_t)from);
		REQUIRE(fi_tsend(x->ep, out, LARGE, NULL, y->addr, 3, x) == 0);
		REQUIRE(fi_trecv(y->ep, in, LARGE, NULL, x->addr, 3, 0, y) == 0);
		REQUIRE(next(y, x, &c, NULL) == 0 && c.op_context == y && c.len == LARGE);
		expect_in(LARGE);
		REQUIRE(next(x, y, &c, NULL) == 0 && c.op_context == x);
		end_close(&pair[0]);
		end_close(&pair[1]);
	}
}

static struct stranger s;
static const char *command;

static int silent_connect(void)
{
	struct sockaddr_in to;
	size_t len = sizeof to;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(fi_getname(&b.ep->fid, &to, &len) == 0);
	REQUIRE(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
	return fd;
}

/* Connections without a request, or with rubbish, and native ones without the Q_Key; an instance that is known. The
 * endpoint continues, and others reach it. */
static void check_strangers(void)
{
	static const char rubbish[] = "GET / HTTP/1.0\r\n\r\nMPA ID Req Frame";
	struct fi_cq_tagged_entry c;
	struct end late = { 0 };
	uint64_t got = 0;
	int fd[SILENT];

	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 4) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 4, 0, NULL) == 0 && next(&b, &a, &c, NULL) == 0);
	for (int i = 0; i < SILENT; i++) {
		fd[i] = silent_connect();
		if (i % 2)
			(void)!send(fd[i], rubbish, sizeof rubbish, MSG_NOSIGNAL);
	}
	stranger_prepare(&s);
	s.qkey++;
	REQUIRE(stranger_connect(&s) == DIW_CM_REJECTED);
	REQUIRE(!command || system(command) == 0);
	REQUIRE(diw_qp_reset(s.qp) == 0);
	s.qkey--;
	REQUIRE(stranger_connect(&s) == DIW_CM_ESTABLISHED);
	REQUIRE(diw_qp_reset(s.qp) == 0);
	s.instances--;
	REQUIRE(stranger_connect(&s) == DIW_CM_REJECTED);
	stranger_free(&s);
	end_open(&late);
	REQUIRE(fi_tinject(late.ep, &(uint64_t){ 3 }, 8, b.addr, 4) == 0);
	REQUIRE(fi_trecv(b.ep, &got, 8, NULL, late.addr, 4, 0, NULL) == 0);
	REQUIRE(next(&b, &late, &c, NULL) == 0 && got == 3);
	end_close(&late);
	for (int i = 0; i < SILENT; i++)
		close(fd[i]);
}

/* An endpoint that closes has sent what it accepted, also to a peer to which no connection was up. */
static void check_close(void)
{
	struct fi_cq_tagged_entry c;
	struct end brief = { 0 };
	uint64_t got;

	for (uint64_t i = 0; i < 10; i++) {
		end_open(&brief);
		REQUIRE(fi_tinject(brief.ep, &i, 8, b.addr, 6) == 0);
		end_close(&brief);
		REQUIRE(fi_trecv(b.ep, &got, 8, NULL, brief.addr, 6, 0, NULL) == 0);
		REQUIRE(next(&b, &a, &c, NULL) == 0 && got == i);
	}
}

static void *close_slowly(void *end)
{
	end_close(end);
	return NULL;
}

/* The same to a peer that listens only after some seconds. */
static void check_close_before_peer(void)
{
	struct fi_cq_tagged_entry c;
	struct end brief = { 0 }, late = { 0 };
	struct sockaddr_in name, any;
	size_t len = sizeof name;
	uint64_t value = 11, got = 0;
	pthread_t closer;

	end_open(&late);
	REQUIRE(fi_getname(&late.ep->fid, &name, &len) == 0);
	end_close(&late);
	end_open(&brief);
	REQUIRE(fi_tinject(brief.ep, &value, 8, late.addr, 6) == 0);
	REQUIRE(pthread_create(&closer, NULL, close_slowly, &brief) == 0);
	sleep(LATE);
	memcpy(&any, info->src_addr, sizeof any);
	memcpy(info->src_addr, &name, sizeof name);
	end_open(&late);
	memcpy(info->src_addr, &any, sizeof any);
	REQUIRE(fi_trecv(late.ep, &got, 8, NULL, FI_ADDR_UNSPEC, 6, 0, NULL) == 0);
	REQUIRE(next(&late, &a, &c, NULL) == 0 && got == value);
	REQUIRE(pthread_join(closer, NULL) == 0);
	end_close(&late);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && argc >= 2 && argc != 4);
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->tx_attr->op_flags = 0;
	device = argv[1];
	command = argc == 3 ? argv[2] : NULL;
	wanted = hints;
	if (argc == 5)
		return peer_main(argv[2], atoi(argv[3]), (unsigned)atoi(argv[4]));
	ends_open(device, FI_VERSION(1, 5), hints);
#define CHECK(what) doing = #what, check_##what(), printf("right: %s\n", doing)
	CHECK(both_begin);
	CHECK(both_begin_apart);
	CHECK(first_is_long);
	CHECK(killed);
	CHECK(replaced);
	CHECK(shortage);
	CHECK(strangers);
	CHECK(close);
	CHECK(close_before_peer);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
