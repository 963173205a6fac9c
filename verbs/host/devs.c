/* SPDX-License-Identifier: BSD-2-Clause */
/* Open devices by name and by address. */
#include "verbs/host/devs.h"

#include <errno.h>
#include <stdio.h>

#include "verbs/diw_provider.h"
#include "verbs/host/route.h"

#define PREFIX "diw_"

/* An interface may have gone, and another one have its name. The program may have closed all descriptors. */
static bool host_dev_lives(struct diw_host_dev *d)
{
	unsigned now = d->name[0] ? if_nametoindex(d->ifname) : 0;

	if (d->name[0] && now != d->ifindex && (now || errno == ENODEV))
		d->name[0] = '\0';
	if (d->name[0] && !diw_dev_has_fds(d->diw))
		d->name[0] = '\0';
	return d->name[0];
}

/* NAME NULL: any. */
static struct diw_host_dev *host_dev_find(const struct diw_host_devs *devs, const char *name)
{
	struct diw_host_dev *d = devs->first;

	while (d && ((name && strcmp(d->name, name) != 0) || !host_dev_lives(d)))
		d = d->next;
	return d;
}

int diw_host_dev_named(struct diw_host_devs *devs, const char *name, struct diw_host_dev **out)
{
	struct diw_host_dev **end = &devs->first;
	struct diw_dev_info info;
	int rc;

	*out = host_dev_find(devs, name);
	if (*out)
		return 0;
	rc = devs->open(name, out);
	if (rc < 0)
		return rc;
	diw_dev_query((*out)->diw, &info);
	snprintf((*out)->name, sizeof (*out)->name, "%s", info.name);
	snprintf((*out)->ifname, sizeof (*out)->ifname, "%s", info.ifname);
	(*out)->ifindex = info.ifindex;
	while (*end)
		end = &(*end)->next;
	*end = *out;
	return 0;
}

int diw_host_dev_of(struct diw_host_devs *devs, const struct diw_addr *local, struct diw_host_dev **out)
{
	char name[IF_NAMESIZE + sizeof PREFIX] = PREFIX;
	int rc;

	if (!diw_route_is_any(local)) {
		rc = diw_route_iface(local, name + strlen(PREFIX));
		return rc < 0 ? rc : diw_host_dev_named(devs, name, out);
	}
	*out = host_dev_find(devs, NULL);
	rc = *out ? 0 : diw_host_dev_named(devs, PREFIX "lo", out);
	return rc < 0 ? diw_host_dev_named(devs, NULL, out) : rc;
}
