/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared memory between the queue pairs of one user on one host (DIWARP_LOOPBACK, diwarp(7)). */
#ifndef DIW_VERBS_LOOPBACK_H
#define DIW_VERBS_LOOPBACK_H

#include "verbs/dev.h"

struct diw_qp;
struct diw_stream;

/* Reads DIWARP_LOOPBACK. */
int diw_loopback_init(struct diw_dev *dev);
void diw_loopback_fini(struct diw_dev *dev);
/* Lets the datagrams of *D use shared memory, if the device has it and no capture was asked for. */
void diw_loopback_wrap(struct diw_qp *qp, struct diw_dgram **d);
/* Lets the octets of *S, which is QP's, use shared memory. The responder calls it before its reply, the initiator
 * behind the reply and before its first FPDU. */
void diw_loopback_stream(struct diw_qp *qp, bool initiator, struct diw_stream **s);

#endif
