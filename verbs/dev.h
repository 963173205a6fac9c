/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device: one lock, one step function, and who calls it: a thread that polls a completion queue, a thread that waits
 * for one (the leader sleeps on the sockets, the others on semaphores), the progress thread when no application thread
 * has looked for a while, or the simulator.
 */
#ifndef DIW_VERBS_DEV_H
#define DIW_VERBS_DEV_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/list.h"
#include "ddp/stag.h"
#include "llp/dgram.h"
#include "llp/stream.h"
#include "verbs/cm.h"
#include "verbs/diw.h"

/* Where datagrams and time come from: sockets and the monotonic clock, or the simulator. */
struct diw_transport {
	uint64_t (*now)(struct diw_transport *t);
	int (*open)(struct diw_transport *t, const struct diw_dgram_attr *attr, struct diw_dgram **d);
	int (*connect)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream **s);
	int (*listen)(struct diw_transport *t, const struct diw_stream_attr *attr, struct diw_stream_listener **l);
};

/* A device on another transport: no thread, no descriptors; the caller steps it. */
int diw_dev_open_transport(struct diw_transport *t, const struct diw_dev_info *info, struct diw_dev **dev);

#define DIW_DEV_EVENTS 256

/* A thread asleep in a public call. Lives on its stack; the device's lock guards it. */
struct diw_waiter {
	struct diw_list link;
	sem_t sem;
	const void *object;          /* the completion queue, channel or device whose event it waits for */
	bool woken;
	bool interrupted;            /* its last sleep, by a signal's handler */
	void (*leave)(const void *object);   /* what diw_waiter_fini() does besides, or NULL */
};

struct diw_dev {
	pthread_mutex_t lock;
	atomic_bool pending;         /* a post found the lock held: whoever unlocks runs the send queues */
	unsigned fork_generation;
	struct diw_transport *transport;
	struct diw_dev_info info;
	int npds, nqps, ncqs, nchannels;
	struct diw_list qps;         /* the first has the next turn */
	struct diw_list dirty;       /* channels whose descriptor does not tell the truth yet */
	struct diw_stag_table stags;
	uint64_t timer_at;           /* no queue pair has work by the clock before */
	uint64_t latest;             /* time that work has been done at */

	struct diw_cm_engine *cm;    /* verbs/cm.c; NULL until the first channel */
	struct diw_group_port *groups;       /* verbs/group.c; NULL while no queue pair is attached to any */
	struct diw_mpa_pool *mpa_pool;       /* of its RC queue pairs; NULL until the first is connected */
	struct diw_rdmap_snap_pool *snap_pool;       /* the same */

	/* verbs/stat.c */
	bool shows;                  /* its queue pairs count where others see it */
	uint32_t nshown;
	uint64_t stat_at, stat_ns;   /* when their states are written again, were written */

	/* Sleeping (verbs/wait.c). Descriptors are -1 on a transport without. */
	int epfd;                    /* every queue pair's socket, when they are many */
	bool epoll_on;
	int kick_fd;                 /* wakes the leader */
	struct diw_list waiters;     /* those that follow */
	const void *leader;          /* the waiter, or the device itself for its thread, that sleeps on the sockets */
	uint64_t leader_until;
	uint64_t burst_ns, burst_gap;        /* when a burst last came, how long after the one before it */
	atomic_ulong leader_seq;
	atomic_bool app_leads;
	uint64_t grace;              /* of the progress thread alone: how long after app_ns it takes over */
	_Atomic uint64_t app_ns;     /* when an application thread last polled or waited */
	atomic_bool app_away;        /* it armed, to sleep on a descriptor; until it takes the event */
	unsigned departures;         /* of sockets that are slept on; those asleep since the last, and since before */
	unsigned asleep, asleep_before;
	pthread_cond_t all_awake;
	uint64_t wakeups;

	/* The progress thread (verbs/wait.c). */
	pthread_mutex_t thread_lock; /* of the next two; taken before the device's, or alone */
	unsigned thread_users;
	pthread_t thread;
	atomic_bool stop, thread_deep, thread_parked;
	int thread_fd;               /* wakes it from the sockets */
	sem_t thread_sem;            /* wakes it from a park */

	struct diw_event events[DIW_DEV_EVENTS];
	uint32_t events_head, events_n;
	int event_fd;
};

/* ---- Locking (verbs/dev.c) ---- */

bool diw_dev_alive(const struct diw_dev *dev);                 /* false in a child after fork */
int diw_dev_lock(struct diw_dev *dev);                         /* -ENODEV after fork */
/* Of calls that wait unless TIMEOUT_NS is 0: a cancellation point before, as they are when nothing makes them sleep. */
int diw_dev_lock_wait(struct diw_dev *dev, int64_t timeout_ns);
void diw_dev_unlock(struct diw_dev *dev);                      /* and what posts left meanwhile */
/* Without the lock: queue pairs that are starved are served, by this thread or by who holds the lock. */
void diw_dev_nudge(struct diw_dev *dev);
static inline uint64_t diw_dev_now(struct diw_dev *dev) { return dev->transport->now(dev->transport); }

/* A caller may have read its clock before another did work; with the lock, time does not go back. */
static inline uint64_t diw_dev_forward(struct diw_dev *dev, uint64_t now)
{
	if (now > dev->latest)
		dev->latest = now;
	return dev->latest;
}

/* ---- Work; the lock is held (verbs/dev.c) ---- */

/* All that is due, a fair share of each queue pair. Returns the next deadline (DIW_NEVER none). */
uint64_t diw_dev_step_locked(struct diw_dev *dev, uint64_t now);
/* The same for the simulator, which holds no lock. */
uint64_t diw_dev_step(struct diw_dev *dev, uint64_t now);
/* Until when the device may sleep. WAITING: an application thread waits, so outstanding Reads count. */
uint64_t diw_dev_deadline(const struct diw_dev *dev, bool waiting);
void diw_dev_event(struct diw_dev *dev, const struct diw_event *ev);
/* OBJECT, a queue pair or an SRQ, is about to go. */
void diw_dev_forget_events(struct diw_dev *dev, const void *object);

/* ---- Which queue pairs are ready; the lock is held (verbs/ready.c) ---- */

#define DIW_READY_FEW 4              /* so many queue pairs are tried one by one, more are in an epoll set */
/* And connection management's, and the group port's. */
#define DIW_READY_FDS (DIW_READY_FEW * DIW_DGRAM_FDS + 1 + DIW_DGRAM_FDS)

/* Add before the queue pair is counted, delete after. */
int diw_ready_add(struct diw_qp *qp);
void diw_ready_del(struct diw_qp *qp);
/* RC: its link has just been opened, is about to be closed. */
void diw_ready_open(struct diw_qp *qp);
void diw_ready_close(struct diw_qp *qp);
void diw_ready_changed(struct diw_qp *qp);   /* qp->blocked, or its descriptors, may have changed */
/* What to sleep on; room for DIW_READY_FDS. */
int diw_ready_pollfds(const struct diw_dev *dev, struct pollfd *p);
void diw_ready_serve(struct diw_dev *dev, uint64_t now);

/* ---- Sleeping; the lock is held, and given up meanwhile (verbs/wait.c) ---- */

void diw_waiter_init(struct diw_dev *dev, struct diw_waiter *w, const void *object);
/* Sleep until something may have happened, at the latest UNTIL. The caller then steps and looks. A cancellation point:
 * a cancelled thread gives up W by diw_waiter_fini(), and the lock, which is all that it may hold. */
void diw_dev_sleep(struct diw_dev *dev, struct diw_waiter *w, uint64_t until);
void diw_waiter_fini(struct diw_dev *dev, struct diw_waiter *w);
/* Wake who waits for OBJECT. */
void diw_dev_wake(struct diw_dev *dev, const void *object);
bool diw_dev_has_waiter(const struct diw_dev *dev, const void *object);
/* The leader sleeps on too little: there is another descriptor. */
void diw_dev_kick(struct diw_dev *dev);
/* There is work at that time, whoever found it: neither a step nor the leader comes later. */
void diw_dev_hasten(struct diw_dev *dev, uint64_t t);
/* Nobody sleeps any more on the sockets that are there now; the lock is given up meanwhile. */
void diw_dev_rouse(struct diw_dev *dev);
/* The application is about to sleep where the library does not see it: the progress thread takes over at once. */
void diw_dev_hand_over(struct diw_dev *dev);
uint64_t diw_until(uint64_t now, int64_t timeout_ns);

/* The progress thread, where the device has one, is there for protection domains, which every queue pair needs, and for
 * channels of connection management: the first use starts it, the end of the last one ends it. Without the lock. */
int diw_thread_use(struct diw_dev *dev);     /* -EAGAIN: there can be no thread */
void diw_thread_unuse(struct diw_dev *dev);

#endif
