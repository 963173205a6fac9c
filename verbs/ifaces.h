/* SPDX-License-Identifier: BSD-2-Clause */
/* Network interfaces as devices. */
#ifndef DIW_VERBS_IFACES_H
#define DIW_VERBS_IFACES_H

#include "verbs/diw.h"

/* Finds a device. NAME NULL: the first that is up and has an address; lo only if there is no other. -ENODEV */
int diw_iface_find(const char *name, struct diw_dev_info *info);
/* The device name of the interface at which the kernel's route to DST begins. -errno of the route. */
int diw_iface_route(const struct diw_addr *dst, char *name);

#endif
