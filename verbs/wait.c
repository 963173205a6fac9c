/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leader and followers. A thread that waits becomes the leader if there is none: it sleeps on the sockets itself, so
 * that one wake-up carries a datagram to its completion. The others follow, each on its semaphore, until a step
 * (anybody's) gives them what they wait for or the leader leaves. The progress thread leads only when nobody else does.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "base/nocancel.h"
#include "base/trace.h"
#include "verbs/cq.h"
#include "verbs/dev.h"
#include "verbs/stat.h"

uint64_t diw_until(uint64_t now, int64_t timeout_ns)
{
	if (timeout_ns < 0 || (uint64_t)timeout_ns > DIW_NEVER - now)
		return DIW_NEVER;
	return now + (uint64_t)timeout_ns;
}

static void signal_fd(int fd)
{
	uint64_t one = 1;

	if (fd >= 0)
		(void)!write(fd, &one, sizeof one);   /* full = already signalled */
}

static void clear_fd(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, sizeof n);
}

static struct timespec at(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / DIW_S), .tv_nsec = (long)(ns % DIW_S) };
}

/* Of the progress thread, whom nobody cancels. Whether a signal's handler ran instead. */
static bool wait_sem(sem_t *sem, uint64_t until)
{
	struct timespec ts = at(until);
	int rc = until == DIW_NEVER ? sem_wait(sem) : sem_clockwait(sem, CLOCK_MONOTONIC, &ts);

	return rc < 0 && errno == EINTR;
}

/* A sleep on the sockets or, ON_SEM, on the semaphore of W. */
struct nap {
	struct diw_dev *dev;
	struct diw_waiter *w;        /* NULL: the progress thread's */
	unsigned seen;
	bool on_sem;
};

static void end_nap(const struct nap *nap)
{
	struct diw_dev *dev = nap->dev;

	pthread_mutex_lock(&dev->lock);
	dev->wakeups++;
	if (nap->on_sem)
		return;
	if (nap->seen == dev->departures)
		dev->asleep--;
	else if (--dev->asleep_before == 0)
		pthread_cond_broadcast(&dev->all_awake);
}

static void step_down(struct diw_dev *dev, struct diw_waiter *w)
{
	dev->leader = NULL;
	w->woken = false;
	atomic_store(&dev->app_leads, false);
	atomic_store_explicit(&dev->app_ns, diw_dev_now(dev), memory_order_relaxed);
}

/* The thread was cancelled: another leads. */
static void abandon(void *arg)
{
	const struct nap *nap = arg;

	end_nap(nap);
	if (!nap->on_sem)
		step_down(nap->dev, nap->w);
	diw_waiter_fini(nap->dev, nap->w);
	diw_dev_unlock(nap->dev);
}

static int poll_nap(struct nap *nap, struct pollfd *p, nfds_t n, const struct timespec *ts)
{
	int rc;

	pthread_cleanup_push(abandon, nap);
	rc = diw_wait_ppoll(p, n, ts);
	pthread_cleanup_pop(0);
	return rc;
}

static int sem_nap(struct nap *nap, const struct timespec *until)
{
	int rc;

	pthread_cleanup_push(abandon, nap);
	rc = diw_wait_sem(&nap->w->sem, until);
	pthread_cleanup_pop(0);
	return rc;
}

/* Give the lock up and sleep on the sockets and a descriptor that others can signal. Whether a signal's handler ran. */
static bool sleep_on_sockets(struct diw_dev *dev, struct diw_waiter *w, uint64_t now, uint64_t until)
{
	struct nap nap = { .dev = dev, .w = w, .seen = dev->departures };
	struct pollfd p[DIW_READY_FDS + 1];
	struct timespec ts;
	int ready, n = diw_ready_pollfds(dev, p), wake_fd = w ? dev->kick_fd : dev->thread_fd;
	bool interrupted;

	until = diw_stat_settle(dev, until);
	ts = at(until > now ? until - now : 0);
	p[n] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	dev->leader_until = until;
	dev->asleep++;
	diw_dev_unlock(dev);
	ready = poll_nap(&nap, p, (nfds_t)n + 1, until == DIW_NEVER ? NULL : &ts);
	interrupted = ready < 0 && errno == EINTR;
	if (p[n].revents)
		clear_fd(wake_fd);
	DIW_TRACE_WAKEUP(dev, ready);
	end_nap(&nap);
	return interrupted;
}

/* A sleeping poll holds the sockets that it sleeps on, and so their ports, beyond their close. Whoever sleeps leaves by
 * diw_dev_unlock(), which does what this one, letting go of the lock, does not. */
void diw_dev_rouse(struct diw_dev *dev)
{
	dev->departures++;
	dev->asleep_before += dev->asleep;
	dev->asleep = 0;
	if (dev->asleep_before) {
		signal_fd(dev->kick_fd);
		signal_fd(dev->thread_fd);
	}
	while (dev->asleep_before)
		pthread_cond_wait(&dev->all_awake, &dev->lock);
}

void diw_waiter_init(struct diw_dev *dev, struct diw_waiter *w, const void *object)
{
	atomic_store_explicit(&dev->app_ns, diw_dev_now(dev), memory_order_relaxed);
	sem_init(&w->sem, 0, 0);
	w->object = object;
	w->leave = NULL;
	w->woken = w->interrupted = false;
	diw_list_add_tail(&dev->waiters, &w->link);
}

static void lead(struct diw_dev *dev, struct diw_waiter *w, uint64_t until)
{
	uint64_t now = diw_dev_now(dev);

	if (dev->leader)                        /* the progress thread gives way */
		signal_fd(dev->thread_fd);
	dev->leader = w;
	atomic_store(&dev->app_leads, true);
	atomic_fetch_add(&dev->leader_seq, 1);
	w->interrupted = sleep_on_sockets(dev, w, now, diw_min64(until, diw_dev_deadline(dev, true)));
	step_down(dev, w);
}

static void follow(struct diw_dev *dev, struct diw_waiter *w, uint64_t until)
{
	struct nap nap = { .dev = dev, .w = w, .on_sem = true };
	struct timespec ts = at(until);

	diw_dev_unlock(dev);
	w->interrupted = sem_nap(&nap, until == DIW_NEVER ? NULL : &ts) < 0 && errno == EINTR;
	DIW_TRACE_WAKEUP(dev, -1);
	end_nap(&nap);
	w->woken = false;
}

void diw_dev_sleep(struct diw_dev *dev, struct diw_waiter *w, uint64_t until)
{
	if (w->woken) {                         /* between its look and now */
		w->woken = false;
		sem_trywait(&w->sem);
		return;
	}
	if (!dev->leader || dev->leader == dev) {
		lead(dev, w, until);
		return;
	}
	follow(dev, w, until);
}

static void wake(struct diw_dev *dev, struct diw_waiter *w)
{
	if (w->woken)                           /* once for a burst of completions */
		return;
	w->woken = true;
	if (dev->leader == w)
		signal_fd(dev->kick_fd);
	else
		sem_post(&w->sem);
}

void diw_waiter_fini(struct diw_dev *dev, struct diw_waiter *w)
{
	struct diw_list *successor;

	diw_list_del(&w->link);
	sem_destroy(&w->sem);
	if (w->leave)
		w->leave(w->object);
	if (dev->leader && dev->leader != dev)
		return;
	successor = diw_list_first(&dev->waiters);
	if (successor)
		wake(dev, diw_container(successor, struct diw_waiter, link));
	else if (atomic_exchange(&dev->thread_deep, false))
		sem_post(&dev->thread_sem);
}

void diw_dev_wake(struct diw_dev *dev, const void *object)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &dev->waiters) {
		struct diw_waiter *w = diw_container(l, struct diw_waiter, link);

		if (w->object == object)
			wake(dev, w);
	}
}

bool diw_dev_has_waiter(const struct diw_dev *dev, const void *object)
{
	const struct diw_list *l;

	for (l = dev->waiters.next; l != &dev->waiters; l = l->next)
		if (diw_container(l, struct diw_waiter, link)->object == object)
			return true;
	return false;
}

void diw_dev_kick(struct diw_dev *dev)
{
	if (dev->leader)
		signal_fd(dev->leader == dev ? dev->thread_fd : dev->kick_fd);
}

void diw_dev_hasten(struct diw_dev *dev, uint64_t t)
{
	dev->timer_at = diw_min64(dev->timer_at, t);
	if (dev->leader && t < dev->leader_until) {
		dev->leader_until = t;
		diw_dev_kick(dev);
	}
}

/* ---- The progress thread ---- */

/* How long after an application thread's last look the progress thread takes over: longer than any gap of a busy one,
 * shorter than what a passive target's peer minds. The longer the application goes on the less often it is disturbed:
 * a look every 2 ms made the 99th percentile of a half round trip 11 us, where the median is 3; one every 4 ms makes
 * it 4.5, one every 16 ms 4, but then a peer's Read waits for 10 ms, and in that time 10 Gb/s overflow a receive
 * buffer. */
#define GRACE_MIN_NS (2 * DIW_MS)
#define GRACE_MAX_NS (4 * DIW_MS)
/* A program that spins on its memory, as ib_write_lat does, looks now and then and yet does not receive. Each time
 * that the thread takes over and finds what lay there it waits less, until it finds applications busy again: a half
 * round trip of 1 ms and more became one of 30 us. */
#define GRACE_LEAST_NS (20 * DIW_US)

static bool application_is_busy(struct diw_dev *dev)
{
	uint64_t seen = atomic_load_explicit(&dev->app_ns, memory_order_relaxed);

	if (atomic_load(&dev->app_leads))
		return true;
	return !atomic_load(&dev->app_away) && seen && diw_dev_now(dev) < seen + diw_min64(dev->grace, GRACE_MIN_NS);
}

void diw_dev_hand_over(struct diw_dev *dev)
{
	atomic_store(&dev->app_away, true);
	if (!atomic_load(&dev->app_leads) && atomic_exchange(&dev->thread_parked, false))
		sem_post(&dev->thread_sem);
}

/* Application threads do the work themselves: stay out of their way. When the same one has slept for a whole period,
 * sleep until it leaves. */
static void park(struct diw_dev *dev, uint64_t grace)
{
	unsigned long seq = atomic_load(&dev->leader_seq);
	bool led = atomic_load(&dev->app_leads);

	atomic_store(&dev->thread_parked, true);
	if (application_is_busy(dev))           /* still, or diw_dev_hand_over() saw us too late */
		wait_sem(&dev->thread_sem, diw_dev_now(dev) + grace);
	atomic_store(&dev->thread_parked, false);
	if (!led || !atomic_load(&dev->app_leads) || atomic_load(&dev->leader_seq) != seq)
		return;
	pthread_mutex_lock(&dev->lock);
	atomic_store(&dev->thread_deep, atomic_load(&dev->app_leads) && !atomic_load(&dev->stop));
	diw_dev_unlock(dev);
	if (atomic_load(&dev->thread_deep))
		wait_sem(&dev->thread_sem, DIW_NEVER);
}

/* Bursts that follow one another are waited for awake: to sleep after each gave a passive target of ib_write_bw,
 * 64 KiB, 0.77 of the goodput. */
#define LINGER_NS (50 * DIW_US)

static bool more_is_near(struct diw_dev *dev)
{
	return dev->burst_gap < LINGER_NS && diw_dev_now(dev) < dev->burst_ns + LINGER_NS;
}

static void *progress(void *arg)
{
	struct diw_dev *dev = arg;
	uint64_t now;
	bool parked = false;

	dev->grace = GRACE_MIN_NS;
	while (!atomic_load(&dev->stop)) {
		if (application_is_busy(dev)) {
			if (parked)
				dev->grace = diw_min64(2 * dev->grace, GRACE_MAX_NS);
			park(dev, dev->grace);
			parked = true;
			continue;
		}
		pthread_mutex_lock(&dev->lock);
		now = diw_dev_now(dev);
		diw_dev_step_locked(dev, now);
		if (parked)
			dev->grace = dev->burst_ns < now ? GRACE_MIN_NS :
				     dev->grace > 4 * GRACE_LEAST_NS ? dev->grace / 4 : GRACE_LEAST_NS;
		parked = false;
		if (dev->leader || atomic_load(&dev->stop)) {
			diw_dev_unlock(dev);
			continue;
		}
		if (more_is_near(dev)) {
			diw_dev_unlock(dev);
			sched_yield();          /* who sends may want this very processor */
			continue;
		}
		dev->leader = dev;
		sleep_on_sockets(dev, NULL, now, diw_dev_deadline(dev, false));
		if (dev->leader == dev)
			dev->leader = NULL;
		diw_dev_unlock(dev);
	}
	return NULL;
}

static int start_thread(struct diw_dev *dev)
{
	sigset_t all, before;
	int rc;

	atomic_store(&dev->stop, false);
	sigfillset(&all);                       /* signals are the application's */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&dev->thread, NULL, progress, dev);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_setname_np(dev->thread, "diw-progress");
	return -rc;
}

static void stop_thread(struct diw_dev *dev)
{
	atomic_store(&dev->stop, true);
	sem_post(&dev->thread_sem);
	signal_fd(dev->thread_fd);
	pthread_join(dev->thread, NULL);
}

int diw_thread_use(struct diw_dev *dev)
{
	int rc = 0;

	if (!dev->info.progress_thread || !diw_dev_alive(dev))
		return 0;
	pthread_mutex_lock(&dev->thread_lock);
	if (dev->thread_users == 0)
		rc = start_thread(dev);
	dev->thread_users += rc == 0;
	pthread_mutex_unlock(&dev->thread_lock);
	return rc;
}

void diw_thread_unuse(struct diw_dev *dev)
{
	if (!dev->info.progress_thread || !diw_dev_alive(dev))
		return;
	pthread_mutex_lock(&dev->thread_lock);
	if (--dev->thread_users == 0)
		stop_thread(dev);
	pthread_mutex_unlock(&dev->thread_lock);
}
