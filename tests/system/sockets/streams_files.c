/* SPDX-License-Identifier: BSD-2-Clause */
/* streams_files: splice() and sendfile() between TCP connections, pipes and files lose nothing, blocking or not.
 * FIONREAD counts the available bytes. Calls under other names work alike. All results are those without the
 * interposer. */
#include "streams_kit.h"

#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define MUCH 1500017u

/* ---- A thread for the other end ---- */

struct job { int fd; size_t n; bool slow, good; };

static void *write_all(void *arg)
{
	static _Thread_local uint8_t buf[70000];
	struct job *j = arg;
	size_t piece = 1;

	for (size_t at = 0; at < j->n; piece = piece * 7 % 65521 + 1) {
		size_t n = piece < j->n - at ? piece : j->n - at;
		ssize_t rc;

		fill(buf, n, at, 0);
		rc = write(j->fd, buf, n);
		if (rc <= 0)
			return NULL;
		at += (size_t)rc;
	}
	shutdown(j->fd, SHUT_WR);
	j->good = true;
	return NULL;
}

static void *read_all(void *arg)
{
	static _Thread_local uint8_t buf[70000];
	struct job *j = arg;
	size_t at = 0;
	ssize_t rc;

	if (j->slow)
		usleep(100000);
	while ((rc = read(j->fd, buf, sizeof buf)) > 0) {
		if (!is_filled(buf, (size_t)rc, at, 0))
			return NULL;
		at += (size_t)rc;
	}
	j->good = rc == 0 && at == j->n;
	return NULL;
}

static pthread_t start(void *(*run)(void *), struct job *j)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, j))
		exit(1);
	return t;
}

/* ---- What a proxy does ---- */

struct pipe { int out, in; };

static struct pipe piped(int size)
{
	int p[2];

	if (pipe(p) < 0 || (size && fcntl(p[0], F_SETPIPE_SZ, size) < 0))
		exit(1);
	return (struct pipe){ p[0], p[1] };
}

static void unpiped(struct pipe p)
{
	close(p.out);
	close(p.in);
}

/* Returns 0, or the number of bytes moved; -1: an error. */
static ssize_t move(int from, int to, size_t n, unsigned flags)
{
	ssize_t rc = n ? splice(from, NULL, to, NULL, n, flags | SPLICE_F_MOVE | SPLICE_F_NONBLOCK) : -1;

	return !n || (rc < 0 && errno == EAGAIN) ? -2 : rc;
}

/* All from A to B, MOST a call. */
static size_t relay(int a, int b, int size, size_t most)
{
	struct pipe p = piped(size);
	size_t held = 0, all = 0;
	bool ended = false;

	while (!ended || held) {
		ssize_t in = move(a, p.in, ended ? 0 : most, 0), out;

		ended = ended || in == 0;
		held += in > 0 ? (size_t)in : 0;
		out = move(p.out, b, held, ended ? 0 : SPLICE_F_MORE);
		if (in == -1 || out == -1 || out == 0)
			break;
		held -= out > 0 ? (size_t)out : 0;
		all += out > 0 ? (size_t)out : 0;
		if (in == -2 && out == -2)
			ready(held ? b : a, held ? POLLOUT : POLLIN);
	}
	shutdown(b, SHUT_WR);
	unpiped(p);
	return all;
}

static void proxy(const char *what, int size, size_t most, bool waits, bool slow)
{
	struct ends from = pair(), to = pair();
	struct job w = { .fd = from.a, .n = MUCH }, r = { .fd = to.b, .n = MUCH, .slow = slow };
	pthread_t tw, tr;
	size_t all;

	if (slow)
		setsockopt(to.a, SOL_SOCKET, SO_SNDBUF, &(int){ 20000 }, sizeof(int));
	if (!waits) {
		nonblocking(from.b);
		nonblocking(to.a);
	}
	tw = start(write_all, &w);
	tr = start(read_all, &r);
	all = relay(from.b, to.a, size, most);
	pthread_join(tw, NULL);
	pthread_join(tr, NULL);
	check(what, all == MUCH && w.good && r.good);
	done(from);
	done(to);
}

/* ---- A pipe into a connection ---- */

static size_t in_pipe(int fd)
{
	int n = -1;

	ioctl(fd, FIONREAD, &n);
	return (size_t)n;
}

/* Bytes that the connection does not take stay in the pipe. */
static void full(void)
{
	static uint8_t buf[65536];
	struct ends e = pair();
	struct pipe p = piped(65536);
	struct job r = { .fd = e.b };
	size_t at = 0, sent = 0;
	bool right = true;
	ssize_t rc;

	nonblocking(e.a);
	nonblocking(p.in);
	setsockopt(e.a, SOL_SOCKET, SO_SNDBUF, &(int){ 4608 }, sizeof(int));
	do {
		fill(buf, sizeof buf, at, 0);
		rc = write(p.in, buf, sizeof buf - 5);
		at += rc > 0 ? (size_t)rc : 0;
		rc = splice(p.out, NULL, e.a, NULL, 1 << 20, SPLICE_F_NONBLOCK);
		sent += rc > 0 ? (size_t)rc : 0;
		right = right && in_pipe(p.out) == at - sent;
	} while (rc > 0);
	check("a full connection", rc < 0 && errno == EAGAIN);
	check("... leaves the rest in the pipe", right && at > sent);
	close(p.in);
	r.n = at;
	pthread_t t = start(read_all, &r);
	while (sent < at && ready(e.a, POLLOUT)) {
		rc = splice(p.out, NULL, e.a, NULL, at - sent, 0);
		sent += rc > 0 ? (size_t)rc : 0;
	}
	check("... all leaves in the end", sent == at);
	check("... an empty pipe without a writer ends", splice(p.out, NULL, e.a, NULL, 10, 0) == 0);
	shutdown(e.a, SHUT_WR);
	pthread_join(t, NULL);
	check("... and arrives", r.good);
	close(p.out);
	done(e);
}

/* A blocking connection waits, and a packet of the pipe may be sent in parts. */
static void blocking(void)
{
	static uint8_t buf[60000];
	struct ends e = pair();
	struct pipe p = piped(0);
	struct job r = { .fd = e.b, .n = 20 * sizeof buf, .slow = true };
	pthread_t t = start(read_all, &r);
	size_t sent = 0;

	fcntl(p.in, F_SETFL, O_DIRECT);
	setsockopt(e.a, SOL_SOCKET, SO_SNDBUF, &(int){ 9000 }, sizeof(int));
	for (size_t i = 0; i < 20; i++) {
		fill(buf, sizeof buf, i * sizeof buf, 0);
		check("a pipe of packets", write(p.in, buf, sizeof buf) == (ssize_t)sizeof buf);
		for (ssize_t rc = 1; in_pipe(p.out) && rc > 0; sent += rc > 0 ? (size_t)rc : 0)
			rc = splice(p.out, NULL, e.a, NULL, 5000, 0);
	}
	check("... is spliced to a connection that waits", sent == r.n);
	shutdown(e.a, SHUT_WR);
	pthread_join(t, NULL);
	check("... and arrives", r.good);
	unpiped(p);
	done(e);
}

static volatile sig_atomic_t pipes_broken;
static void broke(int sig)
{
	(void)sig;
	pipes_broken++;
}

/* The kernel's errors. */
static void odd(void)
{
	struct ends e = pair();
	struct pipe p = piped(4096);
	off64_t at = 0;
	char c[4096] = "x";

	signal(SIGPIPE, broke);
	check("nothing in the pipe", splice(p.out, NULL, e.a, NULL, 10, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN);
	check("no bytes wanted", splice(p.out, NULL, e.a, NULL, 0, 0) == 0);
	check("where in a pipe", splice(p.out, &at, e.a, NULL, 10, 0) < 0 && errno == ESPIPE);
	check("where in a connection", splice(p.out, NULL, e.a, &at, 10, 0) < 0 && errno == EINVAL);
	check("a flag that is none", splice(p.out, NULL, e.a, NULL, 10, 64) < 0 && errno == EINVAL);
	check("no pipe", splice(e.b, NULL, e.a, NULL, 10, 0) < 0 && errno == EINVAL);
	check("the wrong end", splice(p.in, NULL, e.a, NULL, 10, SPLICE_F_NONBLOCK) < 0 && errno == EBADF);
	nonblocking(e.b);
	check("nothing in the connection", splice(e.b, NULL, p.in, NULL, 10, 0) < 0 && errno == EAGAIN);
	check("something in it", send(e.a, c, 100, 0) == 100 && ready(e.b, POLLIN));
	check("a part of it", splice(e.b, NULL, p.in, NULL, 10, 0) == 10 && in_pipe(p.out) == 10);
	check("... and by sendfile", read(p.out, c, 10) == 10 && sendfile(p.in, e.b, NULL, 80) == 80);
	check("... which went into the pipe", read(p.out, c, sizeof c) == 80);
	check("a pipe that is full", write(p.in, c, 4096) == 4096 && send(e.a, c, 9, 0) == 9 && ready(e.b, POLLIN));
	check("... takes none", splice(e.b, NULL, p.in, NULL, 10, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN);
	close(p.out);
	check("a pipe without a reader", splice(e.b, NULL, p.in, NULL, 10, 0) < 0 && errno == EPIPE &&
	      pipes_broken == 1);
	check("... and what was for it is there", recv(e.b, c, sizeof c, 0) > 0);
	close(p.in);
	p = piped(0);
	close(e.b);
	check("into a connection that is closed", write(p.in, c, 10) == 10);
	for (int i = 0; i < 100 && splice(p.out, NULL, e.a, NULL, 10, 0) > 0; i++) {
		usleep(1000);
		if (write(p.in, c, 10) != 10)
			break;
	}
	check("... as write() says it", (errno == EPIPE && pipes_broken == 2) || errno == ECONNRESET);
	unpiped(p);
	close(e.a);
}

/* SIGPIPE belongs to the program: whether it is delivered, handled, or pending. */
static void broken(void)
{
	struct ends e = pair();
	sigset_t pipe, before, pending;
	struct sigaction sa;
	int was;

	signal(SIGPIPE, broke);
	close(e.b);
	while (send(e.a, "x", 1, MSG_NOSIGNAL) > 0 || errno == ECONNRESET)
		usleep(1000);
	was = pipes_broken;
	check("a broken connection", errno == EPIPE && send(e.a, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE);
	check("... without a signal", pipes_broken == was);
	check("... with one", send(e.a, "x", 1, 0) < 0 && errno == EPIPE && pipes_broken == was + 1);
	check("... by write()", write(e.a, "x", 1) < 0 && errno == EPIPE && pipes_broken == was + 2);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe, &before);
	check("... with one that is blocked", write(e.a, "x", 1) < 0 && sigpending(&pending) == 0 &&
	      sigismember(&pending, SIGPIPE) == 1 && pipes_broken == was + 2);
	check("... which stays pending", send(e.a, "x", 1, MSG_NOSIGNAL) < 0 && sigpending(&pending) == 0 &&
	      sigismember(&pending, SIGPIPE) == 1);
	sigprocmask(SIG_SETMASK, &before, NULL);
	check("... until it may come", pipes_broken == was + 3);
	check("... and is handled as it was", sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == broke);
	close(e.a);
}

/* ---- Without a descriptor for a copy ---- */

static void poor(void)
{
	struct ends e = pair();
	struct pipe p = piped(0);
	int fds[4096], n = 0;
	char c[5000];
	size_t sent = 0;

	fill((uint8_t *)c, sizeof c, 0, 0);
	check("a pipe where no descriptor is left", write(p.in, c, sizeof c) == (ssize_t)sizeof c);
	while (n < 4096 && (fds[n] = dup(0)) >= 0)
		n++;
	for (ssize_t rc = 1; rc > 0 && sent < sizeof c; sent += rc > 0 ? (size_t)rc : 0)
		rc = splice(p.out, NULL, e.a, NULL, sizeof c, SPLICE_F_NONBLOCK);
	while (n)
		close(fds[--n]);
	check("... is spliced all the same", sent == sizeof c);
	memset(c, 0, sizeof c);
	check("... and arrives", recv(e.b, c, sizeof c, MSG_WAITALL) == (ssize_t)sizeof c &&
	      is_filled((uint8_t *)c, sizeof c, 0, 0));
	unpiped(p);
	done(e);
}

/* ---- Files ---- */

static void files(void)
{
	static uint8_t buf[300000];
	struct ends e = pair();
	int f = memfd_create("file", 0);
	struct job r = { .fd = e.b, .n = sizeof buf, .slow = true };
	off_t at = 0;
	pthread_t t;

	fill(buf, sizeof buf, 0, 0);
	check("a file", write(f, buf, sizeof buf) == (ssize_t)sizeof buf);
	nonblocking(e.a);
	setsockopt(e.a, SOL_SOCKET, SO_SNDBUF, &(int){ 9000 }, sizeof(int));
	t = start(read_all, &r);
	while (at < (off_t)sizeof buf && ready(e.a, POLLOUT))
		if (sendfile(e.a, f, &at, sizeof buf) < 0 && errno != EAGAIN)
			break;
	shutdown(e.a, SHUT_WR);
	pthread_join(t, NULL);
	check("... is sent to a connection that does not wait", r.good);
	close(f);
	done(e);
}

/* ---- FIONREAD ---- */

extern _Atomic size_t short_peeked __attribute__((weak));     /* of tests/preload/short.so */

static bool counts(int fd, int n)
{
	int is = -1;

	for (int i = 0; i < LIMIT_MS && is != n; i++) {
		ioctl(fd, FIONREAD, &is);
		usleep(is == n ? 0 : 1000);
	}
	return is == n;
}

static bool sends(int fd, size_t n)
{
	static uint8_t buf[200000];

	return write(fd, buf, n) == (ssize_t)n;
}

static void counted(void)
{
	static char buf[200000];
	struct ends e;
	int n = 0;

	e = pair();
	check("nothing is there", counts(e.b, 0));
	check("little is", sends(e.a, 3) && sends(e.a, 5) && counts(e.b, 8));
	check("a part of that", recv(e.b, buf, 4, 0) == 4 && counts(e.b, 4) && counts(e.b, 4));
	check("more comes", sends(e.a, 20000) && sends(e.a, 20000) && counts(e.b, 40004));
	check("a part of it", recv(e.b, buf, 1000, 0) == 1000 && counts(e.b, 39004));
	check("none of the first", recv(e.b, buf, 19004, MSG_WAITALL) == 19004 && counts(e.b, 20000));
	check("nothing", recv(e.b, buf, 20000, MSG_WAITALL) == 20000 && counts(e.b, 0));
	check("many", 1);
	for (int i = 0; i < 300; i++)
		n += sends(e.a, (size_t)i) ? i : 0;
	check("... are counted", counts(e.b, n));
	check("... when some were taken", recv(e.b, buf, 10001, MSG_WAITALL) == 10001 && counts(e.b, n - 10001));
	check("... and as many that were looked at", recv(e.b, buf, sizeof buf, MSG_PEEK) == n - 10001);
	done(e);
}

/* More than the largest FPDU, and than one peek. */
static void counted_far(void)
{
	static char buf[200000];
	struct sockaddr_in at;
	int listener = listening(&at);
	struct ends e;

	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &(int){ 1 << 20 }, sizeof(int));
	e = connected(listener, &at);
	check("two ends talk", talks(e));
	check("much is counted", sends(e.a, 150000) && counts(e.b, 150000));
	check("... and less of it", recv(e.b, buf, 10000, 0) == 10000 && counts(e.b, 140000));
	close(listener);
	done(e);
}

/* Reads like wrk: after each piece it asks whether there is more. The reported bytes are there, and reporting is cheap;
 * with the CRC on, each byte is read once in any case. */
static void asked(void)
{
	static char buf[8192];
	struct ends e = pair();
	struct job w = { .fd = e.a, .n = MUCH };
	pthread_t t = start(write_all, &w);
	size_t all = 0, peeked = &short_peeked ? short_peeked : 0;
	bool right = true;

	while (all < MUCH && right && ready(e.b, POLLIN)) {
		int n = 0;

		do {
			int least = n < (int)sizeof buf ? n : (int)sizeof buf;
			ssize_t rc = recv(e.b, buf, sizeof buf, MSG_DONTWAIT);

			right = rc >= least && rc != 0 && ioctl(e.b, FIONREAD, &n) == 0;
			all += rc > 0 ? (size_t)rc : 0;
		} while (right && n > 0);
	}
	pthread_join(t, NULL);
	check("what FIONREAD tells is there", right && all == MUCH && w.good);
	check("... and costs little", !&short_peeked || short_peeked - peeked < 3 * MUCH);
	if (&short_peeked)
		printf("    %zu bytes of %u were looked at\n", short_peeked - peeked, MUCH);
	done(e);
}

/* ---- Calls by other names ---- */

static ssize_t send_as(int how, int fd, void *p, size_t n)
{
	struct iovec iov[2] = { { p, n / 3 }, { (char *)p + n / 3, n - n / 3 } };

	switch (how) {
	case 0: return pwritev2(fd, iov, 2, -1, 0);
	case 1: return syscall(SYS_writev, fd, iov, 2);
	case 2: return syscall(SYS_pwritev2, fd, iov, 2, -1L, -1L, 0);
	default: return syscall(SYS_write, fd, p, n);
	}
}

static ssize_t recv_as(int how, int fd, void *p, size_t n)
{
	struct iovec iov[2] = { { p, n / 3 }, { (char *)p + n / 3, n - n / 3 } };

	switch (how) {
	case 0: return preadv2(fd, iov, 2, -1, 0);
	case 1: return syscall(SYS_readv, fd, iov, 2);
	case 2: return syscall(SYS_preadv2, fd, iov, 2, -1L, -1L, 0);
	default: return syscall(SYS_read, fd, p, n);
	}
}

static bool got(ssize_t rc, uint8_t *in, size_t n)
{
	bool is = rc == (ssize_t)n && is_filled(in, n, 0, 1);

	memset(in, 0, n);
	return is;
}

static void names(void)
{
	struct ends e = pair();
	uint8_t out[1000], in[1000] = "";
	int d;

	fill(out, sizeof out, 0, 1);
	for (int how = 0; how < 4; how++)
		check("another name", send_as(how, e.a, out, sizeof out) == (ssize_t)sizeof out && ready(e.b, POLLIN) &&
		      got(recv_as(how, e.b, in, sizeof in), in, sizeof in));
	check("nothing that waits", preadv2(e.b, &(struct iovec){ in, 1 }, 1, -1, RWF_NOWAIT) < 0 &&
	      (errno == EAGAIN || errno == EOPNOTSUPP));
	check("from somewhere", preadv2(e.b, &(struct iovec){ in, 1 }, 1, 0, 0) < 0 && errno == ESPIPE);
	d = (int)syscall(SYS_dup, e.b);
	check("another number", send(e.a, out, 1000, 0) == 1000 && got(recv(d, in, 1000, MSG_WAITALL), in, 1000));
	close(d);
	d = (int)syscall(SYS_fcntl, e.b, F_DUPFD, 100);
	check("... by fcntl", d >= 100 && send(e.a, out, 1000, 0) == 1000 &&
	      got(recv(d, in, 1000, MSG_WAITALL), in, 1000));
	close(d);
	done(e);
}

static volatile sig_atomic_t signalled;
static void is_told(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	signalled += info->si_code == SI_ASYNCIO && info->si_value.sival_int == 5;
}

static _Atomic int called;
/* A function of the program has the stack that a thread of the program has. */
static void is_called(union sigval v)
{
	char room[1 << 20];

	memset(room, v.sival_int, sizeof room);
	called += room[v.sival_int];
}

static ssize_t is_complete(struct aiocb *cb)
{
	const struct aiocb *one[] = { cb };

	while (aio_error(cb) == EINPROGRESS)
		if (aio_suspend(one, 1, NULL) < 0 && errno != EINTR)
			return -1;
	return aio_error(cb) ? -1 : aio_return(cb);
}

static bool eventually(volatile sig_atomic_t *n, _Atomic int *m, int want)
{
	for (int i = 0; i < LIMIT_MS && (n ? *n : *m) != want; i++)
		usleep(1000);
	return (n ? *n : *m) == want;
}

static void asynchronous(void)
{
	struct ends e = pair();
	uint8_t out[1000], in[3000] = "";
	struct sigaction sa = { .sa_sigaction = is_told, .sa_flags = SA_SIGINFO };
	struct aiocb r = { .aio_fildes = e.b, .aio_buf = in, .aio_nbytes = sizeof in }, w[3], *list[4] = { NULL };
	const struct aiocb *one[] = { &r };

	fill(out, sizeof out, 0, 1);
	sigaction(SIGUSR1, &sa, NULL);
	r.aio_sigevent = (struct sigevent){ .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1,
					    .sigev_value.sival_int = 5 };
	check("a read without waiting", aio_read(&r) == 0 && aio_error(&r) == EINPROGRESS);
	check("... is not done in time", aio_suspend(one, 1, &(struct timespec){ .tv_nsec = 1000000 }) < 0 &&
	      errno == EAGAIN);
	check("... nor can it be ended", aio_cancel(e.b, &r) == AIO_NOTCANCELED);
	check("... but when something comes", send(e.a, out, 1000, 0) == 1000 && got(is_complete(&r), in, 1000));
	check("... and its signal does", eventually(&signalled, NULL, 1));
	for (int i = 0; i < 3; i++) {
		w[i] = (struct aiocb){ .aio_fildes = e.a, .aio_buf = out, .aio_nbytes = 1000,
				       .aio_lio_opcode = LIO_WRITE };
		w[i].aio_sigevent.sigev_notify = SIGEV_NONE;
		list[i + (i > 0)] = &w[i];
	}
	check("a list of writes", lio_listio(LIO_WAIT, list, 4, NULL) == 0 && aio_return(&w[0]) == 1000 &&
	      aio_return(&w[1]) == 1000 && aio_return(&w[2]) == 1000);
	check("... arrives", recv(e.b, in, 3000, MSG_WAITALL) == 3000 && is_filled(in + 2000, 1000, 0, 1));
	memset(in, 0, sizeof in);
	w[0].aio_nbytes = 500;
	w[1].aio_nbytes = 500;
	w[1].aio_buf = out + 500;
	list[3] = NULL;
	check("a list that tells", lio_listio(LIO_NOWAIT, list, 4, &(struct sigevent){ .sigev_notify = SIGEV_THREAD,
					      .sigev_notify_function = is_called, .sigev_value.sival_int = 7 }) == 0);
	check("... in its order", got(recv(e.b, in, 1000, MSG_WAITALL), in, 1000));
	check("... and when", eventually(NULL, &called, 7));
	shutdown(e.a, SHUT_WR);
	r.aio_sigevent.sigev_notify = SIGEV_NONE;
	check("the end", aio_read(&r) == 0 && is_complete(&r) == 0);
	done(e);
	check("no descriptor", aio_read(&r) < 0 || (is_complete(&r) < 0 && aio_error(&r) == EBADF));
}

int main(void)
{
	names();
	asynchronous();
	counted();
	counted_far();
	asked();
	proxy("a proxy", 0, 1 << 20, false, false);
	proxy("a proxy whose sockets wait, by little", 4096, 333, true, false);
	proxy("a proxy with a large pipe and a slow receiver", 1 << 20, 1 << 20, false, true);
	full();
	blocking();
	odd();
	broken();
	files();
	poor();
	return failed != 0;
}
