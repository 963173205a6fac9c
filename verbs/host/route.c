/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses: the interface that has one, and the source address for a destination. */
#include "verbs/host/route.h"

#include <errno.h>
#include <ifaddrs.h>
#include <unistd.h>

#include "base/sys.h"

int diw_route_iface(const struct diw_addr *a, char name[IF_NAMESIZE])
{
	struct ifaddrs *all;
	struct diw_addr b;

	name[0] = '\0';
	if (diw_addr_is_v4(a) && a->ip[12] == 127) {    /* the whole network 127.0.0.0/8 is local */
		strcpy(name, "lo");
		return 0;
	}
	if (getifaddrs(&all) < 0)
		return -errno;
	for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next) {
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		diw_addr_from_sockaddr(&b, i->ifa_addr);
		if (memcmp(a->ip, b.ip, sizeof a->ip) == 0 && (!a->scope || a->scope == b.scope))
			strncat(name, i->ifa_name, IF_NAMESIZE - 1);
	}
	freeifaddrs(all);
	return name[0] ? 0 : -EADDRNOTAVAIL;
}

/* connect(2) on a datagram socket looks up the route and sends nothing. */
static int ask_kernel(int fd, const struct diw_addr *dst, const struct diw_addr *src, struct diw_addr *found)
{
	struct sockaddr_storage ss;
	struct diw_addr to = *dst, from = *src;
	socklen_t len;

	to.port = to.port ? to.port : 1;        /* any port except 0 */
	from.port = 0;
	len = diw_addr_to_sockaddr(&from, &ss);
	if (!diw_route_is_any(&from) && bind(fd, (struct sockaddr *)&ss, len))
		return -errno;
	len = diw_addr_to_sockaddr(&to, &ss);
	if (connect(fd, (struct sockaddr *)&ss, len))
		return -errno;
	len = sizeof ss;
	if (getsockname(fd, (struct sockaddr *)&ss, &len))
		return -errno;
	diw_addr_from_sockaddr(found, (struct sockaddr *)&ss);
	return 0;
}

/* Every interface has a route to a group, so only SRC selects the interface. */
int diw_route_source(const struct diw_addr *dst, const struct diw_addr *src, struct diw_addr *found)
{
	int fd, rc = 0;

	if (diw_addr_is_multicast(dst) && !diw_route_is_any(src) && diw_addr_is_v4(src) == diw_addr_is_v4(dst)) {
		*found = *src;
	} else {
		fd = diw_socket(diw_addr_is_v4(dst) ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		rc = ask_kernel(fd, dst, src, found);
		close(fd);
	}
	if (rc == 0)
		found->port = 0;
	return rc;
}
