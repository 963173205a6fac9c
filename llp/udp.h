/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the UDP dgram share. */
#ifndef DIW_LLP_UDP_H
#define DIW_LLP_UDP_H

#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define DIW_UDP_PMTU_SLOTS 64u

/* Path MTUs that turned out smaller than the interface's; direct-mapped, the newest wins. All zero but ifmtu: empty. */
struct diw_udp_pmtu {
	uint32_t ifmtu;              /* of the interface, IP bytes */
	bool used;
	struct {
		struct diw_addr host;    /* port 0 */
		uint64_t expires;
		uint32_t mtu;
	} slot[DIW_UDP_PMTU_SLOTS];
};

/* UDP payload that reaches DST without IP fragments. */
uint32_t diw_udp_pmtu_payload(const struct diw_udp_pmtu *p, const struct diw_addr *dst, uint64_t now);
/* Ask the kernel about the path from SRC (NULL: whichever it takes) to DST; true when it is smaller than we knew. */
bool diw_udp_pmtu_learn(struct diw_udp_pmtu *p, const struct diw_addr *src, const struct diw_addr *dst, uint64_t now);

#endif
