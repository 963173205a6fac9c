/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of the stack itself, which bypass preloaded libraries, and respect what the program does. */
#ifndef DIW_BASE_SYS_H
#define DIW_BASE_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* FD with a number above those of the standard streams; -1 and errno. A program that runs without these streams may
 * still print, which must not write into a descriptor of the stack. */
static inline int diw_above_std(int fd)
{
	int above, err;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	err = errno;
	close(fd);
	errno = err;
	return above;
}

/* The stack's own sockets must be the kernel's. A preloaded library may give the program other sockets, which use this
 * stack: rdma-core's librspreload replaces each socket by an rsocket. Such a library forwards every call on a socket
 * that it has not created, so only socket(2) has to bypass it. */
static inline int diw_socket(int domain, int type, int protocol)
{
	return diw_above_std((int)syscall(SYS_socket, domain, type, protocol));
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
