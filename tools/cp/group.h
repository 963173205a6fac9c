/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv with --group: their common declarations. xfer.h describes the protocol. */
#ifndef DIW_TOOLS_CP_GROUP_H
#define DIW_TOOLS_CP_GROUP_H

#include "tools/cp/xfer.h"

#define GROUP_ANNOUNCE_NS (100 * DIW_MS)
#define GROUP_SILENCE_NS (3 * DIW_S) /* after this silence a receiver is given up */
#define GROUP_RECORD_NS (500 * DIW_MS)   /* timeout of a record: long enough for a receiver without a processor */
#define GROUP_MEMBERS 64u            /* receivers of a transfer; more are refused */
#define GROUP_HOST_MEMBERS 16u       /* of them at one address, so that no host takes all places */

struct group_options {
	const char *group, *dev;     /* dev NULL: the device of the route to the group */
	uint64_t receivers;          /* cp: start when this number has joined; 0: soon after the first */
	uint64_t rate;               /* cp: bytes a second; 0: limited by the receivers' reports only */
	uint64_t message;            /* cp: most bytes of a Write-Record */
	uint64_t count;              /* recv: number of files; 0: until a signal */
	int dirfd;                   /* recv */
	bool json, force;
};

int group_copy(const struct group_options *o, const char *file, const char *name, struct diw_qp_attr *attr);
int group_receive(const struct group_options *o, struct diw_qp_attr *attr);

#endif
