/* SPDX-License-Identifier: BSD-2-Clause */
/* recvmmsg(): one system call receives as many datagrams as the stage has slots. The kernel's behaviour between
 * datagrams is kept: timeouts, MSG_WAITFORONE, an error behind the first one. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/dgram/frame.h"
#include "sockets_preload/dgram/segments.h"
#include "sockets_preload/reach.h"
#include "sockets_preload/stage.h"

struct many {
	int fd, flags;
	struct diw_keys keys;                /* of the socket at the start of the call: it may be closed meanwhile */
	uint64_t cookie;
	bool gro;
	struct diw_hold stage;
	struct mmsghdr vec[DIW_STAGE_SLOTS]; /* the program's, except where data goes */
	struct iovec iov[DIW_STAGE_SLOTS];
};

/* Returns how many messages can be requested at once; 0: the kernel must report the error of the first. */
static unsigned many_ask(struct many *m, const struct mmsghdr *vec, unsigned n)
{
	unsigned i;

	for (i = 0; i < n && i < DIW_STAGE_SLOTS; i++) {
		const struct msghdr *h = &vec[i].msg_hdr;

		if (h->msg_iovlen > UIO_MAXIOV || (h->msg_iovlen && !h->msg_iov))
			break;
		m->iov[i] = (struct iovec){ m->stage.mem + i * DIW_STAGE_SLOT, DIW_STAGE };
		m->vec[i].msg_hdr = *h;
		m->vec[i].msg_hdr.msg_iov = &m->iov[i];
		m->vec[i].msg_hdr.msg_iovlen = 1;
		if (m->gro)
			diw_gro_ask(&m->vec[i].msg_hdr, m->iov[i].iov_base);
	}
	return i;
}

/* Messages before this one were dropped, so FROM's name and control data go to TO, which may have less room. */
static void move_name(struct msghdr *to, const struct msghdr *from, struct msghdr *got)
{
	if (to->msg_name && from->msg_name)
		memcpy(to->msg_name, from->msg_name,
		       diw_min64(got->msg_namelen, diw_min64(to->msg_namelen, from->msg_namelen)));
	if (!from->msg_name)
		got->msg_namelen = 0;
}

static void move_control(struct msghdr *to, const struct msghdr *from, struct msghdr *got)
{
	if (!to->msg_control || got->msg_controllen > to->msg_controllen) {
		got->msg_flags |= got->msg_controllen ? MSG_CTRUNC : 0;
		got->msg_controllen = 0;
	}
	if (got->msg_controllen)
		memcpy(to->msg_control, from->msg_control, got->msg_controllen);
}

static void many_give(const struct many *m, struct mmsghdr *to, const struct msghdr *got, const struct diw_gro *g)
{
	size_t some = diw_gro_fill(to->msg_hdr.msg_iov, to->msg_hdr.msg_iovlen, g), len = g->len;

	to->msg_hdr.msg_namelen = got->msg_namelen;
	to->msg_hdr.msg_controllen = got->msg_controllen;
	to->msg_hdr.msg_flags = got->msg_flags | (some < len ? MSG_TRUNC : 0);
	to->msg_len = (unsigned)(m->flags & MSG_TRUNC ? len : some);
}

/* Finds the message of datagram I: *ONE. False: damaged. */
static bool many_undo(struct many *m, unsigned i, struct iovec *one)
{
	const uint8_t *p = m->iov[i].iov_base;
	size_t len = m->vec[i].msg_len, head = 0;
	enum diw_frame what = diw_frame_check(&m->keys, p, len, &head);

	if (what == DIW_FRAME_BAD)
		return false;
	*one = (struct iovec){ (void *)(p + head), what == DIW_FRAME_GOOD ? len - head - DIW_SEAL_LEN : len };
	if (what == DIW_FRAME_NONE)
		diw_reach_look();
	if (!(m->flags & MSG_PEEK))
		diw_count(what == DIW_FRAME_GOOD ? DIW_C_sock_rx_framed : DIW_C_sock_rx_plain);
	return true;
}

/* Moves the datagrams of N that are not damaged frames to the front of VEC. Returns how many. */
static unsigned many_deliver(struct many *m, struct mmsghdr *vec, unsigned n)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < n; i++) {
		struct msghdr *got = &m->vec[i].msg_hdr;
		struct iovec one;
		struct diw_gro g = { &one, 1, 0 };

		if (m->gro ? !diw_gro_undo(&m->keys, m->iov[i].iov_base, m->vec[i].msg_len, &vec[kept].msg_hdr, got,
					   m->flags & MSG_PEEK, NULL, &g) : !many_undo(m, i, &one))
			continue;
		if (!m->gro)
			g.len = one.iov_len;
		if (diw_reach_tells())
			diw_reach_came(m->cookie, got);
		if (kept < i)
			move_name(&vec[kept].msg_hdr, &vec[i].msg_hdr, got);
		if (kept < i && !m->gro)
			move_control(&vec[kept].msg_hdr, &vec[i].msg_hdr, got);
		many_give(m, &vec[kept++], got, &g);
	}
	return kept;
}

static bool many_is_over(const struct timespec *left)
{
	return left && left->tv_sec == 0 && left->tv_nsec == 0;
}

static int many_receive(struct many *m, struct mmsghdr *vec, unsigned n, struct timespec *timeout)
{
	unsigned got = 0;

	while (got < n) {
		unsigned asked = many_ask(m, vec + got, n - got), kept;
		int rc = asked ? real.recvmmsg(m->fd, m->vec, asked, m->flags & ~MSG_TRUNC, timeout) :
				 real.recvmmsg(m->fd, vec + got, 1, m->flags, timeout);

		if (rc < 0 || !asked)
			return got ? (int)got : rc;
		kept = many_deliver(m, vec + got, (unsigned)rc);
		got += kept;
		if (got && ((unsigned)rc < asked || many_is_over(timeout)))
			break;
		if (got && m->flags & MSG_WAITFORONE)
			m->flags |= MSG_DONTWAIT;
		if (!kept && m->flags & MSG_PEEK)    /* the damaged datagram is still in the queue */
			real.recv(m->fd, m->stage.mem, 1, MSG_DONTWAIT);
	}
	return (int)got;
}

/* Receives one by one: the capture needs each sender's address, which the program may not have asked for. */
static DIW_COLD int one_by_one(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags,
			       struct timespec *timeout)
{
	uint64_t now = diw_clock_ns(), end = now;
	unsigned got;

	if (timeout && (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= (long)DIW_S)) {
		errno = EINVAL;
		return -1;
	}
	if (timeout)
		end += (uint64_t)timeout->tv_sec * DIW_S + (uint64_t)timeout->tv_nsec;
	for (got = 0; got < n && (!got || !timeout || now < end); got++) {
		ssize_t len = diw_sock_recvmsg(fd, s, &vec[got].msg_hdr, flags & ~MSG_WAITFORONE);

		if (len < 0)
			break;
		vec[got].msg_len = (unsigned)len;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		now = diw_clock_ns();
	}
	if (timeout && got) {
		uint64_t left = end > now ? end - now : 0;

		*timeout = (struct timespec){ .tv_sec = (time_t)(left / DIW_S), .tv_nsec = (long)(left % DIW_S) };
	}
	return got ? (int)got : -1;
}

int diw_sock_recvmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout)
{
	struct many m;
	int rc;

	if (flags & MSG_ERRQUEUE)
		return diw_errqueue_recvmmsg(fd, s, vec, n, flags, timeout);
	if (flags & MSG_PEEK && s->peeks_at)
		return real.recvmmsg(fd, vec, n, flags, timeout);
	if (diw_bad_net_on)
		return one_by_one(fd, s, vec, n, flags, timeout);
	diw_sock_show(fd, s);
	m.fd = fd;
	m.flags = flags;
	m.keys = s->keys;
	m.cookie = s->cookie;
	m.gro = s->gro;
	if (!diw_stage_hold(DIW_STAGE_MANY, &m.stage))
		return -1;
	rc = many_receive(&m, vec, n, timeout);
	diw_stage_let_go(DIW_STAGE_MANY, &m.stage);
	return rc;
}
