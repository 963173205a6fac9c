/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces that go: the kernel tells it by netlink, and whoever has an identifier there by DEVICE_REMOVAL. */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/of/cma.h"

#define ROOM 8192

static void gone(unsigned ifindex)
{
	struct diw_list *l;

	cma_dev_gone(ifindex);
	for (l = cma_ids.next; l != &cma_ids; l = l->next) {
		struct cma_id *id = diw_container(l, struct cma_id, link);

		if (!id->dev || id->dev->ifindex != ifindex || id->removed || id->dying)
			continue;
		id->removed = true;
		cma_post(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
}

/* What is lost when too much happens at a time (ENOBUFS) is lost: who wants to send there finds out. */
static void ready(struct cma_watch *w, uint64_t now)
{
	_Alignas(struct nlmsghdr) char buf[ROOM];
	ssize_t n;

	(void)now;
	while ((n = recv(w->fd, buf, sizeof buf, MSG_DONTWAIT)) > 0)
		for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)buf; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n))
			if (h->nlmsg_type == RTM_DELLINK && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg)))
				gone((unsigned)((const struct ifinfomsg *)NLMSG_DATA(h))->ifi_index);
}

void cma_link_watch(void)
{
	static struct cma_watch watch = { .fd = -1, .ready = ready };
	struct sockaddr_nl group = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };

	if (watch.fd >= 0)
		return;
	watch.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (watch.fd < 0)
		return;
	if (bind(watch.fd, (struct sockaddr *)&group, sizeof group) == 0 && cma_watch_add(&watch) == 0)
		return;
	close(watch.fd);
	watch.fd = -1;
}
