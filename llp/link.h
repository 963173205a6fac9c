/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment seam: a link delivers whole, intact DDP segments; maybe not all of them, maybe out of order.
 * How it does that (CRC, framing, retransmission) is its own business. Same locking and clock as llp/dgram.h.
 */
#ifndef DIW_LLP_LINK_H
#define DIW_LLP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/statpage.h"
#include "llp/dgram.h"

enum diw_link_flags {
	DIW_LINK_RELIABLE = 1,
	DIW_LINK_ORDERED = 2,
};

#define DIW_LINK_MAX_HDR 40          /* bytes of a segment's header at most */

struct diw_link_seg {                /* tx; borrowed until send returns */
	const uint8_t *hdr;
	uint32_t hdr_len;
	uint32_t len;                /* payload bytes */
	const struct iovec *iov;     /* payload begins `off` bytes into iov[0] and runs on */
	size_t off;
};

struct diw_link_rxseg {              /* rx; borrowed until the callback returns */
	const uint8_t *data;
	uint32_t len;
	bool group;                  /* it came to a group or broadcast address */
	const struct diw_addr *to;   /* group: by the group port, to that group; else which address of the link's, if it
	                              * has more than one; or NULL */
};

struct diw_link;

struct diw_link_up {
	/* A burst of intact segments of one peer, n >= 1; returns how many were taken. The link keeps the others,
	 * receives nothing meanwhile, and offers them again at the next poll. Reliable datagrams: it is that peer
	 * alone that is held up. */
	int (*rx)(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now);
	/* RELIABLE: no more will come. Fault 0 and errnum 0: the peer has ended the stream in good order; else why it
	 * broke. Told once; the link still sends, unless errnum says that it cannot. NULL on other links. */
	void (*down)(void *ctx, uint16_t fault, int errnum, uint64_t now);
	/* Datagrams: the kernel refused N segments for ERRNUM; FIRST is the number of the first, as `taken` counts from
	 * 0. Called within send, flush and poll. NULL: no call. */
	void (*refused)(void *ctx, uint32_t first, uint32_t n, int errnum);
	/* Reliable datagrams: the peer has taken N segments; FIRST is the number of the first. Those that it will not
	 * take are `refused`. NULL on other links. */
	void (*acked)(void *ctx, uint32_t first, uint32_t n);
	/* Reliable datagrams: the peer refuses segment NUMBER for FAULT. It takes none of those behind it, which are
	 * `refused` next, ECANCELED. NULL: no call. */
	void (*rejected)(void *ctx, uint32_t number, uint16_t fault);
	/* Reliable datagrams: PEER, for which send took fewer than it was given, takes more now. NULL: so do the peers
	 * that found no place among cfg.peers. Called within send, flush and poll, and calls none of them. NULL: no
	 * call. */
	void (*room)(void *ctx, const struct diw_addr *peer);
	/* Reliable datagrams: PEER has begun anew, ECONNRESET, or was given up, ETIMEDOUT: no message that it has begun
	 * goes on, it answers nothing that it was asked before, and waits for no answer. Behind `refused`. Called
	 * within flush and poll. NULL: no call. */
	void (*gone)(void *ctx, const struct diw_addr *peer, int errnum);
};

struct diw_link_ops {
	/* Segments taken, in order; fewer than n, maybe 0, when it is blocked: then wait for the descriptor to be
	 * writable. They may stay staged until flush. Reliable datagrams: fewer means that DST takes no more until
	 * up->room names it; other peers are not blocked by that. */
	int (*send)(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		    uint64_t now);
	/* Send what is staged. 0; -EAGAIN: still staged, wait for the descriptor to be writable. RELIABLE: -errno, the
	 * stream has broken, and what was staged is lost. */
	int (*flush)(struct diw_link *l, uint64_t now);
	/* Datagrams: forget what is staged: it never leaves. NULL on other links. */
	void (*discard)(struct diw_link *l);
	/* Receive at most BUDGET bursts and hand their segments up; returns how many bursts there were. */
	int (*poll)(struct diw_link *l, int budget, uint64_t now);
	uint64_t (*deadline)(struct diw_link *l);
	/* Largest segment (header + payload) to DST: RFC 5041's MULPDU. */
	uint32_t (*mulpdu)(struct diw_link *l, const struct diw_addr *dst);
	/* Descriptors to poll, the one that sends first; how many (the simulator: none). */
	int (*fds)(struct diw_link *l, int fd[DIW_DGRAM_FDS]);
	/* RELIABLE: whether the peer has ended the stream, though not all of it was received. NULL: unknown. */
	bool (*hung_up)(struct diw_link *l);
	/* RELIABLE: the stream ends behind what is staged. NULL on other links. */
	void (*shutdown)(struct diw_link *l, uint64_t now);
	/* Reliable datagrams, within up->rx, which then returns fewer than it was given: the first segment of SRC that
	 * was not taken is refused for FAULT, not 0, and all behind it. NULL on other links. */
	void (*refuse)(struct diw_link *l, const struct diw_addr *src, uint16_t fault);
	/* Reliable datagrams: describes up to MAX peers, and returns how many; *ALL: how many there are. NULL on other
	 * links. */
	uint32_t (*peers)(const struct diw_link *l, struct diw_stat_peer *row, uint32_t max, uint32_t *all);
	/* Closes what is below, too. A RELIABLE link whose stream has not ended both ways is reset. */
	void (*close)(struct diw_link *l);
};

struct diw_link {
	const struct diw_link_ops *ops;
	unsigned flags;
	struct diw_dgram *dgram;     /* for its address and news; NULL over a stream */
	struct diw_addr local;
	bool down;                   /* RELIABLE: the stream has ended or broken: nothing will come */
	uint32_t taken, left;        /* datagrams, modulo 2^32: segments taken; of these, no longer staged */
	const struct diw_link_up *up;
	void *up_ctx;
	struct diw_counters *c;
};

/* llp/seal.c: appends and checks CRC-32 over a dgram, which it owns from now on. MULPDU 0: what the MTU allows; larger
 * than that: datagrams that IP fragments (docs/ud-profile.md). */
int diw_seal_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_link_up *up, void *up_ctx,
		  struct diw_link **l);

/* llp/rd.c: reliable datagrams over D, which it owns from now on (docs/ud-profile.md section 18). */
struct diw_rd_cfg {
	uint64_t dead_ns;            /* a peer that acknowledges nothing for so long is gone: ETIMEDOUT */
	uint64_t idle_ns;            /* a peer that is silent for so long is forgotten: at least 2 * dead_ns */
	uint64_t ack_ns;             /* an acknowledgement waits so long for a segment that carries it */
	uint32_t epoch;              /* of the queue pair, not 0; 0: drawn */
	uint32_t peers;              /* bounds: peers, */
	uint32_t slots, peer_slots;  /* segments not acknowledged, in all and a peer. A peer has at most half as many as
	                              * are free; an eighth of that, if it does not answer. */
	uint32_t held;               /* segments held that came too early, in all, */
	uint32_t window;             /* segments behind the first missing one that a peer may send, at most 65,535 */
	uint32_t max_seg;            /* octets of a segment */
};
int diw_rd_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_rd_cfg *cfg, const struct diw_link_up *up,
		void *up_ctx, struct diw_link **l);

#endif
