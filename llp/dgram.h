/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The datagram seam: bursts of datagrams that may be damaged, lost or reordered.
 *
 * A burst (super-buffer) is consecutive datagrams of one peer. Each is `seg` bytes long, except the last, which may be
 * shorter.
 *
 * Not thread-safe: the caller holds the device's lock. `now` is the caller's clock in nanoseconds.
 */
#ifndef DIW_LLP_DGRAM_H
#define DIW_LLP_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"

#define DIW_DGRAM_MAX_BURST 65200u   /* bytes of one super-buffer: the kernel is slower with the last 300 */
#define DIW_DGRAM_MAX_SEGS 128u      /* datagrams of one super-buffer: the kernel's UDP_MAX_SEGMENTS */
#define DIW_DGRAM_FDS 3
#define DIW_DGRAM_AT_HAND 0u
#define DIW_DGRAM_MAX 65507u         /* UDP payload over IPv4 */
#define DIW_DGRAM_HEAD 76u           /* octets of a datagram from which the layer above tells its place */
#define DIW_DGRAM_PLACES 16          /* pieces of a place */

/* Is told of datagrams that will never leave, of the bursts that name it as sender (llp/seal.c). */
struct diw_dgram_sender {
	/* The kernel refused N datagrams with ERRNUM; FIRST is the number of the first. Called within send and recv. */
	void (*refused)(struct diw_dgram_sender *s, uint32_t first, uint32_t n, int errnum);
};

struct diw_dgram_burst {
	struct diw_dest peer;        /* tx: destination; rx: the source, only its address */
	const struct iovec *iov;     /* rx: exactly one entry, valid until the next recv */
	int niov;                    /* at most IOV_MAX */
	uint32_t len;                /* sum over iov */
	uint32_t seg;                /* bytes of each datagram except the last; seg == len for one datagram (an empty
				      * datagram arrives as len == seg == 0) */
	bool bare;                   /* the datagrams have room for a CRC, and none is there: see ops->bare */
	bool group;                  /* rx: addressed to a group or broadcast address */
	struct diw_addr to;          /* rx: the destination address. Group socket: that address. Socket
				      * with `any`: a local address if `group` is not set. Otherwise the port is 0. */
	struct diw_dgram_sender *sender;     /* tx: or NULL. Datagrams that the impairment changes have none. */
	uint32_t first;              /* tx, with a sender: the number of the first datagram; the others follow, modulo
				      * 2^32 */
};

struct diw_dgram;

struct diw_dgram_ops {
	const char *name;
	/* Returns the number of bursts taken, in order. A taken burst has been sent or is lost. -EAGAIN: not even the
	 * first could be taken; wait until the descriptor is writable. A burst that the kernel refuses for good counts
	 * as taken; it is counted in tx_error, its errno is in tx_errno, and its sender is told. The content of iov is
	 * read before the call returns, never later. */
	int (*send)(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now);
	/* Returns the number of bursts received; 0: none is waiting. */
	int (*recv)(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now);
	/* The time at which recv must be called although no descriptor is ready; DIW_NEVER; DIW_DGRAM_AT_HAND: there
	 * are received bursts that recv has not returned yet. */
	uint64_t (*deadline)(struct diw_dgram *d);
	/* The largest datagram that, as far as known, reaches DST without IP fragments. */
	uint32_t (*mtu)(struct diw_dgram *d, const struct diw_addr *dst);
	/* Whether datagrams to DST stay as they are, so that bursts to it may be bare. NULL: never. */
	bool (*bare)(struct diw_dgram *d, const struct diw_addr *dst);
	/* Whether ADDR is this dgram's own address, and datagrams to it and from it stay in the host's memory as they
	 * are. NULL: never. */
	bool (*own)(struct diw_dgram *d, const struct diw_addr *addr);
	/* The descriptors to poll, that for sending first; returns their number (0 in the simulator). */
	int (*fds)(struct diw_dgram *d, int fd[DIW_DGRAM_FDS]);
	/* Group socket: joins or leaves GROUP. NULL if there are no groups (the simulator). -ENOBUFS: the kernel allows
	 * the socket no more groups. */
	int (*member)(struct diw_dgram *d, const struct diw_addr *group, bool join);
	/* With `any`: datagrams get this source address from here on, whichever address the peer sent to. LOCAL NULL:
	 * the address that the peer sent to. The call is NULL where there is one address (the simulator). */
	void (*from)(struct diw_dgram *d, const struct diw_addr *local);
	void (*close)(struct diw_dgram *d);
};

/* Is told the fate of datagrams that were received (llp/capture.c). */
struct diw_dgram_watch {
	/* The datagram that contains the byte AT, of the burst received last, was dropped. REASON is a counter's
	 * name. */
	void (*dropped)(struct diw_dgram_watch *w, const uint8_t *at, const char *reason);
	/* All datagrams of the burst received last have been processed. */
	void (*seen)(struct diw_dgram_watch *w, uint64_t now);
};

/* Receiving in place (llp/udp_place.c, llp/shm.c): the octets of a large datagram are copied straight to where they
 * belong. */
struct diw_dgram_reach {
	/* The next datagram is from SRC and has LEN octets, of which HEAD has the first DIW_DGRAM_HEAD. Writes to
	 * `place` where those behind the head belong, but for some at the end, and returns the number of entries; 0:
	 * recv returns the whole datagram. Called within recv. */
	int (*ask)(struct diw_dgram_reach *r, const struct diw_addr *src, const uint8_t *head, uint32_t len,
		   uint64_t now);
	struct iovec place[DIW_DGRAM_PLACES];
	/* The caller of recv sets 0. Then recv sets the number of octets that are in place: the burst is one datagram,
	 * whose `len` counts them, and whose memory has the head and the octets behind those in place. */
	uint32_t placed;
};

/* What a dgram reports. The code that handles an errno or a change clears it. */
struct diw_dgram_state {
	int tx_errno;                /* the errno of the last refusal, or 0 */
	struct diw_addr tx_errpeer;  /* with tx_errno: the destination of the refused datagram */
	bool tx_icmp;                /* with tx_errno: the kernel had sent the datagram, and an ICMP message came
				      * later */
	bool tx_timed;               /* what blocks a send ends by the deadline; the descriptor does not tell */
	bool fds_changed;            /* a descriptor was added */
	bool mtu_changed;            /* a path's MTU became smaller */
};

struct diw_dgram {
	const struct diw_dgram_ops *ops;
	struct diw_dgram_state *state;   /* &own; of a dgram over another one: that of the lower one */
	struct diw_dgram_state own;
	struct diw_dgram_watch *watch;   /* NULL: none */
	struct diw_dgram_reach *reach;   /* NULL: nothing is received in place; most dgrams never do */
	struct diw_addr local;       /* the bound address */
	uint32_t rcvbuf;             /* bytes granted, as the kernel counts them */
	uint8_t only;                /* 4, 6: it reaches addresses of that IP version only; 0: both */
	/* A group socket's burst, which the next recv takes and returns as if this socket had received it. */
	const struct diw_dgram_burst *given;
	struct diw_counters *c;
};

static inline void diw_dgram_dropped(struct diw_dgram *d, const uint8_t *at, const char *reason)
{
	if (d->watch)
		d->watch->dropped(d->watch, at, reason);
}

static inline bool diw_dgram_reaches(const struct diw_dgram *d, const struct diw_addr *dst)
{
	return !d->only || (d->only == 4) == diw_addr_is_v4(dst);
}

struct diw_dgram_attr {
	struct diw_addr local;       /* ip zero with `any`: the wildcard; port 0: the kernel chooses */
	struct diw_addr peer;        /* port != 0: connect to it, and receive from no other */
	unsigned ifindex;            /* the device's interface, 0: none; only for scope: sockets are not bound to an
				      * interface */
	uint32_t mtu;                /* of the interface, IP bytes */
	uint32_t rcvbuf;             /* bytes to ask for */
	bool any, broadcast;
	bool group;                  /* with `any`: the socket shares its port, receives the groups that it joined, and
				      * sends nothing */
	struct diw_counters *c;
};

/* llp/udp_place.c: takes the octets of a datagram of LEN octets back from their place. P has its head and end, and room
 * for all of it. */
void diw_dgram_unplace(struct diw_dgram_reach *r, uint8_t *p, uint32_t len);

/* llp/udp.c */
int diw_udp_open(const struct diw_dgram_attr *attr, struct diw_dgram **d);

/* llp/udp_probe.c */
struct diw_udp_offload { bool gso, gro; };
/* The result of a test over loopback, made once in a process. DIWARP_OFFLOAD=none|gso|gro restricts it; all, the
 * default, does not. */
struct diw_udp_offload diw_udp_offload(void);

/* llp/uring.c: the same over io_uring. */
int diw_uring_open(const struct diw_dgram_attr *attr, struct diw_dgram **d);
/* 0: io_uring works here; else -errno (-EOPNOTSUPP: built without liburing). */
int diw_uring_try(void);

/* llp/impair_spec.c */
struct diw_impair_spec;
/* Parses "loss=1%,reorder=0.5%,delay=200us,seed=7" (grammar: diwarp(7)). Returns 0, or -EINVAL with a message in
 * err. */
int diw_impair_parse(const char *text, struct diw_impair_spec **spec, char *err, size_t errlen);
void diw_impair_spec_free(struct diw_impair_spec *spec);

/* llp/impair.c */
/* Wraps LOWER, owns it and closes it. SPEC NULL: idle, bursts pass unchanged. */
int diw_impair_open(struct diw_dgram *lower, const struct diw_impair_spec *spec, struct diw_dgram **d);
/* Is told of a lost datagram: the LEN bytes of IOV from byte OFF on. */
struct diw_impair_watch {
	void (*lost)(struct diw_impair_watch *w, bool tx, const struct diw_addr *peer, const struct iovec *iov,
		     size_t off, uint32_t len, uint64_t now);
};
void diw_impair_watch(struct diw_dgram *d, struct diw_impair_watch *w);      /* NULL: none */
/* Changes the specification in place; D must be from diw_impair_open(). Datagrams that are being delayed stay so. */
int diw_impair_set(struct diw_dgram *d, const struct diw_impair_spec *spec);

#endif
