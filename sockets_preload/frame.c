/* SPDX-License-Identifier: BSD-2-Clause */
/* A message in a datagram of the datagram profile: docs/ud-profile.md section 17. */
#include <string.h>

#include "base/crc.h"
#include "base/rng.h"
#include "base/wire.h"
#include "ddp/hdr.h"
#include "sockets_preload/preload.h"

#define SEND 3u                                      /* RDMAP's opcode */

/* What all headers of this process have in common; where the rest is: docs/ud-profile.md section 3.2. */
static uint8_t common[DIW_FRAME_HEAD];
enum { INV_STAG = 2, MSN = 10, MO = 14, QKEY = 18, LENGTH = 24, IMM = 28 };

void diw_frame_init(void)
{
	struct diw_ddp_hdr h = {
		.last = true, .imm_valid = true, .opcode = SEND, .epoch = (uint16_t)diw_random(),
	};

	diw_ddp_hdr_encode(common, &h);
}

void diw_frame_head(uint8_t *p, uint64_t key, size_t payload)
{
	memcpy(p, common, sizeof common);
	diw_put32(p + MSN, (uint32_t)diw_count(DIW_C_sock_tx_framed));
	diw_put32(p + QKEY, (uint32_t)(key >> 32));
	diw_put32(p + LENGTH, (uint32_t)payload);
	diw_put32(p + IMM, (uint32_t)key);
}

static bool is_shaped(const uint8_t *p, size_t n)
{
	return n >= DIW_FRAME_EXTRA && p[0] == (DIW_DDP_LAST | 1) && p[1] == (0x40 | DIW_RDMAP_IMM | SEND);
}

/* The rest of the header says one message of one segment: Invalidate STag and QN are 0, MO is, and the length fits. */
static bool is_whole(const uint8_t *p, size_t n)
{
	return diw_get64(p + INV_STAG) == 0 && diw_get32(p + MO) == 0 &&
	       diw_get32(p + LENGTH) == n - DIW_FRAME_EXTRA;
}

static bool crc_is_good(const uint8_t *p, size_t n)
{
	return diw_crc32(0, p, n - 4) == diw_get32le(p + n - 4);
}

/* Sockets may share a port, and another may have had it when the datagram left. */
static enum diw_frame of_sibling(const struct diw_sock *s, const uint8_t *p, size_t n, uint64_t key)
{
	bool crc;

	if (!is_whole(p, n))
		return DIW_FRAME_NONE;
	if (diw_reg_is_sibling(s, key, &crc) && (!crc || crc_is_good(p, n))) {
		diw_count(DIW_C_sock_rx_sibling);
		return DIW_FRAME_GOOD;
	}
	diw_count(DIW_C_sock_rx_strange);
	return DIW_FRAME_NONE;
}

enum diw_frame diw_frame_check(const struct diw_sock *s, const uint8_t *p, size_t n)
{
	uint64_t key;

	if (!is_shaped(p, n))
		return DIW_FRAME_NONE;
	key = (uint64_t)diw_get32(p + QKEY) << 32 | diw_get32(p + IMM);
	if (key != s->key[0] && key != s->key[1])
		return of_sibling(s, p, n, key);
	if (key == s->key[0] && !crc_is_good(p, n)) {
		diw_count(DIW_C_sock_rx_crc);
		return DIW_FRAME_BAD;
	}
	if (!is_whole(p, n)) {
		diw_count(DIW_C_sock_rx_malformed);
		return DIW_FRAME_BAD;
	}
	return DIW_FRAME_GOOD;
}
