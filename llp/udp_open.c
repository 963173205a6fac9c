/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens, binds and connects the sockets of a UDP dgram. */
#include <errno.h>
#include <unistd.h>

#include "base/sys.h"
#include "llp/udp.h"

#define SNDBUF (2 << 20)

socklen_t diw_udp_name(const struct diw_udp *u, const struct diw_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (void *)ss;

	if (u->family == AF_INET)
		return diw_addr_to_sockaddr(a, ss);
	*in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope };
	memcpy(&in6->sin6_addr, a->ip, 16);
	return sizeof *in6;
}

static int udp_set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value) ? -errno : 0;
}

static int udp_open_socket(struct diw_udp *u, const struct diw_dgram_attr *attr)
{
	const int type = SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
	bool v4 = diw_addr_is_v4(&attr->local);

	u->family = v4 && !attr->any ? AF_INET : AF_INET6;
	u->fd = diw_socket(u->family, type, 0);
	if (u->fd < 0 && attr->any) {
		u->family = AF_INET;
		u->fd = diw_socket(AF_INET, type, 0);
	}
	if (u->fd < 0)
		return -errno;
	return u->family == AF_INET6 ? udp_set_int(u->fd, IPPROTO_IPV6, IPV6_V6ONLY, !attr->any) : 0;
}

/* Asks the kernel for the destination address of each datagram. */
static void tell_own(const struct diw_udp *u, int fd, bool tell)
{
	udp_set_int(fd, IPPROTO_IP, IP_PKTINFO, tell);
	if (u->family == AF_INET6)
		udp_set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, tell);
}

void diw_udp_hot_alone(struct diw_udp *u)
{
	u->hot_named = false;
	if (u->any)
		tell_own(u, u->hot_fd, false);
}

void diw_udp_gro(int fd, bool on)
{
	if (diw_udp_offload().gro)
		udp_set_int(fd, SOL_UDP, UDP_GRO, on);
}

/* Options of both sockets of a queue pair. Those that a kernel may refuse without harm are not checked. */
static void set_common(const struct diw_udp *u, int fd)
{
	if (u->rcvbuf)
		udp_set_int(fd, SOL_SOCKET, SO_RCVBUF, u->rcvbuf < INT_MAX ? (int)u->rcvbuf : INT_MAX);
	udp_set_int(fd, SOL_SOCKET, SO_SNDBUF, SNDBUF);
	udp_set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT);
	if (u->family == AF_INET6)
		udp_set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_WANT);
	diw_udp_gro(fd, true);
	if (u->any)
		tell_own(u, fd, true);
	if (u->group)                           /* a group socket sends nothing */
		return;
	udp_set_int(fd, IPPROTO_IP, IP_RECVERR, 1);
	if (u->family == AF_INET6)
		udp_set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
}

/* Multicasts leave by the device's interface, independent of the routes. If the kernel refuses the option, the routes
 * decide. */
static void set_multicast_if(const struct diw_udp *u, unsigned ifindex)
{
	struct ip_mreqn m = { .imr_ifindex = (int)ifindex };

	setsockopt(u->fd, IPPROTO_IP, IP_MULTICAST_IF, &m, sizeof m);
	if (u->family == AF_INET6)
		udp_set_int(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)ifindex);
}

/* Every process of the host may have such a socket. Each receives the datagrams of the groups that it joined. */
static int set_group(const struct diw_udp *u)
{
	int err = udp_set_int(u->fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!err)
		err = udp_set_int(u->fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	if (u->family == AF_INET6)
		udp_set_int(u->fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
	return err;
}

int diw_udp_member(struct diw_dgram *d, const struct diw_addr *group, bool join)
{
	const struct diw_udp *u = (struct diw_udp *)d;
	struct ip_mreqn m4 = { .imr_ifindex = (int)u->ifindex };
	struct ipv6_mreq m6 = { .ipv6mr_interface = u->ifindex };
	int rc;

	if (diw_addr_is_v4(group)) {
		memcpy(&m4.imr_multiaddr, group->ip + 12, 4);
		rc = setsockopt(u->fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, &m4, sizeof m4);
	} else if (u->family == AF_INET6) {
		memcpy(&m6.ipv6mr_multiaddr, group->ip, 16);
		rc = setsockopt(u->fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &m6, sizeof m6);
	} else {
		return -EAFNOSUPPORT;
	}
	return rc ? -errno : 0;
}

static int udp_set_options(struct diw_udp *u, const struct diw_dgram_attr *attr)
{
	socklen_t len = sizeof(int);
	int granted = 0;

	set_common(u, u->fd);
	getsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &granted, &len);
	u->d.rcvbuf = (uint32_t)granted;
	if (attr->group)
		return set_group(u);
	if (attr->ifindex)
		set_multicast_if(u, attr->ifindex);
	return attr->broadcast ? udp_set_int(u->fd, SOL_SOCKET, SO_BROADCAST, 1) : 0;
}

static int bind_socket(struct diw_udp *u, const struct diw_dgram_attr *attr)
{
	struct diw_addr local = attr->local;
	struct sockaddr_storage ss;
	socklen_t len;

	if (attr->any) {
		memset(local.ip, 0, sizeof local.ip);
		if (u->family == AF_INET)
			local.ip[10] = local.ip[11] = 0xff;
	}
	len = diw_udp_name(u, &local, &ss);
	if (bind(u->fd, (struct sockaddr *)&ss, len))
		return -errno;
	len = sizeof ss;
	if (getsockname(u->fd, (struct sockaddr *)&ss, &len))
		return -errno;
	diw_addr_from_sockaddr(&u->d.local, (struct sockaddr *)&ss);
	if (attr->any)
		memset(u->d.local.ip, 0, sizeof u->d.local.ip);
	return 0;
}

/* Connects the socket, then drops the datagrams that others sent between bind and connect. */
static int connect_socket(struct diw_udp *u, const struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_udp_name(u, peer, &ss), mtulen = sizeof(int);
	bool v4 = diw_addr_is_v4(peer);
	uint8_t byte;
	int mtu;

	if (connect(u->fd, (struct sockaddr *)&ss, len))
		return -errno;
	while (recv(u->fd, &byte, 1, MSG_TRUNC) >= 0)
		;
	u->connected = true;
	u->tx_peer = (struct diw_dest){ .addr = *peer };
	if (!getsockopt(u->fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &mtulen) && mtu > 0 &&
	    (uint32_t)mtu < u->pmtu.ifmtu)
		u->pmtu.ifmtu = (uint32_t)mtu;
	return 0;
}

static void udp_init(struct diw_udp *u, const struct diw_dgram_attr *attr)
{
	struct cmsghdr *c = &u->tx_control.align;

	u->d.c = attr->c;
	u->any = attr->any;
	u->group = attr->group;
	u->ifindex = attr->ifindex;
	u->hot_fd = -1;
	u->rcvbuf = attr->rcvbuf;
	u->gso = diw_udp_offload().gso;
	u->pmtu.ifmtu = attr->mtu ? attr->mtu : 1500;
	u->max_segs = DIW_DGRAM_MAX_SEGS;
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
}

int diw_udp_socket(struct diw_udp *u, const struct diw_dgram_attr *attr)
{
	int err;

	if (!attr->c || (!attr->any && (diw_addr_ip_is_zero(&attr->local) || diw_addr_is_multicast(&attr->local))))
		return -EINVAL;
	udp_init(u, attr);
	err = udp_open_socket(u, attr);
	if (!err)
		err = udp_set_options(u, attr);
	if (!err)
		err = bind_socket(u, attr);
	u->d.only = u->family == AF_INET ? 4 : attr->any ? 0 : 6;
	if (!err && attr->peer.port && !diw_dgram_reaches(&u->d, &attr->peer))
		err = -EAFNOSUPPORT;
	if (!err && attr->peer.port)
		err = connect_socket(u, &attr->peer);
	if (err && u->fd >= 0)
		close(u->fd);
	u->tx_fd = u->fd;
	u->inode = diw_inode(u->fd);
	return err;
}

/* Both sockets must allow a shared port at the bind. Afterwards the option is cleared, so that no other socket can
 * share it. */
static int second_socket(struct diw_udp *u, const struct diw_addr *peer)
{
	struct diw_addr local = u->d.local;
	struct sockaddr_storage ss;
	socklen_t len;
	bool ok;
	int fd;

	if (u->from_told)
		memcpy(local.ip, u->from.local, sizeof local.ip);
	else if (u->any && diw_addr_is_v4(peer))        /* an IPv4 socket: a dual-stack socket is slower */
		local.ip[10] = local.ip[11] = 0xff;
	len = diw_addr_to_sockaddr(&local, &ss);
	fd = diw_socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	set_common(u, fd);
	ok = !udp_set_int(u->fd, SOL_SOCKET, SO_REUSEPORT, 1) && !udp_set_int(fd, SOL_SOCKET, SO_REUSEPORT, 1) &&
	     !bind(fd, (struct sockaddr *)&ss, len);
	udp_set_int(u->fd, SOL_SOCKET, SO_REUSEPORT, 0);
	udp_set_int(fd, SOL_SOCKET, SO_REUSEPORT, 0);
	if (ok)
		return fd;
	close(fd);
	return -1;
}

/* Sets traffic class and hop limit of FD as DST says, or the system's defaults. */
static bool set_header(int fd, const struct diw_dest *dst)
{
	bool v4 = diw_addr_is_v4(&dst->addr);
	int hops = dst->hop_limit ? dst->hop_limit : -1;

	return !udp_set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, dst->tclass) &&
	       !udp_set_int(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_UNICAST_HOPS, hops);
}

/* Binds the socket to the local address that the peer has sent to, if known. */
static bool from_asked(struct diw_udp *u, int fd, const struct diw_addr *peer)
{
	const struct diw_udp_answer *a = diw_udp_asked(u, peer);
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;
	struct diw_addr own;

	if (getsockname(fd, (struct sockaddr *)&ss, &len))
		return false;
	diw_addr_from_sockaddr(&own, (struct sockaddr *)&ss);
	memcpy(u->hot_local, own.ip, sizeof own.ip);
	return !a || memcmp(a->local, own.ip, sizeof own.ip) == 0;
}

/* With `any` only one peer in the dgram's life gets this socket: it would keep the local address of the first peer. */
bool diw_udp_hot(struct diw_udp *u, const struct diw_dest *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(&peer->addr, &ss);
	int fd;

	if (u->any && u->hot_fd >= 0)
		return false;
	fd = u->hot_fd >= 0 ? u->hot_fd : second_socket(u, &peer->addr);
	if (fd < 0)
		return false;
	if (set_header(fd, peer) && connect(fd, (struct sockaddr *)&ss, len) == 0 &&
	    (!u->any || from_asked(u, fd, &peer->addr))) {
		u->d.state->fds_changed |= fd != u->hot_fd;
		u->hot_fd = fd;
		u->hot_peer = *peer;
		u->hot_named = true;
		u->hot_other = false;
		return true;
	}
	if (fd != u->hot_fd)
		close(fd);
	else
		set_header(fd, &u->hot_peer);
	return false;
}
