/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of a device: one lock, one step, and sleep. It serves members and knows of them only the table of their
 * calls; what a member is (a queue pair, the port of groups, connections that negotiate) is the objects' affair. The
 * step is run by a thread that polls, by the leader of the threads that wait, by the progress thread, or by the
 * simulator. Time is what the owner's clock says.
 */
#ifndef DIW_VERBS_ENGINE_H
#define DIW_VERBS_ENGINE_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

#define DIW_MEMBER_FDS 3             /* descriptors of a member, at most */
#define DIW_ENGINE_FEW 4             /* so many members of the turn are tried one by one, more are in an epoll set */
#define DIW_ENGINE_FIXED_FDS 4       /* descriptors of all fixed members, at most */
#define DIW_ENGINE_FDS (DIW_ENGINE_FEW * DIW_MEMBER_FDS + DIW_ENGINE_FIXED_FDS)

struct diw_member;

/* All are called with the lock held. */
struct diw_member_ops {
	/* Looks at the descriptors and does what is due. Whether anything was received. */
	bool (*serve)(struct diw_member *m, uint64_t now);
	/* When there is work by the clock; DIW_NEVER none. WAITING: an application thread waits, or is about to. */
	uint64_t (*deadline)(const struct diw_member *m, bool waiting);
	/* Fills P with the descriptors, at most DIW_MEMBER_FDS, and what each is to be watched for; 0: nothing, though
	 * the end of a stream may show. Returns how many. NULL: there are none. */
	int (*fds)(const struct diw_member *m, struct pollfd *p);
	/* Of the turn: does what was posted while another thread held the lock, without a look at the descriptors. */
	void (*posted)(struct diw_member *m, uint64_t now);
	/* Of a fixed member: the engine is about to sleep. NULL: it does not matter. */
	void (*rest)(struct diw_member *m);
};

/* A member of the turn is served when its descriptors are ready, its deadline has come or it is starved, and begins
 * the step in its turn. A fixed member is served in every step, behind those. */
struct diw_member {
	const struct diw_member_ops *ops;
	struct diw_list link;        /* in the engine's turn, or among its fixed members */
	uint64_t deadline;           /* of the turn: no work by the clock before; the member keeps it */
	bool starved;                /* of the turn: it is served whenever deadlines are looked at */
};

/* What is to be done before the lock is released (diw_engine_defer()). */
struct diw_deferred {
	struct diw_list link;
	void (*run)(struct diw_deferred *d);
};

/* A thread asleep in a public call. Lives on its stack; the lock guards it. */
struct diw_waiter {
	struct diw_list link;
	sem_t sem;
	const void *object;          /* the completion queue, channel or device whose event it waits for */
	bool woken;
	bool interrupted;            /* its last sleep, by a signal's handler */
	void (*leave)(const void *object);   /* what diw_waiter_fini() does besides, or NULL */
};

struct diw_engine {
	pthread_mutex_t lock;
	atomic_bool pending;         /* a post found the lock held: its holder has the members run when it unlocks */
	unsigned fork_generation;
	uint64_t (*clock)(void *ctx);
	void *clock_ctx;
	struct diw_list turn;        /* the first begins the next step */
	struct diw_list fixed;
	int nturn;
	struct diw_list deferred;
	uint64_t timer_at;           /* no member of the turn has work by the clock before */
	uint64_t latest;             /* time that work has been done at */

	/* Sleep (sleep.c). Descriptors are -1 in the simulator, which never sleeps. */
	int epfd;                    /* every descriptor of the turn, when its members are many */
	bool epoll_on;
	int kick_fd;                 /* wakes the leader */
	struct diw_list waiters;     /* those that follow */
	const void *leader;          /* the waiter, or for its thread the engine, that sleeps on the descriptors */
	uint64_t leader_until;
	uint64_t burst_ns, burst_gap;        /* when a burst last came, how long after the one before it */
	atomic_ulong leader_seq;
	atomic_bool app_leads;
	uint64_t grace;              /* of the progress thread alone: how long after app_ns it takes over */
	_Atomic uint64_t app_ns;     /* when an application thread last polled or waited */
	atomic_bool app_away;        /* it armed, to sleep on a descriptor; until it takes the event */
	unsigned departures;         /* of descriptors that are slept on; sleepers since the last, and since before */
	unsigned asleep, asleep_before;
	pthread_cond_t all_awake;
	uint64_t wakeups;

	/* The progress thread (thread.c). */
	bool threaded;
	pthread_mutex_t thread_lock; /* of the next two; taken before the engine's, or alone */
	unsigned thread_users;
	pthread_t thread;
	atomic_bool stop, thread_deep, thread_parked;
	int thread_fd;               /* wakes it from the descriptors */
	sem_t thread_sem;            /* wakes it from a park */
};

/* ---- Begin and end, lock (lock.c) ---- */

void diw_engine_init(struct diw_engine *e, uint64_t (*clock)(void *ctx), void *clock_ctx);
/* The descriptors that sleep wants; THREADED: there may be a progress thread. -EMFILE */
int diw_engine_open(struct diw_engine *e, bool threaded);
void diw_engine_fini(struct diw_engine *e);
/* In a child after fork: every engine is dead, because the child shares the descriptors but not the threads. */
void diw_engine_forked(void);
bool diw_engine_alive(const struct diw_engine *e);

int diw_engine_lock(struct diw_engine *e);             /* -ENODEV after fork */
/* For calls that wait unless TIMEOUT_NS is 0: a cancellation point, although nothing may make the call sleep. */
int diw_engine_lock_wait(struct diw_engine *e, int64_t timeout_ns);
bool diw_engine_trylock(struct diw_engine *e);
/* False: another thread holds the lock, and will have the members do what was posted. */
bool diw_engine_lock_or_leave(struct diw_engine *e);
/* Runs what was deferred, and what posts left meanwhile. */
void diw_engine_unlock(struct diw_engine *e);
/* Without the lock: starved members are served, by this thread or by the holder of the lock. */
void diw_engine_nudge(struct diw_engine *e);
/* The lock is held. D may be deferred already. */
void diw_engine_defer(struct diw_engine *e, struct diw_deferred *d);

static inline uint64_t diw_engine_now(struct diw_engine *e) { return e->clock(e->clock_ctx); }

/* A caller may have read its clock before another did work; with the lock, time does not go back. */
static inline uint64_t diw_engine_forward(struct diw_engine *e, uint64_t now)
{
	if (now > e->latest)
		e->latest = now;
	return e->latest;
}

/* The time of the work that is being done; the lock is held. */
static inline uint64_t diw_engine_time(const struct diw_engine *e) { return e->latest; }
/* What was posted waits for the holder of the lock. */
static inline bool diw_engine_is_pending(const struct diw_engine *e)
{
	return atomic_load_explicit(&e->pending, memory_order_relaxed);
}
static inline void diw_engine_set_pending(struct diw_engine *e) { atomic_store(&e->pending, true); }

/* ---- Members and work; the lock is held (step.c) ---- */

int diw_engine_add(struct diw_engine *e, struct diw_member *m);        /* to the turn. -errno of epoll_ctl(2) */
void diw_engine_remove(struct diw_engine *e, struct diw_member *m);
void diw_engine_add_fixed(struct diw_engine *e, struct diw_member *m);
void diw_engine_remove_fixed(struct diw_engine *e, struct diw_member *m);
/* All that is due, a fair share of each member. Returns the next deadline (DIW_NEVER none). */
uint64_t diw_engine_step(struct diw_engine *e, uint64_t now);
/* The deadline that the next step has, as far as it is known without asking every member of the turn. */
uint64_t diw_engine_due(const struct diw_engine *e);
/* Until when the engine may sleep. WAITING: an application thread waits. */
uint64_t diw_engine_deadline(const struct diw_engine *e, bool waiting);
/* The next step serves every member that is due or starved. */
static inline void diw_engine_recheck(struct diw_engine *e) { e->timer_at = 0; }

/* ---- Descriptors of the turn; the lock is held (ready.c) ---- */

/* M has descriptors that it did not have. */
void diw_ready_open(struct diw_engine *e, struct diw_member *m);
/* M is about to close its descriptors. */
void diw_ready_close(struct diw_engine *e, struct diw_member *m);
/* M's descriptors are to be watched for something else. */
void diw_ready_changed(struct diw_engine *e, struct diw_member *m);

/* ---- Wake-ups; the lock is held (wake.c) ---- */

/* Wakes every thread that waits for OBJECT. */
void diw_engine_wake(struct diw_engine *e, const void *object);
bool diw_engine_has_waiter(const struct diw_engine *e, const void *object);
/* The leader sleeps on too little: there is another descriptor. */
void diw_engine_kick(struct diw_engine *e);
/* There is work at time T, whichever thread found it: neither a step nor the leader comes later. */
void diw_engine_hasten(struct diw_engine *e, uint64_t t);
/* A thread sleeps on the descriptors. */
static inline bool diw_engine_is_led(const struct diw_engine *e) { return e->leader; }

/* ---- Sleep; the lock is held, and released meanwhile (sleep.c) ---- */

void diw_waiter_init(struct diw_engine *e, struct diw_waiter *w, const void *object);
/* Sleeps until something may have happened, at the latest UNTIL. The caller then steps and looks. A cancellation point:
 * a cancelled thread gives up W by diw_waiter_fini(), and the lock, which is all that it may hold. */
void diw_engine_sleep(struct diw_engine *e, struct diw_waiter *w, uint64_t until);
void diw_waiter_fini(struct diw_engine *e, struct diw_waiter *w);
/* No thread sleeps any more on the descriptors that are there now. */
void diw_engine_rouse(struct diw_engine *e);
uint64_t diw_until(uint64_t now, int64_t timeout_ns);

/* ---- The progress thread; without the lock (thread.c) ---- */

/* The thread is there while it has users: the first use starts it, the end of the last one ends it. */
int diw_thread_use(struct diw_engine *e);      /* -EAGAIN: there can be no thread */
void diw_thread_unuse(struct diw_engine *e);
/* The application is about to sleep where the library does not see it: the progress thread takes over at once. */
void diw_engine_hand_over(struct diw_engine *e);
/* An application thread polls. */
static inline void diw_engine_app_polls(struct diw_engine *e, uint64_t now)
{
	atomic_store_explicit(&e->app_ns, now, memory_order_relaxed);
}
/* The application that was handed over from is back. */
static inline void diw_engine_app_back(struct diw_engine *e) { atomic_store(&e->app_away, false); }

#endif
