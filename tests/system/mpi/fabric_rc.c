/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections between endpoints over RC queue pairs (FI_DIWARP_MODE=rc): both ends begin at once, the peer is killed, a
 * new process has its address, and strangers connect. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/mpi/fabric_kit.h"
#include "tests/system/mpi/fabric_stranger.h"

#define PAIRS 24
#define ROUNDS 20
#define SILENT 400                       /* more than an endpoint admits */

static const char *device;
static struct fi_info *wanted;           /* the hints */

/* ---- Another process ---- */

static struct peer {
	pid_t pid;
	int fd;                          /* a socket to it */
	struct sockaddr_in name;
	fi_addr_t addr;
} peer;

static void tell(int fd, const void *p, size_t len)
{
	REQUIRE(write(fd, p, len) == (ssize_t)len);
}

static void hear(int fd, void *p, size_t len)
{
	REQUIRE(recv(fd, p, len, MSG_WAITALL) == (ssize_t)len);
}

/* Starts this program as ROLE, with PORT as the port of its endpoint (0: any). */
static void peer_start(const char *role, unsigned port)
{
	char fd[12], number[12];
	struct sockaddr_in own;
	size_t len = sizeof own;
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	snprintf(fd, sizeof fd, "%d", ends[1]);
	snprintf(number, sizeof number, "%u", port);
	peer.pid = fork();
	REQUIRE(peer.pid >= 0);
	if (peer.pid == 0) {
		execl("/proc/self/exe", "fabric_rc", device, role, fd, number, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	peer.fd = ends[0];
	hear(peer.fd, &peer.name, sizeof peer.name);
	REQUIRE(fi_getname(&a.ep->fid, &own, &len) == 0);
	tell(peer.fd, &own, sizeof own);
	REQUIRE(fi_av_insert(av, &peer.name, 1, &peer.addr, 0, NULL) == 1);
}

static void peer_end(int sig)
{
	int status;

	if (sig)
		kill(peer.pid, sig);
	REQUIRE(waitpid(peer.pid, &status, 0) == peer.pid);
	REQUIRE(sig || status == 0);
	close(peer.fd);
}

/* The error of a peer that is gone: its kernel resets the stream, or ends it. */
static bool is_lost(ssize_t err)
{
	return err == FI_ECONNRESET || err == FI_ESHUTDOWN;
}

/* A message each way: both ends send first. */
static void exchange(struct end *e, struct end *other, fi_addr_t to, uint64_t value)
{
	struct fi_cq_tagged_entry c;
	uint64_t got = ~value;

	REQUIRE(fi_tinject(e->ep, &value, 8, to, 1) == 0);
	REQUIRE(fi_trecv(e->ep, &got, 8, NULL, to, 1, 0, NULL) == 0);
	REQUIRE(next(e, other, &c, NULL) == 0 && got == value);
}

/* The other process: its only endpoint is a; b is there for the kit. */
static int peer_main(const char *role, int fd, unsigned port)
{
	struct sockaddr_in own, other;
	size_t len = sizeof own;
	fi_addr_t to;
	uint64_t go;

	doing = role;
	ends_open(device, FI_VERSION(1, 5), wanted);
	if (port) {
		end_close(&a);
		memcpy(&own, info->src_addr, sizeof own);
		own.sin_port = htons((uint16_t)port);
		memcpy(info->src_addr, &own, sizeof own);
		end_open(&a);
	}
	REQUIRE(fi_getname(&a.ep->fid, &own, &len) == 0);
	tell(fd, &own, sizeof own);
	hear(fd, &other, sizeof other);
	REQUIRE(fi_av_insert(av, &other, 1, &to, 0, NULL) == 1);
	if (strcmp(role, "hang") == 0) {
		exchange(&a, &b, to, 7);
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

/* A peer is killed. The sends that wait for it fail, later ones do at once, and other peers are not affected. */
static void check_killed(void)
{
	struct fi_cq_tagged_entry c;
	time_t begin, until;
	ssize_t rc;
	int ctx[2];

	peer_start("hang", 0);
	exchange(&a, &b, peer.addr, 7);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx[0]) == 0);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx[1]) == 0);
	expect_none(&a);
	begin = time(NULL);
	peer_end(SIGKILL);
	REQUIRE(is_lost(next(&a, &b, &c, NULL)) && c.op_context == &ctx[0]);
	REQUIRE(is_lost(next(&a, &b, &c, NULL)) && c.op_context == &ctx[1]);
	until = begin + 10;
	while ((rc = fi_tinject(a.ep, out, 8, peer.addr, 5)) == 0 && time(NULL) < until)
		progress();
	REQUIRE(is_lost(-rc) && time(NULL) <= until);
	exchange(&a, &b, a.addr, 1);
}

/* A process with the address of one that was killed is a new peer, also while a message waits for the old one. */
static void check_replaced(void)
{
	struct fi_cq_tagged_entry c;
	uint64_t value = 9;
	int ctx;

	for (int i = 0; i < 2; i++) {
		peer_start("hang", 0);
		exchange(&a, &b, peer.addr, 7);
		if (i)
			REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, peer.addr, 5, &ctx) == 0);
		peer_end(SIGKILL);
		peer_start("exchange", ntohs(peer.name.sin_port));
		tell(peer.fd, &value, sizeof value);
		if (i)
			REQUIRE(is_lost(next(&a, &b, &c, NULL)) && c.op_context == &ctx);
		REQUIRE(fi_trecv(a.ep, in, 8, NULL, peer.addr, 1, 0, NULL) == 0 && next(&a, &b, &c, NULL) == 0);
		REQUIRE(memcmp(in, &value, 8) == 0 && fi_tinject(a.ep, &value, 8, peer.addr, 1) == 0);
		peer_end(0);
	}
}

static struct stranger s;

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

	for (int i = 0; i < SILENT; i++) {
		fd[i] = silent_connect();
		if (i % 2)
			(void)!send(fd[i], rubbish, sizeof rubbish, MSG_NOSIGNAL);
	}
	stranger_prepare(&s);
	s.qkey++;
	REQUIRE(stranger_connect(&s) == DIW_CM_REJECTED);
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

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();

	REQUIRE(hints && (argc == 2 || argc == 5));
	hints->caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->tx_attr->op_flags = 0;
	device = argv[1];
	wanted = hints;
	if (argc == 5)
		return peer_main(argv[2], atoi(argv[3]), (unsigned)atoi(argv[4]));
	ends_open(device, FI_VERSION(1, 5), hints);
#define CHECK(what) doing = #what, check_##what(), printf("right: %s\n", doing)
	CHECK(both_begin);
	CHECK(both_begin_apart);
	CHECK(killed);
	CHECK(replaced);
	CHECK(strangers);
	CHECK(close);
	ends_close();
	fi_freeinfo(hints);
	puts("done");
	return 0;
}
