/* SPDX-License-Identifier: BSD-2-Clause */
/* The codec of MPA's request and reply frames. */
#include <errno.h>
#include <string.h>

#include "base/wire.h"
#include "wire/mpa_frame.h"

#define KEY_LEN 16u
#define M 0x80u
#define R 0x20u
#define S 0x10u
#define LARGE 0x08u                  /* reserved by RFC 5044; the Linux kernel's siw sets it, and expects it in the
				      * reply */
#define HIGH 0x8000u                 /* control flag A or C */
#define NEXT 0x4000u                 /* control flag B or D */

static const char *frame_key(bool reply)
{
	return reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
}

static uint16_t enhanced_word(bool high, bool next, uint16_t depth)
{
	return (uint16_t)((high ? HIGH : 0) | (next ? NEXT : 0) | (depth & DIW_MPA_NO_LIMIT));
}

uint32_t diw_mpa_frame_encode(uint8_t *p, const struct diw_mpa_frame *f)
{
	uint32_t at = DIW_MPA_FRAME_HDR, extra = f->enhanced ? DIW_MPA_ENHANCED_LEN : 0;

	memcpy(p, frame_key(f->reply), KEY_LEN);
	p[DIW_MPA_FLAGS_AT] = (uint8_t)((f->markers ? M : 0) | (f->crc ? DIW_MPA_C : 0) | (f->reject ? R : 0) |
					(f->enhanced ? S : 0) | (f->large ? LARGE : 0));
	p[17] = f->revision;
	diw_put16(p + 18, (uint16_t)(extra + f->len));
	if (f->enhanced) {
		diw_put16(p + at, enhanced_word(f->p2p, f->rtr_fpdu, f->ird));
		diw_put16(p + at + 2, enhanced_word(f->rtr_write, f->rtr_read, f->ord));
		at += DIW_MPA_ENHANCED_LEN;
	}
	if (f->len)
		memcpy(p + at, f->data, f->len);
	return at + f->len;
}

static void decode_enhanced(struct diw_mpa_frame *f, const uint8_t *p)
{
	uint16_t ird = diw_get16(p), ord = diw_get16(p + 2);

	f->p2p = ird & HIGH;
	f->rtr_fpdu = ird & NEXT;
	f->ird = ird & DIW_MPA_NO_LIMIT;
	f->rtr_write = ord & HIGH;
	f->rtr_read = ord & NEXT;
	f->ord = ord & DIW_MPA_NO_LIMIT;
}

int diw_mpa_frame_decode(struct diw_mpa_frame *f, bool reply, const uint8_t *p, uint32_t len)
{
	uint32_t data, extra;
	uint8_t flags;

	if (memcmp(p, frame_key(reply), len < KEY_LEN ? len : KEY_LEN) != 0)
		return -EPROTO;
	/* The first byte of the length field is enough for this check. */
	if (len > 18 && p[18] > DIW_MPA_MAX_DATA >> 8)
		return -EMSGSIZE;
	if (len < DIW_MPA_FRAME_HDR)
		return 0;
	data = diw_get16(p + 18);
	if (data > DIW_MPA_MAX_DATA)
		return -EMSGSIZE;
	flags = p[DIW_MPA_FLAGS_AT];
	*f = (struct diw_mpa_frame){ .reply = reply, .markers = flags & M, .crc = flags & DIW_MPA_C,
				     .reject = flags & R, .large = flags & LARGE, .revision = p[17],
				     .enhanced = p[17] == 2 && (flags & S) };
	extra = f->enhanced ? DIW_MPA_ENHANCED_LEN : 0;
	if (data < extra)
		return -EBADMSG;
	if (len < DIW_MPA_FRAME_HDR + data)
		return 0;
	if (f->enhanced)
		decode_enhanced(f, p + DIW_MPA_FRAME_HDR);
	f->len = data - extra;
	f->data = p + DIW_MPA_FRAME_HDR + extra;
	return (int)(DIW_MPA_FRAME_HDR + data);
}
