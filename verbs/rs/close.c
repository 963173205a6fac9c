/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of a socket. Data that was written is sent after close(), and the process does not end before: the kernel's
 * TCP would continue without the process.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "verbs/rs/int.h"

#define LAST_NS (10 * DIW_S)                 /* how long a process that ends waits for its peers */
#define EXIT_LOCK_NS (200 * DIW_MS)          /* how long it waits for a lock */

struct diw_list rs_lingering = { &rs_lingering, &rs_lingering };

static void release_memory(struct rs *s)
{
	rs_close_qp(s);
	rs_stream_free(s);
	rs_dgram_free(s);
	rs_hold_drop(s);
	if (s->fd >= 0)
		close(s->fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
	rs_dev_count(-1);
}

void rs_lingerer_over(struct rs *s)
{
	diw_list_del(&s->link);
	release_memory(s);
}

/* Whether an event will report the end of the connection. */
static bool close_lingers(struct rs *s)
{
	if (s->state != RS_CONNECTED || !s->stream || (s->opt.linger.l_onoff && !s->opt.linger.l_linger))
		return false;
	rs_stream_look(s, 0);
	rs_stream_fin(s);
	return diw_disconnect(s->qp) == 0;
}

static void end_children(struct rs *s)
{
	struct diw_list *p, *next;

	diw_list_for_each_safe(p, next, &s->children) {
		struct rs *child = diw_container(p, struct rs, sibling);

		diw_list_del(p);
		child->parent = NULL;
		release_memory(child);
	}
}

/* No other thread has the socket, so its lock is not needed. */
void rs_end(struct rs *s)
{
	bool stays;

	if (!s->qp && !s->listener) {
		release_memory(s);
		return;
	}
	pthread_mutex_lock(&rs_big);
	if (s->listener)
		diw_listener_close(s->listener);
	rs_requests_forget(s);
	end_children(s);
	stays = close_lingers(s);
	if (stays) {
		s->state = RS_CLOSING;
		if (s->fd >= 0)
			close(s->fd);
		s->fd = -1;
		diw_list_add_tail(&rs_lingering, &s->link);
	} else {
		release_memory(s);
	}
	pthread_mutex_unlock(&rs_big);
}

/* SO_LINGER: waits until TCP has taken all data, not until the peer has read it. */
static void close_linger(struct rs *s)
{
	uint64_t until;

	if (s->state != RS_CONNECTED || !s->opt.linger.l_onoff || s->opt.linger.l_linger <= 0 || s->nonblock)
		return;
	until = rs_until((int64_t)s->opt.linger.l_linger * (int64_t)DIW_S);
	rs_stream_fin(s);
	while (!rs_stream_flushed(s) && rs_wait(s, RS_SENT, until) == 0)
		;
}

int diw_rs_close(int fd)
{
	struct rs *s = rs_leave_table(fd);
	int cancel;

	if (!s)
		return -EBADF;
	if (s->generation != diw_fork_generation()) { /* its resources, and their users, are the parent's */
		close(fd);
		return 0;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);        /* not a cancellation point from here on: the
									 * descriptor is already free */
	pthread_mutex_lock(&s->lock);
	close_linger(s);
	pthread_setcancelstate(cancel, NULL);
	s->closed = true;
	if (s->stream)
		rs_stream_nudge(s);
	rs_bump(s);
	pthread_mutex_unlock(&s->lock);
	rs_unref(s);
	return 0;
}

int diw_rs_shutdown(int fd, int how)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		rc = -EINVAL;
	else if (s->dgram ? s->peer.port == 0 : s->state != RS_CONNECTED)
		rc = -ENOTCONN;
	if (rc == 0) {
		s->rd_shut |= how != SHUT_WR;
		s->wr_shut |= how != SHUT_RD;
		if (s->stream && s->wr_shut)
			rs_stream_fin(s);
		if (s->stream)
			rs_stream_nudge(s);
		rs_bump(s);
	}
	rs_release(s);
	return rc;
}

/* ---- Exit of the process ---- */

/* False: the lock is not free in time. A signal's handler that calls exit(3) may have interrupted the thread that
 * holds it, in a call or in fork(2). */
static bool exit_lock(pthread_mutex_t *lock)
{
	const uint64_t until = diw_clock_ns() + EXIT_LOCK_NS;
	const struct timespec ts = { .tv_sec = (time_t)(until / DIW_S), .tv_nsec = (long)(until % DIW_S) };

	return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &ts) == 0;
}

static void say_goodbye(struct rs *s)
{
	if (!exit_lock(&s->lock))
		return;
	if (s->state == RS_CONNECTED && s->stream) {
		rs_stream_fin(s);
		diw_disconnect(s->qp);
	}
	pthread_mutex_unlock(&s->lock);
}

static unsigned still;

static void count_open(struct rs *s)
{
	struct diw_qp_info info;

	if (!exit_lock(&s->lock))
		return;
	if (s->state == RS_CONNECTED && s->stream) {
		rs_stream_look(s, 0);
		still += diw_qp_query(s->qp, &info) == 0 && info.state == DIW_QPS_CLOSING;
	}
	pthread_mutex_unlock(&s->lock);
}

__attribute__((destructor))
static void last_words(void)
{
	const struct timespec ms = { .tv_nsec = DIW_MS };
	uint64_t until = diw_clock_ns() + LAST_NS;
	struct diw_list *p, *next;

	if (!exit_lock(&rs_big))
		return;
	rs_each(say_goodbye);
	do {
		still = 0;
		rs_each(count_open);
		diw_list_for_each_safe(p, next, &rs_lingering) {
			rs_stream_look(diw_container(p, struct rs, link), 0);
			still++;
		}
		pthread_mutex_unlock(&rs_big);
		if (still)
			nanosleep(&ms, NULL);
		if (!exit_lock(&rs_big))
			return;
	} while (still && diw_clock_ns() < until);
	pthread_mutex_unlock(&rs_big);
}
