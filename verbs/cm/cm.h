/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection management. A device's listeners, the connections whose request has not come or is not answered, and those
 * that connect are served from an epoll set of their own, so that they cost the data path nothing; an established
 * stream goes to its queue pair (verbs/rc.h).
 */
#ifndef DIW_VERBS_CM_H
#define DIW_VERBS_CM_H

struct diw_dev;

/* The device is about to be freed: what is left of its connections goes. */
void diw_cm_fini(struct diw_dev *dev);

#endif
