/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv with --group: what both have in common, and their entries. xfer.h tells the protocol. */
#ifndef DIW_TOOLS_CP_GROUP_H
#define DIW_TOOLS_CP_GROUP_H

#include "tools/cp/xfer.h"

#define GROUP_ANNOUNCE_NS (100 * DIW_MS)
#define GROUP_SILENCE_NS (3 * DIW_S) /* then a receiver is given up */
#define GROUP_RECORD_NS (500 * DIW_MS)   /* a record's timeout: a receiver without a processor loses nothing by it */
#define GROUP_MEMBERS 64u            /* receivers of one transfer; further ones are refused */

struct group_options {
	const char *group, *dev;     /* dev NULL: the one that the route to the group uses */
	uint64_t receivers;          /* cp: start when so many have joined; 0: soon after the first */
	uint64_t rate;               /* cp: bytes a second; 0: none but what the receivers report */
	uint64_t message;            /* cp: bytes of one Write-Record at most */
	uint64_t count;              /* recv: files; 0: until a signal */
	int dirfd;                   /* recv */
	bool json, force;
};

/* A queue pair of the group's IP version on the device that leads to the group; *ADDR is the group with its port. */
int group_open(struct xfer_port *p, const struct group_options *o, struct diw_qp_attr *attr, struct diw_addr *addr);

int group_copy(const struct group_options *o, const char *file, const char *name, struct diw_qp_attr *attr);
int group_receive(const struct group_options *o, struct diw_qp_attr *attr);

#endif
