/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Showing counters to `diw stat`: a queue pair counts directly in its slot of the process's page (base/statpage.h), so
 * that showing costs the data path nothing. What is a state and no sum is written when the device goes to sleep, or at
 * times while it polls.
 */
#ifndef DIW_VERBS_STAT_H
#define DIW_VERBS_STAT_H

#include "verbs/engine/engine.h"

struct diw_addr;
struct diw_dev;
struct diw_qp;

/* What a device shows. */
struct diw_stat_dev {
	struct diw_member member;    /* fixed: writes states */
	bool shows;                  /* its queue pairs count where others see it */
	uint32_t nshown;
	uint64_t at, ns;             /* when states are written again, were written */
};

/* Decides where the new queue pair counts: qp->stat stays NULL, and qp->c is its own, where nothing can be shown.
 * -ENOMEM */
int diw_stat_take(struct diw_qp *qp);
/* It is ready: readers see it from now on, with PEER if it is connected, else NULL. The device's lock is held. */
void diw_stat_show(struct diw_qp *qp, const struct diw_addr *peer);
/* Until it is ready again. */
void diw_stat_hide(struct diw_qp *qp);
/* It counts no more. Silent about a page that it inherited by fork(). */
void diw_stat_give(struct diw_qp *qp);

/* The device's queue pairs are to be shown, from now on. */
void diw_stat_init(struct diw_dev *dev);
/* Writes the states of QP. The device's lock is held. */
void diw_stat_gauges(struct diw_qp *qp);

/* In a child: the page is its parent's. */
void diw_stat_forked(void);

#endif
