/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of a device: one lock, the step, and sleep. It serves members, of which it knows only a table of calls.
 * Members are queue pairs and, as fixed members, the port of groups, connections, shared memory and the page of
 * counters. The step is run by a thread that polls, by the leader of the waiting threads, by the progress thread, or by
 * the simulator. The time is that of the owner's clock.
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

#define DIW_MEMBER_FDS 3             /* the most descriptors of a member */
#define DIW_ENGINE_FEW 4             /* up to this many members of the turn are tried one by one; more are in an epoll
				      * set */
#define DIW_ENGINE_FIXED_FDS 5       /* the most descriptors of all fixed members */
#define DIW_ENGINE_FDS (DIW_ENGINE_FEW * DIW_MEMBER_FDS + DIW_ENGINE_FIXED_FDS)

struct diw_member;

/* All are called with the lock held. */
struct diw_member_ops {
	/* Reads the descriptors and does the work that is due. Returns whether anything was received. */
	bool (*serve)(struct diw_member *m, uint64_t now);
	/* Time of the next work; DIW_NEVER: none. WAITING: an application thread waits, or is about to. */
	uint64_t (*deadline)(const struct diw_member *m, bool waiting);
	/* Writes the descriptors to P, at most DIW_MEMBER_FDS, with the events to watch for. No events: the descriptor
	 * is not watched, but may report the end of a stream. Returns their number. NULL: there are none. */
	int (*fds)(const struct diw_member *m, struct pollfd *p);
	/* Member of the turn: executes posts made while another thread held the lock, without reading the
	 * descriptors. */
	void (*posted)(struct diw_member *m, uint64_t now);
	/* Member of the turn: sends what its posts have left open, see diw_engine_flush_later(). */
	void (*flush)(struct diw_member *m, uint64_t now);
	/* Fixed member: called before the engine sleeps. NULL: no call. */
	void (*rest)(struct diw_member *m);
};

/* A member of the turn is served when its descriptors are ready, its deadline has come, or it is starved. The members
 * take turns at being the first of a step. A fixed member is served in every step, after those. */
struct diw_member {
	const struct diw_member_ops *ops;
	struct diw_list link;        /* in the engine's turn, or in its list of fixed members */
	/* Member of the turn: */
	struct diw_list timed;       /* in the engine's list while it has a deadline or is starved, and until the next
				      * check of deadlines */
	uint64_t deadline;           /* time of the next work: diw_engine_due_at() */
	bool starved;                /* served whenever deadlines are checked: diw_engine_starve() */
	atomic_bool left;            /* a post was left to the next one (DIW_SEND_MORE), or to a step */
	struct diw_list unflushed;   /* in the engine's list while posts have left a super-buffer open */
	uint64_t posted_at;          /* end of the last post that another one may continue, and the steps before it */
	unsigned long post_step;
};

/* Work to be done before the lock is released (diw_engine_defer()). */
struct diw_deferred {
	struct diw_list link;
	void (*run)(struct diw_deferred *d);
};

/* A thread that sleeps in a public call. It is on the thread's stack, and guarded by the lock. */
struct diw_waiter {
	struct diw_list link;
	sem_t sem;
	const void *object;          /* the completion queue, channel or device whose event the thread waits for */
	bool woken, slept;
	bool interrupted;            /* a signal's handler ended the last sleep */
	void (*leave)(const void *object);   /* called by diw_waiter_fini(); or NULL */
};

struct diw_engine {
	pthread_mutex_t lock;
	atomic_uint left;            /* members with posts that were left to a step */
	atomic_bool pending;         /* a post found the lock held: the holder runs the members when it unlocks */
	unsigned fork_generation;
	uint64_t (*clock)(void *ctx);
	void *clock_ctx;
	struct diw_list turn;        /* the first member begins the next step */
	struct diw_list fixed;
	struct diw_list timed;       /* the members of the turn that a check of deadlines is about */
	int nturn;
	struct diw_list deferred;
	uint64_t timer_at;           /* no member of the turn has work by the clock before this time */
	uint64_t latest;             /* latest time at which work was done */
	unsigned long steps;

	/* ---- Super-buffers that posts have left open (flush.c) ---- */
	struct diw_list unflushed;   /* their members */
	struct diw_list enlisted;    /* the process' engines that have a progress thread */
	atomic_bool has_unflushed;   /* this list is not empty; read without the lock */
	_Atomic uint64_t open_at;    /* since when the first of them is open; read without the lock */
	uint64_t no_burst_until;
	atomic_bool watched;         /* the progress thread looks after them */
	uint64_t watch_gap;          /* progress thread only: time between two looks */

	/* ---- Sleep (sleep.c). Descriptors are -1 in the simulator, which never sleeps ---- */
	int epfd;                    /* kick_fd; and all descriptors of the turn, if it has many members */
	bool epoll_on;
	int kick_fd;                 /* wakes the leader */
	int alarm_fd;                /* a timer for short sleeps on the descriptors, see sleep.c */
	uint64_t alarm_at;           /* its time; it may have expired */
	struct diw_list waiters;     /* the followers */
	const void *leader;          /* the waiter that sleeps on the descriptors, or for the progress thread the
				      * engine */
	uint64_t leader_until;
	uint64_t look_at;            /* when a sleeper looks whether its descriptors are closed */
	bool idle;                   /* the last leader's descriptors were not ready when it began to sleep */
	uint64_t burst_ns, burst_gap;        /* time of the last burst; time between it and the one before */
	atomic_ulong leader_seq;
	atomic_bool app_leads;
	uint64_t grace;              /* progress thread only: time after app_ns at which it takes over */
	_Atomic uint64_t app_ns;     /* when an application thread last polled or waited */
	atomic_bool app_away;        /* the application armed, to sleep on a descriptor; cleared when it takes the
				      * event, or keeps polling */
	_Atomic uint64_t away_since; /* with that: the first of its polls that follow each other closely; 0: none */
	unsigned departures;         /* count of closed descriptors on which a thread may sleep; sleepers since the last
				      * one, and from before */
	unsigned asleep, asleep_before;
	pthread_cond_t all_awake;
	uint64_t wakeups;

	/* ---- The progress thread (thread.c) ---- */
	bool threaded;
	bool spins;                  /* the thread does not sleep while the application does */
	uint64_t thread_receives;    /* steps of the thread that received something */
	bool spinning;               /* such a thread runs; guarded by the lock */
	atomic_uint followers;       /* threads that sleep while it runs */
	atomic_uint lockers;         /* threads that wait for the lock: it does not take the lock again before them */
	pthread_mutex_t thread_lock; /* guards the next two; taken before the engine's lock, or alone */
	unsigned thread_users;
	pthread_t thread;
	atomic_bool stop, thread_deep, thread_parked;
	int thread_fd;               /* wakes the thread from a sleep on the descriptors */
	sem_t thread_sem;            /* wakes the thread from a park */
};

/* ---- Begin and end, lock (lock.c) ---- */

void diw_engine_init(struct diw_engine *e, uint64_t (*clock)(void *ctx), void *clock_ctx);
/* Opens the descriptors that sleep needs. THREADED: there may be a progress thread. SPINS: which does not sleep.
 * -EMFILE */
int diw_engine_open(struct diw_engine *e, bool threaded, bool spins);
void diw_engine_fini(struct diw_engine *e);
/* False: the program has closed the descriptors, as daemons do. The numbers may be other files'. */
bool diw_engine_has_fds(struct diw_engine *e);
void diw_engine_close_fd(struct diw_engine *e, int fd);        /* unless the program has closed it, or FD is -1 */
/* Call in a child after fork(2). Every engine is dead there, since the child shares the descriptors but has none of the
 * threads. */
void diw_engine_forked(void);
bool diw_engine_alive(const struct diw_engine *e);

int diw_engine_lock(struct diw_engine *e);             /* -ENODEV after fork(2) */
/* For calls that wait unless TIMEOUT_NS is 0. It is a cancellation point, even if the call would not sleep. */
int diw_engine_lock_wait(struct diw_engine *e, int64_t timeout_ns);
bool diw_engine_trylock(struct diw_engine *e);
/* False: another thread holds the lock, and will execute what was posted. */
bool diw_engine_lock_or_leave(struct diw_engine *e);
/* Does the deferred work, and executes posts that found the lock held. */
void diw_engine_unlock(struct diw_engine *e);
/* Called without the lock: starved members are served, by this thread or by the lock's holder. */
void diw_engine_nudge(struct diw_engine *e);
/* Called without the lock: a post to M does not run it. A later post does, or else the next step. */
void diw_engine_leave_post(struct diw_engine *e, struct diw_member *m);
/* Called before the posts of M run. */
void diw_engine_take_posts(struct diw_engine *e, struct diw_member *m);
/* Called with the lock. D may already be deferred. */
void diw_engine_defer(struct diw_engine *e, struct diw_deferred *d);

static inline uint64_t diw_engine_now(struct diw_engine *e) { return e->clock(e->clock_ctx); }

/* A thread may have read its clock before another one did work. Under the lock, time does not go back. */
static inline uint64_t diw_engine_forward(struct diw_engine *e, uint64_t now)
{
	if (now > e->latest)
		e->latest = now;
	return e->latest;
}

/* The time of the current work; the lock is held. */
static inline uint64_t diw_engine_time(const struct diw_engine *e) { return e->latest; }
/* Posts wait for the holder of the lock. */
static inline bool diw_engine_is_pending(const struct diw_engine *e)
{
	return atomic_load_explicit(&e->pending, memory_order_relaxed);
}
static inline void diw_engine_set_pending(struct diw_engine *e) { atomic_store(&e->pending, true); }

/* ---- Members and work; the lock is held (step.c) ---- */

int diw_engine_add(struct diw_engine *e, struct diw_member *m);        /* to the turn; -errno of epoll_ctl(2) */
void diw_engine_remove(struct diw_engine *e, struct diw_member *m);
void diw_engine_add_fixed(struct diw_engine *e, struct diw_member *m);
void diw_engine_remove_fixed(struct diw_member *m);
/* Does all work that is due, a fair share for each member. Returns the next deadline (DIW_NEVER: none). */
uint64_t diw_engine_step(struct diw_engine *e, uint64_t now);
/* The same, but the descriptors of the turn are not read. */
void diw_engine_step_unread(struct diw_engine *e, uint64_t now);
/* The deadline of the next step, as far as it is known without asking every member of the turn. */
uint64_t diw_engine_due(const struct diw_engine *e);
/* The time until which the engine may sleep. WAITING: an application thread waits. */
uint64_t diw_engine_deadline(const struct diw_engine *e, bool waiting);
/* M has work at the time T; DIW_NEVER: none. Neither the next step nor the leader's wake-up is later. */
void diw_engine_due_at(struct diw_engine *e, struct diw_member *m, uint64_t t);
/* M is served whenever deadlines are checked, until its next run. */
void diw_engine_starve(struct diw_engine *e, struct diw_member *m);
/* The next step serves every member that is due or starved. */
static inline void diw_engine_recheck(struct diw_engine *e) { e->timer_at = 0; }

/* ---- Super-buffers that posts leave open; the lock is held, except where noted (flush.c) ---- */

/* Whether a post to M at the time NOW continues a burst, so that the message may wait for the next one. */
bool diw_engine_in_burst(struct diw_engine *e, const struct diw_member *m, uint64_t now);
/* Whether the burst of M still goes on at the time NOW, if no step was in between. Only the poster calls this, without
 * the lock. */
bool diw_engine_burst_lasts(const struct diw_engine *e, const struct diw_member *m, uint64_t now);
/* M has a super-buffer that is to be flushed soon: by the next step, by the next call that takes the lock, or by the
 * progress thread. */
void diw_engine_flush_later(struct diw_engine *e, struct diw_member *m, uint64_t now);
/* M has no open super-buffer. */
void diw_engine_flushed(struct diw_engine *e, struct diw_member *m);
void diw_engine_flush_all(struct diw_engine *e);
static inline void diw_engine_flush(struct diw_engine *e)
{
	if (!diw_list_empty(&e->unflushed))
		diw_engine_flush_all(e);
}
/* Called without the lock: this thread or the lock's holder flushes. */
void diw_engine_flush_try(struct diw_engine *e);
static inline bool diw_engine_has_unflushed(const struct diw_engine *e)
{
	return atomic_load_explicit(&e->has_unflushed, memory_order_relaxed);
}

/* ---- Descriptors of the turn; the lock is held (ready.c) ---- */

/* M has new descriptors. */
void diw_ready_open(struct diw_engine *e, struct diw_member *m);
/* M is about to close its descriptors. */
void diw_ready_close(struct diw_engine *e, struct diw_member *m);
/* M's descriptors are to be watched for other events. */
void diw_ready_changed(struct diw_engine *e, struct diw_member *m);

/* ---- Wake-ups; the lock is held (wake.c) ---- */

/* Wakes every thread that waits for OBJECT. */
void diw_engine_wake(struct diw_engine *e, const void *object);
bool diw_engine_has_waiter(const struct diw_engine *e, const void *object);
/* Wakes the leader, because there is a new descriptor. */
void diw_engine_kick(struct diw_engine *e);
/* There is work at time T: neither the next step nor the leader's wake-up is later. */
void diw_engine_hasten(struct diw_engine *e, uint64_t t);
/* A thread sleeps on the descriptors. */
static inline bool diw_engine_is_led(const struct diw_engine *e) { return e->leader; }

/* ---- Sleep; the lock is held, and released meanwhile (sleep.c) ---- */

void diw_waiter_init(struct diw_engine *e, struct diw_waiter *w, const void *object);
/* The step of a thread that waits until UNTIL. */
void diw_waiter_step(struct diw_engine *e, const struct diw_waiter *w, uint64_t now, uint64_t until);
/* Sleeps until an event may have come, at the latest until UNTIL. The caller then runs a step and checks. It is a
 * cancellation point: a cancelled thread gives up W by diw_waiter_fini(), and the lock, which must be the only lock it
 * holds. */
void diw_engine_sleep(struct diw_engine *e, struct diw_waiter *w, uint64_t until);
void diw_waiter_fini(struct diw_engine *e, struct diw_waiter *w);
/* Wakes every thread that sleeps on the current descriptors. */
void diw_engine_rouse(struct diw_engine *e);
uint64_t diw_until(uint64_t now, int64_t timeout_ns);

/* ---- The progress thread; without the lock (thread.c) ---- */

/* The thread exists while it has users: the first use starts it, the end of the last one ends it. */
int diw_thread_use(struct diw_engine *e);      /* -EAGAIN: no thread could be created */
void diw_thread_unuse(struct diw_engine *e);
/* The application is about to sleep where the library does not see it: the progress thread takes over at once. */
void diw_engine_hand_over(struct diw_engine *e);
/* The application is back from that sleep. */
static inline void diw_engine_app_back(struct diw_engine *e) { atomic_store(&e->app_away, false); }
/* The application polls at the time NOW, although it is away. */
void diw_engine_app_stays(struct diw_engine *e, uint64_t now);
/* An application thread polls. */
static inline void diw_engine_app_polls(struct diw_engine *e, uint64_t now)
{
	if (atomic_load_explicit(&e->app_away, memory_order_relaxed))
		diw_engine_app_stays(e, now);
	atomic_store_explicit(&e->app_ns, now, memory_order_relaxed);
}

#endif
