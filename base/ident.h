/* SPDX-License-Identifier: BSD-2-Clause */
/* The identity of a device: GUID, LID, partition key. The calls of libibverbs (verbs/of) and the files of `diw run
 * --dev` (tools) show it. */
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
	DIW_LID_AT = 14,                     /* position of the LID in the 16 bytes of an address */
	DIW_PKEY = 0xffff,                   /* the only partition: the default one, full member */
};

/* The node's GUID: the EUI-64 of the interface's hardware address, or else a number that no other interface has. */
void diw_ident_guid(const char *ifname, uint8_t guid[8]);

/* Programs that were written for InfiniBand exchange LIDs only. A LID is the last two bytes of an address. Both ends
 * have the other bytes in common, so a LID names any host of the same network if that is a /16 or smaller. */
static inline uint16_t diw_ident_lid(const struct diw_addr *a)
{
	return diw_get16(a->ip + DIW_LID_AT);
}

/* A program may have the number of its GID built in: mostly 1 or 3, where rxe and mlx5 have that of IPv4. Entries up to
 * 3 that no address takes are therefore the first GID once more. */
#define DIW_USUAL_GIDS 4

static inline int diw_ident_gids(int addrs)
{
	return addrs > 0 && addrs < DIW_USUAL_GIDS ? DIW_USUAL_GIDS : addrs;
}

/* The address that is GID I. */
static inline int diw_ident_gid(int i, int addrs)
{
	return i < addrs ? i : 0;
}

static inline uint32_t diw_ident_port_caps(bool rnic)
{
	return DIW_PORT_CM | (rnic ? 0 : DIW_PORT_IP_GIDS);
}

#endif
