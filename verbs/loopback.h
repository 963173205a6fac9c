/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared memory between the queue pairs of one user on one host (DIWARP_LOOPBACK, diwarp(7)). */
#ifndef DIW_VERBS_LOOPBACK_H
#define DIW_VERBS_LOOPBACK_H

#include "verbs/dev.h"

struct diw_qp;

/* Reads DIWARP_LOOPBACK. */
int diw_loopback_init(struct diw_dev *dev);
void diw_loopback_fini(struct diw_dev *dev);
/* Lets the datagrams of *D use shared memory, if the device has it and no capture was asked for. */
void diw_loopback_wrap(struct diw_qp *qp, struct diw_dgram **d);

#endif
