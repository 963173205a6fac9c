/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages between `diw cp` and `diw recv`: one Send a message, at most XFER_MAX bytes, any of which may be
 * lost.
 *
 *   cp                                        recv
 *   OFFER name, size, SHA-256, message size ->            repeated until something comes back
 *                                           <- REFUSE     text; `busy`: ask again later
 *                                           <- ASK        STag, TO, entries first, first + 1, ...: (offset, length)
 *   Write-Records, one an entry, the entry's index as immediate ->
 *   STATUS next                             ->            all before entry `next` has been sent; also every 20 ms
 *                                           <- DONE       the result, and a page of the holes that remain
 *   MORE first                              ->            the page of holes that begins there
 *   BYE                                     ->
 *
 * The receiver drives. It requests no more than its socket buffer holds, reads the validity map of every record, and
 * requests missing bytes again. The list of entries is go-back-N: STATUS acknowledges; entries beyond a gap are ignored
 * and sent again. STATUS leaves behind the data that it acknowledges: an entry before `next` whose record is not open
 * is lost.
 *
 * With a group (`diw cp --group`) there are many receivers, so the sender drives.
 *
 *   cp, to the group                          recv, to cp
 *   ANNOUNCE name, size, SHA-256, block, STag ->          every 100 ms until the end
 *                                           <- JOIN       token 0, nonce, name
 *   WELCOME token, nonce, the fields of ANNOUNCE, to that receiver ->
 *                                           <- JOIN       token, nonce
 *   WELCOME token, nonce, ..., ACCEPTED     ->
 *   Write-Records                           ->
 *   MARK number, bytes sent until now       ->
 *                                           <- REPORT     number, bytes received: paces the sender
 *   an empty Write-Record, MARK pass, END   ->            repeated until each receiver has answered
 *                                           <- WANT       pages of the bitmap of missing blocks; REPORT pass, ANSWER
 *   Write-Records of all that one or more lack, and so on
 *                                           <- KEPT       the whole file was saved, or why not
 *   REFUSE text, to that receiver           ->            its part ends
 *   BYE                                     ->
 *
 * The nonce proves the sender's address, and the token the receiver's. An announcement may be forged, so a receiver
 * takes the description of the file from the WELCOME. The first JOIN contains the name, so that a WELCOME is not much
 * larger than the message that causes it.
 *
 * The receivers answer the end of a pass after a random time, so that thousands of answers do not collide (NORM does
 * so, too: RFC 5740 section 5.3). The sender merges the pages: a block that several receivers lack is sent once.
 *
 * Over RC and RD the messages are those for one receiver, and the entries are RDMA Writes. No message is lost or
 * overtaken, so a STATUS confirms placement; cp also sends one behind every larger entry. Repeats are rare there, since
 * they wait behind the data.
 */
#ifndef DIW_TOOLS_XFER_H
#define DIW_TOOLS_XFER_H

#include "tools/rc.h"

#define XFER_MAX 512u                /* inline: no buffer is kept until a completion */
#define XFER_NAME_MAX 255u
#define XFER_TEXT_MAX 120u
#define XFER_PAGE 16u                /* entries or holes in one message */
#define XFER_BITS 3584u              /* blocks of a WANT: a page of the bitmap */
#define XFER_RECORD_HDR 32u          /* octets in front of the payload of a Write-Record without an immediate */
#define XFER_SLOTS 256u              /* receives that are kept posted */
#define XFER_ENTRIES 1024u           /* the most entries that are not resolved; a power of two */
#define XFER_CQ (4u * XFER_ENTRIES)
#define XFER_SILENCE_NS (5 * DIW_S)  /* after this silence the other end is given up */
#define XFER_STATUS_NS (20 * DIW_MS)
#define XFER_RECORD_NS (30 * DIW_MS) /* timeout of a record */
#define XFER_RETRY_NS (200 * DIW_MS)
#define XFER_RELIABLE_SILENCE_NS (30 * DIW_S)
#define XFER_RELIABLE_RETRY_NS DIW_S
#define XFER_MESSAGE (256u << 10)    /* bytes of a Write-Record, unless --message sets another value */

enum xfer_type { XFER_OFFER = 1, XFER_REFUSE, XFER_ASK, XFER_STATUS, XFER_DONE, XFER_MORE, XFER_BYE,
	XFER_ANNOUNCE, XFER_JOIN, XFER_WELCOME, XFER_MARK, XFER_REPORT, XFER_WANT, XFER_KEPT };
enum xfer_flags {
	XFER_ONCE = 1,               /* OFFER: no repair of lost parts */
	XFER_BUSY = 1,               /* REFUSE */
	XFER_SHA_OK = 1,             /* DONE */
	XFER_NOT_SAVED = 2,          /* DONE: complete or not, the file could not be kept; `text` has the reason */
	XFER_AGAIN = 1,              /* entry: it was requested before */
	XFER_ACCEPTED = 1,           /* WELCOME: the sender has added the receiver */
	XFER_END = 1,                /* MARK: end of a pass */
	XFER_ANSWER = 1,             /* REPORT: answers the MARK with XFER_END of that pass */
	XFER_HAVE = 2,               /* REPORT: every byte is there; the receiver hashes */
};

struct xfer_entry { uint64_t off; uint64_t len; uint32_t flags; };

struct xfer_msg {
	uint8_t type;
	uint64_t id;                 /* of the transfer: a random number of the sender */
	uint32_t flags;
	uint64_t size;               /* OFFER, ANNOUNCE, WELCOME: size; DONE: valid bytes */
	uint32_t message;            /* OFFER: most bytes of a Write-Record; ANNOUNCE, WELCOME: bytes of a block */
	uint8_t sha[32];             /* OFFER, ANNOUNCE, WELCOME */
	char text[XFER_NAME_MAX + 1];/* OFFER, ANNOUNCE, JOIN, WELCOME: name; others: reason */
	uint32_t stag;               /* ASK, ANNOUNCE, WELCOME */
	uint64_t to;                 /* ASK: tagged offset of the file's first byte */
	uint32_t first;              /* ASK, STATUS (next), DONE, MORE: index */
	uint32_t total;              /* DONE: number of holes */
	uint64_t again;              /* DONE: bytes requested again */
	uint64_t elapsed_ns;         /* DONE: from the first ASK to the last byte; KEPT: from the first byte */
	uint64_t token;              /* JOIN, WELCOME, REPORT, WANT, KEPT */
	uint64_t nonce;              /* JOIN, WELCOME: the receiver's */
	uint32_t mark, pass;         /* MARK, REPORT; WANT: only pass */
	uint32_t backoff_us;         /* MARK: the answer is to come within this time */
	uint32_t rcvbuf;             /* JOIN: bytes of the receiver's socket buffer */
	uint64_t bytes;              /* MARK: sent to the group; JOIN, REPORT: received */
	uint64_t block;              /* WANT: the page's first block */
	uint8_t page[XFER_BITS / 8]; /* WANT: one bit a block, 1: missing */
	uint32_t n;                  /* ASK, DONE: entries in this message */
	struct xfer_entry entry[XFER_PAGE];
};

uint32_t xfer_encode(const struct xfer_msg *m, uint8_t buf[XFER_MAX]);
int xfer_decode(struct xfer_msg *m, const uint8_t *buf, size_t len);        /* -EBADMSG */

/* An endpoint with receives for these messages. */
struct xfer_port { struct endpoint ep; struct inbox in; };
/* The other end: the queue pair that reaches it, NULL if its connection has ended; on UD and RD also its address. */
struct xfer_peer { struct diw_qp *qp; struct diw_addr addr; enum diw_qp_type type; };
static inline bool xfer_is_reliable(const struct xfer_peer *p) { return p->type != DIW_QP_UD; }
int xfer_open(struct xfer_port *p, const char *dev, const struct diw_addr *dst, struct diw_qp_attr *attr);
/* Opens the queue pair and its receives only; device, protection domain and completion queue exist already. */
int xfer_start(struct xfer_port *p, struct diw_qp_attr *attr);
void xfer_close(struct xfer_port *p);
/* The wr_id of the request is the transfer's id. BYE is signalled. */
int xfer_send(const struct xfer_peer *to, const struct xfer_msg *m);
/* Decodes the message of a receive completion, and posts its receive again. -EBADMSG: it is no such message. */
int xfer_take(const struct inbox *in, const struct diw_wc *wc, struct xfer_msg *m);

/* SHA-256 of LEN bytes in slices. TICK(ctx, done) is called between them; -EINTR: tick returned false. */
int xfer_sha256(const void *data, uint64_t len, uint8_t sha[32], bool (*tick)(void *ctx, uint64_t done), void *ctx);
void xfer_hex(const uint8_t sha[32], char hex[65]);
void xfer_catch_sigbus(void);        /* on SIGBUS (a mapped file became shorter, or its disk failed): print that and
				      * exit */

/* A name that stays within a directory and contains no control characters. */
bool xfer_name_ok(const char *name);
/* Replaces control characters in a peer's text by '?'. */
const char *xfer_printable(char *text);

#endif
