/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cost of the interposer: the same work without it, with it, and with it and the CRC or Write-Records, on one
 * processor. Each way is a program of its own. The three programs take turns of a millisecond or two, so that other
 * load affects all of them alike. A turn is compared with the turns next to it. The programs are restarted now and
 * then, because the place of a process's memory makes it up to 1 % slower or faster. A line of output is a figure: a
 * label, the ratio, and its goal, separated by tabs.
 * usage: sockets_cost PRELOAD SECONDS WORK BYTES     WORK: one of works[] below
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/hdr.h"
#include "wire/seal.h"

#define MOST_ROUNDS 100000
#define A_START 40                       /* rounds of the same processes */
#define SEGMENT 1200
#define HEAD (DIW_DDP_UNTAGGED_LEN + DIW_DDP_IMM_LEN)
#define PEERS 300                        /* each more than once a turn: it is of those that talk all the time */

enum { PLAIN, WITH, OTHERWISE, WAYS };      /* OTHERWISE: with the CRC, or by Write-Records */
struct figures { double cpu, elapsed; };  /* ns */
struct way { int ask, answer; struct figures *ns; };

static char buf[65536];
static size_t bytes;
static struct sockaddr_in server = { .sin_family = AF_INET };
static pid_t other;                      /* has the other end of connections; 0: there is none */

static double now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static double cpu(void)
{
	clockid_t clock;

	return now(CLOCK_PROCESS_CPUTIME_ID) + (other && !clock_getcpuclockid(other, &clock) ? now(clock) : 0);
}

static void must(int done)
{
	if (!done)
		_exit(1);
}

static void whole(ssize_t n)
{
	must(n == (ssize_t)bytes);
}

/* ---- Datagrams: from B to A ---- */

static int a, b, epoll;
static int peer[PEERS], reader[PEERS];

static int udp(int type)
{
	int fd = socket(AF_INET, SOCK_DGRAM | type, 0);

	must(fd >= 0);
	return fd;
}

static struct sockaddr_in name_of(int fd)
{
	struct sockaddr_in at;
	socklen_t len = sizeof at;

	must(!getsockname(fd, (void *)&at, &len));
	return at;
}

static void bind_to(int fd)
{
	int on = 1;

	must(!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	must(!bind(fd, (void *)&server, sizeof server));
	server = name_of(fd);
}

static void first_receive(int fd)
{
	recv(fd, buf, 1, MSG_DONTWAIT);      /* from now on it is known to the others */
}

static void open_pair(int type)
{
	a = udp(type);
	b = udp(0);
	bind_to(a);
	first_receive(a);
}

static void open_blocking(void) { open_pair(0); }

static void blocking(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof from;

	whole(sendto(b, buf, bytes, 0, (void *)&server, sizeof server));
	whole(recvfrom(a, buf, sizeof buf, 0, (void *)&from, &len));
}

/* The kernel cuts a buffer into messages, and joins them for the receiver. Two buffers arrive as two. */
static void open_cut(int size)
{
	int on = 1;

	open_pair(0);
	must(!setsockopt(b, IPPROTO_UDP, 103 /* UDP_SEGMENT */, &size, sizeof size));
	must(!setsockopt(a, IPPROTO_UDP, 104 /* UDP_GRO */, &on, sizeof on));
	first_receive(a);
}

static void open_segments(void) { open_cut(SEGMENT); }

/* What has come as one buffer. */
static size_t take_joined(void *to)
{
	char control[64];
	struct iovec iov = { to, sizeof buf };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
		.msg_controllen = sizeof control };
	ssize_t n = recvmsg(a, &m, 0);

	must(n > 0 && m.msg_controllen);
	return (size_t)n;
}

static void segments(void)
{
	whole(sendto(b, buf, bytes, 0, (void *)&server, sizeof server));
	for (size_t left = bytes; left;)
		left -= take_joined(buf);
}

/* The same, by a program that makes the frames itself. */
static void open_by_hand(void) { open_cut(HEAD + SEGMENT + DIW_SEAL_LEN); }

static size_t frame_put(uint8_t *to, const char *from, size_t n, bool crc)
{
	memset(to, 1, HEAD);
	memcpy(to + HEAD, from, n);
	diw_seal_put(to + HEAD + n, crc ? diw_crc32(0, to, HEAD + n) : 0);
	return HEAD + n + DIW_SEAL_LEN;
}

static size_t less(size_t a, size_t b) { return a < b ? a : b; }

static void frame_by_hand(bool crc)
{
	static uint8_t frames[2][sizeof buf];
	size_t size = HEAD + SEGMENT + DIW_SEAL_LEN, n = 0;

	for (size_t at = 0; at < bytes; at += SEGMENT)
		n += frame_put(frames[0] + n, buf + at, less(bytes - at, SEGMENT), crc);
	must(sendto(b, frames[0], n, 0, (void *)&server, sizeof server) == (ssize_t)n);
	must(take_joined(frames[1]) == n);
	for (size_t at = 0; at < n; at += size) {
		size_t one = less(n - at, size);

		must(!crc || diw_seal_is_good(frames[1] + at, one));
		memcpy(buf + at / size * SEGMENT, frames[1] + at + HEAD, one - HEAD - DIW_SEAL_LEN);
	}
}

static void by_hand(void) { frame_by_hand(false); }
static void by_hand_crc(void) { frame_by_hand(true); }

static void open_epoll(void)
{
	struct epoll_event e = { .events = EPOLLIN };

	open_pair(SOCK_NONBLOCK);
	epoll = epoll_create1(0);
	must(!epoll_ctl(epoll, EPOLL_CTL_ADD, a, &e));
}

static void by_epoll(void)
{
	struct sockaddr_in from;
	struct epoll_event e;
	socklen_t len = sizeof from;

	whole(sendto(b, buf, bytes, 0, (void *)&server, sizeof server));
	must(epoll_wait(epoll, &e, 1, -1) == 1);
	whole(recvfrom(a, buf, sizeof buf, 0, (void *)&from, &len));
}

/* Many sockets that are connected to one. */
static void open_clients(void)
{
	open_pair(0);
	for (int i = 0; i < PEERS; i++) {
		peer[i] = udp(0);
		must(!connect(peer[i], (void *)&server, sizeof server));
		first_receive(peer[i]);
	}
}

static int turn_of(void)
{
	static int i;

	return i++ % PEERS;
}

static void clients(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	int fd = peer[turn_of()];

	whole(send(fd, buf, bytes, 0));
	whole(recvfrom(a, buf, sizeof buf, 0, (void *)&from, &len));
	whole(sendto(a, buf, bytes, 0, (void *)&from, len));
	whole(recv(fd, buf, sizeof buf, 0));
}

/* Many of one port, each connected to a client of its own. */
static void open_sharers(void)
{
	open_clients();
	for (int i = 0; i < PEERS; i++) {
		struct sockaddr_in to = name_of(peer[i]);

		reader[i] = udp(0);
		bind_to(reader[i]);
		must(!connect(reader[i], (void *)&to, sizeof to));
		first_receive(reader[i]);
	}
}

static void sharers(void)
{
	int i = turn_of();

	whole(send(peer[i], buf, bytes, 0));
	whole(recv(reader[i], buf, sizeof buf, 0));
	whole(send(reader[i], buf, bytes, 0));
	whole(recv(peer[i], buf, sizeof buf, 0));
}

/* ---- Connections: to another process ---- */

static void echo(int fd)
{
	int on = 1;
	ssize_t n;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
		must(send(fd, buf, (size_t)n, 0) == n);
	close(fd);
}

static void serve(int tell)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), to;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bind_to(fd);
	must(!listen(fd, 16) && write(tell, &server, sizeof server) == (ssize_t)sizeof server);
	while ((to = accept(fd, NULL, NULL)) >= 0)
		echo(to);
	_exit(1);
}

static void open_server(void)
{
	int tell[2];

	must(!pipe(tell));
	other = fork();
	if (other == 0)
		serve(tell[1]);
	must(read(tell[0], &server, sizeof server) == (ssize_t)sizeof server);
}

static void open_stream(void)
{
	int on = 1;

	a = socket(AF_INET, SOCK_STREAM, 0);
	must(!connect(a, (void *)&server, sizeof server));
	setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void round_trip(void)
{
	whole(send(a, buf, bytes, 0));
	whole(recv(a, buf, sizeof buf, 0));
}

static void open_round_trips(void)
{
	open_server();
	open_stream();
}

static void connection(void)
{
	open_stream();
	round_trip();
	close(a);
}

static const struct work {
	const char *name, *label;
	void (*open)(void), (*once)(void);
	int times;                           /* a turn */
	double goal, crc_goal;
	bool records;
	const char *with_crc;                /* nothing is interposed: "segments" against this work, and against that */
} works[] = {
	{ "blocking", "datagrams, blocking", open_blocking, blocking, 500, .goal = 1.05, .crc_goal = 1.08 },
	{ "epoll", "datagrams, epoll", open_epoll, by_epoll, 500, .goal = 1.05, .crc_goal = 1.08 },
	{ "records", "large datagrams", open_blocking, blocking, 200, .goal = 1.05, .records = true },
	{ "segments", "messages of 1200 B by UDP_SEGMENT to UDP_GRO", open_segments, segments, 50, .goal = 1.05,
	  .crc_goal = 1.08 },
	{ "by-hand", "the same, framed by the program", open_by_hand, by_hand, 50, .with_crc = "by-hand-crc" },
	{ "by-hand-crc", "", open_by_hand, by_hand_crc, 50, .goal = 0 },
	{ "clients", "300 sockets connected to one", open_clients, clients, 32 * PEERS, .goal = 1.05,
	  .crc_goal = 1.08 },
	{ "sharers", "300 connected sockets of one port", open_sharers, sharers, 32 * PEERS, .goal = 1.05,
	  .crc_goal = 1.08 },
	{ "round-trip", "stream, round trip", open_round_trips, round_trip, 200, .goal = 1.15 },
	{ "connection", "stream, connection", open_server, connection, 20, .goal = 1.3 },
};

static struct figures turn(const struct work *w)
{
	struct figures f = { cpu(), now(CLOCK_MONOTONIC) };

	for (int i = 0; i < w->times; i++)
		w->once();
	f.cpu = (cpu() - f.cpu) / w->times;
	f.elapsed = (now(CLOCK_MONOTONIC) - f.elapsed) / w->times;
	return f;
}

/* A byte is the turn, its answer the times. */
static int take_turns(const struct work *w)
{
	char c;

	server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	w->open();
	while (read(0, &c, 1) == 1) {
		struct figures f = turn(w);

		must(write(1, &f, sizeof f) == (ssize_t)sizeof f);
	}
	return 0;
}

/* ---- All of them ---- */

static void start(struct way *w, char **argv, int way, const struct work *k)
{
	const char *name = !k->with_crc || way == WITH ? k->name : way == PLAIN ? "segments" : k->with_crc;
	bool records = k->records;
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		exit(1);
	if (fork() == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		if (way != PLAIN && !k->with_crc)
			setenv("LD_PRELOAD", argv[1], 1);
		setenv("DIWARP_SOCKETS_STREAMS", "on", 1);
		setenv("DIWARP_SOCKETS_CRC", way == OTHERWISE && !records ? "on" : "off", 1);
		setenv("DIWARP_SOCKETS_MODE", way == OTHERWISE && records ? "write-record" : "sendrecv", 1);
		execl(argv[0], argv[0], name, argv[4], NULL);
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

static struct figures asked(const struct way *w)
{
	struct figures f;

	if (write(w->ask, "", 1) != 1 || read(w->answer, &f, sizeof f) != (ssize_t)sizeof f) {
		fprintf(stderr, "one of them ended\n");
		exit(1);
	}
	return f;
}

static int by_size(const void *x, const void *y)
{
	double v = *(const double *)x, w = *(const double *)y;

	return v < w ? -1 : v > w;
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_size);
	return v[n / 2];
}

/* A turn of W against that of PLAIN in its round. */
static double ratio(const struct way *plain, const struct way *w, int n, bool elapsed)
{
	static double v[MOST_ROUNDS];

	for (int i = 0; i < n; i++)
		v[i] = elapsed ? w->ns[i].elapsed / plain->ns[i].elapsed : w->ns[i].cpu / plain->ns[i].cpu;
	return median(v, n);
}

/* Beside what is framed by hand there is no goal: 0. */
static void tell(struct way w[WAYS], const struct work *k, int n)
{
	static double v[MOST_ROUNDS];

	for (int i = 0; i < n; i++)
		v[i] = w[PLAIN].ns[i].cpu;
	if (k->records) {
		printf("%s, %zu B, by Write-Records against by Sends\t%.3f\t%.2f\n", k->label, bytes,
		       ratio(&w[WITH], &w[OTHERWISE], n, false), k->goal);
		return;
	}
	printf("%s, %zu B, %.2f us without\t%.3f\t%.2f\n", k->label, bytes, median(v, n) / 1e3,
	       ratio(&w[PLAIN], &w[WITH], n, false), k->goal);
	if (k->crc_goal > 0 || k->with_crc)
		printf("  with the CRC\t%.3f\t%.2f\n", ratio(&w[PLAIN], &w[OTHERWISE], n, false), k->crc_goal);
	else
		printf("  elapsed\t%.3f\t%.2f\n", ratio(&w[PLAIN], &w[WITH], n, true), k->goal);
}

static void start_all(struct way w[WAYS], char **argv, const struct work *k)
{
	for (int i = 0; i < WAYS; i++) {
		start(&w[i], argv, i, k);
		asked(&w[i]);
	}
}

/* SECONDS, and no fewer rounds than are one start. */
static int take_rounds(struct way w[WAYS], char **argv, const struct work *k)
{
	double end = now(CLOCK_MONOTONIC) + atof(argv[2]) * 1e9;
	int n = 0;

	while (n < MOST_ROUNDS && (n % A_START || now(CLOCK_MONOTONIC) < end)) {
		if (n % A_START == 0)
			start_all(w, argv, k);
		for (int i = 0; i < WAYS; i++) {
			int way = (n + i) % WAYS;

			w[way].ns[n] = asked(&w[way]);
		}
		n++;
		for (int i = 0; i < WAYS && n % A_START == 0; i++)
			stop(&w[i]);
	}
	return n;
}

static const struct work *work_of(const char *name)
{
	for (size_t i = 0; i < sizeof works / sizeof *works; i++)
		if (strcmp(works[i].name, name) == 0)
			return &works[i];
	return NULL;
}

int main(int argc, char **argv)
{
	static struct way w[WAYS];
	const struct work *k = argc >= 3 ? work_of(argv[argc - 2]) : NULL;
	cpu_set_t one;

	bytes = k ? (size_t)atoi(argv[argc - 1]) : 0;
	if (!k || !bytes || bytes > sizeof buf)
		return 2;
	if (argc == 3)
		return take_turns(k);
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	sched_setaffinity(0, sizeof one, &one);
	sched_setscheduler(0, SCHED_RR, &(struct sched_param){ .sched_priority = 1 });   /* if it may */
	for (int i = 0; i < WAYS; i++)
		if (!(w[i].ns = calloc(MOST_ROUNDS, sizeof *w[i].ns)))
			return 1;
	tell(w, k, take_rounds(w, argv, k));
	return 0;
}
