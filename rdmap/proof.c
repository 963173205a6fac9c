/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address validation (docs/ud-profile.md section 5.1; RFC 9000 section 8 is the model): a challenge goes to the address
 * that a segment came from, with a token. The owner of the address returns the token if the segment is its own. A token
 * is a keyed hash, so that nothing is remembered of a challenge.
 */
#include "base/clock.h"
#include "base/siphash.h"
#include "base/wire.h"
#include "rdmap/int.h"

#define LEN 16u                      /* kind 1, what 1, epoch 2, MSN 4, token 8 */
#define CHALLENGE 1
#define PROOF 2
#define WHAT_RSVD 0x70u
#define TOKEN_NS DIW_S               /* a token is good for one to two of these */

static uint64_t token_of(const struct diw_rdmap *r, const struct diw_addr *addr, uint16_t epoch, bool read,
			 uint64_t slot)
{
	uint8_t in[sizeof *addr + 11];

	memcpy(in, addr, sizeof *addr);
	diw_put64(in + sizeof *addr, slot);
	diw_put16(in + sizeof *addr + 8, epoch);
	in[sizeof *addr + 10] = read;
	return diw_siphash(r->proof_key, in, sizeof in);
}

static bool token_is_good(const struct diw_rdmap *r, const struct diw_addr *addr, uint16_t epoch, bool read,
			  uint64_t token, uint64_t now)
{
	uint64_t slot = now / TOKEN_NS;

	return token == token_of(r, addr, epoch, read, slot) ||
	       (slot && token == token_of(r, addr, epoch, read, slot - 1));
}

static bool say_validation(struct diw_rdmap *r, const struct diw_addr *dst, const uint8_t *body, uint64_t now)
{
	const struct iovec iov = { (void *)(uintptr_t)body, LEN };
	struct diw_ddp_tx tx = {
		/* A fixed peer's destination, or the next segment of a message would travel otherwise. */
		.dst = diw_ddp_is_fixed(&r->ddp) ? *diw_rdmap_peer(r) : (struct diw_dest){ .addr = *dst },
		.h = { .opcode = DIW_OP_VALIDATION, .qn = 2, .length = LEN },
		.window = INT64_MAX,
	};
	int64_t budget = 1;

	diw_ddp_tx_begin(&r->ddp, &tx, true);
	return diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) == 0;
}

void diw_rdmap_challenge(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	uint8_t body[LEN];

	if (seg->group)                         /* every member would ask the one that it claims to come from */
		return;
	body[0] = CHALLENGE;
	body[1] = (h->tagged ? DIW_DDP_TAGGED : 0) | h->opcode;
	diw_put16(body + 2, h->epoch);
	diw_put32(body + 4, h->msn);
	diw_put64(body + 8, token_of(r, seg->src, h->epoch, h->opcode == DIW_OP_READ_REQUEST, now / TOKEN_NS));
	r->c->challenge_tx += say_validation(r, seg->src, body, now);
}

/* Was that sent by us, as far as we know? Of Reads this is certain: only this end makes requests of its own. */
static bool sent_by_us(const struct diw_rdmap *r, const struct diw_addr *peer, const uint8_t *body)
{
	uint8_t opcode = body[1] & DIW_RDMAP_OP;
	uint32_t msn = diw_get32(body + 4);

	if (diw_get16(body + 2) != diw_ddp_epoch(&r->ddp))
		return false;
	if (!diw_rdmap_takes(r, opcode))
		return false;
	if (body[1] == DIW_OP_READ_REQUEST)
		return diw_rdmap_read_may_repeat(r, peer, msn);
	return diw_rdmap_ops[opcode].tagged == !!(body[1] & DIW_DDP_TAGGED) &&
	       diw_rdmap_is_recent(r, body[1] & DIW_DDP_TAGGED, msn);
}

static void challenge_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	uint8_t body[LEN];

	if (!sent_by_us(r, seg->src, seg->payload)) {
		r->c->challenge_ignored++;
		diw_ddp_dropped(&r->ddp, seg, "challenge_ignored", now);
		return;
	}
	memcpy(body, seg->payload, LEN);
	body[0] = PROOF;
	r->c->proof_tx += say_validation(r, seg->src, body, now);
	if (body[1] == DIW_OP_READ_REQUEST)
		diw_rdmap_read_repeat(r, seg->src, diw_get32(body + 4), now);
}

static void proof_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const uint8_t *body = seg->payload;
	uint16_t epoch = seg->h.epoch;
	bool read = body[1] == DIW_OP_READ_REQUEST, proved = false;

	if (diw_get16(body + 2) == epoch && token_is_good(r, seg->src, epoch, read, diw_get64(body + 8), now)) {
		proved = diw_source_prove(&r->ddp, seg->src, epoch, read, now);
		diw_rdmap_answers_end_epochs(r, now);
	}
	if (!proved) {
		r->c->proof_ignored++;
		diw_ddp_dropped(&r->ddp, seg, "proof_ignored", now);
		return;
	}
	r->c->proof_rx++;
	diw_rdmap_write_proved(r, epoch, now);
}

uint16_t diw_rdmap_validation_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	const uint8_t *body = seg->payload;

	if (seg->group)
		return DIW_FAULT_GROUP;
	if (seg->len != LEN || (body[0] != CHALLENGE && body[0] != PROOF) || (body[1] & WHAT_RSVD))
		return DIW_FAULT_SHORT;
	if (body[0] == CHALLENGE)
		challenge_rx(r, seg, now);
	else
		proof_rx(r, seg, now);
	return 0;
}
