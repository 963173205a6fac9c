/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_self: a C program with TCP streams to itself. Its output should be the same with and without the
 * interposer. It covers the memory behind received bytes, cancelled threads, killed processes, errors, and ends of
 * streams. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define LIMIT_MS 30000
#define BYTES 300003u                    /* of each of many connections that end at once */
#define ENDS 500
#define FILES 1100                      /* more than a block of the interposer's */

static int listener, a, b;
static struct sockaddr_in at = { .sin_family = AF_INET };

static void listening(void)
{
	socklen_t len = sizeof at;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&at, len) < 0 || listen(listener, 1024) < 0 ||
	    getsockname(listener, (void *)&at, &len) < 0)
		exit(1);
}

static void readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, LIMIT_MS) != 1)
		exit(1);
}

/* A and B are connected, and both have sent. */
static void connects(void)
{
	char c;

	a = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(a, (void *)&at, sizeof at) < 0 || (b = accept(listener, NULL, NULL)) < 0)
		exit(1);
	if (send(a, "1", 1, 0) != 1 || recv(b, &c, 1, 0) != 1 || send(b, "2", 1, 0) != 1 || recv(a, &c, 1, 0) != 1)
		exit(1);
}

static void closes(void)
{
	close(a);
	close(b);
}

static void tell(const char *what, ssize_t rc)
{
	if (rc < 0)
		printf("%s: %s\n", what, strerror(errno));
	else
		printf("%s: %zd\n", what, rc);
	fflush(stdout);
}

static void waits_for(int fd, int n)
{
	int is = -1;

	for (int i = 0; i < LIMIT_MS && is != n; i++) {
		ioctl(fd, FIONREAD, &is);
		poll(NULL, 0, 1);
	}
	tell("FIONREAD", is);
}

/* ---- Each ---- */

/* A cleared buffer remains a terminated string after every receive. */
static void strings(void)
{
	char buf[4000] = "";
	int dirty = 0;
	ssize_t n;

	connects();
	for (int i = 0; i < 9; i++)
		send(a, "some of it ", 11, 0);
	waits_for(b, 99);
	n = recv(b, buf, sizeof buf - 1, 0);
	tell("received", n);
	for (size_t i = n < 0 ? 0 : (size_t)n; i < sizeof buf; i++)
		dirty += buf[i] != 0;
	tell("bytes that are set behind it", dirty);
	closes();
}

/* MSG_TRUNC needs no buffer. */
static void discards(void)
{
	char buf[100] = "";

	connects();
	send(a, "to be discarded", 15, 0);
	waits_for(b, 15);
	tell("seen without a buffer", recv(b, NULL, 6, MSG_PEEK | MSG_TRUNC));
	tell("all of it", recv(b, NULL, sizeof buf, MSG_PEEK | MSG_TRUNC));
	tell("discarded without a buffer", recv(b, NULL, 6, MSG_TRUNC));
	tell("behind it", recv(b, buf, sizeof buf, 0));
	puts(buf);
	closes();
}

/* A child sends before its peer has accepted, so its bytes are plain. They could begin the frames of a connection. */
static void looks_framed(const char *bytes, int ends)
{
	char buf[100] = "";
	int status;
	pid_t child = fork();

	if (child == 0) {
		a = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(a, (void *)&at, sizeof at) < 0 || send(a, bytes, strlen(bytes), 0) < 0)
			_exit(1);
		if (ends)
			shutdown(a, SHUT_WR);
		_exit(recv(a, buf, sizeof buf, 0) != 6);
	}
	poll(NULL, 0, 600);
	b = accept(listener, NULL, NULL);
	setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 10 }, sizeof(struct timeval));
	tell("bytes that begin as frames do", recv(b, buf, sizeof buf, 0));
	puts(buf);
	tell("... and an answer", send(b, "answer", 6, MSG_NOSIGNAL));
	if (ends)
		tell("... and the end", recv(b, buf, sizeof buf, 0));
	waitpid(child, &status, 0);
	tell("... which came", status);
	close(b);
}

static void *sends_later(void *arg)
{
	poll(NULL, 0, 100);
	send(a, "later", 5, 0);
	return arg;
}

/* MSG_PEEK waits for all bytes that MSG_WAITALL asks for. */
static void peeks_at_all(void)
{
	char buf[100] = "";
	pthread_t t;

	connects();
	send(a, "first ", 6, 0);
	waits_for(b, 6);
	pthread_create(&t, NULL, sends_later, NULL);
	tell("all that will come", recv(b, buf, 11, MSG_PEEK | MSG_WAITALL));
	puts(buf);
	pthread_join(t, NULL);
	setsockopt(b, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_usec = 100000 }, sizeof(struct timeval));
	tell("all, after a time", recv(b, buf, 20, MSG_PEEK | MSG_WAITALL));
	tell("all, at once", recv(b, buf, 20, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT));
	shutdown(a, SHUT_WR);
	tell("all until the end", recv(b, buf, 20, MSG_PEEK | MSG_WAITALL));
	closes();
}

/* A stdio file of a connection. */
static void file(void)
{
	char line[100];
	FILE *f;

	connects();
	f = fdopen(b, "r+");
	send(a, "one\ntwo\n", 8, 0);
	waits_for(b, 8);
	tell("a line", fgets(line, sizeof line, f) ? (ssize_t)strlen(line) : -1);
	tell("fflush() with unread input", fflush(f));
	tell("where", ftell(f));
	tell("there", fseek(f, 0, SEEK_SET));
	tell("another line", fgets(line, sizeof line, f) ? (ssize_t)strlen(line) : -1);
	tell("its end", fclose(f));
	close(a);
}

static void reads_back(FILE *f)
{
	wchar_t line[100];

	tell("wide characters", fwprintf(f, L"%ls %d\n", L"wide", 5));
	tell("... from the beginning", fseek(f, 0, SEEK_SET));
	tell("... are there", fgetws(line, 100, f) ? (ssize_t)wcslen(line) : -1);
	tell("... and no more", fgetwc(f) == WEOF && feof(f));
}

/* A connection's file that is opened as another file, or cannot be. */
static void reopened(FILE *(*opens)(const char *, const char *, FILE *))
{
	char path[] = "/tmp/diw-reopened-XXXXXX", buf[100];
	int made = mkstemp(path);
	FILE *f;

	for (int i = 0; i < 3; i++) {
		connects();
		f = fdopen(b, i ? "r+" : "w");
		if (i == 1)
			tell("written", fprintf(f, "an answer") + 0 * fflush(f));
		else
			tell("written, and held", fprintf(f, "held back"));
		f = opens(i < 2 ? path : "/nonexistent/file", i ? "r" : "w+", f);
		tell("reopened", f != NULL);
		tell("... with the same number", f && fileno(f) == b);
		tell("what was held", recv(a, buf, sizeof buf, MSG_WAITALL));
		close(a);
		if (i == 0)
			reads_back(f);
		if (i == 1)
			tell("a line", fgets(buf, sizeof buf, f) ? (ssize_t)strlen(buf) : -1);
		if (i == 1)
			tell("... in a file for reading", fputs("x", f) == EOF && errno == EBADF);
		f = f && i == 1 ? opens(path, "r", f) : f;
		if (f)
			tell("closed", fclose(f));
		tell("... and its number is free", fcntl(b, F_GETFD) < 0);
	}
	unlink(path);
	close(made);
}

/* Each of many files has its connection's bytes. */
static void many_files(void)
{
	static FILE *f[FILES];
	static int from[FILES];
	struct rlimit l;
	int good = 0;
	char c = 0;

	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	for (int i = 0; i < FILES; i++) {
		connects();
		f[i] = fdopen(b, "r");
		from[i] = a;
	}
	for (int i = 0; i < FILES; i++) {
		c = (char)i;
		send(from[i], &c, 1, 0);
		close(from[i]);
		good += f[i] && fgetc(f[i]) == (unsigned char)c && fgetc(f[i]) == EOF;
		if (f[i])
			fclose(f[i]);
	}
	tell("files with their bytes", good);
}

/* Lengths of addresses that the kernel refuses, some of them after it has received. */
static void lengths(void)
{
	struct sockaddr_storage ss = { 0 };
	struct iovec iov = { (char[10]){ 0 }, 1 };
	struct msghdr m = { .msg_name = &ss, .msg_namelen = (socklen_t)-1, .msg_iov = &iov, .msg_iovlen = 1 };
	socklen_t len = (socklen_t)-1;
	char c = 0;

	connects();
	tell("sent to a negative length", sendto(a, "x", 1, 0, (void *)&ss, len));
	tell("... to a large one", sendto(a, "x", 1, 0, (void *)&ss, sizeof ss + 1));
	tell("... by a message", sendmsg(a, &m, 0));
	send(a, "abcd", 4, 0);
	waits_for(b, 4);
	tell("received with a negative length", recvfrom(b, &c, 1, 0, (void *)&ss, &len));
	tell("... by a message", recvmsg(b, &m, 0));
	len = sizeof ss;
	tell("... with a good one", recvfrom(b, &c, 1, 0, (void *)&ss, &len));
	tell("... of no address", len);
	printf("byte: %c\n", c);
	tell("... without a length", recvfrom(b, &c, 1, 0, (void *)&ss, NULL));
	tell("... the last", recv(b, &c, 1, 0));
	printf("byte: %c\n", c);
	closes();
}

static void *takes_later(void *arg)
{
	static char buf[100000];

	poll(NULL, 0, 600);
	while (recv(b, buf, sizeof buf, 0) > 0)
		;
	return arg;
}

/* Nothing is sent behind a message that sendmmsg() could send only in part, although there is room later. */
static void sends_in_part(void)
{
	static char buf[10 << 20];
	struct iovec iov = { buf, sizeof buf }, last = { buf, 1 };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &last, .msg_iovlen = 1 } } };
	pthread_t t;

	connects();
	setsockopt(a, SOL_SOCKET, SO_SNDBUF, &(int){ 9000 }, sizeof(int));
	setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){ .tv_usec = 400000 }, sizeof(struct timeval));
	pthread_create(&t, NULL, takes_later, NULL);
	tell("messages, of which the last is sent in part", sendmmsg(a, m, 2, 0));
	tell("... it is", m[0].msg_len > 0 && m[0].msg_len < sizeof buf);
	shutdown(a, SHUT_WR);
	pthread_join(t, NULL);
	closes();
}

static void ignores(int sig)
{
	(void)sig;
}

/* SIGALRM comes after 200 ms. SIGSEGV and SIGUSR1, whose handlers have no SA_RESTART if they are set, do not come. */
static void alarms(bool restarts, bool others)
{
	struct sigaction sa = { .sa_handler = others ? ignores : SIG_DFL };
	struct itimerval t = { .it_value.tv_usec = 200000 };
	sigset_t usr;

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sa.sa_handler = ignores;
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr, NULL);
	sa.sa_flags = restarts ? SA_RESTART : 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

/* A send that waits for room is interrupted. */
static void interrupted(bool restarts, bool others)
{
	static char buf[10 << 20];
	ssize_t rc;
	pthread_t t;

	connects();
	setsockopt(a, SOL_SOCKET, SO_SNDBUF, &(int){ 9000 }, sizeof(int));
	pthread_create(&t, NULL, takes_later, NULL);
	alarms(restarts, others);
	rc = send(a, buf, sizeof buf, 0);
	tell("interrupted when it had sent a part", rc > 0 && rc < (ssize_t)sizeof buf);
	shutdown(a, SHUT_WR);
	pthread_join(t, NULL);
	closes();
	connects();
	setsockopt(a, SOL_SOCKET, SO_SNDBUF, &(int){ 9000 }, sizeof(int));
	for (int none = 0; none < 5; poll(NULL, 0, 10))
		for (none++; send(a, buf, 1, MSG_DONTWAIT) > 0; none = 0)
			;
	pthread_create(&t, NULL, takes_later, NULL);
	alarms(restarts, others);
	tell("... and when it had sent nothing", send(a, buf, 1, 0));
	shutdown(a, SHUT_WR);
	pthread_join(t, NULL);
	closes();
}

static _Atomic int goes;

static void *receives(void *arg)
{
	char c;

	while (!goes)
		;
	for (;;)
		if (recv(b, &c, 1, 0) < 0)
			return arg;
}

static void *sends(void *arg)
{
	while (!goes)
		;
	for (;;)
		if (send(b, "never", 5, MSG_NOSIGNAL) < 0)
			return arg;
}

static void cancelled(void *(*what)(void *))
{
	pthread_t t;
	void *how;
	char c;

	connects();
	goes = 0;
	pthread_create(&t, NULL, what, NULL);
	pthread_cancel(t);
	goes = 1;
	pthread_join(t, &how);
	tell("a thread was cancelled", how == PTHREAD_CANCELED);
	tell("the socket sends", send(b, "x", 1, MSG_NOSIGNAL));
	tell("... to its peer", recv(a, &c, 1, 0));
	tell("... that answers", send(a, "y", 1, MSG_NOSIGNAL));
	tell("... it", recv(b, &c, 1, 0));
	closes();
}

static void resets(void)
{
	char c;

	connects();
	send(a, "unread", 6, 0);
	readable(b);
	close(b);
	readable(a);
	waits_for(a, 0);
	tell("behind a reset", recv(a, &c, 1, 0));
	tell("once", recv(a, &c, 1, 0));
	close(a);
}

/* ---- Ends that come while the receiver is held up ---- */

static const struct itimerval soon = { .it_value.tv_usec = 200 }, never;

static void dawdles(int sig)
{
	(void)sig;
	nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void send_and_close(void)
{
	static char buf[BYTES];

	for (unsigned i = 0; i < ENDS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (void *)&at, sizeof at) < 0 || send(fd, buf, sizeof buf - i, 0) < 0)
			_exit(1);
		close(fd);
	}
	_exit(0);
}

static void ends(void)
{
	struct sigaction sa = { .sa_handler = dawdles, .sa_flags = SA_RESTART };
	static char buf[50000];
	int whole = 0, status;
	pid_t child = fork();

	if (child == 0)
		send_and_close();
	sigaction(SIGALRM, &sa, NULL);
	for (unsigned i = 0; i < ENDS; i++) {
		int fd = accept(listener, NULL, NULL);
		size_t all = 0;
		ssize_t n;

		setitimer(ITIMER_REAL, &soon, NULL);
		while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
			all += (size_t)n;
		setitimer(ITIMER_REAL, &never, NULL);
		whole += n == 0 && all == BYTES - i;
		close(fd);
	}
	tell("connections that were whole", whole);
	waitpid(child, &status, 0);
	tell("the sender's status", status);
}

static void *waits(void *arg)
{
	char buf[100];

	recv(*(int *)arg, buf, sizeof buf, 0);
	return arg;
}

/* A socket is closed while a thread waits on it, and its number becomes another connection's. */
static void reused(void)
{
	char buf[100] = "";
	int fd, from;
	pthread_t t;

	connects();
	fd = b;
	from = a;
	pthread_create(&t, NULL, waits, &fd);
	poll(NULL, 0, 200);
	close(fd);
	a = socket(AF_INET, SOCK_STREAM, 0);     /* has the number; the other end shall have it */
	dup2(a, 1000);
	close(a);
	a = 1000;
	if (connect(a, (void *)&at, sizeof at) < 0 || (b = accept(listener, NULL, NULL)) < 0)
		exit(1);
	tell("the number is used again", b == fd);
	send(a, "1", 1, 0);
	tell("it receives", recv(b, buf, 1, 0));
	send(from, "late", 4, 0);
	poll(NULL, 0, 200);
	send(a, "its own", 7, 0);
	pthread_join(t, NULL);
	tell("it receives its own bytes", recv(b, buf, sizeof buf, MSG_DONTWAIT));
	puts(buf);
	close(from);
	closes();
}

int main(void)
{
	listening();
	strings();
	discards();
	file();
	reopened(freopen);
	reopened(freopen64);
	reused();
	many_files();
	lengths();
	sends_in_part();
	for (int i = 1; i < 4; i++)
		interrupted(i & 1, i & 2);
	peeks_at_all();
	looks_framed("M", 0);
	looks_framed("MPA ID Req Frame", 1);
	cancelled(receives);
	cancelled(sends);
	resets();
	ends();
	return 0;
}
