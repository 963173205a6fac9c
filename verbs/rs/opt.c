/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of sockets, and flags of fcntl(). */
#include <netinet/tcp.h>
#include <unistd.h>

#include "verbs/rs/int.h"

#define RING_DEFAULT (512 << 10)

/* Boolean options. Only KEEPALIVE changes a socket's behaviour; the others are stored. Every socket behaves as with
 * NODELAY and REUSEADDR: data leaves at once, and an address can be bound when no socket listens on it. */
enum { KEEPALIVE = 1, NODELAY = 2, REUSEADDR = 4, BROADCAST = 8, REUSEPORT = 16, CORK = 32, QUICKACK = 64,
	OOBINLINE = 128 };

static const struct { int level, name; uint32_t flag; } switches[] = {
	{ SOL_SOCKET, SO_KEEPALIVE, KEEPALIVE }, { SOL_SOCKET, SO_REUSEADDR, REUSEADDR },
	{ SOL_SOCKET, SO_BROADCAST, BROADCAST }, { SOL_SOCKET, SO_REUSEPORT, REUSEPORT },
	{ SOL_SOCKET, SO_OOBINLINE, OOBINLINE }, { IPPROTO_TCP, TCP_NODELAY, NODELAY },
	{ IPPROTO_TCP, TCP_CORK, CORK }, { IPPROTO_TCP, TCP_QUICKACK, QUICKACK },
};

void rs_opt_init(struct rs *s)
{
	s->opt = (struct rs_opts){
		.sndbuf = RING_DEFAULT, .rcvbuf = RING_DEFAULT, .inline_size = 64, .sqsize = 384, .rqsize = 384,
		.flags = NODELAY, .keepidle = 7200,
	};
}

void rs_opt_inherit(struct rs *child, const struct rs *parent)
{
	child->opt = parent->opt;
}

void rs_opt_conn(const struct rs *s, struct diw_conn_attr *a)
{
	a->keepalive_s = s->opt.flags & KEEPALIVE ? (unsigned)s->opt.keepidle : 0;
	a->dscp = (uint8_t)(s->opt.tos >> 2 & 63);
}

/* ---- The place of each option ---- */

static int *opt_int(struct rs *s, int level, int name)
{
	static const struct { int level, name; size_t offset; } numbers[] = {
		{ SOL_SOCKET, SO_SNDBUF, offsetof(struct rs_opts, sndbuf) },
		{ SOL_SOCKET, SO_RCVBUF, offsetof(struct rs_opts, rcvbuf) },
		{ IPPROTO_IP, IP_TOS, offsetof(struct rs_opts, tos) },
		{ IPPROTO_IPV6, IPV6_TCLASS, offsetof(struct rs_opts, tos) },
		{ IPPROTO_IPV6, IPV6_V6ONLY, offsetof(struct rs_opts, v6only) },
		{ IPPROTO_TCP, TCP_KEEPIDLE, offsetof(struct rs_opts, keepidle) },
		{ DIW_RS_SOL, DIW_RS_SQSIZE, offsetof(struct rs_opts, sqsize) },
		{ DIW_RS_SOL, DIW_RS_RQSIZE, offsetof(struct rs_opts, rqsize) },
		{ DIW_RS_SOL, DIW_RS_INLINE, offsetof(struct rs_opts, inline_size) },
		{ DIW_RS_SOL, DIW_RS_IOMAPSIZE, offsetof(struct rs_opts, iomapsize) },
	};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (numbers[i].level == level && numbers[i].name == name)
			return (int *)(void *)((char *)&s->opt + numbers[i].offset);
	return NULL;
}

static uint32_t opt_flag(int level, int name)
{
	for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
		if (switches[i].level == level && switches[i].name == name)
			return switches[i].flag;
	return 0;
}

static int64_t *opt_timeout(struct rs *s, int level, int name)
{
	if (level != SOL_SOCKET)
		return NULL;
	return name == SO_RCVTIMEO ? &s->opt.rcvtimeo : name == SO_SNDTIMEO ? &s->opt.sndtimeo : NULL;
}

/* ---- Setting ---- */

static int set_timeout(int64_t *ns, const void *value, socklen_t len)
{
	struct timeval tv;

	if (len < sizeof tv)
		return -EINVAL;
	memcpy(&tv, value, sizeof tv);
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	*ns = tv.tv_sec < 0 ? 1 : tv.tv_sec > INT32_MAX ? 0 : tv.tv_sec * (int64_t)DIW_S + tv.tv_usec * (int64_t)DIW_US;
	return 0;
}

static int set_number(struct rs *s, int level, int name, int v)
{
	uint32_t f = opt_flag(level, name);
	int *n = opt_int(s, level, name);

	if (!f && !n)
		return -ENOPROTOOPT;
	if (f) {
		s->opt.flags = v ? s->opt.flags | f : s->opt.flags & ~f;
		return 0;
	}
	if (v < 0 || (name == TCP_KEEPIDLE && level == IPPROTO_TCP && (v < 1 || v > 32767)))
		return -EINVAL;
	if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY && (s->bound || s->domain != AF_INET6))
		return -EINVAL;
	*n = v;
	return 0;
}

static int opt_set(struct rs *s, int level, int name, const void *value, socklen_t len)
{
	int64_t *ns = opt_timeout(s, level, name);
	int v;

	if (!value)
		return -EFAULT;
	if (ns)
		return set_timeout(ns, value, len);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (len < sizeof s->opt.linger)
			return -EINVAL;
		memcpy(&s->opt.linger, value, sizeof s->opt.linger);
		return 0;
	}
	if (level == IPPROTO_IP && name == IP_TOS && len == 1)
		return set_number(s, level, name, *(const uint8_t *)value);
	if (len < sizeof v)
		return -EINVAL;
	memcpy(&v, value, sizeof v);
	return set_number(s, level, name, v);
}

int diw_rs_setopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	rc = opt_set(s, level, name, value, len);
	rs_release(s);
	return rc;
}

/* ---- Getting ---- */

static int opt_give(const void *what, socklen_t size, void *value, socklen_t *len)
{
	memcpy(value, what, *len < size ? *len : size);
	*len = *len < size ? *len : size;
	return 0;
}

/* State that can be read as an option. 1: the option is not one of these. */
static int state_of(struct rs *s, int level, int name, int *v)
{
	if (level == SOL_SOCKET && name == SO_ERROR) {
		*v = s->err;
		s->err = 0;
	} else if (level == SOL_SOCKET && name == SO_TYPE) {
		*v = s->type;
	} else if (level == SOL_SOCKET && name == SO_DOMAIN) {
		*v = s->domain;
	} else if (level == SOL_SOCKET && name == SO_PROTOCOL) {
		*v = s->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	} else if (level == SOL_SOCKET && name == SO_ACCEPTCONN) {
		*v = s->state == RS_LISTENING;
	} else if (level == IPPROTO_TCP && name == TCP_MAXSEG) {
		*v = 1460;
	} else {
		return 1;
	}
	return 0;
}

/* TCP's own counters are not those of the socket, so they stay 0. */
static int tcp_info(const struct rs *s, void *value, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = s->state == RS_CONNECTED ? TCP_ESTABLISHED
			      : s->state == RS_LISTENING ? TCP_LISTEN : TCP_CLOSE,
	};

	return s->type == SOCK_STREAM ? opt_give(&info, sizeof info, value, len) : -ENOPROTOOPT;
}

static int opt_get(struct rs *s, int level, int name, void *value, socklen_t *len)
{
	int64_t *ns = opt_timeout(s, level, name);
	uint32_t f = opt_flag(level, name);
	int *n = opt_int(s, level, name), v;

	if (!value || !len)
		return -EFAULT;
	if (ns) {
		struct timeval tv = {
			.tv_sec = *ns / (int64_t)DIW_S, .tv_usec = *ns % (int64_t)DIW_S / (int64_t)DIW_US,
		};

		return opt_give(&tv, sizeof tv, value, len);
	}
	if (level == SOL_SOCKET && name == SO_LINGER)
		return opt_give(&s->opt.linger, sizeof s->opt.linger, value, len);
	if (level == IPPROTO_TCP && name == TCP_INFO)
		return tcp_info(s, value, len);
	rs_look(s);
	if (state_of(s, level, name, &v) == 0)
		return opt_give(&v, sizeof v, value, len);
	if (!f && !n)
		return -ENOPROTOOPT;
	v = f ? (s->opt.flags & f) != 0 : *n;
	return opt_give(&v, sizeof v, value, len);
}

int diw_rs_getopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	rc = opt_get(s, level, name, value, len);
	rs_release(s);
	return rc;
}

int diw_rs_fcntl(int fd, int cmd, long arg)
{
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	switch (cmd) {
	case F_GETFL:
		rc = O_RDWR | (s->nonblock ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		s->nonblock = arg & O_NONBLOCK;
		break;
	case F_GETFD:
	case F_SETFD:
		rc = fcntl(fd, cmd, (int)arg);
		rc = rc < 0 ? -errno : rc;
		break;
	default:
		rc = -ENOTSUP;
	}
	rs_release(s);
	return rc;
}
