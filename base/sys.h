/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets of the stack itself: socket(2) bypasses preloaded libraries, and close(2) respects what the program does. */
#ifndef DIW_BASE_SYS_H
#define DIW_BASE_SYS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The stack's own sockets must be the kernel's. A preloaded library may give the program other sockets, which use this
 * stack: rdma-core's librspreload replaces each socket by an rsocket. Such a library forwards every call on a socket
 * that it has not created, so only socket(2) has to bypass it. */
static inline int diw_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

/* The number by which the kernel tells sockets apart; 0: FD is not open. */
static inline uint64_t diw_inode(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* Closes FD, unless the program has closed it, as daemons do: then the number may be another file's. */
static inline void diw_close_socket(int fd, uint64_t inode)
{
	if (diw_inode(fd) == inode)
		close(fd);
}

#endif
