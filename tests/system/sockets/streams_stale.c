/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_stale: calls that the interposer does not see close a connection and its listener, so the registry still
 * shows both. The next connection between the same two addresses has a reader without the interposer, and is plain. */
#include <netinet/in.h>
#include <sys/syscall.h>

#include "streams_kit.h"

#ifdef __x86_64__
static long unseen(long number, long a, long b, long c)
{
	long rc;

	__asm__ volatile("syscall" : "=a" (rc) : "a" (number), "D" (a), "S" (b), "d" (c) : "rcx", "r11", "memory");
	return rc;
}

static int from(const struct sockaddr_in *self, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (const void *)self, sizeof *self) < 0 || connect(fd, (const void *)to, sizeof *to) < 0) {
		perror("connect");
		exit(1);
	}
	return fd;
}

/* Without TIME_WAIT. */
static void reset(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof(struct linger));
	close(fd);
}

static int unseen_listener(const struct sockaddr_in *at)
{
	int fd = (int)unseen(SYS_socket, AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || unseen(SYS_bind, fd, (long)at, sizeof *at) < 0 || unseen(SYS_listen, fd, 1, 0) < 0)
		exit(1);
	return fd;
}

int main(void)
{
	struct sockaddr_in at, self = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof self;
	int listener = listening(&at), reader;
	char buf[64] = "";
	struct ends e;

	e.a = from(&self, &at);
	e.b = accept(listener, NULL, NULL);
	getsockname(e.a, (void *)&self, &len);
	check("two ends talk", talks(e));
	reset(e.a);
	unseen(SYS_close, e.b, 0, 0);
	unseen(SYS_close, listener, 0, 0);

	listener = unseen_listener(&at);
	e.a = from(&self, &at);
	reader = (int)unseen(SYS_accept, listener, 0, 0);
	check("the same addresses again", reader >= 0);
	check("... a send", send(e.a, "1", 1, 0) == 1);
	check("... is read as it was sent", unseen(SYS_read, reader, (long)buf, sizeof buf) == 1 && buf[0] == '1');
	return failed != 0;
}
#else
int main(void)
{
	puts("ok - no calls here that the interposer does not see");
	return 0;
}
#endif
