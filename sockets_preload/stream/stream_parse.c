/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parser of FPDUs. An urgent byte is between two FPDUs, and the kernel takes it out of the stream. If it was not
 * read when the next urgent byte comes, it becomes an ordinary byte of the stream, in front of the next head.
 */
#include <string.h>

#include "sockets_preload/stream/stream.h"
#include "wire/fpdu.h"
#include "wire/hdr.h"
#include "wire/rdmap.h"

#define MOVE_LITTLE 1024u                    /* payload */

/* The head is complete. False: no interposer makes such a head. */
static bool is_good_head(struct diw_stream_rx *rx)
{
	uint16_t ulpdu = diw_get16(rx->head);
	struct diw_ddp_hdr h;
	uint32_t len;

	if (ulpdu < DIW_DDP_PLAIN_UNTAGGED_LEN ||
	    diw_ddp_hdr_decode_plain(&h, &len, 0, rx->head + DIW_MPA_LEN, DIW_DDP_PLAIN_UNTAGGED_LEN) != 0)
		return false;
	if (h.tagged || !h.last || h.opcode != DIW_OP_SEND || h.inv_stag || h.qn || h.mo || h.msn != rx->msn)
		return false;
	rx->left = ulpdu - DIW_DDP_PLAIN_UNTAGGED_LEN;
	rx->little = rx->left <= MOVE_LITTLE;
	rx->tail = (uint8_t)diw_fpdu_tail(ulpdu);
	rx->verified = false;
	rx->msn++;
	return rx->left > 0 && (!rx->crc || rx->left <= DIW_STREAM_MOST_CRC);
}

/* How many bytes before the head were urgent; the head is complete when as many more bytes have come. */
static size_t find_stale(const struct diw_stream_rx *rx)
{
	struct diw_ddp_hdr h = { .plain = true, .last = true, .opcode = DIW_OP_SEND };
	uint8_t want[DIW_DDP_PLAIN_UNTAGGED_LEN];

	diw_ddp_hdr_encode(want, &h);
	for (size_t n = 1; n <= sizeof rx->stale; n++)
		if (memcmp(rx->head + n + DIW_MPA_LEN, want, DIW_DDP_CONTROL) == 0)
			return n;
	return 0;
}

static bool take_head(struct diw_stream_rx *rx)
{
	size_t n;

	if (is_good_head(rx))
		return true;
	n = rx->n_stale ? 0 : find_stale(rx);
	memcpy(rx->stale, rx->head, n);
	memmove(rx->head, rx->head + n, DIW_STREAM_HEAD - n);
	rx->n_stale = (uint8_t)n;
	rx->got = (uint8_t)(DIW_STREAM_HEAD - n);
	return n;
}

/* Moves these bytes to the program. The room is the one that the head took in the buffer. */
static size_t stale_move(struct diw_stream_rx *rx, uint8_t *to)
{
	size_t n = rx->n_stale;

	memcpy(to, rx->stale, n);
	rx->n_stale = 0;
	return n;
}

bool diw_stream_parse(struct diw_stream_rx *rx, const uint8_t *p, size_t n, uint8_t *to, size_t *got)
{
	*got = 0;
	while (n) {
		size_t take;

		if (rx->got < DIW_STREAM_HEAD) {
			take = DIW_STREAM_HEAD - rx->got < n ? DIW_STREAM_HEAD - rx->got : n;
			memcpy(rx->head + rx->got, p, take);
			rx->got = (uint8_t)(rx->got + take);
			if (rx->got == DIW_STREAM_HEAD && !take_head(rx))
				return false;
			if (rx->got == DIW_STREAM_HEAD && rx->n_stale && to)
				*got += stale_move(rx, to + *got);
		} else if (rx->left) {
			take = rx->left < n ? rx->left : n;
			memmove(to + *got, p, take);
			*got += take;
			rx->left -= (uint32_t)take;
		} else {
			take = rx->tail < n ? rx->tail : n;
			rx->tail = (uint8_t)(rx->tail - take);
			if (!rx->tail)
				rx->got = 0;
		}
		p += take;
		n -= take;
	}
	return true;
}

bool diw_stream_is_intact(const struct diw_stream_rx *rx, const uint8_t *p, size_t all)
{
	return diw_fpdu_is_good(diw_crc32c(0, rx->head, DIW_STREAM_HEAD), p, all);
}

size_t diw_stream_parse_good(struct diw_stream_rx *rx, uint8_t *p, size_t n)
{
	size_t at = 0, all = 0, got, take = n < rx->left + rx->tail ? n : rx->left + rx->tail;

	while (take && diw_stream_parse(rx, p + at, take, p + all, &got)) {
		at += take;
		all += got;
		take = rx->got < DIW_STREAM_HEAD ? DIW_STREAM_HEAD - rx->got : rx->left + rx->tail;
		if (take > n - at || (rx->got == DIW_STREAM_HEAD && !diw_stream_is_intact(rx, p + at, take)))
			break;
	}
	return all;
}
