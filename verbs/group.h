/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group datagrams (docs/ud-profile.md section 2): one socket a device, on a port that all processes share, whose bursts
 * are given to every queue pair that is attached to their group, which receives them as its own. The device's lock is
 * held.
 */
#ifndef DIW_VERBS_GROUP_H
#define DIW_VERBS_GROUP_H

struct diw_dev;
struct diw_qp;

/* The queue pair is about to go. May give up the lock meanwhile. */
void diw_group_leave_all(struct diw_qp *qp);
/* In a child after fork queue pairs may still be attached. */
void diw_group_fini(struct diw_dev *dev);

#endif
