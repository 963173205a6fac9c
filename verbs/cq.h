/* SPDX-License-Identifier: BSD-2-Clause */
/* The completion queue, between its producer (the engine) and its consumers (threads that poll). */
#ifndef DIW_VERBS_CQ_H
#define DIW_VERBS_CQ_H

#include "verbs/dev.h"

struct diw_channel {
	struct diw_dev *dev;
	struct diw_list events;      /* completion queues with an event */
	struct diw_deferred sync;    /* deferred update of the descriptor */
	int fd;                      /* an eventfd; readable while `events` is not empty */
	bool signalled;              /* the descriptor is readable */
	bool fresh;                  /* an event came since the last update: the descriptor is written to even if it is
				      * readable, for EPOLLET */
	atomic_bool given;           /* the application has asked for the descriptor */
	uint8_t ready;               /* consecutive events that diw_channel_get() found when it was called */
	atomic_bool polled;          /* by that, the application seems to sleep on the descriptor */
	int ncqs;
};

/* There is one producer, the holder of the device's lock. Consumers have their own lock, so a poll never waits for a
 * step. */
struct diw_cq {
	struct diw_dev *dev;
	struct diw_channel *channel;
	struct diw_list event;       /* in channel->events */
	void *ctx;
	struct diw_wc *ring;
	uint32_t mask, depth;
	_Atomic uint32_t tail;       /* the next entry to fill */
	_Atomic uint32_t head;       /* the next entry to take */
	_Atomic uint32_t solicited;  /* value of `tail` after the last solicited or failed completion */
	uint32_t told;               /* value of `tail` when the last event was raised or fetched */
	atomic_bool starved;         /* a queue pair waits for room */
	pthread_mutex_t take;
	enum { DIW_CQ_IDLE, DIW_CQ_ARMED, DIW_CQ_ARMED_SOLICITED } armed;
	uint32_t nevents;
	uint32_t taken;              /* events that the channel has returned */
	int nqps;
	int waiters;
};

/* The device's lock is held. */
static inline uint32_t diw_cq_room(const struct diw_cq *cq)
{
	return cq->depth - (atomic_load_explicit(&cq->tail, memory_order_relaxed) -
			    atomic_load_explicit(&cq->head, memory_order_acquire));
}
/* The next entry to fill; the caller has checked that there is room. diw_cq_push() then publishes it. */
static inline struct diw_wc *diw_cq_slot(struct diw_cq *cq)
{
	return &cq->ring[atomic_load_explicit(&cq->tail, memory_order_relaxed) & cq->mask];
}
void diw_cq_push(struct diw_cq *cq);
void diw_wc_forget(struct diw_wc *wc);           /* frees its map, if it has one; the device's lock is held */
/* QP is about to be destroyed, with its maps: its completions that were not taken lose them. */
void diw_cq_forget_maps(struct diw_cq *cq, const struct diw_qp *qp);

#endif
