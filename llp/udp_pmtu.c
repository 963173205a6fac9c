/* SPDX-License-Identifier: BSD-2-Clause */
/* Path MTUs. When a datagram was too large, a connected socket asks the kernel for the path's MTU. The answer is kept
 * for ten minutes. */
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "llp/dgram.h"
#include "llp/udp.h"

#define TTL (600 * DIW_S)            /* like the kernel's net.ipv4.route.mtu_expires */

static uint32_t payload_of(const struct diw_addr *dst, uint32_t ip_mtu)
{
	uint32_t over = diw_addr_is_v4(dst) ? 20 + 8 : 40 + 8;
	uint32_t n = ip_mtu > over ? ip_mtu - over : 1;

	return n < DIW_DGRAM_MAX ? n : DIW_DGRAM_MAX;
}

static unsigned pmtu_slot(struct diw_addr *host)
{
	host->port = 0;
	return diw_addr_hash(host, 0) % DIW_UDP_PMTU_SLOTS;
}

uint32_t diw_udp_pmtu_payload(const struct diw_udp_pmtu *p, const struct diw_addr *dst, uint64_t now)
{
	uint32_t mtu = p->ifmtu;

	if (p->used) {
		struct diw_addr host = *dst;
		unsigned i = pmtu_slot(&host);

		if (p->slot[i].mtu < mtu && p->slot[i].expires > now && diw_addr_eq(&p->slot[i].host, &host))
			mtu = p->slot[i].mtu;
	}
	return payload_of(dst, mtu);
}

/* IP bytes; 0: the kernel does not know. Only a connected socket can be asked. */
static uint32_t ask_route_mtu(const struct diw_addr *src, const struct diw_addr *dst)
{
	struct sockaddr_storage to, from;
	socklen_t tolen = diw_addr_to_sockaddr(dst, &to), fromlen, len = sizeof(int);
	bool v6 = to.ss_family == AF_INET6, ok = true;
	int fd = diw_socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;

	if (fd < 0)
		return 0;
	if (src) {
		struct diw_addr a = *src;

		a.port = 0;
		fromlen = diw_addr_to_sockaddr(&a, &from);
		ok = !bind(fd, (struct sockaddr *)&from, fromlen);
	}
	ok = ok && !connect(fd, (struct sockaddr *)&to, tolen) &&
	     !getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &len);
	close(fd);
	return ok && mtu > 0 ? (uint32_t)mtu : 0;
}

bool diw_udp_pmtu_learn(struct diw_udp_pmtu *p, const struct diw_addr *src, const struct diw_addr *dst, uint64_t now)
{
	struct diw_addr host = *dst;
	unsigned i = pmtu_slot(&host);
	uint32_t mtu = ask_route_mtu(src, dst);

	if (!mtu || payload_of(dst, mtu) >= diw_udp_pmtu_payload(p, dst, now))
		return false;
	p->slot[i].host = host;
	p->slot[i].mtu = mtu;
	p->slot[i].expires = now + TTL;
	p->used = true;
	return true;
}
