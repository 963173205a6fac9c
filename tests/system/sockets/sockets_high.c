/* SPDX-License-Identifier: BSD-2-Clause */
/* sockets_high: descriptors beyond the interposer's table work like others. With "many", many of them at once. */
#include <sys/resource.h>

#include "streams_kit.h"

static int raise_to(int fd, int number)
{
	int high = fcntl(fd, F_DUPFD, number);

	if (high >= 0)
		close(fd);
	return high;
}

static bool goes_between(int from, int to)
{
	char buf[16] = "";

	return send(from, "message", 7, 0) == 7 && ready(to, POLLIN) && recv(to, buf, sizeof buf, 0) == 7 &&
	       memcmp(buf, "message", 7) == 0;
}

static int datagrams(struct sockaddr_in *at)
{
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char c;

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (void *)at, len) < 0 || getsockname(fd, (void *)at, &len) < 0)
		exit(1);
	check("nothing is there", recv(fd, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	return fd;
}

static void at_number(int number)
{
	struct sockaddr_in at[2];
	struct ends e = pair(), d;
	int file;

	e.a = raise_to(e.a, number);
	e.b = raise_to(e.b, number);
	check("ends of a stream have high numbers", e.a >= number && e.b >= number);
	for (int i = 0; i < 10; i++)
		check("... and talk", talks(e));
	file = open("/dev/null", O_RDWR);
	check("a file in its place is one", dup2(file, e.a) == e.a && write(e.a, "x", 1) == 1 &&
	      read(e.a, &at, 1) == 0);
	close(file);
	done(e);
	d.a = raise_to(datagrams(&at[0]), number);
	d.b = raise_to(datagrams(&at[1]), number);
	check("sockets are connected", connect(d.a, (void *)&at[1], sizeof at[1]) == 0 &&
	      connect(d.b, (void *)&at[0], sizeof at[0]) == 0);
	check("nothing is there", recv(d.a, &file, 1, MSG_DONTWAIT) < 0 && recv(d.b, &file, 1, MSG_DONTWAIT) < 0);
	for (int i = 0; i < 10; i++)
		check("datagrams go both ways", goes_between(d.a, d.b) && goes_between(d.b, d.a));
	check("all are closed by their range", close_range((unsigned)number, ~0u, 0) == 0 &&
	      send(d.a, "x", 1, 0) < 0 && errno == EBADF);
}

#define MANY 70000

static void many(int limit)
{
	static int fd[MANY];
	int n = 0, all = limit - 100 < MANY ? limit - 100 : MANY;
	char c;

	while (n < all && (fd[n] = socket(AF_INET, SOCK_DGRAM, 0)) >= 0)
		n++;
	check("many sockets are open", n == all);
	n = 0;
	while (n < all && recv(fd[n], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN)
		n++;
	check("... of which none has anything", n == all);
	while (n > 0 && close(fd[n - 1]) == 0)
		n--;
	check("... and all are closed", n == 0);
}

int main(int argc, char **argv)
{
	static const int numbers[] = { 16384, 65536, 1000000 };
	struct rlimit l, more;
	int tried = 0;

	(void)argv;
	getrlimit(RLIMIT_NOFILE, &l);
	more.rlim_cur = more.rlim_max = 1000100;
	if (setrlimit(RLIMIT_NOFILE, &more) == 0)
		l = more;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	for (int i = 0; i < 3 && (rlim_t)numbers[i] + 100 < l.rlim_max; i++, tried++)
		at_number(numbers[i]);
	if (!tried)
		puts("SKIP: no descriptor may be so high here");
	if (argc > 1)
		many((int)l.rlim_cur);
	printf("end %d\n", tried);
	return failed > 0;
}
