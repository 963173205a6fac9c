/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer of a connection: a program of this user, of another user, or of a host for which the configuration
 * vouches. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"

#define LONG_NS (300 * DIW_MS)           /* longest wait for a reader, until its connection was accepted */
#define SHORT_NS (20 * DIW_MS)           /* and from then until the accepting process has shown it */
#define BUSY_NS (5 * DIW_MS)             /* longest wait on a non-blocking socket: the program has other work */
#define YIELDS 50                        /* searches before the first that waits LOOK_NS */
#define READER_LOOKS 4                   /* the kernel is asked before the first of this many searches */
#define LOOK_NS (200 * DIW_US)
#define READER_PAUSE 20u                 /* after a wait that found no reader, none begins for this multiple of its
					  * length */

/* ---- The listener, for a socket that connects ---- */

static bool of_host(const struct diw_sock *s, struct diw_route *route)
{
	if (!diw_conf.have_key || !diw_conf_is_peer(&s->peer) || diw_is_local(&s->peer, s->netns))
		return false;
	*route = (struct diw_route){ .key = diw_reg_peer_key(s->peer.port), .crc = true };
	return true;
}

bool diw_stream_find_listener(const struct diw_sock *s, struct diw_listener *l)
{
	struct diw_route route;

	*l = (struct diw_listener){ 0 };
	if (diw_reg_find_listener(s, &s->peer, &route)) {
		l->known_by = route.shown.entry->netns == s->netns ? DIW_STREAM_HERE : DIW_STREAM_NETNS;
		l->entry = diw_reg_number(route.shown.entry);
		l->seq = route.shown.seq;
		l->own = diw_ref_is_own(&route.shown);
	} else if (of_host(s, &route)) {
		l->known_by = DIW_STREAM_HOST;
	} else if (!diw_window_find_listener(s, &s->peer, &route)) {
		return false;
	}
	l->key = route.key;
	l->crc = route.crc;
	return true;
}

/* ---- The reader, for a socket that is about to send its first byte ---- */

bool diw_stream_place(int fd, struct diw_sock_stream *st)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (st->remote.port && st->local.port)
		return true;
	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	diw_addr_from_sockaddr(&st->local, (struct sockaddr *)&ss);
	len = sizeof ss;
	if (getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	diw_addr_from_sockaddr(&st->remote, (struct sockaddr *)&ss);
	return true;
}

static bool is_alone(void)
{
	return real.__libc_single_threaded && *real.__libc_single_threaded;
}

/* Asks the kernel for the socket at the other end of ST, in this network namespace. If addresses are translated, it
 * finds none, or a listener. */
static bool peer_ask(struct diw_sock_stream *st, struct diw_told *told)
{
	return diw_is_local(&st->remote, st->netns) && diw_ask_peer(st->netns, &st->local, &st->remote, told) &&
	       told->cookie && told->state != TCP_LISTEN && told->state != TCP_SYN_RECV;
}

/* Searches for the present entry of that socket. There is none while no process has it. */
static enum diw_reader peer_look(struct diw_sock_stream *st, const struct diw_told *told, struct diw_route *route,
				 uint64_t *patience)
{
	struct diw_connection c;

	*patience = LONG_NS;
	if (diw_reg_find_connection(NULL, st->netns, told->cookie, &c) ||
	    (told->inode && diw_window_find_connection(st->netns, told, &c))) {
		*route = c.route;
		if (c.reads)
			return DIW_READER_FOUND;
		return diw_ref_is_own(&c.route.shown) && is_alone() ? DIW_READER_NONE : DIW_READER_AWAITED;
	}
	if (!st->initiator || (told->inode == 0 && st->to_self && is_alone()))
		return DIW_READER_NONE;
	if (told->inode)
		*patience = SHORT_NS;
	return DIW_READER_AWAITED;
}

enum diw_reader diw_stream_find_reader(int fd, struct diw_sock_stream *st, struct diw_route *route)
{
	struct diw_told told;
	uint64_t patience;

	if (!diw_stream_place(fd, st) || !peer_ask(st, &told))
		return DIW_READER_NONE;
	return peer_look(st, &told, route, &patience);
}

/* Saves the acceptor a question: the kernel has already named both ends. */
static void tell_acceptor(const struct diw_sock_stream *st, const struct diw_told *told)
{
	struct diw_sock_stream *other = st->initiator ? diw_stream_seek(told->cookie) : NULL;

	if (other)
		atomic_store(&other->peer, atomic_load(&st->cookie));
}

/* Whether the connection PEER is between the addresses of ST, and is read. */
static bool is_read_between(const struct diw_sock_stream *st, uint64_t peer, struct diw_connection *c)
{
	return peer && diw_reg_find_connection(NULL, st->netns, peer, c) && c->reads &&
	       diw_addr_eq(&c->local, &st->remote) && diw_addr_eq(&c->remote, &st->local);
}

static bool acceptor_is_told(struct diw_sock_stream *st, struct diw_route *route)
{
	struct diw_connection c;

	if (!is_read_between(st, atomic_load(&st->peer), &c))
		return false;
	*route = c.route;
	return true;
}

/* Whether a socket that was accepted between ST's addresses is the other end: the kernel must have said that it was
 * connected after ST was. Two sockets do not have the same addresses at the same time. */
static bool is_accepted(const struct diw_sock_stream *st, struct diw_told *told, struct diw_route *route)
{
	uint64_t cookie = st->seq && st->connected ? diw_reg_accepted(&st->remote, &st->local) : 0;
	struct diw_connection c;

	if (!is_read_between(st, cookie, &c) || c.seen <= st->connected)
		return false;
	told->cookie = cookie;
	*route = c.route;
	return true;
}

/* Searches for the Ith time; the kernel is not asked before search 0. */
static enum diw_reader look_once(struct diw_sock_stream *st, int i, struct diw_told *told, struct diw_route *route,
				 uint64_t *patience)
{
	if (acceptor_is_told(st, route) || is_accepted(st, told, route))
		return DIW_READER_FOUND;
	if (i < 0)
		return DIW_READER_AWAITED;
	if ((i % READER_LOOKS == 0 || i > YIELDS) && !peer_ask(st, told))
		return DIW_READER_NONE;
	return peer_look(st, told, route, patience);
}

/* The kernel need not be asked if the peer calls a receive soon: the first search has a negative number then. */
static int first_look(const struct diw_sock_stream *st)
{
	if (atomic_load(&st->peer))
		return -READER_LOOKS;
	return st->seq ? -1 : 0;
}

/* Pauses between two searches; the pauses grow. */
static void pause_before(int look)
{
	if (look < YIELDS)
		sched_yield();
	else
		nanosleep(&(struct timespec){ .tv_nsec = (long)LOOK_NS }, NULL);
}

/* Waits for the reader. A program that accepts late, or is not interposed, delays the sender by at most 1/20 of its
 * time. The process that has the socket may change meanwhile, but the socket does not, so the kernel is not asked each
 * time. */
bool diw_stream_await_reader(int fd, struct diw_sock_stream *st, struct diw_route *route)
{
	static _Atomic uint64_t not_before;
	uint64_t begun = diw_clock_ns(), most = BUSY_NS, patience = LONG_NS, now;
	bool waits = begun >= atomic_load(&not_before);
	enum diw_reader is = DIW_READER_AWAITED;
	struct diw_told told = { 0 };

	if (!diw_stream_place(fd, st))
		return false;
	for (int i = waits ? first_look(st) : 0; is == DIW_READER_AWAITED; i++) {
		is = look_once(st, i, &told, route, &patience);
		if (is != DIW_READER_AWAITED || !waits)
			break;
		now = diw_clock_ns();
		if (now - begun > most && !diw_stream_is_nonblocking(fd, 0))
			most = LONG_NS;
		if (now - begun > diw_min64(patience, most)) {
			atomic_store(&not_before, now + READER_PAUSE * (now - begun));
			return false;
		}
		pause_before(i);
	}
	if (is == DIW_READER_FOUND)
		tell_acceptor(st, &told);
	return is == DIW_READER_FOUND;
}

/* Whether the peer may begin with a Request, as far as known here. */
static bool has_capable(int fd, struct diw_sock_stream *st)
{
	struct diw_route route;

	return diw_stream_find_reader(fd, st, &route) != DIW_READER_NONE ||
	       ((diw_conf.have_key || diw_conf.nrules) && !diw_is_local(&st->remote, st->netns));
}

/* Whether an interposed peer with slots of the same file has decided to send plain. */
static bool sends_plain(int fd, struct diw_sock_stream *st)
{
	struct diw_told told;
	struct diw_sock_stream *other = diw_stream_place(fd, st) && peer_ask(st, &told) ?
						diw_stream_seek(told.cookie) : NULL;

	return other && atomic_load(&other->tx.state) == DIW_STREAM_PLAIN;
}

/* A peer that sends plain may begin with such bytes, and wait for an answer or end. */
bool diw_stream_is_payload(int fd, struct diw_sock_stream *st, size_t n)
{
	uint8_t now[DIW_STREAM_HELLO];

	if ((!st->initiator && !has_capable(fd, st)) || sends_plain(fd, st))
		return true;
	return diw_stream_has_ended(fd) &&
	       real.recv(fd, now, sizeof now, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)n;
}

/* ---- This process as a reader ---- */

void diw_stream_reads(int fd)
{
	struct diw_sock *s = diw_stream_get(fd);
	struct diw_sock_stream *st;

	if (!s)
		return;
	st = s->slot;
	if (!diw_stream_is(st, s->cookie) ||
	    atomic_load_explicit(&st->rx.state, memory_order_relaxed) != DIW_STREAM_START ||
	    (s->stream & DIW_SOCK_READS && diw_ref_holds(&s->shown)) || atomic_load(&st->outside) ||
	    atomic_load(&diw_has_ring) || diw_is_confined())
		return;
	if (atomic_exchange(&s->corked, true))       /* another thread, or the interrupted code, is showing it */
		return;
	s->stream = DIW_SOCK_STREAM | DIW_SOCK_CONNECTION | DIW_SOCK_READS;
	s->keys.stream_key = st->key;
	s->local = st->local;
	s->peer = st->remote;
	s->connected = true;
	diw_reg_show_again(s);
	if (atomic_load(&st->outside))       /* it was lent meanwhile */
		diw_reg_withdraw(s);
	atomic_store(&s->corked, false);
}
