/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams on their way out, in the bad network, below the CRC. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/dgram/bad_wire.h"

#define MOST_PIECES 64u

/* Splits the LEN bytes of B at AT into PIECE. Returns the number of pieces. */
static size_t cut_out(const struct diw_dgram_burst *b, struct diw_impair_cursor at, uint32_t len, struct iovec *piece)
{
	size_t n = 0;

	while (len) {
		size_t have = b->iov[at.i].iov_len - at.off, some = have < len ? have : len;

		if (some)
			piece[n++] = (struct iovec){ (uint8_t *)b->iov[at.i].iov_base + at.off, some };
		len -= (uint32_t)some;
		at = (struct diw_impair_cursor){ at.i + 1, 0 };
	}
	return n;
}

static ssize_t send_item(const struct diw_bad_sent *s, const struct diw_dgram_burst *b,
			 const struct diw_impair_item *item)
{
	struct iovec piece[MOST_PIECES];
	struct msghdr m = *s->msg;
	struct diw_dgram_burst one = { .peer = b->peer, .iov = piece, .len = item->len, .seg = item->len };
	ssize_t rc;

	if (item->e)
		piece[0] = (struct iovec){ item->e->data, item->len };
	m.msg_iov = piece;
	m.msg_iovlen = item->e ? 1 : cut_out(b, item->at, item->len, piece);
	rc = real.sendmsg(s->fd, &m, s->flags);
	if (rc >= 0)
		diw_bad_wire_capture(s->fd, &one);
	return rc;
}

/* Sends the datagrams that survive. The result is that of the first one that is neither lost nor held back. */
static ssize_t send_impaired(const struct diw_bad_sent *s, const struct diw_dgram_burst *b)
{
	struct diw_impair_line *l = &diw_bad_wire.tx;
	uint32_t head = l->entry_head;
	uint64_t now = diw_clock_ns();
	int sent = 0, error = 0;

	diw_bad_wire.fd = s->fd;
	diw_impair_line_plan(l, b, now);
	diw_bad_late_note(s, head);
	for (int i = 0; i < l->nrun; i++) {
		const struct diw_impair_item *item = &l->run[i];

		if (item->e && !diw_bad_late_is_new(item->e, head)) {
			if (!diw_bad_late_send(item->e))
				diw_bad_wire.c.impair_lost++;
		} else if (!error && send_item(s, b, item) < 0) {
			error = sent ? 0 : errno;
		} else {
			sent++;
		}
	}
	diw_impair_line_tell(l, b, !error, now);
	diw_impair_line_end(l, b, l->nrun, now);
	diw_bad_late_start();
	diw_bad_wire_count();
	errno = error;
	return error ? -1 : (ssize_t)b->len;
}

static bool find_peer(int fd, const struct msghdr *msg, struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof ss;

	if (!msg->msg_name && getpeername(fd, (struct sockaddr *)&ss, &len) < 0)
		return false;
	if (msg->msg_name && msg->msg_namelen < sizeof(struct sockaddr_in))
		return false;
	diw_addr_from_sockaddr(peer, msg->msg_name ? msg->msg_name : (struct sockaddr *)&ss);
	return true;
}

static ssize_t send_locked(const struct diw_bad_sent *s, const struct diw_dgram_burst *b)
{
	int error = diw_bad_late_error(s->fd);
	ssize_t rc;

	if (error) {
		errno = error;
		return -1;
	}
	if (diw_bad_wire.tx.active && !diw_bad_late_cannot(s->msg))
		return send_impaired(s, b);
	rc = real.sendmsg(s->fd, s->msg, s->flags);
	if (rc >= 0)
		diw_bad_wire_capture(s->fd, b);
	return rc;
}

ssize_t diw_bad_net_sendmsg(int fd, const struct msghdr *msg, int flags, uint16_t size, size_t head)
{
	const struct diw_bad_sent s = { fd, flags, msg, (uint8_t)head };
	size_t len = diw_iov_len(msg->msg_iov, msg->msg_iovlen);
	struct diw_dgram_burst b = { .iov = msg->msg_iov, .niov = (int)msg->msg_iovlen, .len = (uint32_t)len };
	int error;
	ssize_t rc;

	if (len > DIW_DGRAM_MAX || msg->msg_iovlen > MOST_PIECES || diw_is_confined() ||
	    !find_peer(fd, msg, &b.peer.addr))
		return real.sendmsg(fd, msg, flags);
	b.seg = size && size < len ? size : (uint32_t)len;
	if (b.seg && b.len / b.seg >= DIW_DGRAM_MAX_SEGS)
		return real.sendmsg(fd, msg, flags);
	diw_bad_wire_lock();
	rc = send_locked(&s, &b);
	error = errno;
	diw_bad_wire_unlock();
	errno = error;
	return rc;
}
