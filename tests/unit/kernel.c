/* SPDX-License-Identifier: BSD-2-Clause */
/* Replaces llp/udp_sys.c, llp/uring_sys.c and getsockopt() by the answers of other kernels. */
#include "tests/unit/kernel.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAVE_URING
#include "llp/uring.h"
#endif
#include "llp/udp.h"

int (*kernel_refuse)(const struct msghdr *m, int call);
int kernel_mtu, kernel_truncate;
atomic_int kernel_sends, kernel_receives;
void (*kernel_read)(void);
void (*kernel_peek)(int fd), (*kernel_looked)(int fd);

uint32_t kernel_gso_of(const struct msghdr *m)
{
	struct cmsghdr *c = m->msg_controllen ? CMSG_FIRSTHDR(m) : NULL;
	uint16_t v = 0;

	if (c && c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
		memcpy(&v, CMSG_DATA(c), sizeof v);
	return v;
}

uint32_t kernel_bytes_of(const struct msghdr *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->msg_iovlen; i++)
		n += m->msg_iov[i].iov_len;
	return (uint32_t)n;
}

ssize_t diw_sys_sendmsg(int fd, const struct msghdr *m)
{
	int err = kernel_refuse ? kernel_refuse(m, kernel_sends) : 0;

	kernel_sends++;
	if (err) {
		errno = err;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, m, 0);
}

/* The call for a single datagram: the same refusals, the same count. */
ssize_t diw_sys_sendto(int fd, const void *buf, size_t len, const struct sockaddr *to, socklen_t tolen)
{
	struct iovec iov = { (void *)buf, len };
	struct msghdr m = { .msg_name = (void *)to, .msg_namelen = tolen, .msg_iov = &iov, .msg_iovlen = 1 };

	return diw_sys_sendmsg(fd, &m);
}

ssize_t diw_sys_errmsg(int fd, struct msghdr *m)
{
	return syscall(SYS_recvmsg, fd, m, MSG_ERRQUEUE | MSG_DONTWAIT);        /* no cancellation point */
}

static ssize_t found(ssize_t n)
{
	int err = errno;

	if (n >= 0 && kernel_read)
		kernel_read();
	errno = err;
	return n;
}

ssize_t diw_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, m, flags);

	kernel_receives++;
	if (flags & MSG_PEEK) {
		if (n >= 0 && kernel_looked)
			kernel_looked(fd);
		return n;
	}
	if (n >= 0 && kernel_truncate) {
		kernel_truncate--;
		m->msg_flags |= MSG_TRUNC;
	}
	return found(n);
}

ssize_t diw_sys_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	ssize_t n = syscall(SYS_recvfrom, fd, buf, len, flags, from, fromlen);

	kernel_receives++;
	if (flags & MSG_PEEK && n < 0 && errno == EAGAIN && kernel_peek) {
		void (*peek)(int fd) = kernel_peek;

		kernel_peek = NULL;
		peek(fd);
		errno = EAGAIN;
	}
	return flags & MSG_PEEK ? n : found(n);
}

#ifdef HAVE_URING
/* A refused send becomes an operation that does nothing, whose result is the refusal. */
int diw_sys_ring_submit(struct diw_uring *r)
{
	struct io_uring_sq *sq = &r->ring.sq;
	struct io_uring_cq *cq = &r->ring.cq;
	struct io_uring_sqe *sqe = &sq->sqes[(sq->sqe_tail - 1) & *sq->kring_mask];
	int err = 0;

	if (sqe->user_data == DIW_URING_TX) {
		err = kernel_refuse ? kernel_refuse(&r->u.tx, kernel_sends) : 0;
		kernel_sends++;
	}
	if (err) {
		io_uring_prep_nop(sqe);
		sqe->flags = 0;
		sqe->user_data = DIW_URING_TX;
	}
	while (io_uring_submit(&r->ring) <= 0)
		;
	for (unsigned i = *cq->khead; err && i != *cq->ktail; i++)
		if (cq->cqes[i & *cq->kring_mask].user_data == DIW_URING_TX)
			cq->cqes[i & *cq->kring_mask].res = -err;
	return 0;
}

struct io_uring_cqe *diw_sys_ring_peek(struct diw_uring *r)
{
	struct io_uring_cqe *cqe;

	if (io_uring_peek_cqe(&r->ring, &cqe))
		return NULL;
	if (kernel_truncate && cqe->flags & IORING_CQE_F_BUFFER) {
		unsigned bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

		kernel_truncate--;
		((struct io_uring_recvmsg_out *)(r->rx[cqe->user_data].bufs + bid * DIW_URING_BUF))->flags |= MSG_TRUNC;
	}
	return cqe;
}
#endif

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	if (kernel_mtu && ((level == IPPROTO_IP && name == IP_MTU) || (level == IPPROTO_IPV6 && name == IPV6_MTU))) {
		*(int *)value = kernel_mtu;
		return 0;
	}
	return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

bool kernel_own_network(void)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	return fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &r) && !close(fd);
}

bool kernel_can_own_network(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(!kernel_own_network());
	return waitpid(pid, &status, 0) == pid && status == 0;
}

/* Asked in a child: the parent must not test its offloads before the tests choose theirs. */
bool kernel_has_uring(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(-diw_uring_try());
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return false;
	if (WEXITSTATUS(status))
		printf("SKIP: io_uring: %s\n", strerror(WEXITSTATUS(status)));
	return WEXITSTATUS(status) == 0;
}
