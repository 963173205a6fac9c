/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket interposer (docs/sockets.md): declarations that its files share. A descriptor's state is a cache of what
 * the kernel says of the socket. So it is dropped, not updated, when descriptors are duplicated, passed or inherited.
 * All code may run in a signal handler.
 */
#ifndef DIW_SOCKETS_PRELOAD_H
#define DIW_SOCKETS_PRELOAD_H

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/log.h"
#include "sockets_preload/real.h"
#include "sockets_preload/shm/sockcount.h"
#include "sockets_preload/shm/sockreg.h"

#define DIW_LOOPBACK 1u                      /* index of lo in every network namespace */
#define DIW_API __attribute__((visibility("default")))
#define DIW_ALIAS(entry) __attribute__((alias(#entry)))        /* another name of an entry of the same file */
/* A mitigation in the kernel clears the processor's return predictions, so each function between the system call and
 * the program costs a misprediction. Therefore these calls are inlined into one function. */
#define DIW_FLAT __attribute__((flatten, hot))
#define DIW_HOT DIW_API DIW_FLAT
/* Rare cases of these calls are in functions of their own. */
#define DIW_COLD __attribute__((noinline, cold))
#define DIW_LIKELY(x) __builtin_expect(!!(x), 1)

/* Hidden visibility: calls and variables within the library need no table. */
#pragma GCC visibility push(hidden)

/* ---- conf.c ---- */

enum diw_crc_policy { DIW_CRC_AUTO, DIW_CRC_ON, DIW_CRC_OFF };
enum diw_sock_mode { DIW_SENDRECV, DIW_WRITE_RECORD };

struct diw_peer_rule {
	struct diw_addr net;                 /* with the lowest port */
	uint16_t bits, last_port;            /* bits: of the 128 */
};

struct diw_port_range { uint16_t first, last; };

#define DIW_MAX_RULES 64
struct diw_sock_conf {
	bool off;
	bool streams;                        /* TCP connections are framed, too */
	bool programs;                       /* only the named programs are interposed */
	bool own_users;                      /* nothing is shown to other users or accepted from them */
	enum diw_crc_policy crc;
	enum diw_sock_mode mode;             /* the mode in which this process asks to receive */
	unsigned nrules, nports, nplain_ports;
	bool have_key;
	uint64_t key[2];                     /* a secret shared with the peers */
	struct diw_peer_rule rule[DIW_MAX_RULES];
	struct diw_port_range port[DIW_MAX_RULES], plain_port[DIW_MAX_RULES];
};
extern struct diw_sock_conf diw_conf;
void diw_conf_init(void);
/* Whether a rule of `peers` includes DST, an address and port: its sockets count as capable without the kernel's
 * answer. */
bool diw_conf_is_peer(const struct diw_addr *dst);
/* Whether exclude_ports contains A or B, the ports of a socket and of its peer (0: none). */
bool diw_conf_excludes(uint16_t a, uint16_t b);
/* Whether messages between ports A and B may be framed: exclude_ports contains neither, and ports contains one of them
 * or is empty. */
bool diw_conf_has_port(uint16_t a, uint16_t b);

/* Whether the configuration excludes the program NAME. */
bool diw_conf_leaves_out(const char *name);

/* ---- isal.c ---- */

/* Called before the first CRC. False: ISA-L is not available, which was logged. */
bool diw_isal_open(void);

/* ---- stat.c ---- */

extern _Atomic uint64_t *_Atomic diw_sock_count;     /* an array of DIW_SOCK_NCOUNTERS */
static inline uint64_t diw_add(enum diw_sock_counter which, uint64_t n)
{
	_Atomic uint64_t *c = atomic_load_explicit(&diw_sock_count, memory_order_relaxed) + which;
	uint64_t before;

	if (!DIW_LIKELY(*diw_alone))
		return atomic_fetch_add_explicit(c, n, memory_order_relaxed);
	before = atomic_load_explicit(c, memory_order_relaxed);
	atomic_store_explicit(c, before + n, memory_order_relaxed);
	return before;
}
static inline uint64_t diw_count(enum diw_sock_counter which) { return diw_add(which, 1); }
/* Shows the counters from here on, if the page can be created. */
void diw_sock_stat_open(void);
void diw_sock_stat_forked(void);
/* The descriptor that holds the page's lock; -1: none. The program must not see it. */
int diw_sock_stat_fd(void);
bool diw_sock_stat_is(int fd);
/* Moves this descriptor to another number, because the program needs its number. */
void diw_sock_stat_move(void);
#define DIW_HIGH_FD 900                      /* smaller numbers may be chosen by programs */
/* Moves FD to a number that no program asks for, if there is one. */
int diw_raise_fd(int fd);

/* ---- fd.c ---- */

/* A copied entry of a registry. */
struct diw_ref {
	struct diw_sock_entry *entry;        /* NULL: none */
	uint64_t seq;
	const struct diw_sock_owner *owner;
	uint32_t epoch;
};

/* Whether the entry is unchanged, and its owner alive. Another thread may be setting R. */
static inline bool diw_ref_holds(const struct diw_ref *r)
{
	const struct diw_sock_entry *e = __atomic_load_n(&r->entry, __ATOMIC_ACQUIRE);

	return DIW_LIKELY(e) && DIW_LIKELY(atomic_load_explicit(&e->seq, memory_order_acquire) == r->seq) &&
	       DIW_LIKELY(diw_sock_owner_lives(r->owner, r->epoch));
}

static inline void diw_ref_set(struct diw_ref *to, struct diw_ref r)
{
	to->seq = r.seq;
	to->owner = r.owner;
	to->epoch = r.epoch;
	__atomic_store_n(&to->entry, r.entry, __ATOMIC_RELEASE);
}

/* The keys by which a socket recognises its frames. */
struct diw_keys {
	union {
		uint64_t key[2];             /* for frames with the CRC, for frames without */
		struct { uint64_t stream_key, seen; };       /* of a connection: see diw_reg_accepts(); 0: not known */
	};
	uint32_t stag;
	uint16_t port;                       /* the local port; 0: not known yet */
};

/* The fields that each datagram needs are first: one cache line. */
struct diw_sock {
	_Atomic uint32_t mark;               /* a value of the enum below, or diw_mark_dgram */
	uint8_t plain;                       /* enum diw_sock_counter: the reason why all messages are plain; or a value
					      * below */
	_Atomic bool corked;                 /* a datagram is being made with MSG_MORE; or a connection is being
					      * shown */
	bool timed : 1;                      /* SO_RCVTIMEO */
	bool quiet : 1;                      /* not advertised: frames would be seen elsewhere than in receive calls */
	bool watched : 1;                    /* its messages may come back through the error queue */
	bool nonblocking : 1;                /* O_NONBLOCK, for a stream in a confined process */
	bool gro : 1;                        /* UDP_GRO */
	bool broadcasts : 1;                 /* SO_BROADCAST */
	unsigned char way : 2;               /* interface of group datagrams: enum below */
	struct diw_keys keys;
	struct diw_ref shown;                /* the entry that advertises the socket */
	uint64_t cookie, netns;
	bool connected : 1, v6only : 1;
	bool shared : 1;                     /* it was received or inherited: other processes may have it, too */
	bool ordinary : 1;                   /* created here, without the options of is_special() (stream_conn.c) */
	bool bound : 1;                      /* of a new TCP socket: bind() was called */
	bool awaited : 1;                    /* of a new TCP socket: an epoll has it, for what it receives */
	bool sole : 1;                       /* a connection with one descriptor, if there are no more copies */
	bool peeks_at : 1;                   /* SO_PEEK_OFF: the kernel counts the bytes that MSG_PEEK copies */
	uint8_t family;
	uint16_t segment;                    /* UDP_SEGMENT */
	uint32_t born;                       /* number of forks of this process before it */
	struct diw_addr local, peer;
	union {
		struct sockaddr_in6 peer_name;       /* for datagrams: the peer; or an IPv4 address */
		uint32_t copies;                     /* for TCP: diw_fd_copies() when this process created it */
	};
	uint16_t skip;                       /* receives before the next attempt to advertise it */
	uint8_t misses;                      /* failed attempts */
	uint8_t stream;                      /* of a TCP socket: DIW_SOCK_STREAM, CONNECTION, READS; or 0 */
	struct diw_sock_stream *slot;        /* a connection's state; NULL: it is plain */
	struct diw_sock_entry *in_window;    /* the entry for other users */
	uint64_t window_seq;
};
_Static_assert(sizeof(struct diw_sock) == 192, "there are as many as descriptors");
/* NO_REASON: frames are allowed. IS_CUT: the same, but each message is sent like that of sendmsg(), because UDP_SEGMENT
 * is set or the bad network is on. */
#define NO_REASON UINT8_MAX
#define IS_CUT (UINT8_MAX - 1)
/* By the interface that the kernel reports, by lo, or by one that the kernel does not report. */
enum { DIW_WAY_ASKED, DIW_WAY_LO, DIW_WAY_UNKNOWN };

/* STREAM: a TCP connection. LISTENER: a TCP socket that listens. FOREIGN: not handled. NEW: created by this process,
 * nothing else is known. A fork invalidates the state of datagram sockets: the marks of NEW and DGRAM change. */
enum { DIW_MARK_UNKNOWN, DIW_MARK_BUSY, DIW_MARK_FOREIGN, DIW_MARK_STREAM, DIW_MARK_LISTENER, DIW_MARK_FIRST };
extern uint32_t diw_mark_dgram;
/* Number of times that another process, or another descriptor, may have got a socket of this process. */
uint32_t diw_fd_copies(void);
void diw_fd_copied(void);
extern _Atomic uint32_t diw_forks;           /* of this process, and of its parents */
#define diw_mark_new (diw_mark_dgram + 1)
extern struct diw_sock *diw_sock_table;
extern unsigned diw_sock_max;
/* The state of FD, which is beyond the table. NULL: there is none; with MADE, also no memory for it. */
struct diw_sock *diw_sock_beyond(int fd, bool made);
static inline struct diw_sock *diw_sock_at(int fd)
{
	return DIW_LIKELY((unsigned)fd < diw_sock_max) ? &diw_sock_table[fd] : diw_sock_beyond(fd, false);
}

/* Sets up the C library's functions. */
void diw_preload_init(void);
/* Asks the kernel what FD is. The result is in *TMP if it cannot be stored. NULL: not handled. Keeps errno. */
struct diw_sock *diw_sock_look(int fd, struct diw_sock *tmp);

/* The UDP socket FD, or NULL: the C library gets the call unchanged. */
static inline struct diw_sock *diw_sock_get(int fd, struct diw_sock *tmp)
{
	if (DIW_LIKELY((unsigned)fd < diw_sock_max)) {
		struct diw_sock *s = &diw_sock_table[fd];
		uint32_t mark = atomic_load_explicit(&s->mark, memory_order_acquire);

		if (DIW_LIKELY(mark == diw_mark_dgram))
			return s;
		if (mark >= DIW_MARK_FOREIGN && mark < DIW_MARK_FIRST)
			return NULL;
	}
	return diw_sock_look(fd, tmp);
}

/* The value of an integer option; 0 also if there is no such option. */
int diw_sock_option(int fd, int level, int name);
/* Whether the program has asked for options in the IP header of its datagrams. */
bool diw_sock_has_ip_options(int fd);
uint64_t diw_sock_option64(int fd, int name);
/* Opens a socket with these arguments of socket(2); -1: not possible, or this thread is not in the network namespace
 * NETNS. */
int diw_sock_open(int domain, int type, int protocol, uint64_t netns);
/* The stored state of FD, a UDP socket; NULL: none is stored. Does not ask the kernel. */
struct diw_sock *diw_sock_known(int fd);
/* The same for a socket with MARK; UNKNOWN: for a UDP socket, a TCP connection or a TCP listener. */
struct diw_sock *diw_sock_marked(int fd, uint32_t mark);
/* Stores S as the state of FD. False: another thread is classifying it. */
bool diw_sock_keep(int fd, const struct diw_sock *s, uint32_t mark);
/* FD is another file from here on, or closed. */
void diw_sock_forget(int fd);
/* FD is a new socket with these arguments of socket(); no other process has it. */
void diw_sock_is_new(int fd, int domain, int type, int protocol);
/* Whether FD, stored as a socket, is none by the error of a call: it was closed, and a file opened, by calls that are
 * not interposed. */
static inline bool diw_sock_is_mistaken(int fd, ssize_t rc)
{
	if (DIW_LIKELY(rc >= 0 || errno != ENOTSOCK))
		return false;
	diw_sock_forget(fd);
	return true;
}
/* One of several threads is about to unshare its descriptor table. Not called if streams are framed. */
void diw_sock_part(void);
/* The socket stays the same, but some of its state has changed. */
void diw_sock_ask_again(int fd);
void diw_sock_forget_range(unsigned first, unsigned last);
/* The highest descriptor with stored state, and one more. */
unsigned diw_sock_known_end(void);
/* Whether another process may connect the socket. */
static inline bool diw_sock_is_shared(const struct diw_sock *s)
{
	return s->shared || s->born != atomic_load_explicit(&diw_forks, memory_order_relaxed);
}

/* ---- registry.c ---- */

struct diw_route {
	uint64_t key;
	struct diw_ref shown;                /* the receiver's entry; without an entry, the route is from the
					      * configuration */
	uint32_t stag;                       /* a Write-Record to this region; 0: Send */
	bool crc, lasting;                   /* lasting: valid as long as the entry exists and the kernel finds the
					      * socket */
	bool beyond;                         /* in another network namespace, for which the configuration vouches */
	bool home : 1;                       /* frame to a group that leaves by lo */
	bool away : 1;                       /* no frame to a group, because it may leave the host */
	uint64_t stamp;                      /* for the frame's mark: dgram/route.h; 0: none */
};

/* A resource that is opened once, by the first thread that needs it. */
struct diw_once {
	enum { DIW_UNTRIED, DIW_OPEN, DIW_ABSENT } _Atomic state;
	pthread_mutex_t opening;
};
#define DIW_ONCE { DIW_UNTRIED, PTHREAD_MUTEX_INITIALIZER }
/* OPENS is called by one thread, once. */
void diw_once_try(struct diw_once *once, bool (*opens)(void));
static inline bool diw_once(struct diw_once *once, bool (*opens)(void))
{
	if (atomic_load_explicit(&once->state, memory_order_acquire) == DIW_UNTRIED)
		diw_once_try(once, opens);
	return atomic_load_explicit(&once->state, memory_order_acquire) == DIW_OPEN;
}
/* Call in a child: another thread of the parent may have been opening it at fork(2). */
void diw_once_forked(struct diw_once *once);

bool diw_reg_open(void);
/* Valid when the registry is open. */
struct diw_sockreg *diw_reg(void);
void diw_reg_forked(void);

/* ---- keys.c ---- */

void diw_reg_keys(struct diw_sock *s);
/* The mark by which S recognises its own frame to the receiver with KEY. */
uint64_t diw_reg_mark(const struct diw_sock *s, uint64_t key);
/* The key of frames to PORT of a host that shares the configured key, but no registry. */
uint64_t diw_reg_peer_key(uint16_t port);
/* The tag by which entries show that they have the configured key; 0: there is no key. */
uint32_t diw_reg_peer_tag(void);
/* The key of frames to all that listen at PORT and share the registry. */
uint64_t diw_reg_group_key(uint16_t port, bool crc);

/* ---- registry.c: searches ---- */

/* The route to the socket of REG's entry E, of which COPY is a copy. */
void diw_reg_route(const struct diw_sockreg *reg, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
		   struct diw_route *route);
/* Whether the registry shows a capable socket at DST that receives from S; sets *ROUTE. */
bool diw_reg_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route);
void diw_reg_stream_route(const struct diw_sockreg *reg, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
			  struct diw_route *route);
/* Finds the listening TCP socket to which S is about to connect. */
bool diw_reg_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route);
/* The shown state of a TCP connection. */
struct diw_connection {
	struct diw_route route;
	struct diw_addr local, remote;       /* as its process has shown them */
	uint64_t seen;                       /* of an accepted connection; 0: not known */
	bool reads;                          /* an interposed program reads it */
};
/* Finds the connection COOKIE in IN, a registry or window; NULL: this user's registry. */
bool diw_reg_find_connection(struct diw_sockreg *in, uint64_t netns, uint64_t cookie, struct diw_connection *c);
/* S, which is shown, was accepted. At tick S.keys.seen it was connected and not bound to a device. */
void diw_reg_accepts(const struct diw_sock *s);
/* The cookie of the socket accepted last at LOCAL from REMOTE; or of another connection; 0: none. */
uint64_t diw_reg_accepted(const struct diw_addr *local, const struct diw_addr *remote);
/* The number of the registry's entry E; whether the entry with a number still has SEQ, and its owner lives. */
uint32_t diw_reg_number(const struct diw_sock_entry *e);
bool diw_reg_is_current_at(uint32_t number, uint64_t seq);
/* Whether KEY belongs to a socket that has or had the local PORT. *crc: it is for frames with the CRC. */
bool diw_reg_is_sibling(uint16_t port, uint64_t key, bool *crc);
/* The same for a TCP socket that listens or listened there. */
bool diw_reg_is_listener(uint16_t port, uint64_t key);
/* Finds the socket COOKIE, for datagrams or a LISTENER, in IN, a registry or window; NULL: this user's registry. */
bool diw_reg_find_cookie(struct diw_sockreg *in, uint32_t port, uint64_t netns, uint64_t cookie, bool listener,
			 struct diw_route *route);
/* The socket that IN's entry E shows, of which COPY is a copy. */
struct diw_ref diw_ref_as_read(const struct diw_sockreg *in, struct diw_sock_entry *e,
			       const struct diw_sock_entry *copy);
/* How many times this process has given its descriptors away, by fork() or otherwise. */
uint32_t diw_reg_forks(void);

/* ---- advertise.c ---- */

void diw_reg_advertise_forked(void);
/* Whether the entry is this process's. */
bool diw_ref_is_own(const struct diw_ref *r);
void diw_reg_advertise(struct diw_sock *s, int fd);
/* Shows a TCP connection, at the place of its cookie, and replaces what this process has shown of it. */
void diw_reg_show_connection(struct diw_sock *s);
/* The same for a connection that may already be shown, and has changed. */
void diw_reg_show_again(struct diw_sock *s);
/* True: this process had the entry, and it is free now. */
bool diw_reg_withdraw(struct diw_sock *s);
/* Removes all entries of the socket COOKIE at the place of PORT, of any process. */
void diw_reg_hide(uint64_t cookie, uint32_t port);
/* Called by each receive call: advertises FD, unless its entry holds or it is quiet. So a socket on which the program
 * does not receive by interposed calls has no entry. */
static inline void diw_sock_show(int fd, struct diw_sock *s)
{
	if (!DIW_LIKELY(diw_ref_holds(&s->shown) || s->quiet))
		diw_reg_advertise(s, fd);
}
/* A program that is not interposed has the datagram socket COOKIE, too: its entries at PORT are withdrawn. */
void diw_reg_lend(uint64_t cookie, uint32_t port);

/* ---- place.c ---- */

bool diw_addr_is_wildcard(const struct diw_addr *a);
bool diw_addr_is_loopback(const struct diw_addr *a);
/* Whether the address belongs to this host, in its network namespace NETNS. */
bool diw_is_local(const struct diw_addr *a, uint64_t netns);
/* Whether it is the broadcast address of one of its interfaces. */
bool diw_is_broadcast(const struct diw_addr *a, uint64_t netns);
/* The address to which the kernel delivers datagrams to DST. */
struct diw_addr diw_destination(const struct diw_addr *dst);
uint64_t diw_coarse_ns(void);

/* ---- lend.c ---- */

/* PATH is about to be executed with the environment ENVP, by this process or a child. If it is not interposed, it must
 * not be sent frames, so the descriptors that it gets are lent. ALL: also those that are closed on exec. */
void diw_lend(const char *path, char *const envp[], bool all);
extern _Atomic uint32_t diw_lendings;        /* number of such calls */
/* FD is about to be passed to another process. The next receive by an interposed process shows it again. */
void diw_lend_passed(int fd);
/* The program is about to set up io_uring, whose receives are not visible: its sockets are withdrawn. */
void diw_lend_to_ring(void);
extern _Atomic bool diw_has_ring;

/* ---- ask.c ---- */

/* The kernel's answer about a socket. */
struct diw_told {
	uint64_t cookie;                     /* 0: there is no such socket */
	uint32_t uid, inode;                 /* inode 0: no process has it, since it was not accepted yet, or is
					      * closed */
	uint8_t state;                       /* TCP_ESTABLISHED ... */
};
/* The socket that receives datagrams from SRC to DST in NETNS, by INTERFACE. False: the kernel cannot be asked. */
bool diw_ask(uint64_t netns, int protocol, const struct diw_addr *src, const struct diw_addr *dst, uint32_t interface,
	     struct diw_told *told);
/* The TCP socket at the other end of a connection from LOCAL to PEER in NETNS. Keeps errno. */
bool diw_ask_peer(uint64_t netns, const struct diw_addr *local, const struct diw_addr *peer, struct diw_told *told);
/* The same for up to DIW_ASK_MOST connections at once. False: not all were answered. */
#define DIW_ASK_MOST 8u
struct diw_ends { struct diw_addr local, peer; };
bool diw_ask_peers(uint64_t netns, const struct diw_ends *ends, unsigned n, struct diw_told *told);
/* The program needs the numbers from FIRST to LAST, or closes them. */
void diw_ask_make_way(unsigned first, unsigned last);
void diw_ask_forked(void);

/* ---- window.c ---- */

void diw_window_forked(void);
/* The socket that a datagram of S to DST will reach, by the kernel's answer. OWN is what this user's registry has;
 * NULL: the socket of another user. */
bool diw_window_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, const struct diw_route *own,
		     struct diw_route *route);
/* Like diw_reg_find_listener(), for another user's listener. */
bool diw_window_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route);
/* The connection as its user, another one, shows it. */
bool diw_window_find_connection(uint64_t netns, const struct diw_told *told, struct diw_connection *c);

/* ---- confine.c ---- */

/* Calls of this library that a filter denies. SOCKETS: all calls beyond read(), write() and poll(): streams use only
 * these, and nothing more can be found out about sockets. FILES: unlink(). OPENING: calls that map a registry. ASKING:
 * sockets by which the kernel is asked for sockets, routes and addresses. EXECUTED: an executed program is confined
 * from its beginning. */
enum { DIW_DENIED_SOCKETS = 1, DIW_DENIED_FILES = 2, DIW_DENIED_ASKING = 4, DIW_DENIED_OPENING = 8,
       DIW_DENIED_EXECUTED = 16 };
extern unsigned diw_denied;
static inline bool diw_is_confined(void) { return diw_denied & DIW_DENIED_SOCKETS; }
static inline bool diw_may_ask(void) { return !(diw_denied & (DIW_DENIED_SOCKETS | DIW_DENIED_ASKING)); }
/* A program that was started with a filter counts as confined from the beginning, since the filter may kill it for a
 * call of ours. */
void diw_confine_inherited(void);
struct sock_fprog;
/* The process is about to install the filter PROG. Returns the earlier value of diw_denied. */
unsigned diw_confine(const struct sock_fprog *prog);

/* ---- send.c, recv.c, recv_many.c ---- */

ssize_t diw_sock_sendmsg(int fd, struct diw_sock *s, const struct msghdr *msg, int flags);
int diw_sock_sendmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags);

ssize_t diw_sock_recvmsg(int fd, struct diw_sock *s, struct msghdr *msg, int flags);
int diw_sock_recvmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout);
/* The length of the next message, as FIONREAD reports it. */
int diw_sock_next(int fd, struct diw_sock *s, int *bytes);

/* ---- aio.c ---- */

void diw_aio_forked(void);

/* ---- errqueue.c: the same with MSG_ERRQUEUE ---- */

ssize_t diw_errqueue_recvfrom(int fd, const struct diw_sock *s, void *buf, size_t len, int flags, struct sockaddr *addr,
			      socklen_t *addr_len);
ssize_t diw_errqueue_recvmsg(int fd, const struct diw_sock *s, struct msghdr *msg, int flags);
int diw_errqueue_recvmmsg(int fd, const struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags,
			  struct timespec *timeout);

size_t diw_iov_len(const struct iovec *iov, size_t n);
/* Copies the LEN bytes at DATA as far as there is room. Returns the number of bytes. */
size_t diw_iov_fill(const struct iovec *iov, size_t n, const uint8_t *data, size_t len);

#pragma GCC visibility pop

#endif
