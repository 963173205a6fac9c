/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving calls. A datagram is received whole into a stage of the thread, and the message is copied to the program's
 * buffer. That buffer may be too small for a frame, and no byte behind the message may change.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/segments.h"
#include "sockets_preload/reach.h"
#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

/* ---- One datagram ---- */

struct rx {
	int fd, flags;
	struct diw_keys keys;                /* of the socket at the start of the call: it may be closed meanwhile */
	uint64_t cookie;
	struct diw_came came;
	bool lost;                           /* lost by the bad network: treated as damaged */
	struct msghdr *msg, asked;           /* asked: the fields of *msg that the kernel overwrites */
	struct iovec one;                    /* the message, if there is one */
	struct diw_gro got;                  /* or all messages */
	bool gro;
	uint64_t began;                      /* when the call began, if there is SO_RCVTIMEO; else 0 */
};

/* Receives, and tells the sender that its datagram came, even if the program does not want the address. */
static DIW_COLD ssize_t take_and_tell(struct rx *r, int flags)
{
	struct sockaddr_storage from;
	struct msghdr *m = r->msg;
	socklen_t room = r->asked.msg_name ? r->asked.msg_namelen : 0;
	ssize_t n;

	m->msg_name = &from;
	m->msg_namelen = sizeof from;
	n = diw_bad_net_on ? diw_bad_net_recvmsg(r->fd, r->cookie, m, flags, &r->lost) : real.recvmsg(r->fd, m, flags);
	if (n >= 0) {
		if (diw_reach_tells())
			diw_reach_came(r->cookie, m);
		if (diw_bad_net_on)
			diw_addr_from_sockaddr(&r->came.src, (const struct sockaddr *)&from);
		if (room)
			memcpy(r->asked.msg_name, &from, room < m->msg_namelen ? room : m->msg_namelen);
	}
	m->msg_name = r->asked.msg_name;
	if (!m->msg_name)
		m->msg_namelen = r->asked.msg_namelen;
	return n;
}

static ssize_t datagram_take(struct rx *r, const struct diw_hold *h, int flags)
{
	struct iovec iov = { h->mem, DIW_STAGE };
	ssize_t n;

	*r->msg = r->asked;
	r->msg->msg_iov = &iov;
	r->msg->msg_iovlen = 1;
	if (r->gro)
		diw_gro_ask(r->msg, h->mem);
	flags &= ~MSG_TRUNC;
	n = diw_reach_tells() || diw_bad_net_on ? take_and_tell(r, flags) : diw_real_recvmsg(r->fd, r->msg, flags);
	r->msg->msg_iov = r->asked.msg_iov;
	r->msg->msg_iovlen = r->asked.msg_iovlen;
	return n;
}

static bool is_nonblocking(const struct rx *r)
{
	int fl = real.fcntl(r->fd, F_GETFL);

	return r->flags & MSG_DONTWAIT || (fl >= 0 && fl & O_NONBLOCK);
}

static uint64_t recv_timeout(int fd)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof tv;

	getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len);
	return (uint64_t)tv.tv_sec * DIW_S + (uint64_t)tv.tv_usec * DIW_US;
}

/* After a dropped datagram, a call with a timeout waits for the rest of the time. */
static DIW_COLD ssize_t take_in_time(struct rx *r, const struct diw_hold *h)
{
	uint64_t end = r->began + recv_timeout(r->fd);

	for (;;) {
		ssize_t n = datagram_take(r, h, r->flags | MSG_DONTWAIT);
		struct pollfd p = { .fd = r->fd, .events = POLLIN };
		uint64_t now = diw_clock_ns(), left = end > now ? end - now : 0;
		struct timespec ts = { .tv_sec = (time_t)(left / DIW_S), .tv_nsec = (long)(left % DIW_S) };
		int rc;

		if (n >= 0 || errno != EAGAIN || is_nonblocking(r) || !left)
			return n;
		rc = real.ppoll(&p, 1, &ts, NULL);
		if (rc < 0)
			return -1;
	}
}

/* The length of the message in a datagram of N bytes with a header of HEAD bytes, or none. */
static inline size_t datagram_payload(size_t n, size_t head, int flags)
{
	if (!(flags & MSG_PEEK))
		diw_count(DIW_LIKELY(head) ? DIW_C_sock_rx_framed : DIW_C_sock_rx_plain);
	if (DIW_LIKELY(head))
		return n - head - DIW_SEAL_LEN;
	diw_reach_look();                    /* the sender may wait for the confirmation that the next datagram came */
	return n;
}

static ssize_t take_another(struct rx *r, const struct diw_hold *h)
{
	if (r->flags & MSG_PEEK)             /* the damaged datagram is still in the queue */
		datagram_take(r, h, MSG_DONTWAIT);
	return r->began ? take_in_time(r, h) : datagram_take(r, h, r->flags);
}

/* Finds the message in the N bytes in the stage. False: damaged. */
static bool datagram_undo(struct rx *r, const struct diw_hold *h, size_t n)
{
	size_t head;

	if (r->lost)
		return false;
	if (r->gro)
		return diw_gro_undo(&r->keys, h->mem, n, &r->asked, r->msg, r->flags & MSG_PEEK,
				    diw_bad_net_on ? &r->came : NULL, &r->got);
	if (diw_frame_check(&r->keys, h->mem, n, &head) == DIW_FRAME_BAD)
		return false;
	r->one = (struct iovec){ h->mem + head, datagram_payload(n, head, r->flags) };
	r->got = (struct diw_gro){ &r->one, 1, r->one.iov_len };
	return true;
}

/* Receives the next datagram that is not a damaged frame. Returns -1 with errno, as recvmsg() does. */
static int datagram_next(struct rx *r, const struct diw_hold *h)
{
	ssize_t n = datagram_take(r, h, r->flags);

	while (n >= 0 && !datagram_undo(r, h, (size_t)n))
		n = take_another(r, h);
	return n < 0 ? -1 : 0;
}

static inline uint64_t now_if_timed(const struct diw_sock *s)
{
	return DIW_LIKELY(!s->timed) ? 0 : diw_clock_ns();
}

static void datagram_begin(struct rx *r, int fd, struct diw_sock *s, struct msghdr *msg, int flags, uint64_t began)
{
	r->fd = r->came.fd = fd;
	r->msg = msg;
	r->asked = *msg;
	r->flags = flags;
	r->keys = s->keys;
	r->cookie = s->cookie;
	r->gro = s->gro;
	r->lost = false;
	r->began = began;
}

size_t diw_iov_fill(const struct iovec *iov, size_t n, const uint8_t *data, size_t len)
{
	size_t done = 0;

	for (size_t i = 0; i < n && done < len; i++) {
		size_t some = len - done < iov[i].iov_len ? len - done : iov[i].iov_len;

		memcpy(iov[i].iov_base, data + done, some);
		done += some;
	}
	return done;
}

static ssize_t recv_msg(int fd, struct diw_sock *s, struct msghdr *msg, int flags, uint64_t began)
{
	struct rx r;
	struct diw_hold h;
	ssize_t n = -1;

	if (!msg || (msg->msg_iovlen && !msg->msg_iov))
		return real.recvmsg(fd, msg, flags);
	if (flags & MSG_ERRQUEUE)
		return diw_errqueue_recvmsg(fd, s, msg, flags);
	if (flags & MSG_PEEK && s->peeks_at)
		return real.recvmsg(fd, msg, flags);
	diw_sock_show(fd, s);
	datagram_begin(&r, fd, s, msg, flags, began);
	if (!diw_stage_hold(DIW_STAGE_ONE, &h))
		return -1;
	if (datagram_next(&r, &h) == 0) {
		size_t got = diw_gro_fill(msg->msg_iov, msg->msg_iovlen, &r.got);

		if (got < r.got.len)
			msg->msg_flags |= MSG_TRUNC;
		n = (ssize_t)(flags & MSG_TRUNC ? r.got.len : got);
	} else {
		int flags_then = msg->msg_flags;

		*msg = r.asked;
		msg->msg_flags = flags_then;
	}
	diw_stage_let_go(DIW_STAGE_ONE, &h);
	return n;
}

static __attribute__((noinline)) ssize_t recv_any(int fd, struct diw_sock *s, void *buf, size_t len, int flags,
						  struct sockaddr *addr, socklen_t *addr_len, uint64_t began)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_name = addr };
	ssize_t n;

	if (flags & MSG_ERRQUEUE && (buf || !len))
		return diw_errqueue_recvfrom(fd, s, buf, len, flags, addr, addr_len);
	if ((!buf && len) || (addr && (!addr_len || (int)*addr_len < 0)) || flags & MSG_ERRQUEUE)
		return diw_real_recvfrom(fd, buf, len, flags, addr, addr_len);
	if (addr)
		m.msg_namelen = *addr_len;
	n = recv_msg(fd, s, &m, flags, began);
	if (n >= 0 && addr)
		*addr_len = m.msg_namelen;
	return n;
}

/* Waits and receives once; again only if a damaged frame came. */
static inline ssize_t recv_one(int fd, struct diw_sock *s, void *buf, size_t len, int flags, struct sockaddr *addr,
			       socklen_t *addr_len)
{
	struct diw_keys keys = s->keys;
	socklen_t asked_len;
	uint64_t began;
	struct diw_hold h;
	size_t head, got;
	ssize_t n;

	if (!DIW_LIKELY(buf && !addr == !addr_len && !(flags & ~MSG_DONTWAIT) && !s->gro && !diw_reach_tells()))
		return recv_any(fd, s, buf, len, flags, addr, addr_len, now_if_timed(s));
	asked_len = addr ? *addr_len : 0;
	began = now_if_timed(s);
	diw_sock_show(fd, s);
	if (!diw_stage_hold(DIW_STAGE_ONE, &h))
		return -1;
	n = diw_real_recvfrom(fd, h.mem, DIW_STAGE, flags, addr, addr_len);
	if (DIW_LIKELY(n >= 0)) {
		if (!DIW_LIKELY(diw_frame_check(&keys, h.mem, (size_t)n, &head) != DIW_FRAME_BAD))
			goto damaged;
		got = datagram_payload((size_t)n, head, 0);
		got = got < len ? got : len;
		memcpy(buf, h.mem + head, got);
		n = (ssize_t)got;
	}
	diw_stage_let_go(DIW_STAGE_ONE, &h);
	return n;
damaged:
	diw_stage_let_go(DIW_STAGE_ONE, &h);
	if (addr)
		*addr_len = asked_len;
	return recv_any(fd, s, buf, len, flags, addr, addr_len, began);
}

DIW_HOT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *addr_len)
{
	struct diw_sock tmp, *s;

	if (!DIW_LIKELY(addr))
		return recv(fd, buf, len, flags);
	s = diw_sock_get(fd, &tmp);
	if (DIW_LIKELY(s))
		return recv_one(fd, s, buf, len, flags, addr, addr_len);
	return diw_stream_get(fd) ? diw_stream_recvfrom(fd, buf, len, flags, addr, addr_len) :
				    diw_real_recvfrom(fd, buf, len, flags, addr, addr_len);
}

DIW_HOT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	if (DIW_LIKELY(s))
		return recv_one(fd, s, buf, len, flags, NULL, NULL);
	return diw_stream_get(fd) ? diw_stream_recvfrom(fd, buf, len, flags, NULL, NULL) :
				    real.recv(fd, buf, len, flags);
}

DIW_HOT ssize_t read(int fd, void *buf, size_t len)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	ssize_t rc;

	if (!s || !len)
		return diw_stream_get(fd) ? diw_stream_read(fd, buf, len) : real.read(fd, buf, len);
	rc = recv_one(fd, s, buf, len, 0, NULL, NULL);
	return diw_sock_is_mistaken(fd, rc) ? real.read(fd, buf, len) : rc;
}

DIW_HOT ssize_t __read(int fd, void *buf, size_t len) DIW_ALIAS(read);

DIW_FLAT ssize_t diw_sock_recvmsg(int fd, struct diw_sock *s, struct msghdr *msg, int flags)
{
	return recv_msg(fd, s, msg, flags, now_if_timed(s));
}

int diw_sock_next(int fd, struct diw_sock *s, int *bytes)
{
	struct msghdr m = { 0 };
	struct rx r;
	struct diw_hold h;
	int saved = errno, rc;

	datagram_begin(&r, fd, s, &m, MSG_PEEK | MSG_DONTWAIT, 0);
	if (s->peeks_at || !diw_stage_hold(DIW_STAGE_ONE, &h))
		return real.ioctl(fd, FIONREAD, bytes);
	rc = datagram_next(&r, &h);
	if (rc == 0)
		*bytes = (int)r.got.len;
	diw_stage_let_go(DIW_STAGE_ONE, &h);
	if (rc < 0)
		return real.ioctl(fd, FIONREAD, bytes);
	errno = saved;
	return 0;
}
