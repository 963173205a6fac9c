/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp --group: the table of receivers. */
#include "tools/cp/members.h"

#include <string.h>

#include "base/wire.h"

#define BEHIND_NS DIW_S
#define LOSS_MOST 0.5                /* a receiver that loses more does not slow the others down for as long as it
				      * needs */

const char *member_state_str(enum member_state s)
{
	static const char *const name[] = { "receiving", "hashing", "done", "failed", "lost", "refused" };

	return name[s];
}

struct member *member_of_addr(struct members *t, const struct diw_addr *addr)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (memcmp(&t->m[i].addr, addr, sizeof *addr) == 0)
			return &t->m[i];
	return NULL;
}

static uint32_t members_of_host(const struct members *t, const struct diw_addr *host)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += memcmp(t->m[i].addr.ip, host->ip, sizeof host->ip) == 0;
	return n;
}

struct member *member_add(struct members *t, const struct diw_addr *addr, uint64_t now)
{
	struct member *m;

	if (t->n == GROUP_MEMBERS || members_of_host(t, addr) == GROUP_HOST_MEMBERS)
		return NULL;
	m = &t->m[t->n++];
	*m = (struct member){ .addr = *addr, .heard_at = now, .progress_at = now, .fair_at = now };
	return m;
}

/* Reordered reports can raise the deficit only for a while. A receiver that reports, correctly or not, that it loses
 * most of the data closes the window for all others for at most BEHIND_NS. */
double member_report(struct member *m, uint32_t mark, uint64_t sent, uint64_t got, uint64_t now)
{
	uint64_t came = got > m->base_got ? got - m->base_got : 0;
	uint64_t fresh = sent - m->at, due = sent - m->base, missed = 0;
	double loss = 0;

	if (due > came && due - came > m->deficit) {
		missed = due - came - m->deficit;
		m->deficit = due - came;
	}
	if (fresh) {
		loss = missed < fresh ? (double)missed / (double)fresh : 1;
		m->loss += (loss - m->loss) / 8;
		m->progress_at = now;
	}
	if (m->loss <= LOSS_MOST)
		m->fair_at = now;
	else if (now - m->fair_at > BEHIND_NS)
		m->behind = true;
	m->at = sent;
	m->mark = mark;
	return loss;
}

bool member_is_open(const struct member *m)
{
	return m->state == MEMBER_LIVE || m->state == MEMBER_HAVE;
}

uint32_t members_in(const struct members *t, enum member_state s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += t->m[i].state == s;
	return n;
}

uint32_t members_open(const struct members *t)
{
	return members_in(t, MEMBER_LIVE) + members_in(t, MEMBER_HAVE);
}

bool members_all_behind(const struct members *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->m[i].state == MEMBER_LIVE && !t->m[i].behind)
			return false;
	return true;
}

/* A receiver that is behind delays none if all are. */
static bool member_is_waited(const struct members *t, const struct member *m)
{
	return m->state == MEMBER_LIVE && (!m->behind || members_all_behind(t));
}

uint64_t members_slowest(const struct members *t)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < t->n; i++)
		if (member_is_waited(t, &t->m[i]) && t->m[i].at < least)
			least = t->m[i].at;
	return least;
}

const struct member *members_worst(const struct members *t)
{
	const struct member *worst = NULL;

	for (uint32_t i = 0; i < t->n; i++)
		if (member_is_waited(t, &t->m[i]) && (!worst || t->m[i].loss > worst->loss))
			worst = &t->m[i];
	return worst;
}

uint32_t members_rcvbuf(const struct members *t)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < t->n; i++)
		if (t->m[i].rcvbuf < least)
			least = t->m[i].rcvbuf;
	return least;
}

uint32_t members_unanswered(const struct members *t, uint32_t pass)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++)
		n += t->m[i].state == MEMBER_LIVE && t->m[i].answered != pass + 1;
	return n;
}

void members_expire(struct members *t, uint64_t marked, uint64_t hash_ns, uint64_t now)
{
	for (uint32_t i = 0; i < t->n; i++) {
		struct member *m = &t->m[i];

		if (member_is_open(m) && now - m->heard_at > GROUP_SILENCE_NS) {
			m->state = MEMBER_LOST;
			snprintf(m->why, sizeof m->why, "silent for %d s", (int)(GROUP_SILENCE_NS / DIW_S));
		} else if (m->state == MEMBER_HAVE && now - m->have_at > hash_ns) {
			m->state = MEMBER_LOST;
			snprintf(m->why, sizeof m->why,
				 "it has every byte, but no SHA-256 within %d s: see the messages of 'diw recv' there",
				 (int)(hash_ns / DIW_S));
		}
		if (m->state != MEMBER_LIVE || m->at >= marked)
			m->progress_at = now;
		else if (now - m->progress_at > BEHIND_NS)
			m->behind = true;
	}
}
