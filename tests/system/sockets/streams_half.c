/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_half: what a receiver sees of a peer that sends only a part of an FPDU, or of the bytes that begin a stream.
 * The program has both ends, and sends these bytes by calls of the C library that are not interposed. A receive waits
 * no longer than its socket allows, and not after a signal. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "base/crc.h"
#include "base/wire.h"
#include "streams_kit.h"

#define HEAD 20u
#define PAYLOAD 100u
#define ALL (HEAD + PAYLOAD + 4)         /* its length needs no pad */
#define SOME 150000                      /* microseconds that a receive may wait */

static __typeof__(&send) raw_send;
static __typeof__(&recv) raw_recv;
static uint8_t fpdu[ALL];

static void begin(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	raw_send = libc ? (__typeof__(raw_send))dlsym(libc, "send") : NULL;
	raw_recv = libc ? (__typeof__(raw_recv))dlsym(libc, "recv") : NULL;
	if (!raw_send || !raw_recv)
		exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Makes the FPDU that follows what E's A has sent. */
static void next_fpdu(struct ends e)
{
	char c[PAYLOAD];

	fill((uint8_t *)c, PAYLOAD, 0, 9);
	if (send(e.a, c, PAYLOAD, 0) != PAYLOAD || !ready(e.b, POLLIN) ||
	    raw_recv(e.b, fpdu, ALL, MSG_PEEK) != ALL || recv(e.b, c, PAYLOAD, 0) != PAYLOAD)
		exit(1);
	diw_put32(fpdu + 12, diw_get32(fpdu + 12) + 1);
	diw_put32le(fpdu + HEAD + PAYLOAD, diw_crc32c(0, fpdu, HEAD + PAYLOAD));
}

static void limit(int fd, int us)
{
	struct timeval t = { .tv_usec = us };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static void ignores(int sig)
{
	(void)sig;
}

static void alarm_in(int us)
{
	struct sigaction sa = { .sa_handler = ignores };
	struct itimerval t = { .it_value.tv_usec = us };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

/* A receive fails with ERROR, not before LEAST seconds, and within a reasonable time. */
static void ends_with(const char *what, int fd, int flags, int error, double least)
{
	double began = now();
	char buf[200];
	ssize_t rc = recv(fd, buf, sizeof buf, flags);

	check(what, rc < 0 && errno == error && now() - began >= least && now() - began < 3);
}

static void waits(struct ends e)
{
	ends_with("at once", e.b, MSG_DONTWAIT, EAGAIN, 0);
	check("... it is not readable", poll(&(struct pollfd){ .fd = e.b, .events = POLLIN }, 1, 0) == 0);
	limit(e.b, SOME);
	ends_with("... after its time", e.b, 0, EAGAIN, SOME / 2e6);
	ends_with("... which it looks", e.b, MSG_PEEK, EAGAIN, SOME / 2e6);
	ends_with("... for all", e.b, MSG_WAITALL, EAGAIN, SOME / 2e6);
	limit(e.b, 0);
	alarm_in(SOME);
	ends_with("... after a signal", e.b, 0, EINTR, SOME / 2e6);
	nonblocking(e.b);
	ends_with("... without waiting", e.b, 0, EAGAIN, 0);
	fcntl(e.b, F_SETFL, 0);
}

/* N bytes of the FPDU are there, the rest comes later. */
static void part(size_t n)
{
	struct ends e = pair();
	char buf[PAYLOAD];

	next_fpdu(e);
	check("a part of an FPDU", raw_send(e.a, fpdu, n, 0) == (ssize_t)n);
	waits(e);
	check("... the rest", raw_send(e.a, fpdu + n, ALL - n, 0) == (ssize_t)(ALL - n) && ready(e.b, POLLIN));
	check("... with which it is good", recv(e.b, buf, sizeof buf, 0) == sizeof buf &&
	      is_filled((uint8_t *)buf, sizeof buf, 0, 9));
	done(e);
}

static int trickle_to;

static void *trickles(void *arg)
{
	for (size_t i = 0; i < ALL - 1; i++) {
		raw_send(trickle_to, fpdu + i, 1, MSG_NOSIGNAL);
		usleep(SOME / 3);
	}
	return arg;
}

/* Its bytes come one by one, each in time. */
static void trickle(void)
{
	struct ends e = pair();
	pthread_t t;

	next_fpdu(e);
	trickle_to = e.a;
	if (pthread_create(&t, NULL, trickles, NULL))
		exit(1);
	limit(e.b, SOME);
	ends_with("byte by byte", e.b, 0, EAGAIN, SOME / 2e6);
	pthread_join(t, NULL);
	done(e);
}

/* The first bytes could be those of FPDUs. */
static void first_bytes(void)
{
	struct sockaddr_in at;
	int listener = listening(&at);
	struct ends e = connected(listener, &at);

	check("first bytes", raw_send(e.a, "MPA ID", 6, 0) == 6 && ready(e.b, POLLIN));
	limit(e.b, SOME);
	ends_with("... after its time", e.b, 0, EAGAIN, SOME / 2e6);
	limit(e.b, 0);
	alarm_in(SOME);
	ends_with("... after a signal", e.b, 0, EINTR, SOME / 2e6);
	close(listener);
	done(e);
}

int main(void)
{
	begin();
	part(1);
	part(HEAD);
	part(HEAD + 50);
	part(ALL - 1);
	trickle();
	first_bytes();
	return failed != 0;
}
