/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec of the RD header: docs/ud-profile.md section 18.2. */
#include "wire/rd_hdr.h"

#include <stdbool.h>

#include "base/wire.h"

#define DV_RD 0x02u
#define OCTET0_RSVD 0x0cu
#define DV 0x03u

static bool rd_hdr_announces(const struct diw_rd_hdr *h)
{
	return (h->flags & DIW_RD_NEW) || h->kind == DIW_RD_OPEN || h->kind == DIW_RD_GRANT;
}

uint32_t diw_rd_hdr_encode(uint8_t *p, const struct diw_rd_hdr *h)
{
	p[0] = (uint8_t)(h->kind << 4 | DV_RD);
	p[1] = h->flags;
	diw_put16(p + 2, h->window);
	diw_put32(p + 4, h->tag);
	diw_put32(p + 8, h->seq);
	diw_put32(p + 12, h->ack);
	diw_put32(p + 16, h->time);
	diw_put32(p + 20, h->echo);
	if (!rd_hdr_announces(h))
		return DIW_RD_HDR;
	diw_put32(p + 24, h->my_tag);
	diw_put32(p + 28, h->my_epoch);
	diw_put32(p + 32, h->first);
	return DIW_RD_HDR_MAX;
}

uint32_t diw_rd_hdr_decode(struct diw_rd_hdr *h, const uint8_t *p, uint32_t len)
{
	if (len < DIW_RD_HDR || (p[0] & (OCTET0_RSVD | DV)) != DV_RD || p[0] >> 4 >= DIW_RD_KINDS ||
	    (p[1] & DIW_RD_FLAGS_RSVD))
		return 0;
	*h = (struct diw_rd_hdr){ .kind = (enum diw_rd_kind)(p[0] >> 4), .flags = p[1], .window = diw_get16(p + 2),
		.tag = diw_get32(p + 4), .seq = diw_get32(p + 8), .ack = diw_get32(p + 12),
		.time = diw_get32(p + 16), .echo = diw_get32(p + 20) };
	if (!rd_hdr_announces(h))
		return h->kind == DIW_RD_DATA && len == DIW_RD_HDR ? 0 : DIW_RD_HDR;
	if (len < DIW_RD_HDR_MAX || (h->kind == DIW_RD_DATA && len == DIW_RD_HDR_MAX))
		return 0;
	h->my_tag = diw_get32(p + 24);
	h->my_epoch = diw_get32(p + 28);
	h->first = diw_get32(p + 32);
	return DIW_RD_HDR_MAX;
}
