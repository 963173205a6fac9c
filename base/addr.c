/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions between diw_addr, sockaddr and text, and the address classes that layers ask for. */
#include "base/addr.h"

#include <arpa/inet.h>

const char *diw_addr_ip_str(const struct diw_addr *a, char *buf)
{
	bool v4 = diw_addr_is_v4(a);

	return inet_ntop(v4 ? AF_INET : AF_INET6, a->ip + (v4 ? 12 : 0), buf, DIW_ADDR_IP_STRLEN);
}

bool diw_addr_is_multicast(const struct diw_addr *a)
{
	if (diw_addr_is_v4(a))
		return (a->ip[12] & 0xf0) == 0xe0 || (a->ip[12] & a->ip[13] & a->ip[14] & a->ip[15]) == 0xff;
	return a->ip[0] == 0xff;
}

bool diw_addr_same_host(const struct diw_addr *a, const struct diw_addr *b)
{
	return memcmp(a->ip, b->ip, sizeof a->ip) == 0 && a->scope == b->scope;
}

void diw_addr_from_sockaddr(struct diw_addr *a, const struct sockaddr *sa)
{
	memset(a, 0, sizeof *a);
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		a->ip[10] = a->ip[11] = 0xff;
		memcpy(a->ip + 12, &in->sin_addr, 4);
		a->port = ntohs(in->sin_port);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		memcpy(a->ip, &in6->sin6_addr, 16);
		a->port = ntohs(in6->sin6_port);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) || IN6_IS_ADDR_MC_LINKLOCAL(&in6->sin6_addr))
			a->scope = in6->sin6_scope_id;
	}
}

socklen_t diw_addr_to_sockaddr(const struct diw_addr *a, struct sockaddr_storage *ss)
{
	if (diw_addr_is_v4(a)) {
		struct sockaddr_in *in = (void *)ss;

		memset(in, 0, sizeof *in);
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + 12, 4);
		return sizeof *in;
	}
	struct sockaddr_in6 *in6 = (void *)ss;

	memset(in6, 0, sizeof *in6);
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(a->port);
	memcpy(&in6->sin6_addr, a->ip, 16);
	in6->sin6_scope_id = a->scope;
	return sizeof *in6;
}
