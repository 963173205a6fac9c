/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, whose devices they are, and the kernel's routes. */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/sys.h"
#include "verbs/of/cma.h"

int cma_addr_get(struct diw_addr *a, const struct sockaddr *sa)
{
	if (!sa)
		return EINVAL;
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	diw_addr_from_sockaddr(a, sa);
	return 0;
}

void cma_addr_put(struct sockaddr_storage *ss, const struct diw_addr *a)
{
	memset(ss, 0, sizeof *ss);
	diw_addr_to_sockaddr(a, ss);
}

/* The interface's name, "" if none has it. */
static int iface_of(const struct diw_addr *a, char name[IF_NAMESIZE])
{
	struct ifaddrs *all;
	struct diw_addr b;

	name[0] = '\0';
	if (diw_addr_is_v4(a) && a->ip[12] == 127) {    /* the whole network is this host's */
		strcpy(name, "lo");
		return 0;
	}
	if (getifaddrs(&all) < 0)
		return errno;
	for (const struct ifaddrs *i = all; i && !name[0]; i = i->ifa_next) {
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		diw_addr_from_sockaddr(&b, i->ifa_addr);
		if (memcmp(a->ip, b.ip, sizeof a->ip) == 0 && (!a->scope || a->scope == b.scope))
			strncat(name, i->ifa_name, IF_NAMESIZE - 1);
	}
	freeifaddrs(all);
	return name[0] ? 0 : EADDRNOTAVAIL;
}

struct cma_dev *cma_addr_dev(const struct diw_addr *a)
{
	char name[IF_NAMESIZE];

	errno = iface_of(a, name);
	return errno ? NULL : cma_dev_of(name);
}

/* connect(2) of a datagram socket looks for the route, and sends nothing. To a group every interface has one, and the
 * address that is asked for says which. */
int cma_addr_source(const struct diw_addr *dst, const struct diw_addr *src, struct diw_addr *found)
{
	struct sockaddr_storage ss;
	struct diw_addr to = *dst, from = *src;
	socklen_t len;
	int fd, rc = 0;

	if (diw_addr_is_multicast(dst) && !cma_addr_any(src) && diw_addr_is_v4(src) == diw_addr_is_v4(dst)) {
		*found = *src;
		found->port = 0;
		return 0;
	}
	to.port = to.port ? to.port : 1;        /* any will do, but 0 */
	from.port = 0;
	len = diw_addr_to_sockaddr(&to, &ss);
	fd = diw_socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (!cma_addr_any(&from)) {
		len = diw_addr_to_sockaddr(&from, &ss);
		rc = bind(fd, (struct sockaddr *)&ss, len) ? errno : 0;
		len = diw_addr_to_sockaddr(&to, &ss);
	}
	if (rc == 0 && connect(fd, (struct sockaddr *)&ss, len))
		rc = errno;
	len = sizeof ss;
	if (rc == 0 && getsockname(fd, (struct sockaddr *)&ss, &len))
		rc = errno;
	close(fd);
	if (rc == 0) {
		diw_addr_from_sockaddr(found, (struct sockaddr *)&ss);
		found->port = 0;
	}
	return rc;
}
