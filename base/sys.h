/* SPDX-License-Identifier: BSD-2-Clause */
/* socket(2) for the stack itself, past preloaded libraries. */
#ifndef DIW_BASE_SYS_H
#define DIW_BASE_SYS_H

#include <sys/syscall.h>
#include <unistd.h>

/* The stack's own sockets are the kernel's, also where a preloaded library gives the program others, which come back
 * to us: rdma-core's librspreload puts an rsocket in the place of each. What it has not made it lets pass, so this is
 * the only call that must not be seen. */
static inline int diw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

#endif
