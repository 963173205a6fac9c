/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of interfaces, which netlink reports. Removal of an interface is a DEVICE_REMOVAL for each of its
 * identifiers. A new hardware address (failover of a bond) is an ADDR_CHANGE. So is the removal of an address, for the
 * identifiers that are bound to it: they receive nothing any more.
 */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sys.h"
#include "verbs/cma/cma.h"

#define NETLINK_ROOM 8192

static void link_gone(unsigned ifindex)
{
	struct diw_list *l;

	for (l = cma_ids.next; l != &cma_ids; l = l->next) {
		struct cma_id *id = diw_container(l, struct cma_id, link);

		if (!id->dev || id->dev->host.ifindex != ifindex || id->removed || id->dying)
			continue;
		id->removed = true;
		cma_post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
}

/* Queues an ADDR_CHANGE, if none is queued: one event stands for all changes until it is fetched, so frequent changes
 * cost no memory. A sync id gets none, since its calls would take the event for the one they wait for. */
static void link_changed(unsigned ifindex, const struct diw_addr *only)
{
	for (struct diw_list *l = cma_ids.next; l != &cma_ids; l = l->next) {
		struct cma_id *id = diw_container(l, struct cma_id, link);
		struct cma_event *e = NULL;

		if (!id->dev || id->dev->host.ifindex != ifindex || id->removed || id->dying || id->sync ||
		    id->hinted || (only && memcmp(id->local.ip, only->ip, sizeof only->ip) != 0))
			continue;
		if (id->id.channel)
			e = cma_event_new(id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
		id->hinted = e;
		if (e)
			cma_event_post(e);
	}
}

/* ---- Netlink messages ---- */

static const struct rtattr *netlink_attr(const struct nlmsghdr *h, size_t fixed, unsigned short type)
{
	const struct rtattr *a = (const void *)((const char *)NLMSG_DATA(h) + NLMSG_ALIGN(fixed)), *found = NULL;
	unsigned left;

	if (h->nlmsg_len < NLMSG_SPACE(fixed))
		return NULL;
	for (left = h->nlmsg_len - (unsigned)NLMSG_SPACE(fixed); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == type)
			found = a;
	return found;
}

static void on_link(const struct nlmsghdr *h)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);
	const struct rtattr *hw;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof *i))
		return;
	if (h->nlmsg_type == RTM_DELLINK) {
		link_gone((unsigned)i->ifi_index);
		return;
	}
	hw = netlink_attr(h, sizeof *i, IFLA_ADDRESS);
	if (hw && cma_dev_rehoused((unsigned)i->ifi_index, RTA_DATA(hw), RTA_PAYLOAD(hw)))
		link_changed((unsigned)i->ifi_index, NULL);
}

/* When an interface is removed, its addresses are removed first; DEVICE_REMOVAL will report that. */
static void on_address(const struct nlmsghdr *h)
{
	const struct ifaddrmsg *m = NLMSG_DATA(h);
	struct diw_addr a = { .ip = { [10] = 0xff, [11] = 0xff } };
	const struct rtattr *own;
	char name[IF_NAMESIZE];
	size_t len;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof *m) || !if_indextoname(m->ifa_index, name))
		return;
	own = netlink_attr(h, sizeof *m, IFA_LOCAL);            /* IFA_ADDRESS is then the peer's address */
	if (!own)
		own = netlink_attr(h, sizeof *m, IFA_ADDRESS);
	len = m->ifa_family == AF_INET ? 4 : sizeof a.ip;
	if (!own || RTA_PAYLOAD(own) != len)
		return;
	memcpy(a.ip + sizeof a.ip - len, RTA_DATA(own), len);
	link_changed(m->ifa_index, &a);
}

/* If netlink loses messages (ENOBUFS), their changes are not reported: a program will find its sends fail. */
static void netlink_ready(struct diw_watch *w, uint64_t now)
{
	_Alignas(struct nlmsghdr) char buf[NETLINK_ROOM];
	ssize_t n;

	(void)now;
	while ((n = recv(w->fd, buf, sizeof buf, MSG_DONTWAIT)) > 0)
		for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
			if (h->nlmsg_type == RTM_DELLINK || h->nlmsg_type == RTM_NEWLINK)
				on_link(h);
			else if (h->nlmsg_type == RTM_DELADDR)
				on_address(h);
		}
}

static struct diw_watch watch = { .fd = -1, .ready = netlink_ready };

void cma_link_unwatch(void)
{
	if (watch.fd < 0)
		return;
	diw_loop_del(&cma_loop, &watch);
	close(watch.fd);
	watch.fd = -1;
}

void cma_link_watch(struct cma_dev *d)
{
	struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	struct ifreq ifr = { 0 };

	if (watch.fd < 0) {
		watch.fd = diw_above_std(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
		if (watch.fd < 0)
			return;
		if (bind(watch.fd, (struct sockaddr *)&groups, sizeof groups) || diw_loop_add(&cma_loop, &watch)) {
			close(watch.fd);
			watch.fd = -1;
			return;
		}
	}
	memcpy(ifr.ifr_name, d->host.ifname, sizeof ifr.ifr_name);
	if (ioctl(watch.fd, SIOCGIFHWADDR, &ifr) == 0)
		memcpy(d->hw, ifr.ifr_hwaddr.sa_data, sizeof d->hw);
}
