/* SPDX-License-Identifier: BSD-2-Clause */
/* socket(2) for the stack itself, which bypasses preloaded libraries. */
#ifndef DIW_BASE_SYS_H
#define DIW_BASE_SYS_H

#include <sys/syscall.h>
#include <unistd.h>

/* The stack's own sockets must be the kernel's. A preloaded library may give the program other sockets, which use this
 * stack: rdma-core's librspreload replaces each socket by an rsocket. Such a library forwards every call on a socket
 * that it has not created, so only socket(2) has to bypass it. */
static inline int diw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

#endif
