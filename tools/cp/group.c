/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp and recv with --group: the queue pair of either end. */
#include "tools/cp/group.h"

#include <errno.h>
#include <string.h>

#include "base/addr.h"

#define DEVICES 64

static bool group_suits(const struct diw_addr *own, const struct diw_addr *group)
{
	bool link_local = own->ip[0] == 0xfe && (own->ip[1] & 0xc0) == 0x80;

	return diw_addr_is_v4(own) == diw_addr_is_v4(group) && !link_local;
}

/* The address of the device that a queue pair for GROUP is bound to. */
static int group_local(const char *dev, const struct diw_addr *group, struct diw_addr *local)
{
	struct diw_dev_info list[DEVICES];
	char buf[DIW_ADDR_STRLEN];
	int n, rc;

	if (!dev) {
		rc = local_addr_for(group, local);
		return !rc ? 0 : tool_failed("%s: %s: choose a device by --dev", diw_addr_str(group, buf),
					     strerror(-rc));
	}
	n = diw_dev_list(list, DEVICES);
	for (int i = 0; i < n && i < DEVICES; i++)
		for (int k = 0; k < list[i].naddrs && strcmp(list[i].name, dev) == 0; k++)
			if (group_suits(&list[i].addrs[k], group)) {
				*local = list[i].addrs[k];
				return 0;
			}
	return tool_failed("device %s has no address for %s", dev, diw_addr_str(group, buf));
}

int group_open(struct xfer_port *p, const struct group_options *o, struct diw_qp_attr *attr, struct diw_addr *addr)
{
	int rc = opt_host(o->group, DIW_GROUP_PORT, addr);

	if (rc)
		return rc;
	if (!diw_addr_is_multicast(addr))
		return tool_usage("--group %s: not a multicast address (224.0.0.0/4 or ff00::/8)", o->group);
	rc = group_local(o->dev, addr, &attr->dgram.local);
	if (rc)
		return rc;
	attr->dgram.record_timeout_ns = (int64_t)GROUP_RECORD_NS;
	return xfer_open(p, o->dev, o->dev ? NULL : addr, attr);
}
