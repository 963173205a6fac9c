/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec of segment headers. */
#include "wire/hdr.h"

#include "base/fault.h"
#include "base/wire.h"
#include "wire/rdmap.h"

uint32_t diw_ddp_hdr_encode(uint8_t *p, const struct diw_ddp_hdr *h)
{
	uint8_t *q = p;

	p[0] = (h->tagged ? DIW_DDP_TAGGED : 0) | (h->last ? DIW_DDP_LAST : 0) | 1;
	p[1] = 0x40 | (h->imm_valid ? DIW_RDMAP_IMM : 0) | (h->solicited ? DIW_RDMAP_SOLICITED : 0) |
	       (h->worded ? DIW_RDMAP_WORD : 0) | h->opcode;
	if (h->tagged) {
		diw_put32(p + DIW_T_STAG, h->stag);
		diw_put64(p + DIW_T_TO, h->to);
		q += DIW_DDP_PLAIN_TAGGED_LEN;
		if (!h->plain) {
			diw_put32(p + DIW_T_QKEY, h->qkey);
			diw_put16(p + DIW_T_EPOCH, h->epoch);
			diw_put32(p + DIW_T_MSN, h->msn);
			diw_put32(p + DIW_T_MO, h->mo);
			diw_put32(p + DIW_T_LENGTH, h->length);
			q = p + DIW_DDP_TAGGED_LEN;
		}
	} else {
		diw_put32(p + DIW_U_INV_STAG, h->inv_stag);
		diw_put32(p + DIW_U_QN, h->qn);
		diw_put32(p + DIW_U_MSN, h->msn);
		diw_put32(p + DIW_U_MO, h->mo);
		q += DIW_DDP_PLAIN_UNTAGGED_LEN;
		if (!h->plain) {
			diw_put32(p + DIW_U_QKEY, h->qkey);
			diw_put16(p + DIW_U_EPOCH, h->epoch);
			diw_put32(p + DIW_U_LENGTH, h->length);
			q = p + DIW_DDP_UNTAGGED_LEN;
		}
	}
	if (h->imm_valid) {
		diw_put32(q, h->imm);
		q += 4;
	}
	if (h->worded) {
		diw_put32(q, h->word);
		q += 4;
	}
	return (uint32_t)(q - p);
}

static void decode_fields(struct diw_ddp_hdr *h, const uint8_t *p)
{
	h->last = p[0] & DIW_DDP_LAST;
	h->solicited = p[1] & DIW_RDMAP_SOLICITED;
	h->opcode = p[1] & DIW_RDMAP_OP;
	if (h->tagged) {
		h->stag = diw_get32(p + DIW_T_STAG);
		h->to = diw_get64(p + DIW_T_TO);
		h->qkey = diw_get32(p + DIW_T_QKEY);
		h->epoch = diw_get16(p + DIW_T_EPOCH);
		h->msn = diw_get32(p + DIW_T_MSN);
		h->mo = diw_get32(p + DIW_T_MO);
		h->length = diw_get32(p + DIW_T_LENGTH);
		h->qn = 0;
	} else {
		h->qn = diw_get32(p + DIW_U_QN);
		h->msn = diw_get32(p + DIW_U_MSN);
		h->mo = diw_get32(p + DIW_U_MO);
		h->qkey = diw_get32(p + DIW_U_QKEY);
		h->epoch = diw_get16(p + DIW_U_EPOCH);
		h->length = diw_get32(p + DIW_U_LENGTH);
		h->inv_stag = diw_get32(p + DIW_U_INV_STAG);
		h->stag = 0;
		h->to = 0;
	}
}

uint16_t diw_ddp_hdr_decode(struct diw_ddp_hdr *h, uint32_t *hdr_len, const uint8_t *p, uint32_t len)
{
	uint32_t n, payload;
	uint64_t end;

	*hdr_len = 0;
	if (len < DIW_DDP_CONTROL)
		return DIW_FAULT_SHORT;
	h->plain = h->worded = false;
	h->tagged = p[0] & DIW_DDP_TAGGED;
	h->imm_valid = p[1] & DIW_RDMAP_IMM;
	h->inv_stag = 0;
	n = diw_ddp_hdr_len(h);
	if (len < n)
		return DIW_FAULT_SHORT;
	decode_fields(h, p);
	h->imm = h->imm_valid ? diw_get32(p + n - 4) : 0;
	*hdr_len = n;
	if ((p[0] & (DIW_DDP_RSVD | DIW_DDP_DV)) != 1)
		return h->tagged ? DIW_FAULT_TAGGED_VERSION : DIW_FAULT_UNTAGGED_VERSION;
	if ((p[1] & DIW_RDMAP_RV) != 0x40 || (h->inv_stag != 0 && !diw_op_invalidates(h->opcode)))
		return DIW_FAULT_RDMAP_VERSION;
	payload = len - n;
	end = (uint64_t)h->mo + payload;
	if (end > h->length || h->last != (end == h->length))
		return DIW_FAULT_MO;
	if (payload == 0 && h->length != 0)
		return DIW_FAULT_MO;
	return 0;
}

uint16_t diw_ddp_hdr_decode_plain(struct diw_ddp_hdr *h, uint32_t *hdr_len, uint8_t extras, const uint8_t *p,
				  uint32_t len)
{
	uint32_t n;

	*hdr_len = 0;
	if (len < DIW_DDP_CONTROL)
		return DIW_FAULT_SHORT;
	*h = (struct diw_ddp_hdr){
		.plain = true, .tagged = p[0] & DIW_DDP_TAGGED, .last = p[0] & DIW_DDP_LAST,
		.imm_valid = p[1] & extras & DIW_RDMAP_IMM, .worded = p[1] & extras & DIW_RDMAP_WORD,
		.opcode = p[1] & DIW_RDMAP_OP,
	};
	n = diw_ddp_hdr_len(h);
	if (len < n)
		return DIW_FAULT_SHORT;
	if (h->tagged) {
		h->stag = diw_get32(p + DIW_T_STAG);
		h->to = diw_get64(p + DIW_T_TO);
	} else {
		h->inv_stag = diw_get32(p + DIW_U_INV_STAG);
		h->qn = diw_get32(p + DIW_U_QN);
		h->msn = diw_get32(p + DIW_U_MSN);
		h->mo = diw_get32(p + DIW_U_MO);
	}
	h->word = h->worded ? diw_get32(p + n - 4) : 0;
	h->imm = h->imm_valid ? diw_get32(p + n - (h->worded ? 8 : 4)) : 0;
	*hdr_len = n;
	/* Reserved bits are ignored (RFC 5041 section 4.1). */
	if ((p[0] & DIW_DDP_DV) != 1)
		return h->tagged ? DIW_FAULT_TAGGED_VERSION : DIW_FAULT_UNTAGGED_VERSION;
	return (p[1] & DIW_RDMAP_RV) == 0x40 ? 0 : DIW_FAULT_RDMAP_VERSION;
}
