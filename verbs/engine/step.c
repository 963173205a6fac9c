/* SPDX-License-Identifier: BSD-2-Clause */
/* The step: serves every member that is ready or due. The members of the turn take turns at being the first. */
#include "verbs/engine/int.h"

/* With more members than this, an early wake-up costs less than checking all deadlines before every sleep. */
#define DEADLINES_FEW 64

static inline struct diw_member *member_of(const struct diw_list *l)
{
	return diw_container((struct diw_list *)l, struct diw_member, link);
}

/* ---- Members ---- */

int diw_engine_add(struct diw_engine *e, struct diw_member *m)
{
	int rc = diw_ready_add(e, m);

	if (rc < 0)
		return rc;
	diw_list_init(&m->unflushed);
	diw_list_init(&m->timed);
	diw_list_add_tail(&e->turn, &m->link);
	e->nturn++;
	diw_engine_due_at(e, m, 0);
	return 0;
}

void diw_engine_remove(struct diw_engine *e, struct diw_member *m)
{
	diw_list_del(&m->link);
	diw_list_del(&m->timed);
	diw_engine_flushed(e, m);
	diw_engine_take_posts(e, m);
	e->nturn--;
	diw_ready_del(e, m);
}

void diw_engine_add_fixed(struct diw_engine *e, struct diw_member *m)
{
	diw_list_add_tail(&e->fixed, &m->link);
	diw_engine_kick(e);                     /* the leader does not sleep on its descriptors yet */
}

void diw_engine_remove_fixed(struct diw_member *m)
{
	diw_list_del(&m->link);
}

void diw_engine_leave_post(struct diw_engine *e, struct diw_member *m)
{
	if (!atomic_exchange(&m->left, true))
		atomic_fetch_add(&e->left, 1);
}

void diw_engine_take_posts(struct diw_engine *e, struct diw_member *m)
{
	if (atomic_load_explicit(&m->left, memory_order_relaxed) && atomic_exchange(&m->left, false))
		atomic_fetch_sub(&e->left, 1);
}

/* ---- Work ---- */

static void turn_serve_all(struct diw_engine *e, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &e->turn)
		diw_member_serve(e, member_of(l), now);
}

/* The epoll set does not tell of posts that were left to a step. */
static void turn_serve_left(struct diw_engine *e, uint64_t now)
{
	struct diw_list *l, *next;

	if (atomic_load_explicit(&e->left, memory_order_relaxed) == 0)
		return;
	diw_list_for_each_safe(l, next, &e->turn) {
		struct diw_member *m = member_of(l);

		if (!atomic_load_explicit(&m->left, memory_order_relaxed))
			continue;
		diw_engine_take_posts(e, m);
		m->ops->posted(m, now);
	}
}

static void fixed_serve(struct diw_engine *e, uint64_t now)
{
	struct diw_list *l, *next;

	diw_list_for_each_safe(l, next, &e->fixed)
		diw_member_serve(e, member_of(l), now);
}

/* ---- Deadlines ---- */

/* A member leaves the list in turn_serve_due() only, which may be going through it. */
static void timed_add(struct diw_engine *e, struct diw_member *m)
{
	if (diw_list_empty(&m->timed))
		diw_list_add_tail(&e->timed, &m->timed);
}

void diw_engine_due_at(struct diw_engine *e, struct diw_member *m, uint64_t t)
{
	m->deadline = t;
	if (t == DIW_NEVER)
		return;
	timed_add(e, m);
	diw_engine_hasten(e, t);
}

void diw_engine_starve(struct diw_engine *e, struct diw_member *m)
{
	m->starved = true;
	timed_add(e, m);
}

/* Serves members whose deadline has come, or that have work left from their last turn. The members of the list take
 * turns at being the first. */
static void turn_serve_due(struct diw_engine *e, uint64_t now)
{
	struct diw_list *l, *next, *first = diw_list_first(&e->timed);
	uint64_t t = DIW_NEVER;

	if (now < e->timer_at)
		return;
	e->timer_at = DIW_NEVER;                /* work of one member may hasten another, which was checked before */
	if (first) {
		diw_list_del(first);
		diw_list_add_tail(&e->timed, first);
	}
	diw_list_for_each_safe(l, next, &e->timed) {
		struct diw_member *m = diw_container(l, struct diw_member, timed);

		if (now >= m->deadline || m->starved)
			diw_member_serve(e, m, now);
		if (m->deadline == DIW_NEVER && !m->starved)
			diw_list_del(l);
		t = diw_min64(t, m->deadline);
	}
	e->timer_at = diw_min64(e->timer_at, t);
}

/* ---- Steps ---- */

uint64_t diw_engine_step(struct diw_engine *e, uint64_t now)
{
	struct diw_list *first = diw_list_first(&e->turn);

	now = diw_engine_forward(e, now);
	e->steps++;
	diw_engine_flush(e);
	if (e->epoll_on) {
		turn_serve_left(e, now);
		diw_ready_serve(e, now);
	} else {
		turn_serve_all(e, now);
	}
	fixed_serve(e, now);                    /* before the deadlines: work that a fixed member starts or ends is due
						 * at once */
	turn_serve_due(e, now);
	if (e->nturn > 1 && first) {
		diw_list_del(first);
		diw_list_add_tail(&e->turn, first);
	}
	return diw_engine_due(e);
}

/* Requests may have been posted with DIW_SEND_MORE, and starved members may have room. */
void diw_engine_step_unread(struct diw_engine *e, uint64_t now)
{
	struct diw_list *l, *next;

	now = diw_engine_forward(e, now);
	e->steps++;
	diw_engine_flush(e);
	diw_list_for_each_safe(l, next, &e->turn)
		member_of(l)->ops->posted(member_of(l), now);
	fixed_serve(e, now);
	turn_serve_due(e, now);
}

static uint64_t fixed_deadline(const struct diw_engine *e, bool waiting)
{
	const struct diw_list *l;
	uint64_t t = DIW_NEVER;

	for (l = e->fixed.next; l != &e->fixed; l = l->next)
		t = diw_min64(t, member_of(l)->ops->deadline(member_of(l), waiting));
	return t;
}

uint64_t diw_engine_due(const struct diw_engine *e)
{
	return diw_min64(e->timer_at, fixed_deadline(e, true));
}

uint64_t diw_engine_deadline(const struct diw_engine *e, bool waiting)
{
	const struct diw_list *l;
	uint64_t t = fixed_deadline(e, waiting);

	if (e->nturn > DEADLINES_FEW)
		return diw_min64(t, e->timer_at);
	for (l = e->turn.next; l != &e->turn; l = l->next)
		t = diw_min64(t, member_of(l)->ops->deadline(member_of(l), waiting));
	return t;
}
