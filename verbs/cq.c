/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and their channels: create, poll, wait, arm, resize. */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/eventfd.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/trace.h"

/* A spinning poll reads the clock once in this many polls. Reading takes 25 ns, and no timer needs microseconds. */
#define SPINS_A_CLOCK 8
#define READY_IS_POLLED 4

int diw_cq_create(struct diw_dev *dev, uint32_t depth, struct diw_channel *channel, void *ctx, struct diw_cq **out)
{
	uint32_t size = 1;
	struct diw_cq *cq;
	int rc;

	if (depth == 0 || depth > DIW_DEV_CQES)
		return diw_fail(-EINVAL, "diw_cq_create: depth %u: not 1 to %u", depth, DIW_DEV_CQES);
	if (channel && channel->dev != dev)
		return diw_fail(-EINVAL, "diw_cq_create: a channel of another device");
	while (size < depth)
		size *= 2;
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return -ENOMEM;
	cq->ring = calloc(size, sizeof *cq->ring);
	rc = cq->ring ? diw_engine_lock(&dev->engine) : -ENOMEM;
	if (rc == 0) {
		rc = diw_dev_has_room(dev->ncqs);
		if (rc < 0)
			diw_engine_unlock(&dev->engine);
	}
	if (rc < 0) {
		free(cq->ring);
		free(cq);
		return diw_fail(rc, "diw_cq_create: depth %u", depth);
	}
	cq->dev = dev;
	cq->channel = channel;
	cq->ctx = ctx;
	cq->mask = size - 1;
	cq->depth = size;
	pthread_mutex_init(&cq->take, NULL);
	diw_list_init(&cq->event);
	dev->ncqs++;
	if (channel)
		channel->ncqs++;
	diw_engine_unlock(&dev->engine);
	*out = cq;
	return 0;
}

static void mark_dirty(struct diw_channel *ch)
{
	diw_engine_defer(&ch->dev->engine, &ch->sync);
}

static void cq_free(struct diw_cq *cq)
{
	pthread_mutex_destroy(&cq->take);
	free(cq->ring);
	free(cq);
}

int diw_cq_destroy(struct diw_cq *cq)
{
	struct diw_dev *dev = cq->dev;

	if (diw_engine_lock(&dev->engine) < 0) {
		cq_free(cq);
		return 0;
	}
	if (cq->nqps) {
		diw_engine_unlock(&dev->engine);
		return diw_fail(-EBUSY, "diw_cq_destroy: a queue pair uses it");
	}
	dev->ncqs--;
	if (cq->channel) {
		cq->channel->ncqs--;
		diw_list_del(&cq->event);
		mark_dirty(cq->channel);
	}
	diw_engine_unlock(&dev->engine);
	cq_free(cq);
	return 0;
}

int diw_cq_retire(struct diw_cq *cq, uint32_t *taken)
{
	int rc = diw_engine_lock(&cq->dev->engine);

	if (rc < 0)
		return rc;
	if (cq->nqps) {
		rc = -EBUSY;
	} else {
		*taken = cq->taken;
		cq->nevents = 0;
		diw_list_del(&cq->event);
		if (cq->channel)
			mark_dirty(cq->channel);
	}
	diw_engine_unlock(&cq->dev->engine);
	return rc < 0 ? diw_fail(rc, "diw_cq_retire: a queue pair uses it") : 0;
}

/* There is room again: serves the queue pairs that waited for it, independent of their sockets. */
static void feed_starved(struct diw_cq *cq, uint64_t now)
{
	if (!atomic_load_explicit(&cq->starved, memory_order_relaxed))
		return;
	atomic_store_explicit(&cq->starved, false, memory_order_relaxed);
	diw_engine_recheck(&cq->dev->engine);
	diw_engine_step(&cq->dev->engine, now);
}

int diw_cq_resize(struct diw_cq *cq, uint32_t depth)
{
	uint32_t size = 1, head, tail;
	struct diw_wc *ring;
	int rc = depth == 0 || depth > DIW_DEV_CQES ?
		 diw_fail(-EINVAL, "diw_cq_resize: depth %u: not 1 to %u", depth, DIW_DEV_CQES) :
		 diw_engine_lock(&cq->dev->engine);

	if (rc < 0)
		return rc;
	while (size < depth)
		size *= 2;
	ring = calloc(size, sizeof *ring);
	pthread_mutex_lock(&cq->take);
	head = atomic_load(&cq->head);
	tail = atomic_load(&cq->tail);
	rc = !ring ? -ENOMEM : tail - head > size ? -EINVAL : 0;
	if (rc == 0) {
		for (uint32_t i = head; i != tail; i++)
			ring[i & (size - 1)] = cq->ring[i & cq->mask];
		free(cq->ring);
		cq->ring = ring;
		cq->mask = size - 1;
		cq->depth = size;
	} else {
		free(ring);
	}
	pthread_mutex_unlock(&cq->take);
	if (rc == 0)
		feed_starved(cq, diw_engine_now(&cq->dev->engine));
	diw_engine_unlock(&cq->dev->engine);
	return rc < 0 ? diw_fail(rc, "diw_cq_resize: depth %u, with %u completions there", depth, tail - head) : 0;
}

uint32_t diw_cq_depth(const struct diw_cq *cq)
{
	return cq->depth;
}

void *diw_cq_ctx(const struct diw_cq *cq)
{
	return cq->ctx;
}

/* ---- Events ---- */

static void cq_fire(struct diw_cq *cq)
{
	cq->armed = DIW_CQ_IDLE;
	cq->told = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	if (!cq->channel)
		return;
	if (cq->nevents++ == 0)
		diw_list_add_tail(&cq->channel->events, &cq->event);
	cq->channel->fresh = true;
	mark_dirty(cq->channel);
	diw_engine_wake(&cq->dev->engine, cq->channel);
}

void diw_cq_push(struct diw_cq *cq)
{
	uint32_t tail = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	struct diw_wc *wc = &cq->ring[tail & cq->mask];
	bool solicited = (wc->flags & DIW_WC_SOLICITED) || wc->status != DIW_WC_SUCCESS;

	if (wc->qp->silent)
		return;
	DIW_TRACE_COMPLETION(wc->qp->c, cq, wc->wr_id, wc->opcode, wc->status, wc->byte_len);
	wc->time_ns = diw_engine_time(&cq->dev->engine);
	wc->qp_num = diw_qp_num(wc->qp);
	if (solicited)
		atomic_store_explicit(&cq->solicited, tail + 1, memory_order_relaxed);
	atomic_store_explicit(&cq->tail, tail + 1, memory_order_release);
	if (cq->armed == DIW_CQ_ARMED || (cq->armed == DIW_CQ_ARMED_SOLICITED && solicited))
		cq_fire(cq);
	if (cq->waiters)
		diw_engine_wake(&cq->dev->engine, cq);
}

/* AGAIN: completions that an event has announced raise one, too. */
static int cq_arm(struct diw_cq *cq, bool solicited_only, bool again)
{
	struct diw_engine *e = &cq->dev->engine;
	uint32_t first, upto;
	int rc = diw_engine_lock(e);

	if (rc < 0)
		return rc;
	first = atomic_load(&cq->head);
	if (!again && cq->told - first <= atomic_load(&cq->tail) - first)       /* or it was announced long ago */
		first = cq->told;
	upto = solicited_only ? atomic_load(&cq->solicited) : atomic_load(&cq->tail);
	cq->armed = solicited_only && cq->armed != DIW_CQ_ARMED ? DIW_CQ_ARMED_SOLICITED : DIW_CQ_ARMED;
	if (upto - first - 1 < atomic_load(&cq->tail) - first)
		cq_fire(cq);
	else                                    /* from here on, its Reads' timeouts are deadlines */
		diw_engine_hasten(e, diw_engine_deadline(e, false));
	diw_engine_unlock(e);
	if (cq->channel && atomic_load_explicit(&cq->channel->polled, memory_order_relaxed))
		diw_engine_hand_over(e);
	return 0;
}

int diw_cq_arm(struct diw_cq *cq, bool solicited_only)
{
	return cq_arm(cq, solicited_only, true);
}

int diw_cq_arm_later(struct diw_cq *cq, bool solicited_only)
{
	return cq_arm(cq, solicited_only, false);
}

/* Makes the descriptor readable if there are events, unless a thread in diw_channel_get() is about to take the
 * event. */
static void channel_sync(struct diw_deferred *d)
{
	struct diw_channel *ch = diw_container(d, struct diw_channel, sync);
	bool want = !diw_list_empty(&ch->events);

	if ((want && diw_engine_has_waiter(&ch->dev->engine, ch)) || ch->fd < 0)
		return;
	if (want && (ch->fresh || !ch->signalled))
		diw_eventfd_set(ch->fd);
	else if (!want && ch->signalled)
		diw_eventfd_clear(ch->fd);
	ch->signalled = want;
	ch->fresh = false;
}

int diw_channel_create(struct diw_dev *dev, struct diw_channel **out)
{
	struct diw_channel *ch = calloc(1, sizeof *ch);
	int rc;

	if (!ch)
		return -ENOMEM;
	ch->dev = dev;
	diw_list_init(&ch->events);
	diw_list_init(&ch->sync.link);
	ch->sync.run = channel_sync;
	ch->fd = diw_above_std(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	rc = ch->fd < 0 ? -EMFILE : diw_engine_lock(&dev->engine);
	if (rc < 0) {
		if (ch->fd >= 0)
			close(ch->fd);
		free(ch);
		return diw_fail(rc, "diw_channel_create");
	}
	dev->nchannels++;
	diw_engine_unlock(&dev->engine);
	*out = ch;
	return 0;
}

int diw_channel_destroy(struct diw_channel *ch)
{
	struct diw_dev *dev = ch->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (ch->ncqs) {
			diw_engine_unlock(&dev->engine);
			return diw_fail(-EBUSY, "diw_channel_destroy: a completion queue uses it");
		}
		dev->nchannels--;
		diw_list_del(&ch->sync.link);
		diw_engine_unlock(&dev->engine);
	}
	diw_engine_close_fd(&dev->engine, ch->fd);
	free(ch);
	return 0;
}

int diw_channel_fd(const struct diw_channel *ch)
{
	if (!diw_engine_alive(&ch->dev->engine))
		return -ENODEV;
	((struct diw_channel *)ch)->given = true;
	atomic_store_explicit(&((struct diw_channel *)ch)->polled, true, memory_order_relaxed);
	return ch->fd;
}

/* Learns how the program waits. A program that sleeps on the descriptor finds its event when it calls. A program that
 * sleeps in diw_channel_get() itself needs no leader thread, and is twice as fast without. */
static void channel_learn(struct diw_channel *ch, bool found, bool slept)
{
	ch->ready = slept || !found ? 0 : ch->ready < READY_IS_POLLED ? ch->ready + 1 : ch->ready;
	if (slept)
		atomic_store_explicit(&ch->polled, false, memory_order_relaxed);
	else if (ch->given && ch->ready == READY_IS_POLLED)
		atomic_store_explicit(&ch->polled, true, memory_order_relaxed);
}

static struct diw_cq *channel_take_event(struct diw_channel *ch)
{
	struct diw_list *l = diw_list_first(&ch->events);
	struct diw_cq *cq;

	if (!l)
		return NULL;
	cq = diw_container(l, struct diw_cq, event);
	diw_list_del(l);
	cq->taken++;
	cq->told = atomic_load_explicit(&cq->tail, memory_order_relaxed);
	if (--cq->nevents)
		diw_list_add_tail(&ch->events, l);
	diw_engine_app_back(&ch->dev->engine);
	mark_dirty(ch);
	return cq;
}

/* Makes the events that a waiting thread held back visible to threads that poll the descriptor. */
static void show_events(const void *channel)
{
	struct diw_channel *ch = (struct diw_channel *)channel;

	if (!diw_list_empty(&ch->events))
		mark_dirty(ch);
}

int diw_channel_get(struct diw_channel *ch, struct diw_cq **out, int64_t timeout_ns)
{
	struct diw_dev *dev = ch->dev;
	struct diw_waiter w;
	struct diw_cq *cq;
	uint64_t until, now;
	bool slept = false;
	int rc = diw_engine_lock_wait(&dev->engine, timeout_ns);

	if (rc < 0)
		return rc;
	until = diw_until(diw_engine_now(&dev->engine), timeout_ns);
	diw_waiter_init(&dev->engine, &w, ch);
	w.leave = show_events;
	while (!(cq = channel_take_event(ch))) {
		now = diw_engine_now(&dev->engine);
		diw_waiter_step(&dev->engine, &w, now, until);
		if ((cq = channel_take_event(ch)) || now >= until || w.interrupted)
			break;
		slept = true;
		diw_engine_sleep(&dev->engine, &w, until);
	}
	channel_learn(ch, cq, slept);
	diw_waiter_fini(&dev->engine, &w);
	diw_engine_unlock(&dev->engine);
	if (!cq)
		return w.interrupted ? -EINTR : -EAGAIN;
	*out = cq;
	return 0;
}

/* ---- Taking completions ---- */

static bool has_completions(const struct diw_cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_acquire) !=
	       atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static int cq_take(struct diw_cq *cq, struct diw_wc *wc, int n)
{
	uint32_t head, avail, taken;

	if (!has_completions(cq))
		return 0;
	pthread_mutex_lock(&cq->take);
	head = atomic_load_explicit(&cq->head, memory_order_relaxed);
	avail = atomic_load_explicit(&cq->tail, memory_order_acquire) - head;
	taken = avail < (uint32_t)n ? avail : (uint32_t)n;
	for (uint32_t i = 0; i < taken; i++)
		wc[i] = cq->ring[(head + i) & cq->mask];
	atomic_store_explicit(&cq->head, head + taken, memory_order_release);
	pthread_mutex_unlock(&cq->take);
	return (int)taken;
}

/* Does the work of a poll, unless another thread holds the lock. Runs at most SPINS steps, until there is a completion
 * or another thread has something to send. If the lock is held while queue pairs wait for room in CQ, its holder runs
 * the members when it unlocks (diw_engine_lock_or_leave()). */
static void try_steps(struct diw_cq *cq, uint64_t now, int spins)
{
	struct diw_engine *e = &cq->dev->engine;

	diw_engine_app_polls(e, now);
	if (!diw_engine_trylock(e) &&
	    (!atomic_load_explicit(&cq->starved, memory_order_relaxed) || !diw_engine_lock_or_leave(e)))
		return;
	feed_starved(cq, now);
	do
		diw_engine_step(e, now);
	while (--spins > 0 && !has_completions(cq) && !diw_engine_is_pending(e));
	diw_engine_unlock(e);
}

int diw_cq_poll(struct diw_cq *cq, struct diw_wc *wc, int n, int64_t timeout_ns)
{
	struct diw_dev *dev = cq->dev;
	uint64_t now, until;
	int got;

	if (!diw_engine_alive(&dev->engine))
		return -ENODEV;
	if (n < 1)
		return diw_fail(-EINVAL, "diw_cq_poll: %d completions", n);
	got = cq_take(cq, wc, n);
	if (got) {
		atomic_thread_fence(memory_order_seq_cst);      /* makes room before it looks for queue pairs that wait
								 * for room */
		if (atomic_load_explicit(&cq->starved, memory_order_relaxed))
			try_steps(cq, diw_engine_now(&dev->engine), 1);
		else if (diw_engine_has_unflushed(&dev->engine))
			diw_engine_flush_try(&dev->engine);
		return got;
	}
	now = diw_engine_now(&dev->engine);
	until = diw_until(now, timeout_ns);
	for (;;) {
		try_steps(cq, now, now < until ? SPINS_A_CLOCK : 1);
		got = cq_take(cq, wc, n);
		if (got || now >= until)
			return got;
		now = diw_engine_now(&dev->engine);
	}
}

static void wait_no_more(const void *cq)
{
	((struct diw_cq *)cq)->waiters--;
}

int diw_cq_wait(struct diw_cq *cq, struct diw_wc *wc, int n, int64_t timeout_ns)
{
	struct diw_dev *dev = cq->dev;
	struct diw_waiter w;
	uint64_t until, now;
	int rc, got;

	if (n < 1)
		return diw_fail(-EINVAL, "diw_cq_wait: %d completions", n);
	rc = diw_engine_lock_wait(&dev->engine, timeout_ns);
	if (rc < 0)
		return rc;
	until = diw_until(diw_engine_now(&dev->engine), timeout_ns);
	diw_waiter_init(&dev->engine, &w, cq);
	w.leave = wait_no_more;
	cq->waiters++;
	while (!(got = cq_take(cq, wc, n))) {
		now = diw_engine_now(&dev->engine);
		diw_waiter_step(&dev->engine, &w, now, until);
		got = cq_take(cq, wc, n);
		if (got || now >= until)
			break;
		diw_engine_sleep(&dev->engine, &w, until);
	}
	diw_waiter_fini(&dev->engine, &w);
	feed_starved(cq, diw_engine_now(&dev->engine));
	diw_engine_unlock(&dev->engine);
	return got;
}

void diw_cq_forget_maps(struct diw_cq *cq, const struct diw_qp *qp)
{
	pthread_mutex_lock(&cq->take);
	for (uint32_t i = atomic_load(&cq->head); i != atomic_load(&cq->tail); i++) {
		struct diw_wc *wc = &cq->ring[i & cq->mask];

		if (wc->qp == qp && wc->map) {
			wc->map = NULL;
			wc->nranges = 0;
		}
	}
	pthread_mutex_unlock(&cq->take);
}

int diw_cq_forget(struct diw_cq *cq, const struct diw_qp *qp)
{
	uint32_t tail, to;
	int rc = diw_engine_lock(&cq->dev->engine);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&cq->take);
	tail = atomic_load(&cq->tail);
	to = atomic_load(&cq->head);
	for (uint32_t i = to; i != tail; i++) {
		struct diw_wc *wc = &cq->ring[i & cq->mask];

		if (wc->qp == qp)
			diw_wc_forget(wc);
		else
			cq->ring[to++ & cq->mask] = *wc;
	}
	if (atomic_load(&cq->solicited) - to - 1 < tail - to)   /* its completion may be among these */
		atomic_store(&cq->solicited, to);
	atomic_store(&cq->tail, to);
	pthread_mutex_unlock(&cq->take);
	feed_starved(cq, diw_engine_now(&cq->dev->engine));
	diw_engine_unlock(&cq->dev->engine);
	return 0;
}
