/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(): names and services. */
#include <netdb.h>
#include <stdlib.h>

#include "verbs/cma/cma.h"

static int eai_errno(int eai)
{
	switch (eai) {
	case 0:
		return 0;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_SYSTEM:
		return errno;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_FAMILY:
		return EAFNOSUPPORT;
	default:
		return ENODATA;
	}
}

static struct sockaddr *sockaddr_copy(const struct sockaddr *sa, socklen_t len, bool *ok)
{
	struct sockaddr *to = len ? malloc(len) : NULL;

	if (to)
		memcpy(to, sa, len);
	*ok &= to || !len;
	return to;
}

static bool addrinfo_fill(struct rdma_addrinfo *r, const struct addrinfo *ai, const struct rdma_addrinfo *hints)
{
	bool ok = true, passive = hints->ai_flags & RAI_PASSIVE;

	r->ai_flags = hints->ai_flags & (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE);
	r->ai_family = ai->ai_family;
	r->ai_port_space = hints->ai_port_space;
	r->ai_qp_type = hints->ai_qp_type;
	if (!r->ai_port_space)
		r->ai_port_space = r->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!r->ai_qp_type)
		r->ai_qp_type = r->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	if (passive) {
		r->ai_src_addr = sockaddr_copy(ai->ai_addr, ai->ai_addrlen, &ok);
		r->ai_src_len = ai->ai_addrlen;
	} else {
		r->ai_dst_addr = sockaddr_copy(ai->ai_addr, ai->ai_addrlen, &ok);
		r->ai_dst_len = ai->ai_addrlen;
		r->ai_src_addr = sockaddr_copy(hints->ai_src_addr, hints->ai_src_len, &ok);
		r->ai_src_len = hints->ai_src_len;
	}
	if (ai->ai_canonname) {
		char **name = passive ? &r->ai_src_canonname : &r->ai_dst_canonname;

		*name = strdup(ai->ai_canonname);
		ok &= *name != NULL;
	}
	return ok;
}

static struct addrinfo hints_of(const struct rdma_addrinfo *h)
{
	bool datagrams = h->ai_qp_type == IBV_QPT_UD || h->ai_port_space == RDMA_PS_UDP;

	return (struct addrinfo){
		.ai_flags = (h->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
			    (h->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
		.ai_family = h->ai_flags & RAI_FAMILY ? h->ai_family : AF_UNSPEC,
		.ai_socktype = datagrams ? SOCK_DGRAM : SOCK_STREAM,
	};
}

/* Without a name, the addresses of the hints are used. Hints with only a source give that source, passive or not. */
static int from_hints(struct rdma_addrinfo *r, const struct rdma_addrinfo *h)
{
	bool passive = h->ai_flags & RAI_PASSIVE;
	struct addrinfo ai = {
		.ai_addr = passive ? h->ai_src_addr : h->ai_dst_addr,
		.ai_addrlen = passive ? h->ai_src_len : h->ai_dst_len,
	};
	const struct sockaddr *known = ai.ai_addrlen ? ai.ai_addr : h->ai_src_len ? h->ai_src_addr : NULL;

	if (!known)
		return EINVAL;
	ai.ai_family = known->sa_family;
	return addrinfo_fill(r, &ai, h) ? 0 : ENOMEM;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	const struct rdma_addrinfo *h = hints ? hints : &none;
	struct rdma_addrinfo *r = calloc(1, sizeof *r);
	struct addrinfo want = hints_of(h), *ai = NULL;
	int rc;

	if (!r || !res) {
		free(r);
		return cma_result(res ? ENOMEM : EINVAL);
	}
	if (!node && !service) {
		rc = from_hints(r, h);
	} else {
		rc = eai_errno(getaddrinfo(node, service, &want, &ai));
		if (rc == 0 && !addrinfo_fill(r, ai, h))
			rc = ENOMEM;
		if (ai)
			freeaddrinfo(ai);
	}
	if (rc) {
		rdma_freeaddrinfo(r);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its members are freed with it */
		return cma_result(rc);
	}
	*res = r;
	return 0;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_route);
		free(res->ai_connect);
		free(res);
	}
}
