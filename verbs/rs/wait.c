/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that sleep, and their wake-up. One of the threads that wait for a connected socket is the leader: it sleeps
 * in diw_channel_get(), so that one wake-up brings it the data. The others sleep on a futex until the leader has
 * polled. A thread in poll() sleeps on descriptors; the socket's own descriptor reports what other threads have
 * found.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/nocancel.h"
#include "base/restart.h"
#include "verbs/rs/int.h"

#define SPIN_NS 10000                        /* as in librdmacm: the peer answers at once, or it does not */
#define IDLE_A_YIELD 8
#define NO_THREAD_NS (10 * DIW_MS)

short rs_events(const struct rs *s)
{
	short events = s->err ? POLLERR | POLLIN | POLLOUT : 0;

	if (s->dgram)
		return (short)(events | rs_dgram_events(s));
	switch (s->state) {
	case RS_LISTENING:
		return (short)(events | (s->nready ? POLLIN | POLLRDNORM : 0));
	case RS_CONNECTED:
		return (short)(events | rs_stream_events(s));
	case RS_OPEN:
		return (short)(events | POLLOUT | (s->type == SOCK_STREAM ? POLLHUP : 0));
	default:
		return events;
	}
}

/* ---- Waking ---- */

void rs_signal(struct rs *s, bool on)
{
	if (s->kicked == on || s->fd < 0)
		return;
	s->kicked = on;
	if (on)
		diw_eventfd_set(s->fd);
	else
		diw_eventfd_clear(s->fd);
}

void rs_bump(struct rs *s)
{
	atomic_fetch_add(&s->seq, 1);
	if (s->followers)
		syscall(SYS_futex, &s->seq, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	if (s->sleepers)
		rs_signal(s, true);
}

static void wait_look(struct rs *s, int64_t spin_ns)
{
	short before;

	if (!s->dgram && s->state != RS_CONNECTED)
		return;
	before = rs_events(s);
	if (s->dgram)
		rs_dgram_look(s);
	else
		rs_stream_look(s, spin_ns);
	if ((s->followers || s->sleepers) && rs_events(s) != before)
		rs_bump(s);
}

void rs_look(struct rs *s)
{
	wait_look(s, 0);
}

/* If there are fewer processors than spinning threads, the program may be waiting for a peer that has no processor. So
 * the thread yields, which costs little when no other thread waits. */
void rs_idle(struct rs *s)
{
	if (s->empties++ % IDLE_A_YIELD == 0)
		sched_yield();
}

/* ---- Sleeping ---- */

static uint64_t time_left(uint64_t until, uint64_t now)
{
	return until > now ? until - now : 0;
}

static void end_lead(struct rs *s)
{
	pthread_mutex_lock(&s->lock);
	s->leader = false;
	wait_look(s, 0);
	if (s->followers || s->sleepers)        /* one of these becomes the leader */
		rs_bump(s);
}

/* Runs when the leader is cancelled. */
static void abandon_lead(void *arg)
{
	end_lead(arg);
	rs_release(arg);
}

static int rs_lead(struct rs *s, uint64_t until, uint64_t now)
{
	int64_t ns = until == RS_NEVER ? -1 : (int64_t)time_left(until, now);
	struct diw_cq *cq;
	int rc;

	s->leader = true;
	diw_cq_arm(s->cq, false);
	pthread_mutex_unlock(&s->lock);
	pthread_cleanup_push(abandon_lead, s);
	rc = diw_channel_get(s->channel, &cq, ns);
	pthread_cleanup_pop(0);
	end_lead(s);
	return rc == -EINTR ? rc : 0;
}

static void abandon_follow(void *arg)
{
	struct rs *s = arg;

	pthread_mutex_lock(&s->lock);
	s->followers--;
	rs_release(s);
}

static int futex_wait(struct rs *s, unsigned seen, const struct timespec *ts)
{
	int rc;

	pthread_cleanup_push(abandon_follow, s);
	rc = diw_wait_futex(&s->seq, seen, ts);
	pthread_cleanup_pop(0);
	return rc;
}

static int rs_follow(struct rs *s, uint64_t until, uint64_t now)
{
	unsigned seen = atomic_load(&s->seq);
	uint64_t ns = time_left(until, now);
	struct timespec ts;
	bool interrupted;

	if (s->cq && s->dev->conns.polled && !s->leader)
		ns = diw_min64(ns, NO_THREAD_NS);
	ts = (struct timespec){ .tv_sec = (time_t)(ns / DIW_S), .tv_nsec = (long)(ns % DIW_S) };
	s->followers++;
	pthread_mutex_unlock(&s->lock);
	interrupted = futex_wait(s, seen, ns > INT64_MAX / 2 ? NULL : &ts) < 0 && errno == EINTR;
	pthread_mutex_lock(&s->lock);
	s->followers--;
	return interrupted ? -EINTR : 0;
}

int rs_wait(struct rs *s, short events, uint64_t until)
{
	bool spun = false;
	uint64_t now;
	int rc;

	for (;;) {
		wait_look(s, 0);
		if (s->closed)
			return -EBADF;
		if (rs_events(s) & events)
			return 0;
		if (s->cq && s->state == RS_CONNECTED && !s->leader && !spun && until) {
			spun = true;
			wait_look(s, SPIN_NS);
			continue;
		}
		now = diw_clock_ns();
		if (now >= until)
			return -EAGAIN;
		if (s->cq && (s->dgram || s->state == RS_CONNECTED) && !s->leader)
			rc = rs_lead(s, until, now);
		else
			rc = rs_follow(s, until, now);
		if (rc == -EINTR && !diw_call_restarts())
			return -EINTR;
	}
}
