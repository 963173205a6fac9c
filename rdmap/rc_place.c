/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Placement at the peer (docs/rc-wire.md section 7.2). TCP does not prove placement. The proof is a Response to a Read
 * or atomic that was sent behind the message, or a placement word: a count of placed messages in the header of a
 * message from the peer. A word may ask for an answer. The answer is in the next message of the program, if the program
 * has answered each of the last DIW_RDMAP_STEADY such words by a message of its own. Otherwise the answer is a Write of
 * no octets, at once. A peer without placement words is asked by a Read of no octets.
 */
#include <errno.h>

#include "rdmap/int.h"

#define COUNT (DIW_DDP_WORD_ASKS - 1)
#define TURN_NS 5000u                /* the longest time that a program needs from polling a message to posting its
				      * answer */

/* ---- Sending words ---- */

void diw_rdmap_rc_count(const struct diw_rdmap *r, struct diw_ddp_hdr *h)
{
	h->worded = true;
	h->word = r->rc.place.heard & COUNT;
}

static void place_word(struct diw_rdmap *r, struct diw_ddp_hdr *h, bool ask)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;

	diw_rdmap_rc_count(r, h);
	h->word |= ask ? DIW_DDP_WORD_ASKS : 0;
	r->c->confirm_asked += ask;
	p->due = p->fresh = p->told = false;
	p->until = 0;
}

void diw_rdmap_rc_word(struct diw_rdmap *r, struct diw_ddp_hdr *h, bool ask)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;

	if (!p->words || (!ask && !p->due && !p->told))
		return;
	if ((p->due || p->told) && p->replies < DIW_RDMAP_STEADY)
		p->replies++;
	r->c->confirm_carried += p->due;
	if (ask || p->due)
		place_word(r, h, ask);
	p->told = false;
}

/* No octet has left: undoes the probe. */
static int place_probe(struct diw_rdmap *r, uint64_t now)
{
	uint8_t status;
	int rc;

	r->rc.probe->opcode = DIW_OP_READ_REQUEST;
	rc = r->rc.probe->pending ? -ENOSPC : diw_rdmap_rc_read(r, r->rc.probe, &status, now);
	if (rc == -EAGAIN) {
		r->tx.active = false;
		diw_ddp_set_tx_msn(&r->ddp, DIW_QN_REQUEST, diw_ddp_tx_msn(&r->ddp, DIW_QN_REQUEST) - 1);
	}
	r->c->confirm_asked += rc == 0;
	return rc;
}

int diw_rdmap_rc_tell(struct diw_rdmap *r, bool ask, uint64_t now)
{
	struct diw_rdmap_rc_place *p = &r->rc.place, before = *p;
	struct diw_ddp_tx tx = { .dst = *diw_rdmap_peer(r), .h = { .tagged = true, .opcode = DIW_OP_WRITE } };
	const struct iovec none = { NULL, 0 };
	int64_t budget = 1;                     /* one segment, independent of the rate limit */

	if (!p->words)
		return place_probe(r, now);
	place_word(r, &tx.h, ask);
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	if (diw_ddp_tx_run(&r->ddp, &tx, &none, &budget, now) != 0) {
		*p = before;
		return -EAGAIN;
	}
	p->sent++;
	if (before.due) {
		p->told = before.until == 0;
		p->replies = before.until == 0 ? p->replies : 0;
		r->c->confirm_told++;
	}
	return 0;
}

bool diw_rdmap_rc_owes(struct diw_rdmap *r, uint64_t now)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;

	if (p->due && p->fresh && p->replies == DIW_RDMAP_STEADY)
		p->until = now + TURN_NS;
	p->fresh = false;
	return p->due && now >= p->until;
}

/* ---- Receiving words ---- */

void diw_rdmap_rc_confirm(struct diw_rdmap *r, uint32_t seq)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;

	if (diw_rdmap_rc_after(seq, p->placed))
		p->placed = seq;
}

/* A count beyond the messages that have left is not valid. */
void diw_rdmap_rc_heard(struct diw_rdmap *r, const struct diw_ddp_hdr *h)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;
	uint32_t more = (h->word - p->placed) & COUNT;

	if (!h->worded || more == 0 || more > p->sent - p->placed)
		return;
	p->placed += more;
	r->up->confirmed(r->up_ctx);
}

bool diw_rdmap_rc_is_count(const struct diw_rdmap *r, const struct diw_ddp_hdr *h)
{
	return h->worded && ((h->word ^ r->rc.place.placed) & COUNT) == 0;
}

void diw_rdmap_rc_placed(struct diw_rdmap *r, const struct diw_ddp_hdr *h, bool told)
{
	struct diw_rdmap_rc_place *p = &r->rc.place;

	p->heard++;
	if (!h->worded || !(h->word & DIW_DDP_WORD_ASKS))
		return;
	p->asks = true;
	p->fresh = told && (p->fresh || !p->due);       /* an answer that could not be sent is not delayed further */
	p->due = true;
	p->told = false;
}
