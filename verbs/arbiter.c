/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deficit round robin (Shreedhar, Varghese: Efficient Fair Queueing using Deficit Round Robin, 1995) by octets. A round
 * gives each queue pair QUANTUM octets for each unit of its weight, and ends when all of them are sent. A queue pair
 * may send ARBITER_BURST octets at once, so that small weights fill super-buffers, too. It then waits for the rounds
 * that pay for them. The classes of DIW_ARBITER_BLOCKING are the tables of high and low priority of InfiniBand's
 * virtual lanes (InfiniBand Architecture Specification 1.2.1, volume 1, section 7.6.9).
 *
 * A post over datagrams is sent at once, so the queue of a queue pair that sends all the time may be empty between two
 * posts. Its share is kept for it for LINGER_NS, and for LINGER_STEPS: a thread that the kernel stops for a while does
 * not lose it.
 */
#include "verbs/arbiter.h"

#include "verbs/qp.h"

#define QUANTUM 4096
#define ARBITER_BURST 65536
#define LINGER_NS (20 * DIW_US)
#define LINGER_STEPS 4
/* A round ends after this time, even if a full socket or window keeps a queue pair from sending its share. */
#define ROUND_NS (100 * DIW_MS)
#define ROUNDS_MOST 1024             /* pay for any burst */

static struct diw_share *share_of(struct diw_list *l)
{
	return diw_container(l, struct diw_share, link);
}

static struct diw_qp *share_qp(struct diw_share *s)
{
	return diw_container(s, struct diw_qp, share);
}

static int64_t share_quantum(const struct diw_share *s)
{
	return (int64_t)s->weight * QUANTUM;
}

static bool share_competes(const struct diw_share *s)
{
	return !diw_list_empty(&s->link);
}

/* Unused credit is not saved: a queue pair has at most that of one round. */
static void share_credit(struct diw_share *s, uint64_t rounds)
{
	s->credit += (int64_t)(rounds < ROUNDS_MOST ? rounds : ROUNDS_MOST) * share_quantum(s);
	if (s->credit > share_quantum(s))
		s->credit = share_quantum(s);
}

static void share_put(struct diw_arbiter *a, struct diw_share *s, bool owed)
{
	diw_list_del(&s->link);
	diw_list_add_tail(owed ? &a->owed : &a->spent, &s->link);
	s->owed = owed;
}

static void share_wake(struct diw_share *s, uint64_t at)
{
	struct diw_qp *qp = share_qp(s);

	if (!s->waits || at >= qp->member.deadline)
		return;
	diw_engine_due_at(&qp->dev->engine, &qp->member, at);
}

static uint32_t top_of(const struct diw_list *shares, uint32_t top)
{
	for (struct diw_list *l = shares->next; l != shares; l = l->next)
		if (share_of(l)->weight > top)
			top = share_of(l)->weight;
	return top;
}

static void top_update(struct diw_arbiter *a)
{
	a->top = top_of(&a->owed, top_of(&a->spent, 0));
}

static void share_remove(struct diw_arbiter *a, struct diw_share *s)
{
	diw_list_del(&s->link);
	s->owed = s->waits = false;
	s->round = a->round;
	if (s->weight == a->top)
		top_update(a);
}

/* ---- Rounds ---- */

/* Whether the next round is for S. ALL: it is for all classes. */
static bool takes_part(const struct diw_arbiter *a, const struct diw_share *s, bool all)
{
	return all || a->mode == DIW_ARBITER_WEIGHTED || s->weight == a->top;
}

/* How many rounds it takes until a queue pair has credit. */
static uint64_t rounds_needed(const struct diw_arbiter *a, bool all)
{
	uint64_t least = ROUNDS_MOST;

	for (struct diw_list *l = a->spent.next; l != &a->spent; l = l->next) {
		struct diw_share *s = share_of(l);
		/* The analyzer does not see that a weight is not 0. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
		uint64_t n = s->credit > 0 ? 1 : (uint64_t)(-s->credit / share_quantum(s)) + 1;

		if (takes_part(a, s, all) && n < least)
			least = n;
	}
	return least;
}

static void round_begin(struct diw_arbiter *a, uint64_t now)
{
	bool all = now >= a->low_at + ROUND_NS;
	uint64_t n = diw_list_empty(&a->owed) ? rounds_needed(a, all) : 1;
	struct diw_list *l, *next;

	if (all)
		a->low_at = now;
	a->round += n;
	a->round_at = now;
	for (l = a->owed.next; l != &a->owed; l = l->next)
		share_credit(share_of(l), n);
	diw_list_for_each_safe(l, next, &a->spent) {
		struct diw_share *s = share_of(l);

		if (!takes_part(a, s, all))
			continue;
		share_credit(s, takes_part(a, s, false) ? n : 1);
		if (s->credit <= 0)
			continue;
		share_put(a, s, true);
		share_wake(s, now);
	}
}

static bool is_idle(const struct diw_engine *e, const struct diw_share *s, uint64_t now)
{
	return !s->waits && now >= s->sent_at + LINGER_NS && e->steps - s->sent_step > LINGER_STEPS;
}

/* Begins the next round if all that may send have sent their shares, or have stopped sending. */
static void rounds_advance(struct diw_dev *dev, uint64_t now)
{
	struct diw_arbiter *a = &dev->arbiter;
	struct diw_list *l;

	for (;;) {
		while ((l = diw_list_first(&a->owed)) && is_idle(&dev->engine, share_of(l), now))
			share_remove(a, share_of(l));
		if (diw_list_empty(&a->spent) || (l && now < a->round_at + ROUND_NS))
			return;
		round_begin(a, now);
	}
}

/* ---- Queue pairs ---- */

void diw_arbiter_init(struct diw_arbiter *a)
{
	diw_list_init(&a->owed);
	diw_list_init(&a->spent);
}

int64_t diw_arbiter_grant(struct diw_qp *qp, int64_t most, uint64_t now)
{
	struct diw_arbiter *a = &qp->dev->arbiter;
	struct diw_share *s = &qp->share;
	int64_t share;

	if (!share_competes(s)) {
		share_credit(s, a->round - s->round);
		s->round = a->round;
	}
	if (!s->owed)
		rounds_advance(qp->dev, now);
	if (share_competes(s) ? !s->owed : s->credit <= 0 || !takes_part(a, s, s->weight > a->top))
		return 0;
	share = s->credit > ARBITER_BURST ? s->credit : ARBITER_BURST;
	return share < most ? share : most;
}

/* S begins to compete. A class above all others takes what those have. */
static void share_join(struct diw_arbiter *a, struct diw_share *s, uint64_t now)
{
	struct diw_list *l, *next;

	if (diw_list_empty(&a->owed) && diw_list_empty(&a->spent))
		a->round_at = now;
	share_put(a, s, s->credit > 0 && takes_part(a, s, s->weight > a->top));
	if (s->weight <= a->top)
		return;
	a->top = s->weight;
	if (a->mode == DIW_ARBITER_WEIGHTED)
		return;
	a->low_at = now;
	diw_list_for_each_safe(l, next, &a->owed)
		if (share_of(l)->weight < a->top)
			share_put(a, share_of(l), false);
}

/* The first queue pair that waits looks whether those that may send still do. */
static void watch_silent(struct diw_arbiter *a, uint64_t now)
{
	for (struct diw_list *l = a->spent.next; l != &a->spent; l = l->next)
		if (share_of(l)->waits) {
			share_wake(share_of(l), now + LINGER_NS);
			return;
		}
}

void diw_arbiter_sent(struct diw_qp *qp, int64_t octets, bool waits, uint64_t now)
{
	struct diw_arbiter *a = &qp->dev->arbiter;
	struct diw_share *s = &qp->share;

	if (octets == 0 && !waits && !s->waits)
		return;
	if (!share_competes(s))
		share_join(a, s, now);
	s->waits = waits;
	if (octets || !waits) {
		s->credit -= octets;
		s->sent_at = now;
		s->sent_step = qp->dev->engine.steps;
		share_put(a, s, s->owed && s->credit > 0);
	}
	if (!s->owed)
		rounds_advance(qp->dev, now);
	else if (!waits)
		watch_silent(a, now);
}

uint64_t diw_arbiter_deadline(const struct diw_qp *qp)
{
	const struct diw_arbiter *a = &qp->dev->arbiter;
	struct diw_list *l = diw_list_first(&a->owed);
	uint64_t round_end = a->round_at + ROUND_NS;

	if (!share_competes(&qp->share) || qp->share.owed || !l)
		return 0;
	return share_of(l)->waits ? round_end :
	       diw_min64(round_end, diw_max64(share_of(l)->sent_at, diw_engine_time(&qp->dev->engine)) + LINGER_NS);
}

void diw_arbiter_leave(struct diw_qp *qp, uint64_t now)
{
	if (!share_competes(&qp->share))
		return;
	share_remove(&qp->dev->arbiter, &qp->share);
	rounds_advance(qp->dev, now);
}

/* No queue pair competes any more; those that wait run again. */
static void arbiter_clear(struct diw_arbiter *a, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &a->owed)
		share_remove(a, share_of(l));
	diw_list_for_each_safe(l, next, &a->spent) {
		share_wake(share_of(l), now);
		share_remove(a, share_of(l));
	}
}

void diw_arbiter_set_mode(struct diw_dev *dev, enum diw_arbiter_mode mode, uint64_t now)
{
	arbiter_clear(&dev->arbiter, now);
	dev->arbiter.mode = mode;
}

static void qp_meter(struct diw_qp *qp)
{
	qp->metered = qp->rate || qp->dev->arbiter.weights;
}

void diw_arbiter_weigh(struct diw_qp *qp, uint32_t weight, uint64_t now)
{
	struct diw_arbiter *a = &qp->dev->arbiter;
	bool on = a->weights;

	a->weights -= qp->share.weight != 1;
	diw_arbiter_leave(qp, now);
	qp->share.weight = weight;
	a->weights += weight != 1;
	qp_meter(qp);
	if (on == (a->weights != 0))
		return;
	if (on)
		arbiter_clear(a, now);
	for (struct diw_list *l = qp->dev->qps.next; l != &qp->dev->qps; l = l->next)
		qp_meter(diw_container(l, struct diw_qp, of_dev));
}
