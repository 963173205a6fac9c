/* SPDX-License-Identifier: BSD-2-Clause */
/* The beginning of a direction with frames: an MPA Request or Reply (RFC 5044 section 7.1.1). */
#include "sockets_preload/stream/stream.h"

void diw_stream_hello(const struct diw_sock_stream *st, uint8_t hello[DIW_STREAM_HELLO], bool crc)
{
	const struct diw_stream_hello h = { .reply = !st->initiator, .crc = crc, .key = st->peer_key, .own = st->key,
					    .most = DIW_STREAM_MOST_CRC };

	diw_stream_hello_encode(hello, &h);
}

/* Whether the key of a Request is valid here. Listeners may share a port: the initiator may have found one, and the
 * kernel another. The key may also be the one that is configured on the peer's host. */
static bool key_is_ours(const struct diw_sock_stream *st, uint64_t key)
{
	uint16_t port = st->local.port;

	return key == st->key || (!st->initiator && (diw_reg_is_listener(port, key) ||
						     (diw_conf.have_key && key == diw_reg_peer_key(port))));
}

enum diw_hello diw_stream_is_hello(struct diw_sock_stream *st, const uint8_t *p, size_t n, bool *crc)
{
	struct diw_stream_hello h;
	bool ours = diw_stream_hello_decode(&h, st->initiator, p, n) && (!h.has_key || key_is_ours(st, h.key));

	*crc = h.crc;
	if (!ours)
		return DIW_HELLO_NONE;
	if (!h.whole)
		return DIW_HELLO_PART;
	if (!st->initiator) {
		st->peer_key = h.own;
		st->crc = h.crc;
	}
	return DIW_HELLO_WHOLE;
}

static bool is_framed_to_listener(int fd, struct diw_sock_stream *st)
{
	struct diw_route route;

	if (st->known_by == DIW_STREAM_HOST)
		return true;
	if (st->known_by == DIW_STREAM_NETNS)
		return diw_reg_is_current_at(st->entry, st->seq);
	if (!diw_stream_await_reader(fd, st, &route))
		return false;
	st->peer_key = route.key;
	return true;
}

/* A peer that is not visible from here has shown by its Request that it is capable. */
static bool is_framed_to_initiator(int fd, struct diw_sock_stream *st)
{
	struct diw_route route;

	if (diw_stream_place(fd, st) && !diw_is_local(&st->remote, st->netns))
		return st->peer_key;
	if (!diw_stream_await_reader(fd, st, &route))
		return false;
	if (!st->peer_key)
		st->crc = route.crc;
	st->peer_key = route.key;
	return true;
}

/* Whether the error queue would report frames. */
static bool wants_completions(int fd)
{
	return diw_sock_option(fd, SOL_SOCKET, SO_ZEROCOPY) || diw_sock_option(fd, SOL_SOCKET, SO_TIMESTAMPING);
}

uint8_t diw_stream_begin(int fd, struct diw_sock_stream *st)
{
	int saved = errno;
	bool framed;

	if (!diw_stream_is_ordinary(fd) && wants_completions(fd)) {
		diw_count(DIW_C_sock_stream_option);
		framed = false;
	} else {
		framed = (st->initiator ? is_framed_to_listener : is_framed_to_initiator)(fd, st);
		if (!framed)
			diw_count(st->initiator ? DIW_C_sock_stream_gone : DIW_C_sock_stream_unknown);
	}
	st->tx.crc = st->crc || diw_conf.crc == DIW_CRC_ON;
	errno = saved;
	return framed ? DIW_STREAM_FRAMED : DIW_STREAM_PLAIN;
}
