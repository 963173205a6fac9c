/* SPDX-License-Identifier: BSD-2-Clause */
/* For programs that test the socket engine (verbs/rs). */
#ifndef DIW_TESTS_RS_KIT_H
#define DIW_TESTS_RS_KIT_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "verbs/rs/rs.h"

#define SOON_MS 30000

static int failures;

#define CHECK(cond, ...) do { \
	bool good_ = (cond); \
	printf("%sok - ", good_ ? "" : "not "); \
	printf(__VA_ARGS__); \
	printf(good_ ? "\n" : " (%s:%d)\n", __FILE__, __LINE__); \
	fflush(stdout); \
	failures += !good_; \
} while (0)

static inline void die(const char *what, long rc)
{
	printf("not ok - %s: %s\n", what, strerror(rc < 0 ? (int)-rc : errno));
	exit(1);
}

static inline double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static inline int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* The loopback address of FAMILY. */
static inline socklen_t lo(int family, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 in6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};

	memset(ss, 0, sizeof *ss);
	if (family == AF_INET)
		memcpy(ss, &in, sizeof in);
	else
		memcpy(ss, &in6, sizeof in6);
	return family == AF_INET ? sizeof in : sizeof in6;
}

static inline uint16_t port_of(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	int rc = diw_rs_name(fd, false, (struct sockaddr *)&ss, &len);

	if (rc < 0)
		die("a socket's name", rc);
	return ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

static inline int listener(int family, int backlog)
{
	struct sockaddr_storage ss;
	socklen_t len = lo(family, 0, &ss);
	int fd = diw_rs_socket(family, SOCK_STREAM, 0), rc = fd;

	if (rc >= 0)
		rc = diw_rs_bind(fd, (struct sockaddr *)&ss, len);
	if (rc >= 0)
		rc = diw_rs_listen(fd, backlog);
	if (rc < 0)
		die("a listener", rc);
	return fd;
}

static inline int try_connect(int fd, int family, uint16_t port)
{
	struct sockaddr_storage ss;
	socklen_t len = lo(family, port, &ss);

	return diw_rs_connect(fd, (struct sockaddr *)&ss, len);
}

static inline int connected(int family, uint16_t port)
{
	int fd = diw_rs_socket(family, SOCK_STREAM, 0), rc = fd;

	if (rc >= 0)
		rc = try_connect(fd, family, port);
	if (rc < 0)
		die("a connection", rc);
	return fd;
}

/* Both ends in this process: fd[0] has connected, fd[1] was accepted. */
static inline void pair(int fd[2])
{
	int l = listener(AF_INET, 1);

	fd[0] = connected(AF_INET, port_of(l));
	fd[1] = diw_rs_accept(l, NULL, NULL);
	if (fd[1] < 0)
		die("accept", fd[1]);
	diw_rs_close(l);
}

static inline void close_both(const int fd[2])
{
	diw_rs_close(fd[0]);
	diw_rs_close(fd[1]);
}

static inline ssize_t send_to(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { (void *)buf, len };

	return diw_rs_send(fd, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

static inline ssize_t recv_from(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };

	return diw_rs_recv(fd, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

static inline void nonblocking(int fd, bool on)
{
	diw_rs_fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0);
}

/* The result of poll() for FD within MS. */
static inline short polled(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	return diw_rs_poll(&p, 1, ms) > 0 ? p.revents : 0;
}

/* Whether both ends can exchange data. */
static inline bool talk(int a, int b)
{
	char buf[8] = "";

	return send_to(a, "ping", 5, 0) == 5 && recv_from(b, buf, 5, MSG_WAITALL) == 5 && strcmp(buf, "ping") == 0 &&
	       send_to(b, "pong", 5, 0) == 5 && recv_from(a, buf, 5, MSG_WAITALL) == 5 && strcmp(buf, "pong") == 0;
}

#endif
