/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Showing counters to `diw stat`: a queue pair counts directly in its slot of the process's page (base/statpage.h), so
 * that showing costs the data path nothing. What is a state and no sum is written when the device goes to sleep, or at
 * times while it polls.
 */
#ifndef DIW_VERBS_STAT_H
#define DIW_VERBS_STAT_H

#include <stdint.h>

struct diw_dev;
struct diw_qp;

/* Decides where the new queue pair counts: qp->stat stays NULL, and qp->c is its own, where nothing can be shown.
 * -ENOMEM */
int diw_stat_take(struct diw_qp *qp);
/* It is ready: readers see it from now on. The device's lock is held. */
void diw_stat_show(struct diw_qp *qp);
/* Until it is ready again. */
void diw_stat_hide(struct diw_qp *qp);
/* It counts no more. Silent about a page that it inherited by fork(). */
void diw_stat_give(struct diw_qp *qp);

/* The device's lock is held. */
void diw_stat_gauges(struct diw_qp *qp);
void diw_stat_refresh(struct diw_dev *dev);
/* The device is about to sleep until then; returns until when it may. */
uint64_t diw_stat_settle(struct diw_dev *dev, uint64_t until);

/* In a child: the page is its parent's. */
void diw_stat_forked(void);

#endif
