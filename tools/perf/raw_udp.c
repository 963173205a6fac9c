/* SPDX-License-Identifier: BSD-2-Clause */
/* Bare UDP sockets, used in the fastest way by the measurements of docs/performance.md: the baselines of `diw perf
 * --against`. */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/wire.h"
#include "tools/perf/raw_end.h"

#define BURST 65200u                 /* bytes, and below datagrams, of a super-buffer */
#define BURST_SEGS 128u
#define STAMP 8u                     /* position in the stream: in front of the payload (crc), or in its first bytes */
#define CRC_OVER (STAMP + 4u)
#define CONTROL_LEN 29u              /* not the size of any usual message */
#define CONTROL_MAGIC 0xfff05a5ac3c30ff0u
#define CREDIT_LOST (20 * DIW_MS)    /* after this time without credit, outstanding bytes count as lost */

enum control { CREDIT = 1, MARK, FIN, FINACK };

struct end {
	const struct raw_attr *a;
	struct raw_result *r;
	bool plain;                  /* one datagram a recv, which is faster than recvmsg without super-buffers */
	int wait;                    /* flag of recv: 0 sleeps (at most 100 ms), MSG_DONTWAIT spins */
	uint32_t piece;              /* payload bytes of a datagram: messages are cut into equal pieces */
	uint32_t over;               /* bytes of a datagram that are not payload */
	uint64_t ring;               /* bytes of all message buffers */
	uint8_t *buf;                /* the message buffers */
	uint8_t *stage, *rx;
	uint64_t window, step;       /* step: the most that one call sends, at most a quarter of the window */

	uint64_t pos;                /* sender: payload bytes sent; receiver: highest position received, + 1 */
	uint64_t credited;           /* sender: bytes that are not outstanding any more; receiver: the last credit
				      * sent */
	bool ended;
	uint64_t mark_pos;
	struct raw_span span;

	struct msghdr tx_msg, rx_msg;
	struct iovec tx_iov, rx_iov;
	union { struct cmsghdr align; uint8_t b[CMSG_SPACE(sizeof(uint16_t))]; } tx_control;
	union { struct cmsghdr align; uint8_t b[CMSG_SPACE(sizeof(int))]; } rx_control;
};

/* ---- Sockets ---- */

int raw_udp_open(const struct diw_addr *local, bool gso, int rcvbuf, struct diw_addr *bound)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(local, &ss);
	struct timeval tv = { .tv_usec = 100000 };
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, snd = 4 << 20;

	if (fd < 0)
		return -errno;
	if (rcvbuf <= 0)
		rcvbuf = 4 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &snd, sizeof snd);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	return raw_bound(fd, (gso && setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one)) ||
			     bind(fd, (struct sockaddr *)&ss, len), bound);
}

int raw_udp_connect(int fd, const struct diw_addr *peer)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(peer, &ss);

	return connect(fd, (struct sockaddr *)&ss, len) ? -errno : 0;
}

/* A datagram that the peer's host refuses counts as lost. */
static void must_send(struct end *e, const void *p, size_t len)
{
	for (int i = 0; i < 1000 && send(e->a->fd, p, len, 0) < 0; i++)
		if (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED && errno != EINTR)
			return;
	e->r->calls++;
}

/* Sends LEN bytes as datagrams of SEG bytes: one super-buffer, or one by one. */
static void send_datagrams(struct end *e, uint8_t *p, uint32_t len, uint32_t seg)
{
	uint16_t size = (uint16_t)seg;

	if (!e->a->gso || len <= seg) {
		for (uint32_t at = 0; at < len; at += seg)
			must_send(e, p + at, len - at < seg ? len - at : seg);
		return;
	}
	memcpy(CMSG_DATA(&e->tx_control.align), &size, sizeof size);
	e->tx_iov = (struct iovec){ p, len };
	for (int i = 0; i < 1000 && sendmsg(e->a->fd, &e->tx_msg, 0) < 0; i++)
		if (errno != EAGAIN && errno != ENOBUFS && errno != ECONNREFUSED && errno != EINTR)
			return;
	e->r->calls++;
}

/* Receives into e->rx. Returns the bytes, or -1; *seg is the length of each datagram. */
static ssize_t udp_receive(struct end *e, int flags, uint32_t *seg)
{
	struct cmsghdr *c;
	ssize_t n;
	int size;

	if (e->plain) {
		n = recv(e->a->fd, e->rx, 65536, flags);
		*seg = n > 0 ? (uint32_t)n : 1;
		e->r->calls += n >= 0;
		return n;
	}
	e->rx_msg.msg_controllen = sizeof e->rx_control;
	n = recvmsg(e->a->fd, &e->rx_msg, flags);
	if (n < 0)
		return n;
	e->r->calls++;
	*seg = n > 0 ? (uint32_t)n : 1;
	c = CMSG_FIRSTHDR(&e->rx_msg);
	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
		memcpy(&size, CMSG_DATA(c), sizeof size);
		*seg = size > 0 && size < n ? (uint32_t)size : *seg;
	}
	return n;
}

static void send_control(struct end *e, enum control kind, uint64_t value)
{
	uint8_t p[CONTROL_LEN] = { 0 };

	diw_put64(p, CONTROL_MAGIC);
	p[8] = (uint8_t)kind;
	diw_put64(p + 9, value);
	must_send(e, p, sizeof p);
}

static int control_of(const uint8_t *p, uint32_t len, uint64_t *value)
{
	if (len != CONTROL_LEN || diw_get64(p) != CONTROL_MAGIC)
		return 0;
	*value = diw_get64(p + 9);
	return p[8];
}

/* ---- The content of datagrams ---- */

/* Copies the datagram of LEN payload bytes at position POS to P, with position and CRC. Returns its length. As in
 * llp/seal.c, following bytes are prefetched, and the CRC reads the source before the copy. */
static uint32_t copy_datagram(struct end *e, uint8_t *p, uint64_t pos, uint32_t len)
{
	const uint8_t *from = e->buf + pos % e->ring;
	uint32_t crc;

	for (uint32_t i = 0; i < len; i += 64)
		__builtin_prefetch(from + len + i, 0, 3);
	diw_put64(p, pos);
	crc = diw_crc32(diw_crc32(0, p, STAMP), from, len);
	memcpy(p + STAMP, from, len);
	diw_put32le(p + STAMP + len, crc);
	return len + CRC_OVER;
}

/* Checks a datagram and copies its payload to its place; false: it is damaged. */
static bool place_one(struct end *e, const uint8_t *p, uint32_t len)
{
	uint64_t pos;

	if (len < CRC_OVER || diw_crc32(0, p, len - 4) != diw_get32le(p + len - 4)) {
		e->r->crc_errors++;
		return false;
	}
	pos = diw_get64(p);
	len -= CRC_OVER;
	if (pos % e->ring + len > e->ring)
		return false;
	memcpy(e->buf + pos % e->ring, p + STAMP, len);
	if (pos + len > e->pos)
		e->pos = pos + len;
	return true;
}

/* Sends the next super-buffer from e->pos on: at most MOST payload bytes, cut at messages. Returns its bytes. */
static uint32_t udp_send_burst(struct end *e, uint64_t most)
{
	uint32_t datagram = e->piece + e->over, sent = 0, staged = 0, n = 0;
	uint8_t *from = e->buf + e->pos % e->ring;

	while (n < BURST_SEGS && staged + datagram <= (datagram > BURST ? datagram : BURST) && sent < most) {
		uint64_t left = e->a->size - e->pos % e->a->size, wrap = e->ring - e->pos % e->ring;
		uint32_t len = left < e->piece ? (uint32_t)left : e->piece;

		if (e->a->crc)
			staged += copy_datagram(e, e->stage + staged, e->pos, len);
		else {
			if (len >= STAMP)
				diw_put64(e->buf + e->pos % e->ring, e->pos);
			staged += len;
		}
		e->pos += len;
		sent += len;
		n++;
		if (len < e->piece || (wrap == len && !e->a->crc))
			break;
	}
	send_datagrams(e, e->a->crc ? e->stage : from, staged, datagram);
	return sent;
}

/* ---- One direction ---- */

static void begin_measure(struct end *e, uint64_t now)
{
	e->mark_pos = e->pos;
	raw_span_begin(&e->span, e->r, now);
}

/* Reads the receiver's credits; true: there were some. */
static bool take_credit(struct end *e, int flags)
{
	uint64_t value;
	uint32_t seg;
	ssize_t n = udp_receive(e, flags, &seg);

	for (uint32_t at = 0; n > 0 && at < (uint32_t)n; at += seg) {
		uint32_t len = (uint32_t)n - at < seg ? (uint32_t)n - at : seg;
		int kind = control_of(e->rx + at, len, &value);

		if (kind == CREDIT && value > e->credited && value <= e->pos)
			e->credited = value;
		else if (kind == FINACK)
			e->ended = true;
	}
	return n >= 0;
}

static void wait_credit(struct end *e)
{
	uint64_t since = 0, before = e->credited;

	while (e->credited == before && !raw_stopped(e->a)) {
		uint64_t now;

		if (take_credit(e, e->wait))
			continue;
		now = diw_clock_ns();
		if (!since)
			since = now;
		if (now - since > CREDIT_LOST)
			e->credited = e->pos;
	}
}

static void udp_stream_sender(struct end *e)
{
	uint64_t start = diw_clock_ns(), now = start, until;

	for (;;) {
		if (!e->span.begun && now - start >= e->a->warmup_ns) {
			begin_measure(e, now);
			send_control(e, MARK, e->pos);
		}
		until = e->span.begin_ns + e->a->duration_ns;
		if ((e->span.begun && now >= until) || raw_stopped(e->a) ||
		    (e->span.begun && e->a->max_msgs && e->pos - e->mark_pos >= e->a->max_msgs * e->a->size))
			break;
		if (e->pos - e->credited > e->window - e->step)
			wait_credit(e);
		else
			udp_send_burst(e, e->step);
		now = diw_clock_ns();
	}
	if (!e->span.begun)
		begin_measure(e, now);
	e->span.last_ns = now;
	raw_span_end(&e->span, e->r);
	e->r->bytes = e->r->bytes_sent = e->pos - e->mark_pos;
	for (int i = 0; i < 200 && !e->ended; i++) {
		send_control(e, FIN, e->r->bytes_sent);
		for (uint64_t t = diw_clock_ns(); !e->ended && diw_clock_ns() - t < 5 * DIW_MS;)
			take_credit(e, MSG_DONTWAIT);
	}
}

/* Handles a datagram if it is a control message; true: it was. */
static bool stream_control(struct end *e, const uint8_t *p, uint32_t len, uint64_t now)
{
	uint64_t value;

	switch (control_of(p, len, &value)) {
	case MARK:
		if (!e->span.begun)
			begin_measure(e, now);
		return true;
	case FIN:
		e->r->bytes_sent = value;
		e->ended = true;
		for (int i = 0; i < 3; i++)
			send_control(e, FINACK, 0);
		return true;
	case 0:
		return false;
	}
	return true;
}

static void stream_burst(struct end *e, uint32_t n, uint32_t seg, uint64_t now)
{
	uint32_t last = (n - 1) / seg * seg;

	/* A control message differs in length from the data, so it is the last in a super-buffer, or alone. */
	if (stream_control(e, e->rx + last, n - last, now))
		n = last;
	if (!n)
		return;
	e->span.last_ns = now;
	if (e->a->crc) {
		for (uint32_t at = 0; at < n; at += seg) {
			uint32_t len = n - at < seg ? n - at : seg;

			if (place_one(e, e->rx + at, len))
				e->r->bytes += len - CRC_OVER;
		}
		return;
	}
	last = (n - 1) / seg * seg;
	e->r->bytes += n;
	if (n - last >= STAMP)
		e->pos = diw_get64(e->rx + last) + n - last;
	else
		e->pos += n;
}

static void udp_stream_receiver(struct end *e)
{
	uint64_t now = diw_clock_ns(), quiet_since = now;
	bool any = false;

	while (!e->ended && !raw_stopped(e->a)) {
		uint32_t seg;
		ssize_t n = udp_receive(e, e->wait, &seg);

		now = diw_clock_ns();
		if (n <= 0) {
			if (now - quiet_since > (any ? RAW_SILENCE : RAW_SILENCE_FIRST))
				break;
			continue;
		}
		any = true;
		quiet_since = now;
		stream_burst(e, (uint32_t)n, seg, now);
		if (e->pos >= e->credited + e->window / 4) {
			e->credited = e->pos;
			send_control(e, CREDIT, e->pos);
		}
	}
	if (e->span.begun)
		raw_span_end(&e->span, e->r);
	if (e->r->bytes_sent > e->r->bytes)
		e->r->lost = e->r->bytes_sent - e->r->bytes;
}

/* ---- There and back ---- */

static void udp_send_message(void *end, uint64_t number)
{
	struct end *e = end;

	e->pos = number % (e->ring / e->a->size) * e->a->size;
	for (uint64_t left = e->a->size; left > 0;)
		left -= udp_send_burst(e, left);
}

/* Receives the next bytes; *have counts the bytes of a message. */
static enum raw_came receive_some(struct end *e, uint32_t *have)
{
	struct raw_spin spin = { 0 };
	uint64_t value;
	uint32_t seg;
	ssize_t n;

	while ((n = udp_receive(e, e->wait, &seg)) < 0) {
		if (!e->wait || raw_spins_out(&spin, e->a))
			return RAW_NOTHING;
	}
	if (control_of(e->rx, (uint32_t)n, &value) == FIN)
		return RAW_END;
	for (uint32_t at = 0; at < (uint32_t)n; at += seg) {
		uint32_t len = (uint32_t)n - at < seg ? (uint32_t)n - at : seg;

		if (!e->a->crc)
			*have += len;
		else if (place_one(e, e->rx + at, len))
			*have += len - CRC_OVER;
	}
	return RAW_MESSAGE;
}

static enum raw_came udp_receive_message(void *end)
{
	enum raw_came came = RAW_MESSAGE;
	struct end *e = end;
	uint32_t have = 0, seg;

	while (came == RAW_MESSAGE && have < e->a->size)
		came = receive_some(e, &have);
	while (came == RAW_NOTHING && e->a->sender && udp_receive(e, MSG_DONTWAIT, &seg) >= 0)
		;                            /* late messages must not answer the next one */
	return came;
}

static const struct raw_pong_ops pong_ops = { udp_send_message, udp_receive_message };

static void pong(struct end *e)
{
	const struct raw_pong p = { &pong_ops, e, e->a, e->r };

	if (!e->a->sender) {
		raw_pong_receiver(&p);
		return;
	}
	raw_pong_sender(&p);
	for (int i = 0; i < 3; i++)
		send_control(e, FIN, e->r->bytes);
}

/* ---- Both tests ---- */

/* The payload that the receive buffer certainly holds: the kernel counts the memory of datagrams, in the worst case one
 * by one. */
static uint64_t default_window(const struct end *e)
{
	socklen_t len = sizeof(int);
	int rcvbuf = 0;

	getsockopt(e->a->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, &len);
	return (uint64_t)rcvbuf / 2 * e->piece / (e->piece + 1200u);
}

static int udp_prepare(struct end *e)
{
	uint64_t slots = e->a->slots ? e->a->slots : 1, pieces;
	struct cmsghdr *c = &e->tx_control.align;

	e->over = e->a->crc ? CRC_OVER : 0;
	if (!e->a->size || e->a->size > 1u << 30 || e->a->seg <= e->over || e->a->seg > 65507)
		return -EINVAL;
	pieces = (e->a->size + e->a->seg - e->over - 1) / (e->a->seg - e->over);
	e->piece = (uint32_t)((e->a->size + pieces - 1) / pieces);
	if (pieces == 1) {
		/* Several messages fit a super-buffer: the ring's end is the end of one. */
		uint64_t per = BURST / (e->piece + e->over);

		per = per > BURST_SEGS ? BURST_SEGS : per ? per : 1;
		slots = (slots + per - 1) / per * per;
	}
	e->ring = slots * e->a->size;
	e->window = e->a->window ? e->a->window : default_window(e);
	e->step = e->window / 4 < BURST ? (e->window + 3) / 4 : BURST;
	e->plain = !e->a->gso || (e->a->test == RAW_LAT && pieces == 1);
	e->wait = e->a->spinning ? MSG_DONTWAIT : 0;
	e->buf = malloc(e->ring);
	e->stage = malloc(1 << 16);
	e->rx = malloc(1 << 16);
	if (!e->buf || !e->stage || !e->rx)
		return -ENOMEM;
	for (uint64_t i = 0; i < e->ring; i++)
		e->buf[i] = (uint8_t)(i * 31);
	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
	e->tx_msg = (struct msghdr){ .msg_iov = &e->tx_iov, .msg_iovlen = 1, .msg_control = &e->tx_control,
				     .msg_controllen = sizeof e->tx_control };
	e->rx_iov = (struct iovec){ e->rx, 1 << 16 };
	e->rx_msg = (struct msghdr){ .msg_iov = &e->rx_iov, .msg_iovlen = 1, .msg_control = &e->rx_control };
	return 0;
}

int raw_udp_run(const struct raw_attr *attr, struct raw_result *result)
{
	struct end e = { .a = attr, .r = result };
	int err;

	memset(result, 0, sizeof *result);
	err = udp_prepare(&e);
	if (!err) {
		(attr->test == RAW_LAT ? pong : attr->sender ? udp_stream_sender : udp_stream_receiver)(&e);
		if (attr->test == RAW_STREAM) {
			result->msgs = result->bytes / attr->size;
			result->bytes_all = result->bytes;
		}
	}
	free(e.buf);
	free(e.stage);
	free(e.rx);
	return err;
}
