/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may be sent frames: base/sockreg.h, as one process uses it. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/frame.h"
#include "sockets_preload/reach.h"

#define NOBODY UINT32_MAX
#define MOST_MISSES 10u                              /* that make the next try later: by 1,023 receives */

static struct diw_sockreg *reg;
static struct diw_once once = DIW_ONCE;
/* The mutexes that this process holds: in the registry, and in the window that other users see. */
static _Atomic uint32_t my_owner = NOBODY, window_owner = NOBODY;
static uint32_t my_epoch, window_epoch;
static struct diw_sockreg *window;

/* ---- Opening ---- */

/* No signal handler may wait for the thread that it interrupts, nor another thread for one that was cancelled. */
void diw_once_try(struct diw_once *once, bool (*opens)(void))
{
	sigset_t all, before;
	int cancel;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&once->opening);
	if (atomic_load(&once->state) == DIW_UNTRIED)
		atomic_store(&once->state, opens() ? DIW_OPEN : DIW_ABSENT);
	pthread_mutex_unlock(&once->opening);
	pthread_setcancelstate(cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void diw_once_forked(struct diw_once *once)
{
	pthread_mutex_init(&once->opening, NULL);
}

static bool opens(void)
{
	char path[PATH_MAX];
	const char *why;

	if (diw_denied & DIW_DENIED_OPENING)
		return false;
	reg = diw_sockreg_open(true, path, sizeof path, &why);
	if (!reg)
		diw_log(DIW_LOG_WARN, "%s: %s; all is sent plain", path, why ? why : "not there");
	else
		diw_frame_echoes = reg->echo;
	return reg;
}

struct diw_sockreg *diw_reg(void)
{
	return reg;
}

bool diw_reg_open(void)
{
	return diw_once(&once, opens);
}

void diw_reg_forked(void)
{
	atomic_store(&my_owner, NOBODY);
	atomic_store(&window_owner, NOBODY);
	diw_window_forked();
	diw_once_forked(&once);
}

/* ---- Finding ---- */

/* Do they name the same place, if DST is an address of where E is? */
static bool covers(const struct diw_sock_entry *e, const struct diw_addr *dst)
{
	if (!diw_addr_is_wildcard(&e->local))
		return memcmp(e->local.ip, dst->ip, sizeof dst->ip) == 0 && e->local.scope == dst->scope;
	if (diw_addr_is_v4(&e->local))
		return diw_addr_is_v4(dst);
	return !diw_addr_is_v4(dst) || !(e->flags & DIW_SOCK_V6ONLY);
}

/* A connected socket hears only its peer. */
static bool hears(const struct diw_sock_entry *e, const struct diw_sock *s, int fd)
{
	struct diw_addr local = s->local;
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (!e->remote.port)
		return true;
	if (!local.port && getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
		diw_addr_from_sockaddr(&local, (struct sockaddr *)&ss);
	if (e->remote.port != local.port)
		return false;
	return diw_addr_is_wildcard(&local) ? diw_is_local(&e->remote, s->netns) :
				     memcmp(e->remote.ip, local.ip, sizeof local.ip) == 0;
}

/* The configuration vouches for what is not in this network namespace. */
static bool is_reached(const struct diw_sock_entry *e, const struct diw_sock *s, int fd, const struct diw_addr *dst)
{
	bool local;

	if (e->local.port != dst->port || !covers(e, dst))
		return false;
	local = diw_is_local(dst, s->netns);
	if (e->netns == s->netns)
		return local && hears(e, s, fd);
	return !local && diw_conf.nrules && diw_conf_is_peer(dst);
}

/* As COPY has E. */
static struct diw_ref as_read(const struct diw_sockreg *in, struct diw_sock_entry *e,
			      const struct diw_sock_entry *copy)
{
	return (struct diw_ref){ .entry = e, .seq = copy->seq, .owner = diw_sock_owner_at(in, copy->owner),
				   .epoch = copy->owner_epoch };
}

void diw_reg_route(const struct diw_sockreg *in, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
		   struct diw_route *route)
{
	route->crc = diw_conf.crc == DIW_CRC_ON || !(copy->flags & DIW_SOCK_NO_CRC);
	route->key = copy->key[route->crc ? 0 : 1];
	route->stag = copy->flags & DIW_SOCK_WRITE_RECORD ? copy->stag : 0;
	route->shown = as_read(in, e, copy);
	route->lasting = route->home = false;
}

bool diw_reg_find_cookie(struct diw_sockreg *in, uint32_t port, uint64_t netns, uint64_t cookie, bool listener,
			 struct diw_route *route)
{
	if (!in)
		in = reg;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(in, port, i);
		struct diw_sock_entry copy;

		if (diw_sock_seq(in, e) == 0)
			return false;
		if (e->cookie != cookie || !diw_sock_read(in, e, &copy) || copy.cookie != cookie ||
		    copy.netns != netns || copy.flags & DIW_SOCK_LENT || !(copy.flags & DIW_SOCK_STREAM) == listener)
			continue;
		(listener ? diw_reg_stream_route : diw_reg_route)(in, e, &copy, route);
		return true;
	}
	return false;
}

/* Without a copy of it: many may be connected, each to another. */
static bool may_hear(const struct diw_sock_entry *e, const struct diw_sock *s, uint16_t port)
{
	uint16_t from = e->remote.port;

	return e->local.port == port && (!from || !s->local.port || from == s->local.port);
}

static DIW_COLD bool find(const struct diw_sock *s, int fd, const struct diw_addr *to, struct diw_route *route)
{
	struct diw_addr dst = diw_destination(to);

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, dst.port, i);
		struct diw_sock_entry copy;

		if (diw_sock_seq(reg, e) == 0)
			return false;
		if (!may_hear(e, s, dst.port) || !diw_sock_read(reg, e, &copy) ||
		    copy.flags & (DIW_SOCK_STREAM | DIW_SOCK_LENT) || !is_reached(&copy, s, fd, &dst))
			continue;
		diw_reg_route(reg, e, &copy, route);
		route->lasting = diw_addr_is_loopback(&dst);
		route->beyond = copy.netns != s->netns;
		return true;
	}
	return false;
}

bool diw_reg_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route)
{
	int saved = errno;
	bool found = find(s, fd, dst, route);

	errno = saved;
	return found;
}

bool diw_reg_is_sibling(uint16_t port, uint64_t key, bool *crc)
{
	for (uint32_t i = 0; port && i < DIW_SOCKREG_PROBE; i++) {
		const struct diw_sock_entry *e = diw_sockreg_at(reg, port, i);

		if (diw_sock_seq(reg, e) == 0)
			return false;
		if (e->local.port != port || e->flags & DIW_SOCK_STREAM || (e->key[0] != key && e->key[1] != key))
			continue;
		*crc = e->key[0] == key;
		return true;
	}
	return false;
}

bool diw_reg_is_listener(uint16_t port, uint64_t key)
{
	for (uint32_t i = 0; port && i < DIW_SOCKREG_PROBE; i++) {
		const struct diw_sock_entry *e = diw_sockreg_at(reg, port, i);

		if (diw_sock_seq(reg, e) == 0)
			return false;
		if (e->local.port == port && e->flags & DIW_SOCK_STREAM && !e->remote.port && e->key[0] == key)
			return true;
	}
	return false;
}

/* ---- Streams ---- */

static uint32_t forks(void)
{
	return atomic_load_explicit(&diw_forks, memory_order_relaxed) +
	       atomic_load_explicit(&diw_lendings, memory_order_relaxed);
}

void diw_reg_stream_route(const struct diw_sockreg *in, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
			  struct diw_route *route)
{
	*route = (struct diw_route){ .key = copy->key[0], .shown = as_read(in, e, copy),
				     .crc = diw_conf.crc == DIW_CRC_ON || !(copy->flags & DIW_SOCK_NO_CRC) };
}

bool diw_reg_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, dst->port, i);
		struct diw_sock_entry copy;

		if (diw_sock_seq(reg, e) == 0)
			return false;
		if (e->local.port != dst->port || !diw_sock_read(reg, e, &copy) || !(copy.flags & DIW_SOCK_STREAM) ||
		    copy.flags & DIW_SOCK_CONNECTION || !is_reached(&copy, s, -1, dst))
			continue;
		diw_reg_stream_route(reg, e, &copy, route);
		return true;
	}
	return false;
}

uint32_t diw_reg_number(const struct diw_sock_entry *e)
{
	return diw_sockreg_number(reg, e);
}

bool diw_reg_is_current_at(uint32_t number, uint64_t seq)
{
	return diw_sock_is_current(reg, diw_sockreg_entry(reg, number % DIW_SOCKREG_ENTRIES), seq);
}

bool diw_ref_is_own(const struct diw_ref *r)
{
	uint32_t n = atomic_load(&my_owner);

	return n != NOBODY && r->owner == diw_sock_owner_at(reg, n) && r->epoch == my_epoch;
}

/* A process that has forked since it showed a connection may have given it to a child that is not interposed. */
static bool is_read(const struct diw_sockreg *in, const struct diw_sock_entry *copy)
{
	struct diw_ref shown = { .owner = diw_sock_owner_at(in, copy->owner), .epoch = copy->owner_epoch };

	return copy->flags & DIW_SOCK_READS ||
	       (diw_ref_is_own(&shown) && copy->forks == forks());
}

bool diw_reg_find_connection(struct diw_sockreg *in, uint64_t netns, uint64_t cookie, struct diw_connection *c)
{
	bool found = false;

	if (!in)
		in = reg;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(in, diw_sockreg_port(cookie), i);
		struct diw_sock_entry copy;

		if (diw_sock_seq(in, e) == 0)
			break;
		if (e->cookie != cookie || !diw_sock_read(in, e, &copy) || copy.cookie != cookie ||
		    copy.netns != netns || !(copy.flags & DIW_SOCK_CONNECTION))
			continue;
		found = true;
		c->reads = is_read(in, &copy);
		diw_reg_stream_route(in, e, &copy, &c->route);
		if (c->reads)
			break;
	}
	return found;
}

/* ---- Advertising ---- */

/* Takes a mutex IN for this thread; that of a dead one, too. */
static bool claim(struct diw_sockreg *in, _Atomic uint32_t *owner, uint32_t *epoch)
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
		claim(window, &window_owner, &window_epoch);
	return claim(reg, &my_owner, &my_epoch);
}

/* The C library's list of robust mutexes is the thread's: no signal handler may find it half changed. */
static bool have_owner(void)
{
	uint32_t n = atomic_load(&my_owner);
	sigset_t all, before;
	bool done;

	if (n != NOBODY && diw_sock_lives(reg, n, my_epoch))
		return true;
	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &before))
		return false;
	done = claim_both();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return done;
}

/* But whose it is. */
static void fill(struct diw_sock_entry *e, const struct diw_sock *s)
{
	e->netns = s->netns;
	e->cookie = s->cookie;
	e->key[0] = s->keys.key[0];
	e->key[1] = s->keys.key[1];
	e->local = s->local;
	e->remote = s->connected ? s->peer : (struct diw_addr){ 0 };
	e->stag = s->keys.stag;
	e->forks = forks();
	e->flags = (diw_conf.crc == DIW_CRC_ON ? 0 : DIW_SOCK_NO_CRC) | (s->v6only ? DIW_SOCK_V6ONLY : 0) |
		   (diw_conf.mode == DIW_WRITE_RECORD ? DIW_SOCK_WRITE_RECORD : 0) | s->stream | diw_reg_peer_tag();
	snprintf(e->program, sizeof e->program, "%.15s", program_invocation_short_name);
}

/* A program has it that is not interposed. */
static bool is_lent(const struct diw_sock *s, const struct diw_sock_entry *e)
{
	struct diw_sock_entry copy;

	return e->cookie == s->cookie && diw_sock_read(reg, e, &copy) && copy.cookie == s->cookie &&
	       copy.flags & DIW_SOCK_LENT;
}

/* Another process that has the socket, too, may have advertised it; then that will do. */
static bool is_there(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	struct diw_sock_entry copy;

	if (e->cookie != s->cookie || !diw_sock_read(reg, e, &copy) || copy.cookie != s->cookie || copy.seq != seq ||
	    !diw_addr_eq(&copy.local, &s->local) || copy.remote.port != (s->connected ? s->peer.port : 0))
		return false;
	diw_ref_set(&s->shown, as_read(reg, e, &copy));
	return true;
}

static bool is_free(const struct diw_sockreg *in, const struct diw_sock_entry *e, uint64_t seq)
{
	return seq % 4 == DIW_SOCK_FREE ||
	       (seq % 4 == DIW_SOCK_SHOWN && !diw_sock_lives(in, e->owner, e->owner_epoch));
}

static bool begin(struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_compare_exchange_strong(&e->seq, &seq, (seq & ~3ull) + 4 + DIW_SOCK_WRITING);
}

/* The entry's seq from now on. */
static uint64_t finish(struct diw_sock_entry *e, uint64_t seq, uint32_t owner, uint32_t epoch)
{
	e->owner = owner;
	e->owner_epoch = epoch;
	seq = (seq & ~3ull) + 4 + DIW_SOCK_SHOWN;
	atomic_store_explicit(&e->seq, seq, memory_order_release);
	return seq;
}

static bool put(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	uint32_t owner = atomic_load(&my_owner);

	if (!diw_sockreg_back(reg, e) || !begin(e, seq))
		return false;
	fill(e, s);
	e->pid = (uint32_t)getpid();
	seq = finish(e, seq, owner, my_epoch);
	diw_ref_set(&s->shown, (struct diw_ref){ e, seq, diw_sock_owner_at(reg, owner), my_epoch });
	diw_count(DIW_C_sock_advertised);
	return true;
}

/* Names of programs, and what is made of the configured key, are not for other users. */
static bool put_outside(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	if (!is_free(window, e, seq) || !diw_sockreg_back(window, e) || !begin(e, seq))
		return false;
	fill(e, s);
	e->pid = s->shown.entry->pid;
	memset(e->program, 0, sizeof e->program);
	e->flags &= ~DIW_SOCK_TAG;
	s->window_seq = finish(e, seq, atomic_load(&window_owner), window_epoch);
	s->in_window = e;
	return true;
}

/* Whoever looks for the port stops at an entry that was never used. */
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

static bool advertise(struct diw_sock *s)
{
	struct diw_sock_entry *room = NULL;
	uint64_t room_seq = 0;

	s->in_window = NULL;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, s->local.port, i);
		uint64_t seq = diw_sock_seq(reg, e);

		if (seq && is_lent(s, e)) {
			room = NULL;
			break;
		}
		if (seq && is_there(s, e, seq))
			return true;
		if (!room && is_free(reg, e, seq)) {
			room = e;
			room_seq = seq;
		}
		if (!seq)
			break;
	}
	if (room && have_owner() && put(s, room, room_seq)) {
		show_outside(s, s->local.port);
		return true;
	}
	diw_count(DIW_C_sock_hidden);
	return false;
}

/* Its port may have come with what it sent. */
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
	if (has_place(s, fd) && advertise(s)) {
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

/* A child of vfork(), which shares this memory, must not speak for its parent. */
static bool is_of(const struct diw_sock_entry *e, uint32_t pid)
{
	return e && e->pid == pid;
}

void diw_reg_withdraw(struct diw_sock *s)
{
	uint32_t pid;

	if (!s->in_window && !s->shown.entry)
		return;
	pid = (uint32_t)getpid();
	if (is_of(s->in_window, pid)) {
		take_back(s->in_window, s->window_seq);
		s->in_window = NULL;
	}
	if (is_of(s->shown.entry, pid)) {
		if (take_back(s->shown.entry, s->shown.seq))
			diw_count(DIW_C_sock_withdrawn);
		__atomic_store_n(&s->shown.entry, NULL, __ATOMIC_RELAXED);
	}
}

static bool show_connection(struct diw_sock *s)
{
	uint64_t seq = 1;

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE && seq; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, diw_sockreg_port(s->cookie), i);

		seq = diw_sock_seq(reg, e);
		if (is_free(reg, e, seq) && put(s, e, seq))
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
	hide_in(reg, cookie, port);
	hide_outside(cookie, port);
}

/* Its owner stays what it was. */
static void mark_lent(struct diw_sock_entry *e, uint64_t seq)
{
	if (!begin(e, seq))
		return;
	e->flags |= DIW_SOCK_LENT;
	atomic_store_explicit(&e->seq, (seq & ~3ull) + 8 + DIW_SOCK_SHOWN, memory_order_release);
}

void diw_reg_lend(uint64_t cookie, uint32_t port)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, port, i);
		uint64_t seq = diw_sock_seq(reg, e);

		if (!seq)
			break;
		if (seq % 4 == DIW_SOCK_SHOWN && e->cookie == cookie)
			mark_lent(e, seq);
	}
	hide_outside(cookie, port);
}
