/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that read and write streams and datagrams. */
#include <signal.h>

#include "verbs/rs/int.h"

static size_t msg_total(const struct msghdr *msg)
{
	size_t n = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		n += msg->msg_iov[i].iov_len;
	return n;
}

static bool call_blocks(const struct rs *s, int flags)
{
	return !s->nonblock && !(flags & MSG_DONTWAIT);
}

/* Waits, since no byte can move now. 0: try again; -errno: the call ends. *UNTIL is RS_NEVER at first. */
static int io_wait(struct rs *s, int flags, short events, int64_t timeo, uint64_t *until)
{
	if (!call_blocks(s, flags)) {
		rs_idle(s);
		return -EAGAIN;
	}
	if (*until == RS_NEVER)
		*until = rs_until(timeo);
	return rs_wait(s, events | RS_END, *until);
}

/* ---- Writing ---- */

static int broken_pipe(int flags)
{
	if (!(flags & MSG_NOSIGNAL))
		pthread_kill(pthread_self(), SIGPIPE);
	return -EPIPE;
}

/* 0: it can be written to. */
static int may_write(struct rs *s, int flags)
{
	if (s->wr_shut)
		return broken_pipe(flags);
	if (s->state == RS_CONNECTING)
		return -EAGAIN;
	if (s->err)
		return rs_take_error(s);
	if (s->state != RS_CONNECTED || rs_stream_over(s))
		return broken_pipe(flags);
	return 0;
}

static ssize_t write_stream(struct rs *s, const struct msghdr *msg, int flags)
{
	uint64_t until = RS_NEVER;
	size_t len = msg_total(msg), done = 0;
	ssize_t n;
	int rc;

	if (flags & MSG_OOB)
		return -EOPNOTSUPP;
	for (;;) {
		rc = may_write(s, flags);
		if (rc == -EAGAIN && call_blocks(s, flags))
			n = 0;
		else if (rc < 0)
			return done ? (ssize_t)done : rc;
		else
			n = rs_stream_put(s, msg->msg_iov, msg->msg_iovlen, done);
		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if (done == len)
			return (ssize_t)done;
		rs_look(s);
		if (n)
			continue;
		rc = io_wait(s, flags, POLLOUT, s->opt.sndtimeo, &until);
		if (rc < 0)
			return done ? (ssize_t)done : rc;
	}
}

ssize_t diw_rs_send(int fd, const struct msghdr *msg, int flags)
{
	struct rs *s;
	ssize_t rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	if (s->type == SOCK_DGRAM)
		rc = rs_dgram_send(s, msg, flags);
	else if (s->state == RS_CONNECTED && msg->msg_name && msg->msg_namelen)
		rc = -EISCONN;
	else
		rc = write_stream(s, msg, flags);
	rs_release(s);
	return rc;
}

/* ---- Reading ---- */

/* 1: there is data, or there may be later; 0: the end. */
static int may_read(struct rs *s)
{
	short events = rs_events(s);

	if (s->state == RS_CONNECTING)
		return 1;
	if (s->state != RS_CONNECTED)
		return s->err ? rs_take_error(s) : -ENOTCONN;
	if (s->err && !rs_stream_readable(s))
		return rs_take_error(s);
	return rs_stream_readable(s) || !(events & POLLRDHUP);
}

static ssize_t read_stream(struct rs *s, const struct msghdr *msg, int flags)
{
	uint64_t until = RS_NEVER;
	size_t len = msg_total(msg), done = 0;
	bool peek = flags & MSG_PEEK;
	int rc;

	if (flags & MSG_OOB)
		return -EINVAL;
	if (len == 0)
		return 0;
	for (;;) {
		if (s->state == RS_CONNECTED) {
			if (!rs_stream_readable(s))
				rs_look(s);
			done += (size_t)rs_stream_get(s, msg->msg_iov, msg->msg_iovlen, done, peek);
		}
		if (done == len || (done && (peek || !(flags & MSG_WAITALL))))
			return (ssize_t)done;
		rc = may_read(s);
		if (rc <= 0)
			return done ? (ssize_t)done : rc;
		rc = io_wait(s, flags, POLLIN, s->opt.rcvtimeo, &until);
		if (rc < 0)
			return done ? (ssize_t)done : rc;
	}
}

ssize_t diw_rs_recv(int fd, struct msghdr *msg, int flags)
{
	struct rs *s;
	ssize_t rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	if (s->type == SOCK_DGRAM) {
		rc = rs_dgram_recv(s, msg, flags);
	} else {
		rc = read_stream(s, msg, flags);
		msg->msg_namelen = 0;
		msg->msg_controllen = 0;
		msg->msg_flags = 0;
	}
	rs_release(s);
	return rc;
}
