/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over queue pairs: a stream is an RC queue pair, a datagram socket a UD one. The code uses verbs/diw.h as
 * programs do. verbs/cma/cma_rs.c makes rsockets' ABI of it.
 *
 * A socket has a descriptor of the process, which has no other use. A call does what the socket call of the same name
 * does, and returns -errno. Several threads may use a socket, and it may be closed meanwhile. In a child after fork(2),
 * every call on an inherited socket except close returns -ENODEV.
 */
#ifndef DIW_RS_H
#define DIW_RS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Options of a level of their own, numbered as in <rdma/rsocket.h>. */
#define DIW_RS_SOL 0x10000
enum { DIW_RS_SQSIZE, DIW_RS_RQSIZE, DIW_RS_INLINE, DIW_RS_IOMAPSIZE, DIW_RS_ROUTE };

bool diw_rs_owns(int fd);

/* TYPE: SOCK_STREAM or SOCK_DGRAM, with SOCK_NONBLOCK and SOCK_CLOEXEC. */
int diw_rs_socket(int domain, int type, int protocol);
int diw_rs_bind(int fd, const struct sockaddr *addr, socklen_t len);
int diw_rs_listen(int fd, int backlog);
int diw_rs_accept(int fd, struct sockaddr *addr, socklen_t *len);
int diw_rs_connect(int fd, const struct sockaddr *addr, socklen_t len);
int diw_rs_shutdown(int fd, int how);
int diw_rs_close(int fd);
int diw_rs_name(int fd, bool peer, struct sockaddr *addr, socklen_t *len);

ssize_t diw_rs_send(int fd, const struct msghdr *msg, int flags);
ssize_t diw_rs_recv(int fd, struct msghdr *msg, int flags);

/* Other descriptors may be among them. */
int diw_rs_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int diw_rs_select(int n, fd_set *in, fd_set *out, fd_set *ex, struct timeval *timeout);

int diw_rs_setopt(int fd, int level, int name, const void *value, socklen_t len);
int diw_rs_getopt(int fd, int level, int name, void *value, socklen_t *len);
int diw_rs_fcntl(int fd, int cmd, long arg);

/* Memory that the peer of a stream writes by offsets. OFFSET -1: the call chooses one. Arrivals are not reported. */
off_t diw_rs_iomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset);
int diw_rs_iounmap(int fd, void *buf, size_t len);
ssize_t diw_rs_iowrite(int fd, const void *buf, size_t len, off_t offset, int flags);

#endif
