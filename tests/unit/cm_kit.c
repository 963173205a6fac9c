/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners, connections, and hand-written handshake frames, for tests of connection management. */
#include "tests/unit/cm_kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/addr.h"

void cm_open(struct cmkit *m, enum diw_progress progress, const struct diw_listen_attr *attr)
{
	struct diw_listen_attr a = DIW_LISTEN_ATTR_INIT;

	kit_open(&m->k, progress);
	ck_assert_int_eq(diw_cm_create(m->k.dev, &m->cm), 0);
	if (attr)
		a = *attr;
	ck_assert_int_eq(diw_addr_parse("127.0.0.1", 0, &a.local), 0);
	ck_assert_int_eq(diw_listen(m->cm, &a, &m->listener), 0);
	m->addr = listener_info(m).local;
	ck_assert_uint_ne(m->addr.port, 0);
}

void cm_close(struct cmkit *m)
{
	if (m->listener)
		ck_assert_int_eq(diw_listener_close(m->listener), 0);
	ck_assert_int_eq(diw_cm_destroy(m->cm), 0);
	kit_close(&m->k);
}

void rc_open(struct end *e, struct cmkit *m)
{
	struct diw_qp_attr attr;

	end_attr(&attr);
	attr.type = DIW_QP_RC;
	end_open(e, &m->k, &attr, 64);
}

void plain_attr(struct diw_conn_attr *a)
{
	*a = (struct diw_conn_attr)DIW_CONN_ATTR_INIT;
	a->crc = false;
	a->plain = true;
	a->ird = a->ord = DIW_MAX_IRD;
}

void cm_expect(struct diw_cm *cm, struct diw_cm_event *ev, enum diw_cm_event_type type)
{
	ck_assert_int_eq(diw_cm_get(cm, ev, KIT_LIMIT), 0);
	ck_assert_msg(ev->type == type, "%s (%s, %s), expected %s", diw_cm_event_str(ev->type), strerror(ev->errnum),
		      diw_fault_str(ev->fault), diw_cm_event_str(type));
}

void cm_expect_none(struct diw_cm *cm, unsigned ms)
{
	struct diw_cm_event ev;

	ck_assert_int_eq(diw_cm_get(cm, &ev, (int64_t)(ms * DIW_MS)), -EAGAIN);
}

struct diw_listener_info listener_info(struct cmkit *m)
{
	struct diw_listener_info info;

	ck_assert_int_eq(diw_listener_query(m->listener, &info), 0);
	return info;
}

int dial(const struct diw_addr *to)
{
	struct sockaddr_storage ss;
	socklen_t len = diw_addr_to_sockaddr(to, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	return fd;
}

int raw_listen(struct diw_addr *at, int backlog)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof sin;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sin, sizeof sin), 0);
	ck_assert_int_eq(listen(fd, backlog), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	diw_addr_from_sockaddr(at, (struct sockaddr *)&sin);
	return fd;
}

int raw_accept(int lfd)
{
	int fd = accept(lfd, NULL, NULL);

	ck_assert_int_ge(fd, 0);
	return fd;
}

void raw_reset(int fd)
{
	struct linger none = { .l_onoff = 1 };

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
	close(fd);
}

void raw_send(int fd, const void *p, size_t len)
{
	ck_assert_int_eq(send(fd, p, len, MSG_NOSIGNAL), (ssize_t)len);
}

size_t frame(uint8_t *p, bool reply, const char *hex)
{
	size_t n = 16;
	unsigned byte;

	memcpy(p, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", n);
	for (; sscanf(hex, "%2x", &byte) == 1; hex += 2)
		p[n++] = (uint8_t)byte;
	return n;
}

void send_frame(int fd, bool reply, const char *hex)
{
	uint8_t p[1024];

	raw_send(fd, p, frame(p, reply, hex));
}

/* 1: there is something to read, or the end; 0: nothing came. */
int readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms);
}

void expect_frame(int fd, bool reply, const char *hex)
{
	uint8_t want[1024], got[1024];
	size_t len = frame(want, reply, hex), have = 0;
	char text[2049] = "";

	while (have < len && readable(fd, KIT_LIMIT_MS) == 1) {
		ssize_t n = recv(fd, got + have, sizeof got - have, 0);

		if (n <= 0)
			break;
		have += (size_t)n;
	}
	for (size_t i = 16; i < have; i++)
		sprintf(text + 2 * (i - 16), "%02x", got[i]);
	ck_assert_msg(have == len && memcmp(got, want, len) == 0, "%zu bytes, %s, expected %s", have, text, hex);
}

void expect_closed(int fd)
{
	char c;

	ck_assert_int_eq(readable(fd, KIT_LIMIT_MS), 1);
	ck_assert_int_le(recv(fd, &c, 1, 0), 0);
	close(fd);
}
