/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * POSIX asynchronous input and output (aio_read() etc.) on sockets. The C library's own threads would call read() and
 * write() where no interposer sees the calls. So requests for sockets that may have frames get a thread here. As in the
 * C library, the requests of one descriptor are served one after the other.
 */
#include <aio.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"

#define SLICE DIW_MS                     /* poll interval while requests of the C library are awaited, too */

struct request {
	struct aiocb *cb;
	bool writes;
	struct request *next;
};

struct queue {
	int fd;
	struct request *first;
	struct queue *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *queues;             /* each has a thread; its first request is the one being served */
static _Atomic uint32_t finished;        /* number of finished requests */

void diw_aio_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	queues = NULL;
}

static bool is_socket_or_stream(int fd)
{
	struct diw_sock tmp;

	return diw_sock_get(fd, &tmp) || diw_stream_get(fd);
}

/* Starts a thread that blocks all signals. */
static int aio_thread(void *(*run)(void *), void *arg, const pthread_attr_t *wanted)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int rc;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	rc = pthread_create(&thread, wanted ? wanted : &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return rc;
}

/* ---- Notification ---- */

struct told { void (*function)(union sigval); union sigval value; };

static void *call_function(void *arg)
{
	struct told t = *(struct told *)arg;

	free(arg);
	t.function(t.value);
	return NULL;
}

static void aio_notify(const struct sigevent *e)
{
	siginfo_t info = { .si_signo = e->sigev_signo, .si_code = SI_ASYNCIO };
	struct told *t;

	if (e->sigev_notify == SIGEV_SIGNAL) {
		info.si_pid = getpid();
		info.si_uid = getuid();
		info.si_value = e->sigev_value;
		real.syscall(SYS_rt_sigqueueinfo, getpid(), e->sigev_signo, &info);
	} else if (e->sigev_notify == SIGEV_THREAD && (t = malloc(sizeof *t))) {
		*t = (struct told){ e->sigev_notify_function, e->sigev_value };
		if (aio_thread(call_function, t, e->sigev_notify_attributes))
			free(t);
	}
}

static void finish_request(struct aiocb *cb, ssize_t rc, int error)
{
	struct sigevent e = cb->aio_sigevent;

	cb->__return_value = rc;
	__atomic_store_n(&cb->__error_code, error, __ATOMIC_RELEASE);
	atomic_fetch_add(&finished, 1);
	real.syscall(SYS_futex, &finished, FUTEX_WAKE_PRIVATE, INT_MAX);
	aio_notify(&e);
}

/* ---- The requests of a descriptor ---- */

static struct request *next_request(struct queue *q)
{
	struct request *done;
	struct queue **at;

	pthread_mutex_lock(&lock);
	done = q->first;
	q->first = done->next;
	free(done);
	done = q->first;
	for (at = &queues; !done && *at; at = &(*at)->next)
		if (*at == q) {
			*at = q->next;
			free(q);
			break;
		}
	pthread_mutex_unlock(&lock);
	return done;
}

static void *serve_queue(void *arg)
{
	struct queue *q = arg;
	struct request *r = q->first;

	while (r) {
		struct aiocb *cb = r->cb;
		void *buf = (void *)cb->aio_buf;
		ssize_t rc = r->writes ? write(q->fd, buf, cb->aio_nbytes) : read(q->fd, buf, cb->aio_nbytes);
		int error = rc < 0 ? errno : 0;

		/* before the notification: after it the program may use CB for another request */
		r = next_request(q);
		finish_request(cb, rc, error);
	}
	return NULL;
}

/* Call with the lock held. */
static bool add_request(struct request *r, int fd)
{
	struct queue *q = queues;
	struct request **at;

	while (q && q->fd != fd)
		q = q->next;
	if (q) {
		for (at = &q->first; *at; at = &(*at)->next)
			;
		*at = r;
		return true;
	}
	q = malloc(sizeof *q);
	if (!q)
		return false;
	*q = (struct queue){ fd, r, queues };
	if (aio_thread(serve_queue, q, NULL)) {
		free(q);
		return false;
	}
	queues = q;
	return true;
}

static int start_request(struct aiocb *cb, bool writes)
{
	struct request *r = malloc(sizeof *r);
	bool added = false;

	if (r) {
		*r = (struct request){ cb, writes, NULL };
		cb->__return_value = 0;
		__atomic_store_n(&cb->__error_code, EINPROGRESS, __ATOMIC_RELAXED);
		pthread_mutex_lock(&lock);
		added = add_request(r, cb->aio_fildes);
		pthread_mutex_unlock(&lock);
	}
	if (added)
		return 0;
	free(r);
	cb->__return_value = -1;
	cb->__error_code = errno = EAGAIN;
	return -1;
}

/* Whether CB is a request of ours; CB NULL: whether any request of FD is. */
static bool is_queued(int fd, const struct aiocb *cb)
{
	bool is = false;

	pthread_mutex_lock(&lock);
	for (struct queue *q = queues; q && !is; q = q->next)
		for (struct request *r = q->first; r && !is; r = r->next)
			is = cb ? r->cb == cb : q->fd == fd;
	pthread_mutex_unlock(&lock);
	return is;
}

/* ---- Waiting ---- */

static bool is_done(const struct aiocb *cb)
{
	return __atomic_load_n(&cb->__error_code, __ATOMIC_ACQUIRE) != EINPROGRESS;
}

/* Like aio_suspend() of the C library; some requests of LIST are, or were a moment ago, ours. */
static int suspend_ours(const struct aiocb *const list[], int n, uint64_t deadline)
{
	for (;;) {
		uint32_t was = atomic_load(&finished);
		uint64_t now = diw_clock_ns(), left = deadline > now ? deadline - now : 0;
		struct timespec ts;

		for (int i = 0; i < n; i++)
			if (list[i] && is_done(list[i]))
				return 0;
		if (!left) {
			errno = EAGAIN;
			return -1;
		}
		if (left > SLICE)            /* a request may belong to the C library by now */
			left = SLICE;
		ts = (struct timespec){ .tv_sec = (time_t)(left / DIW_S), .tv_nsec = (long)(left % DIW_S) };
		if (real.syscall(SYS_futex, &finished, FUTEX_WAIT_PRIVATE, was, &ts) < 0 && errno == EINTR)
			return -1;
	}
}

DIW_API int aio_suspend(const struct aiocb *const list[], int n, const struct timespec *timeout)
{
	int ours = 0;
	uint64_t deadline = INT64_MAX;

	diw_preload_init();
	for (int i = 0; i < n; i++)
		ours += list[i] && is_queued(-1, list[i]);
	if (!ours)
		return real.aio_suspend(list, n, timeout);
	if (timeout)
		deadline = diw_clock_ns() + (uint64_t)timeout->tv_sec * DIW_S + (uint64_t)timeout->tv_nsec;
	return suspend_ours(list, n, deadline);
}

/* ---- The other calls ---- */

DIW_API int aio_read(struct aiocb *cb)
{
	return is_socket_or_stream(cb->aio_fildes) ? start_request(cb, false) : real.aio_read(cb);
}

DIW_API int aio_write(struct aiocb *cb)
{
	return is_socket_or_stream(cb->aio_fildes) ? start_request(cb, true) : real.aio_write(cb);
}

/* A request that is being served cannot be cancelled. */
DIW_API int aio_cancel(int fd, struct aiocb *cb)
{
	diw_preload_init();
	return is_queued(fd, cb) ? AIO_NOTCANCELED : real.aio_cancel(fd, cb);
}

struct aio_batch { struct sigevent event; int n; struct aiocb *cb[]; };

static bool wait_batch(const struct aio_batch *b)
{
	bool good = true;

	for (int i = 0; i < b->n; i++) {
		const struct aiocb *one[] = { b->cb[i] };

		while (!is_done(one[0]))
			aio_suspend(one, 1, NULL);
		good = good && one[0]->__error_code == 0;
	}
	return good;
}

static void *end_batch(void *arg)
{
	struct aio_batch *b = arg;

	wait_batch(b);
	aio_notify(&b->event);
	free(b);
	return NULL;
}

static int start_one(struct aiocb *cb)
{
	return cb->aio_lio_opcode == LIO_WRITE ? aio_write(cb) : aio_read(cb);
}

static bool any_ours(struct aiocb *const list[], int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] && list[i]->aio_lio_opcode != LIO_NOP && is_socket_or_stream(list[i]->aio_fildes))
			return true;
	return false;
}

DIW_API int lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event)
{
	struct aio_batch *b;
	bool started = true, good;

	diw_preload_init();
	if ((mode != LIO_WAIT && mode != LIO_NOWAIT) || !any_ours(list, n))
		return real.lio_listio(mode, list, n, event);
	b = malloc(sizeof *b + (size_t)n * sizeof b->cb[0]);
	if (!b) {
		errno = EAGAIN;
		return -1;
	}
	b->event = event ? *event : (struct sigevent){ .sigev_notify = SIGEV_NONE };
	b->n = 0;
	for (int i = 0; i < n; i++)
		if (list[i] && list[i]->aio_lio_opcode != LIO_NOP) {
			if (start_one(list[i]) == 0)
				b->cb[b->n++] = list[i];
			else
				started = false;
		}
	if (mode == LIO_NOWAIT && started && aio_thread(end_batch, b, NULL) == 0)
		return 0;
	good = mode == LIO_NOWAIT || wait_batch(b);
	free(b);
	errno = good ? EAGAIN : EIO;
	return started && mode == LIO_WAIT && good ? 0 : -1;
}

#ifdef __LP64__
DIW_API int aio_read64(struct aiocb64 *cb) { return aio_read((struct aiocb *)cb); }
DIW_API int aio_write64(struct aiocb64 *cb) { return aio_write((struct aiocb *)cb); }
DIW_API int aio_cancel64(int fd, struct aiocb64 *cb) { return aio_cancel(fd, (struct aiocb *)cb); }
DIW_API int aio_suspend64(const struct aiocb64 *const list[], int n, const struct timespec *timeout)
{
	return aio_suspend((const struct aiocb *const *)list, n, timeout);
}
DIW_API int lio_listio64(int mode, struct aiocb64 *const list[], int n, struct sigevent *event)
{
	return lio_listio(mode, (struct aiocb *const *)list, n, event);
}
#endif
