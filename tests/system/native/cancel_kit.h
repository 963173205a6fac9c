/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that cancel threads in calls of the libraries. The program itself defines the C library's cancellation
 * points. It counts those of one thread, and cancels the thread before the n-th. sweep() tries each n until the call
 * ends without having reached it.
 */
#ifndef DIW_TESTS_CANCEL_KIT_H
#define DIW_TESTS_CANCEL_KIT_H

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local int cancel_countdown;   /* 0: never */

static inline void cancel_point(void)
{
	if (cancel_countdown && --cancel_countdown == 0)
		pthread_cancel(pthread_self());
}

#define COUNTED(type, name, params, args)                                    \
	__attribute__((visibility("default"))) type name params              \
	{                                                                    \
		static type (*real) params;                                  \
									     \
		if (!real)                                                   \
			*(void **)&real = dlsym(RTLD_NEXT, #name);           \
		cancel_point();                                              \
		return real args;                                            \
	}
COUNTED(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
COUNTED(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
COUNTED(int, close, (int fd), (fd))
COUNTED(int, poll, (struct pollfd *p, nfds_t n, int ms), (p, n, ms))
COUNTED(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *s), (p, n, ts, s))
COUNTED(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), (fd, e, n, ms))
COUNTED(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))
COUNTED(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
COUNTED(ssize_t, sendto, (int fd, const void *p, size_t n, int flags, const struct sockaddr *a, socklen_t len),
	(fd, p, n, flags, a, len))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
COUNTED(int, connect, (int fd, const struct sockaddr *a, socklen_t len), (fd, a, len))
COUNTED(int, accept4, (int fd, struct sockaddr *a, socklen_t *len, int flags), (fd, a, len, flags))
COUNTED(ssize_t, getrandom, (void *p, size_t n, unsigned flags), (p, n, flags))
COUNTED(int, nanosleep, (const struct timespec *ts, struct timespec *left), (ts, left))
COUNTED(int, sem_wait, (sem_t *sem), (sem))
COUNTED(int, sem_clockwait, (sem_t *sem, clockid_t c, const struct timespec *ts), (sem, c, ts))

struct victim {
	void (*call)(void *arg);
	void *arg;
	int n;                       /* cancelled before this cancellation point; 0: by another thread, if at all */
	bool reached;
	atomic_int tid;              /* 0: it has not begun */
	pthread_t thread;
};

static inline void *victim_main(void *arg)
{
	struct victim *v = arg;

	atomic_store(&v->tid, (int)syscall(SYS_gettid));
	cancel_countdown = v->n;
	v->call(v->arg);
	v->reached = v->n && cancel_countdown == 0;
	cancel_countdown = 0;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return NULL;
}

static inline void victim_start(struct victim *v)
{
	v->reached = false;
	atomic_store(&v->tid, 0);
	if (pthread_create(&v->thread, NULL, victim_main, v)) {
		printf("not ok - a thread\n");
		exit(1);
	}
	while (!atomic_load(&v->tid))
		sched_yield();
}

/* The state in proc(5); 0: it has ended. */
static inline char victim_state(struct victim *v)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&v->tid));
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state;
}

/* Waits until the thread sleeps or has ended. Waiting for a lock is the same state, but short. */
static inline void victim_settle(struct victim *v)
{
	int sleeps = 0;

	for (int i = 0; i < 1000 && sleeps < 3; i++) {
		char state = victim_state(v);

		if (state == 0)
			return;
		sleeps = state == 'S' ? sleeps + 1 : 0;
		usleep(50);
	}
}

/* Whether it ended without being cancelled, or about to be. */
static inline bool victim_join(struct victim *v)
{
	void *value;

	pthread_join(v->thread, &value);
	return value != PTHREAD_CANCELED && !v->reached;
}

#define SWEEP_MAX 400
#define WHOLE_ROUNDS 3

/* PROVOKE makes the call return when it waits; GOOD checks that everything works. A call may pass fewer points than it
 * has, if it need not wait. It has N points if it ended WHOLE_ROUNDS times without having reached the next one. Returns
 * the number of points tried, or -1. */
static inline int sweep(void (*call)(void *arg), void *arg, void (*provoke)(void), bool (*good)(void))
{
	struct victim v = { .call = call, .arg = arg };

	for (v.n = 1; v.n <= SWEEP_MAX; v.n++) {
		int whole = 0;

		do {
			victim_start(&v);
			if (provoke) {
				victim_settle(&v);
				provoke();
			}
			whole = victim_join(&v) ? whole + 1 : 0;
			if (!good())
				return -1;
		} while (whole && whole < WHOLE_ROUNDS);
		if (whole)
			return v.n;
	}
	return SWEEP_MAX;
}

/* Another thread cancels it, some time after it began. False: afterwards something does not work. */
static inline bool shoot(void (*call)(void *arg), void *arg, int times, void (*provoke)(void), bool (*good)(void))
{
	struct victim v = { .call = call, .arg = arg };
	unsigned seed = 12345;

	for (int i = 0; i < times; i++) {
		struct timespec ts = { .tv_nsec = rand_r(&seed) % 60000 };

		victim_start(&v);
		if (provoke && i & 1)
			provoke();
		if (i & 2)
			nanosleep(&ts, NULL);
		pthread_cancel(v.thread);
		victim_join(&v);
		if (!good())
			return false;
	}
	return true;
}

#endif
