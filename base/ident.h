/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device says that it is, in the calls of libibverbs (verbs/of) and in the files of `diw run --dev` (tools). */
#ifndef DIW_BASE_IDENT_H
#define DIW_BASE_IDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/wire.h"

#ifndef DIW_VERSION
#define DIW_VERSION "0.1.0"
#endif

enum {
	DIW_PORT_CM = 1 << 16,               /* bits of InfiniBand's PortInfo:CapabilityMask */
	DIW_PORT_IP_GIDS = 1 << 26,
	DIW_LID_AT = 14,                     /* in the 16 bytes of an address */
	DIW_PKEY = 0xffff,                   /* the one partition: the default one, full member */
};

/* The node's GUID: the EUI-64 of the interface's hardware address, or a number that is this interface's alone. */
void diw_ident_guid(const char *ifname, uint8_t guid[8]);

/* Programs that were written for InfiniBand tell each other LIDs alone. A LID is the last two bytes of an address,
 * whose other bytes both ends have in common: it reaches any host of the same network, if that is a /16 or smaller. */
static inline uint16_t diw_ident_lid(const struct diw_addr *a)
{
	return diw_get16(a->ip + DIW_LID_AT);
}

static inline uint32_t diw_ident_port_caps(bool rnic)
{
	return DIW_PORT_CM | (rnic ? 0 : DIW_PORT_IP_GIDS);
}

#endif
