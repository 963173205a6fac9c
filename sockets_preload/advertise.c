/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entries of this process: in its user's registry, and in the window that other users read. Each entry names a robust
 * mutex of the process, which the kernel marks when the process ends.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sockets_preload/preload.h"
#include "sockets_preload/reach.h"

#define NOBODY UINT32_MAX
#define MOST_MISSES 10u                              /* after N failed attempts, up to this many, the next 2^N - 1
						      * receives make none */

/* The mutexes that this process holds: in the registry, and in the window. */
static _Atomic uint32_t my_owner = NOBODY, window_owner = NOBODY;
static uint32_t my_epoch, window_epoch;
static uint32_t my_pid;                      /* the process that holds them */
static struct diw_sockreg *window;

void diw_reg_advertise_forked(void)
{
	atomic_store(&my_owner, NOBODY);
	atomic_store(&window_owner, NOBODY);
}

bool diw_ref_is_own(const struct diw_ref *r)
{
	uint32_t n = atomic_load(&my_owner);

	return n != NOBODY && r->owner == diw_sock_owner_at(diw_reg(), n) && r->epoch == my_epoch;
}

/* Takes a mutex of IN for this thread; the mutex of a dead thread may be taken, too. */
static bool mutex_claim(struct diw_sockreg *in, _Atomic uint32_t *owner, uint32_t *epoch)
{
	uint32_t first = (uint32_t)gettid();
	bool done = false;

	atomic_store(owner, NOBODY);
	for (uint32_t i = 0; i < DIW_SOCKREG_OWNERS && !done; i++) {
		uint32_t n = (first + i) % DIW_SOCKREG_OWNERS;
		struct diw_sock_owner *o = &in->owner[n];
		int rc = pthread_mutex_trylock(&o->life);

		if (rc == EOWNERDEAD)
			rc = pthread_mutex_consistent(&o->life);
		if (rc)
			continue;
		*epoch = atomic_fetch_add(&o->epoch, 1) + 1;
		atomic_store(owner, n);
		done = true;
	}
	return done;
}

static bool claim_both(void)
{
	if (!window && !diw_conf.own_users)
		window = diw_sockwin_open((uint32_t)geteuid(), true, NULL, NULL);
	if (window)
		mutex_claim(window, &window_owner, &window_epoch);
	my_pid = (uint32_t)getpid();
	return mutex_claim(diw_reg(), &my_owner, &my_epoch);
}

/* Takes a mutex if the process has none. glibc's list of robust mutexes belongs to the thread: a signal handler must
 * not find it half changed. */
static bool have_owner(void)
{
	uint32_t n = atomic_load(&my_owner);
	sigset_t all, before;
	bool done;

	if (n != NOBODY && diw_sock_lives(diw_reg(), n, my_epoch))
		return true;
	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &before))
		return false;
	done = claim_both();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return done;
}

/* Fills all fields except the owner. */
static void entry_fill(struct diw_sock_entry *e, const struct diw_sock *s)
{
	e->netns = s->netns;
	e->cookie = s->cookie;
	e->key[0] = s->keys.key[0];
	e->key[1] = s->keys.key[1];
	e->local = s->local;
	e->remote = s->connected ? s->peer : (struct diw_addr){ 0 };
	e->stag = s->keys.stag;
	e->forks = diw_reg_forks();
	e->flags = (diw_conf.crc == DIW_CRC_ON ? 0 : DIW_SOCK_NO_CRC) | (s->v6only ? DIW_SOCK_V6ONLY : 0) |
		   (diw_conf.mode == DIW_WRITE_RECORD ? DIW_SOCK_WRITE_RECORD : 0) | s->stream | diw_reg_peer_tag();
	diw_program_put(e->program);
}

/* A program that is not interposed has the socket, too. */
static bool is_lent(const struct diw_sock *s, const struct diw_sock_entry *e)
{
	struct diw_sock_entry copy;

	return e->cookie == s->cookie && diw_sock_read(diw_reg(), e, &copy) && copy.cookie == s->cookie &&
	       copy.flags & DIW_SOCK_LENT;
}

/* Whether another process that has the socket has already advertised it: that entry is enough. */
static bool is_there(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	struct diw_sock_entry copy;

	if (e->cookie != s->cookie || !diw_sock_read(diw_reg(), e, &copy) || copy.cookie != s->cookie ||
	    copy.seq != seq || !diw_addr_eq(&copy.local, &s->local) ||
	    copy.remote.port != (s->connected ? s->peer.port : 0))
		return false;
	diw_ref_set(&s->shown, diw_ref_as_read(diw_reg(), e, &copy));
	return true;
}

static bool is_free(const struct diw_sockreg *in, const struct diw_sock_entry *e, uint64_t seq)
{
	return seq % 4 == DIW_SOCK_FREE ||
	       (seq % 4 == DIW_SOCK_SHOWN && !diw_sock_lives(in, e->owner, e->owner_epoch));
}

static bool entry_begin(struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_compare_exchange_strong(&e->seq, &seq, (seq & ~3ull) + 4 + DIW_SOCK_WRITING);
}

/* Completes an entry, and returns its new seq. */
static uint64_t entry_finish(struct diw_sock_entry *e, uint64_t seq, uint32_t owner, uint32_t epoch)
{
	e->owner = owner;
	e->owner_epoch = epoch;
	seq = (seq & ~3ull) + 4 + DIW_SOCK_SHOWN;
	atomic_store_explicit(&e->seq, seq, memory_order_release);
	return seq;
}

static bool entry_put(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	uint32_t owner = atomic_load(&my_owner);

	if (!diw_sockreg_back(diw_reg(), e) || !entry_begin(e, seq))
		return false;
	entry_fill(e, s);
	e->pid = my_pid;
	seq = entry_finish(e, seq, owner, my_epoch);
	diw_ref_set(&s->shown, (struct diw_ref){ e, seq, diw_sock_owner_at(diw_reg(), owner), my_epoch });
	diw_count(DIW_C_sock_advertised);
	return true;
}

/* Adds the entry to the window. It contains neither names of programs nor values made of the configured key, which are
 * not for other users. */
static bool put_outside(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	if (!is_free(window, e, seq) || !diw_sockreg_back(window, e) || !entry_begin(e, seq))
		return false;
	entry_fill(e, s);
	e->pid = s->shown.entry->pid;
	memset(e->program, 0, sizeof e->program);
	e->flags &= ~DIW_SOCK_TAG;
	s->window_seq = entry_finish(e, seq, atomic_load(&window_owner), window_epoch);
	s->in_window = e;
	return true;
}

/* Adds the socket to the window. The search for a place ends behind the first entry that was never used, as does a
 * search for the port. */
static void show_outside(struct diw_sock *s, uint32_t port)
{
	uint64_t seq = 1;

	if (atomic_load(&window_owner) == NOBODY)
		return;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE && seq; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(window, port, i);

		seq = diw_sock_seq(window, e);
		if (put_outside(s, e, seq))
			return;
	}
}

static bool entry_advertise(struct diw_sock *s)
{
	struct diw_sock_entry *room = NULL;
	uint64_t room_seq = 0;

	s->in_window = NULL;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(diw_reg(), s->local.port, i);
		uint64_t seq = diw_sock_seq(diw_reg(), e);

		if (seq && is_lent(s, e)) {
			room = NULL;
			break;
		}
		if (seq && is_there(s, e, seq))
			return true;
		if (!room && is_free(diw_reg(), e, seq)) {
			room = e;
			room_seq = seq;
		}
		if (!seq)
			break;
	}
	if (room && have_owner() && entry_put(s, room, room_seq)) {
		show_outside(s, s->local.port);
		return true;
	}
	diw_count(DIW_C_sock_hidden);
	return false;
}

/* Whether the socket has a local port: it may have got one by its first send. */
static bool has_place(struct diw_sock *s, int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (!s->local.port && getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&s->local, (struct sockaddr *)&ss);
	s->keys.port = s->local.port;
	return s->local.port;
}

void diw_reg_advertise(struct diw_sock *s, int fd)
{
	int saved = errno;

	if (s->skip) {
		s->skip--;
		return;
	}
	if (has_place(s, fd) && entry_advertise(s)) {
		s->misses = 0;
		diw_reach_look();
	} else {
		s->misses += s->misses < MOST_MISSES;
		s->skip = (uint16_t)((1u << s->misses) - 1);
	}
	errno = saved;
}

static bool take_back(struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_compare_exchange_strong(&e->seq, &seq, (seq & ~3ull) + 4 + DIW_SOCK_FREE);
}

/* Whether the entry is of process PID. A child of vfork(), which shares this memory, must not change its parent's
 * entries. */
static bool entry_is_of(const struct diw_sock_entry *e, uint32_t pid)
{
	return e && e->pid == pid;
}

bool diw_reg_withdraw(struct diw_sock *s)
{
	bool done = false;
	uint32_t pid;

	if (!s->in_window && !s->shown.entry)
		return false;
	pid = (uint32_t)getpid();
	if (entry_is_of(s->in_window, pid)) {
		take_back(s->in_window, s->window_seq);
		s->in_window = NULL;
	}
	if (entry_is_of(s->shown.entry, pid)) {
		done = take_back(s->shown.entry, s->shown.seq);
		if (done)
			diw_count(DIW_C_sock_withdrawn);
		__atomic_store_n(&s->shown.entry, NULL, __ATOMIC_RELAXED);
	}
	return done;
}

static bool show_connection(struct diw_sock *s)
{
	uint64_t seq = 1;

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE && seq; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(diw_reg(), diw_sockreg_port(s->cookie), i);

		seq = diw_sock_seq(diw_reg(), e);
		if (is_free(diw_reg(), e, seq) && entry_put(s, e, seq))
			return true;
	}
	return false;
}

void diw_reg_show_connection(struct diw_sock *s)
{
	int saved = errno;

	diw_reg_withdraw(s);
	s->in_window = NULL;
	if (have_owner() && show_connection(s))
		show_outside(s, diw_sockreg_port(s->cookie));
	else
		diw_count(DIW_C_sock_hidden);
	errno = saved;
}

/* Entry E shows an earlier state of S; sets it to the present state. */
static bool entry_change(struct diw_sock_entry *e, uint64_t *seq, const struct diw_sock *s)
{
	if (!e || !entry_begin(e, *seq))
		return false;
	e->local = s->local;
	e->remote = s->peer;
	e->forks = diw_reg_forks();
	e->flags |= s->stream;
	*seq = entry_finish(e, *seq, e->owner, e->owner_epoch);
	return true;
}

/* Whether this process shows the socket. A child of vfork() counts as its parent. */
static bool is_shown_here(const struct diw_sock *s)
{
	return diw_ref_is_own(&s->shown) && diw_ref_holds(&s->shown) && s->shown.entry->cookie == s->cookie;
}

void diw_reg_show_again(struct diw_sock *s)
{
	if (!is_shown_here(s) || !entry_change(s->shown.entry, &s->shown.seq, s))
		diw_reg_show_connection(s);
	else if (s->in_window && !entry_change(s->in_window, &s->window_seq, s))
		s->in_window = NULL;
}

static void hide_in(struct diw_sockreg *in, uint64_t cookie, uint32_t port)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(in, port, i);
		uint64_t seq = diw_sock_seq(in, e);

		if (!seq)
			return;
		if (seq % 4 == DIW_SOCK_SHOWN && e->cookie == cookie)
			take_back(e, seq);
	}
}

static void hide_outside(uint64_t cookie, uint32_t port)
{
	if (window)
		hide_in(window, cookie, port);
}

void diw_reg_hide(uint64_t cookie, uint32_t port)
{
	hide_in(diw_reg(), cookie, port);
	hide_outside(cookie, port);
}

/* The entry's owner stays the same. */
static void mark_lent(struct diw_sock_entry *e, uint64_t seq)
{
	if (!entry_begin(e, seq))
		return;
	e->flags |= DIW_SOCK_LENT;
	atomic_store_explicit(&e->seq, (seq & ~3ull) + 8 + DIW_SOCK_SHOWN, memory_order_release);
}

void diw_reg_lend(uint64_t cookie, uint32_t port)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(diw_reg(), port, i);
		uint64_t seq = diw_sock_seq(diw_reg(), e);

		if (!seq)
			break;
		if (seq % 4 == DIW_SOCK_SHOWN && e->cookie == cookie)
			mark_lent(e, seq);
	}
	hide_outside(cookie, port);
}
