/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and destinations. An address is the form in which every layer identifies a peer. A destination is an
 * address, a traffic class and a hop limit. verbs/diw.h includes no other header of the tree, so it repeats these two
 * definitions.
 */
#ifndef DIW_BASE_ADDR_H
#define DIW_BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <netinet/in.h>

#ifndef DIW_ADDR_DEFINED
#define DIW_ADDR_DEFINED
struct diw_addr {
	uint8_t ip[16];              /* an IPv4 address is v4-mapped */
	uint32_t scope;              /* interface index of a link-local address; else 0 */
	uint16_t port;               /* host byte order */
	uint16_t reserved;           /* 0 */
};
struct diw_dest {
	struct diw_addr addr;
	uint8_t tclass;              /* traffic class (IPv4: TOS); 0: the system's default */
	uint8_t hop_limit;           /* hop limit (IPv4: TTL); 0: the system's default */
	uint16_t reserved;           /* 0 */
};
#endif
_Static_assert(sizeof(struct diw_addr) == 24, "compared and hashed as three words");
_Static_assert(sizeof(struct diw_dest) == 28, "compared as memory: no padding");

static inline bool diw_addr_eq(const struct diw_addr *a, const struct diw_addr *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static inline bool diw_dest_eq(const struct diw_dest *a, const struct diw_dest *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static inline uint32_t diw_addr_hash(const struct diw_addr *a, uint64_t seed)
{
	uint64_t w[3], h;

	memcpy(w, a, sizeof w);
	h = (w[0] ^ seed) * 0x9e3779b97f4a7c15u;
	h = (h ^ (h >> 32) ^ w[1]) * 0xd6e8feb86659fd93u;
	h = (h ^ (h >> 32) ^ w[2]) * 0xd6e8feb86659fd93u;
	return (uint32_t)(h ^ (h >> 32));
}

static inline bool diw_addr_is_v4(const struct diw_addr *a)
{
	static const uint8_t v4mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(a->ip, v4mapped, sizeof v4mapped) == 0;
}

static inline bool diw_addr_ip_is_zero(const struct diw_addr *a)
{
	static const uint8_t zero[16];

	return memcmp(a->ip, zero, sizeof zero) == 0;
}

#define DIW_ADDR_IP_STRLEN INET6_ADDRSTRLEN
const char *diw_addr_ip_str(const struct diw_addr *a, char *buf);    /* without scope and port */
bool diw_addr_is_multicast(const struct diw_addr *a);  /* also the limited broadcast address */
bool diw_addr_same_host(const struct diw_addr *a, const struct diw_addr *b);

/* Both functions normalise: a v4-mapped address is an AF_INET sockaddr, and only link-local addresses have a scope. */
void diw_addr_from_sockaddr(struct diw_addr *a, const struct sockaddr *sa);
socklen_t diw_addr_to_sockaddr(const struct diw_addr *a, struct sockaddr_storage *ss);

#endif
