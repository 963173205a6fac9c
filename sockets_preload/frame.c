/* SPDX-License-Identifier: BSD-2-Clause */
/* A message in a datagram of the datagram profile: docs/ud-profile.md section 17. */
#include <string.h>

#include "base/crc.h"
#include "base/rng.h"
#include "base/wire.h"
#include "ddp/hdr.h"
#include "sockets_preload/preload.h"

#define SEND 3u                                      /* RDMAP's opcodes */
#define WRITE_RECORD 12u
#define REGION 65536u                                /* bytes that an STag names: the largest datagram's */

/* What all headers of this process have in common; where the rest is: docs/ud-profile.md sections 3.2 and 3.3. */
static uint8_t common_send[DIW_FRAME_SEND], common_write[DIW_FRAME_WRITE];
enum { S_INV_STAG = 2, S_MSN = 10, S_MO = 14, S_QKEY = 18, S_LENGTH = 24, S_IMM = 28 };
enum { W_STAG = 2, W_TO = 6, W_QKEY = 14, W_MSN = 20, W_MO = 24, W_LENGTH = 28, W_IMM = 32 };

void diw_frame_init(void)
{
	struct diw_ddp_hdr h = {
		.last = true, .imm_valid = true, .opcode = SEND, .epoch = (uint16_t)diw_random(),
	};

	diw_ddp_hdr_encode(common_send, &h);
	h.tagged = true;
	h.opcode = WRITE_RECORD;
	diw_ddp_hdr_encode(common_write, &h);
}

/* A message is all that its region holds at a time, so it begins where the region does. */
static void write_head(uint8_t *p, const struct diw_route *r, uint32_t payload, uint32_t msn)
{
	memcpy(p, common_write, sizeof common_write);
	diw_put32(p + W_STAG, r->stag);
	diw_put32(p + W_QKEY, (uint32_t)(r->key >> 32));
	diw_put32(p + W_MSN, msn);
	diw_put32(p + W_LENGTH, payload);
	diw_put32(p + W_IMM, (uint32_t)r->key);
}

void diw_frame_head(uint8_t *p, const struct diw_route *r, size_t payload)
{
	uint32_t msn = (uint32_t)diw_count(DIW_C_sock_tx_framed);

	if (r->stag) {
		write_head(p, r, (uint32_t)payload, msn);
		return;
	}
	memcpy(p, common_send, sizeof common_send);
	diw_put32(p + S_MSN, msn);
	diw_put32(p + S_QKEY, (uint32_t)(r->key >> 32));
	diw_put32(p + S_LENGTH, (uint32_t)payload);
	diw_put32(p + S_IMM, (uint32_t)r->key);
}

/* The header's length if it may be a frame, and its key. */
static size_t shape(const uint8_t *p, size_t n, uint64_t *key)
{
	if (n >= DIW_FRAME_SEND + DIW_FRAME_CRC && memcmp(p, common_send, 2) == 0) {
		*key = (uint64_t)diw_get32(p + S_QKEY) << 32 | diw_get32(p + S_IMM);
		return DIW_FRAME_SEND;
	}
	if (n >= DIW_FRAME_WRITE + DIW_FRAME_CRC && memcmp(p, common_write, 2) == 0) {
		*key = (uint64_t)diw_get32(p + W_QKEY) << 32 | diw_get32(p + W_IMM);
		return DIW_FRAME_WRITE;
	}
	return 0;
}

/* The rest of the header says one message of one segment: of a Send with Invalidate STag and QN 0, of a Write-Record
 * within its region. */
static bool is_whole(const uint8_t *p, size_t n, size_t head)
{
	size_t payload = n - head - DIW_FRAME_CRC;

	if (head == DIW_FRAME_SEND)
		return diw_get64(p + S_INV_STAG) == 0 && diw_get32(p + S_MO) == 0 &&
		       diw_get32(p + S_LENGTH) == payload;
	return diw_get64(p + W_TO) <= REGION - payload && diw_get32(p + W_MO) == 0 &&
	       diw_get32(p + W_LENGTH) == payload;
}

static bool is_to(const struct diw_sock *s, const uint8_t *p, size_t head)
{
	return head == DIW_FRAME_SEND || diw_get32(p + W_STAG) == s->stag;
}

static bool crc_is_good(const uint8_t *p, size_t n)
{
	return diw_crc32(0, p, n - DIW_FRAME_CRC) == diw_get32le(p + n - DIW_FRAME_CRC);
}

/* Sockets may share a port, and another may have had it when the datagram left. */
static enum diw_frame of_sibling(const struct diw_sock *s, const uint8_t *p, size_t n, size_t head, uint64_t key)
{
	bool crc;

	if (!is_whole(p, n, head))
		return DIW_FRAME_NONE;
	if (diw_reg_is_sibling(s, key, &crc) && (!crc || crc_is_good(p, n))) {
		diw_count(DIW_C_sock_rx_sibling);
		return DIW_FRAME_GOOD;
	}
	diw_count(DIW_C_sock_rx_strange);
	return DIW_FRAME_NONE;
}

/* From another host: with the key that is configured there, too. */
static bool is_of_peer(const struct diw_sock *s, uint64_t key)
{
	return diw_conf.have_key && key == diw_reg_peer_key(s->local.port);
}

enum diw_frame diw_frame_check(const struct diw_sock *s, const uint8_t *p, size_t n, size_t *head)
{
	uint64_t key;

	*head = shape(p, n, &key);
	if (!*head)
		return DIW_FRAME_NONE;
	if (key != s->key[0] && key != s->key[1] && !is_of_peer(s, key))
		return of_sibling(s, p, n, *head, key);
	if (key != s->key[1] && !crc_is_good(p, n)) {
		diw_count(DIW_C_sock_rx_crc);
		return DIW_FRAME_BAD;
	}
	if (!is_whole(p, n, *head) || !is_to(s, p, *head)) {
		diw_count(DIW_C_sock_rx_malformed);
		return DIW_FRAME_BAD;
	}
	return DIW_FRAME_GOOD;
}
