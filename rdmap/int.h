/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of rdmap/. The caller holds the device's lock and passes the clock. */
#ifndef DIW_RDMAP_INT_H
#define DIW_RDMAP_INT_H

#include "rdmap/rdmap.h"

/* ---- What types share (rdmap/rx.c) ---- */

/* Of struct diw_ddp_ulp, of types over datagrams. */
#define DIW_RDMAP_DGRAM_ULP \
	.target = diw_rdmap_target, .recv_done = diw_rdmap_recv_done, \
	.record_done = diw_rdmap_record_done, .challenge = diw_rdmap_challenge

uint16_t diw_rdmap_target(void *ctx, const struct diw_ddp_seg *seg, struct diw_ddp_target *t, uint64_t now);
void diw_rdmap_recv_done(void *ctx, struct diw_recv *recv, const struct diw_ddp_seg *seg, uint16_t fault);
bool diw_rdmap_record_done(void *ctx, struct diw_record *rec, uint32_t lo, uint32_t hi, bool end);
void diw_rdmap_refused(void *ctx, uint32_t first, uint32_t n, int errnum);
/* Of struct diw_rdmap_type, of types over datagrams. */
int diw_rdmap_dgram_init(struct diw_rdmap *r);

static inline bool diw_rdmap_takes(const struct diw_rdmap *r, uint8_t opcode)
{
	return r->type->opcodes >> opcode & 1;
}

/* Whether the type takes a segment with these fields of RDMAP: 0 or a fault. */
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
	       DIW_FAULT_RDMAP_VERSION : 0;     /* reserved bits */
}

/* ---- rdmap/tx.c ---- */

/* Of a message over datagrams. */
struct diw_ddp_hdr diw_rdmap_dgram_hdr(const struct diw_rdmap_wr *wr);

/* ---- rdmap/read.c: of UD ---- */

int diw_rdmap_reads_init(struct diw_rdmap *r);           /* -ENOMEM */
void diw_rdmap_reads_fini(struct diw_rdmap *r);
/* The sink of a Read as the peer sees it: the first entry. What the peer sends goes by its offset to all of them. */
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
/* The pieces of BUF are local memory that this queue pair may write. */
bool diw_rdmap_sink_is_writable(const struct diw_rdmap *r, const struct diw_ddp_buf *buf);
int diw_rdmap_read_begin(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
void diw_rdmap_read_placed(void *ctx, void *read, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_reads_timers(struct diw_rdmap *r, uint64_t now);
uint64_t diw_rdmap_reads_deadline(const struct diw_rdmap *r);
/* Of the segments that the kernel refused, those that ask for Reads. */
void diw_rdmap_reads_unsent(struct diw_rdmap *r, uint32_t first, uint32_t n, int errnum);
bool diw_rdmap_read_refused(struct diw_rdmap *r, const struct diw_addr *src, uint32_t msn, uint16_t fault);
/* Such a Read is outstanding, and may be repeated once more. */
bool diw_rdmap_read_may_repeat(const struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn);
void diw_rdmap_read_repeat(struct diw_rdmap *r, const struct diw_addr *peer, uint32_t msn, uint64_t now);

/* ---- rdmap/answer.c ---- */

uint16_t diw_rdmap_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);
/* Drop the answers to epochs that ended, if the type has Reads. */
void diw_rdmap_answers_end_epochs(struct diw_rdmap *r, uint64_t now);

/* ---- rdmap/write.c ---- */

uint16_t diw_rdmap_write_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_write_placed(void *ctx, void *cookie, const struct diw_ddp_seg *seg, uint64_t now);
void diw_rdmap_write_timer(struct diw_rdmap *r, uint64_t now);
uint64_t diw_rdmap_write_deadline(const struct diw_rdmap *r);
/* UC: the peer has proved that the epoch is its own; of other types no epoch is known. */
void diw_rdmap_write_proved(struct diw_rdmap *r, uint16_t epoch, uint64_t now);

/* ---- rdmap/flow.c ---- */

void diw_rdmap_flow_init(struct diw_rdmap *r);
uint16_t diw_rdmap_flow_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/proof.c ---- */

/* Ask the address that SEG came from whether it is its own. */
void diw_rdmap_challenge(void *ctx, const struct diw_ddp_seg *seg, uint64_t now);
uint16_t diw_rdmap_validation_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/term.c ---- */

/* Of the last messages that were sent. */
bool diw_rdmap_is_recent(const struct diw_rdmap *r, bool tagged, uint32_t msn);
/* Tell the source of SEG about the fault, if it may be told. */
void diw_rdmap_term_send(void *ctx, const struct diw_ddp_seg *seg, uint16_t fault, uint64_t now);
void diw_rdmap_term_rx(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

/* ---- rdmap/rc.c ---- */

void diw_rdmap_rc_add_pending(struct diw_rdmap *r, struct diw_rdmap_wr *wr);
struct diw_rdmap_wr *diw_rdmap_rc_oldest(const struct diw_rdmap *r);      /* or NULL */

/* ---- rdmap/rc_read.c ---- */

int diw_rdmap_rc_read(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_rc_read_target(struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_ddp_target *t);
void diw_rdmap_rc_read_placed(struct diw_rdmap *r, struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_rc_read_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_as_rdmap(uint16_t fault);
/* Where the source of a Read is; NULL if it has no bytes. 0 or a fault. */
uint16_t diw_rdmap_rc_source(const struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint8_t **from);
/* The next place in the ring of answers, or NULL: the peer asks for more than it may. */
struct diw_rdmap_rc_answer *diw_rdmap_rc_answer_new(struct diw_rdmap *r);

/* ---- rdmap/rc_snap.c ---- */

/* Before what follows in the stream takes effect: copy the sources of the Reads that wait. True: what is asked for by
 * now is independent of it. */
bool diw_rdmap_rc_snap(struct diw_rdmap *r);
/* The oldest LEN bytes that are copied; how many entries, of at most DIW_RDMAP_SNAP_IOV. Then forget them. */
int diw_rdmap_snap_iov(const struct diw_rdmap_snap *s, uint32_t len, struct iovec *iov);
void diw_rdmap_snap_drop(struct diw_rdmap_snap *s, uint32_t len);

/* ---- rdmap/rc_place.c ---- */

/* Of a message that begins: its placement word, if it has one. */
void diw_rdmap_rc_word(struct diw_rdmap *r, struct diw_ddp_hdr *h, bool ask);
/* A segment that comes says how far the peer is. */
void diw_rdmap_rc_heard(struct diw_rdmap *r, const struct diw_ddp_hdr *h);
/* A Write, Send or Immediate of the peer is placed; TOLD: with a completion. */
void diw_rdmap_rc_placed(struct diw_rdmap *r, const struct diw_ddp_hdr *h, bool told);

/* ---- rdmap/atomic.c ---- */

int diw_rdmap_atomic(struct diw_rdmap *r, struct diw_rdmap_wr *wr, uint8_t *status, uint64_t now);
uint16_t diw_rdmap_atomic_asked(struct diw_rdmap *r, const struct diw_ddp_seg *seg);
/* For PEER. */
uint16_t diw_rdmap_atomic_do(struct diw_rdmap *r, struct diw_rdmap_rc_answer *a, const struct diw_addr *peer);
/* What RC and RD share: the sink of a request, its body, and where its response goes; a request that came. */
bool diw_rdmap_atomic_sink(const struct diw_rdmap *r, const struct diw_ddp_buf *buf);
void diw_rdmap_atomic_put(uint8_t body[DIW_RDMAP_ATOMIC_LEN], const struct diw_rdmap_wr *wr, uint32_t reqid);
uint8_t diw_rdmap_atomic_place(struct diw_rdmap *r, const struct diw_rdmap_wr *wr, const struct diw_ddp_seg *seg);
uint16_t diw_rdmap_atomic_get(const struct diw_rdmap *r, const struct diw_ddp_seg *seg, struct diw_rdmap_rc_answer *a);
int diw_rdmap_atomic_answer(struct diw_rdmap *r, const struct diw_rdmap_rc_answer *a, uint64_t now);
uint16_t diw_rdmap_atomic_answered(struct diw_rdmap *r, const struct diw_ddp_seg *seg);

/* ---- rdmap/terminate.c ---- */

uint16_t diw_rdmap_terminated(struct diw_rdmap *r, const struct diw_ddp_seg *seg, uint64_t now);

#endif
