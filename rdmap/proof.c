/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address validation (docs/ud-profile.md section 5.1; modelled on RFC 9000 section 8). A challenge with a token goes to
 * the source address of a segment. The owner of the address returns the token if the segment is its own. A token is a
 * keyed hash, so a challenge needs no state.
 */
#include "base/clock.h"
#include "base/siphash.h"
#include "base/wire.h"
#include "rdmap/int.h"

#define TOKEN_NS DIW_S               /* a token is valid for one to two of these */

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

static bool say_validation(struct diw_rdmap *r, const struct diw_addr *dst, const struct diw_validation *v,
			   uint64_t now)
{
	uint8_t body[DIW_RDMAP_VALIDATION_LEN];
	const struct iovec iov = { body, sizeof body };
	struct diw_ddp_tx tx = {
		/* A fixed peer's destination, since the next segment of a message must keep its traffic class and hop
		 * limit. */
		.dst = diw_ddp_is_fixed(&r->ddp) ? *diw_rdmap_peer(r) : (struct diw_dest){ .addr = *dst },
		.h = { .opcode = DIW_OP_VALIDATION, .qn = DIW_QN_TERMINATE, .length = sizeof body },
		.window = INT64_MAX,
	};
	int64_t budget = 1;

	diw_validation_put(body, v);
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	return diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now) == 0;
}

void diw_rdmap_challenge(void *ctx, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap *r = ctx;
	const struct diw_ddp_hdr *h = &seg->h;
	struct diw_validation v = {
		.kind = DIW_VALIDATION_CHALLENGE, .opcode = h->opcode, .tagged = h->tagged, .epoch = h->epoch,
		.msn = h->msn,
	};

	if (seg->group)                         /* each member would challenge the claimed source */
		return;
	v.token = token_of(r, seg->src, h->epoch, h->opcode == DIW_OP_READ_REQUEST, now / TOKEN_NS);
	r->c->challenge_tx += say_validation(r, seg->src, &v, now);
}

static bool is_of_read(const struct diw_validation *v)
{
	return v->opcode == DIW_OP_READ_REQUEST && !v->tagged;
}

/* Whether this end has probably sent that message. For Reads this is certain: they are in the list of outstanding
 * Reads. */
static bool sent_by_us(const struct diw_rdmap *r, const struct diw_addr *peer, const struct diw_validation *v)
{
	if (v->epoch != diw_ddp_epoch(&r->ddp) || !diw_rdmap_takes(r, v->opcode))
		return false;
	if (is_of_read(v))
		return diw_rdmap_read_may_repeat(r, peer, v->msn);
	return diw_rdmap_ops[v->opcode].tagged == v->tagged && diw_rdmap_is_recent(r, v->tagged, v->msn);
}

static void challenge_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_validation *v, uint64_t now)
{
	if (!sent_by_us(r, seg->src, v)) {
		r->c->challenge_ignored++;
		diw_ddp_dropped(&r->ddp, seg, "challenge_ignored", now);
		return;
	}
	v->kind = DIW_VALIDATION_PROOF;
	r->c->proof_tx += say_validation(r, seg->src, v, now);
	if (is_of_read(v))
		diw_rdmap_read_repeat(r, seg->src, v->msn, now);
}

static void proof_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, const struct diw_validation *v, uint64_t now)
{
	uint16_t epoch = seg->h.epoch;
	bool read = is_of_read(v), proved = false;

	if (v->epoch == epoch && token_is_good(r, seg->src, epoch, read, v->token, now)) {
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
	struct diw_validation v;

	if (seg->group)
		return DIW_FAULT_GROUP;
	if (seg->len != DIW_RDMAP_VALIDATION_LEN)
		return DIW_FAULT_SHORT;
	v = diw_validation_get(seg->payload);
	if ((v.kind != DIW_VALIDATION_CHALLENGE && v.kind != DIW_VALIDATION_PROOF) || v.reserved)
		return DIW_FAULT_SHORT;
	if (v.kind == DIW_VALIDATION_CHALLENGE)
		challenge_rx(r, seg, &v, now);
	else
		proof_rx(r, seg, &v, now);
	return 0;
}
