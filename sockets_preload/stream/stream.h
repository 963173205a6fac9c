/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP sockets whose streams are RC's (docs/sockets.md): FPDUs on the program's own connection. What is known of a
 * direction is in the slot of shm/streamreg.h, which a process with the socket finds by its cookie.
 */
#ifndef DIW_SOCKETS_STREAM_H
#define DIW_SOCKETS_STREAM_H

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "sockets_preload/preload.h"
#include "sockets_preload/shm/streamreg.h"

#pragma GCC visibility push(hidden)

#define DIW_STREAM_MOST 65504u           /* payload of an FPDU: with its head and CRC a multiple of four */

/* ---- stream_tab.c ---- */

/* Only from calls that may ask for a registry; false: everything is plain. */
bool diw_stream_open(void);
void diw_stream_forked(void);
/* What is used of the registries is mapped, and no more from now on. */
void diw_stream_fix(void);
struct diw_sock_stream *diw_stream_find(uint64_t cookie);
/* The same, of a socket of another process. */
struct diw_sock_stream *diw_stream_seek(uint64_t cookie);
/* A slot for S; NULL: there is none. */
struct diw_sock_stream *diw_stream_make(const struct diw_sock *s, bool initiator);
void diw_stream_free(struct diw_sock_stream *st);
/* A descriptor of its socket was closed: it is free if no process has another. */
void diw_stream_closed(struct diw_sock_stream *st, uint64_t cookie);
/* Both directions are plain: its state is not needed any more. */
void diw_stream_settle(struct diw_sock_stream *st);

/* Room for the first bytes of an FPDU that is not whole yet: 0, or what diw_stream_part() takes. */
uint16_t diw_stream_hold(uint64_t cookie);
uint8_t *diw_stream_part(uint16_t part);
void diw_stream_let_go(uint16_t part);

/* In the stack of a lock's holder: while MARK is unchanged, that frame may be in use. */
struct diw_stream_holder {
	_Alignas(DIW_STREAM_LOCK_ALIGN) _Atomic uint64_t mark;
	uint64_t word;                       /* of the lock */
	int cancel;                          /* whether it could be cancelled before */
};
enum diw_lock { DIW_LOCKED, DIW_LOCK_OURS, DIW_LOCK_DEAD };
/* OURS: this is a signal handler, and what it interrupts has it. DEAD: locked, but its holder died with it, or a signal
 * handler has left it by siglongjmp(). Its holder is not cancelled. */
enum diw_lock diw_stream_lock(_Atomic uint64_t *lock, struct diw_stream_holder *holder);
/* This is a signal handler, and what it interrupts has LOCK. */
bool diw_stream_is_ours(const _Atomic uint64_t *lock);
void diw_stream_unlock(_Atomic uint64_t *lock, struct diw_stream_holder *holder);

static inline bool diw_stream_is(const struct diw_sock_stream *st, uint64_t cookie)
{
	return st && atomic_load_explicit(&st->cookie, memory_order_acquire) == cookie;
}

/* ---- stream_conn.c ---- */

/* What the TCP socket FD is: a mark. */
uint32_t diw_stream_look(int fd, struct diw_sock *s);
bool diw_stream_is_tcp(int fd);
/* A TCP socket that this process has made, and that was nothing else since; or NULL. */
struct diw_sock *diw_stream_new(int fd);
void diw_stream_binds(int fd);
/* FD is a connection of which this process knows that its options are as they were made. */
bool diw_stream_is_ordinary(int fd);
int diw_stream_connect(int fd, const struct sockaddr *addr, socklen_t len);
void diw_stream_listens(int fd);
/* The listener FD, shown; copied to *L. */
bool diw_stream_accepts(int fd, struct diw_sock *l);
/* FD was accepted from L, by PEER; NULL: that is not known. */
void diw_stream_accepted(const struct diw_sock *l, int fd, const struct sockaddr *peer);
/* S's descriptor is closed. */
void diw_stream_leave(struct diw_sock *s);
/* An option may be set on a connection, or its errno. */
int diw_stream_refuses(int fd, int level, int name, const void *value, socklen_t len);
void diw_stream_option(int fd, int level, int name);
void diw_stream_tell_again(int fd);

/* ---- stream_hello.c ---- */

void diw_stream_hello(const struct diw_sock_stream *st, uint8_t hello[DIW_STREAM_HELLO], bool crc);
enum diw_hello { DIW_HELLO_NONE, DIW_HELLO_PART, DIW_HELLO_WHOLE };
/* What the N first bytes of what ST receives are; *CRC and its peer's key then. */
enum diw_hello diw_stream_is_hello(struct diw_sock_stream *st, const uint8_t *p, size_t n, bool *crc);
/* Decides how ST sends, before its first byte: the new state. */
uint8_t diw_stream_begin(int fd, struct diw_sock_stream *st);

/* ---- stream_peer.c ---- */

struct diw_listener {
	uint8_t known_by;                    /* DIW_STREAM_HERE ... */
	bool crc, own;                       /* own: this process shows it */
	uint64_t key, seq;
	uint32_t entry;
};
/* The capable one that S, which is about to connect, connects to. */
bool diw_stream_find_listener(const struct diw_sock *s, struct diw_listener *l);
/* From where to where FD is, in ST. */
bool diw_stream_place(int fd, struct diw_sock_stream *st);
/* AWAITED: what has, or will have, the other end may come to read it by interposed calls. */
enum diw_reader { DIW_READER_NONE, DIW_READER_AWAITED, DIW_READER_FOUND };
/* What reads the other end of FD. */
enum diw_reader diw_stream_find_reader(int fd, struct diw_sock_stream *st, struct diw_route *route);
/* The same, and waits for one that is awaited, for a while. */
bool diw_stream_await_reader(int fd, struct diw_sock_stream *st, struct diw_route *route);
/* That may begin with a Request, as far as can be seen from here. */
bool diw_stream_has_capable(int fd, struct diw_sock_stream *st);
/* The program is about to receive on FD, or to wait until it can: if it is a connection on which nothing has come, its
 * peer may know it from now on. Keeps errno. */
void diw_stream_reads(int fd);

/* ---- stream_parse.c ---- */

/* Takes the N bytes at P, of which what is payload goes to TO, that is P or before it. *GOT: how many these are. */
bool diw_stream_parse(struct diw_stream_rx *rx, const uint8_t *p, size_t n, uint8_t *to, size_t *got);
/* The CRC of the FPDU whose head RX has is good; ALL bytes behind that are at P. */
bool diw_stream_is_intact(const struct diw_stream_rx *rx, const uint8_t *p, size_t all);
/* Of the N bytes at P the payload of the FPDUs that are whole and good, moved to P. */
size_t diw_stream_parse_good(struct diw_stream_rx *rx, uint8_t *p, size_t n);

/* ---- stream_check.c ---- */

/* Is the FPDU whose head ST's receiver has whole and good? 1; or -1: errno. EAGAIN: it is not whole yet, and if *NEED
 * is set so many bytes must be in the queue before it is. */
ssize_t diw_stream_verify(int fd, struct diw_sock_stream *st, size_t *need);
/* ST, which FD has, can only be reset, and WHY is counted: -1. */
ssize_t diw_stream_broken(int fd, struct diw_sock_stream *st, enum diw_sock_counter why);

/* ---- stream_ahead.c ---- */

/* Payload in the queue of FD, under RX's lock. The queue begins within an FPDU, of which HERE bytes of payload are
 * there, or to come; with the CRC on they are there, and were checked. */
uint32_t diw_stream_count(int fd, struct diw_stream_rx *rx, uint32_t here);
/* So many bytes of the queue were taken. */
void diw_stream_passed(struct diw_stream_rx *rx, uint32_t bytes, uint32_t payload);

/* ---- stream_tx.c, stream_rx.c ---- */

/* The TCP connection FD, or NULL. */
static inline struct diw_sock *diw_stream_get(int fd)
{
	struct diw_sock *s = diw_sock_at(fd);

	return s && atomic_load_explicit(&s->mark, memory_order_acquire) == DIW_MARK_STREAM ? s : NULL;
}
/* The same, if it may have frames. */
static inline struct diw_sock_stream *diw_stream_slot(int fd, uint64_t *cookie)
{
	struct diw_sock *s = diw_stream_get(fd);

	if (!s)
		return NULL;
	*cookie = s->cookie;
	return diw_stream_is(s->slot, *cookie) ? s->slot : NULL;
}

/* As sendmsg() and recvmsg() of a connection; false: it is plain, and the call is the kernel's. */
bool diw_stream_send(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc);
bool diw_stream_recv(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc);
/* From now on. */
bool diw_stream_sends_frames(int fd);
/* FIONREAD. */
bool diw_stream_next(int fd, int *bytes);
bool diw_stream_is_nonblocking(int fd, int flags);
/* Where SO_SNDTIMEO of FD ends, from now; UINT64_MAX: never. */
uint64_t diw_stream_deadline(int fd);
/* As poll() of FD for EVENTS, but goes on behind handlers with SA_RESTART. False: errno, EAGAIN at the DEADLINE. */
bool diw_stream_await(int fd, short events, uint64_t deadline);

/* ---- stream_low.c ---- */

/* The kernel's SO_RCVLOWAT becomes what the program's is, where RX is now. */
void diw_stream_low(int fd, struct diw_stream_rx *rx);
/* The program has set its own. */
void diw_stream_wants(int fd, struct diw_stream_rx *rx);
/* ---- confine.c: with read() and poll() alone ---- */

/* As recv() with MSG_DONTWAIT. */
ssize_t diw_confined_read(int fd, void *buf, size_t n);
bool diw_confined_wait(int fd);
/* The first bytes of ST: nothing can be looked at without being taken, so that *DONE bytes, which are no hello, are in
 * IOV at once. 1: ST's state is known; else as read(). */
ssize_t diw_confined_begin(int fd, struct diw_sock_stream *st, const struct iovec *iov, size_t n, size_t *done);
/* Takes the rest of the FPDU whose head ST has beside: 1; 0: it cannot come any more; -1: it is not whole yet. */
ssize_t diw_confined_fpdu(int fd, struct diw_sock_stream *st);

/* ---- stream_calls.c: TCP connections under the calls' names ---- */

ssize_t diw_stream_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr,
			  socklen_t addr_len);
ssize_t diw_stream_write(int fd, const void *buf, size_t len);
ssize_t diw_stream_writev(int fd, const struct iovec *iov, int n);
ssize_t diw_stream_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t diw_stream_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *addr_len);
ssize_t diw_stream_read(int fd, void *buf, size_t len);
ssize_t diw_stream_readv(int fd, const struct iovec *iov, int n);
int diw_stream_sendmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags);
int diw_stream_recvmmsg(int fd, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout);
ssize_t diw_stream_recvmsg(int fd, struct msghdr *msg, int flags);

struct diw_iov { const struct iovec *v; size_t n, off; };      /* where in an iovec */
/* Up to MAX bytes from there, as up to ROOM pieces; how many pieces, and in *LEN how many bytes. */
size_t diw_iov_slice(struct diw_iov *at, size_t max, struct iovec *to, size_t room, size_t *len);

#pragma GCC visibility pop

#endif
