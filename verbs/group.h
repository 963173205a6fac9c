/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group datagrams (docs/ud-profile.md section 2). A device has one socket for them, on a port that all processes share.
 * Every queue pair that is attached to a group receives the group's bursts as its own. The device's lock is held.
 */
#ifndef DIW_VERBS_GROUP_H
#define DIW_VERBS_GROUP_H

struct diw_dev;
struct diw_qp;

/* The queue pair is about to be destroyed. The function may release the lock meanwhile. */
void diw_group_leave_all(struct diw_qp *qp);
/* In a child after fork(2), queue pairs may still be attached. */
void diw_group_fini(struct diw_dev *dev);

#endif
