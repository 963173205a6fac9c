/* SPDX-License-Identifier: BSD-2-Clause */
/* Network interfaces as devices. */
#ifndef DIW_VERBS_IFACES_H
#define DIW_VERBS_IFACES_H

#include "verbs/diw.h"

/* NAME NULL: the first that is up and has an address, lo last. -ENODEV */
int diw_iface_find(const char *name, struct diw_dev_info *info);
/* The device name of the interface that the kernel's route to DST begins at. -errno of the route. */
int diw_iface_route(const struct diw_addr *dst, char *name);

#endif
