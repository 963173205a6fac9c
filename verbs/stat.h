/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters for `diw stat`. A queue pair counts directly in its slot of the process's page (base/statpage.h), so showing
 * costs the data path nothing. Values that are a state, not a sum, are written when the device goes to sleep, or at
 * intervals while it polls.
 */
#ifndef DIW_VERBS_STAT_H
#define DIW_VERBS_STAT_H

#include "verbs/engine/engine.h"

struct diw_addr;
struct diw_dev;
struct diw_qp;

/* The part of a device that writes the page. */
struct diw_stat_dev {
	struct diw_member member;    /* a fixed member, which writes states */
	bool shows;                  /* its queue pairs count in the page */
	uint32_t nshown;
	uint64_t at, ns;             /* when states are written next; when they were written last */
};

/* Chooses the place where the new queue pair counts. If it cannot be shown, qp->stat stays NULL and qp->c is memory of
 * its own. -ENOMEM */
int diw_stat_take(struct diw_qp *qp);
/* The queue pair is ready, and readers see it. PEER: if it is connected, else NULL. The device's lock is held. */
void diw_stat_show(struct diw_qp *qp, const struct diw_addr *peer);
/* Hides it until diw_stat_show() is called again. */
void diw_stat_hide(struct diw_qp *qp);
/* The queue pair counts no more. Does nothing to a page that was inherited by fork(2). */
void diw_stat_give(struct diw_qp *qp);

/* The device's queue pairs are shown from here on. */
void diw_stat_init(struct diw_dev *dev);
/* Writes the states of QP. The device's lock is held. */
void diw_stat_gauges(struct diw_qp *qp);

/* Call in a child: the page is its parent's. */
void diw_stat_forked(void);

#endif
