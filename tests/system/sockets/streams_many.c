/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_many COUNT: COUNT connections at once, between processes that have 15,000 each. Each connection has a
 * message in both directions. On a busy machine only some connections use FPDUs, because acceptors come later than
 * initiators wait. The program prints the time, and the memory of the registries. */
#include <limits.h>
#include <sys/wait.h>
#include <time.h>

#include "sockets_preload/shm/sockreg.h"
#include "sockets_preload/shm/streamreg.h"
#include "streams_kit.h"

#define EACH 15000u                      /* connections of a process: it may have 20,000 descriptors */

struct result { unsigned good, framed; };

static int fd[EACH];
static int told[2], go[2];               /* what a process has to say, and until when it keeps its connections */
static struct diw_streamreg *streams;
static struct diw_sockreg *sockets;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool open_both(void)
{
	char path[PATH_MAX];
	const char *why;

	streams = diw_streamreg_open(false, path, sizeof path, &why);
	sockets = diw_sockreg_open(false, path, sizeof path, &why);
	return streams && sockets;
}

static bool sends_frames(int s)
{
	struct diw_sock_stream *st;
	uint64_t cookie = 0;
	socklen_t len = sizeof cookie;

	getsockopt(s, SOL_SOCKET, SO_COOKIE, &cookie, &len);
	st = diw_streamreg_find(streams, cookie);
	return st && atomic_load(&st->tx.state) == DIW_STREAM_FRAMED;
}

/* Tells, and keeps N connections until all have told. */
static void finish(unsigned n, unsigned good)
{
	struct result r = { .good = good };
	char c;

	for (unsigned i = 0; i < n && (streams || open_both()); i++)
		r.framed += sends_frames(fd[i]);
	close(go[1]);
	(void)!write(told[1], &r, sizeof r);
	(void)!read(go[0], &c, 1);
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
	exit(0);
}

static void serve(int listener, unsigned n)
{
	unsigned good = 0;
	char c;

	for (unsigned i = 0; i < n; i++)
		if ((fd[i] = accept(listener, NULL, NULL)) >= 0 && recv(fd[i], &c, 1, 0) == 1 && c == '1')
			good += send(fd[i], "2", 1, MSG_NOSIGNAL) == 1;
	finish(n, good);
}

static void ask(const struct sockaddr_in *at, unsigned n)
{
	unsigned good = 0;
	char c;

	for (unsigned i = 0; i < n; i++) {
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(fd[i], (const void *)at, sizeof *at) == 0 && send(fd[i], "1", 1, MSG_NOSIGNAL) == 1)
			good += recv(fd[i], &c, 1, 0) == 1 && c == '2';
	}
	finish(n, good);
}

static void begin(unsigned n)
{
	struct sockaddr_in at;
	int listener = listening(&at);

	if (fork() == 0)
		serve(listener, n);
	if (fork() == 0)
		ask(&at, n);
	close(listener);
}

static unsigned long long memory(const _Atomic uint64_t *map, size_t words, size_t each)
{
	unsigned long long n = 0;

	for (size_t i = 0; i < words; i++)
		n += (unsigned)__builtin_popcountll(atomic_load(&map[i]));
	return n * each >> 20;
}

int main(int argc, char **argv)
{
	unsigned all = argc > 1 ? (unsigned)atoi(argv[1]) : 1000, good = 0, framed = 0, ends = 0;
	double begun = now();
	struct result r;

	if (pipe(told) < 0 || pipe(go) < 0)
		return 1;
	for (unsigned left = all; left; left -= left < EACH ? left : EACH, ends += 2)
		begin(left < EACH ? left : EACH);
	for (; ends && read(told[0], &r, sizeof r) == sizeof r; ends--) {
		good += r.good;
		framed += r.framed;
	}
	printf("%u connections in %.1f s, %u of %u ends send FPDUs\n", all, now() - begun, framed, 2 * all);
	check("each connection had its message, and its answer", good == 2 * all);
	check("a part of them is framed", framed >= all / 5);
	if (open_both())
		printf("slots have %llu MB, entries %llu MB\n",
		       memory(streams->backed, sizeof streams->backed / 8, DIW_STREAMREG_GROUP * sizeof *streams->slot),
		       memory(sockets->backed, sizeof sockets->backed / 8, DIW_SOCKREG_PAGE));
	begun = now();
	close(go[1]);
	while (wait(NULL) > 0)
		;
	printf("closed in %.1f s\n", now() - begun);
	puts("end");
	return failed > 0;
}
