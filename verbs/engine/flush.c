/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Super-buffers, and writes of RC, that stay open behind a post, and short requests that wait to be executed
 * (verbs/post.c). A program may post a burst in many calls: the first call sends at once, and the messages of the next
 * ones wait for more, until a full super-buffer, a step, another call, or the progress thread sends them.
 */
#include <time.h>

#include "verbs/engine/int.h"

/* A post continues a burst if it comes at most this time after the last one, and no step was between. UCX, which posts
 * the parts of a message one by one, and copies each of them before, needs 0.1 to 0.4 us. */
#define BURST_GAP_NS (2 * DIW_US)
/* A post sends at once what is open for so long: the time in which 4 KiB a call fill a super-buffer. */
#define OPEN_MOST_NS (20 * DIW_US)
/* The progress thread looks so often while super-buffers are open, and sends what is open for so long. While it finds
 * none, it looks less and less often: a look each 50 us takes 14 % of a processor. */
#define WATCH_NS (50 * DIW_US)
#define WATCH_MOST_NS (400 * DIW_US)
/* The progress thread no longer looks when no post has left a super-buffer open for this time. */
#define WATCH_END_NS DIW_MS
/* The progress thread had to send: the program posts and does not poll behind it. For this time each post sends at
 * once, so such a program waits at most once in that time. */
#define BURST_PAUSE_NS (5 * DIW_MS)
/* At the end of the process: the longest wait for a thread that has the lock. A busy machine may have suspended it. */
#define EXIT_WAIT_NS (200 * DIW_MS)

static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static struct diw_list engines = { &engines, &engines };

bool diw_engine_burst_lasts(const struct diw_engine *e, const struct diw_member *m, uint64_t now)
{
	return now < m->posted_at + BURST_GAP_NS &&
	       now < atomic_load_explicit(&e->open_at, memory_order_relaxed) + OPEN_MOST_NS;
}

bool diw_engine_in_burst(struct diw_engine *e, const struct diw_member *m, uint64_t now)
{
	if (!e->threaded || now < e->no_burst_until || m->post_step != e->steps || now >= m->posted_at + BURST_GAP_NS)
		return false;
	if (e->leader && e->leader != e)
		return false;
	return diw_list_empty(&m->unflushed) || diw_engine_burst_lasts(e, m, now);
}

void diw_engine_flush_later(struct diw_engine *e, struct diw_member *m, uint64_t now)
{
	if (diw_list_empty(&e->unflushed)) {
		atomic_store_explicit(&e->open_at, now, memory_order_relaxed);
		atomic_store_explicit(&e->has_unflushed, true, memory_order_relaxed);
	}
	if (diw_list_empty(&m->unflushed))
		diw_list_add_tail(&e->unflushed, &m->unflushed);
	if (!atomic_load_explicit(&e->watched, memory_order_relaxed)) {
		atomic_store(&e->watched, true);
		sem_post(&e->thread_sem);
		diw_engine_kick(e);             /* as the leader, it sleeps on the descriptors */
	}
}

void diw_engine_flushed(struct diw_engine *e, struct diw_member *m)
{
	if (diw_list_empty(&m->unflushed))
		return;
	diw_list_del(&m->unflushed);
	atomic_store_explicit(&e->has_unflushed, !diw_list_empty(&e->unflushed), memory_order_relaxed);
}

void diw_engine_flush_all(struct diw_engine *e)
{
	struct diw_list *l;

	while ((l = diw_list_first(&e->unflushed))) {
		struct diw_member *m = diw_container(l, struct diw_member, unflushed);

		diw_engine_flushed(e, m);
		m->ops->flush(m, diw_engine_forward(e, diw_engine_now(e)));
	}
}

void diw_engine_flush_try(struct diw_engine *e)
{
	if (!diw_engine_lock_or_leave(e))
		return;
	diw_engine_flush(e);
	diw_engine_unlock(e);
}

uint64_t diw_flush_watch(struct diw_engine *e)
{
	uint64_t now;
	bool late;

	if (!atomic_load(&e->watched))
		return DIW_NEVER;
	now = diw_engine_now(e);
	e->watch_gap = diw_engine_has_unflushed(e) ? WATCH_NS
						   : diw_min64(2 * diw_max64(e->watch_gap, WATCH_NS), WATCH_MOST_NS);
	late = diw_engine_has_unflushed(e) && now >= atomic_load_explicit(&e->open_at, memory_order_relaxed) + WATCH_NS;
	/* Other threads may hold the lock whenever this one looks: the holder flushes what is late as it unlocks. */
	if (late ? !diw_engine_lock_or_leave(e) : !diw_engine_trylock(e))
		return now + e->watch_gap;
	if (diw_list_empty(&e->unflushed)) {
		if (now > e->open_at + WATCH_END_NS)
			atomic_store(&e->watched, false);
	} else if (now >= e->open_at + WATCH_NS) {
		diw_engine_flush_all(e);
		e->no_burst_until = now + BURST_PAUSE_NS;
	}
	diw_engine_unlock(e);
	return atomic_load(&e->watched) ? now + e->watch_gap : DIW_NEVER;
}

/* ---- End of the process ---- */

void diw_flush_enlist(struct diw_engine *e)
{
	pthread_mutex_lock(&engines_lock);
	diw_list_add_tail(&engines, &e->enlisted);
	pthread_mutex_unlock(&engines_lock);
}

void diw_flush_delist(struct diw_engine *e)
{
	pthread_mutex_lock(&engines_lock);
	diw_list_del(&e->enlisted);
	pthread_mutex_unlock(&engines_lock);
}

/* The child has none of these engines, and another thread of the parent may have held the lock. */
void diw_flush_forked(void)
{
	pthread_mutex_init(&engines_lock, NULL);
	diw_list_init(&engines);
}

/* Posts may have been left to the thread that has the lock, and it may be about to send them. */
static void engine_flush_at_exit(struct diw_engine *e)
{
	const struct timespec nap = { .tv_nsec = 100 * DIW_US };
	uint64_t until = diw_clock_ns() + EXIT_WAIT_NS;

	while (!diw_engine_trylock(e)) {
		if (diw_clock_ns() >= until)
			return;
		nanosleep(&nap, NULL);
	}
	diw_engine_flush(e);
	diw_engine_unlock(e);
}

/* exit(3), or the return of main(): sends what the last posts have left. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct diw_list *l;

	if (pthread_mutex_trylock(&engines_lock))
		return;
	for (l = engines.next; l != &engines; l = l->next)
		engine_flush_at_exit(diw_container(l, struct diw_engine, enlisted));
	pthread_mutex_unlock(&engines_lock);
}
