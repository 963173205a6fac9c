/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of rdmap/ share. The caller holds the device's lock and passes the clock. */
#ifndef DIW_RDMAP_INT_H
#define DIW_RDMAP_INT_H

#include "rdmap/rdmap.h"

/* ---- Code for several types (rdmap/rx.c) ---- */

/* Entries of struct diw_ddp_ulp for types over datagrams. */
#define DIW_RDMAP_DGRAM_ULP \
	.target = diw_rdmap_target, .recv_done = diw_rdmap_recv_done, \
	.record_done = diw_rdmap_record_done, .challenge = diw_rdmap_challenge

/* The checks that need the opcode table alone; the kind of T. */
uint16_t diw_rdmap_dgram_target(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
uint16_t diw_rdmap_target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now);
void diw_rdmap_recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault);
bool diw_rdmap_record_done(void *ctx, struct diw_record *rec, uint32_t lo, uint32_t hi, bool end);
void diw_rdmap_refused(void *ctx, uint32_t first, uint32_t n, int errnum);
/* Entries of struct diw_rdmap_type for types over datagrams. */
int diw_rdmap_dgram_init(struct diw_rdmap *r);

static inline bool diw_rdmap_takes(const struct diw_rdmap *r, uint8_t opcode)
{
	return r->type->opcodes >> opcode & 1;
}

/* Whether the type accepts a segment with these fields of RDMAP: 0 or a fault. */
static inline uint16_t diw_rdmap_check(const struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	const struct diw_ddp_hdr *h = &seg->h;
	const struct diw_rdmap_op *op = &diw_rdmap_ops[h->opcode];
	bool takes = diw_rdmap_takes(r, h->opcode);

	if (!(op->any_qkey && takes) && !diw_ddp_is_qkey(&r->ddp, h->qkey))
		return DIW_FAULT_QKEY;
	if (!takes || op->tagged != h->tagged)
		return DIW_FAULT_OPCODE;
	if (h->qn != op->qn)
		return DIW_FAULT_QN;
	return (h->imm_valid && !op->imm) || (h->solicited && !op->solicited) ?
	       DIW_FAULT_RDMAP_VERSION : 0;     /* the reserved bits */
}

/* Before the last segment of a Send takes effect: whether the peer may end the use of the STag. 0 or a fault. */
static inline uint16_t diw_rdmap_check_invalidate(struct diw_rdmap *r, const struct diw_ddp_seg *seg)
{
	return !diw_op_invalidates(seg->h.opcode) || !seg->h.last ||
	       diw_ddp_invalidate(&r->ddp, seg->h.inv_stag, seg, true) ? 0 : DIW_FAULT_INVALIDATE;
}

/* ---- rdmap/tx.c ---- */

/* Of the wire: whether a Send is solicited, and whether it invalidates. */
uint8_t diw_rdmap_opcode_of(const struct diw_rdmap_wr *wr);
/* Begins the message of WR over datagrams. */
void diw_rdmap_message_begin(struct diw_rdmap *r, struct diw_ddp_tx *tx, const struct diw_rdmap_wr *wr);
/* RC, RD: of requests that send nothing. */
static inline bool diw_rdmap_is_local(const struct diw_rdmap_wr *wr) { return wr->opcode >= DIW_OP_LOCAL_INV; }
uint8_t diw_rdmap_local(struct diw_rdmap *r, const struct diw_rdmap_wr *wr);     /* its status */

/* ---- rdmap/read.c, for UD ---- */

int diw_rdmap_reads_init(struct diw_rdmap *r);           /* -ENOMEM */
void diw_rdmap_reads_fini(struct diw_rdmap *r);
/* The sink of a Read as the peer names it: the first entry. The responses' offsets cover all entries. */
static inline uint32_t diw_rdmap_sink_stag(const struct diw_rdmap_wr *wr)
{
	return wr->buf.n ? wr->buf.sge[0].stag : 0;
}
static inline uint64_t diw_rdmap_sink_to(const struct diw_rdmap_wr *wr) { return wr->buf.n ? wr->buf.sge[0].to : 0; }
static inline struct diw_read_request diw_rdmap_read_of(const struct diw_rdmap_wr *wr)
{
	return (struct diw_read_request){ diw_rdmap_sink_stag(wr), diw_rdmap_sink_to(wr), wr->buf.len, wr->stag,
					  wr->to };
}
/* Whether the pieces of BUF are local memory that this queue pair may write. */
bool diw_rdmap_sink_is_writable(const struct diw_rdmap *r, const struct diw_ddp_buf *buf);
int diw_rdmap_read_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
void diw_rdmap_read_placed(void *ctx, void *read, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_reads_timers(struct diw_rdmap *r, uint64_t now);
uint64_t diw_rdmap_reads_deadline(const struct diw_rdmap *r);
/* Handles refused segments that carry Read Requests. */
void diw_rdmap_reads_unsent(struct diw_rdmap *r, uint32_t first, uint32_t n, int errnum);
bool diw_rdmap_read_refused(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn, uint16_t fault);
/* Such a Read is outstanding, and may be repeated. */
bool diw_rdmap_read_may_repeat(const struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn);
void diw_rdmap_read_repeat(struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn, uint64_t now);

/* ---- rdmap/answer.c ---- */

uint16_t diw_rdmap_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);
/* Drops the answers for epochs that have ended, if the type has Reads. */
void diw_rdmap_answers_end_epochs(struct diw_rdmap *r, uint64_t now);

/* ---- rdmap/write.c ---- */

uint16_t diw_rdmap_write_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_write_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_write_timer(struct diw_rdmap *r, uint64_t now);
uint64_t diw_rdmap_write_deadline(const struct diw_rdmap *r);
/* UC: the peer has proved the epoch. Other types ignore it. */
void diw_rdmap_write_proved(struct diw_rdmap *r, uint16_t epoch, uint64_t now);

/* ---- rdmap/flow.c ---- */

void diw_rdmap_flow_init(struct diw_rdmap *r);
uint16_t diw_rdmap_flow_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/proof.c ---- */

/* Asks the source address of SEG for a proof that the address is its own. */
void diw_rdmap_challenge(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);
uint16_t diw_rdmap_validation_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/term.c ---- */

/* Whether the message is one of the last that were sent. */
bool diw_rdmap_is_recent(const struct diw_rdmap *r, bool tagged, uint32_t msn);
/* Reports the fault to the source of SEG, if that is allowed. */
void diw_rdmap_term_send(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now);
void diw_rdmap_term_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/rc.c ---- */

void diw_rdmap_rc_add_pending(struct diw_rdmap *r, struct diw_rdmap_wr *wr);
struct diw_rdmap_wr *diw_rdmap_rc_oldest(const struct diw_rdmap *r);      /* or NULL */

/* ---- rdmap/rc_read.c ---- */

int diw_rdmap_rc_read(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_rc_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
void diw_rdmap_rc_read_placed(struct diw_rdmap *r, struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg);
/* The memory for the oldest Read's Response is not registered any more. */
void diw_rdmap_rc_read_unplaced(struct diw_rdmap *r);
uint16_t diw_rdmap_rc_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_as_rdmap(uint16_t fault);
/* Resolves the source of a Read; NULL if it has no bytes. 0 or a fault. */
uint16_t diw_rdmap_rc_source(const struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint8_t **from);
/* The next entry in the ring of answers, or NULL: the peer has more requests outstanding than it may. */
struct diw_rdmap_rc_answer *diw_rdmap_rc_answer_new(struct diw_rdmap *r);

/* ---- rdmap/rc_snap.c ---- */

/* The oldest LEN copied bytes. Returns the number of entries, at most DIW_RDMAP_SNAP_IOV. The second call drops
 * them. */
int diw_rdmap_snap_iov(const struct diw_rdmap_snap *s, uint32_t len, struct iovec *iov);
void diw_rdmap_snap_drop(struct diw_rdmap_snap *s, uint32_t len);

/* ---- rdmap/rc_place.c ---- */

/* Adds the placement word to the header of a message that begins, if there is one. */
void diw_rdmap_rc_word(struct diw_rdmap *r, struct diw_ddp_hdr *h, bool ask);
/* Adds the count of the peer's messages that are placed. */
void diw_rdmap_rc_count(const struct diw_rdmap *r, struct diw_ddp_hdr *h);
/* Reads the peer's progress from a received segment. */
void diw_rdmap_rc_heard(struct diw_rdmap *r, const struct diw_ddp_hdr *h);
/* Whether the word of a segment that was read is the number of our messages that are known to be placed. */
bool diw_rdmap_rc_is_count(const struct diw_rdmap *r, const struct diw_ddp_hdr *h);
/* A Write, Send or Immediate of the peer has been placed. TOLD: with a completion. */
void diw_rdmap_rc_placed(struct diw_rdmap *r, const struct diw_ddp_hdr *h, bool told);

/* ---- rdmap/atomic.c ---- */

int diw_rdmap_atomic(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_atomic_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* Executes the atomic for PEER. */
uint16_t diw_rdmap_atomic_do(struct diw_rdmap *r, struct diw_rdmap_rc_answer *a, const struct diw_addr *peer);
/* For RC and RD: the sink of a request, its body, the target of its response; a received request. */
bool diw_rdmap_atomic_sink(const struct diw_rdmap *r, const struct diw_ddp_buf *buf);
void diw_rdmap_atomic_put(uint8_t body[DIW_RDMAP_ATOMIC_LEN], const struct diw_rdmap_wr *wr, uint32_t reqid);
uint8_t diw_rdmap_atomic_place(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_atomic_get(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_rdmap_rc_answer *a);
int diw_rdmap_atomic_answer(struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint64_t now);
uint16_t diw_rdmap_atomic_answered(struct diw_rdmap *r, const struct diw_ddp_seg *seg);

/* ---- rdmap/terminate.c ---- */

uint16_t diw_rdmap_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

#endif
