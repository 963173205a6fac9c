/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes bursts of the messages that UDP dgrams receive, for both ways from the kernel. */
#include <errno.h>
#include <string.h>

#include "llp/dgram.h"
#include "llp/udp.h"

static void remember_asked(struct diw_udp *u, const struct diw_addr *peer, const uint8_t local[16], unsigned ifindex)
{
	struct diw_udp_answer *a = &u->answer[diw_addr_hash(peer, 0) % DIW_UDP_ANSWER_SLOTS];
	struct diw_addr l = { 0 };

	memcpy(l.ip, local, 16);
	if (diw_addr_is_multicast(&l))
		return;
	if (!(local[0] == 0xfe && (local[1] & 0xc0) == 0x80))
		ifindex = 0;
	if (diw_addr_eq(&a->peer, peer) && !memcmp(a->local, local, 16) && a->ifindex == ifindex)
		return;
	*a = (struct diw_udp_answer){ .peer = *peer, .ifindex = ifindex };
	memcpy(a->local, local, 16);
	if (diw_addr_eq(peer, &u->hot_peer.addr))
		u->hot_other = memcmp(u->hot_local, local, 16) != 0;
	u->tx_peer.addr.port = 0;         /* prepared headers may contain the old source */
}

static void came_to(const struct diw_udp *u, struct diw_dgram_burst *b, const uint8_t ip[16])
{
	b->to = (struct diw_addr){ .port = u->d.local.port };
	memcpy(b->to.ip, ip, 16);
}

static void rx_cmsgs(struct diw_udp *u, struct diw_dgram_burst *b)
{
	b->seg = 0;
	b->group = false;               /* a socket that is bound to an address receives no multicasts */
	b->to.port = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&u->rx); c; c = CMSG_NXTHDR(&u->rx, c)) {
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
			int v;

			memcpy(&v, CMSG_DATA(c), sizeof v);
			b->seg = v > 0 ? (uint32_t)v : 0;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff };
			struct in_pktinfo i;

			memcpy(&i, CMSG_DATA(c), sizeof i);
			memcpy(mapped + 12, &i.ipi_spec_dst, 4);
			b->group = i.ipi_addr.s_addr != i.ipi_spec_dst.s_addr;
			if (!u->group)
				remember_asked(u, &b->peer.addr, mapped, 0);
			memcpy(mapped + 12, &i.ipi_addr, 4);
			if (u->group || !b->group)
				came_to(u, b, mapped);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO &&
			   !diw_addr_is_v4(&b->peer.addr)) {
			struct in6_pktinfo i;

			memcpy(&i, CMSG_DATA(c), sizeof i);
			b->group = IN6_IS_ADDR_MULTICAST(&i.ipi6_addr);
			if (!u->group)
				remember_asked(u, &b->peer.addr, i.ipi6_addr.s6_addr, i.ipi6_ifindex);
			if (u->group || !b->group)
				came_to(u, b, i.ipi6_addr.s6_addr);
		}
	}
}

void diw_udp_rx_error(struct diw_udp *u, int err, bool hot)
{
	if (diw_udp_errors(u, hot ? u->hot_fd : u->fd))
		return;
	if (err == -EMSGSIZE)                   /* both, since the error queue had no room */
		diw_udp_learn_mtu(u, hot ? &u->hot_peer.addr : &u->tx_peer.addr);
	else if (err == -ECONNREFUSED)
		u->d.c->tx_error++;
}

static void count_burst(const struct diw_udp *u, const struct diw_dgram_burst *b)
{
	u->d.c->rx_bursts++;
	u->d.c->rx_datagrams += b->seg ? (b->len + b->seg - 1) / b->seg : 1;
	u->d.c->rx_bytes += b->len;
}

void diw_udp_rx_burst(struct diw_udp *u, struct diw_dgram_burst *b, void *data, uint32_t len)
{
	b->peer = (struct diw_dest){ .addr = u->hot_peer.addr };
	if (u->rx.msg_name)
		diw_addr_from_sockaddr(&b->peer.addr, u->rx.msg_name);
	b->bare = false;
	rx_cmsgs(u, b);
	if (!u->rx.msg_name && u->any)
		came_to(u, b, u->hot_local);
	b->len = len;
	if (!b->seg || b->seg > b->len)
		b->seg = b->len;
	u->rx_burst = (struct iovec){ data, b->len };
	b->iov = &u->rx_burst;
	b->niov = 1;
	count_burst(u, b);
}

int diw_udp_rx_given(struct diw_udp *u, struct diw_dgram_burst *b)
{
	*b = *u->d.given;
	u->d.given = NULL;
	count_burst(u, b);
	return 1;
}
