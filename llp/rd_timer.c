/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timers of reliable datagrams' peers: a binary heap of times. A peer is in the heap once, with the earliest time
 * that was set. Setting a later time costs nothing: the peer runs too early, and sets its timer again.
 */
#include "llp/rd.h"

static void timer_put(struct rd *rd, uint32_t i, struct rd_timer t)
{
	rd->timer[i] = t;
	t.peer->timer_at = i;
}

static void timer_up(struct rd *rd, uint32_t i, struct rd_timer t)
{
	for (; i > 1 && t.at < rd->timer[i / 2].at; i /= 2)
		timer_put(rd, i, rd->timer[i / 2]);
	timer_put(rd, i, t);
}

static void timer_down(struct rd *rd, uint32_t i, struct rd_timer t)
{
	uint32_t c;

	for (; (c = 2 * i) <= rd->timers; i = c) {
		c += c < rd->timers && rd->timer[c + 1].at < rd->timer[c].at;
		if (t.at <= rd->timer[c].at)
			break;
		timer_put(rd, i, rd->timer[c]);
	}
	timer_put(rd, i, t);
}

void diw_rd_timer_set(struct rd *rd, struct rd_peer *p, uint64_t at)
{
	struct rd_timer t = { at, p };

	if (at == DIW_NEVER || (p->timer_at && rd->timer[p->timer_at].at <= at))
		return;
	timer_up(rd, p->timer_at ? p->timer_at : ++rd->timers, t);
}

/* A thread that sleeps until a time that has moved would wake too early, and with each message again. While the link
 * below is full no segment is due, but the times of segments stay: nothing sets them when it has room again. */
uint64_t diw_rd_timer_due(struct rd *rd)
{
	while (rd->timers && !rd->blocked) {
		struct rd_timer t = rd->timer[1];
		uint64_t due = diw_rd_tx_due(rd, t.peer);

		if (due <= t.at || due == DIW_NEVER)
			break;
		t.at = due;
		timer_down(rd, 1, t);
	}
	return diw_rd_timer_first(rd);
}

uint64_t diw_rd_timer_first(const struct rd *rd)
{
	return rd->timers ? rd->timer[1].at : DIW_NEVER;
}

struct rd_peer *diw_rd_timer_take(struct rd *rd, uint64_t now)
{
	struct rd_peer *p = rd->timer[1].peer;
	struct rd_timer last;

	if (diw_rd_timer_first(rd) > now)
		return NULL;
	p->timer_at = 0;
	last = rd->timer[rd->timers--];
	if (last.peer != p)
		timer_down(rd, 1, last);
	return p;
}
