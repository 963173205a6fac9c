/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses in the forms that programs use, and ports that are kept. */
#include <unistd.h>

#include "verbs/host/port.h"
#include "verbs/rs/int.h"

int rs_addr_get(const struct rs *s, struct diw_addr *a, const struct sockaddr *sa, socklen_t len)
{
	socklen_t need = s->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);

	if (!sa || len < sizeof(sa_family_t))
		return -EINVAL;
	if (sa->sa_family != s->domain)
		return -EAFNOSUPPORT;
	if (len < need)
		return -EINVAL;
	diw_addr_from_sockaddr(a, sa);
	return 0;
}

static socklen_t as_v6(const struct diw_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(a->port), .sin6_scope_id = a->scope };

	memcpy(&in6.sin6_addr, a->ip, sizeof a->ip);
	memcpy(ss, &in6, sizeof in6);
	return sizeof in6;
}

/* Copies an address as the kernel does: it is cut to the caller's length, and *LEN is its full length. */
void rs_addr_put(const struct rs *s, const struct diw_addr *a, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(a->port) };
	socklen_t n = sizeof in;

	if (!sa || !len)
		return;
	if (s->domain == AF_INET6) {
		n = as_v6(a, &ss);
	} else {
		memcpy(&in.sin_addr, a->ip + 12, 4);
		memcpy(&ss, &in, sizeof in);
	}
	memcpy(sa, &ss, *len < n ? *len : n);
	*len = n;
}

/* ---- Ports ---- */

/* An AF_INET6 socket without an address accepts IPv4 too, unless IPV6_V6ONLY is set. The socket that keeps a v4-mapped
 * address is an AF_INET one. Connections in TIME_WAIT are ignored, as by diw_listen(). */
int rs_hold(struct rs *s, struct diw_addr *local)
{
	const struct diw_port_hold how = {
		.type = s->type, .rdma = true, .reuse = s->type == SOCK_DGRAM, .v6only = s->opt.v6only,
	};
	int fd = diw_port_hold(local, &how);

	if (fd < 0)
		return fd;
	s->hold = fd;
	return 0;
}

void rs_hold_drop(struct rs *s)
{
	if (s->hold >= 0)
		close(s->hold);
	s->hold = -1;
}

int diw_rs_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct diw_addr local;
	struct rs *s;
	int rc = rs_take(fd, &s);

	if (rc < 0)
		return rc;
	rc = rs_addr_get(s, &local, addr, len);
	if (rc == 0 && (s->state != RS_OPEN || s->bound))
		rc = -EINVAL;
	if (rc == 0)
		rc = s->type == SOCK_DGRAM ? rs_dgram_bind(s, &local) : rs_hold(s, &local);
	if (rc == 0 && s->type == SOCK_STREAM)
		s->local = local;
	s->bound |= rc == 0;
	rs_release(s);
	return rc;
}

int diw_rs_name(int fd, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct rs *s;
	int rc = rs_take(fd, &s);
	struct diw_addr a;

	if (rc < 0)
		return rc;
	a = peer ? s->peer : s->local;
	if (peer && (s->type == SOCK_STREAM ? s->state != RS_CONNECTED : a.port == 0))
		rc = -ENOTCONN;
	else if (!addr || !len)
		rc = -EFAULT;
	else
		rs_addr_put(s, &a, addr, len);
	rs_release(s);
	return rc;
}
