/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The datagram seam: bursts of possibly damaged, lost or reordered datagrams.
 *
 * A burst (super-buffer) is consecutive datagrams of one peer: each `seg` bytes long, but the last, which may be
 * shorter.
 *
 * Not thread-safe: the caller holds the device's lock. `now` is the caller's clock, nanoseconds.
 */
#ifndef DIW_LLP_DGRAM_H
#define DIW_LLP_DGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"

#define DIW_DGRAM_MAX_BURST 65200u   /* bytes of one super-buffer: with the last 300 the kernel is slower */
#define DIW_DGRAM_MAX_SEGS 128u      /* datagrams of one super-buffer: the kernel's UDP_MAX_SEGMENTS */
#define DIW_DGRAM_FDS 3
#define DIW_DGRAM_AT_HAND 0u
#define DIW_DGRAM_MAX 65507u         /* UDP payload over IPv4 */

/* Is told what will never leave of the bursts that name it (llp/seal.c). */
struct diw_dgram_sender {
	/* The kernel refused N datagrams for ERRNUM; FIRST is the number of the first of them. Called within send and
	 * recv. */
	void (*refused)(struct diw_dgram_sender *s, uint32_t first, uint32_t n, int errnum);
};

struct diw_dgram_burst {
	struct diw_dest peer;        /* tx: destination; rx: source, its address alone */
	const struct iovec *iov;     /* rx: exactly one entry, valid until the next recv */
	int niov;                    /* at most IOV_MAX */
	uint32_t len;                /* bytes in all iov */
	uint32_t seg;                /* bytes of each datagram but the last; seg == len for one
	                              * (an empty datagram arrives as len == seg == 0) */
	bool group;                  /* rx: it came to a group or broadcast address */
	struct diw_addr to;          /* rx, of a group socket: that address; of one with `any`: which of its own, if
	                              * `group` is not set; else its port is 0 */
	struct diw_dgram_sender *sender;     /* tx: or NULL. What the impairment changes names none. */
	uint32_t first;              /* tx, with a sender: the first datagram's number; the others count up, modulo
	                              * 2^32 */
};

struct diw_dgram;

struct diw_dgram_ops {
	const char *name;
	/* Bursts taken, in order: those are gone, sent or lost. -EAGAIN when not even the first could be taken; then
	 * wait for the descriptor to be writable. What the kernel refuses for good counts as taken, in tx_error,
	 * leaves its errno in tx_errno, and is told to the burst's sender. iov content is read before the call returns,
	 * never later (or copied). */
	int (*send)(struct diw_dgram *d, const struct diw_dgram_burst *b, int n, uint64_t now);
	/* Bursts received, 0 when there is none now. */
	int (*recv)(struct diw_dgram *d, struct diw_dgram_burst *b, int n, uint64_t now);
	/* When it wants to be called (recv) although no descriptor is ready; DIW_NEVER; DIW_DGRAM_AT_HAND: it has
	 * received more than it has returned. */
	uint64_t (*deadline)(struct diw_dgram *d);
	/* Largest datagram that reaches DST without IP fragments, as far as is known. */
	uint32_t (*mtu)(struct diw_dgram *d, const struct diw_addr *dst);
	/* Descriptors to poll, the one that sends first; how many (the simulator: none). */
	int (*fds)(struct diw_dgram *d, int fd[DIW_DGRAM_FDS]);
	/* Of a group socket: begin to hear GROUP, or end. NULL where there are none (the simulator). -ENOBUFS: the
	 * kernel allows a socket no more groups. */
	int (*member)(struct diw_dgram *d, const struct diw_addr *group, bool join);
	/* With `any`: datagrams have this local address as their source from now on, whatever address
	 * the peer sent to (NULL: that address). NULL where there is one address (the simulator). */
	void (*from)(struct diw_dgram *d, const struct diw_addr *local);
	void (*close)(struct diw_dgram *d);
};

/* Wants to know what becomes of the datagrams that were received (llp/capture.c). */
struct diw_dgram_watch {
	/* The datagram that contains the byte AT, of the burst received last, was dropped for REASON, a counter. */
	void (*dropped)(struct diw_dgram_watch *w, const uint8_t *at, const char *reason);
	/* Every datagram of the burst received last was looked at. */
	void (*seen)(struct diw_dgram_watch *w, uint64_t now);
};

struct diw_dgram {
	const struct diw_dgram_ops *ops;
	struct diw_dgram_watch *watch;   /* NULL: none */
	struct diw_addr local;       /* bound address */
	uint32_t rcvbuf;             /* as granted, bytes as the kernel counts */
	uint8_t only;                /* 4, 6: it reaches no other addresses than those of this version of IP; 0: both */
	int tx_errno;                /* the last refusal; its reporter clears it */
	struct diw_addr tx_errpeer;  /* with that: of what was sent to this address; */
	bool tx_icmp;                /* the kernel sent it, and an ICMP message has come since */
	bool fds_changed;            /* there is one more; the thread that polls them clears it */
	bool mtu_changed;            /* a path's MTU became smaller; its reporter clears it */
	/* A group socket's burst, which the next recv takes and returns as if it had come to this one. */
	const struct diw_dgram_burst *given;
	struct diw_counters *c;
};

static inline void diw_dgram_dropped(struct diw_dgram *d, const uint8_t *at, const char *reason)
{
	if (d->watch)
		d->watch->dropped(d->watch, at, reason);
}

/* D hands up what LOWER, which it is made over, has to tell. */
static inline void diw_dgram_pull_up(struct diw_dgram *d, struct diw_dgram *lower)
{
	if (lower->tx_errno) {
		d->tx_errno = lower->tx_errno;
		d->tx_errpeer = lower->tx_errpeer;
		d->tx_icmp = lower->tx_icmp;
		lower->tx_errno = 0;
	}
	d->fds_changed |= lower->fds_changed;
	lower->fds_changed = false;
	d->mtu_changed |= lower->mtu_changed;
	lower->mtu_changed = false;
}

static inline bool diw_dgram_reaches(const struct diw_dgram *d, const struct diw_addr *dst)
{
	return !d->only || (d->only == 4) == diw_addr_is_v4(dst);
}

struct diw_dgram_attr {
	struct diw_addr local;       /* ip zero with `any` set: wildcard; port 0: the kernel chooses */
	struct diw_addr peer;        /* port != 0: connect to it, and take nothing from others */
	unsigned ifindex;            /* of the device, 0 none; for scope only, sockets are not bound to an interface */
	uint32_t mtu;                /* of the interface, IP bytes */
	uint32_t rcvbuf;             /* bytes to ask for */
	bool any, broadcast;
	bool group;                  /* with `any`: shares its port, hears the groups that it joined, sends nothing */
	struct diw_counters *c;
};

/* llp/udp.c */
int diw_udp_open(const struct diw_dgram_attr *attr, struct diw_dgram **d);
struct diw_udp_offload { bool gso, gro; };
/* What a loopback pair proved, once a process. DIWARP_OFFLOAD=none|gso|gro restricts it. */
struct diw_udp_offload diw_udp_offload(void);

/* llp/uring.c: the same over io_uring */
int diw_uring_open(const struct diw_dgram_attr *attr, struct diw_dgram **d);
/* 0: it works here; or -errno, -EOPNOTSUPP: built without liburing. */
int diw_uring_try(void);

/* llp/impair.c */
struct diw_impair_spec;
/* Parse "loss=1%,reorder=0.5%,delay=200us,seed=7" (grammar: diwarp(7)). 0, or -EINVAL with a text in err. */
int diw_impair_parse(const char *text, struct diw_impair_spec **spec, char *err, size_t errlen);
void diw_impair_spec_free(struct diw_impair_spec *spec);
/* Wrap LOWER (owned from now on, closed with it). SPEC NULL = idle: bursts pass through untouched. */
int diw_impair_open(struct diw_dgram *lower, const struct diw_impair_spec *spec, struct diw_dgram **d);
/* A datagram that was lost: the LEN bytes of IOV from its byte OFF on. */
struct diw_impair_watch {
	void (*lost)(struct diw_impair_watch *w, bool tx, const struct diw_addr *peer, const struct iovec *iov,
		     size_t off, uint32_t len, uint64_t now);
};
void diw_impair_watch(struct diw_dgram *d, struct diw_impair_watch *w);      /* NULL: none */
/* Change it in place; D must come from diw_impair_open. What is delayed stays so. */
int diw_impair_set(struct diw_dgram *d, const struct diw_impair_spec *spec);

#endif
