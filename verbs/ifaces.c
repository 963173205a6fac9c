/* SPDX-License-Identifier: BSD-2-Clause */
/* The network interfaces of this host as devices. */
#include "verbs/ifaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/crc.h"
#include "base/sys.h"
#include "llp/dgram.h"
#include "rdmap/rdmap.h"
#include "verbs/dev.h"
#include "wire/seal.h"

#define MAX_IFACES 256

static uint32_t iface_mtu(const char *ifname)
{
	struct ifreq ifr = { 0 };
	int fd = diw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t mtu = 1500;

	if (fd < 0)
		return mtu;
	strncpy(ifr.ifr_name, ifname, sizeof ifr.ifr_name - 1);
	if (ioctl(fd, SIOCGIFMTU, &ifr) == 0)
		mtu = (uint32_t)ifr.ifr_mtu;
	close(fd);
	return mtu;
}

/* The receive buffer that the kernel grants without privileges, in bytes as it counts them. */
static uint32_t granted_rcvbuf(void)
{
	int fd = diw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), v = 4 << 20;
	socklen_t len = sizeof v;

	if (fd < 0)
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, sizeof v);
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, &len) < 0)
		v = 0;
	close(fd);
	return (uint32_t)v;
}

static void add_addrs(struct diw_dev_info *info, const struct ifaddrs *all, int family)
{
	for (; all; all = all->ifa_next) {
		if (!all->ifa_addr || all->ifa_addr->sa_family != family || strcmp(all->ifa_name, info->ifname) != 0)
			continue;
		if (info->naddrs == DIW_MAX_DEV_ADDRS)
			return;
		diw_addr_from_sockaddr(&info->addrs[info->naddrs++], all->ifa_addr);
	}
}

static void iface_describe(struct diw_dev_info *info, const struct if_nameindex *iface, const struct ifaddrs *all)
{
	struct diw_udp_offload offload = diw_udp_offload();
	const struct ifaddrs *a;
	uint32_t ip;

	memset(info, 0, sizeof *info);
	snprintf(info->ifname, sizeof info->ifname, "%s", iface->if_name);
	snprintf(info->name, sizeof info->name, "diw_%s", iface->if_name);
	info->ifindex = iface->if_index;
	info->mtu = iface_mtu(iface->if_name);
	for (a = all; a; a = a->ifa_next)
		if (strcmp(a->ifa_name, info->ifname) == 0)
			info->up |= (a->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
	add_addrs(info, all, AF_INET);
	ip = info->naddrs ? 20 : 40;
	add_addrs(info, all, AF_INET6);
	info->mulpdu = info->mtu - ip - 8;
	if (info->mulpdu > DIW_DGRAM_MAX)
		info->mulpdu = DIW_DGRAM_MAX;
	info->mulpdu -= DIW_SEAL_LEN;
	info->gso = offload.gso;
	info->gro = offload.gro;
	info->crc_engine = diw_crc_engine();
	info->llp = "udp";
	info->rcvbuf = granted_rcvbuf();
	info->max_qp = info->max_cq = info->max_pd = info->max_srq = DIW_DEV_OBJECTS;
	info->max_mr = DIW_STAGS;
	info->max_wr = DIW_DEV_WRS;
	info->max_cqe = DIW_DEV_CQES;
	info->max_sge = DIW_MAX_SGE;
	info->max_inline = DIW_MAX_INLINE;
	info->max_send = DIW_MAX_SEND;
	info->max_rdma = DIW_MAX_RDMA;
	info->max_read = DIW_MAX_READ;
}

int diw_dev_list(struct diw_dev_info *list, int max)
{
	struct if_nameindex *ifaces = if_nameindex(), *i;
	struct ifaddrs *all = NULL;
	int n = 0;

	if (!ifaces || getifaddrs(&all) < 0) {
		if (ifaces)
			if_freenameindex(ifaces);
		return -errno;
	}
	for (int lo = 0; lo < 2; lo++)          /* the second pass is for lo, which comes last */
		for (i = ifaces; i->if_index; i++) {
			if ((strcmp(i->if_name, "lo") == 0) != lo)
				continue;
			if (n < max)
				iface_describe(&list[n], i, all);
			n++;
		}
	freeifaddrs(all);
	if_freenameindex(ifaces);
	return n;
}

int diw_iface_find(const char *name, struct diw_dev_info *info)
{
	struct diw_dev_info list[MAX_IFACES];
	int n = diw_dev_list(list, MAX_IFACES);

	for (int i = 0; i < n && i < MAX_IFACES; i++)
		if (name ? strcmp(list[i].name, name) == 0 : list[i].up && list[i].naddrs) {
			*info = list[i];
			return 0;
		}
	return n < 0 ? n : -ENODEV;
}

/* The address from which the kernel would send. A broadcast address is connected to only with SO_BROADCAST. */
static int source_of(const struct diw_addr *dst, struct diw_addr *src)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(dst, &ss);
	int fd = diw_socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, rc = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
	if (connect(fd, (struct sockaddr *)&ss, len) < 0)
		rc = -errno;
	len = sizeof ss;
	if (rc == 0 && getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		rc = -errno;
	close(fd);
	if (rc == 0)
		diw_addr_from_sockaddr(src, (struct sockaddr *)&ss);
	return rc;
}

int diw_iface_route(const struct diw_addr *dst, char *name)
{
	struct diw_dev_info list[MAX_IFACES];
	struct diw_addr src;
	int n, rc = source_of(dst, &src);

	if (rc < 0)
		return rc;
	n = diw_dev_list(list, MAX_IFACES);
	/* A local address is reached through lo, whichever interface has it. */
	if (diw_addr_same_host(&src, dst)) {
		strcpy(name, "diw_lo");
		return 0;
	}
	for (int i = 0; i < n && i < MAX_IFACES; i++)
		for (int k = 0; k < list[i].naddrs; k++)
			if (diw_addr_same_host(&list[i].addrs[k], &src)) {
				strcpy(name, list[i].name);
				return 0;
			}
	return -ENODEV;
}
