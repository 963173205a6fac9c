/* SPDX-License-Identifier: BSD-2-Clause */
/* Eventfds, which are checked before each read and write. */
#include "base/eventfd.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux' anonymous inodes are the only files without a type: eventfds, epoll sets, timers and others. Of these, only an
 * eventfd accepts a write of 8 octets. */
static bool eventfd_is_there(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

bool diw_eventfd_set(int fd)
{
	const uint64_t one = 1;

	return fd < 0 || (eventfd_is_there(fd) && (write(fd, &one, sizeof one) == sizeof one || errno == EAGAIN));
}

void diw_eventfd_clear(int fd)
{
	uint64_t n;

	if (fd >= 0 && eventfd_is_there(fd))
		(void)!read(fd, &n, sizeof n);
}

int diw_epoll_add_own(int epfd, int fd)
{
	struct epoll_event none = { 0 };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &none);
}

bool diw_epoll_has_own(int epfd, int fd)
{
	int before = errno;                     /* the caller may be about to return it */
	bool has = false;

	if (diw_epoll_add_own(epfd, fd) == 0)   /* both numbers are the program's */
		epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL);
	else
		has = errno == EEXIST;
	errno = before;
	return has;
}
