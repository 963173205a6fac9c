/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control of reliable datagrams: Copa (Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion
 * Control for the Internet", NSDI 2018). The window approaches the rate 1 / (delta * queueing delay), so that each flow
 * keeps 1 / delta segments in the bottleneck's queue. If the queue never empties, the flow shares it with a flow that
 * fills it (TCP cubic), and lowers delta until it loses segments (section 2.2 of the paper).
 *
 * Differences from the paper:
 * - Without competition 1 / delta is 3 instead of 2, since segments leave in bursts, and losses alone change
 *   nothing.
 * - In competition 1 / delta grows by 1 and an eighth a round trip, and a loss takes 35 %: so the flow has about the
 *   share of a TCP cubic (tests/sim/rd_fair.c). The smallest round trip counts for one to two minutes, since none is
 *   without a queue.
 * - Before a flow takes the queue for another flow's, and seldom while it does, it drains its part (cc_drain()). Of 16
 *   flows at 100 Mbit/s and 20 ms most runs would otherwise end with a full queue.
 * - A delay within the noise of busy hosts is not a queueing delay: at 100 Mbit/s, a queueing delay of 2 ms would limit
 *   the rate to a sixth.
 */
#include "llp/rd.h"

#define CWND_MIN 4.0
#define CWND_MAX 65535.0
#define CWND_FIRST 32.0
#define AT_REST 3.0f                 /* 1 / delta without competition */
#define AT_REST_HOST 64.0f            /* the same if the peer is on this host, where the receiver delays segments and no
				       * queue does */
#define KEPT 0.65                    /* of 1 / delta in competition, after a round trip with a loss */
#define AT_MOST 256.0                /* 1 / delta in competition */
#define PERIOD (5 * DIW_S)           /* the smallest round trip is the minimum of the last one to two periods */
#define PERIOD_LONG (60 * DIW_S)     /* the same in competition, which keeps the queue from being empty */
#define PACE_SLACK (100 * DIW_US)    /* segments may leave this much before their time, as bursts */
#define PACE_CREDIT 4                /* a sender that ran late catches up by this part of a round trip */
#define OWN_QUEUE (5 * DIW_MS)       /* queueing delay that flows of this kind alone may cause; or 3/8 of the round trip
				      * if that is more */
#define PATIENCE 40u                 /* round trips with a queue, until it counts as another flow's */
#define DRAIN_FIRST (500 * DIW_MS)   /* time without an empty queue, after which a flow drains its part of it; */
#define DRAIN_ROUNDS 16u             /* and at least so many round trips */
#define DRAIN_SHARE 0.75             /* of the segments that the path without a queue takes */
#define PAUSE_ROUNDS 4u              /* a program that has sent nothing for so many round trips has paused */
#define NOISE_MIN (30 * DIW_US)      /* a queueing delay below this is noise of the hosts */
#define NOISE_SHARE 2                /* so is one below the deviation of round trips, or below 1/2 of the smallest
				      * one */

void diw_rd_cc_init(struct rd_cc *c, bool own_host, uint64_t now)
{
	float at_rest = own_host ? AT_REST_HOST : AT_REST;

	*c = (struct rd_cc){ .cwnd = CWND_FIRST, .velocity = 1, .delta = 1 / (double)at_rest, .at_rest = at_rest,
		.slow_start = true,
		.rtt_min = { DIW_NEVER, DIW_NEVER }, .standing = { DIW_NEVER, DIW_NEVER },
		.rtt_min_from = now, .standing_from = now, .empty_at = now, .round_at = now,
		.acked_at = now, .round_cwnd = CWND_FIRST, .drain_after = DRAIN_FIRST };
}

/* The minimum of this period and of the one before it. */
static void window_min(uint64_t min[2], uint64_t *from, uint64_t period, uint64_t v, uint64_t now)
{
	if (now - *from >= period) {
		min[1] = now - *from >= 2 * period ? DIW_NEVER : min[0];
		min[0] = DIW_NEVER;
		*from = now;
	}
	min[0] = diw_min64(min[0], v);
}

uint64_t diw_rd_cc_rtt_min(const struct rd_cc *c)
{
	return diw_min64(c->rtt_min[0], c->rtt_min[1]);
}

static uint64_t cc_standing(const struct rd_cc *c)
{
	return diw_min64(c->standing[0], c->standing[1]);
}

/* The queue has not been empty for long: a flow of another kind fills it. */
static bool cc_competes(const struct rd_cc *c, uint64_t now)
{
	return now - c->empty_at > PATIENCE * c->srtt;
}

static void rtt_sample(struct rd_cc *c, uint64_t rtt, uint64_t now)
{
	uint64_t off = c->srtt > rtt ? c->srtt - rtt : rtt - c->srtt;

	c->rttvar = c->srtt ? (3 * c->rttvar + off) / 4 : rtt / 2;
	c->srtt = c->srtt ? (7 * c->srtt + rtt) / 8 : rtt;
	window_min(c->rtt_min, &c->rtt_min_from, cc_competes(c, now) ? PERIOD_LONG : PERIOD, rtt, now);
	window_min(c->standing, &c->standing_from, c->srtt / 4, rtt, now);
	c->rtt_max = c->rtt_max > rtt ? c->rtt_max : rtt;
}

/* Runs once a round trip. */
static void cc_round(struct rd_cc *c, uint64_t now)
{
	bool up = c->cwnd > c->round_cwnd;

	c->same = (uint8_t)(up == c->up ? c->same + (c->same < 8) : 0);
	c->velocity = c->same < 3 ? 1 : c->velocity < c->cwnd / 4 ? c->velocity * 2 : c->velocity;
	c->up = up;
	c->round_at = now;
	c->round_cwnd = c->cwnd;
	if (!cc_competes(c, now)) {
		c->delta = 1 / (double)c->at_rest;
	} else {
		double x = 1 / c->delta;

		x = c->lost ? x * KEPT : x + 1 + x / 8;
		c->delta = 1 / (x < c->at_rest ? c->at_rest : x > AT_MOST ? AT_MOST : x);
	}
	c->lost = false;
	c->rtt_max -= (c->rtt_max - diw_rd_cc_rtt_min(c)) / 4;
}

/* The part of a queueing delay that may be noise of the hosts. */
static uint64_t cc_noise(const struct rd_cc *c, uint64_t min)
{
	return diw_max64(NOISE_MIN, diw_min64(c->rttvar, min / NOISE_SHARE));
}

/* Flows of this kind alone may keep the queue from being empty, and then take each other for another kind. So each one
 * drains its part of the queue at fixed times after the queue was last empty. All have seen that at about the same
 * time, so they drain together, and the queue is empty again. A flow of another kind fills the queue meanwhile; then
 * the window is as before, and the next drain comes after twice the time. A pause, behind which the peer may be slow to
 * wake, is no time with a queue. */
static void cc_drain(struct rd_cc *c, uint64_t standing, uint64_t min, uint64_t now)
{
	uint64_t age = now - c->empty_at, gap = now - c->acked_at;
	double share;

	c->acked_at = now;
	if (gap > PAUSE_ROUNDS * c->srtt)
		c->drain_after += gap;
	if (c->drain_until && age == 0)
		c->cwnd = c->round_cwnd = c->drain_cwnd;
	if (age == 0)
		c->drain_after = DRAIN_FIRST;
	if (age == 0 || now >= c->drain_until)
		c->drain_until = 0;
	if (age < c->drain_after || age < DRAIN_ROUNDS * c->srtt)
		return;
	while (c->drain_after <= age)
		c->drain_after *= 2;
	c->drain_until = now + c->srtt + c->srtt / 2;
	share = c->cwnd * DRAIN_SHARE * (double)min / (double)standing;
	c->drain_cwnd = (float)(share < CWND_MIN ? CWND_MIN : share);
}

void diw_rd_cc_acked(struct rd_cc *c, uint64_t rtt, uint32_t n, uint32_t flight, uint64_t now)
{
	uint64_t standing, min, queueing, noise;
	double step;
	bool below;

	if (rtt)
		rtt_sample(c, rtt, now);
	min = diw_rd_cc_rtt_min(c);
	standing = cc_standing(c);
	if (min == DIW_NEVER || standing == DIW_NEVER)
		return;
	queueing = standing - min;
	if (queueing <= diw_max64(OWN_QUEUE, diw_max64(min / 8 * 3, (c->rtt_max - min) / 10)))
		c->empty_at = now;
	cc_drain(c, standing, min, now);
	if (c->drain_until)
		return;
	noise = cc_noise(c, min);
	below = queueing <= noise ||
		c->cwnd / (double)standing <= 1 / (c->delta * (double)(queueing - noise));
	if (now - c->round_at >= c->srtt)
		cc_round(c, now);
	if (below && flight + n < c->cwnd / 2)       /* the program, not the network, limits the rate */
		return;
	if (c->slow_start && below) {
		c->cwnd += n;
	} else {
		if (c->slow_start && c->cwnd > CWND_FIRST)      /* a window ago the segments in flight were enough */
			c->cwnd /= 2;
		c->slow_start = false;
		step = (double)c->velocity * n / (c->delta * c->cwnd);
		step = step < n ? step : n;
		if (below != c->up && c->velocity > 1)
			c->velocity = 1, c->same = 0;
		c->cwnd += below ? step : -step;
	}
	c->cwnd = c->cwnd < CWND_MIN ? CWND_MIN : c->cwnd > CWND_MAX ? CWND_MAX : c->cwnd;
}

void diw_rd_cc_lost(struct rd_cc *c)
{
	c->lost = true;
}

void diw_rd_cc_timeout(struct rd_cc *c)
{
	c->cwnd = CWND_MIN;
	c->velocity = 1;
	c->slow_start = true;
	c->drain_until = 0;
}

double diw_rd_cc_window(const struct rd_cc *c)
{
	return c->drain_until ? c->drain_cwnd : c->cwnd;
}

uint32_t diw_rd_cc_allows(const struct rd_cc *c, uint32_t flight, uint64_t now)
{
	double window = diw_rd_cc_window(c);

	if ((double)flight >= window || c->pace_at > now + PACE_SLACK)
		return 0;
	return (uint32_t)(window - flight) + 1;
}

/* The pace is twice the window a round trip (section 2.1 of the paper). */
void diw_rd_cc_sent(struct rd_cc *c, uint32_t n, uint64_t now)
{
	uint64_t standing = cc_standing(c);

	if (standing == DIW_NEVER)
		return;
	c->pace_at = diw_max64(c->pace_at, now - standing / PACE_CREDIT);
	c->pace_at += (uint64_t)((double)standing * n / (2 * c->cwnd));
}
