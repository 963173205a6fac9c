/* SPDX-License-Identifier: BSD-2-Clause */
/* UNIX sockets between two processes of one user, and the memory that they pass. */
#include "llp/shm_unix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/sys.h"

#define TMPFS 0x01021994             /* the type of a memfd's file system, unless it has huge pages */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int diw_shm_socket(void)
{
	return diw_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

bool diw_shm_same_user(int fd)
{
	struct ucred cred;
	socklen_t len = sizeof cred;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

bool diw_shm_watch_add(int epfd, int fd, struct diw_shm_watch *w)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = w };

	return epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

bool diw_shm_tell(int fd, const void *msg, size_t len, int pass)
{
	struct iovec iov = { (void *)msg, len };
	union { struct cmsghdr align; uint8_t b[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		*CMSG_FIRSTHDR(&m) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
						       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &pass, sizeof pass);
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

ssize_t diw_shm_hear(int fd, void *msg, size_t len, int *passed)
{
	struct iovec iov = { msg, len };
	union { struct cmsghdr align; uint8_t b[CMSG_LEN(sizeof(int))]; } control;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
			    .msg_controllen = CMSG_LEN(sizeof(int)) };         /* no room for more than one */
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;    /* also behind no octets */

	*passed = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed, CMSG_DATA(c), sizeof *passed);
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? -1 : 0;
}

void diw_shm_wake(int fd)
{
	send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- The memory ---- */

int diw_shm_memory_new(size_t size)
{
	struct rlimit files;
	int fd;

	/* The limit on the size of files is also one for a memfd: ftruncate(2) would raise SIGXFSZ. */
	if (getrlimit(RLIMIT_FSIZE, &files) < 0 || files.rlim_cur < size)
		return -1;
	fd = diw_above_std(memfd_create("diwarp-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) == 0)
		return fd;
	close(fd);
	return -1;
}

bool diw_shm_memory_is_safe(int fd, size_t size)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	return seals >= 0 && (seals & SEALS) == SEALS && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS &&
	       fstat(fd, &st) == 0 && st.st_size == (off_t)size;
}
