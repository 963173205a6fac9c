/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of UC (docs/ud-profile.md section 9.1). A sender asks the peer for its progress, and sends no more than
 * a window beyond the last position that the peer has answered for. So the peer's socket does not overflow. All of it
 * is advice: a sender without an answer continues after a while, and a peer's claim counts only between two limits.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/rng.h"
#include "rdmap/int.h"

#define WINDOW_MIN (32u << 10)
#define WINDOW_MAX (4u << 20)
#define WINDOW_FIRST (128u << 10)    /* fits the smallest usual socket buffer */
#define BUFFER_SHARE 4               /* the kernel counts the memory of a packet, which may be several times its size */
#define AGAIN_MIN (2 * DIW_MS)
#define AGAIN_MAX (20 * DIW_MS)
#define FLOW_PATIENCE DIW_S          /* the wait for a peer that has answered before */
#define PATIENCE_FIRST (200 * DIW_MS)
#define QUIET (10 * DIW_S)           /* a peer that did not answer is not asked for this time */

void diw_rdmap_flow_init(struct diw_rdmap *r)
{
	r->flow = (struct diw_rdmap_flow){ .window = WINDOW_FIRST, .number = (uint32_t)diw_random() };
	r->flow.heard = r->flow.number;
}

static uint32_t flow_ahead(const struct diw_rdmap_flow *f)
{
	return f->sent - f->base;
}

static bool is_quiet(struct diw_rdmap_flow *f, uint64_t now)
{
	if (!f->quiet_until)
		return false;
	if (now < f->quiet_until)
		return true;
	f->quiet_until = 0;
	f->base = f->sent;
	f->asked = false;
	return false;
}

/* The window does not allow the next segment. A segment that is larger than the window leaves alone. */
static bool is_full(const struct diw_rdmap *r)
{
	const struct diw_rdmap_flow *f = &r->flow;

	return flow_ahead(f) && (flow_ahead(f) >= f->window || r->tx.held > f->window - flow_ahead(f));
}

int64_t diw_rdmap_flow_left(struct diw_rdmap *r, uint64_t now)
{
	struct diw_rdmap_flow *f = &r->flow;
	uint32_t upto = f->asked ? f->window : f->window / 2;

	if (is_quiet(f, now)) {
		r->tx.window = INT64_MAX;
		return WINDOW_MAX;
	}
	r->tx.window = (int64_t)f->window - flow_ahead(f);
	r->tx.alone = flow_ahead(f) == 0;
	return flow_ahead(f) < upto && !is_full(r) ? upto - flow_ahead(f) : 0;
}

static int send_flow(struct diw_rdmap *r, uint32_t number, uint32_t window, uint64_t now)
{
	uint8_t body[DIW_RDMAP_FLOW_LEN];
	const struct iovec iov = { body, sizeof body };
	struct diw_ddp_tx tx = {
		.dst = *diw_rdmap_peer(r),
		.h = { .opcode = DIW_OP_FLOW, .qn = DIW_QN_TERMINATE, .length = sizeof body },
		.window = INT64_MAX,
	};
	int64_t budget = 1;

	diw_flow_put(body, &(struct diw_flow){ number, window });
	diw_ddp_tx_begin(&r->ddp, &tx, true);
	return diw_ddp_tx_run(&r->ddp, &tx, &iov, &budget, now);
}

static int ask_flow(struct diw_rdmap *r, uint64_t now)
{
	struct diw_rdmap_flow *f = &r->flow;
	int rc = send_flow(r, f->number + 1, 0, now);

	if (rc < 0)
		return rc;
	r->c->flow_asked++;
	f->gap = f->asked && 2 * f->gap < AGAIN_MAX ? 2 * f->gap : f->asked ? AGAIN_MAX : AGAIN_MIN;
	f->again_ns = now + f->gap;
	f->number++;
	f->at[f->number % DIW_RDMAP_FLOW_ASKS] = f->sent;
	f->asked = true;
	return 0;
}

/* The window is full, and there is more to send. */
static int flow_wait(struct diw_rdmap *r, uint64_t now)
{
	struct diw_rdmap_flow *f = &r->flow;

	if (!f->shut) {
		f->shut = true;
		f->until = now + (f->answered ? FLOW_PATIENCE : PATIENCE_FIRST);
		r->c->flow_waits++;
	}
	if (now >= f->until) {
		f->shut = false;
		f->quiet_until = now + QUIET;
		return 0;
	}
	return now >= f->again_ns ? ask_flow(r, now) : 0;
}

static int answer_flow(struct diw_rdmap *r, uint64_t now)
{
	uint32_t share = diw_ddp_rcvbuf(&r->ddp) / BUFFER_SHARE;
	int rc = send_flow(r, r->flow.due_number, share < WINDOW_MIN ? WINDOW_MIN : share, now);

	r->flow.due = rc < 0;
	r->c->flow_answered += rc == 0;
	return rc;
}

int diw_rdmap_flow_run(struct diw_rdmap *r, bool more, uint64_t now)
{
	struct diw_rdmap_flow *f = &r->flow;
	int rc = f->due ? answer_flow(r, now) : 0;

	if (rc < 0 || is_quiet(f, now))
		return rc;
	if (!f->asked && (flow_ahead(f) >= f->window / 2 || (more && is_full(r))))
		rc = ask_flow(r, now);
	if (rc == 0 && more && f->asked && is_full(r))
		return flow_wait(r, now);
	f->shut = false;
	return rc;
}

uint64_t diw_rdmap_flow_deadline(const struct diw_rdmap *r)
{
	const struct diw_rdmap_flow *f = &r->flow;

	return f->shut ? diw_min64(f->again_ns, f->until) : 0;
}

uint16_t diw_rdmap_flow_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now)
{
	struct diw_rdmap_flow *f = &r->flow;
	uint32_t number, window;

	if (seg->len != DIW_RDMAP_FLOW_LEN)
		return DIW_FAULT_MO;
	number = diw_flow_get(seg->payload).number;
	window = diw_flow_get(seg->payload).window;
	if (window == 0) {                      /* one answer for all requests of this poll is enough */
		f->due = true;
		f->due_number = number;
		return 0;
	}
	if (f->number - number >= DIW_RDMAP_FLOW_ASKS || f->number - number >= f->number - f->heard) {
		r->c->flow_ignored++;
		diw_ddp_dropped(&r->ddp, seg, "flow_ignored", now);
		return 0;
	}
	f->heard = number;
	f->base = f->at[number % DIW_RDMAP_FLOW_ASKS];
	f->window = window < WINDOW_MIN ? WINDOW_MIN : window < WINDOW_MAX ? window : WINDOW_MAX;
	f->asked = number != f->number;
	f->answered = true;
	f->shut = false;
	f->quiet_until = 0;
	return 0;
}
