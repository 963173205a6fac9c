/* SPDX-License-Identifier: BSD-2-Clause */
/* The open devices of a library: each device is opened once for all objects of the process. */
#ifndef DIW_HOST_DEVS_H
#define DIW_HOST_DEVS_H

#include <net/if.h>

#include "verbs/diw.h"

struct diw_host_dev {
	struct diw_host_dev *next;
	char name[24], ifname[IF_NAMESIZE];  /* name "": the interface or the descriptors are gone, and no
					      * search finds the device */
	unsigned ifindex;
	struct diw_dev *diw;
};

struct diw_host_devs {
	struct diw_host_dev *first;
	/* A new one with DIW set; -errno. NAME NULL: the first device that has an address. */
	int (*open)(const char *name, struct diw_host_dev **d);
};

/* The library's lock is held over these calls. Both return -errno. */
int diw_host_dev_named(struct diw_host_devs *devs, const char *name, struct diw_host_dev **d);
/* The device that has the address. Of the unspecified address, one that is open, else that of lo, else the first. */
int diw_host_dev_of(struct diw_host_devs *devs, const struct diw_addr *local, struct diw_host_dev **d);

#endif
