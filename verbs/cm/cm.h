/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management. A device's listeners, its connections whose request has not come or is not answered, and those
 * that connect have an epoll set of their own. So they cost the data path nothing. An established stream goes to its
 * queue pair (verbs/rc.h).
 */
#ifndef DIW_VERBS_CM_H
#define DIW_VERBS_CM_H

struct diw_dev;

/* The device is about to be freed: frees the remaining connections. */
void diw_cm_fini(struct diw_dev *dev);

#endif
