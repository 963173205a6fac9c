/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a datagram to a group stays on this host: it does if the kernel sends it by lo. A TTL of 0 does not keep it
 * on the host, since Linux sends it if no socket has joined the group on the interface.
 */
#include <linux/ipv6.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "sockets_preload/dgram/group.h"

#define TOS 0x1cu                            /* the bits by which all kernels route; newer kernels use all but the
					      * lowest two bits */

/* ---- The program's settings ---- */

/* IP_MULTICAST_IF returns the address that was set, and not the index. So the index is recorded when it is set. */
static unsigned way_of(const void *value, socklen_t len)
{
	struct ip_mreqn m;

	if (len < sizeof m)
		return DIW_WAY_ASKED;
	memcpy(&m, value, sizeof m);
	if (!m.imr_ifindex)
		return DIW_WAY_ASKED;
	return m.imr_ifindex == DIW_LOOPBACK ? DIW_WAY_LO : DIW_WAY_UNKNOWN;
}

void diw_home_option(int fd, int level, int name, const void *value, socklen_t len)
{
	struct diw_sock *s = diw_sock_at(fd);

	if (!s)
		return;
	if (level == IPPROTO_IP && name == IP_MULTICAST_IF)
		s->way = way_of(value, len) & 3;
	else if (level == IPPROTO_IPV6 && (name == IPV6_PKTINFO || name == IPV6_2292PKTOPTIONS || name == IPV6_RTHDR))
		s->way = DIW_WAY_UNKNOWN;
}

/* The interface that the program has asked for; 0: that of the route. False: it is not lo, or may be another one. */
static bool asked_for_v4(const struct diw_sock *s, int fd, const struct diw_addr *dst, uint32_t *index)
{
	uint32_t from = (uint32_t)diw_sock_option(fd, IPPROTO_IP, IP_MULTICAST_IF);

	if (*index || (dst->ip[12] & 0xf0) != 0xe0)
		return !diw_sock_option(fd, IPPROTO_IP, IP_UNICAST_IF);
	if (s->way == DIW_WAY_LO || ntohl(from) >> 24 == 127)
		*index = DIW_LOOPBACK;
	return *index || (!from && !(diw_sock_option(fd, IPPROTO_IP, IP_TOS) & ~(TOS | 3)));
}

static bool asked_for(const struct diw_sock *s, int fd, const struct diw_addr *dst, uint32_t *index)
{
	*index = (uint32_t)diw_sock_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
	if (diw_addr_is_v4(dst))
		return asked_for_v4(s, fd, dst, index);
	if (dst->scope)
		*index = dst->scope;
	else if (!*index)
		*index = (uint32_t)diw_sock_option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF);
	return true;
}

/* ---- The kernel's answers ---- */

struct home_question { struct nlmsghdr head; struct rtmsg msg; _Alignas(4) uint8_t attr[128]; };

static void route_put(struct home_question *q, uint16_t type, const void *value, size_t len)
{
	struct rtattr *a = (void *)((char *)q + q->head.nlmsg_len);

	a->rta_type = type;
	a->rta_len = (uint16_t)RTA_LENGTH(len);
	memcpy(RTA_DATA(a), value, len);
	q->head.nlmsg_len += (uint32_t)RTA_SPACE(len);
}

static void route_put_question(struct home_question *q, const struct diw_sock *s, int fd, const struct diw_addr *dst,
			       uint32_t index)
{
	bool v4 = diw_addr_is_v4(dst);
	size_t skip = v4 ? 12 : 0;
	uint32_t mark = (uint32_t)diw_sock_option(fd, SOL_SOCKET, SO_MARK);
	uint16_t from = htons(s->local.port), to = htons(dst->port);
	uint8_t udp = IPPROTO_UDP, bits = (uint8_t)(8 * (16 - skip));

	*q = (struct home_question){
		.head = { .nlmsg_len = NLMSG_LENGTH(sizeof q->msg), .nlmsg_type = RTM_GETROUTE,
			  .nlmsg_flags = NLM_F_REQUEST },
		.msg = { .rtm_family = v4 ? AF_INET : AF_INET6, .rtm_dst_len = bits },
	};
	if (v4)
		q->msg.rtm_tos = (uint8_t)diw_sock_option(fd, IPPROTO_IP, IP_TOS) & TOS;
	route_put(q, RTA_DST, dst->ip + skip, 16 - skip);
	if (!diw_addr_is_wildcard(&s->local) && diw_addr_is_v4(&s->local) == v4 && !diw_addr_is_multicast(&s->local)) {
		q->msg.rtm_src_len = bits;
		route_put(q, RTA_SRC, s->local.ip + skip, 16 - skip);
	}
	if (index)
		route_put(q, RTA_OIF, &index, sizeof index);
	if (mark)
		route_put(q, RTA_MARK, &mark, sizeof mark);
	route_put(q, RTA_IP_PROTO, &udp, sizeof udp);
	if (from)
		route_put(q, RTA_SPORT, &from, sizeof from);
	route_put(q, RTA_DPORT, &to, sizeof to);
}

/* The interface of the route; 0: there is no route. */
static uint32_t route_ask(const struct home_question *q, uint64_t netns)
{
	_Alignas(4) uint8_t a[1024];
	const struct nlmsghdr *h = (const void *)a;
	int fd = diw_sock_open(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, netns);
	ssize_t n = -1;
	uint32_t index = 0;

	if (fd >= 0 && real.send(fd, q, q->head.nlmsg_len, MSG_DONTWAIT) == (ssize_t)q->head.nlmsg_len)
		n = real.recv(fd, a, sizeof a, MSG_DONTWAIT);
	if (fd >= 0)
		real.close(fd);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct rtmsg)) || h->nlmsg_type != RTM_NEWROUTE ||
	    h->nlmsg_len > (size_t)n)
		return 0;
	n = (ssize_t)RTM_PAYLOAD(h);
	for (const struct rtattr *r = RTM_RTA(NLMSG_DATA(h)); RTA_OK(r, n); r = RTA_NEXT(r, n))
		if (r->rta_type == RTA_OIF && RTA_PAYLOAD(r) == sizeof index)
			memcpy(&index, RTA_DATA(r), sizeof index);
	return index;
}

bool diw_home_has(const struct diw_sock *s, int fd, const struct diw_addr *dst)
{
	struct home_question q;
	uint32_t index;

	if (diw_sock_is_shared(s) || s->way == DIW_WAY_UNKNOWN || diw_sock_has_ip_options(fd) ||
	    diw_sock_option(fd, SOL_SOCKET, SO_DONTROUTE) || !asked_for(s, fd, dst, &index))
		return false;
	route_put_question(&q, s, fd, dst, index);
	return route_ask(&q, s->netns) == DIW_LOOPBACK;
}
