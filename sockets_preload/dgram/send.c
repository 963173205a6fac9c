/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending calls: a message is sent in a frame if its receiver is known to be interposed, and plain otherwise. */
#include <errno.h>
#include <string.h>

#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/group.h"
#include "sockets_preload/dgram/route.h"
#include "sockets_preload/dgram/segments.h"
#include "sockets_preload/stage.h"
#include "sockets_preload/stream/stream.h"

/* Staged on the stack, which may be a signal handler's. Larger messages are gathered by the kernel. */
#define DGRAM_STAGED 1536u
#define MOST_PIECES 62u
#define UNFRAMED (MSG_MORE | MSG_ZEROCOPY | MSG_OOB)

struct tx {
	int fd, flags;
	struct diw_sock *s;
	size_t len;
	bool marked;                         /* control data asks for the message to come back, independent of the
					      * socket's options */
	bool steered;                        /* control data may make it leave by another interface */
	uint16_t size;                       /* the kernel cuts the message to this size; 0: it does not */
	enum diw_sock_counter why;           /* the reason why it is sent plain */
	struct diw_route route;
};

size_t diw_iov_len(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len = iov[i].iov_len < SIZE_MAX - len ? len + iov[i].iov_len : SIZE_MAX;
	return len;
}

static uint32_t crc_of(uint32_t crc, const struct iovec *iov, size_t n)
{
	for (size_t i = 0; i < n; i++)
		crc = diw_crc32(crc, iov[i].iov_base, iov[i].iov_len);
	return crc;
}

/* ---- Whether a message is framed ---- */

static bool is_address(const struct sockaddr *addr, socklen_t len)
{
	return DIW_LIKELY(len >= sizeof(struct sockaddr_in)) &&
	       (DIW_LIKELY(addr->sa_family == AF_INET) ||
		(addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)));
}

static DIW_COLD const struct sockaddr *ask_peer(int fd, struct sockaddr_in6 *name)
{
	socklen_t len = sizeof *name;
	int saved = errno;

	if (getpeername(fd, (struct sockaddr *)name, &len) == 0)
		return (struct sockaddr *)name;
	errno = saved;
	return NULL;
}

/* The peer of a connected socket. Another process that shares the socket may have connected it to another peer. */
static const struct sockaddr *connected_to(const struct tx *t, struct sockaddr_in6 *name)
{
	if (!DIW_LIKELY(!diw_sock_is_shared(t->s)))
		return ask_peer(t->fd, name);
	return t->s->connected ? (const struct sockaddr *)&t->s->peer_name : NULL;
}

static DIW_COLD bool goes_plain(struct tx *t, enum diw_sock_counter reason)
{
	t->why = reason;
	diw_count(reason);
	return false;
}

static DIW_COLD bool plain_to(struct tx *t, const struct sockaddr *to)
{
	struct diw_addr dst = { 0 };

	if (to)
		diw_addr_from_sockaddr(&dst, to);
	if (!diw_group_is(t->s, &dst))
		return goes_plain(t, DIW_C_sock_plain_unknown);
	return goes_plain(t, t->route.away ? DIW_C_sock_plain_away : DIW_C_sock_plain_group);
}

/* MSG_MORE begins a datagram, which ends with the next call without MSG_MORE. */
static DIW_COLD bool plain_by_flags(struct tx *t)
{
	atomic_store_explicit(&t->s->corked, t->flags & MSG_MORE, memory_order_relaxed);
	return goes_plain(t, DIW_C_sock_plain_flags);
}

/* Checks the flags, and the options of the socket. */
static inline bool may_be_framed(const struct diw_sock *s, int flags)
{
	return !(flags & UNFRAMED) && s->plain == NO_REASON && !atomic_load_explicit(&s->corked, memory_order_relaxed);
}

static __attribute__((noinline)) bool is_framed(struct tx *t, const struct sockaddr *addr, socklen_t addr_len)
{
	struct sockaddr_in6 name;
	const struct sockaddr *to;

	if (t->flags & UNFRAMED || atomic_load_explicit(&t->s->corked, memory_order_relaxed))
		return plain_by_flags(t);
	if (t->s->plain != NO_REASON && t->s->plain != IS_CUT)
		return goes_plain(t, t->s->plain);
	t->route.away = false;
	to = !addr ? connected_to(t, &name) : is_address(addr, addr_len) ? addr : NULL;
	if (!to || !diw_route_find(t->s, t->fd, to, &t->route))
		return plain_to(t, to);
	if (t->route.home && (t->steered || t->flags & MSG_DONTROUTE))
		return goes_plain(t, DIW_C_sock_plain_away);
	return t->len <= DIW_FRAME_MAX - DIW_SEAL_LEN - diw_frame_head_len(&t->route) ||
	       goes_plain(t, DIW_C_sock_plain_size);
}

/* The usual case: the route is known, and the message is short. */
static inline bool is_usual(const struct diw_sock *s, size_t len, int flags, const struct sockaddr *addr,
			    socklen_t addr_len, struct diw_route *route)
{
	if (addr ? !is_address(addr, addr_len) : !s->connected || diw_sock_is_shared(s))
		return false;
	return len <= DGRAM_STAGED && may_be_framed(s, flags) &&
	       diw_hop_find(s, addr ? addr : (const struct sockaddr *)&s->peer_name, route);
}

/* ---- Sending ---- */

static inline size_t frame_stage(const struct diw_route *r, uint8_t *frame, size_t len, const struct iovec *iov,
				 size_t n, const struct diw_sock *s, bool marked)
{
	uint8_t *p = frame + diw_frame_head_len(r);

	diw_frame_begin(frame, r, len, s, marked);
	for (size_t i = 0; i < n; i++) {
		memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	return diw_frame_end(frame, p, r);
}

/* Sends a message. Something that is not a whole datagram is passed on unchanged. HEAD: header of a frame; 0: plain. */
static ssize_t tx_put_out(const struct tx *t, const struct msghdr *m, size_t head)
{
	if (DIW_LIKELY(!diw_bad_net_on) || t->why == DIW_C_sock_plain_flags ||
	    diw_sock_option(t->fd, IPPROTO_UDP, UDP_CORK))
		return diw_real_sendmsg(t->fd, m, t->flags);
	return diw_bad_net_sendmsg(t->fd, m, t->flags, t->size, head);
}

static inline bool is_marked(const struct tx *t)
{
	return t->s->watched || t->marked;
}

/* Puts head and end around the N entries of IOV: N + 2 pieces of PIECE. */
static void frame_enclose(const struct tx *t, struct iovec *piece, uint8_t *first, uint8_t *crc,
			  const struct iovec *iov, size_t n)
{
	size_t len = diw_frame_head_len(&t->route);

	diw_frame_begin(first, &t->route, t->len, t->s, is_marked(t));
	diw_seal_put(crc, t->route.crc ? crc_of(diw_crc32(0, first, len), iov, n) : 0);
	piece[0] = (struct iovec){ first, len };
	memcpy(piece + 1, iov, n * sizeof *iov);
	piece[n + 1] = (struct iovec){ crc, DIW_SEAL_LEN };
}

/* Address and control data are those of MSG. */
static __attribute__((noinline)) ssize_t tx_gather(const struct tx *t, const struct msghdr *msg,
						   const struct iovec *iov, size_t n)
{
	struct iovec piece[MOST_PIECES + 2];
	uint8_t first[DIW_FRAME_WRITE], crc[DIW_SEAL_LEN];
	struct msghdr m = *msg;

	frame_enclose(t, piece, first, crc, iov, n);
	m.msg_iov = piece;
	m.msg_iovlen = n + 2;
	return tx_put_out(t, &m, diw_frame_head_len(&t->route));
}

/* Whether the message was refused because of its frame, and may leave without. ENOBUFS with IP_RECVERR comes from a
 * full queue, after the kernel has counted and reported the datagram as sent. */
static bool is_refused(const struct diw_sock *s, ssize_t rc)
{
	return rc < 0 && (errno == EMSGSIZE || (errno == ENOBUFS && !s->watched));
}

/* The message was not sent in its frame: whether that is the call's result. */
static DIW_COLD bool is_final(const struct diw_sock *s, ssize_t rc)
{
	if (!is_refused(s, rc))
		return true;
	diw_count(DIW_C_sock_plain_size);
	diw_add(DIW_C_sock_tx_framed, -1ull);
	return false;
}

/* The path of all single messages; unusual ones are checked before. */
static inline ssize_t send_one(int fd, struct diw_sock *s, const void *buf, size_t len, int flags,
			       const struct sockaddr *addr, socklen_t addr_len)
{
	struct iovec iov = { (void *)buf, len };
	uint8_t frame[DGRAM_STAGED + DIW_FRAME_EXTRA];
	struct tx t;
	ssize_t rc;

	if (!DIW_LIKELY(buf && is_usual(s, len, flags, addr, addr_len, &t.route))) {
		t.fd = fd;
		t.flags = flags;
		t.s = s;
		t.len = len;
		t.marked = t.steered = false;
		if ((s->plain == IS_CUT || diw_bad_net_on) && (buf || !len) && len <= DIW_FRAME_MAX)
			return diw_sock_sendmsg(fd, s, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1,
				.msg_name = (void *)addr, .msg_namelen = addr_len }, flags);
		if ((!buf && len) || !is_framed(&t, addr, addr_len))
			return diw_real_sendto(fd, buf, len, flags, addr, addr_len);
	}
	if (DIW_LIKELY(len <= DGRAM_STAGED))
		rc = diw_real_sendto(fd, frame, frame_stage(&t.route, frame, len, &iov, 1, s, s->watched), flags, addr,
				     addr_len);
	else
		rc = tx_gather(&t, &(struct msghdr){ .msg_name = (void *)addr, .msg_namelen = addr_len }, &iov, 1);
	if (DIW_LIKELY(rc >= 0))
		return (ssize_t)len;
	return is_final(s, rc) ? rc : diw_real_sendto(fd, buf, len, flags, addr, addr_len);
}

DIW_HOT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t addr_len)
{
	struct diw_sock tmp, *s;

	if (!DIW_LIKELY(addr))
		return send(fd, buf, len, flags);
	s = diw_sock_get(fd, &tmp);
	if (DIW_LIKELY(s))
		return send_one(fd, s, buf, len, flags, addr, addr_len);
	return diw_stream_get(fd) ? diw_stream_sendto(fd, buf, len, flags, addr, addr_len) :
				    diw_real_sendto(fd, buf, len, flags, addr, addr_len);
}

DIW_HOT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);

	if (DIW_LIKELY(s))
		return send_one(fd, s, buf, len, flags, NULL, 0);
	return diw_stream_get(fd) ? diw_stream_sendto(fd, buf, len, flags, NULL, 0) : real.send(fd, buf, len, flags);
}

DIW_HOT ssize_t __send(int fd, const void *buf, size_t len, int flags) DIW_ALIAS(send);

DIW_HOT ssize_t write(int fd, const void *buf, size_t len)
{
	struct diw_sock tmp, *s = diw_sock_get(fd, &tmp);
	ssize_t rc;

	if (!s)
		return diw_stream_get(fd) ? diw_stream_write(fd, buf, len) : real.write(fd, buf, len);
	rc = send_one(fd, s, buf, len, 0, NULL, 0);
	return diw_sock_is_mistaken(fd, rc) ? real.write(fd, buf, len) : rc;
}

DIW_HOT ssize_t __write(int fd, const void *buf, size_t len) DIW_ALIAS(write);

/* The kernel must report an error, or the message has more pieces than are counted here. */
static bool is_odd(const struct msghdr *msg)
{
	return (msg->msg_iovlen && !msg->msg_iov) || msg->msg_iovlen > MOST_PIECES;
}

static bool is_segment(const struct cmsghdr *c)
{
	return c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT;
}

/* Control data that frames do not allow: the kernel would refuse it, or report that it does not fragment. Other control
 * data may bring the message back, or change its interface. */
static bool is_odd_control(const struct msghdr *msg, struct tx *t)
{
	struct msghdr m = *msg;
	const char *end;

	t->size = t->s->segment;
	if (!msg->msg_control || !msg->msg_controllen)
		return false;
	end = (char *)msg->msg_control + msg->msg_controllen;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (is_segment(c) &&
		    (c->cmsg_len != CMSG_LEN(sizeof t->size) || c->cmsg_len > (size_t)(end - (char *)c)))
			return true;
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_DONTFRAG)
			return true;
		if (is_segment(c))
			memcpy(&t->size, CMSG_DATA(c), sizeof t->size);
		t->marked |= c->cmsg_level == SOL_SOCKET;
		t->steered |= c->cmsg_level == IPPROTO_IP || c->cmsg_level == IPPROTO_IPV6 ||
			      (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_MARK);
	}
	return false;
}

/* Each of its messages must fit. */
static ssize_t send_cut(struct tx *t, const struct msghdr *msg)
{
	struct diw_burst b = { t->fd, t->flags, t->s, &t->route, is_marked(t), t->size };
	size_t len = t->len;
	ssize_t rc;

	t->len = len < t->size ? len : t->size;
	if (is_framed(t, msg->msg_name, msg->msg_name ? msg->msg_namelen : 0)) {
		rc = diw_gso_send(&b, msg, len);
		if (rc >= 0 || (errno != EINVAL && !is_refused(t->s, rc)))
			return rc;
		diw_count(DIW_C_sock_plain_size);
	}
	return tx_put_out(t, msg, 0);
}

static ssize_t sendmsg_staged(const struct tx *t, const struct msghdr *msg)
{
	uint8_t frame[DGRAM_STAGED + DIW_FRAME_EXTRA];
	struct iovec one = { frame, frame_stage(&t->route, frame, t->len, msg->msg_iov, msg->msg_iovlen, t->s,
						is_marked(t)) };
	struct msghdr m = *msg;

	m.msg_iov = &one;
	m.msg_iovlen = 1;
	return tx_put_out(t, &m, diw_frame_head_len(&t->route));
}

DIW_FLAT ssize_t diw_sock_sendmsg(int fd, struct diw_sock *s, const struct msghdr *msg, int flags)
{
	struct tx t = { .fd = fd, .flags = flags, .s = s };
	ssize_t rc;

	if (!msg || is_odd(msg))
		return real.sendmsg(fd, msg, flags);
	t.len = diw_iov_len(msg->msg_iov, msg->msg_iovlen);
	if (is_odd_control(msg, &t)) {
		goes_plain(&t, DIW_C_sock_plain_flags);
	} else if (t.size) {
		return send_cut(&t, msg);
	} else if (is_framed(&t, msg->msg_name, msg->msg_name ? msg->msg_namelen : 0)) {
		rc = t.len <= DGRAM_STAGED ? sendmsg_staged(&t, msg) :
					     tx_gather(&t, msg, msg->msg_iov, msg->msg_iovlen);
		if (DIW_LIKELY(rc >= 0))
			return (ssize_t)t.len;
		if (is_final(s, rc))
			return rc;
	}
	return tx_put_out(&t, msg, 0);
}

/* ---- Many messages at once ---- */

/* The messages of one system call. */
struct msg_batch {
	int fd, flags;
	struct diw_sock *s;
	struct diw_hold stage;
	uint8_t *room;                       /* free memory of the stage */
	unsigned n, pieces;
	struct mmsghdr vec[DIW_STAGE_SLOTS];
	uint32_t counted[DIW_STAGE_SLOTS];   /* enum diw_sock_counter, or NO_REASON */
	size_t len[DIW_STAGE_SLOTS];         /* length without the frame */
	struct iovec piece[MOST_PIECES + 2];
};

static void frame_in(struct msg_batch *b, const struct tx *t, struct msghdr *m)
{
	struct iovec *piece = b->piece + b->pieces;

	if (t->len <= DGRAM_STAGED) {
		*piece = (struct iovec){ b->room, frame_stage(&t->route, b->room, t->len, m->msg_iov, m->msg_iovlen,
						       t->s, is_marked(t)) };
		b->room += piece->iov_len;
		m->msg_iovlen = 1;
	} else {
		frame_enclose(t, piece, b->room, b->room + DIW_FRAME_WRITE, m->msg_iov, m->msg_iovlen);
		b->room += DIW_FRAME_EXTRA;
		m->msg_iovlen += 2;
	}
	m->msg_iov = piece;
	b->pieces += m->msg_iovlen;
}

/* Adds MSG to the batch. False: the batch is full, or MSG must be sent alone. */
static bool batch_join(struct msg_batch *b, const struct msghdr *msg)
{
	struct tx t = { .fd = b->fd, .flags = b->flags, .s = b->s, .why = DIW_C_sock_tx_framed };
	bool odd = is_odd(msg), odd_control = !odd && is_odd_control(msg, &t);

	if (diw_bad_net_on || (!odd && !odd_control && t.size))
		return false;
	if (b->n == DIW_STAGE_SLOTS || (!odd && b->pieces + msg->msg_iovlen + 2 > MOST_PIECES + 2))
		return false;
	b->vec[b->n].msg_hdr = *msg;
	b->counted[b->n] = NO_REASON;
	if (!odd) {
		t.len = diw_iov_len(msg->msg_iov, msg->msg_iovlen);
		if (odd_control)
			goes_plain(&t, DIW_C_sock_plain_flags);
		else if (is_framed(&t, msg->msg_name, msg->msg_name ? msg->msg_namelen : 0))
			frame_in(b, &t, &b->vec[b->n].msg_hdr);
		b->counted[b->n] = t.why;
		b->len[b->n] = t.len;
	}
	b->n++;
	return true;
}

/* Like sendmmsg(), for as many of the N messages as a batch takes: *ASKED. */
static int send_batch(struct msg_batch *b, struct mmsghdr *vec, unsigned n, unsigned *asked)
{
	int rc, sent;

	b->n = b->pieces = 0;
	b->room = b->stage.mem;
	while (b->n < n && batch_join(b, &vec[b->n].msg_hdr))
		;
	*asked = b->n;
	if (!b->n)
		return 0;
	rc = real.sendmmsg(b->fd, b->vec, b->n, b->flags);
	sent = rc < 0 ? 0 : rc;
	for (unsigned i = 0; i < b->n; i++)
		if ((int)i >= sent && b->counted[i] != NO_REASON)
			diw_add(b->counted[i], -1ull);
		else if ((int)i < sent)
			vec[i].msg_len = b->counted[i] == DIW_C_sock_tx_framed ? (unsigned)b->len[i] :
										 b->vec[i].msg_len;
	return rc;
}

/* Sends the first message that was refused again, without its frame. Behind other messages, its error is not known, so
 * the second attempt must not wait. */
static bool sent_alone(const struct msg_batch *b, unsigned i, struct mmsghdr *m, int rc)
{
	ssize_t n;

	if (b->counted[i] != DIW_C_sock_tx_framed || (rc < 0 && !is_refused(b->s, rc)))
		return false;
	n = diw_sock_sendmsg(b->fd, b->s, &m->msg_hdr, rc < 0 ? b->flags : b->flags | MSG_DONTWAIT);
	if (n >= 0)
		m->msg_len = (unsigned)n;
	return n >= 0;
}

static bool sent_apart(const struct msg_batch *b, struct mmsghdr *m)
{
	ssize_t n = diw_sock_sendmsg(b->fd, b->s, &m->msg_hdr, b->flags);

	if (n >= 0)
		m->msg_len = (unsigned)n;
	return n >= 0;
}

/* Returns how many were sent, or the error of the first. */
int diw_sock_sendmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags)
{
	struct msg_batch b;
	unsigned done = 0;

	b.fd = fd;
	b.flags = flags;
	b.s = s;
	n = n < UIO_MAXIOV ? n : UIO_MAXIOV;
	if (!diw_stage_hold(DIW_STAGE_MANY, &b.stage))
		return -1;
	while (done < n) {
		unsigned asked, sent;
		int rc = send_batch(&b, vec + done, n - done, &asked);

		sent = rc < 0 ? 0 : (unsigned)rc;
		done += sent;
		if (asked && sent == asked)
			continue;
		if (asked ? !sent_alone(&b, sent, &vec[done], rc) : !sent_apart(&b, &vec[done]))
			break;
		done++;
	}
	diw_stage_let_go(DIW_STAGE_MANY, &b.stage);
	return done ? (int)done : -1;
}
