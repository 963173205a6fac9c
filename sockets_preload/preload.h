/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket interposer (docs/sockets.md). A descriptor's state is a guess that can always be made again from what the
 * kernel says of the socket: so it is forgotten rather than kept right when descriptors are duplicated, passed,
 * inherited. Whatever happens here may happen in a signal handler.
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

#define DIW_API __attribute__((visibility("default")))
/* The kernel makes the processor forget where calls return to: each function between the system call and the program
 * costs a misprediction, so that these calls are one function. */
#define DIW_FLAT __attribute__((flatten, hot))
#define DIW_HOT DIW_API DIW_FLAT
/* And what they seldom need is elsewhere. */
#define DIW_COLD __attribute__((noinline, cold))
#define DIW_LIKELY(x) __builtin_expect(!!(x), 1)

/* All is in one library: no call and no variable of ours goes through a table. */
#pragma GCC visibility push(hidden)

/* ---- conf.c ---- */

enum diw_crc_policy { DIW_CRC_AUTO, DIW_CRC_ON, DIW_CRC_OFF };
enum diw_sock_mode { DIW_SENDRECV, DIW_WRITE_RECORD };

struct diw_peer_rule {
	struct diw_addr net;                 /* and port: the lowest */
	uint16_t bits, last_port;            /* of the 128 */
};

struct diw_port_range { uint16_t first, last; };

#define DIW_MAX_RULES 64
struct diw_sock_conf {
	bool off;
	bool streams;                        /* TCP connections are framed, too */
	bool programs;                       /* only those that are named are interposed */
	bool own_users;                      /* nothing is shown to, or believed of, other users */
	enum diw_crc_policy crc;
	enum diw_sock_mode mode;             /* in which this process wants to receive */
	unsigned nrules, nports, nplain_ports;
	bool have_key;
	uint64_t key[2];                     /* a secret that the peers share */
	struct diw_peer_rule rule[DIW_MAX_RULES];
	struct diw_port_range port[DIW_MAX_RULES], plain_port[DIW_MAX_RULES];
};
extern struct diw_sock_conf diw_conf;
void diw_conf_init(void);
/* The configuration vouches for the sockets that are bound there. */
bool diw_conf_is_peer(const struct diw_addr *dst);
/* exclude_ports names A or B, the ports of a socket and of its peer (0: none). */
bool diw_conf_excludes(uint16_t a, uint16_t b);
/* May messages between ports A and B be framed? exclude_ports names neither; ports names one of them, or is empty. */
bool diw_conf_has_port(uint16_t a, uint16_t b);

/* The configuration leaves out the program NAME. */
bool diw_conf_leaves_out(const char *name);

/* ---- isal.c ---- */

/* Before the first CRC; false: there are none, and a warning said why. */
bool diw_isal_open(void);

/* ---- stat.c ---- */

extern _Atomic uint64_t *_Atomic diw_sock_count;     /* DIW_SOCK_NCOUNTERS of them */
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
/* Shows the counters from now on, if the page can be had. */
void diw_sock_stat_open(void);
void diw_sock_stat_forked(void);
/* The descriptor that holds the page's lock, which the program must not find; -1. */
int diw_sock_stat_fd(void);
bool diw_sock_stat_is(int fd);
/* The program wants that number for itself. */
void diw_sock_stat_move(void);
#define DIW_HIGH_FD 900                      /* descriptors below it are numbers that programs choose */
/* FD moves to a number that no program asks for, if there is one. */
int diw_raise_fd(int fd);

/* ---- fd.c ---- */

/* An entry of a registry, as it was read. */
struct diw_ref {
	struct diw_sock_entry *entry;        /* NULL: there is none */
	uint64_t seq;
	const struct diw_sock_owner *owner;
	uint32_t epoch;
};

/* The entry still says so, and its owner lives. Another thread may be setting it. */
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

/* By what a socket knows its frames. */
struct diw_keys {
	union {
		uint64_t key[2];             /* of frames with the CRC, of frames without */
		struct { uint64_t stream_key, seen; };       /* of a connection: diw_reg_accepts(); 0: not known */
	};
	uint32_t stag;
	uint16_t port;                       /* its own; 0: not known yet */
};

/* What each datagram needs comes first: it is a cache line. */
struct diw_sock {
	_Atomic uint32_t mark;               /* enum below, or diw_mark_dgram */
	uint8_t plain;                       /* enum diw_sock_counter: why nothing is sent in frames; or below */
	_Atomic bool corked;                 /* MSG_MORE puts a datagram together; or a connection is being shown */
	bool timed : 1, quiet : 1;
	bool watched : 1;                    /* what it sends may come back by the error queue */
	bool nonblocking : 1;                /* O_NONBLOCK, of a stream in a confined process */
	bool gro : 1;                        /* UDP_GRO */
	bool broadcasts : 1;                 /* SO_BROADCAST */
	unsigned char way : 2;               /* to groups: enum below */
	struct diw_keys keys;
	struct diw_ref shown;              /* what advertises it */
	uint64_t cookie, netns;
	bool connected : 1, v6only : 1;
	bool shared : 1;                     /* it came from elsewhere: another process may have it, too */
	bool ordinary : 1;                   /* made here, and none of diw_stream_special's options is set */
	bool bound : 1;                      /* of a TCP socket that is new: bind() was called */
	uint8_t family;
	uint16_t segment;                    /* UDP_SEGMENT */
	uint32_t born;                       /* forks of this process before */
	struct diw_addr local, peer;
	struct sockaddr_in6 peer_name;       /* of a datagram socket: or an IPv4 address */
	uint16_t skip;                       /* receives that do not try to advertise it */
	uint8_t misses;                      /* of tries */
	uint8_t stream;                      /* DIW_SOCK_STREAM, CONNECTION, READS of a TCP socket; 0 */
	struct diw_sock_stream *slot;        /* that holds what is known of a connection; NULL: it is plain */
	struct diw_sock_entry *in_window;    /* that tells other users */
	uint64_t window_seq;
};
_Static_assert(sizeof(struct diw_sock) == 192, "there are as many as descriptors");
/* Nothing is in the way; or, for the kernel to be asked what it cuts, UDP_SEGMENT. */
#define NO_REASON UINT8_MAX
#define IS_CUT (UINT8_MAX - 1)
/* By the interface that the kernel tells when it is asked, by lo, by one that it does not tell. */
enum { DIW_WAY_ASKED, DIW_WAY_LO, DIW_WAY_UNKNOWN };

/* STREAM: a TCP connection, LISTENER: a TCP socket that listens; FOREIGN: of no interest.
 * NEW: made by this process, and no more known of it. A fork makes all that is known of datagram sockets unknown: the
 * marks NEW and DGRAM are others then. */
enum { DIW_MARK_UNKNOWN, DIW_MARK_BUSY, DIW_MARK_FOREIGN, DIW_MARK_STREAM, DIW_MARK_LISTENER, DIW_MARK_FIRST };
extern uint32_t diw_mark_dgram;
extern _Atomic uint32_t diw_forks;           /* of this process, and it of its parents */
#define diw_mark_new (diw_mark_dgram + 1)
extern struct diw_sock *diw_sock_table;
extern unsigned diw_sock_max;
/* The place of FD, which is not in the table; NULL: there is none, or not yet and it is not to be MADE. */
struct diw_sock *diw_sock_beyond(int fd, bool made);
static inline struct diw_sock *diw_sock_at(int fd)
{
	return DIW_LIKELY((unsigned)fd < diw_sock_max) ? &diw_sock_table[fd] : diw_sock_beyond(fd, false);
}

/* The C library's functions are known then. */
void diw_preload_init(void);
/* What FD is, asked of the kernel; built in *TMP if it cannot be kept. NULL: none of ours. Keeps errno. */
struct diw_sock *diw_sock_look(int fd, struct diw_sock *tmp);

/* The UDP socket FD, or NULL: whatever else it is, the C library has the call as it is. */
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

/* A number among its options; 0 also if it has none such. */
int diw_sock_option(int fd, int level, int name);
/* The program has asked for options in the IP header of what it sends. */
bool diw_sock_has_ip_options(int fd);
uint64_t diw_sock_option64(int fd, int name);
/* Only if it is known already. */
struct diw_sock *diw_sock_known(int fd);
/* The same, of MARK; UNKNOWN: of any that is entered in the registry. */
struct diw_sock *diw_sock_marked(int fd, uint32_t mark);
/* FD is from now on what S says; false: another thread is asking what it is. */
bool diw_sock_keep(int fd, const struct diw_sock *s, uint32_t mark);
/* FD is another file from now on, or none. */
void diw_sock_forget(int fd);
/* FD is a new socket of these arguments of socket(); no other process has it. */
void diw_sock_is_new(int fd, int domain, int type, int protocol);
/* It was known as a socket, and a call that failed says that it is none: it was closed, and a file opened, by calls
 * that is not interposed. */
static inline bool diw_sock_is_mistaken(int fd, ssize_t rc)
{
	if (DIW_LIKELY(rc >= 0 || errno != ENOTSOCK))
		return false;
	diw_sock_forget(fd);
	return true;
}
/* A thread of several is about to have descriptors of its own. Not where streams are framed. */
void diw_sock_part(void);
/* It is what it was, but something of it has changed. */
void diw_sock_ask_again(int fd);
void diw_sock_forget_range(unsigned first, unsigned last);
/* The highest descriptor of which anything is known, and one more. */
unsigned diw_sock_known_end(void);
/* Another process may connect it. */
static inline bool diw_sock_is_shared(const struct diw_sock *s)
{
	return s->shared || s->born != atomic_load_explicit(&diw_forks, memory_order_relaxed);
}

/* ---- registry.c ---- */

struct diw_route {
	uint64_t key;
	struct diw_ref shown;              /* what says so; no entry: the configuration */
	uint32_t stag;                       /* Write-Record, to this region; 0: Send */
	bool crc, lasting;                   /* lasting: true as long as the entry stays, and the kernel finds it */
	bool beyond;                         /* in another network namespace: the configuration says so */
	bool home : 1;                       /* to a group, because it leaves by lo */
	bool away : 1;                       /* no frame to a group: it may leave the host */
	uint64_t stamp;                      /* of a frame: dgram/route.h; 0: none */
};

/* Opened once, by the thread that needs it first. */
struct diw_once {
	enum { DIW_UNTRIED, DIW_OPEN, DIW_ABSENT } _Atomic state;
	pthread_mutex_t opening;
};
#define DIW_ONCE { DIW_UNTRIED, PTHREAD_MUTEX_INITIALIZER }
/* OPENS is called by one thread, at once. */
void diw_once_try(struct diw_once *once, bool (*opens)(void));
static inline bool diw_once(struct diw_once *once, bool (*opens)(void))
{
	if (atomic_load_explicit(&once->state, memory_order_acquire) == DIW_UNTRIED)
		diw_once_try(once, opens);
	return atomic_load_explicit(&once->state, memory_order_acquire) == DIW_OPEN;
}
/* Another thread of the parent's may have been opening it. */
void diw_once_forked(struct diw_once *once);

bool diw_reg_open(void);
/* Once it is open. */
struct diw_sockreg *diw_reg(void);
void diw_reg_forked(void);

/* ---- keys.c ---- */

void diw_reg_keys(struct diw_sock *s);
/* By which a frame of S, to a receiver with KEY, is known as its own. */
uint64_t diw_reg_mark(const struct diw_sock *s, uint64_t key);
/* Of frames to PORT of a host that shares no registry, but the configured key. */
uint64_t diw_reg_peer_key(uint16_t port);
/* By which entries show that they have the configured key; 0: there is none. */
uint32_t diw_reg_peer_tag(void);
/* Of frames to all that listen at PORT and share the registry. */
uint64_t diw_reg_group_key(uint16_t port, bool crc);

/* ---- registry.c: finding ---- */

/* The route to what E of REG says, as COPY has it. */
void diw_reg_route(const struct diw_sockreg *reg, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
		   struct diw_route *route);
/* Is there a capable socket at DST, which a datagram of S will reach? Its key then. */
bool diw_reg_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, struct diw_route *route);
void diw_reg_stream_route(const struct diw_sockreg *reg, struct diw_sock_entry *e, const struct diw_sock_entry *copy,
			  struct diw_route *route);
/* The TCP socket that listens where S is about to connect to. */
bool diw_reg_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route);
/* What is shown of a TCP connection. */
struct diw_connection {
	struct diw_route route;
	struct diw_addr local, remote;       /* as its process shows them */
	uint64_t seen;                       /* of one that was accepted; 0: not known */
	bool reads;                          /* an interposed program reads it */
};
/* The connection COOKIE in the registry or window IN, or NULL: in this user's registry. */
bool diw_reg_find_connection(struct diw_sockreg *in, uint64_t netns, uint64_t cookie, struct diw_connection *c);
/* S, which is shown, was accepted. It was connected behind so many ticks as S.keys.seen, and is bound to no device. */
void diw_reg_accepts(const struct diw_sock *s);
/* The cookie of what was accepted last at LOCAL from REMOTE, or of another connection; 0. */
uint64_t diw_reg_accepted(const struct diw_addr *local, const struct diw_addr *remote);
uint32_t diw_reg_number(const struct diw_sock_entry *e);
bool diw_reg_is_current_at(uint32_t number, uint64_t seq);
/* Is KEY that of a socket which has, or had, the local PORT? *crc: of frames with the CRC. */
bool diw_reg_is_sibling(uint16_t port, uint64_t key, bool *crc);
/* The same of a TCP socket that listens there, or did. */
bool diw_reg_is_listener(uint16_t port, uint64_t key);
/* The socket COOKIE, for datagrams or a LISTENER, in the registry or window IN; NULL: in this user's registry. */
bool diw_reg_find_cookie(struct diw_sockreg *in, uint32_t port, uint64_t netns, uint64_t cookie, bool listener,
			 struct diw_route *route);
/* What E of IN shows, as COPY has it. */
struct diw_ref diw_ref_as_read(const struct diw_sockreg *in, struct diw_sock_entry *e,
			       const struct diw_sock_entry *copy);
/* How often this process has given its descriptors away, by fork() or otherwise. */
uint32_t diw_reg_forks(void);

/* ---- advertise.c ---- */

void diw_reg_advertise_forked(void);
/* This process shows it. */
bool diw_ref_is_own(const struct diw_ref *r);
void diw_reg_advertise(struct diw_sock *s, int fd);
/* A TCP connection is shown where its cookie leads to; in place of what was shown of it by this process. */
void diw_reg_show_connection(struct diw_sock *s);
/* The same of one that may be shown already, of which something has changed. */
void diw_reg_show_again(struct diw_sock *s);
void diw_reg_withdraw(struct diw_sock *s);
/* Nothing is shown any more of the socket COOKIE where PORT leads to, by whatever process. */
void diw_reg_hide(uint64_t cookie, uint32_t port);
/* Only a socket that is received from by these calls is entered. */
static inline void diw_sock_show(int fd, struct diw_sock *s)
{
	if (!DIW_LIKELY(diw_ref_holds(&s->shown) || s->quiet))
		diw_reg_advertise(s, fd);
}
/* A program that is not interposed has the datagram socket COOKIE, too: it is shown where PORT leads to no more. */
void diw_reg_lend(uint64_t cookie, uint32_t port);

/* ---- place.c ---- */

bool diw_addr_is_wildcard(const struct diw_addr *a);
bool diw_addr_is_loopback(const struct diw_addr *a);
/* An address of the host and its network namespace NETNS. */
bool diw_is_local(const struct diw_addr *a, uint64_t netns);
/* It is the broadcast address of one of its interfaces. */
bool diw_is_broadcast(const struct diw_addr *a, uint64_t netns);
/* Where the kernel delivers what is sent to DST. */
struct diw_addr diw_destination(const struct diw_addr *dst);
uint64_t diw_coarse_ns(void);

/* ---- lend.c ---- */

/* PATH is about to be executed with the environment ENVP, by this process or a child: if the interposer is not in it,
 * it is not sent frames by what it gets. ALL: also by descriptors that are closed then. */
void diw_lend(const char *path, char *const envp[], bool all);
extern _Atomic uint32_t diw_lendings;        /* how often */
/* FD is about to be passed to another process: it is shown again by whatever calls a receive of the interposer. */
void diw_lend_passed(int fd);
/* The program is about to make a ring of io_uring, and its receives cannot be seen: its sockets are shown no
 * more. */
void diw_lend_to_ring(void);
extern _Atomic bool diw_has_ring;

/* ---- ask.c ---- */

/* What the kernel says of a socket. */
struct diw_told {
	uint64_t cookie;                     /* 0: there is none such */
	uint32_t uid, inode;                 /* inode 0: no process has it: it was not accepted yet, or is closed */
	uint8_t state;                       /* TCP_ESTABLISHED ... */
};
/* What hears what SRC sends to DST in NETNS, by INTERFACE. False: the kernel cannot be asked. */
bool diw_ask(uint64_t netns, int protocol, const struct diw_addr *src, const struct diw_addr *dst, uint32_t interface,
	     struct diw_told *told);
/* The TCP socket at the other end of a connection from LOCAL to PEER in NETNS. Keeps errno. */
bool diw_ask_peer(uint64_t netns, const struct diw_addr *local, const struct diw_addr *peer, struct diw_told *told);
/* The same of up to DIW_ASK_MOST connections at once. False: not all were answered. */
#define DIW_ASK_MOST 8u
struct diw_ends { struct diw_addr local, peer; };
bool diw_ask_peers(uint64_t netns, const struct diw_ends *ends, unsigned n, struct diw_told *told);
/* The program wants the numbers from FIRST to LAST for itself, or to close them. */
void diw_ask_make_way(unsigned first, unsigned last);
void diw_ask_forked(void);

/* ---- window.c ---- */

void diw_window_forked(void);
/* What the kernel says that a datagram of S to DST will reach: of this user, if OWN is what his registry has, or of
 * another one if OWN is NULL. */
bool diw_window_find(const struct diw_sock *s, int fd, const struct diw_addr *dst, const struct diw_route *own,
		     struct diw_route *route);
/* As diw_reg_find_listener(), of another user's. */
bool diw_window_find_listener(const struct diw_sock *s, const struct diw_addr *dst, struct diw_route *route);
/* What its user, another one, shows of that connection. */
bool diw_window_find_connection(uint64_t netns, const struct diw_told *told, struct diw_connection *c);

/* ---- confine.c ---- */

/* SOCKETS: calls that are made here for what is a read() or a write() of the program's: streams get by with these two
 * and poll(), and nothing can be found out about a socket any more. FILES: unlink(). OPENING: what maps a registry.
 * ASKING: sockets of sock_diag. EXECUTED: any program that is executed is confined from the beginning. */
enum { DIW_DENIED_SOCKETS = 1, DIW_DENIED_FILES = 2, DIW_DENIED_ASKING = 4, DIW_DENIED_OPENING = 8,
       DIW_DENIED_EXECUTED = 16 };
extern unsigned diw_denied;
static inline bool diw_is_confined(void) { return diw_denied & DIW_DENIED_SOCKETS; }
static inline bool diw_may_ask(void) { return !(diw_denied & (DIW_DENIED_SOCKETS | DIW_DENIED_ASKING)); }
/* A program that was started with a filter, which may kill it for a call of ours, is confined from the beginning. */
void diw_confine_inherited(void);
struct sock_fprog;
/* The process is about to let the kernel run PROG before each of its system calls; what diw_denied was before. */
unsigned diw_confine(const struct sock_fprog *prog);

/* ---- send.c, recv.c, recv_many.c ---- */

ssize_t diw_sock_sendmsg(int fd, struct diw_sock *s, const struct msghdr *msg, int flags);
int diw_sock_sendmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags);

ssize_t diw_sock_recvmsg(int fd, struct diw_sock *s, struct msghdr *msg, int flags);
int diw_sock_recvmmsg(int fd, struct diw_sock *s, struct mmsghdr *vec, unsigned n, int flags, struct timespec *timeout);
/* Bytes of the message that is next, as FIONREAD has it. */
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
/* The LEN bytes at DATA as far as there is room for them: so many. */
size_t diw_iov_fill(const struct iovec *iov, size_t n, const uint8_t *data, size_t len);

#pragma GCC visibility pop

#endif
