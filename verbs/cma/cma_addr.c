/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses in the forms that programs use. */
#include "verbs/cma/cma.h"

int cma_addr_get(struct diw_addr *a, const struct sockaddr *sa)
{
	if (!sa)
		return EINVAL;
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return EAFNOSUPPORT;
	diw_addr_from_sockaddr(a, sa);
	return 0;
}

void cma_addr_put(struct sockaddr_storage *ss, const struct diw_addr *a)
{
	memset(ss, 0, sizeof *ss);
	diw_addr_to_sockaddr(a, ss);
}
