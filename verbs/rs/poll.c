/* SPDX-License-Identifier: BSD-2-Clause */
/* poll() and select() over rsockets and other descriptors. */
#include <stdlib.h>
#include <unistd.h>

#include "base/nocancel.h"
#include "verbs/rs/int.h"

#define POLL_FEW 32
#define NO_THREAD_POLL_MS 10

/* The descriptors to sleep on: of an rsocket, its own and that of its channel; otherwise the descriptor itself. */
struct sleeper {
	struct rs *s;                        /* or NULL */
	bool channel;
};

struct set {
	struct pollfd *user, *p;             /* p: two entries for each of user */
	struct sleeper *of;
	nfds_t n;
	bool others, polled;                 /* others: there are other descriptors; polled: a device has no thread */
};

static int ready_now(struct rs *s, struct pollfd *u)
{
	rs_look(s);
	u->revents = (short)(rs_events(s) & (u->events | POLLERR | POLLHUP));
	return u->revents != 0;
}

/* References each socket until drop_all(). */
static void take_all(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct rs *s = NULL;
		int rc = set->user[i].fd < 0 ? -EBADF : rs_take(set->user[i].fd, &s);

		set->of[i] = (struct sleeper){ .s = rc == 0 ? s : NULL };
		set->p[i] = (struct pollfd){ .fd = set->user[i].fd, .events = set->user[i].events };
		set->p[set->n + i].fd = -1;
		if (rc < 0) {
			set->others |= set->user[i].fd >= 0;
			continue;
		}
		set->polled |= s->dev && s->dev->conns.polled;
		pthread_mutex_unlock(&s->lock);
	}
}

static void drop_all(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++)
		if (set->of[i].s)
			rs_unref(set->of[i].s);
}

static int look_all(struct set *set)
{
	int ready = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		struct rs *s = set->of[i].s;

		if (!s)
			continue;
		pthread_mutex_lock(&s->lock);
		ready += ready_now(s, &set->user[i]);
		pthread_mutex_unlock(&s->lock);
	}
	return ready;
}

/* Copies the results for other descriptors. For rsockets P only says that they must be checked. */
static int copy_others(struct set *set)
{
	int ready = 0;

	for (nfds_t i = 0; i < set->n; i++)
		if (!set->of[i].s) {
			set->user[i].revents = set->p[i].revents;
			ready += set->p[i].revents != 0;
		}
	return ready;
}

/* Arms before sleeping: from here on, a completion makes a descriptor readable. Returns how many are ready already. */
static int arm_all(struct set *set)
{
	int ready = 0;

	for (nfds_t i = 0; i < set->n; i++) {
		struct rs *s = set->of[i].s;

		if (!s)
			continue;
		pthread_mutex_lock(&s->lock);
		s->sleepers++;
		set->p[i] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
		set->of[i].channel = s->cq != NULL;
		if (s->cq) {
			set->p[set->n + i] = (struct pollfd){ .fd = diw_channel_fd(s->channel), .events = POLLIN };
			diw_cq_arm(s->cq, false);
		}
		ready += ready_now(s, &set->user[i]);
		pthread_mutex_unlock(&s->lock);
	}
	return ready;
}

/* The thread that sees the channel's event takes it, unless a leader waits for it. The last thread to leave clears the
 * descriptor. A listening socket's descriptor stays readable while a connection can be accepted. */
static void disarm_all(struct set *set)
{
	for (nfds_t i = 0; i < set->n; i++) {
		struct rs *s = set->of[i].s;
		struct diw_cq *cq;

		if (!s)
			continue;
		pthread_mutex_lock(&s->lock);
		s->sleepers--;
		if (set->p[set->n + i].revents && s->channel && !s->leader)
			(void)diw_channel_get(s->channel, &cq, 0);
		if (!s->sleepers)
			rs_signal(s, s->state == RS_LISTENING && s->nready);
		pthread_mutex_unlock(&s->lock);
	}
}

static int ms_left(uint64_t until, bool polled)
{
	uint64_t now = diw_clock_ns(), ms;

	if (until == RS_NEVER)
		return polled ? NO_THREAD_POLL_MS : -1;
	ms = until > now ? (until - now + DIW_MS - 1) / DIW_MS : 0;
	if (polled && ms > NO_THREAD_POLL_MS)
		return NO_THREAD_POLL_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* How many are ready without sleeping. */
static int now_ready(struct set *set)
{
	int ready = look_all(set), rc = 0;

	if (set->others) {
		for (nfds_t i = 0; i < set->n; i++)
			if (set->of[i].s)
				set->p[i].fd = -1;
		rc = poll(set->p, set->n, 0);
	}
	return rc < 0 ? -errno : ready + copy_others(set);
}

static void set_free(struct set *set)
{
	drop_all(set);
	if (set->n > POLL_FEW) {
		free(set->p);
		free(set->of);
	}
}

/* Runs when the thread is cancelled. */
static void poll_abandon(void *arg)
{
	disarm_all(arg);
	set_free(arg);
}

static int sleep_on(struct set *set, uint64_t until)
{
	int rc;

	pthread_cleanup_push(poll_abandon, set);
	rc = diw_wait_poll(set->p, 2 * set->n, ms_left(until, set->polled)) < 0 ? -errno : 0;
	pthread_cleanup_pop(0);
	return rc;
}

static int poll_set(struct set *set, uint64_t until)
{
	int ready, rc;

	for (;;) {
		ready = now_ready(set);
		if (ready || diw_clock_ns() >= until)
			return ready;
		ready = arm_all(set);
		rc = ready ? 0 : sleep_on(set, until);
		disarm_all(set);
		if (rc < 0)
			return rc;
	}
}

/* For a single connected socket: its caller may become the leader. */
static int poll_one(struct pollfd *u, uint64_t until)
{
	struct rs *s;
	int rc = rs_take(u->fd, &s);

	if (rc < 0)
		return rc;
	u->revents = 0;
	rc = rs_wait(s, (short)(u->events | POLLERR | POLLHUP), until);
	if (rc == 0)
		rc = ready_now(s, u);
	else if (until == 0)
		rs_idle(s);
	rs_release(s);
	return rc == -EAGAIN ? 0 : rc;
}

static uint64_t poll_until(int timeout_ms)
{
	return timeout_ms < 0 ? RS_NEVER : timeout_ms == 0 ? 0 : diw_clock_ns() + (uint64_t)timeout_ms * DIW_MS;
}

static int poll_many(struct pollfd *fds, nfds_t n, uint64_t until)
{
	struct pollfd few_p[2 * POLL_FEW];
	struct sleeper few_of[POLL_FEW];
	struct set set = { .user = fds, .p = few_p, .of = few_of, .n = n };
	int rc = -ENOMEM;

	if (n > POLL_FEW) {
		set.p = calloc(2 * n, sizeof *set.p);
		set.of = calloc(n, sizeof *set.of);
	}
	if (set.p && set.of) {
		take_all(&set);
		rc = poll_set(&set, until);
		set_free(&set);
	} else {
		free(set.p);
		free(set.of);
	}
	return rc;
}

int diw_rs_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	uint64_t until = poll_until(timeout_ms);

	if (n == 1 && diw_rs_owns(fds->fd))
		return poll_one(fds, until);
	return poll_many(fds, n, until);
}

/* ---- select ---- */

static bool set_has(const fd_set *set, int fd)
{
	return set && FD_ISSET(fd, set);
}

static nfds_t from_sets(struct pollfd *p, int n, const fd_set *rd, const fd_set *wr, const fd_set *ex)
{
	nfds_t k = 0;

	for (int fd = 0; fd < n; fd++) {
		int events = (set_has(rd, fd) ? POLLIN : 0) | (set_has(wr, fd) ? POLLOUT : 0) |
			     (set_has(ex, fd) ? POLLPRI : 0);

		if (events)
			p[k++] = (struct pollfd){ .fd = fd, .events = (short)events };
	}
	return k;
}

static int to_sets(const struct pollfd *p, nfds_t n, fd_set *rd, fd_set *wr, fd_set *ex)
{
	int bits = 0;

	for (nfds_t i = 0; i < n; i++) {
		bool want_rd = set_has(rd, p[i].fd), want_wr = set_has(wr, p[i].fd), want_ex = set_has(ex, p[i].fd);
		bool is_rd = want_rd && (p[i].revents & (POLLIN | POLLHUP | POLLERR));
		bool is_wr = want_wr && (p[i].revents & (POLLOUT | POLLERR));
		bool is_ex = want_ex && (p[i].revents & POLLPRI);

		if (want_rd && !is_rd)
			FD_CLR(p[i].fd, rd);
		if (want_wr && !is_wr)
			FD_CLR(p[i].fd, wr);
		if (want_ex && !is_ex)
			FD_CLR(p[i].fd, ex);
		bits += is_rd + is_wr + is_ex;
	}
	return bits;
}

int diw_rs_select(int n, fd_set *rd, fd_set *wr, fd_set *ex, struct timeval *timeout)
{
	struct pollfd p[FD_SETSIZE];
	uint64_t until = RS_NEVER, now;
	nfds_t k;
	int rc;

	if (n < 0 || n > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return -EINVAL;
	if (timeout)
		until = diw_clock_ns() + (uint64_t)timeout->tv_sec * DIW_S + (uint64_t)timeout->tv_usec * DIW_US;
	k = from_sets(p, n, rd, wr, ex);
	rc = poll_many(p, k, until);
	for (nfds_t i = 0; rc > 0 && i < k; i++)
		if (p[i].revents & POLLNVAL)
			return -EBADF;
	if (rc < 0)
		return rc;
	now = diw_clock_ns();
	if (timeout) {                          /* as in Linux: the time that was left */
		now = until > now ? until - now : 0;
		timeout->tv_sec = (time_t)(now / DIW_S);
		timeout->tv_usec = (suseconds_t)(now % DIW_S / DIW_US);
	}
	return to_sets(p, k, rd, wr, ex);
}
