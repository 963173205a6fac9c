/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leader and followers. A waiting thread becomes the leader if there is none. The leader sleeps on the descriptors, so
 * that one wake-up takes a datagram to its completion. The others are followers: each sleeps on its semaphore, until a
 * step of any thread produces its event, or the leader leaves. While a progress thread spins, all are followers.
 */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/log.h"
#include "base/nocancel.h"
#include "base/trace.h"
#include "verbs/engine/int.h"

/* A timeout of ppoll(2) that is sooner than the processor's other timers makes the kernel program the processor's timer
 * at each sleep. On a virtual processor this costs 5 to 8 us of a half round trip of 10 us. */
#define FAR_NS (20 * DIW_MS)
#define CLOSED_NS (10 * DIW_MS)      /* between looks of a thread at descriptors that are closed */
#define READY_NS (3 * DIW_US)        /* a call of ppoll(2) that takes less has found a ready descriptor */

uint64_t diw_until(uint64_t now, int64_t timeout_ns)
{
	if (timeout_ns < 0 || (uint64_t)timeout_ns > DIW_NEVER - now)
		return DIW_NEVER;
	return now + (uint64_t)timeout_ns;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / DIW_S), .tv_nsec = (long)(ns % DIW_S) };
}

/* A sleep: on the descriptors, or ON_SEM, on the semaphore of W. */
struct nap {
	struct diw_engine *e;
	struct diw_waiter *w;        /* NULL: of the progress thread */
	unsigned seen;
	bool on_sem;
	bool counted;                /* among the followers of a thread that spins */
	bool looks;                  /* behind the sleep: whether the program has closed the descriptors */
};

static void nap_end(const struct nap *nap)
{
	struct diw_engine *e = nap->e;

	diw_engine_take(e);
	e->wakeups++;
	if (nap->counted)
		atomic_fetch_sub(&e->followers, 1);
	if (nap->on_sem)
		return;
	if (nap->seen == e->departures)
		e->asleep--;
	else if (--e->asleep_before == 0)
		pthread_cond_broadcast(&e->all_awake);
}

static void leader_step_down(struct diw_engine *e, struct diw_waiter *w, uint64_t now)
{
	e->leader = NULL;
	w->woken = false;
	atomic_store(&e->app_leads, false);
	diw_engine_app_polls(e, now);
}

/* The thread was cancelled: another thread becomes the leader. The progress thread is cancelled by its end. */
static void nap_abandon(void *arg)
{
	const struct nap *nap = arg;

	nap_end(nap);
	if (!nap->w)
		nap->e->leader = NULL;
	else if (!nap->on_sem)
		leader_step_down(nap->e, nap->w, diw_engine_now(nap->e));
	if (nap->w)
		diw_waiter_fini(nap->e, nap->w);
	diw_engine_unlock(nap->e);
}

/* A program closes all descriptors, as daemons do, and may open others with these numbers. A thread that sleeps on them
 * would be awake all the time. */
static void nap_if_closed(const struct nap *nap)
{
	static atomic_bool told;

	if (!nap->looks || diw_engine_has_fds(nap->e))
		return;
	if (!atomic_exchange(&told, true))
		diw_log(DIW_LOG_TELL, "the program has closed descriptors of a device, which can only be destroyed");
	diw_wait_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = CLOSED_NS });
}

static int nap_on_fds(struct nap *nap, struct pollfd *p, nfds_t n, const struct timespec *ts)
{
	int rc;

	pthread_cleanup_push(nap_abandon, nap);
	rc = diw_wait_ppoll(p, n, ts);
	if (rc > 0)
		nap_if_closed(nap);
	pthread_cleanup_pop(0);
	return rc;
}

static int nap_on_sem(struct nap *nap, const struct timespec *until)
{
	int rc;

	pthread_cleanup_push(nap_abandon, nap);
	rc = diw_wait_sem(&nap->w->sem, until);
	pthread_cleanup_pop(0);
	return rc;
}

static void fixed_rest(struct diw_engine *e)
{
	struct diw_list *l;

	for (l = e->fixed.next; l != &e->fixed; l = l->next) {
		struct diw_member *m = diw_container(l, struct diw_member, link);

		if (m->ops->rest)
			m->ops->rest(m);
	}
}

/* Whether the alarm ends a sleep until UNTIL, perhaps too early. If it does not, but the time is near, it is set. The
 * alarm keeps its time across sleeps, so it is set seldom where each message moves the deadline. */
static bool alarm_covers(struct diw_engine *e, uint64_t now, uint64_t until)
{
	struct itimerspec in = { 0 };

	if (until <= now || until - now >= FAR_NS)
		return false;
	if (e->alarm_at > now && e->alarm_at <= until)
		return true;
	in.it_value = timespec_of(until - now);
	if (timerfd_settime(e->alarm_fd, 0, &in, NULL) < 0)
		return false;
	e->alarm_at = until;
	return true;
}

bool diw_sleep_on_fds(struct diw_engine *e, struct diw_waiter *w, uint64_t now, uint64_t until)
{
	struct nap nap = { .e = e, .w = w, .seen = e->departures, .looks = now >= e->look_at };
	struct pollfd p[DIW_ENGINE_FDS + 2];
	struct timespec ts = timespec_of(until > now ? until - now : 0);
	int ready, n = diw_ready_pollfds(e, p), wake_fd = w ? e->kick_fd : e->thread_fd;
	bool alarmed = alarm_covers(e, now, until), interrupted;

	fixed_rest(e);
	p[n] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	p[n + 1] = (struct pollfd){ .fd = e->alarm_fd, .events = POLLIN };
	if (nap.looks)
		e->look_at = now + CLOSED_NS;
	e->leader_until = until;
	e->asleep++;
	diw_engine_unlock(e);
	ready = nap_on_fds(&nap, p, (nfds_t)n + 1 + alarmed, alarmed || until == DIW_NEVER ? NULL : &ts);
	interrupted = ready < 0 && errno == EINTR;
	if (p[n].revents)
		diw_eventfd_clear(wake_fd);
	DIW_TRACE_WAKEUP(e, ready);
	nap_end(&nap);
	return interrupted;
}

/* A sleep in poll(2) keeps its sockets, and so their ports, in use beyond their close. So all sleepers are woken. They
 * leave through diw_engine_unlock(), which does the work that this release of the lock does not. */
void diw_engine_rouse(struct diw_engine *e)
{
	bool heard = true;

	e->departures++;
	e->asleep_before += e->asleep;
	e->asleep = 0;
	if (e->asleep_before)
		heard = diw_engine_has_fds(e) && diw_eventfd_set(e->kick_fd) && diw_eventfd_set(e->thread_fd);
	while (heard && e->asleep_before)
		pthread_cond_wait(&e->all_awake, &e->lock);
}

void diw_waiter_init(struct diw_engine *e, struct diw_waiter *w, const void *object)
{
	diw_engine_app_polls(e, diw_engine_now(e));
	sem_init(&w->sem, 0, 0);
	w->object = object;
	w->leave = NULL;
	w->woken = w->slept = w->interrupted = false;
	diw_list_add_tail(&e->waiters, &w->link);
}

static void waiter_lead(struct diw_engine *e, struct diw_waiter *w, uint64_t until)
{
	uint64_t began = diw_engine_now(e), now;

	if (e->leader)                          /* the progress thread stops leading */
		diw_eventfd_set(e->thread_fd);
	e->leader = w;
	atomic_store(&e->app_leads, true);
	atomic_fetch_add(&e->leader_seq, 1);
	w->interrupted = diw_sleep_on_fds(e, w, began, diw_min64(until, diw_engine_deadline(e, true)));
	now = diw_engine_now(e);
	e->idle = now >= began + READY_NS;
	leader_step_down(e, w, now);
}

static void waiter_follow(struct diw_engine *e, struct diw_waiter *w, uint64_t until)
{
	struct nap nap = { .e = e, .w = w, .on_sem = true, .counted = e->spinning };
	struct timespec ts = timespec_of(until);

	if (nap.counted)
		diw_thread_summon(e);
	diw_engine_unlock(e);
	w->interrupted = nap_on_sem(&nap, until == DIW_NEVER ? NULL : &ts) < 0 && errno == EINTR;
	DIW_TRACE_WAKEUP(e, -1);
	nap_end(&nap);
	w->woken = false;
}

/* In front of a sleep, ppoll(2) says whether a descriptor is ready. A read of each would find nothing, unless bursts
 * come faster than they are received: then a read spares the ppoll(2). */
void diw_waiter_step(struct diw_engine *e, const struct diw_waiter *w, uint64_t now, uint64_t until)
{
	if (w->slept || !e->idle || e->epoll_on || now >= until)
		diw_engine_step(e, now);
	else
		diw_engine_step_unread(e, now);
}

void diw_engine_sleep(struct diw_engine *e, struct diw_waiter *w, uint64_t until)
{
	w->slept = true;
	if (w->woken) {                         /* the event came between the caller's check and now */
		w->woken = false;
		sem_trywait(&w->sem);
	} else if (!e->spinning && (!e->leader || e->leader == e)) {
		waiter_lead(e, w, until);
	} else {
		waiter_follow(e, w, until);
	}
}

bool diw_waiter_promote(struct diw_engine *e)
{
	struct diw_list *first = diw_list_first(&e->waiters);

	if (first)
		diw_waiter_wake(e, diw_container(first, struct diw_waiter, link));
	return first;
}

void diw_waiter_fini(struct diw_engine *e, struct diw_waiter *w)
{
	diw_list_del(&w->link);
	sem_destroy(&w->sem);
	if (w->leave)
		w->leave(w->object);
	if (e->spinning || (e->leader && e->leader != e))
		return;
	if (!diw_waiter_promote(e) && atomic_exchange(&e->thread_deep, false))
		sem_post(&e->thread_sem);
}
