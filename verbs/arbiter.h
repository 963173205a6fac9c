/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send arbiter of a device: it shares what the device sends among its queue pairs, by their weights. It is off
 * while all weights are 1. The device's lock is held.
 */
#ifndef DIW_VERBS_ARBITER_H
#define DIW_VERBS_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "verbs/diw.h"

struct diw_dev;
struct diw_qp;

/* A queue pair competes from its first octet, or its first wait, until it has had nothing to send for a moment. */
struct diw_share {
	struct diw_list link;        /* in a list of the arbiter; unlinked: the queue pair does not compete */
	uint32_t weight;             /* 1 .. DIW_MAX_WEIGHT */
	bool owed;                   /* linked in `owed`: it may send */
	bool waits;                  /* it has more to send, and waits for its turn, its socket or its window */
	int64_t credit;              /* octets that it may send; less than 0: octets sent in advance */
	uint64_t round;              /* the round in which it left */
	uint64_t sent_at;            /* when it last sent, and the engine's steps before */
	unsigned long sent_step;
};

struct diw_arbiter {
	enum diw_arbiter_mode mode;
	uint32_t weights;            /* queue pairs whose weight is not 1 */
	struct diw_list owed;        /* queue pairs with credit, the longest silent one first */
	struct diw_list spent;       /* queue pairs without, or of a class that is blocked */
	uint64_t round, round_at;    /* number of the round, and when it began */
	uint32_t top;                /* the largest weight of those that compete */
	uint64_t low_at;             /* DIW_ARBITER_BLOCKING: when the last round of all classes began */
};

void diw_arbiter_init(struct diw_arbiter *a);
/* The octets that QP may send now, at most MOST. 0: others come first. */
int64_t diw_arbiter_grant(struct diw_qp *qp, int64_t most, uint64_t now);
/* QP has sent OCTETS. WAITS: it has more to send. */
void diw_arbiter_sent(struct diw_qp *qp, int64_t octets, bool waits, uint64_t now);
/* When QP, which waits for others, is to try again. */
uint64_t diw_arbiter_deadline(const struct diw_qp *qp);
/* QP has nothing to send any more, or is about to be destroyed. */
void diw_arbiter_leave(struct diw_qp *qp, uint64_t now);
void diw_arbiter_set_mode(struct diw_dev *dev, enum diw_arbiter_mode mode, uint64_t now);
/* 1: the weight of a queue pair that is about to be destroyed, too. */
void diw_arbiter_weigh(struct diw_qp *qp, uint32_t weight, uint64_t now);

#endif
