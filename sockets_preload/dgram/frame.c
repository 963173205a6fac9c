/* SPDX-License-Identifier: BSD-2-Clause */
/* The less frequent parts of frames. */
#include "base/rng.h"
#include "sockets_preload/dgram/frame.h"
#include "wire/rdmap.h"

#define REGION 65536u                                /* bytes of an STag's region: the largest datagram */

uint8_t diw_frame_common[DIW_FRAME_SEND];
static _Atomic uint64_t unheard[1u << DIW_SOCKREG_ECHO_BITS];     /* used until there is a registry */
_Atomic uint64_t *diw_frame_echoes = unheard;
static uint8_t common_write[DIW_FRAME_WRITE];

void diw_frame_init(void)
{
	struct diw_ddp_hdr h = {
		.last = true, .imm_valid = true, .opcode = DIW_OP_SEND,
	};

	diw_ddp_hdr_encode(diw_frame_common, &h);
	h.tagged = true;
	h.opcode = DIW_OP_WRITE_RECORD;
	h.epoch = (uint16_t)diw_random();
	diw_ddp_hdr_encode(common_write, &h);
}

/* A region holds one message at a time, so TO is the start of the region. */
DIW_COLD void diw_frame_head_write(uint8_t *p, const struct diw_route *r, uint32_t payload, uint32_t msn)
{
	memcpy(p, common_write, sizeof common_write);
	diw_put32(p + DIW_T_STAG, r->stag);
	diw_put32(p + DIW_T_QKEY, (uint32_t)(r->key >> 32));
	diw_put32(p + DIW_T_MSN, msn);
	diw_put32(p + DIW_T_LENGTH, payload);
	diw_put32(p + DIW_DDP_TAGGED_LEN, (uint32_t)r->key);
}

DIW_COLD void diw_frame_mark(uint8_t *p, const struct diw_route *r, const struct diw_sock *s)
{
	uint64_t mark = diw_reg_mark(s, r->key);

	diw_put32(p + (r->stag ? DIW_T_MSN : DIW_U_MSN), (uint32_t)mark);
	diw_put16(p + (r->stag ? DIW_T_EPOCH : DIW_U_EPOCH), (uint16_t)(mark >> 32));
}

/* Returns the header's length if the datagram may be a frame, and its key. */
static size_t frame_shape(const uint8_t *p, size_t n, uint64_t *key)
{
	if (n >= DIW_FRAME_SEND + DIW_SEAL_LEN && memcmp(p, diw_frame_common, DIW_DDP_CONTROL) == 0) {
		*key = diw_frame_key(p);
		return DIW_FRAME_SEND;
	}
	if (n >= DIW_FRAME_WRITE + DIW_SEAL_LEN && memcmp(p, common_write, DIW_DDP_CONTROL) == 0) {
		*key = (uint64_t)diw_get32(p + DIW_T_QKEY) << 32 | diw_get32(p + DIW_DDP_TAGGED_LEN);
		return DIW_FRAME_WRITE;
	}
	return 0;
}

size_t diw_frame_own(const struct diw_sock *s, const uint8_t *p, size_t n, size_t *len)
{
	uint64_t key, mark;
	size_t head = frame_shape(p, n + DIW_SEAL_LEN, &key);
	bool tagged = head == DIW_FRAME_WRITE;

	if (!head)
		return 0;
	mark = diw_reg_mark(s, key);
	*len = diw_get32(p + (tagged ? DIW_T_LENGTH : DIW_U_LENGTH));
	return *len <= DIW_FRAME_MAX && diw_get32(p + (tagged ? DIW_T_MSN : DIW_U_MSN)) == (uint32_t)mark &&
	       diw_get16(p + (tagged ? DIW_T_EPOCH : DIW_U_EPOCH)) == (uint16_t)(mark >> 32) ? head : 0;
}

/* The rest of the header describes one message of one segment, a Write-Record within its region. */
static bool is_whole(const uint8_t *p, size_t n, size_t head)
{
	size_t payload = n - head - DIW_SEAL_LEN;

	if (head == DIW_FRAME_SEND)
		return diw_frame_is_send(p, n);
	return diw_get64(p + DIW_T_TO) <= REGION - payload && diw_get32(p + DIW_T_MO) == 0 &&
	       diw_get32(p + DIW_T_LENGTH) == payload;
}

static bool is_to(const struct diw_keys *k, const uint8_t *p, size_t head)
{
	return head == DIW_FRAME_SEND || diw_get32(p + DIW_T_STAG) == k->stag;
}

/* A frame with a sibling's key. Sockets may share a port, and another socket may have had it when the datagram left. */
static enum diw_frame of_sibling(const struct diw_keys *k, const uint8_t *p, size_t n, size_t *head, uint64_t key)
{
	bool crc;

	if (!is_whole(p, n, *head)) {
		*head = 0;
		return DIW_FRAME_NONE;
	}
	if (diw_reg_is_sibling(k->port, key, &crc) && (!crc || diw_seal_is_good(p, n))) {
		diw_count(DIW_C_sock_rx_sibling);
		return DIW_FRAME_GOOD;
	}
	diw_count(DIW_C_sock_rx_strange);
	*head = 0;
	return DIW_FRAME_NONE;
}

/* A frame from another host, with the key that is configured on both. */
static bool is_of_peer(const struct diw_keys *k, uint64_t key)
{
	return diw_conf.have_key && key == diw_reg_peer_key(k->port);
}

/* A frame to all sockets that listen at its port. */
static bool is_of_group(const struct diw_keys *k, uint64_t key, bool *crc)
{
	*crc = key == diw_reg_group_key(k->port, true);
	return *crc || key == diw_reg_group_key(k->port, false);
}

DIW_COLD enum diw_frame diw_frame_check_any(const struct diw_keys *k, const uint8_t *p, size_t n, size_t *head)
{
	uint64_t key;
	bool crc;

	*head = frame_shape(p, n, &key);
	if (!*head)
		return DIW_FRAME_NONE;
	crc = key != k->key[1];
	if (key != k->key[0] && crc && !is_of_peer(k, key) && !is_of_group(k, key, &crc))
		return of_sibling(k, p, n, head, key);
	if (crc && !diw_seal_is_good(p, n)) {
		diw_count(DIW_C_sock_rx_crc);
		return DIW_FRAME_BAD;
	}
	if (!is_whole(p, n, *head) || !is_to(k, p, *head)) {
		diw_count(DIW_C_sock_rx_malformed);
		return DIW_FRAME_BAD;
	}
	return DIW_FRAME_GOOD;
}
