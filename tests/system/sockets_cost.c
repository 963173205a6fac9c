/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the interposer costs: CPU time of a send and a receive of BYTES on lo, without it, with it, and with it and the
 * CRC. Each is a process of its own; they take turns of a millisecond or two, so that all of them meet the same
 * machine, and a turn is compared with its neighbours'. They are started anew now and then, since where the memory of a
 * process lies makes it 1 % slower or faster than the next.
 * usage: sockets_cost PRELOAD BYTES ROUNDS
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 500                        /* messages a turn */
#define MOST_ROUNDS 100000
#define A_START 40                       /* rounds of the same processes */

enum { PLAIN, WITH, WITH_CRC, WAYS };
struct way { int ask, answer; double *ns; };

static double cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* ---- One of them ---- */

struct pair { int a, b; struct sockaddr_in to; size_t n; };

static double turn(const struct pair *p)
{
	static char buf[65536];
	double begin = cpu_ns();

	for (int i = 0; i < TIMES; i++) {
		struct sockaddr_in from;
		socklen_t len = sizeof from;

		if (sendto(p->b, buf, p->n, 0, (const void *)&p->to, sizeof p->to) != (ssize_t)p->n ||
		    recvfrom(p->a, buf, sizeof buf, 0, (void *)&from, &len) != (ssize_t)p->n)
			exit(1);
	}
	return (cpu_ns() - begin) / TIMES;
}

/* A byte is the turn, its answer the time. */
static int take_turns(const char *bytes)
{
	struct pair p = { .a = socket(AF_INET, SOCK_DGRAM, 0), .b = socket(AF_INET, SOCK_DGRAM, 0),
			  .to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
			  .n = (size_t)atoi(bytes) };
	socklen_t len = sizeof p.to;
	char c;

	if (bind(p.a, (void *)&p.to, len) || getsockname(p.a, (void *)&p.to, &len))
		return 1;
	recv(p.a, &c, 1, MSG_DONTWAIT);
	while (read(0, &c, 1) == 1) {
		double ns = turn(&p);

		if (write(1, &ns, sizeof ns) != (ssize_t)sizeof ns)
			return 1;
	}
	return 0;
}

/* ---- All of them ---- */

static void start(struct way *w, const char *self, int way, const char *preload, char *bytes)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		exit(1);
	if (fork() == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (way != PLAIN)
			setenv("LD_PRELOAD", preload, 1);
		setenv("DIWARP_SOCKETS_CRC", way == WITH_CRC ? "on" : "off", 1);
		execl(self, self, bytes, NULL);
		_exit(1);
	}
	close(in[0]);
	close(out[1]);
	w->ask = in[1];
	w->answer = out[0];
}

static void stop(const struct way *w)
{
	close(w->ask);
	close(w->answer);
	wait(NULL);
}

static double asked(const struct way *w)
{
	double ns;

	if (write(w->ask, "", 1) != 1 || read(w->answer, &ns, sizeof ns) != (ssize_t)sizeof ns) {
		fprintf(stderr, "one of them ended\n");
		exit(1);
	}
	return ns;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_size);
	return v[n / 2];
}

/* By how many percent a turn of W was longer than the plain one of its round. */
static double more(const struct way *plain, const struct way *w, int n)
{
	static double ratio[MOST_ROUNDS];

	for (int i = 0; i < n; i++)
		ratio[i] = w->ns[i] / plain->ns[i];
	return (median(ratio, n) - 1) * 100;
}

static void tell(struct way w[WAYS], int bytes, int n)
{
	double with = more(&w[PLAIN], &w[WITH], n), crc = more(&w[PLAIN], &w[WITH_CRC], n);
	int small = bytes < 744;             /* the goals are of 172 and of 1316 bytes */

	printf("%5d bytes: %.0f ns without", bytes, median(w[PLAIN].ns, n));
	printf("; with it %+.1f %% (%.0f ns; goal %d %%)", with, median(w[WITH].ns, n), small ? 5 : 2);
	printf(", with the CRC %+.1f %% (%.0f ns; goal %d %%)\n", crc, median(w[WITH_CRC].ns, n), small ? 7 : 4);
}

static void start_all(struct way w[WAYS], char **argv)
{
	for (int i = 0; i < WAYS; i++) {
		start(&w[i], argv[0], i, argv[1], argv[2]);
		asked(&w[i]);
	}
}

int main(int argc, char **argv)
{
	static struct way w[WAYS];
	cpu_set_t one;
	int n;

	if (argc == 2)
		return take_turns(argv[1]);
	if (argc != 4 || (n = atoi(argv[3])) < 1 || n > MOST_ROUNDS)
		return 2;
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	sched_setaffinity(0, sizeof one, &one);
	for (int i = 0; i < WAYS; i++)
		if (!(w[i].ns = calloc((size_t)n, sizeof(double))))
			return 1;
	for (int round = 0; round < n; round++) {
		if (round % A_START == 0)
			start_all(w, argv);
		for (int i = 0; i < WAYS; i++) {
			int way = (round + i) % WAYS;

			w[way].ns[round] = asked(&w[way]);
		}
		if (round % A_START == A_START - 1 || round == n - 1)
			for (int i = 0; i < WAYS; i++)
				stop(&w[i]);
	}
	tell(w, atoi(argv[2]), n);
	return 0;
}
