/* SPDX-License-Identifier: BSD-2-Clause */
/* What a direction begins with, if it has frames: an MPA Request or Reply (RFC 5044 section 7.1.1). */
#include <string.h>

#include "base/wire.h"
#include "sockets_preload/stream.h"
#include "wire/mpa_frame.h"

/* The private data. */
#define DATA 28u
enum { D_WHAT, D_KEY = 8, D_OWN = 16, D_MOST = 24 };
static const uint8_t what[8] = { 'd', 'i', 'w', 's', 't', 'r', 'm', 1 };

#define FLAGS 16u                        /* where in the frame, of which all before the keys is known */
#define KNOWN (DIW_MPA_FRAME_HDR + D_KEY)
#define CRC 0x40u

_Static_assert(DIW_STREAM_HELLO == DIW_MPA_FRAME_HDR + DATA, "what the slots have room for");

static void encode(uint8_t *p, bool reply, bool crc, uint64_t key, uint64_t own)
{
	uint8_t data[DATA];
	struct diw_mpa_frame f = { .reply = reply, .crc = crc, .revision = 1, .len = DATA, .data = data };

	memcpy(data + D_WHAT, what, sizeof what);
	diw_put64(data + D_KEY, key);
	diw_put64(data + D_OWN, own);
	diw_put32(data + D_MOST, DIW_STREAM_MOST_CRC);
	diw_mpa_frame_encode(p, &f);
}

void diw_stream_hello(const struct diw_sock_stream *st, uint8_t hello[DIW_STREAM_HELLO], bool crc)
{
	encode(hello, !st->initiator, crc, st->peer_key, st->key);
}

/* Whoever accepts may share its port with other listeners, of which the initiator found one, and the kernel another;
 * and the key may be the one that is configured on the peer's host, too. */
static bool is_ours(const struct diw_sock_stream *st, uint64_t key)
{
	uint16_t port = st->local.port;

	return key == st->key || (!st->initiator && (diw_reg_is_listener(port, key) ||
						     (diw_conf.have_key && key == diw_reg_peer_key(port))));
}

enum diw_hello diw_stream_is_hello(struct diw_sock_stream *st, const uint8_t *p, size_t n, bool *crc)
{
	uint8_t want[DIW_STREAM_HELLO];

	*crc = n > FLAGS && p[FLAGS] & CRC;
	encode(want, st->initiator, *crc, 0, 0);
	if (memcmp(p, want, n < KNOWN ? n : KNOWN) != 0 ||
	    (n >= KNOWN + sizeof st->key && !is_ours(st, diw_get64(p + KNOWN))))
		return DIW_HELLO_NONE;
	if (n < DIW_STREAM_HELLO)
		return DIW_HELLO_PART;
	if (!st->initiator) {
		st->peer_key = diw_get64(p + DIW_MPA_FRAME_HDR + D_OWN);
		st->crc = *crc;
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

/* A peer that cannot be seen from here has shown by its Request what it is. */
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

/* The error queue would tell of frames. */
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
