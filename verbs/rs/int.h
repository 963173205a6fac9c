/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the socket engine share. table.c, sockets by descriptor; dev.c, devices and the thread that hears
 * of connections; addr.c, addresses; conn.c, listen, connect and accept; close.c, the end; stream.c, bytes both ways,
 * and wire/rsockets.h their form; io.c, the calls that read and write; wait.c, the threads that sleep; poll.c; opt.c;
 * dgram.c; iomap.c.
 *
 * Two locks: rs_big, of connections' begin and end and of devices; and each socket's own, taken after it, of all that
 * it holds. Neither is held while a thread sleeps.
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
#include "verbs/host/fork.h"
#include "verbs/host/loop.h"
#include "verbs/host/route.h"
#include "verbs/rs/rs.h"

#define RS_NEVER UINT64_MAX
#define RS_MS 1000000ull
#define RS_TIMEOUT_NS (20000 * RS_MS)        /* for a peer to answer */

/* ---- Devices (dev.c) ---- */

struct rs_dev {
	struct rs_dev *next;
	char name[IF_NAMESIZE + 4];
	struct diw_dev *diw;
	struct diw_loop_cm conns;
	struct diw_pd *pd;
	struct diw_mr *all;                  /* all memory there is, for sending from it */
};

extern pthread_mutex_t rs_big;
extern struct diw_loop rs_loop;              /* its thread hears of connections */
/* The one that has the address, opened once for all sockets, while there are any; of no address, one that is there.
 * rs_big is held. */
int rs_dev_of(const struct diw_addr *local, struct rs_dev **dev);
void rs_dev_forget(void);                    /* in a child after fork */
/* One socket more, or less (-1). With the last one the devices are closed, soon. Any lock may be held. */
void rs_dev_count(int more);

/* ---- Sockets (table.c) ---- */

enum rs_state {
	RS_OPEN, RS_LISTENING,
	RS_CONNECTING,                       /* or accepting */
	RS_CONNECTED,                        /* also when it is over: what has come can be read */
	RS_CLOSING,                          /* the program has closed it */
};

struct rs_opts {
	int sndbuf, rcvbuf;
	int64_t rcvtimeo, sndtimeo;          /* ns; 0: for ever */
	struct linger linger;
	int v6only, tos;
	int keepidle;
	int inline_size, sqsize, rqsize, iomapsize;
	uint32_t flags;                      /* opt.c: those that are on or off */
};

struct rs_stream;
struct rs_dgram;

struct rs {
	struct diw_list link;                /* of all that have a connection, for the end of the process */
	int fd;                              /* an eventfd; -1: a child that is not accepted yet */
	atomic_uint refs;
	unsigned generation;                 /* of the process that made it */
	pthread_mutex_t lock;

	int domain, type;
	bool nonblock, closed, bound;
	bool rd_shut, wr_shut;
	enum rs_state state;
	int err;                             /* SO_ERROR */
	struct diw_addr local, peer;
	struct rs_opts opt;
	int hold;                            /* the plain socket that keeps its port until it listens or connects */
	struct rs_dev *dev;

	/* Threads that sleep: one leader in diw_channel_get(), followers on seq, and those in poll() on descriptors. */
	bool leader, kicked;
	atomic_uint seq;
	unsigned followers, sleepers;
	unsigned empties;                    /* looks in a row that found nothing, of calls that do not block */

	struct diw_listener *listener;
	struct diw_list children;            /* connections that accept() takes, or that are being made */
	unsigned nchildren, nready;
	struct diw_list waiting;             /* requests that the backlog has no room for */
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

extern struct diw_list rs_lingering;         /* closed, and not all sent; rs_big */
/* A socket without descriptor, with one reference. */
struct rs *rs_new(int domain, int type);
int rs_enter_table(struct rs *s, bool cloexec);      /* fd, or -errno: then it has none */
/* The socket with its lock held. -EBADF, -ENODEV. rs_release() gives both back. */
int rs_take(int fd, struct rs **s);
void rs_release(struct rs *s);
struct rs *rs_ref(struct rs *s);
void rs_unref(struct rs *s);                 /* without any lock: the last one ends it */
struct rs *rs_leave_table(int fd);           /* its reference is the caller's */
void rs_each(void (*visit)(struct rs *s));   /* all sockets that have a descriptor; rs_big is held */

/* SO_ERROR, which is told once. */
static inline int rs_take_error(struct rs *s)
{
	int err = s->err;

	s->err = 0;
	return -err;
}

/* ---- Addresses (addr.c) ---- */

int rs_addr_get(const struct rs *s, struct diw_addr *a, const struct sockaddr *sa, socklen_t len);
void rs_addr_put(const struct rs *s, const struct diw_addr *a, struct sockaddr *sa, socklen_t *len);
/* A plain socket that keeps the address of a stream; *local is what it has got. */
int rs_hold(struct rs *s, struct diw_addr *local);
void rs_hold_drop(struct rs *s);

/* ---- Connections (conn.c, close.c) ---- */

void rs_cm_event(struct diw_loop_cm *c, const struct diw_cm_event *ev);     /* rs_big is held */
int rs_open_qp(struct rs *s, struct diw_qp_attr *attr, uint32_t completions);
void rs_close_qp(struct rs *s);
/* The program has closed it: ends its connection in good order and frees it, soon. */
void rs_end(struct rs *s);
void rs_requests_forget(struct rs *l);       /* rs_big is held */
void rs_lingerer_over(struct rs *s);         /* rs_big is held */

/* ---- Streams (stream.c) ---- */

int rs_stream_new(struct rs *s);
void rs_stream_free(struct rs *s);
/* The private data of a request and of a reply, at most RS_HELLO bytes. */
#define RS_HELLO 32
void rs_stream_hello(const struct rs *s, uint8_t out[RS_HELLO]);
bool rs_stream_meet(struct rs *s, const uint8_t *data, uint32_t len);    /* the peer's; false: it is none of ours */
/* What has completed; SPIN_NS: looks so long. */
void rs_stream_look(struct rs *s, int64_t spin_ns);
short rs_stream_events(const struct rs *s);
ssize_t rs_stream_put(struct rs *s, const struct iovec *iov, size_t n, size_t skip);     /* bytes; 0: no room */
ssize_t rs_stream_get(struct rs *s, const struct iovec *iov, size_t n, size_t skip, bool peek);
void rs_stream_fin(struct rs *s);
void rs_stream_down(struct rs *s, int errnum);
void rs_stream_nudge(struct rs *s);
bool rs_stream_readable(const struct rs *s);
bool rs_stream_over(const struct rs *s);
bool rs_stream_flushed(const struct rs *s);  /* all that was sent is TCP's */

/* ---- Waiting (wait.c) ---- */

#define RS_SENT 0x4000                       /* beside poll(2)'s events: TCP has all that was written */
/* What poll(2) would say now. */
short rs_events(const struct rs *s);
#define RS_END (POLLERR | POLLHUP)
/* Until one of EVENTS is there; the lock is held. -EAGAIN: it is late; -EINTR, -EBADF. A cancellation point: a
 * cancelled thread calls rs_release(), and that must be all that its call holds. */
int rs_wait(struct rs *s, short events, uint64_t until);
/* Looks at what came, and wakes the threads that sleep. The lock is held. */
void rs_look(struct rs *s);
void rs_bump(struct rs *s);
/* A call that does not block finds nothing to do. */
void rs_idle(struct rs *s);
/* Its descriptor is readable from now on, or not. */
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
