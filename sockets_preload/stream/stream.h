/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP sockets with frames: RC's FPDUs on the program's own connection (docs/streams.md). The state of a direction is in
 * the slot of shm/streamreg.h, which a process with the socket finds by its cookie.
 */
#ifndef DIW_SOCKETS_STREAM_H
#define DIW_SOCKETS_STREAM_H

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "sockets_preload/preload.h"
#include "sockets_preload/shm/streamreg.h"

#pragma GCC visibility push(hidden)

#define DIW_STREAM_MOST 65504u           /* payload of an FPDU: with head and CRC, its length is a multiple of four */

/* ---- stream_tab.c ---- */

/* Opens the registry, and the file of stream slots. False: all streams are plain. */
bool diw_stream_open(void);
void diw_stream_forked(void);
/* Maps the used parts of the registries; nothing more is mapped from here on. */
void diw_stream_fix(void);
/* The slot of a socket of this process, which becomes the slot's last user; or NULL. */
struct diw_sock_stream *diw_stream_find(uint64_t cookie);
/* The slot of the socket COOKIE of any process; or NULL. */
struct diw_sock_stream *diw_stream_seek(uint64_t cookie);
/* Makes a slot for S; NULL: none is free. */
struct diw_sock_stream *diw_stream_make(const struct diw_sock *s, bool initiator);
void diw_stream_free(struct diw_sock_stream *st);
/* A descriptor of its socket was closed. The slot becomes free if there is no other: GONE, or the kernel says so. */
void diw_stream_closed(struct diw_sock_stream *st, uint64_t cookie, bool gone);
/* Both directions are plain: the state is not needed any more. */
void diw_stream_settle(struct diw_sock_stream *st);

/* A place for the first bytes of an incomplete FPDU, for diw_stream_part(); 0: none. */
uint16_t diw_stream_hold(uint64_t cookie);
uint8_t *diw_stream_part(uint16_t part);
void diw_stream_let_go(uint16_t part);

static inline bool diw_stream_is(const struct diw_sock_stream *st, uint64_t cookie)
{
	return st && atomic_load_explicit(&st->cookie, memory_order_acquire) == cookie;
}

/* ---- stream_lock.c ---- */

/* On the stack of a lock's holder: while MARK is unchanged, that frame may be in use. */
struct diw_stream_holder {
	_Alignas(DIW_STREAM_LOCK_ALIGN) _Atomic uint64_t mark;
	uint64_t word;                       /* value of the lock */
	int cancel;                          /* the cancel state before */
};
enum diw_lock { DIW_LOCKED, DIW_LOCK_OURS, DIW_LOCK_DEAD };
/* OURS: this is a signal handler that interrupted the holder, and the lock was not taken. DEAD: the lock was taken over
 * from a holder that died, or that a signal handler has left by siglongjmp(). The holder is not cancelled. */
enum diw_lock diw_stream_lock(_Atomic uint64_t *lock, struct diw_stream_holder *holder);
void diw_stream_unlock(_Atomic uint64_t *lock, struct diw_stream_holder *holder);
/* Whether this is a signal handler that interrupted LOCK's holder. */
bool diw_stream_is_ours(const _Atomic uint64_t *lock);
/* Whether no thread, and no process, has this number. */
bool diw_stream_thread_is_dead(uint32_t thread);
void diw_stream_lock_forked(void);

/* ---- stream_conn.c ---- */

/* Returns the mark of the TCP socket FD. */
uint32_t diw_stream_look(int fd, struct diw_sock *s);
bool diw_stream_is_tcp(int fd);
/* Whether FD still is the connection COOKIE, whose slot is ST. False: errno is EBADF. */
bool diw_stream_has_stayed(int fd, const struct diw_sock_stream *st, uint64_t cookie);
/* A TCP socket that this process created and has not changed since; or NULL. */
struct diw_sock *diw_stream_new(int fd);
void diw_stream_binds(int fd);
/* Whether an epoll has FD, which may not be connected yet, for what it receives. */
void diw_stream_awaits(int fd, bool is);
/* Whether FD is a connection whose options are known to be the initial ones. */
bool diw_stream_is_ordinary(int fd);
int diw_stream_connect(int fd, const struct sockaddr *addr, socklen_t len);
void diw_stream_listens(int fd);
/* Whether FD is a listener; it is shown, and copied to *L. */
bool diw_stream_accepts(int fd, struct diw_sock *l);
/* FD was accepted from L. PEER NULL: the peer is not known. */
void diw_stream_accepted(const struct diw_sock *l, int fd, const struct sockaddr *peer);
/* The descriptor of S is closed. True: S is gone then, because there is no other descriptor of the socket. */
bool diw_stream_leave(struct diw_sock *s);
/* The errno with which an option is refused on a connection; 0: it is allowed. */
int diw_stream_refuses(int fd, int level, int name, const void *value, socklen_t len);
void diw_stream_option(int fd, int level, int name);
/* Makes the kernel report FD as readable again, for a program that uses EPOLLET. */
void diw_stream_tell_again(int fd);

/* ---- stream_hello.c ---- */

void diw_stream_hello(const struct diw_sock_stream *st, uint8_t hello[DIW_STREAM_HELLO], bool crc);
enum diw_hello { DIW_HELLO_NONE, DIW_HELLO_PART, DIW_HELLO_WHOLE };
/* Examines the first N bytes that ST receives; for a hello, sets *CRC and the peer's key. */
enum diw_hello diw_stream_is_hello(struct diw_sock_stream *st, const uint8_t *p, size_t n, bool *crc);
/* Decides how ST sends, before its first byte. Returns the new state. */
uint8_t diw_stream_begin(int fd, struct diw_sock_stream *st);

/* ---- stream_peer.c ---- */

struct diw_listener {
	uint8_t known_by;                    /* DIW_STREAM_HERE ... */
	bool crc, own;                       /* own: this process shows it */
	uint64_t key, seq;
	uint32_t entry;
};
/* Finds the capable listener to which S is about to connect. */
bool diw_stream_find_listener(const struct diw_sock *s, struct diw_listener *l);
/* Asks for both addresses of FD, and stores them in ST. */
bool diw_stream_place(int fd, struct diw_sock_stream *st);
/* AWAITED: the process that has or will have the other end may still begin to read it by interposed calls. */
enum diw_reader { DIW_READER_NONE, DIW_READER_AWAITED, DIW_READER_FOUND };
/* Finds the reader of FD's other end. */
enum diw_reader diw_stream_find_reader(int fd, struct diw_sock_stream *st, struct diw_route *route);
/* The same; if the reader is awaited, waits for a limited time. */
bool diw_stream_await_reader(int fd, struct diw_sock_stream *st, struct diw_route *route);
/* The N bytes that FD has received could begin a hello. Whether they are payload, because the peer sends none, or
 * nothing follows. */
bool diw_stream_is_payload(int fd, struct diw_sock_stream *st, size_t n);
/* The program is about to receive on FD, or to wait until it can. If FD is a connection without received data, its peer
 * is told. Keeps errno. */
void diw_stream_reads(int fd);

/* ---- stream_parse.c ---- */

/* Parses the N bytes at P, and moves their payload to TO, which is P or before it. *GOT: octets of payload. */
bool diw_stream_parse(struct diw_stream_rx *rx, const uint8_t *p, size_t n, uint8_t *to, size_t *got);
/* Whether the CRC of the FPDU is good, whose head is in RX; the ALL bytes behind the head are at P. */
bool diw_stream_is_intact(const struct diw_stream_rx *rx, const uint8_t *p, size_t all);
/* Moves the payload of the complete and good FPDUs in the N bytes at P to P. Returns its length. */
size_t diw_stream_parse_good(struct diw_stream_rx *rx, uint8_t *p, size_t n);

/* ---- stream_check.c ---- */

/* Checks the FPDU whose head ST's receiver has. 1: complete and good. -1 with errno; EAGAIN: it is not complete; if
 * *NEED is set, this many bytes must be in the queue before it is. */
ssize_t diw_stream_verify(int fd, struct diw_sock_stream *st, size_t *need);
/* Whether everything that the peer will send is in the queue of FD. */
bool diw_stream_has_ended(int fd);
/* Waits until FD has more bytes than now. False: it is full, does not block, its time is over, it has ended, or a
 * signal came. */
bool diw_stream_await_more(int fd);
/* A receive on FD, which has waited since BEGAN, waits once more: until there is something, or NEED bytes. False with
 * errno: as the kernel's, which SO_RCVTIMEO and signals end. */
bool diw_stream_await_within(int fd, uint64_t began);
bool diw_stream_await_bytes(int fd, size_t need, uint64_t began);
/* ST, which FD has, can only be reset; counts WHY. Returns -1. */
ssize_t diw_stream_broken(int fd, struct diw_sock_stream *st, enum diw_sock_counter why);

/* ---- stream_ahead.c ---- */

/* The payload in the queue of FD; the lock of RX is held. The queue begins within an FPDU, of which HERE bytes of
 * payload are there, or to come; with the CRC on, they are there and checked. */
uint32_t diw_stream_count(int fd, struct diw_stream_rx *rx, uint32_t here);
/* BYTES of the queue were taken. */
void diw_stream_passed(struct diw_stream_rx *rx, uint32_t bytes, uint32_t payload);

/* ---- stream_tx.c, stream_rx.c ---- */

/* The TCP connection FD, or NULL. */
static inline struct diw_sock *diw_stream_get(int fd)
{
	struct diw_sock *s = diw_sock_at(fd);

	return s && atomic_load_explicit(&s->mark, memory_order_acquire) == DIW_MARK_STREAM ? s : NULL;
}
/* The slot of FD if it may have frames, or NULL. */
static inline struct diw_sock_stream *diw_stream_slot(int fd, uint64_t *cookie)
{
	struct diw_sock *s = diw_stream_get(fd);

	if (!s)
		return NULL;
	*cookie = s->cookie;
	return diw_stream_is(s->slot, *cookie) ? s->slot : NULL;
}

/* Like sendmsg() and recvmsg() on a connection. False: it is plain, and the kernel gets the call. */
bool diw_stream_send(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc);
bool diw_stream_recv(int fd, const struct iovec *iov, size_t n, int flags, ssize_t *rc);
/* The same for some of LEN bytes that are not wanted. */
bool diw_stream_discard(int fd, size_t len, int flags, ssize_t *rc);
/* Whether FD sends frames from here on. */
bool diw_stream_sends_frames(int fd);
/* FIONREAD. */
bool diw_stream_next(int fd, int *bytes);
bool diw_stream_is_nonblocking(int fd, int flags);
/* The time at which SO_SNDTIMEO of FD, counted from now, ends; UINT64_MAX: never. */
uint64_t diw_stream_deadline(int fd);
/* Whether a call continues after the signal that interrupted it just now. */
bool diw_stream_is_restarted(void);
/* Like poll() of FD for EVENTS. False with errno; EAGAIN at DEADLINE. RESTARTS: continues after handlers with
 * SA_RESTART. */
bool diw_stream_await(int fd, short events, uint64_t deadline, bool restarts);

/* ---- stream_low.c ---- */

/* Sets the kernel's SO_RCVLOWAT so that it has the effect of the program's value, at the present position of RX. */
void diw_stream_low(int fd, struct diw_stream_rx *rx);
/* The program has set SO_RCVLOWAT. */
void diw_stream_wants(int fd, struct diw_stream_rx *rx);
/* ---- confine.c: streams with read() and poll() only ---- */

/* Like recv() with MSG_DONTWAIT. */
ssize_t diw_confined_read(int fd, void *buf, size_t n);
bool diw_confined_wait(int fd);
/* Reads the first bytes of ST. Bytes cannot be peeked, so *DONE bytes that are no hello go to IOV at once. 1: ST's
 * state is known; otherwise as read(). */
ssize_t diw_confined_begin(int fd, struct diw_sock_stream *st, const struct iovec *iov, size_t n, size_t *done);
/* Reads the rest of the FPDU whose head ST has into its place. 1: done; 0: it cannot come any more; -1: not
 * complete. */
ssize_t diw_confined_fpdu(int fd, struct diw_sock_stream *st);

/* ---- stream_stdio.c ---- */

/* F is about to be reopened: if it is a file of ours, it becomes one of the C library. */
void diw_file_reopens(FILE *f);
/* F is about to be closed. Returns memory to free afterwards, or NULL. */
void *diw_file_closes(FILE *f);

/* ---- stream_calls.c: the calls on TCP connections ---- */

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

struct diw_iov { const struct iovec *v; size_t n, off; };      /* a position in an iovec */
/* Makes up to ROOM pieces of up to MAX bytes from there. Returns the number of pieces; *LEN: their bytes. */
size_t diw_iov_slice(struct diw_iov *at, size_t max, struct iovec *to, size_t room, size_t *len);

#pragma GCC visibility pop

#endif
