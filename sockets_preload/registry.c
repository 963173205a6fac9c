/* SPDX-License-Identifier: BSD-2-Clause */
/* The registry of sockets that may be sent frames (sockets_preload/shm/sockreg.h): opening and searching. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/reach.h"

#define CHANGES 100                      /* reads of an entry that is being written */

static struct diw_sockreg *reg;
static struct diw_once once = DIW_ONCE;

/* ---- Opening ---- */

/* A signal handler must not wait for the thread that it interrupts, nor any thread for one that was cancelled. */
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

static bool registry_opens(void)
{
	static char path[PATH_MAX];          /* threads may have little stack; this function is called once */
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
	return diw_once(&once, registry_opens);
}

void diw_reg_forked(void)
{
	diw_reg_advertise_forked();
	diw_window_forked();
	diw_once_forked(&once);
}

/* ---- Searching ---- */

/* Whether E's address and DST name the same place, if DST is an address of E's host. */
static bool entry_covers(const struct diw_sock_entry *e, const struct diw_addr *dst)
{
	if (!diw_addr_is_wildcard(&e->local))
		return memcmp(e->local.ip, dst->ip, sizeof dst->ip) == 0 && e->local.scope == dst->scope;
	if (diw_addr_is_v4(&e->local))
		return diw_addr_is_v4(dst);
	return !diw_addr_is_v4(dst) || !(e->flags & DIW_SOCK_V6ONLY);
}

/* A connected socket receives only from its peer. */
static bool entry_hears(const struct diw_sock_entry *e, const struct diw_sock *s, int fd)
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

/* The configuration vouches for sockets outside this network namespace. */
static bool is_reached(const struct diw_sock_entry *e, const struct diw_sock *s, int fd, const struct diw_addr *dst)
{
	bool local;

	if (e->local.port != dst->port || !entry_covers(e, dst))
		return false;
	local = diw_is_local(dst, s->netns);
	if (e->netns == s->netns)
		return local && entry_hears(e, s, fd);
	return !local && diw_conf.nrules && diw_conf_is_peer(dst);
}

/* COPY is a copy of E. */
struct diw_ref diw_ref_as_read(const struct diw_sockreg *in, struct diw_sock_entry *e,
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
	route->shown = diw_ref_as_read(in, e, copy);
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

/* Checks the entry without copying it: there may be many connected sockets. */
static bool entry_may_hear(const struct diw_sock_entry *e, const struct diw_sock *s, uint16_t port)
{
	uint16_t from = e->remote.port;

	return e->local.port == port && (!from || !s->local.port || from == s->local.port);
}

static DIW_COLD bool receiver_find(const struct diw_sock *s, int fd, const struct diw_addr *to, struct diw_route *route)
{
	struct diw_addr dst = diw_destination(to);

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, dst.port, i);
		struct diw_sock_entry copy;

		if (diw_sock_seq(reg, e) == 0)
			return false;
		if (!entry_may_hear(e, s, dst.port) || !diw_sock_read(reg, e, &copy) ||
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
	bool found = receiver_find(s, fd, dst, route);

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

uint32_t diw_reg_forks(void)
{
	return atomic_load_explicit(&diw_forks, memory_order_relaxed) +
	       atomic_load_explicit(&diw_lendings, memory_order_relaxed);
}

void diw_reg_stream_route(const struct diw_sockreg *in, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
			  struct diw_route *route)
{
	*route = (struct diw_route){ .key = copy->key[0], .shown = diw_ref_as_read(in, e, copy),
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

static _Atomic uint64_t *accepted_at(const struct diw_addr *local, const struct diw_addr *remote)
{
	return &reg->accepted[diw_addr_hash(local, diw_addr_hash(remote, 0)) % DIW_SOCKREG_ACCEPTED];
}

void diw_reg_accepts(const struct diw_sock *s)
{
	atomic_store_explicit(accepted_at(&s->local, &s->peer), s->cookie, memory_order_release);
}

uint64_t diw_reg_accepted(const struct diw_addr *local, const struct diw_addr *remote)
{
	return atomic_load_explicit(accepted_at(local, remote), memory_order_acquire);
}

uint32_t diw_reg_number(const struct diw_sock_entry *e)
{
	return diw_sockreg_number(reg, e);
}

bool diw_reg_is_current_at(uint32_t number, uint64_t seq)
{
	return diw_sock_is_current(reg, diw_sockreg_entry(reg, number % DIW_SOCKREG_ENTRIES), seq);
}

/* Whether the entry's connection is read by interposed calls. A process that has forked since may have given it to a
 * child that is not interposed. A process with io_uring may receive by that. */
static bool entry_is_read(const struct diw_sockreg *in, const struct diw_sock_entry *copy)
{
	struct diw_ref shown = { .owner = diw_sock_owner_at(in, copy->owner), .epoch = copy->owner_epoch };

	return copy->flags & DIW_SOCK_READS ||
	       (diw_ref_is_own(&shown) && copy->forks == diw_reg_forks() && !atomic_load(&diw_has_ring));
}

/* Reads the entry again if its process is just changing it. */
static bool read_changing(const struct diw_sockreg *in, const struct diw_sock_entry *e, struct diw_sock_entry *copy)
{
	for (int i = 0; i < CHANGES; i++) {
		if (diw_sock_read(in, e, copy))
			return true;
		if (diw_sock_seq(in, e) % 4 == DIW_SOCK_FREE)
			break;
	}
	return false;
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
		if (e->cookie != cookie || !read_changing(in, e, &copy) || copy.cookie != cookie ||
		    copy.netns != netns || !(copy.flags & DIW_SOCK_CONNECTION))
			continue;
		found = true;
		c->reads = entry_is_read(in, &copy);
		c->local = copy.local;
		c->remote = copy.remote;
		c->seen = copy.seen;
		diw_reg_stream_route(in, e, &copy, &c->route);
		if (c->reads)
			break;
	}
	return found;
}
