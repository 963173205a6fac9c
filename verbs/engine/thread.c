/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread. It leads if no application thread does, so a passive target answers although its program makes
 * no calls. It stays away while application threads poll often enough. A thread that spins does not sleep on the
 * descriptors, and no other thread leads while it runs: a datagram then waits for no interrupted sleep, only the thread
 * that waits for a completion does.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "base/eventfd.h"
#include "verbs/engine/int.h"

/* Time after an application thread's last poll at which the progress thread takes over: longer than any gap of a busy
 * thread, and shorter than the peer of a passive target would notice. It grows while the application keeps polling.
 * With 2 ms, the 99th percentile of a half round trip was 11 us, with a median of 3 us; with 4 ms it was 4.5 us, with
 * 16 ms 4 us. But with 16 ms a peer's Read waits for 10 ms, in which 10 Gb/s overflow a receive buffer. */
#define GRACE_MIN_NS (2 * DIW_MS)
#define GRACE_MAX_NS (4 * DIW_MS)
/* A program that spins on its memory, such as ib_write_lat, polls now and then but does not receive. Each time the
 * thread takes over and finds datagrams, its next wait is shorter, until applications are busy again. That reduced a
 * half round trip of over 1 ms to 30 us. */
#define GRACE_LEAST_NS (20 * DIW_US)
/* After a burst the thread stays awake for this time. Sleeping after each burst reduced the goodput of a passive target
 * (ib_write_bw, 64 KiB) to 0.77. */
#define LINGER_NS (50 * DIW_US)
/* UCX arms its completion queue for a thread of its own, then polls without end. An application whose polls are at most
 * STAYS_GAP_NS apart for GRACE_MIN_NS does not sleep. An event loop polls for a shorter time behind the arming, before
 * it sleeps. */
#define STAYS_GAP_NS (100 * DIW_US)

static bool application_is_busy(struct diw_engine *e)
{
	uint64_t seen = atomic_load_explicit(&e->app_ns, memory_order_relaxed);

	if (atomic_load(&e->app_leads))
		return true;
	if (atomic_load(&e->followers))
		return false;
	return !atomic_load(&e->app_away) && seen && diw_engine_now(e) < seen + diw_min64(e->grace, GRACE_MIN_NS);
}

void diw_engine_app_stays(struct diw_engine *e, uint64_t now)
{
	bool near = now < atomic_load_explicit(&e->app_ns, memory_order_relaxed) + STAYS_GAP_NS;
	uint64_t since = near ? atomic_load_explicit(&e->away_since, memory_order_relaxed) : 0;

	if (!since)
		atomic_store_explicit(&e->away_since, now, memory_order_relaxed);
	else if (now >= since + GRACE_MIN_NS)
		diw_engine_app_back(e);
}

/* Pairs with thread_park(): the thread sees the follower, or this call sees that the thread is parked. */
void diw_thread_summon(struct diw_engine *e)
{
	atomic_fetch_add(&e->followers, 1);
	if (atomic_exchange(&e->thread_parked, false))
		sem_post(&e->thread_sem);
}

void diw_engine_hand_over(struct diw_engine *e)
{
	atomic_store_explicit(&e->away_since, 0, memory_order_relaxed);
	atomic_store(&e->app_away, true);
	if (!atomic_load(&e->app_leads) && atomic_exchange(&e->thread_parked, false))
		sem_post(&e->thread_sem);
}

static void thread_wait(struct diw_engine *e, uint64_t until)
{
	struct timespec ts = { .tv_sec = (time_t)(until / DIW_S), .tv_nsec = (long)(until % DIW_S) };

	if (until == DIW_NEVER)
		sem_wait(&e->thread_sem);
	else
		sem_clockwait(&e->thread_sem, CLOCK_MONOTONIC, &ts);
}

/* Sleeps until UNTIL or the end of the park. In between, super-buffers that are open for too long are sent. */
static void thread_stay_parked(struct diw_engine *e, uint64_t until)
{
	do {
		thread_wait(e, diw_min64(until, diw_flush_watch(e)));
	} while (diw_engine_now(e) < until && atomic_load(&e->thread_parked) && !atomic_load(&e->stop));
}

/* Application threads do the work, so the thread sleeps. If one thread has been the leader for a whole period, it
 * sleeps until that one leaves. */
static void thread_park(struct diw_engine *e, uint64_t grace)
{
	unsigned long seq = atomic_load(&e->leader_seq);
	bool led = atomic_load(&e->app_leads);

	atomic_store(&e->thread_parked, true);
	if (application_is_busy(e))             /* still busy; or diw_engine_hand_over() did not see the thread in
						 * time */
		thread_stay_parked(e, diw_engine_now(e) + grace);
	atomic_store(&e->thread_parked, false);
	if (e->spins || !led || !atomic_load(&e->app_leads) || atomic_load(&e->leader_seq) != seq)
		return;
	pthread_mutex_lock(&e->lock);
	atomic_store(&e->thread_deep, atomic_load(&e->app_leads) && !atomic_load(&e->stop));
	diw_engine_unlock(e);
	if (atomic_load(&e->thread_deep))
		thread_wait(e, DIW_NEVER);
}

static bool burst_is_near(struct diw_engine *e)
{
	return e->burst_gap < LINGER_NS && diw_engine_now(e) < e->burst_ns + LINGER_NS;
}

/* The thread has taken over after a park: adapts its next wait. */
static void grace_learn(struct diw_engine *e, uint64_t now)
{
	if (e->burst_ns < now)
		e->grace = GRACE_MIN_NS;
	else
		e->grace = e->grace > 4 * GRACE_LEAST_NS ? e->grace / 4 : GRACE_LEAST_NS;
}

/* A thread that waits for one completion after the other polls in between. It is asleep again before a park would pay:
 * waits for that. Returns whether the application sleeps, or the thread is to end. */
static bool spin_lingers(struct diw_engine *e)
{
	uint64_t until = diw_engine_now(e) + LINGER_NS;

	while (application_is_busy(e) && !atomic_load(&e->stop)) {
		if (diw_engine_now(e) >= until)
			return false;
		sched_yield();
	}
	return true;
}

static void spin_yield(struct diw_engine *e)
{
	do {
		sched_yield();
	} while (atomic_load(&e->lockers) && !atomic_load(&e->stop));
}

/* From now on, or until now, no other thread leads. A thread that already sleeps must say that it relies on this one:
 * it wakes, and sleeps again. */
static void spin_set(struct diw_engine *e, bool spinning)
{
	diw_engine_take(e);
	e->spinning = spinning;
	if (spinning)
		diw_waiters_wake(e);
	else
		diw_waiter_promote(e);
	diw_engine_unlock(e);
}

/* Sleeps, unless another thread leads, until the next look at super-buffers that posts leave open. The lock is held,
 * and released on return. */
static void thread_lead(struct diw_engine *e, uint64_t now)
{
	uint64_t look = atomic_load(&e->watched) ? now + e->watch_gap : DIW_NEVER;

	if (e->spinning) {
		diw_engine_unlock(e);
		spin_yield(e);
		return;
	}
	if (e->leader || atomic_load(&e->stop)) {
		diw_engine_unlock(e);
		return;
	}
	if (burst_is_near(e)) {
		diw_engine_unlock(e);
		sched_yield();                  /* the sender may need this processor */
		return;
	}
	e->leader = e;
	diw_sleep_on_fds(e, NULL, now, diw_min64(look, diw_engine_deadline(e, false)));
	if (e->leader == e)
		e->leader = NULL;
	diw_engine_unlock(e);
}

static void *thread_main(void *arg)
{
	struct diw_engine *e = arg;
	uint64_t now;
	bool parked = false;

	e->grace = GRACE_MIN_NS;
	if (e->spins)
		spin_set(e, true);
	while (!atomic_load(&e->stop)) {
		if (application_is_busy(e)) {
			if (e->spins && spin_lingers(e))
				continue;
			if (parked)
				e->grace = diw_min64(2 * e->grace, GRACE_MAX_NS);
			thread_park(e, e->grace);
			parked = true;
			continue;
		}
		diw_flush_watch(e);
		pthread_mutex_lock(&e->lock);
		now = diw_engine_now(e);
		diw_engine_step(e, now);
		e->thread_receives += e->burst_ns == now;
		if (parked)
			grace_learn(e, now);
		parked = false;
		thread_lead(e, now);
	}
	if (e->spins)
		spin_set(e, false);
	return NULL;
}

static int engine_thread_start(struct diw_engine *e)
{
	sigset_t all, before;
	int rc;

	atomic_store(&e->stop, false);
	sigfillset(&all);                       /* signals are for the application's threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&e->thread, NULL, thread_main, e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_setname_np(e->thread, "diw-progress");
	return -rc;
}

static void thread_stop(struct diw_engine *e)
{
	atomic_store(&e->stop, true);
	sem_post(&e->thread_sem);
	if (!diw_engine_has_fds(e) || !diw_eventfd_set(e->thread_fd))
		pthread_cancel(e->thread);
	pthread_join(e->thread, NULL);
}

int diw_thread_use(struct diw_engine *e)
{
	int rc = 0;

	if (!e->threaded || !diw_engine_alive(e))
		return 0;
	pthread_mutex_lock(&e->thread_lock);
	if (e->thread_users == 0)
		rc = engine_thread_start(e);
	e->thread_users += rc == 0;
	pthread_mutex_unlock(&e->thread_lock);
	return rc;
}

void diw_thread_unuse(struct diw_engine *e)
{
	if (!e->threaded || !diw_engine_alive(e))
		return;
	pthread_mutex_lock(&e->thread_lock);
	if (--e->thread_users == 0)
		thread_stop(e);
	pthread_mutex_unlock(&e->thread_lock);
}
