/* SPDX-License-Identifier: BSD-2-Clause */
/* Who may be sent frames: base/sockreg.h, as one process uses it. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/preload.h"

#define NOBODY UINT32_MAX
#define LOCAL_NS DIW_S                               /* for so long an address is believed to be local, or not */
#define MOST_MISSES 10u                              /* that make the next try later: by 1,023 receives */

static struct diw_sockreg *reg;
static struct diw_once once = DIW_ONCE;
/* The mutexes that this process holds: in the registry, and in the window that other users see. */
static _Atomic uint32_t my_owner = NOBODY, window_owner = NOBODY;
static uint32_t my_epoch, window_epoch;
static struct diw_sockreg *window;

/* ---- Opening ---- */

/* No signal handler may wait for the thread that it interrupts. */
void diw_once_try(struct diw_once *once, bool (*opens)(void))
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_mutex_lock(&once->opening);
	if (atomic_load(&once->state) == DIW_UNTRIED)
		atomic_store(&once->state, opens() ? DIW_OPEN : DIW_ABSENT);
	pthread_mutex_unlock(&once->opening);
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

	reg = diw_sockreg_open(true, path, sizeof path, &why);
	if (!reg)
		diw_log(DIW_LOG_WARN, "%s: %s; all is sent plain", path, why ? why : "not there");
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

/* SipHash-2-4 (Aumasson, Bernstein 2012) of two words. */
static uint64_t keyed_hash(const uint64_t secret[2], uint64_t a, uint64_t b)
{
	uint64_t v[4] = { secret[0] ^ 0x736f6d6570736575u, secret[1] ^ 0x646f72616e646f6du,
			  secret[0] ^ 0x6c7967656e657261u, secret[1] ^ 0x7465646279746573u };
	const uint64_t word[4] = { a, b, 16ull << 56, 0 };
	const int rounds[4] = { 2, 2, 2, 4 };

#define ROTL(x, n) ((x) << (n) | (x) >> (64 - (n)))
	for (int i = 0; i < 4; i++) {
		if (i == 3)
			v[2] ^= 0xff;
		v[3] ^= word[i];
		for (int r = 0; r < rounds[i]; r++) {
			v[0] += v[1], v[1] = ROTL(v[1], 13) ^ v[0], v[0] = ROTL(v[0], 32);
			v[2] += v[3], v[3] = ROTL(v[3], 16) ^ v[2];
			v[0] += v[3], v[3] = ROTL(v[3], 21) ^ v[0];
			v[2] += v[1], v[1] = ROTL(v[1], 17) ^ v[2], v[2] = ROTL(v[2], 32);
		}
		v[0] ^= word[i];
	}
#undef ROTL
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Random to whoever does not know the registry, and the same for every process that comes to hold the socket, be it
 * forked, executed or passed to: datagrams with these keys may be in its queue. */
void diw_reg_keys(struct diw_sock *s)
{
	s->keys.key[0] = keyed_hash(reg->secret, s->cookie, 0);
	s->keys.key[1] = keyed_hash(reg->secret, s->cookie, 1);
	s->keys.stag = (uint32_t)keyed_hash(reg->secret, s->cookie, 2) | 1;
}

/* No cookie is so large that another one's complement is that: so no mark is a key. */
uint64_t diw_reg_mark(const struct diw_sock *s, uint64_t key)
{
	return keyed_hash(reg->secret, ~s->cookie, key);
}

uint64_t diw_reg_peer_key(uint16_t port)
{
	return keyed_hash(diw_conf.key, port, 0);
}

/* ---- Finding ---- */

/* A route to an address of this host has that address as its source; one to a broadcast address is refused. */
static bool ask_local(const struct diw_addr *a, uint64_t netns)
{
	struct sockaddr_storage ss;
	struct diw_addr from;
	socklen_t len = diw_addr_to_sockaddr(a, &ss);
	uint64_t here = 0;
	socklen_t here_len = sizeof here;
	int fd = real.socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool local = false;

	if (fd < 0)
		return false;
	if (getsockopt(fd, SOL_SOCKET, 71 /* SO_NETNS_COOKIE */, &here, &here_len) == 0 && here == netns &&
	    real.connect(fd, (struct sockaddr *)&ss, len) == 0) {
		len = sizeof ss;
		local = getsockname(fd, (struct sockaddr *)&ss, &len) == 0;
	}
	if (local) {
		diw_addr_from_sockaddr(&from, (struct sockaddr *)&ss);
		local = memcmp(from.ip, a->ip, sizeof a->ip) == 0;
	}
	real.close(fd);
	return local;
}

uint64_t diw_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

static bool is_loopback(const struct diw_addr *a)
{
	static const uint8_t one[16] = { [15] = 1 };

	return diw_addr_is_v4(a) ? a->ip[12] == 127 : memcmp(a->ip, one, sizeof one) == 0;
}

bool diw_is_local(const struct diw_addr *a, uint64_t netns)
{
	static __thread struct { uint64_t until, netns; struct diw_addr addr; bool local, busy; } known[8];
	__typeof__(known[0]) *k = &known[a->ip[15] % 8];
	uint64_t now;
	bool local;

	if (is_loopback(a))
		return true;
	now = diw_coarse_ns();
	if (!k->busy && now < k->until && k->netns == netns && memcmp(k->addr.ip, a->ip, sizeof a->ip) == 0 &&
	    k->addr.scope == a->scope)
		return k->local;
	local = ask_local(a, netns);
	if (k->busy)                         /* this is a signal handler within the lines below */
		return local;
	k->busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	k->until = now + LOCAL_NS;
	k->netns = netns;
	k->addr = *a;
	k->local = local;
	atomic_signal_fence(memory_order_seq_cst);
	k->busy = false;
	return local;
}

static bool is_wildcard(const struct diw_addr *a)
{
	return diw_addr_is_v4(a) ? !(a->ip[12] | a->ip[13] | a->ip[14] | a->ip[15]) : diw_addr_ip_is_zero(a);
}

/* Do they name the same place, if DST is an address of where E is? */
static bool covers(const struct diw_sock_entry *e, const struct diw_addr *dst)
{
	if (!is_wildcard(&e->local))
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
	return is_wildcard(&local) ? diw_is_local(&e->remote, s->netns) :
				     memcmp(e->remote.ip, local.ip, sizeof local.ip) == 0;
}

static bool is_reached(const struct diw_sock_entry *e, const struct diw_sock *s, int fd, const struct diw_addr *dst)
{
	if (e->local.port != dst->port || !covers(e, dst))
		return false;
	if (e->netns == s->netns && diw_is_local(dst, s->netns) && hears(e, s, fd))
		return true;
	return diw_conf.nrules && diw_conf_is_peer(dst);
}

/* The kernel takes the unspecified address for this host. */
struct diw_addr diw_destination(const struct diw_addr *dst)
{
	struct diw_addr d = *dst;

	if (!is_wildcard(dst))
		return d;
	if (diw_addr_is_v4(dst))
		d.ip[12] = 127;
	d.ip[15] = 1;
	return d;
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
	route->lasting = false;
}

static DIW_COLD bool find(const struct diw_sock *s, int fd, const struct diw_addr *to, struct diw_route *route)
{
	struct diw_addr dst = diw_destination(to);

	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, dst.port, i);
		struct diw_sock_entry copy;

		if (atomic_load_explicit(&e->seq, memory_order_relaxed) == 0)
			return false;
		if (e->local.port != dst.port || !diw_sock_read(reg, e, &copy) || copy.flags & DIW_SOCK_STREAM ||
		    !is_reached(&copy, s, fd, &dst))
			continue;
		diw_reg_route(reg, e, &copy, route);
		route->lasting = is_loopback(&dst) && !copy.remote.port;
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

		if (atomic_load_explicit(&e->seq, memory_order_acquire) == 0)
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

		if (atomic_load_explicit(&e->seq, memory_order_acquire) == 0)
			return false;
		if (e->local.port == port && e->flags & DIW_SOCK_STREAM && !e->remote.port && e->key[0] == key)
			return true;
	}
	return false;
}

/* ---- Streams ---- */

static bool of_listener(const struct diw_sock_entry *e, const struct diw_sock *s, const struct diw_addr *dst)
{
	return !e->remote.port && is_reached(e, s, -1, dst);
}

static bool same_place(const struct diw_addr *a, const struct diw_addr *b)
{
	return a->port == b->port && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

static bool of_initiator(const struct diw_sock_entry *e, const struct diw_sock *s, const struct diw_addr *peer)
{
	return same_place(&e->local, peer) && same_place(&e->remote, &s->local) &&
	       (e->netns == s->netns || (diw_conf.nrules && diw_conf_is_peer(peer)));
}

void diw_reg_stream_route(const struct diw_sockreg *in, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
			  struct diw_route *route)
{
	*route = (struct diw_route){ .key = copy->key[0], .shown = as_read(in, e, copy),
				     .crc = diw_conf.crc == DIW_CRC_ON || !(copy->flags & DIW_SOCK_NO_CRC) };
}

bool diw_reg_find_stream(const struct diw_sock *s, const struct diw_addr *peer, bool listener, struct diw_route *route)
{
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(reg, peer->port, i);
		struct diw_sock_entry copy;

		if (atomic_load_explicit(&e->seq, memory_order_acquire) == 0)
			return false;
		if (e->local.port != peer->port || !diw_sock_read(reg, e, &copy) || !(copy.flags & DIW_SOCK_STREAM) ||
		    !(listener ? of_listener : of_initiator)(&copy, s, peer))
			continue;
		diw_reg_stream_route(reg, e, &copy, route);
		return true;
	}
	return false;
}

uint32_t diw_reg_number(const struct diw_sock_entry *e)
{
	return (uint32_t)(e - reg->entry);
}

bool diw_reg_is_current_at(uint32_t number, uint64_t seq)
{
	return diw_sock_is_current(reg, &reg->entry[number % DIW_SOCKREG_ENTRIES], seq);
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
	e->pid = (uint32_t)getpid();
	e->stag = s->keys.stag;
	e->flags = (diw_conf.crc == DIW_CRC_ON ? 0 : DIW_SOCK_NO_CRC) | (s->v6only ? DIW_SOCK_V6ONLY : 0) |
		   (diw_conf.mode == DIW_WRITE_RECORD ? DIW_SOCK_WRITE_RECORD : 0) | s->stream;
	snprintf(e->program, sizeof e->program, "%.15s", program_invocation_short_name);
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

	if (!begin(e, seq))
		return false;
	fill(e, s);
	seq = finish(e, seq, owner, my_epoch);
	diw_ref_set(&s->shown, (struct diw_ref){ e, seq, diw_sock_owner_at(reg, owner), my_epoch });
	diw_count(DIW_C_sock_advertised);
	return true;
}

/* Names of programs are not for other users. */
static bool put_outside(struct diw_sock *s, struct diw_sock_entry *e, uint64_t seq)
{
	if (!is_free(window, e, seq) || !begin(e, seq))
		return false;
	fill(e, s);
	memset(e->program, 0, sizeof e->program);
	s->window_seq = finish(e, seq, atomic_load(&window_owner), window_epoch);
	s->in_window = e;
	return true;
}

/* Whoever looks for the port stops at an entry that was never used. */
static void show_outside(struct diw_sock *s, uint16_t port)
{
	uint64_t seq = 1;

	if (atomic_load(&window_owner) == NOBODY)
		return;
	for (uint32_t i = 0; i < DIW_SOCKREG_PROBE && seq; i++) {
		struct diw_sock_entry *e = diw_sockreg_at(window, port, i);

		seq = atomic_load_explicit(&e->seq, memory_order_acquire);
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
		uint64_t seq = atomic_load_explicit(&e->seq, memory_order_acquire);

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
		if (!s->stream || !s->connected)
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
	return s->local.port && !diw_addr_is_multicast(&s->local);
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
	} else {
		s->misses += s->misses < MOST_MISSES;
		s->skip = (uint16_t)((1u << s->misses) - 1);
	}
	errno = saved;
}

void diw_reg_show_initiator(struct diw_sock *s)
{
	int saved = errno;

	if (have_owner())
		show_outside(s, diw_window_port(s->cookie));
	errno = saved;
}

static bool take_back(struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_compare_exchange_strong(&e->seq, &seq, (seq & ~3ull) + 4 + DIW_SOCK_FREE);
}

/* A child of vfork(), which shares this memory, must not speak for its parent. */
static bool is_mine(const struct diw_sock_entry *e)
{
	return e && e->pid == (uint32_t)getpid();
}

void diw_reg_withdraw(struct diw_sock *s)
{
	if (is_mine(s->in_window)) {
		take_back(s->in_window, s->window_seq);
		s->in_window = NULL;
	}
	if (is_mine(s->shown.entry)) {
		if (take_back(s->shown.entry, s->shown.seq))
			diw_count(DIW_C_sock_withdrawn);
		__atomic_store_n(&s->shown.entry, NULL, __ATOMIC_RELAXED);
	}
}
