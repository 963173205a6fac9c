/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dgram over a dgram that loses, duplicates, damages, reorders and delays datagrams, below the CRC. When idle it
 * passes bursts unchanged. With loss alone, a super-buffer stays one super-buffer, sent from the pieces that
 * survive.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "llp/impair.h"
#include "wire/seal.h"

#define RETRY_NS (100 * DIW_US)             /* when the socket is full, the next attempt is after this time */

struct impair {
	struct diw_dgram d;
	struct diw_dgram *lower;
	struct diw_impair_line tx, rx;
	uint64_t tx_retry_ns;               /* when to retry, if the lower dgram refused datagrams that are due; else
					     * 0 */
	struct iovec tx_iov[IOV_MAX];

	struct diw_dgram_burst rx_burst;    /* the lower dgram's, while rx.run refers to it */
	int rx_next;                        /* first entry of rx.run that was not handed up yet */
	struct iovec rx_iov;
};

static struct impair *impair_of(struct diw_dgram *d)
{
	return (struct impair *)d;
}

/* Bursts pass unchanged, in both directions. */
static bool impair_is_idle(const struct impair *im)
{
	return !im->rx.nrun && diw_impair_line_idle(&im->tx) && diw_impair_line_idle(&im->rx);
}

/* ---- Send ---- */

/* Appends LEN bytes of IOV from AT to the N pieces; adjacent pieces become one. Returns the new number. */
static int add_pieces(struct impair *im, int n, const struct iovec *iov, struct diw_impair_cursor at, uint32_t len)
{
	while (len > 0) {
		uint8_t *p = (uint8_t *)iov[at.i].iov_base + at.off;
		size_t have = iov[at.i].iov_len - at.off, take = have < len ? have : len;
		struct iovec *last = n ? &im->tx_iov[n - 1] : NULL;

		if (last && (uint8_t *)last->iov_base + last->iov_len == p)
			last->iov_len += take;
		else
			im->tx_iov[n++] = (struct iovec){ p, take };
		len -= (uint32_t)take;
		at = (struct diw_impair_cursor){ at.i + 1, 0 };
	}
	return n;
}

/* For loss alone: the surviving datagrams of a super-buffer are sent as one super-buffer, without a copy. */
static int send_thinned(struct impair *im, const struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_impair_run runs[DIW_DGRAM_MAX_SEGS];
	struct diw_impair_line *l = &im->tx;
	typeof(l->s) before = l->s;
	uint64_t lost = l->c->impair_lost;
	struct diw_impair_cursor at = { 0, 0 };
	struct diw_dgram_burst out = *b;
	uint32_t from = 0;
	bool taken;
	int n = diw_impair_line_thin(l, b, runs, now);

	if (n && runs[0].len < b->len) {
		out = (struct diw_dgram_burst){ .peer = b->peer, .iov = im->tx_iov };
		for (int i = 0; i < n; i++) {
			diw_impair_advance(b->iov, &at, runs[i].off - from);
			from = runs[i].off;
			out.niov = add_pieces(im, out.niov, b->iov, at, runs[i].len);
			out.len += runs[i].len;
		}
		out.seg = out.len < b->seg ? out.len : b->seg;
	}
	taken = !n || im->lower->ops->send(im->lower, &out, 1, now) == 1;
	diw_impair_line_tell(l, b, taken, now);
	if (taken)
		return 0;
	l->s = before;
	l->c->impair_lost = lost;
	return -EAGAIN;
}

/* Makes one super-buffer of the run, beginning with entry FROM. Returns its number of datagrams. */
static int run_pack(struct impair *im, const struct diw_dgram_burst *b, int from, struct diw_dgram_burst *out)
{
	const struct diw_impair_line *l = &im->tx;
	int room = IOV_MAX - (b ? b->niov : 1);     /* a datagram has no more pieces than its burst */
	int i;

	*out = (struct diw_dgram_burst){ .iov = im->tx_iov };
	for (i = from; i < l->nrun && i - from < (int)DIW_DGRAM_MAX_SEGS; i++) {
		const struct diw_impair_item *r = &l->run[i];
		const struct diw_dest *peer = r->e ? &r->e->peer : &b->peer;
		struct iovec own = { r->e ? r->e->data : NULL, r->len };

		if (i == from) {
			out->peer = *peer;
			out->seg = r->len;
		} else if (r->len > out->seg || out->len + r->len > DIW_DGRAM_MAX_BURST || out->niov > room ||
			   !diw_dest_eq(peer, &out->peer)) {
			break;
		}
		out->niov = add_pieces(im, out->niov, r->e ? &own : b->iov, r->at, r->len);
		out->len += r->len;
		if (r->len < out->seg)
			return i + 1 - from;
	}
	return i - from;
}

/* Sends the run; returns how many datagrams of it have left. */
static int send_run(struct impair *im, const struct diw_dgram_burst *b, uint64_t now)
{
	int done = 0;

	while (done < im->tx.nrun) {
		struct diw_dgram_burst out;
		int n = run_pack(im, b, done, &out);

		if (im->lower->ops->send(im->lower, &out, 1, now) < 1)
			break;
		done += n;
	}
	return done;
}

/* Sends the datagrams that are due. 0, or -EAGAIN if the lower dgram did not take all of them. */
static int send_due(struct impair *im, uint64_t now)
{
	int done, all;

	if (diw_impair_line_deadline(&im->tx) > now)
		return 0;
	do {
		diw_impair_line_release(&im->tx, now);
		all = im->tx.nrun;
		done = send_run(im, NULL, now);
		diw_impair_line_end(&im->tx, NULL, done, now);
	} while (done == all && diw_impair_line_deadline(&im->tx) <= now);
	im->tx_retry_ns = done == all ? 0 : now + RETRY_NS;
	return done == all ? 0 : -EAGAIN;
}

/* 0: taken. -EAGAIN: not taken; the state is as before the call, so a second attempt decides the same. */
static int impair_burst(struct impair *im, const struct diw_dgram_burst *b, uint64_t now)
{
	struct diw_impair_line *l = &im->tx;
	typeof(l->s) before = l->s;
	uint64_t lost = l->c->impair_lost, doubled = l->c->impair_duplicated;
	int done;

	if (!l->copies && !l->nheld && b->niov + (int)DIW_DGRAM_MAX_SEGS <= IOV_MAX &&
	    b->len <= b->seg * DIW_DGRAM_MAX_SEGS)
		return send_thinned(im, b, now);
	diw_impair_line_plan(l, b, now);
	done = send_run(im, b, now);
	if (!done && l->nrun && !l->altered) {
		l->s = before;
		l->c->impair_lost = lost;
		l->c->impair_duplicated = doubled;
		l->nrun = 0;
		diw_impair_line_tell(l, b, false, now);
		return -EAGAIN;
	}
	diw_impair_line_end(l, b, done, now);
	diw_impair_line_tell(l, b, true, now);
	return 0;
}

static int impair_send(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct impair *im = impair_of(d);
	int i, err;

	if (diw_impair_line_idle(&im->tx))
		return im->lower->ops->send(im->lower, b, n, now);
	err = send_due(im, now);
	for (i = 0; i < n && !err; i++) {
		err = impair_burst(im, &b[i], now);
		if (err)
			break;
	}
	return i ? i : err;
}

/* ---- Receive ---- */

static const uint8_t *item_data(const struct impair *im, const struct diw_impair_item *r)
{
	return r->e ? r->e->data : (uint8_t *)im->rx_burst.iov->iov_base + r->at.off;
}

static const struct diw_dest *item_peer(const struct impair *im, const struct diw_impair_item *r)
{
	return r->e ? &r->e->peer : &im->rx_burst.peer;
}

static bool item_group(const struct impair *im, const struct diw_impair_item *r)
{
	return r->e ? r->e->group : im->rx_burst.group;
}

static const struct diw_addr *item_to(const struct impair *im, const struct diw_impair_item *r)
{
	return r->e ? &r->e->to : &im->rx_burst.to;
}

/* Makes the next burst of the run: datagrams that are adjacent in memory. */
static void hand_up(struct impair *im, struct diw_dgram_burst *b)
{
	const struct diw_impair_item *r = &im->rx.run[im->rx_next], *end = im->rx.run + im->rx.nrun;
	const uint8_t *data = item_data(im, r);

	*b = (struct diw_dgram_burst){ .peer = *item_peer(im, r), .iov = &im->rx_iov, .niov = 1, .len = r->len,
				       .seg = r->len, .group = item_group(im, r), .to = *item_to(im, r) };
	for (r++; r < end && b->seg && b->len % b->seg == 0 && r->len <= b->seg && r->len; r++) {
		if (item_data(im, r) != data + b->len || b->len + r->len > DIW_DGRAM_MAX_BURST ||
		    !diw_dest_eq(item_peer(im, r), &b->peer) || item_group(im, r) != b->group ||
		    !diw_addr_eq(item_to(im, r), &b->to))
			break;
		b->len += r->len;
	}
	im->rx_iov = (struct iovec){ (void *)data, b->len };
	im->rx_next = (int)(r - im->rx.run);
}

/* A peer at the own address may have left the CRCs out before the impairment was set: impair_own() is false now. */
static void bare_seal(struct impair *im, const struct diw_dgram_burst *b)
{
	uint8_t *p = b->iov->iov_base;

	if (!im->lower->ops->own || !im->lower->ops->own(im->lower, &b->peer.addr))
		return;
	for (uint32_t at = 0, len; at < b->len; at += len) {
		len = b->len - at < b->seg ? b->len - at : b->seg;
		if (diw_seal_is_open(p + at, len))
			diw_seal_put(p + at + len - DIW_SEAL_LEN, diw_crc32(0, p + at, len - DIW_SEAL_LEN));
	}
}

/* Fills the run with datagrams that are due, else from the lower dgram. False: there are none. */
static bool refill_run(struct impair *im, uint64_t now)
{
	while (!im->rx.nrun) {
		diw_impair_line_release(&im->rx, now);
		if (im->rx.nrun)
			break;
		if (im->lower->ops->recv(im->lower, &im->rx_burst, 1, now) < 1)
			return false;
		bare_seal(im, &im->rx_burst);
		diw_impair_line_plan(&im->rx, &im->rx_burst, now);
		diw_impair_line_tell(&im->rx, &im->rx_burst, true, now);
	}
	return true;
}

static int impair_recv(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now)
{
	struct impair *im = impair_of(d);
	int got = 0;

	im->lower->reach = impair_is_idle(im) ? d->reach : NULL;
	if (impair_is_idle(im))
		return im->lower->ops->recv(im->lower, b, n, now);
	send_due(im, now);
	if (im->rx.nrun && im->rx_next == im->rx.nrun) {
		diw_impair_line_end(&im->rx, &im->rx_burst, im->rx.nrun, now);
		im->rx_next = 0;
	}
	if (!im->rx.nrun && diw_impair_line_idle(&im->rx)) {
		got = im->lower->ops->recv(im->lower, b, n, now);
		for (int i = 0; i < got && !diw_impair_line_idle(&im->tx); i++)
			bare_seal(im, &b[i]);
	} else if (n > 0 && refill_run(im, now)) {
		hand_up(im, b);
		got = 1;
	}
	return got;
}

/* ---- Deadline, MTU, descriptors, open and close ---- */

static uint64_t impair_deadline(struct diw_dgram *d)
{
	struct impair *im = impair_of(d);
	uint64_t tx, t;

	if (impair_is_idle(im))
		return im->lower->ops->deadline(im->lower);
	tx = diw_impair_line_deadline(&im->tx);
	if (tx < im->tx_retry_ns)
		tx = im->tx_retry_ns;
	t = diw_min64(tx, diw_impair_line_deadline(&im->rx));
	if (im->rx_next < im->rx.nrun)
		return DIW_DGRAM_AT_HAND;
	return diw_min64(t, im->lower->ops->deadline(im->lower));
}

static uint32_t impair_mtu(struct diw_dgram *d, const struct diw_addr *dst)
{
	struct impair *im = impair_of(d);

	return im->lower->ops->mtu(im->lower, dst);
}

/* Without an impairment: what it changes needs a CRC. */
static bool impair_bare(struct diw_dgram *d, const struct diw_addr *dst)
{
	struct impair *im = impair_of(d);

	return diw_impair_line_idle(&im->tx) && im->lower->ops->bare && im->lower->ops->bare(im->lower, dst);
}

/* Without an impairment, for the same reason. */
static bool impair_own(struct diw_dgram *d, const struct diw_addr *addr)
{
	struct impair *im = impair_of(d);

	return diw_impair_line_idle(&im->tx) && diw_impair_line_idle(&im->rx) && im->lower->ops->own &&
	       im->lower->ops->own(im->lower, addr);
}

static int impair_fds(struct diw_dgram *d, int fd[DIW_DGRAM_FDS])
{
	struct impair *im = impair_of(d);

	return im->lower->ops->fds(im->lower, fd);
}

static void impair_close(struct diw_dgram *d)
{
	struct impair *im = impair_of(d);

	im->lower->ops->close(im->lower);
	diw_impair_line_fini(&im->tx);
	diw_impair_line_fini(&im->rx);
	free(im);
}

static const struct diw_dgram_ops impair_ops = {
	.name = "impair", .send = impair_send, .recv = impair_recv, .deadline = impair_deadline, .mtu = impair_mtu,
	.bare = impair_bare, .own = impair_own, .fds = impair_fds, .close = impair_close,
};

int diw_impair_set(struct diw_dgram *d, const struct diw_impair_spec *spec)
{
	struct impair *im = impair_of(d);
	int err = diw_impair_line_set(&im->tx, spec ? &spec->dir[DIW_IMPAIR_TX] : NULL, DIW_IMPAIR_TX);

	return err ? err : diw_impair_line_set(&im->rx, spec ? &spec->dir[DIW_IMPAIR_RX] : NULL, DIW_IMPAIR_RX);
}

void diw_impair_watch(struct diw_dgram *d, struct diw_impair_watch *w)
{
	struct impair *im = impair_of(d);

	im->tx.watch = im->rx.watch = w;
	im->tx.tx = true;
}

int diw_impair_open(struct diw_dgram *lower, const struct diw_impair_spec *spec, struct diw_dgram **d)
{
	struct impair *im = calloc(1, sizeof *im);

	if (!im)
		return -ENOMEM;
	im->lower = lower;
	im->d = (struct diw_dgram){ .ops = &impair_ops, .local = lower->local, .rcvbuf = lower->rcvbuf,
				   .state = lower->state, .c = lower->c };
	im->tx.c = im->rx.c = lower->c;
	if (diw_impair_set(&im->d, spec)) {
		diw_impair_line_fini(&im->tx);
		diw_impair_line_fini(&im->rx);
		free(im);
		return -ENOMEM;
	}
	*d = &im->d;
	return 0;
}
