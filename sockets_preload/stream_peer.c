/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is at the other end of a connection: a program of this user, of another, or of a host that is vouched for. */
#include <string.h>

#include "sockets_preload/stream.h"

/* ---- The listener, for who connects ---- */

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
	if (diw_reg_find_stream(s, &s->peer, true, &route))
		l->shown = (struct diw_shown){ .number = diw_reg_number(route.shown.entry), .seq = route.shown.seq };
	else if (of_host(s, &route))
		l->known_by = DIW_STREAM_HOST;
	else if (diw_window_find_stream(s, &s->peer, true, &route, &l->shown))
		l->known_by = DIW_STREAM_USER;
	else
		return false;
	l->key = route.key;
	l->crc = route.crc;
	return true;
}

/* Whoever accepts one connection, and then closes the listener, has it in a slot. */
static bool is_accepted(const struct diw_sock_stream *st)
{
	uint64_t cookie = diw_window_peer(st->netns, &st->local, &st->remote);
	const struct diw_sock_stream *its = cookie ? diw_stream_seek(cookie) : NULL;

	return its && !its->initiator && its->key == st->peer_key;
}

bool diw_stream_is_listening(const struct diw_sock_stream *st)
{
	if (st->known_by == DIW_STREAM_HOST)
		return true;
	if (st->known_by == DIW_STREAM_USER)
		return diw_window_is_current(&(struct diw_shown){ st->uid, st->entry, st->seq });
	return diw_reg_is_current_at(st->entry, st->seq) || is_accepted(st);
}

/* ---- The initiator, for who has accepted ---- */

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

/* AWAITED: it may be about to say that it has connected. Another user's has said so before. */
enum diw_initiator diw_stream_find_initiator(int fd, struct diw_sock_stream *st, struct diw_route *route)
{
	struct diw_sock s = { .netns = st->netns };
	struct diw_shown shown;
	bool awaited;

	if (!diw_stream_place(fd, st))
		return DIW_INITIATOR_NONE;
	s.local = st->local;
	awaited = diw_stream_is_awaited(st->local.port);
	if (diw_reg_find_stream(&s, &st->remote, false, route) ||
	    diw_window_find_stream(&s, &st->remote, false, route, &shown))
		return DIW_INITIATOR_FOUND;
	return awaited ? DIW_INITIATOR_AWAITED : DIW_INITIATOR_NONE;
}

bool diw_stream_has_capable(int fd, struct diw_sock_stream *st)
{
	struct diw_route route;

	return diw_stream_find_initiator(fd, st, &route) == DIW_INITIATOR_FOUND ||
	       (diw_conf.have_key && !diw_is_local(&st->remote, st->netns));
}
