/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of other users on this host, and of this user in another registry. The kernel says which socket receives a
 * datagram, or is the other end of a connection, and which user owns it. That user's window is believed about this
 * socket alone. No other process has to answer.
 */
#include <errno.h>
#include <signal.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/answers.h"
#include "sockets_preload/reach.h"

#define OTHERS (100 * DIW_MS)            /* validity of an answer about another user's socket */
#define MISSED (250 * DIW_MS)            /* validity of an answer that names no socket of another user */
#define QUESTION_PAUSE DIW_MS            /* least time between two questions */
#define USERS 16u
#define WINDOW_ANSWERS 1024u
#define TURN_TRIES 10000
#define OVERFLOW_UID 65534u

/* The result of a search; is.route.shown.entry NULL: no capable socket. */
static struct window_answer {
	struct diw_answer is;
	uint64_t own_seq;                    /* of the entry in this user's registry; 0: there was none */
} answers[WINDOW_ANSWERS];
static const struct diw_answers kept = { answers, WINDOW_ANSWERS, sizeof *answers };

/* An attached window stays, or is replaced in place: other threads may be reading it. */
static struct { uint32_t uid; int id; struct diw_sockreg *reg; } users[USERS];
static _Atomic bool asking;
static _Atomic uint64_t next_question;

/* ---- The owner of a socket ---- */

/* In a user namespace, all users without a mapping have the same number. */
static bool is_somebody(uint32_t uid)
{
	static _Atomic int all_known = -1;
	char line[64] = "";
	int fd;

	if (uid != OVERFLOW_UID)
		return true;
	if (all_known < 0) {
		fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
		all_known = fd >= 0 && real.read(fd, line, sizeof line - 1) > 0 && strstr(line, " 4294967295\n");
		if (fd >= 0)
			real.close(fd);
	}
	return all_known;
}

/* ---- The window of the owner ---- */

static struct diw_sockreg *window_of(uint32_t uid)
{
	for (uint32_t i = 0; i < USERS; i++) {
		struct diw_sockreg *reg;

		if (users[i].reg && users[i].uid != uid)
			continue;
		if (!users[i].reg)
			users[i].id = -1;
		reg = diw_sockwin_open(uid, false, users[i].reg, &users[i].id);
		if (reg) {
			users[i].uid = uid;
			users[i].reg = reg;
		}
		return users[i].reg && diw_sockreg_is_complete(users[i].reg) ? users[i].reg : NULL;
	}
	return NULL;
}

/* Asks for each interface by which the datagram may be received; all answers must be the same socket. */
static bool ask_datagram(const struct diw_sock *s, int fd, const struct diw_addr *src, const struct diw_addr *dst,
			 struct diw_told *told)
{
	uint32_t index[2];
	unsigned n = diw_reach_interfaces(fd, dst, index);

	for (unsigned i = 0; i < n; i++) {
		struct diw_told again;

		if (!diw_ask(s->netns, IPPROTO_UDP, src, dst, index[i], &again) || !again.cookie ||
		    (i && again.cookie != told->cookie))
			return false;
		*told = again;
	}
	return true;
}

static void window_find_out(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct window_answer *a)
{
	struct diw_told told = { 0 };
	struct diw_sockreg *reg;
	struct diw_addr src;

	a->is.route.shown.entry = NULL;
	a->is.until = diw_coarse_ns() + (a->own_seq ? DIW_ANSWER_BELIEVED : MISSED);
	if (!diw_is_local(dst, s->netns) || !diw_reach_source(s, fd, dst, &src) ||
	    !ask_datagram(s, fd, &src, dst, &told))
		return;
	if (diw_reach_look() && !diw_reg_has_heard(told.cookie, &src))
		return;
	if (a->own_seq) {
		diw_reg_find_cookie(NULL, dst->port, s->netns, told.cookie, false, &a->is.route);
		return;
	}
	reg = is_somebody(told.uid) ? window_of(told.uid) : NULL;
	if (reg && diw_reg_find_cookie(reg, dst->port, s->netns, told.cookie, false, &a->is.route))
		a->is.until += OTHERS - MISSED;
}

/* ---- Turns to ask ---- */

/* One thread at a time asks. Meanwhile its signals are blocked, and it is not cancelled. */
struct turn { sigset_t mask; int cancel; };

static bool take_turn(struct turn *t)
{
	sigset_t all;

	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &t->mask))
		return false;
	if (atomic_exchange(&asking, true)) {
		pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
		return false;
	}
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t->cancel);
	return true;
}

static void end_turn(const struct turn *t)
{
	atomic_store(&asking, false);
	pthread_setcancelstate(t->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
}

/* Questions about another user's sockets are limited in rate, so that they cost no noticeable time. */
static bool ask_in_turn(const struct diw_sock *s, int fd, struct window_answer *a)
{
	uint64_t now = diw_coarse_ns();
	struct turn t;

	if (now < atomic_load_explicit(&next_question, memory_order_relaxed) || !take_turn(&t))
		return false;
	window_find_out(s, fd, &a->is.dst, a);
	atomic_store_explicit(&next_question, now + QUESTION_PAUSE, memory_order_relaxed);
	end_turn(&t);
	return true;
}

/* Threads may ask at the same time: no window is attached. */
static bool ask_of_own(const struct diw_sock *s, int fd, struct window_answer *a)
{
	sigset_t all, mask;

	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &mask))
		return false;
	window_find_out(s, fd, &a->is.dst, a);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return true;
}

void diw_window_forked(void)
{
	atomic_store(&asking, false);
	diw_answers_forked(&kept);
}

bool diw_window_find(const struct diw_sock *s, int fd, const struct diw_addr *to, const struct diw_route *own,
		     struct diw_route *route)
{
	struct diw_addr dst = diw_destination(to);
	struct diw_answer *slot = diw_answer_slot(&kept, s->cookie, &dst);
	struct window_answer a;
	uint64_t own_seq = own ? own->shown.seq : 0;
	bool lasts = own && own->lasting && !diw_reach_tells(), done;     /* then the caller stores the answer */
	int saved = errno;

	if (!diw_may_ask())
		return false;
	if (lasts || !diw_answer_recall(&kept, slot, s->cookie, &dst, &a.is) || a.own_seq != own_seq) {
		a = (struct window_answer){ .is = { .size = sizeof a, .cookie = s->cookie, .dst = dst },
					    .own_seq = own_seq };
		done = own ? ask_of_own(s, fd, &a) : ask_in_turn(s, fd, &a);
		if (done && !lasts)
			diw_answer_remember(slot, &a.is);
		errno = saved;
		if (!done)
			return false;
	}
	if (!diw_ref_holds(&a.is.route.shown))
		return false;
	*route = a.is.route;
	return true;
}

/* ---- Streams: one question for each ---- */

/* The thread that asks is not interrupted, so the wait is some microseconds. */
static bool wait_for_turn(struct turn *t)
{
	for (int i = 0; i < TURN_TRIES; i++) {
		if (take_turn(t))
			return true;
		sched_yield();
	}
	return false;
}

static bool find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route)
{
	struct diw_sockreg *reg;
	struct diw_told told;

	if (!diw_ask(s->netns, IPPROTO_TCP, &s->local, dst, dst->scope, &told) || !told.cookie ||
	    !is_somebody(told.uid))
		return false;
	reg = window_of(told.uid);
	return reg && diw_reg_find_cookie(reg, dst->port, s->netns, told.cookie, true, route);
}

bool diw_window_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route)
{
	int saved = errno;
	struct turn t;
	bool found;

	if (diw_conf.own_users || !diw_may_ask() || !diw_is_local(dst, s->netns) || !wait_for_turn(&t))
		return false;
	found = find_listener(s, dst, route);
	end_turn(&t);
	errno = saved;
	return found;
}

bool diw_window_find_connection(uint64_t netns, const struct diw_told *told, struct diw_connection *c)
{
	struct diw_sockreg *reg;
	struct turn t;
	bool found;

	if (diw_conf.own_users || !is_somebody(told->uid) || !wait_for_turn(&t))
		return false;
	reg = window_of(told->uid);
	found = reg && diw_reg_find_connection(reg, netns, told->cookie, c);
	end_turn(&t);
	return found;
}
