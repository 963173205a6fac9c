/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management and the queue pairs' view of it. The engine of a device serves listeners, connections whose
 * request has not come or is not answered, and those that connect, from an epoll set of its own, so that they cost the
 * data path nothing; an established stream goes to its queue pair (verbs/rc.h). The device's lock is held.
 */
#ifndef DIW_VERBS_CM_H
#define DIW_VERBS_CM_H

#include <stdbool.h>
#include <stdint.h>

struct diw_dev;
struct diw_qp;

/* ---- For the device ---- */

void diw_cm_fini(struct diw_dev *dev);

/* ---- For the queue pair (verbs/rc.c) ---- */

/* Its stream is up, and the peer's ready-to-receive has come where there is one. */
void diw_cm_established(struct diw_qp *qp, uint64_t now);
/* Its stream has ended. Told once. */
void diw_cm_disconnected(struct diw_qp *qp, uint16_t fault, int errnum);
/* It is about to be destroyed, or aborted while it connects: its attempt and, if EVENTS, its events go. */
void diw_cm_forget(struct diw_qp *qp, bool events);

#endif
