/* SPDX-License-Identifier: BSD-2-Clause */
/* What the C programs over TCP streams share: two ends, bytes that depend on their position, and the output of
 * checks. */
#ifndef STREAMS_KIT_H
#define STREAMS_KIT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 300000                  /* for whatever should be there at once */

static int failed;

static inline void check(const char *what, bool good)
{
	int error = errno;

	printf("%s - %s\n", good ? "ok" : "not ok", what);
	if (!good)
		printf("    errno: %s\n", strerror(error));
	fflush(stdout);
	failed += !good;
}

static inline int ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, LIMIT_MS) == 1 ? p.revents : 0;
}

/* The byte at OFFSET of a stream. */
static inline uint8_t byte_at(uint64_t offset, uint8_t seed)
{
	return (uint8_t)((offset * 2654435761u >> 13) ^ offset ^ seed);
}

static inline void fill(uint8_t *p, size_t n, uint64_t offset, uint8_t seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(offset + i, seed);
}

static inline bool is_filled(const uint8_t *p, size_t n, uint64_t offset, uint8_t seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != byte_at(offset + i, seed))
			return false;
	return true;
}

struct ends { int a, b; };               /* A has connected, B was accepted */

static inline int listening(struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (void *)at, len) < 0 || listen(fd, 100) < 0 || getsockname(fd, (void *)at, &len) < 0) {
		perror("listen");
		exit(1);
	}
	return fd;
}

static inline struct ends connected(int listener, const struct sockaddr_in *at)
{
	struct ends e = { .a = socket(AF_INET, SOCK_STREAM, 0) };

	if (connect(e.a, (const void *)at, sizeof *at) < 0 || (e.b = accept(listener, NULL, NULL)) < 0) {
		perror("connect");
		exit(1);
	}
	return e;
}

/* What was sent is there, both ways. */
static inline bool talks(struct ends e)
{
	char c = 0, d = 0;

	return send(e.a, "1", 1, MSG_NOSIGNAL) == 1 && recv(e.b, &c, 1, 0) == 1 && c == '1' &&
	       send(e.b, "2", 1, MSG_NOSIGNAL) == 1 && recv(e.a, &d, 1, 0) == 1 && d == '2';
}

/* Each direction has decided what it is before the listener goes. */
static inline struct ends pair(void)
{
	struct sockaddr_in at;
	int listener = listening(&at);
	struct ends e = connected(listener, &at);

	check("two ends talk", talks(e));
	close(listener);
	return e;
}

static inline void done(struct ends e)
{
	close(e.a);
	close(e.b);
}

static inline void nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

#endif
