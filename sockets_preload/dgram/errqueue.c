/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The error queue. It holds datagrams that this socket has sent: whole packets from the link's header on, with the time
 * when they left (SO_TIMESTAMPING), and the part of a payload that an ICMP message quotes (IP_RECVERR). Frames in it
 * are replaced by the messages that the program sent.
 *
 * The interposer recognises its own frames by a hash in the frame. If a frame may come back, its MSN and epoch are 48
 * bits of a hash of the registry's secret, the sending socket and the receiver's key (diw_frame_mark()). So no state is
 * needed, and every process with the socket recognises its frames. A plain datagram begins with such a header only if
 * a receiver has returned a frame to the program as data, and the program sends this data to that receiver. The error
 * queue then reports the datagram without the header.
 */
#include <errno.h>
#include <string.h>

#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/stage.h"

/* a packet of 65,535 bytes behind a link's header does not fit the stage for one datagram */
#define KIND DIW_STAGE_MANY
#define ERRQUEUE_ROOM (2 * DIW_STAGE)
#define MOST_LINK 64u                        /* largest part before the IP header: a link's header, or another
					      * packet's */
#define UDP 8u
#define MORE_FRAGMENTS 0x2000u

/* ---- The frame in a packet ---- */

/* The length from P of an IPv4 packet's UDP header, in the N bytes at P; 0: it has none. */
static size_t udp_of_v4(const uint8_t *p, size_t n)
{
	size_t ihl = (p[0] & 15u) * 4u;

	return ihl >= 20 && p[9] == IPPROTO_UDP && !(diw_get16(p + 6) & 0x1fff) && ihl + UDP <= n ? ihl : 0;
}

static size_t udp_of_v6(const uint8_t *p, size_t n)
{
	uint8_t next = p[6];
	size_t at = 40;

	while (at + UDP <= n && (next == IPPROTO_HOPOPTS || next == IPPROTO_ROUTING || next == IPPROTO_DSTOPTS ||
				 next == IPPROTO_FRAGMENT)) {
		size_t len = next == IPPROTO_FRAGMENT ? 8 : (p[at + 1] + 1u) * 8u;

		next = p[at];
		at += len;
	}
	return next == IPPROTO_UDP && at + UDP <= n ? at : 0;
}

struct found {
	size_t ip, udp;                      /* positions of the headers; udp 0: there are none */
	size_t data;                         /* position of the frames */
	unsigned frames;                     /* more than one if the kernel was to cut the packet */
};

static bool frame_is_ours(const struct diw_sock *s, const uint8_t *p, size_t n, struct found *f)
{
	size_t at = f->data, end = f->udp ? f->udp + diw_get16(p + f->udp + 4) : 0, len;

	f->frames = 0;
	do {
		size_t head = at < n ? diw_frame_own(s, p + at, n - at, &len) : 0;

		if (!head)
			return false;
		f->frames++;
		at += head + len + DIW_SEAL_LEN;
	} while (at < end);
	return !f->udp || at == end;
}

static bool frame_find(const struct diw_sock *s, const uint8_t *p, size_t n, struct found *f)
{
	*f = (struct found){ 0 };
	if (frame_is_ours(s, p, n, f))
		return true;
	for (f->ip = 0; f->ip <= MOST_LINK && f->ip + 20 + UDP <= n; f->ip++) {
		const uint8_t *ip = p + f->ip;
		size_t left = n - f->ip, at = 0;

		if (ip[0] >> 4 == 4)
			at = udp_of_v4(ip, left);
		else if (ip[0] >> 4 == 6 && left >= 40)
			at = udp_of_v6(ip, left);
		f->udp = f->ip + at;
		f->data = f->udp + UDP;
		if (at && frame_is_ours(s, p, n, f))
			return true;
	}
	return false;
}

/* ---- The packet without the frame ---- */

static uint32_t sum_add(uint32_t sum, const uint8_t *p, size_t n)
{
	for (; n > 1; n -= 2, p += 2)
		sum += diw_get16(p);
	return n ? sum + (uint32_t)(*p << 8) : sum;
}

static uint16_t sum_fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)(sum + (sum >> 16));
}

static bool is_v4(const uint8_t *ip)
{
	return ip[0] >> 4 == 4;
}

static uint32_t pseudo_sum(const uint8_t *ip, size_t len)
{
	return IPPROTO_UDP + (uint32_t)len + (is_v4(ip) ? sum_add(0, ip + 12, 8) : sum_add(0, ip + 8, 32));
}

/* Writes length and checksum of the UDP header. If the device is to compute the checksum, the field holds the sum of
 * the pseudo-header. If the datagram is incomplete, the checksum is not known, and is written as none. */
static void put_udp(const uint8_t *ip, uint8_t *udp, size_t len, bool whole)
{
	uint16_t old = diw_get16(udp + 6), sum;

	if (old && old == sum_fold(pseudo_sum(ip, diw_get16(udp + 4)))) {
		diw_put16(udp + 4, (uint16_t)len);
		diw_put16(udp + 6, sum_fold(pseudo_sum(ip, len)));
		return;
	}
	diw_put16(udp + 4, (uint16_t)len);
	diw_put16(udp + 6, 0);
	if (old && whole) {
		sum = (uint16_t)~sum_fold(sum_add(pseudo_sum(ip, len), udp, len));
		diw_put16(udp + 6, sum ? sum : 0xffff);
	}
}

/* Makes the packet GONE bytes shorter. WHOLE: no other fragment holds a part of the message. */
static void ip_shorten(uint8_t *ip, size_t gone, bool whole)
{
	uint16_t flags;

	if (!is_v4(ip)) {
		diw_put16(ip + 4, (uint16_t)(diw_get16(ip + 4) - gone));
		return;
	}
	flags = diw_get16(ip + 6);
	diw_put16(ip + 2, (uint16_t)(diw_get16(ip + 2) - gone));
	diw_put16(ip + 6, whole ? (uint16_t)(flags & ~MORE_FRAGMENTS) : flags);
	diw_put16(ip + 10, 0);
	diw_put16(ip + 10, (uint16_t)~sum_fold(sum_add(0, ip, (ip[0] & 15u) * 4u)));
}

/* Removes the frame from the N bytes at P, which came from the error queue. *LEN: the new length. */
static void frame_strip(const struct diw_sock *s, uint8_t *p, size_t n, size_t *len)
{
	struct found f;
	size_t from, to, said = 0;

	*len = n;
	if (!frame_find(s, p, n, &f))
		return;
	from = to = f.data;
	for (unsigned i = 0; i < f.frames; i++) {
		size_t one, head = diw_frame_own(s, p + from, n - from, &one), here = diw_min64(one, n - from - head);

		diw_count(DIW_C_sock_err_framed);
		memmove(p + to, p + from + head, here);
		to += here;
		from += head + here;
		from += diw_min64(DIW_SEAL_LEN, n - from);
		said += one;
	}
	*len = n - (from - to);
	if (f.udp) {
		ip_shorten(p + f.ip, from - to, to == f.data + said);
		put_udp(p + f.ip, p + f.udp, UDP + said, to == f.data + said);
	}
	/* ICMP extensions follow the quotation (RFC 4884) */
	memmove(p + to, p + from, n - from);
}

/* ---- The calls ---- */

ssize_t diw_errqueue_recvfrom(int fd, const struct diw_sock *s, void *buf, size_t len, int flags, struct sockaddr *addr,
			      socklen_t *addr_len)
{
	struct diw_hold h;
	size_t got;
	ssize_t n;

	if (!diw_stage_hold(KIND, &h))
		return -1;
	n = real.recvfrom(fd, h.mem, ERRQUEUE_ROOM, flags, addr, addr_len);
	if (n >= 0) {
		frame_strip(s, h.mem, (size_t)n, &got);
		got = diw_min64(got, len);
		if (got)
			memcpy(buf, h.mem, got);
		n = (ssize_t)got;
	}
	diw_stage_let_go(KIND, &h);
	return n;
}

/* Delivers the N bytes in STAGE as M's data. */
static size_t error_deliver(const struct diw_sock *s, struct msghdr *m, const struct msghdr *got, uint8_t *stage,
			    size_t n)
{
	size_t len, some;

	frame_strip(s, stage, n, &len);
	some = diw_iov_fill(m->msg_iov, m->msg_iovlen, stage, len);
	m->msg_namelen = got->msg_namelen;
	m->msg_controllen = got->msg_controllen;
	m->msg_flags = got->msg_flags | (some < len ? MSG_TRUNC : 0);
	return some;
}

ssize_t diw_errqueue_recvmsg(int fd, const struct diw_sock *s, struct msghdr *msg, int flags)
{
	struct diw_hold h;
	struct msghdr m = *msg;
	struct iovec iov;
	ssize_t n;

	if (!diw_stage_hold(KIND, &h))
		return -1;
	iov = (struct iovec){ h.mem, ERRQUEUE_ROOM };
	m.msg_iov = &iov;
	m.msg_iovlen = 1;
	n = real.recvmsg(fd, &m, flags);
	if (n >= 0)
		n = (ssize_t)error_deliver(s, msg, &m, h.mem, (size_t)n);
	diw_stage_let_go(KIND, &h);
	return n;
}

static bool error_wait_is_over(const struct timespec *left, unsigned done)
{
	return done && left && !left->tv_sec && !left->tv_nsec;
}

/* One message at a time: the kernel keeps the remaining timeout in TIMEOUT. */
int diw_errqueue_recvmmsg(int fd, const struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags,
			  struct timespec *timeout)
{
	struct diw_hold h;
	unsigned done;
	int saved = errno;

	if (!diw_stage_hold(KIND, &h))
		return -1;
	for (done = 0; done < n && !error_wait_is_over(timeout, done); done++) {
		struct iovec iov = { h.mem, ERRQUEUE_ROOM };
		struct mmsghdr one = { .msg_hdr = vec[done].msg_hdr };

		one.msg_hdr.msg_iov = &iov;
		one.msg_hdr.msg_iovlen = 1;
		if (real.recvmmsg(fd, &one, 1, flags, timeout) != 1)
			break;
		vec[done].msg_len = (unsigned)error_deliver(s, &vec[done].msg_hdr, &one.msg_hdr, h.mem, one.msg_len);
	}
	if (done)
		errno = saved;
	diw_stage_let_go(KIND, &h);
	return done ? (int)done : -1;
}
