/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread with descriptors of its own (unshare(CLONE_FILES)): one number is a datagram socket in the other threads,
 * and a connection in this thread. */
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in at;
static int a, b;
static pthread_barrier_t step;

static void check(const char *what, int good)
{
	printf("%s - %s\n", good ? "ok" : "not ok", what);
	fflush(stdout);
}

static int bound(int type, struct sockaddr_in *name)
{
	int fd = socket(AF_INET, type, 0);
	socklen_t len = sizeof *name;

	*name = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bind(fd, (void *)name, sizeof *name);
	getsockname(fd, (void *)name, &len);
	return fd;
}

static int comes(const char *text)
{
	char buf[100];

	return recv(a, buf, sizeof buf, 0) == (ssize_t)strlen(text) && !memcmp(buf, text, strlen(text));
}

static int passes(const char *text)
{
	sendto(b, text, strlen(text), 0, (void *)&at, sizeof at);
	return comes(text);
}

static void *apart(void *arg)
{
	struct sockaddr_in name;
	int listener, from, fd, got = 0;
	char all[20];

	check("descriptors of its own", unshare(CLONE_FILES) == 0);
	listener = bound(SOCK_STREAM, &name);
	listen(listener, 1);
	from = socket(AF_INET, SOCK_STREAM, 0);
	connect(from, (void *)&name, sizeof name);
	fd = accept(listener, NULL, NULL);
	dup2(fd, a);
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	check("a connection is written to", write(from, "abcdefghij", 10) == 10);
	for (ssize_t n = 1; n > 0 && got < 10; got += (int)n)
		n = recv(a, all + got, 2, 0);
	check("... and read in pieces", got == 10 && !memcmp(all, "abcdefghij", 10));
	return arg;
}

int main(void)
{
	pthread_t t;

	a = bound(SOCK_DGRAM, &at);
	b = socket(AF_INET, SOCK_DGRAM, 0);
	recv(a, at.sin_zero, 1, MSG_DONTWAIT);
	for (int i = 0; i < 20; i++)
		check("before", passes("before"));
	sendto(b, "in the queue", 12, 0, (void *)&at, sizeof at);
	pthread_barrier_init(&step, NULL, 2);
	pthread_create(&t, NULL, apart, NULL);
	pthread_barrier_wait(&step);
	check("what was in the queue", comes("in the queue"));
	check("the others have their socket", passes("after"));
	pthread_barrier_wait(&step);
	pthread_join(t, NULL);
	check("... still", passes("at the end"));
	puts("end");
	return 0;
}
