/* SPDX-License-Identifier: BSD-2-Clause */
/* diw recv --group: selects the announced files to receive. xfer.h describes the protocol. */
#include "tools/cp/group_recv.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/siphash.h"

#define WC_BATCH 64
#define LINGER_NS (2 * DIW_S)        /* how long a sender that did not receive KEPT gets an answer */
#define JOIN_SPREAD_NS (20 * DIW_MS) /* members answer an announcement within this time */
#define HOST_REST 4u                 /* after the beginning of a transfer its host waits so many times as long as that
				      * took: no host uses the receiver's whole time */
#define HOST_AHEAD 2u                /* a host may have this many places more than another host; beyond, one of them
				      * goes to the other */

int group_recv_init(struct group_recv *r)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		r->place[i].o = r->o;
		r->place[i].port = &r->port;
	}
	return getrandom(r->key, sizeof r->key, 0) == sizeof r->key ? 0 : -EIO;
}

static bool count_reached(const struct group_recv *r)
{
	return r->o->count && r->files >= r->o->count;
}

/* ---- Announcements ---- */

/* Only a host that has received our JOIN knows the nonce. */
static uint64_t nonce_for(const struct group_recv *r, const struct diw_addr *src, uint64_t id)
{
	struct { struct diw_addr src; uint64_t id; } of;

	memset(&of, 0, sizeof of);
	memcpy(&of.src, src, sizeof of.src);
	of.id = id;
	return diw_siphash(r->key, &of, sizeof of);
}

static bool id_is_old(const struct group_recv *r, uint64_t id)
{
	for (uint32_t i = 0; i < GROUP_IDS && i < r->nold; i++)
		if (r->old[i] == id)
			return true;
	return false;
}

static struct transfer *place_of(struct group_recv *r, const struct diw_addr *src, uint64_t id)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++)
		if (transfer_is(&r->place[i], src, id))
			return &r->place[i];
	return NULL;
}

static void on_announce(struct group_recv *r, const struct diw_addr *src, const struct xfer_msg *m)
{
	struct group_hint *h;

	if (count_reached(r) || id_is_old(r, m->id))
		return;
	for (uint32_t i = 0; i < GROUP_HINTS; i++)
		if (r->hint[i].waits && r->hint[i].id == m->id && !memcmp(src, &r->hint[i].src, sizeof *src))
			return;
	h = &r->hint[r->nhints++ % GROUP_HINTS];
	h->waits = true;
	h->src = *src;
	h->id = m->id;
	h->join_at = r->now + diw_random() % JOIN_SPREAD_NS;
	memcpy(h->name, m->text, sizeof h->name);
}

static void hints_step(struct group_recv *r)
{
	for (uint32_t i = 0; i < GROUP_HINTS; i++) {
		struct group_hint *h = &r->hint[i];
		struct xfer_peer to = { r->port.ep.qp, h->src, DIW_QP_UD };
		struct xfer_msg m = { .type = XFER_JOIN, .id = h->id, .rcvbuf = r->port.ep.info.rcvbuf };

		if (!h->waits || r->now < h->join_at)
			continue;
		h->waits = false;
		m.nonce = nonce_for(r, &h->src, h->id);
		memcpy(m.text, h->name, sizeof m.text);
		xfer_send(&to, &m);
	}
}

/* ---- Places ---- */

static uint32_t places_of_host(const struct group_recv *r, const struct diw_addr *host)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GROUP_PLACES; i++)
		n += r->place[i].state != TRANSFER_NONE &&
		     !memcmp(r->place[i].peer.addr.ip, host->ip, sizeof host->ip);
	return n;
}

static bool host_rests(const struct group_recv *r, const struct diw_addr *host)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		const struct transfer *t = &r->place[i];

		if (t->state != TRANSFER_NONE && r->now < t->rests_until &&
		    !memcmp(t->peer.addr.ip, host->ip, sizeof host->ip))
			return true;
	}
	return false;
}

/* Whether the transfer may lose its place to one from BY: it has made no progress, or its host has more than its share
 * of the places. */
static bool may_displace(const struct group_recv *r, const struct transfer *t, const struct diw_addr *by)
{
	if (t->state == TRANSFER_WHOLE)
		return false;
	return t->state == TRANSFER_KEPT || r->now - t->came_at > GROUP_STILL_NS ||
	       places_of_host(r, &t->peer.addr) >= places_of_host(r, by) + HOST_AHEAD;
}

static struct transfer *place_of_stag(struct group_recv *r, uint32_t stag)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++)
		if (r->place[i].mr && r->place[i].stag >> 8 == stag >> 8)
			return &r->place[i];
	return NULL;
}

/* An empty place; else, of those that may be displaced, the one that has made no progress for longest. */
static struct transfer *place_choose(struct group_recv *r, const struct diw_addr *by)
{
	struct transfer *best = NULL, *t;

	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		t = &r->place[i];
		if (t->state == TRANSFER_NONE)
			return t;
		if (may_displace(r, t, by) && (!best || t->came_at < best->came_at))
			best = t;
	}
	return best;
}

/* A place for a transfer from SRC with that STag; NULL: none. Two transfers cannot have the same STag, so the first
 * keeps it while it goes on. */
static struct transfer *place_get(struct group_recv *r, const struct diw_addr *src, uint32_t stag)
{
	struct transfer *t = place_of_stag(r, stag);

	if (!t)
		t = place_choose(r, src);
	else if (t->state != TRANSFER_RECEIVING || r->now - t->came_at <= GROUP_STILL_NS)
		t = NULL;
	if (t && t->state != TRANSFER_NONE) {
		r->displaced++;
		transfer_drop(t);
	}
	return t;
}

static void place_end(struct group_recv *r, struct transfer *t)
{
	if (!id_is_old(r, t->id))
		r->old[r->nold++ % GROUP_IDS] = t->id;
	transfer_drop(t);
}

static void place_abort(struct group_recv *r, struct transfer *t)
{
	char buf[DIW_ADDR_STRLEN];

	bar_end(&t->bar);
	tool_failed("%s from %s: %s, %llu of %llu blocks missing", t->in.name, diw_addr_str(&t->peer.addr, buf), t->why,
		    (unsigned long long)t->missing.count, (unsigned long long)t->missing.n);
	r->bad += t->got > 0;
	place_end(r, t);
}

/* ---- Received messages ---- */

/* A sender that returns the nonce has the address from which the announcement came. One whose WELCOME is passed over
 * announces again. */
static void on_welcome(struct group_recv *r, const struct diw_addr *src, const struct xfer_msg *m)
{
	struct transfer *t;
	uint64_t begun = diw_clock_ns(), took;

	if (count_reached(r) || id_is_old(r, m->id) || m->nonce != nonce_for(r, src, m->id) || host_rests(r, src))
		return;
	t = place_get(r, src, m->stag);
	if (!t)
		return;
	transfer_begin(t, src, m, r->now);
	took = diw_clock_ns() - begun;
	t->rests_until = r->now + took + HOST_REST * took;
	if (t->refused)
		r->old[r->nold++ % GROUP_IDS] = t->id;
}

static void recv_on_message(struct group_recv *r, const struct diw_addr *src, const struct xfer_msg *m)
{
	struct transfer *t = place_of(r, src, m->id);

	if (t)
		transfer_on_message(t, m, r->now);
	else if (m->type == XFER_ANNOUNCE)
		on_announce(r, src, m);
	else if (m->type == XFER_WELCOME)
		on_welcome(r, src, m);
}

static void recv_on_record(struct group_recv *r, struct diw_wc *wc)
{
	int n = diw_wc_ranges(wc, r->ranges, DIW_MAX_RANGES);

	for (uint32_t i = 0; i < GROUP_PLACES && n >= 0 && n <= DIW_MAX_RANGES; i++)
		if (r->place[i].mr && r->place[i].mr->stag == wc->stag)
			transfer_on_record(&r->place[i], wc, r->ranges, n, r->now);
	diw_wc_release(wc);
}

static void recv_on_wcs(struct group_recv *r, struct diw_wc *wc, int n)
{
	struct xfer_msg m;

	for (int i = 0; i < n; i++)
		if (wc[i].opcode == DIW_WC_RECV_WRITE_RECORD)
			recv_on_record(r, &wc[i]);
		else if (xfer_take(&r->port.in, &wc[i], &m) == 0)
			recv_on_message(r, &wc[i].src, &m);
}

/* ---- Timers ---- */

static void places_step(struct group_recv *r)
{
	hints_step(r);
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		struct transfer *t = &r->place[i];

		if (t->state == TRANSFER_NONE)
			continue;
		if (!transfer_step(t, r->now))
			place_abort(r, t);
		else if (t->state == TRANSFER_KEPT && (t->over || r->now - t->heard_at > LINGER_NS))
			place_end(r, t);
	}
}

/* The senders wait while a receiver hashes. Messages that come meanwhile may belong to the other transfers. */
static bool recv_while_hashing(void *ctx, uint64_t done)
{
	struct transfer *t = ctx;
	struct group_recv *r = diw_container(t->port, struct group_recv, port);
	struct diw_wc wc[WC_BATCH];
	int n;

	if (done == t->size)
		return true;
	r->now = diw_clock_ns();
	for (int i = XFER_SLOTS / WC_BATCH; i > 0 && (n = diw_cq_poll(r->port.ep.cq, wc, WC_BATCH, 0)) > 0; i--)
		recv_on_wcs(r, wc, n);
	places_step(r);
	transfer_say_have(t, r->now);
	return !tool_stopped;
}

static void places_finish(struct group_recv *r)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		struct transfer *t = &r->place[i];

		if (t->state != TRANSFER_WHOLE)
			continue;
		if (transfer_finish(t, recv_while_hashing, t, r->now))
			r->files++;
		else
			r->bad++;
		transfer_report(t);
		r->old[r->nold++ % GROUP_IDS] = t->id;
	}
}

void group_recv_turn(struct group_recv *r, struct diw_wc *wc, int n, uint64_t now)
{
	r->now = now;
	recv_on_wcs(r, wc, n);
	places_step(r);
	places_finish(r);
}

uint64_t group_recv_pause(const struct group_recv *r)
{
	uint64_t pause = 10 * DIW_MS;

	for (uint32_t i = 0; i < GROUP_PLACES; i++)
		if (r->place[i].answering)
			pause = DIW_MS;
	return pause;
}

/* A failed transfer counts for --count, but does not end those beside it. */
bool group_recv_is_over(const struct group_recv *r, uint64_t now)
{
	if (!r->o->count || r->files + r->bad < r->o->count)
		return false;
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		const struct transfer *t = &r->place[i];

		if (t->state == TRANSFER_KEPT && !t->over && now - t->heard_at <= LINGER_NS)
			return false;
		if (!count_reached(r) && (t->state == TRANSFER_RECEIVING || t->state == TRANSFER_WHOLE))
			return false;
	}
	return true;
}

void group_recv_fini(struct group_recv *r)
{
	for (uint32_t i = 0; i < GROUP_PLACES; i++) {
		struct transfer *t = &r->place[i];

		if (t->state == TRANSFER_RECEIVING && !count_reached(r)) {
			transfer_give_up(t, "interrupted", r->now);
			place_abort(r, t);
		} else if (t->state != TRANSFER_NONE) {
			if (t->state != TRANSFER_KEPT)
				transfer_give_up(t, "the receiver has as many files as it was to receive", r->now);
			transfer_drop(t);
		}
	}
}
