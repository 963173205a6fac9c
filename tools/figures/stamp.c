/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded before the interposer. With one SIPp call at a time, it measures how long SIPp waits between writing an
 * INVITE to its socket and reading a ringing from it, or the answer if the ringing was lost. If SIPp makes a connection
 * for the INVITE, the time begins with connect(). It writes the times, in us, one a line, to the file STAMPS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static double begun;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void leaves(const void *buf, size_t len)
{
	if (len >= 6 && memcmp(buf, "INVITE", 6) == 0 && begun == 0)
		begun = now_us();
}

static void came(const void *buf, ssize_t len)
{
	static FILE *file;

	if (len < 11 || begun == 0 || (memcmp(buf, "SIP/2.0 180", 11) != 0 && memcmp(buf, "SIP/2.0 200", 11) != 0))
		return;
	if (!file)
		file = fopen(getenv("STAMPS"), "a");
	if (file)
		fprintf(file, "%.1f\n", now_us() - begun);
	begun = 0;
}

#define NEXT(name) \
	static __typeof__(&name) next; \
	if (!next) \
		next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	int type = 0;
	socklen_t size = sizeof type;

	NEXT(connect);
	if (begun == 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM)
		begun = now_us();
	return next(fd, to, len);
}

ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	NEXT(sendto);
	leaves(buf, len);
	return next(fd, buf, len, flags, to, to_len);
}

ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	NEXT(send);
	leaves(buf, len);
	return next(fd, buf, len, flags);
}

ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	ssize_t n;

	NEXT(recvfrom);
	n = next(fd, buf, len, flags, from, from_len);
	came(buf, n);
	return n;
}

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	ssize_t n;

	NEXT(recv);
	n = next(fd, buf, len, flags);
	came(buf, n);
	return n;
}
