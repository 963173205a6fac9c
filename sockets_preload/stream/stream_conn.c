/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP sockets that become streams with frames, and the end of their state when a descriptor changes. */
#include <errno.h>
#include <string.h>

#include "sockets_preload/dgram/route.h"
#include "sockets_preload/stream/stream.h"

/* An option of is_special() was set on any socket. */
static _Atomic bool has_special;

struct diw_sock *diw_stream_new(int fd)
{
	struct diw_sock *s = diw_sock_at(fd);

	return s && s->stream && atomic_load_explicit(&s->mark, memory_order_acquire) == diw_mark_new ? s : NULL;
}

void diw_stream_binds(int fd)
{
	struct diw_sock *s = diw_stream_new(fd);

	if (s)
		s->bound = true;
}

void diw_stream_awaits(int fd, bool is)
{
	struct diw_sock *s = diw_stream_new(fd);

	if (s)
		s->awaited = is;
}

static bool is_special(int level, int name)
{
	return (level == SOL_SOCKET && (name == SO_ZEROCOPY || name == SO_TIMESTAMPING || name == SO_TIMESTAMPING_NEW ||
					name == SO_OOBINLINE || name == SO_RCVLOWAT)) ||
	       (level == IPPROTO_TCP && (name == TCP_FASTOPEN_CONNECT || name == TCP_ULP));
}

static bool is_ordinary(const struct diw_sock *s)
{
	return s->ordinary && !diw_sock_is_shared(s) && !atomic_load(&has_special);
}

bool diw_stream_is_ordinary(int fd)
{
	const struct diw_sock *s = diw_stream_get(fd);

	return s && is_ordinary(s);
}

bool diw_stream_is_tcp(int fd)
{
	int saved = errno;
	bool is;

	if (!diw_sock_max || !diw_conf.streams)
		return false;
	if (diw_stream_new(fd))
		return true;
	is = diw_sock_option(fd, SOL_SOCKET, SO_TYPE) == SOCK_STREAM &&
	     diw_sock_option(fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
	errno = saved;
	return is;
}

/* Another thread may close FD while a call waits on it, and the number may be another socket's by then. */
bool diw_stream_has_stayed(int fd, const struct diw_sock_stream *st, uint64_t cookie)
{
	uint64_t now = 0;

	if ((diw_stream_slot(fd, &now) == st && now == cookie) || diw_is_confined() ||
	    diw_sock_option64(fd, SO_COOKIE) == cookie)
		return true;
	errno = EBADF;
	return false;
}

static bool socket_name(int fd, struct diw_addr *a, int (*get)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (get(fd, (struct sockaddr *)&ss, &len) < 0 || len < sizeof(struct sockaddr_in))
		return false;
	diw_addr_from_sockaddr(a, (struct sockaddr *)&ss);
	return true;
}

static int sock_name(int fd, struct sockaddr *sa, socklen_t *len) { return getsockname(fd, sa, len); }
static int peer_name(int fd, struct sockaddr *sa, socklen_t *len) { return getpeername(fd, sa, len); }

static bool conn_describe(int fd, struct diw_sock *s)
{
	const struct diw_sock *new = diw_stream_new(fd);

	memset(s, 0, sizeof *s);
	s->family = new ? new->family : (uint8_t)diw_sock_option(fd, SOL_SOCKET, SO_DOMAIN);
	s->ordinary = new && !atomic_load(&has_special);
	s->bound = !new || new->bound;
	s->awaited = new && new->awaited;
	s->sole = new;
	s->copies = new ? new->copies : 0;
	s->born = atomic_load_explicit(&diw_forks, memory_order_relaxed);
	s->cookie = diw_sock_option64(fd, SO_COOKIE);
	s->netns = diw_sock_option64(fd, SO_NETNS_COOKIE);
	s->stream = DIW_SOCK_STREAM;
	if (!s->cookie || !s->netns || !diw_stream_open())
		return false;
	diw_reg_keys(s);
	s->keys.seen = 0;
	return true;
}

/* Accepted sockets inherit the options. */
static void describe_options(int fd, struct diw_sock *s)
{
	s->ordinary = !diw_sock_option(fd, SOL_SOCKET, SO_ZEROCOPY) &&
		      !diw_sock_option(fd, SOL_SOCKET, SO_TIMESTAMPING) &&
		      !diw_sock_option(fd, SOL_SOCKET, SO_OOBINLINE) &&
		      diw_sock_option(fd, SOL_SOCKET, SO_RCVLOWAT) == 1;
	s->born = atomic_load_explicit(&diw_forks, memory_order_relaxed);
}

static void describe_listener(int fd, struct diw_sock *s)
{
	describe_options(fd, s);
	socket_name(fd, &s->local, sock_name);
	s->v6only = s->family == AF_INET6 && diw_sock_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
}

/* A socket that is not connected may become anything, also in another process, so it is not stored. */
uint32_t diw_stream_look(int fd, struct diw_sock *s)
{
	struct diw_addr peer;

	if (!conn_describe(fd, s))
		return DIW_MARK_FOREIGN;
	s->slot = diw_stream_find(s->cookie);
	if (s->slot)
		return DIW_MARK_STREAM;
	if (diw_sock_option(fd, SOL_SOCKET, SO_ACCEPTCONN)) {
		describe_listener(fd, s);
		return DIW_MARK_LISTENER;
	}
	return socket_name(fd, &peer, peer_name) ? DIW_MARK_STREAM : DIW_MARK_UNKNOWN;
}

/* ---- Connecting ---- */

static bool has_moved(const struct diw_sock_stream *st)
{
	return atomic_load(&st->tx.state) != DIW_STREAM_START || atomic_load(&st->rx.state) != DIW_STREAM_START;
}

static bool can_be_framed(int fd, const struct diw_sock *s)
{
	char ulp[16];
	socklen_t len = sizeof ulp;

	if (is_ordinary(s))
		return true;
	return !diw_sock_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT) &&
	       !diw_sock_option(fd, SOL_SOCKET, SO_ZEROCOPY) && !diw_sock_option(fd, SOL_SOCKET, SO_TIMESTAMPING) &&
	       !(getsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, &len) == 0 && len > 0);
}

/* Whether the configuration allows frames, and the listener is known. */
static bool is_wanted(int fd, const struct diw_sock *s, struct diw_listener *l)
{
	if (!diw_conf_has_port(s->local.port, s->peer.port) || !can_be_framed(fd, s)) {
		diw_count(DIW_C_sock_stream_option);
		return false;
	}
	if (diw_stream_find_listener(s, l))
		return true;
	diw_count(DIW_C_sock_stream_unknown);
	return false;
}

static bool connect_goes_on(int rc)
{
	return rc == 0 || errno == EINPROGRESS || errno == EINTR || errno == EALREADY;
}

/* Whether the socket is bound to a device: another socket with the same addresses may be on another device. */
static bool is_on_device(int fd)
{
	return diw_sock_option(fd, SOL_SOCKET, SO_BINDTOIFINDEX);
}

/* The socket is shown before it connects, so that the process that accepts it finds it at once. */
static int connect_framed(int fd, const struct sockaddr *addr, socklen_t len, struct diw_sock *s)
{
	int rc, saved;

	if (!atomic_load(&diw_has_ring))
		diw_reg_show_connection(s);
	rc = real.connect(fd, addr, len);
	saved = errno;
	s->slot->connected = rc == 0 && !is_on_device(fd) ? diw_ticks() : 0;
	if (connect_goes_on(rc)) {
		socket_name(fd, &s->local, sock_name);
		s->slot->local = s->local;
		diw_sock_keep(fd, s, DIW_MARK_STREAM);
		if (s->awaited)
			diw_stream_reads(fd);
	} else {
		diw_reg_withdraw(s);
		diw_stream_free(s->slot);
	}
	errno = saved;
	return rc;
}

static void conn_leave(int fd)
{
	struct diw_sock *s = diw_sock_marked(fd, DIW_MARK_UNKNOWN);

	if (s)
		diw_reg_withdraw(s);
	diw_sock_forget(fd);
}

/* Whether this is another connect() of the same socket, by which a program finds out whether it is connected. */
static bool is_repeated(const struct diw_sock_stream *st, const struct diw_addr *peer)
{
	return has_moved(st) || (st->initiator && diw_addr_eq(&st->remote, peer));
}

int diw_stream_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct diw_listener l;
	struct diw_sock s;
	struct diw_sock_stream *st;
	int saved = errno;
	bool disconnects = len < sizeof(struct sockaddr_in) || addr->sa_family == AF_UNSPEC;

	if ((addr->sa_family == AF_INET6 && len < sizeof(struct sockaddr_in6)) || !conn_describe(fd, &s))
		return real.connect(fd, addr, len);
	st = diw_stream_new(fd) ? NULL : diw_stream_find(s.cookie);
	if (!disconnects) {
		diw_addr_from_sockaddr(&s.peer, addr);
		s.peer = diw_destination(&s.peer);
	}
	if (st && !disconnects && is_repeated(st, &s.peer))
		return real.connect(fd, addr, len);
	if (st)
		diw_stream_free(st);
	if (!diw_stream_new(fd))
		conn_leave(fd);
	if (s.bound)
		socket_name(fd, &s.local, sock_name);
	errno = saved;
	if (disconnects || !is_wanted(fd, &s, &l) || !(s.slot = diw_stream_make(&s, true)))
		return real.connect(fd, addr, len);
	s.connected = true;
	s.stream = DIW_SOCK_STREAM | DIW_SOCK_CONNECTION;
	s.slot->peer_key = l.key;
	s.slot->known_by = l.known_by;
	s.slot->entry = l.entry;
	s.slot->seq = l.seq;
	s.slot->to_self = l.own;
	s.slot->crc = l.crc;
	return connect_framed(fd, addr, len, &s);
}

/* ---- Listening, accepting ---- */

static void listener_show(int fd, struct diw_sock *l)
{
	if (diw_conf_has_port(l->local.port, l->local.port) && !diw_ref_holds(&l->shown))
		diw_reg_advertise(l, fd);
}

void diw_stream_listens(int fd)
{
	struct diw_sock s;
	int saved = errno;

	if (diw_conf.streams && conn_describe(fd, &s) && !diw_sock_marked(fd, DIW_MARK_LISTENER)) {
		describe_listener(fd, &s);
		listener_show(fd, &s);
		diw_sock_keep(fd, &s, DIW_MARK_LISTENER);
	}
	errno = saved;
}

bool diw_stream_accepts(int fd, struct diw_sock *copy)
{
	struct diw_sock *l, tmp;
	int saved = errno;

	if (!diw_conf.streams)
		return false;
	l = diw_is_confined() ? NULL : diw_sock_marked(fd, DIW_MARK_LISTENER);
	if (!l && !diw_is_confined()) {
		diw_sock_get(fd, &tmp);
		l = diw_sock_marked(fd, DIW_MARK_LISTENER);
	}
	if (l) {
		if (diw_sock_is_shared(l))
			describe_options(fd, l);
		listener_show(fd, l);
		*copy = *l;
		copy->copies = diw_fd_copies();
	}
	errno = saved;
	return l;
}

/* Whether the peer is on another host, and the configuration names no interposed ports of other hosts. */
static bool is_from_nobody(const struct diw_sock *s)
{
	return !diw_conf.have_key && !diw_conf.nrules && !diw_is_local(&s->peer, s->netns);
}

/* The tick at which the kernel said that the socket is connected and not bound to a device: at that time no other such
 * socket has its addresses. 0: it did not say so. */
static uint64_t seen_connected(int fd)
{
	uint64_t now = diw_ticks();
	struct diw_addr peer;

	return socket_name(fd, &peer, peer_name) && !is_on_device(fd) ? now : 0;
}

/* Without a slot the socket is not shown, so its peer sends plain, too. */
static void accept_framed(int fd, struct diw_sock *s)
{
	s->cookie = diw_sock_option64(fd, SO_COOKIE);
	s->slot = s->cookie && socket_name(fd, &s->local, sock_name) ? diw_stream_make(s, false) : NULL;
	if (s->slot) {
		s->keys.seen = seen_connected(fd);
		if (!atomic_load(&diw_has_ring))
			diw_reg_show_connection(s);
		diw_reg_accepts(s);
		diw_sock_keep(fd, s, DIW_MARK_STREAM);
	}
}

void diw_stream_accepted(const struct diw_sock *l, int fd, const struct sockaddr *peer)
{
	struct diw_sock s = { .stream = DIW_SOCK_STREAM | DIW_SOCK_CONNECTION, .netns = l->netns, .family = l->family,
			      .connected = true, .ordinary = is_ordinary(l), .born = l->born, .sole = true,
			      .copies = l->copies };
	int saved = errno;

	s.keys.stream_key = l->keys.stream_key;
	if (peer)
		diw_addr_from_sockaddr(&s.peer, peer);
	if (!peer && !socket_name(fd, &s.peer, peer_name)) {
		errno = saved;
		return;
	}
	if (is_from_nobody(&s)) {
		diw_count(DIW_C_sock_stream_unknown);
		diw_sock_keep(fd, &s, DIW_MARK_STREAM);
	} else {
		accept_framed(fd, &s);
	}
	errno = saved;
}

/* No other process and no other descriptor has the connection S, and no call is at work on it. Without this certainty
 * the kernel is asked. */
static bool is_sole(const struct diw_sock *s)
{
	return s->sole && s->copies == diw_fd_copies() && *diw_alone && !diw_has_ring && !diw_is_confined() &&
	       !atomic_load(&s->slot->tx.lock) && !atomic_load(&s->slot->rx.lock);
}

/* Without the entry of this process this may be a child of vfork(), of which the parent has the socket, too. */
bool diw_stream_leave(struct diw_sock *s)
{
	bool has_slot = s->stream && diw_stream_is(s->slot, s->cookie), sole = has_slot && is_sole(s);
	bool withdrawn = diw_reg_withdraw(s);

	if (has_slot)
		atomic_store_explicit(&s->slot->user, 0, memory_order_relaxed);
	return sole && withdrawn;
}

/* ---- Options ---- */

/* Options that work on the bytes of a stream would work on frames. They are refused, as by a kernel without them. */
int diw_stream_refuses(int fd, int level, int name, const void *value, socklen_t len)
{
	struct diw_sock tmp;
	uint64_t cookie;
	int on = 0;

	if (is_special(level, name))
		atomic_store(&has_special, true);
	if (!(level == IPPROTO_TCP && name == TCP_ULP) &&
	    !(level == SOL_SOCKET && (name == SO_ZEROCOPY || name == SO_PEEK_OFF)))
		return 0;
	diw_sock_get(fd, &tmp);
	if (!diw_stream_slot(fd, &cookie))
		return 0;
	if (level == IPPROTO_TCP && name == TCP_ULP)
		return ENOENT;
	if (value && len >= sizeof on)
		memcpy(&on, value, sizeof on);
	if (level == SOL_SOCKET && name == SO_ZEROCOPY && on)
		return EOPNOTSUPP;
	return level == SOL_SOCKET && name == SO_PEEK_OFF && on >= 0 ? EOPNOTSUPP : 0;
}

void diw_stream_option(int fd, int level, int name)
{
	uint64_t cookie;
	struct diw_sock_stream *st = diw_stream_slot(fd, &cookie);

	if (st && level == SOL_SOCKET && name == SO_OOBINLINE)
		st->rx.urgent = diw_sock_option(fd, SOL_SOCKET, SO_OOBINLINE);
	if (st && level == SOL_SOCKET && name == SO_RCVLOWAT)
		diw_stream_wants(fd, &st->rx);
	if (st && level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_SNDBUFFORCE))
		st->tx.budget = 0;
}

/* With EPOLLET, a program that has read as many bytes as FIONREAD returned (nginx) waits for the next event. If
 * FIONREAD returned less than there is, this call makes the event: the kernel reports the socket again when the option
 * is set. */
void diw_stream_tell_again(int fd)
{
	int low = 1;
	socklen_t len = sizeof low;

	if (real.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len) == 0)
		real.setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
}
