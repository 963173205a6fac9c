/* SPDX-License-Identifier: BSD-2-Clause */
/* For the programs that test the provider with a peer that ends: another process, which runs the same program. */
#ifndef DIW_TESTS_FABRIC_PEER_H
#define DIW_TESTS_FABRIC_PEER_H

#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/mpi/fabric_kit.h"

static const char *device;
static struct fi_info *wanted;           /* the hints */

static struct peer {
	pid_t pid;
	int fd;                          /* a socket to it */
	struct sockaddr_in name;
	fi_addr_t addr;
} peer;

static inline void tell(int fd, const void *p, size_t len)
{
	REQUIRE(write(fd, p, len) == (ssize_t)len);
}

static inline void hear(int fd, void *p, size_t len)
{
	REQUIRE(recv(fd, p, len, MSG_WAITALL) == (ssize_t)len);
}

/* Starts this program as ROLE, with PORT as the port of its endpoint (0: any). It may send messages then. */
static inline void peer_launch(const char *role, unsigned port)
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
		prctl(PR_SET_PDEATHSIG, SIGKILL);       /* a test that fails leaves none behind */
		execl("/proc/self/exe", "fabric_peer", device, role, fd, number, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	peer.fd = ends[0];
	hear(peer.fd, &peer.name, sizeof peer.name);
	REQUIRE(fi_getname(&a.ep->fid, &own, &len) == 0);
	tell(peer.fd, &own, sizeof own);
}

static inline void peer_insert(void)
{
	REQUIRE(fi_av_insert(av, &peer.name, 1, &peer.addr, 0, NULL) == 1);
}

static inline void peer_start(const char *role, unsigned port)
{
	peer_launch(role, port);
	peer_insert();
}

static inline void peer_end(int sig)
{
	int status;

	if (sig)
		kill(peer.pid, sig);
	REQUIRE(waitpid(peer.pid, &status, 0) == peer.pid);
	REQUIRE(sig || status == 0);
	close(peer.fd);
}

/* The error of a peer that is gone: its kernel resets the stream, or ends it. */
static inline bool is_lost(ssize_t err)
{
	return err == FI_ECONNRESET || err == FI_ESHUTDOWN;
}

/* A message each way: both ends send first. */
static inline void exchange(struct end *e, struct end *other, fi_addr_t to, uint64_t value)
{
	struct fi_cq_tagged_entry c;
	uint64_t got = ~value;

	REQUIRE(fi_tinject(e->ep, &value, 8, to, 1) == 0);
	REQUIRE(fi_trecv(e->ep, &got, 8, NULL, to, 1, 0, NULL) == 0);
	REQUIRE(next(e, other, &c, NULL) == 0 && got == value);
}

/* Opens the ends of the other process, with PORT as the port of a (0: any). Returns the first process's address. */
static inline fi_addr_t peer_open(const char *role, int fd, unsigned port)
{
	struct sockaddr_in own, other;
	size_t len = sizeof own;
	fi_addr_t to;

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
	return to;
}

#endif
