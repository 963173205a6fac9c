/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes and decodes the provider's headers. A decoder reads octets of any peer, so it checks lengths and flags. */
#include "base/wire.h"
#include "mpi_glue/msg_hdr.h"

#define HDR_COMMON GLUE_HDR_MIN          /* version and kind, flags, packed or reserved, id */

uint32_t diw_glue_id_next(uint32_t id, uint32_t place)
{
	uint32_t generation = (id >> GLUE_OP_BITS) + 1;

	if (generation >> (32 - GLUE_OP_BITS))
		generation = 1;
	return generation << GLUE_OP_BITS | place;
}

/* The flags that each kind may have. */
static const uint8_t hdr_flags[GLUE_KINDS] = {
	[GLUE_EAGER] = GLUE_TAGGED | GLUE_IMM | GLUE_REPORT,
	[GLUE_RTS] = GLUE_TAGGED | GLUE_IMM | GLUE_REPORT | GLUE_READABLE,
	[GLUE_ATOMIC] = GLUE_FETCH,
};

static uint32_t hdr_size(const struct glue_hdr *h)
{
	switch (h->kind) {
	case GLUE_EAGER: return HDR_COMMON + (h->flags & GLUE_TAGGED ? 8 : 0) + (h->flags & GLUE_IMM ? 8 : 0);
	case GLUE_RTS: return HDR_COMMON + 24 + (h->flags & GLUE_READABLE ? 12 : 0);
	case GLUE_CTS:
	case GLUE_ATOMIC: return HDR_COMMON + 24;
	case GLUE_DATA:
	case GLUE_RESULT: return HDR_COMMON + 8;
	case GLUE_WRITTEN: return HDR_COMMON + 16;
	default: return HDR_COMMON + 4;      /* FIN, HOLD, GONE */
	}
}

static void envelope_put(uint8_t *p, const struct glue_hdr *h)
{
	bool rts = h->kind == GLUE_RTS;

	if (rts || h->flags & GLUE_TAGGED) {
		diw_put64(p, h->tag);
		p += 8;
	}
	if (rts || h->flags & GLUE_IMM) {
		diw_put64(p, h->imm);
		p += 8;
	}
	if (rts)
		diw_put64(p, h->len);
	if (h->flags & GLUE_READABLE) {
		diw_put32(p + 8, h->stag);
		diw_put64(p + 12, h->to);
	}
}

static void envelope_get(struct glue_hdr *h, const uint8_t *p)
{
	bool rts = h->kind == GLUE_RTS;

	if (rts || h->flags & GLUE_TAGGED) {
		h->tag = diw_get64(p);
		p += 8;
	}
	if (rts || h->flags & GLUE_IMM) {
		h->imm = diw_get64(p);
		p += 8;
	}
	if (rts)
		h->len = diw_get64(p);
	if (h->flags & GLUE_READABLE) {
		h->stag = diw_get32(p + 8);
		h->to = diw_get64(p + 12);
	}
}

static void atomic_put(uint8_t *p, const struct glue_hdr *h)
{
	p[0] = h->op;
	p[1] = h->type;
	diw_put16(p + 2, 0);
	diw_put32(p + 4, h->stag);
	diw_put64(p + 8, h->to);
	diw_put32(p + 16, h->count);
	diw_put32(p + 20, h->offset);
}

static bool atomic_get(struct glue_hdr *h, const uint8_t *p)
{
	h->op = p[0];
	h->type = p[1];
	h->stag = diw_get32(p + 4);
	h->to = diw_get64(p + 8);
	h->count = diw_get32(p + 16);
	h->offset = diw_get32(p + 20);
	return diw_get16(p + 2) == 0;
}

uint32_t diw_glue_hdr_encode(uint8_t *p, const struct glue_hdr *h)
{
	p[0] = (uint8_t)(GLUE_VERSION << 4 | h->kind);
	p[1] = h->flags;
	diw_put16(p + 2, h->packed);
	diw_put32(p + 4, h->id);
	switch (h->kind) {
	case GLUE_EAGER:
	case GLUE_RTS:
		envelope_put(p + HDR_COMMON, h);
		break;
	case GLUE_CTS:
		diw_put32(p + 8, h->peer_id);
		diw_put32(p + 12, h->stag);
		diw_put64(p + 16, h->to);
		diw_put64(p + 24, h->len);
		break;
	case GLUE_DATA:
		diw_put64(p + 8, h->to);
		break;
	case GLUE_WRITTEN:
		diw_put64(p + 8, h->imm);
		diw_put64(p + 16, h->len);
		break;
	case GLUE_ATOMIC:
		atomic_put(p + HDR_COMMON, h);
		break;
	case GLUE_RESULT:
		diw_put32(p + 8, h->status);
		diw_put32(p + 12, h->offset);
		break;
	default:
		diw_put32(p + 8, h->status);
	}
	return hdr_size(h);
}

uint32_t diw_glue_hdr_decode(struct glue_hdr *h, const uint8_t *p, uint64_t len)
{
	*h = (struct glue_hdr){ .kind = GLUE_FIN };
	if (len < HDR_COMMON || p[0] >> 4 != GLUE_VERSION || (p[0] & 15) >= GLUE_KINDS)
		return 0;
	h->kind = (enum glue_kind)(p[0] & 15);
	h->flags = p[1];
	h->packed = diw_get16(p + 2);
	h->id = diw_get32(p + 4);
	if (h->flags & ~hdr_flags[h->kind] || (h->packed && h->kind != GLUE_EAGER) || len < hdr_size(h))
		return 0;
	switch (h->kind) {
	case GLUE_EAGER:
	case GLUE_RTS:
		envelope_get(h, p + HDR_COMMON);
		if (h->len > GLUE_MSG_MAX)
			return 0;
		break;
	case GLUE_CTS:
		h->peer_id = diw_get32(p + 8);
		h->stag = diw_get32(p + 12);
		h->to = diw_get64(p + 16);
		h->len = diw_get64(p + 24);
		break;
	case GLUE_DATA:
		h->to = diw_get64(p + 8);
		break;
	case GLUE_WRITTEN:
		h->imm = diw_get64(p + 8);
		h->len = diw_get64(p + 16);
		break;
	case GLUE_ATOMIC:
		return atomic_get(h, p + HDR_COMMON) ? hdr_size(h) : 0;
	case GLUE_RESULT:
		h->status = diw_get32(p + 8);
		h->offset = diw_get32(p + 12);
		break;
	default:
		h->status = diw_get32(p + 8);
	}
	return hdr_size(h);
}
