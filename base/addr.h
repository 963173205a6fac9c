/* SPDX-License-Identifier: BSD-2-Clause */
/* The one form in which every layer knows a peer. verbs/diw.h, which must stand alone, holds the same definition. */
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
	uint8_t ip[16];
	uint32_t scope;
	uint16_t port;
	uint16_t path;
};
#endif
_Static_assert(sizeof(struct diw_addr) == 24, "compared and hashed as three words");

static inline bool diw_addr_eq(const struct diw_addr *a, const struct diw_addr *b)
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

/* Both directions normalise: a v4-mapped address is an AF_INET sockaddr, only link-local addresses have a scope. */
void diw_addr_from_sockaddr(struct diw_addr *a, const struct sockaddr *sa);
socklen_t diw_addr_to_sockaddr(const struct diw_addr *a, struct sockaddr_storage *ss);

#endif
