/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `diw cp` and `diw recv` say to each other: one Send a message, at most XFER_MAX bytes, any of which may be lost.
 *
 *   cp                                        recv
 *   OFFER name, size, SHA-256, message size ->            repeated until something comes back
 *                                           <- REFUSE     text; `busy`: ask again later
 *                                           <- ASK        STag, TO, entries first, first + 1, ...: (offset, length)
 *   Write-Records, one an entry, the entry's index as immediate ->
 *   STATUS next                             ->            all before entry `next` has been sent; also every 20 ms
 *                                           <- DONE       what became of it, and a page of the holes that remain
 *   MORE first                              ->            the page of holes that begins there
 *   BYE                                     ->
 *
 * The receiver drives: it asks for no more than its socket buffer holds, reads the validity map of every record, and
 * asks again for what is missing. The list of entries is go-back-N: STATUS acknowledges, entries beyond a gap are
 * ignored and sent again. STATUS leaves behind the data it speaks of: an entry before `next` whose record is not open
 * is lost.
 *
 * To a group it is said otherwise, since there are many receivers (`diw cp --group`): the sender drives.
 *
 *   cp, to the group                          recv, to cp
 *   ANNOUNCE name, size, SHA-256, block, STag ->          every 100 ms until the end
 *                                           <- JOIN       token 0, nonce
 *   WELCOME token, nonce, to that receiver  ->            the nonce proves the sender's address,
 *                                           <- JOIN       token, nonce: the token the receiver's
 *   WELCOME token, nonce, ACCEPTED          ->
 *   Write-Records                           ->
 *   MARK number, bytes sent until now       ->
 *                                           <- REPORT     number, bytes that came: paces the sender
 *   an empty Write-Record, MARK pass, END   ->            repeated until each receiver has answered
 *                                           <- WANT       pages of the bitmap of missing blocks; REPORT pass, ANSWER
 *   Write-Records of all that one or more lack, and so on
 *                                           <- KEPT       the whole file is there, or why not
 *   REFUSE text, to that receiver           ->            its part ends
 *   BYE                                     ->
 *
 * The receivers answer the end of a pass after a random time, so that thousands of messages do not meet (RFC 5740
 * section 5.3 has this of NORM). The sender merges the pages: what several lack is sent once.
 *
 * Over RC and RD the same as to one receiver is said, and the entries are RDMA Writes. Nothing is lost and nothing
 * overtakes, so STATUS says what has been placed; cp says it behind every larger entry, too. Repeats are rare there:
 * they wait behind the data.
 */
#ifndef DIW_TOOLS_XFER_H
#define DIW_TOOLS_XFER_H

#include "tools/rc.h"

#define XFER_MAX 512u                /* inline: no buffer to keep until a completion */
#define XFER_NAME_MAX 255u
#define XFER_TEXT_MAX 120u
#define XFER_PAGE 16u                /* entries or holes of one message */
#define XFER_BITS 3584u              /* blocks of one WANT: a page of the bitmap */
#define XFER_RECORD_HDR 32u          /* octets before the payload of a Write-Record without an immediate */
#define XFER_SLOTS 256u              /* receives kept posted */
#define XFER_ENTRIES 1024u           /* unresolved entries at most; a power of two */
#define XFER_SILENCE_NS (5 * DIW_S)  /* then the other end is given up */
#define XFER_STATUS_NS (20 * DIW_MS)
#define XFER_RECORD_NS (30 * DIW_MS) /* a record's timeout */
#define XFER_RETRY_NS (200 * DIW_MS)
#define XFER_RELIABLE_SILENCE_NS (30 * DIW_S)
#define XFER_RELIABLE_RETRY_NS DIW_S
#define XFER_MESSAGE (256u << 10)    /* bytes of one Write-Record unless --message says otherwise */

enum xfer_type { XFER_OFFER = 1, XFER_REFUSE, XFER_ASK, XFER_STATUS, XFER_DONE, XFER_MORE, XFER_BYE,
	XFER_ANNOUNCE, XFER_JOIN, XFER_WELCOME, XFER_MARK, XFER_REPORT, XFER_WANT, XFER_KEPT };
enum xfer_flags {
	XFER_ONCE = 1,               /* OFFER: no repair */
	XFER_BUSY = 1,               /* REFUSE */
	XFER_SHA_OK = 1,             /* DONE */
	XFER_NOT_SAVED = 2,          /* DONE: complete or not, the file could not be kept; text says why */
	XFER_AGAIN = 1,              /* entry: asked for before */
	XFER_ACCEPTED = 1,           /* WELCOME: the receiver is one that the sender knows */
	XFER_END = 1,                /* MARK: of a pass */
	XFER_ANSWER = 1,             /* REPORT: of the MARK with XFER_END of that pass */
	XFER_HAVE = 2,               /* REPORT: every byte is there, and is being hashed */
};

struct xfer_entry { uint64_t off; uint64_t len; uint32_t flags; };

struct xfer_msg {
	uint8_t type;
	uint64_t id;                 /* of the transfer: random, the sender's choice */
	uint32_t flags;
	uint64_t size;               /* OFFER; DONE: bytes that are valid */
	uint32_t message;            /* OFFER: bytes of one Write-Record at most; ANNOUNCE: of a block */
	uint8_t sha[32];             /* OFFER, ANNOUNCE */
	char text[XFER_NAME_MAX + 1];/* OFFER, ANNOUNCE: name; REFUSE, DONE, KEPT: why */
	uint32_t stag;               /* ASK, ANNOUNCE */
	uint64_t to;                 /* ASK: of the file's first byte */
	uint32_t first;              /* ASK, STATUS (next), DONE, MORE: index */
	uint32_t total;              /* DONE: holes */
	uint64_t again;              /* DONE: bytes asked for again */
	uint64_t elapsed_ns;         /* DONE: from the first ASK to the last byte; KEPT: from the first byte */
	uint64_t token;              /* JOIN, WELCOME, REPORT, WANT, KEPT */
	uint64_t nonce;              /* JOIN, WELCOME: the receiver's */
	uint32_t mark, pass;         /* MARK, REPORT; WANT: pass */
	uint32_t backoff_us;         /* MARK: within which the answer is to come */
	uint32_t rcvbuf;             /* JOIN: bytes of the receiver's socket buffer */
	uint64_t bytes;              /* MARK: sent to the group; JOIN, REPORT: that came */
	uint64_t block;              /* WANT: the first of the page */
	uint8_t page[XFER_BITS / 8]; /* WANT: a bit a block, 1: missing */
	uint32_t n;                  /* ASK, DONE: entries here */
	struct xfer_entry entry[XFER_PAGE];
};

uint32_t xfer_encode(const struct xfer_msg *m, uint8_t buf[XFER_MAX]);
int xfer_decode(struct xfer_msg *m, const uint8_t *buf, size_t len);        /* -EBADMSG */

/* An endpoint with its receives for such messages. */
struct xfer_port { struct endpoint ep; struct inbox in; };
/* The other end: the queue pair that reaches it, NULL when its connection has ended; on UD and RD also its address. */
struct xfer_peer { struct diw_qp *qp; struct diw_addr addr; enum diw_qp_type type; };
static inline bool xfer_is_reliable(const struct xfer_peer *p) { return p->type != DIW_QP_UD; }
int xfer_open(struct xfer_port *p, const char *dev, const struct diw_addr *dst, struct diw_qp_attr *attr);
void xfer_close(struct xfer_port *p);
/* The request's wr_id is the transfer's id. BYE is signalled. */
int xfer_send(const struct xfer_peer *to, const struct xfer_msg *m);
/* The message of a receive completion; its receive is posted again. -EBADMSG when it is none. */
int xfer_take(const struct inbox *in, const struct diw_wc *wc, struct xfer_msg *m);

/* SHA-256 of LEN bytes in slices, with TICK(ctx, done) called in between; -EINTR when tick returns false. */
int xfer_sha256(const void *data, uint64_t len, uint8_t sha[32], bool (*tick)(void *ctx, uint64_t done), void *ctx);
void xfer_hex(const uint8_t sha[32], char hex[65]);
void xfer_catch_sigbus(void);        /* a mapped file shrank or its disk failed: say so and exit */

/* A name that stays inside a directory and does no harm on a terminal. */
bool xfer_name_ok(const char *name);
/* A peer's words: control characters become '?'. */
const char *xfer_printable(char *text);

#endif
