/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations that the files of the socket engine share.
 *
 *   table.c   sockets by descriptor
 *   dev.c     devices, and the thread for connection events
 *   addr.c    addresses
 *   conn.c    listen, connect and accept
 *   close.c   the end of a socket
 *   stream.c  streams; wire/rsockets.h has their messages
 *   dgram.c   datagram sockets
 *   iomap.c   mapped memory
 *   io.c      calls that read and write
 *   wait.c    threads that sleep
 *   poll.c    poll() and select()
 *   opt.c     options
 *
 * There are two kinds of locks: rs_big guards devices, and the begin and end of connections. Each socket's own lock,
 * taken after rs_big, guards the socket. Neither is held while a thread sleeps.
 */
#ifndef DIW_RS_INT_H
#define DIW_RS_INT_H

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/addr.h"
#include "base/clock.h"
#include "base/list.h"
#include "verbs/diw_provider.h"
#include "verbs/host/devs.h"
#include "verbs/host/fork.h"
#include "verbs/host/loop.h"
#include "verbs/host/route.h"
#include "verbs/rs/rs.h"

#define RS_NEVER UINT64_MAX
#define RS_MS 1000000ull
#define RS_TIMEOUT_NS (20000 * RS_MS)        /* for a peer's answer */

/* ---- Devices (dev.c) ---- */

struct rs_dev {
	struct diw_host_dev host;
	struct diw_loop_cm conns;
	struct diw_pd *pd;
	struct diw_mr *all;                  /* covers all of the process's memory, for sending from it */
};

extern pthread_mutex_t rs_big;
extern struct diw_loop rs_loop;              /* its thread gets connection events */
/* The device with the address, opened once for all sockets while there are any; without an address, any device. rs_big
 * is held. */
int rs_dev_of(const struct diw_addr *local, struct rs_dev **dev);
void rs_dev_forget(void);                    /* call in a child after fork(2) */
/* Counts one more socket, or one less (-1). Soon after the last one, the devices are closed. Any lock may be held. */
void rs_dev_count(int more);

/* ---- Sockets (table.c) ---- */

enum rs_state {
	RS_OPEN, RS_LISTENING,
	RS_CONNECTING,                       /* or accepting */
	RS_CONNECTED,                        /* also after its end: received data can still be read */
	RS_CLOSING,                          /* the program has closed it */
};

struct rs_opts {
	int sndbuf, rcvbuf;
	int64_t rcvtimeo, sndtimeo;          /* in ns; 0: for ever */
	struct linger linger;
	int v6only, tos;
	int keepidle;
	int inline_size, sqsize, rqsize, iomapsize;
	uint32_t flags;                      /* the boolean options (opt.c) */
};

struct rs_stream;
struct rs_dgram;

struct rs {
	struct diw_list link;                /* in the list of all sockets with a connection, for the exit of the
					      * process */
	int fd;                              /* an eventfd; -1: a child that was not accepted yet */
	atomic_uint refs;
	unsigned generation;                 /* fork generation of the process that created it */
	pthread_mutex_t lock;

	int domain, type;
	bool nonblock, closed, bound;
	bool rd_shut, wr_shut;
	enum rs_state state;
	int err;                             /* SO_ERROR */
	struct diw_addr local, peer;
	struct rs_opts opt;
	int hold;                            /* the plain socket that keeps its port until it listens or connects; else
					      * -1 */
	struct rs_dev *dev;

	/* Threads that sleep: one leader in diw_channel_get(), followers on `seq`, and threads in poll() on
	 * descriptors. */
	bool leader, kicked;
	atomic_uint seq;
	unsigned followers, sleepers;
	unsigned empties;                    /* consecutive non-blocking calls that found nothing */

	struct diw_listener *listener;
	struct diw_list children;            /* connections for accept(), and those being established */
	unsigned nchildren, nready;
	struct diw_list waiting;             /* requests for which the backlog has no room */
	unsigned nwaiting;
	int backlog;
	struct rs *parent;
	struct diw_list sibling;

	struct diw_channel *channel;
	struct diw_cq *cq;
	struct diw_qp *qp;
	struct rs_stream *stream;
	struct rs_dgram *dgram;
};

extern struct diw_list rs_lingering;         /* closed sockets with unsent data; guarded by rs_big */
/* A new socket without descriptor, with one reference. */
struct rs *rs_new(int domain, int type);
int rs_enter_table(struct rs *s, bool cloexec);      /* the fd, or -errno: the socket has none */
/* Finds the socket, takes a reference and its lock. -EBADF, -ENODEV. rs_release() returns both. */
int rs_take(int fd, struct rs **s);
void rs_release(struct rs *s);
struct rs *rs_ref(struct rs *s);
void rs_unref(struct rs *s);                 /* without any lock: the last reference ends the socket */
struct rs *rs_leave_table(int fd);           /* the table's reference becomes the caller's */
void rs_each(void (*visit)(struct rs *s));   /* all sockets with a descriptor; rs_big is held */

/* SO_ERROR, which is returned once. */
static inline int rs_take_error(struct rs *s)
{
	int err = s->err;

	s->err = 0;
	return -err;
}

/* ---- Addresses (addr.c) ---- */

int rs_addr_get(const struct rs *s, struct diw_addr *a, const struct sockaddr *sa, socklen_t len);
void rs_addr_put(const struct rs *s, const struct diw_addr *a, struct sockaddr *sa, socklen_t *len);
/* A plain socket that keeps the address of a stream; *local is the address it got. */
int rs_hold(struct rs *s, struct diw_addr *local);
void rs_hold_drop(struct rs *s);

/* ---- Connections (conn.c, close.c) ---- */

void rs_cm_event(struct diw_loop_cm *c, const struct diw_cm_event *ev);     /* rs_big is held */
int rs_open_qp(struct rs *s, struct diw_qp_attr *attr, uint32_t completions);
void rs_close_qp(struct rs *s);
/* The program has closed the socket: ends its connection regularly, then frees it. */
void rs_end(struct rs *s);
void rs_requests_forget(struct rs *l);       /* rs_big is held */
void rs_lingerer_over(struct rs *s);         /* rs_big is held */

/* ---- Streams (stream.c) ---- */

int rs_stream_new(struct rs *s);
void rs_stream_free(struct rs *s);
/* The private data of request and reply, at most RS_HELLO bytes. */
#define RS_HELLO 32
void rs_stream_hello(const struct rs *s, uint8_t out[RS_HELLO]);
bool rs_stream_meet(struct rs *s, const uint8_t *data, uint32_t len);    /* reads the peer's hello; false: it is not one
									  * of rsockets */
/* Handles completions; polls for SPIN_NS. */
void rs_stream_look(struct rs *s, int64_t spin_ns);
short rs_stream_events(const struct rs *s);
ssize_t rs_stream_put(struct rs *s, const struct iovec *iov, size_t n, size_t skip);     /* returns bytes; 0: no room */
ssize_t rs_stream_get(struct rs *s, const struct iovec *iov, size_t n, size_t skip, bool peek);
void rs_stream_fin(struct rs *s);
void rs_stream_down(struct rs *s, int errnum);
void rs_stream_nudge(struct rs *s);
bool rs_stream_readable(const struct rs *s);
bool rs_stream_over(const struct rs *s);
bool rs_stream_flushed(const struct rs *s);  /* TCP has taken all data that was sent */

/* ---- Waiting (wait.c) ---- */

#define RS_SENT 0x4000                       /* beside poll(2)'s events: TCP has taken all that was written */
/* The events that poll(2) would return. */
short rs_events(const struct rs *s);
#define RS_END (POLLERR | POLLHUP)
/* Waits for one of EVENTS; the lock is held. -EAGAIN: timeout; -EINTR, -EBADF. A cancellation point: a cancelled thread
 * calls rs_release(), and may hold no other resource. */
int rs_wait(struct rs *s, short events, uint64_t until);
/* Handles completions, and wakes the sleeping threads. The lock is held. */
void rs_look(struct rs *s);
void rs_bump(struct rs *s);
/* Called by a non-blocking call that found nothing. */
void rs_idle(struct rs *s);
/* Makes the descriptor readable, or not. */
void rs_signal(struct rs *s, bool on);
static inline uint64_t rs_until(int64_t ns) { return ns > 0 ? diw_clock_ns() + (uint64_t)ns : RS_NEVER; }

/* ---- Datagrams (dgram.c) ---- */

int rs_dgram_bind(struct rs *s, const struct diw_addr *local);
int rs_dgram_connect(struct rs *s, const struct diw_addr *peer);
void rs_dgram_look(struct rs *s);
short rs_dgram_events(const struct rs *s);
ssize_t rs_dgram_send(struct rs *s, const struct msghdr *msg, int flags);
ssize_t rs_dgram_recv(struct rs *s, struct msghdr *msg, int flags);
void rs_dgram_free(struct rs *s);

void rs_opt_init(struct rs *s);
void rs_opt_inherit(struct rs *child, const struct rs *parent);
void rs_opt_conn(const struct rs *s, struct diw_conn_attr *attr);

#endif
