/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The segment seam: a link delivers whole, intact DDP segments, possibly not all of them and possibly out of order. Its
 * means (CRC, framing, retransmission) are its own. Locking and clock are as in llp/dgram.h.
 */
#ifndef DIW_LLP_LINK_H
#define DIW_LLP_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "base/counters.h"
#include "base/statpage.h"
#include "llp/dgram.h"

#define DIW_LINK_IOV 16              /* entries that up->payload writes */
#define DIW_LINK_MAX_HDR 40          /* the largest header of a segment */

struct diw_link_seg {                /* tx; borrowed until send returns; see also diw_link.stays */
	const uint8_t *hdr;
	uint32_t hdr_len;
	uint32_t len;                /* payload bytes */
	const struct iovec *iov;     /* the payload begins `off` bytes into iov[0] */
	size_t off;
	void *owner;                 /* reliable datagrams: up->payload() has the payload until the segment is acked,
				      * refused or discarded; NULL: the link copies it */
	uint32_t at;                 /* with OWNER: offset of the payload in the owner's */
	bool bare;                   /* leaves without CRC: the peer takes such segments */
};

/* The entries of iov that hold the payload. */
static inline int diw_link_seg_entries(const struct diw_link_seg *g)
{
	size_t at = 0, end = g->off + g->len;
	int n = 0;

	while (at < end)
		at += g->iov[n++].iov_len;
	return n;
}

/* Writes the parts of the payload to TO, except empty ones: an empty entry of a work request has no memory. Returns
 * their number, which is at most diw_link_seg_entries(). */
static inline int diw_link_seg_pieces(const struct diw_link_seg *g, struct iovec *to)
{
	size_t off = g->off, left = g->len;
	int n = 0;

	for (const struct iovec *v = g->iov; left > 0; v++, off = 0) {
		size_t len = v->iov_len - off < left ? v->iov_len - off : left;

		if (len == 0)
			continue;
		to[n++] = (struct iovec){ (uint8_t *)v->iov_base + off, len };
		left -= len;
	}
	return n;
}

/* Copies the payload to TO. Returns the end of the copy. */
static inline uint8_t *diw_link_seg_copy(const struct diw_link_seg *g, uint8_t *to)
{
	size_t off = g->off, left = g->len;

	for (const struct iovec *v = g->iov; left > 0; v++, off = 0) {
		size_t len = v->iov_len - off < left ? v->iov_len - off : left;

		if (len == 0)
			continue;
		memcpy(to, (uint8_t *)v->iov_base + off, len);
		to += len;
		left -= len;
	}
	return to;
}

struct diw_link_rxseg {              /* rx; borrowed until the callback returns */
	const uint8_t *data;
	uint32_t len;
	bool group;                  /* addressed to a group or broadcast address */
	const struct diw_addr *to;   /* group: that group, and the group port; else the link's address that it came to,
				      * if the link has several; or NULL */
	bool bare;                   /* came without CRC */
	uint32_t placed;             /* octets at the end that are not at `data`: they are where up->reach said */
};

struct diw_link;

struct diw_link_up {
	/* A burst of N >= 1 intact segments of one peer. Returns how many were taken. The link keeps the others,
	 * receives nothing meanwhile, and offers them again at the next poll. With reliable datagrams, only this peer
	 * is held up. */
	int (*rx)(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *segs, int n, uint64_t now);
	/* The segment *SEG, of which at least the first DIW_LINK_MAX_HDR octets are at `data`, is being received.
	 * Writes where its octets from FROM on belong, DIW_LINK_IOV entries at most, which are valid until this call
	 * returns to the poll of the link. Returns their number. 0: the link keeps all of the segment for rx. Ordered:
	 * the first question about a segment has FROM DIW_LINK_MAX_HDR; 0 at a later one: the link drops the octets,
	 * and rx takes no more segments. NULL: the link keeps all segments. */
	int (*reach)(void *ctx, const struct diw_addr *src, const struct diw_link_rxseg *seg, uint32_t from,
		     struct iovec *iov, uint64_t now);
	/* Ordered: no more segments will come. Fault 0 and errnum 0: the peer has ended the stream regularly;
	 * otherwise the reason why it broke. Called once. The link can still send, unless errnum is set. NULL on other
	 * links. */
	void (*down)(void *ctx, uint16_t fault, int errnum, uint64_t now);
	/* Datagrams: the kernel refused N segments with ERRNUM. FIRST is the number of the first one; `taken` counts
	 * from 0. Called within send, flush and poll. NULL: no call. */
	void (*refused)(void *ctx, uint32_t first, uint32_t n, int errnum);
	/* Reliable datagrams: the peer has taken N segments; FIRST is the number of the first one. Segments that it
	 * will not take are `refused`. NULL on other links. */
	void (*acked)(void *ctx, uint32_t first, uint32_t n);
	/* Reliable datagrams, at each transmission of a segment with OWNER: writes where LEN bytes from offset AT of
	 * its payload are, at most DIW_LINK_IOV entries, of which the last may be longer. Returns the number of
	 * entries. 0: the memory is gone; the header leaves alone, which the peer refuses. Must not call the link. */
	int (*payload)(void *ctx, void *owner, uint32_t at, uint32_t len, struct iovec *iov);
	/* Reliable datagrams: the peer refuses segment NUMBER with FAULT. It takes none of the segments behind it;
	 * these are `refused` next, with ECANCELED. NULL: no call. */
	void (*rejected)(void *ctx, uint32_t number, uint16_t fault);
	/* Reliable datagrams: PEER, of which send took fewer segments than it was given, takes more again. PEER NULL:
	 * so do the peers that had no place among cfg.peers. Called within send, flush and poll, and must not call
	 * these. NULL: no call. */
	void (*room)(void *ctx, const struct diw_addr *peer);
	/* Reliable datagrams: PEER has restarted or has given up this end (ECONNRESET), or was given up (ETIMEDOUT).
	 * The requests to it get no answer, and it waits for no answers. Unless it was given up, its unfinished
	 * messages end. ERRNUM 0: PEER had forgotten this end. Then this holds for the requests that it has
	 * acknowledged. Called after `refused`, within flush and poll. NULL: no call. */
	void (*gone)(void *ctx, const struct diw_addr *peer, int errnum);
};

struct diw_link_ops {
	/* Returns the segments taken, in order. Fewer than n, possibly 0: the link is blocked, so wait until the
	 * descriptor is writable. Segments may stay staged until flush. With reliable datagrams, fewer means that DST
	 * takes no more until up->room names it; other peers are not blocked. */
	int (*send)(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n,
		    uint64_t now);
	/* Sends the staged segments. 0; -EAGAIN: they are still staged, wait until the descriptor is writable.
	 * Ordered, -errno: the stream has broken, and the staged segments are lost. */
	int (*flush)(struct diw_link *l, uint64_t now);
	/* Whether there are staged segments, and these may wait for flush although the call that sent them ends: they
	 * are copies, or their payload stays valid until the peer has acknowledged them. */
	bool (*staged)(const struct diw_link *l);
	/* Datagrams: drops the staged segments. NULL on other links. */
	void (*discard)(struct diw_link *l);
	/* Receives at most BUDGET bursts and hands their segments up. Returns the number of bursts; 1 also if it has
	 * looked at an acknowledgement that had waited. */
	int (*poll)(struct diw_link *l, int budget, uint64_t now);
	uint64_t (*deadline)(struct diw_link *l);
	/* The largest segment (header and payload) to DST: RFC 5041's MULPDU. */
	uint32_t (*mulpdu)(struct diw_link *l, const struct diw_addr *dst);
	/* The descriptors to poll, that for sending first; returns their number (0 in the simulator). */
	int (*fds)(struct diw_link *l, int fd[DIW_DGRAM_FDS]);
	/* Ordered: whether the peer has ended the stream, even if received data is still unread. NULL: unknown. */
	bool (*hung_up)(struct diw_link *l);
	/* Ordered: ends the stream behind the staged segments. NULL on other links. */
	void (*shutdown)(struct diw_link *l, uint64_t now);
	/* Reliable datagrams, called within up->rx, which then returns fewer segments than it was given: the first
	 * segment of SRC that was not taken, and all behind it, are refused with FAULT, which is not 0. NULL on other
	 * links. */
	void (*refuse)(struct diw_link *l, const struct diw_addr *src, uint16_t fault);
	/* Reliable datagrams, called within up->rx: looks at the acknowledgement that waits for the next poll. NULL on
	 * other links. */
	void (*take_acks)(struct diw_link *l);
	/* Reliable datagrams: describes up to MAX peers and returns how many; *ALL is the number of peers. NULL on
	 * other links. */
	uint32_t (*peers)(const struct diw_link *l, struct diw_stat_peer *row, uint32_t max, uint32_t *all);
	/* Reliable datagrams: when the association with PEER was renewed, and when PEER restarted without having been
	 * given up before, or 0. False: PEER is not known. NULL on other links. */
	bool (*renewed)(const struct diw_link *l, const struct diw_addr *peer, uint64_t *renewed, uint64_t *restarted);
	/* Closes the link and everything below it. An ordered link whose stream has not ended in both directions is
	 * reset. */
	void (*close)(struct diw_link *l);
};

struct diw_link {
	const struct diw_link_ops *ops;
	bool ordered;                /* a stream: all segments arrive, in the order in which they were sent */
	struct diw_dgram *dgram;     /* for its address and errors; NULL over a stream */
	const struct diw_stream *stream;     /* NULL over a dgram */
	struct diw_addr local;
	bool stays;                  /* set by the layer above: the payload of the segments that it sends now stays
				      * valid until flush or discard */
	bool may_lose;               /* set by the layer above: after close, segments that the peer has not confirmed
				      * need not arrive */
	bool takes_bare;             /* set by the layer above: segments from the own address may come without CRC */
	uint32_t sure;               /* a segment of at most so many octets needs no mulpdu(): no path is known that
				      * takes fewer; 0: always ask */
	bool down;                   /* Ordered: the stream has ended or broken; no more segments will come */
	uint32_t taken, left;        /* modulo 2^32: segments taken; of these, segments of which this link holds no
				      * octet any more: the socket or stream has them */
	const struct diw_link_up *up;
	void *up_ctx;
	struct diw_counters *c;
};

/* llp/seal.c: a link over D, which it owns, that appends and checks a CRC-32. MULPDU 0: as the MTU allows; a larger
 * value means datagrams that IP fragments (docs/ud-profile.md). */
int diw_seal_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_link_up *up, void *up_ctx,
		  struct diw_link **l);

/* llp/rd.c: a link of reliable datagrams over D, which it owns (docs/ud-profile.md section 18). */
struct diw_rd_cfg {
	uint64_t dead_ns;            /* a peer that acknowledges nothing for so long is given up: ETIMEDOUT */
	uint64_t idle_ns;            /* a peer that is silent for so long is forgotten: at least 2 * dead_ns */
	uint64_t ack_ns;             /* the longest time that an acknowledgement waits for a segment to carry it */
	uint32_t epoch;              /* the queue pair's, not 0; 0: drawn */
	uint32_t peers;              /* the most peers */
	uint32_t slots, peer_slots;  /* the most segments that are not acknowledged: of all peers, and of one. A peer
				      * has at most half as many as are free, and an eighth of that if it does not
				      * answer. */
	uint32_t held;               /* the most segments that are held because they came too early, of all peers */
	uint32_t window;             /* segments behind the first missing one that a peer may send, at most 65,535 */
	uint32_t max_seg;            /* octets of a segment */
	bool bare;                   /* segments to and from the own address have no CRC if both ends agree */
	uint64_t (*clock)(void *clock_ctx);  /* reads the clock of `now`; NULL: `now` is exact */
	void *clock_ctx;
	uint64_t (*suspended)(void); /* how long that clock stood still, as the host was suspended; NULL: never does */
};
int diw_rd_open(struct diw_dgram *d, uint32_t mulpdu, const struct diw_rd_cfg *cfg, const struct diw_link_up *up,
		void *up_ctx, struct diw_link **l);

#endif
