/* SPDX-License-Identifier: BSD-2-Clause */
/* Definitions that the files of mpa/ share: the link, and the buffers of its device. */
#ifndef DIW_MPA_INT_H
#define DIW_MPA_INT_H

#include "mpa/mpa.h"

#ifndef DIW_MPA_STAGE
#define DIW_MPA_STAGE 131072u        /* at least DIW_MPA_MAX_FPDU */
#endif
#ifndef DIW_MPA_SCRATCH
#define DIW_MPA_SCRATCH 262144u      /* bytes of one read */
#endif
#define DIW_MPA_FRONT 4096u          /* a remainder up to this size is copied in front of the data of the next read */
#ifndef DIW_MPA_WRITE                /* docs/performance.md says how it was found */
#define DIW_MPA_WRITE 589824u        /* octets of one write: a message of 512 KiB and 64 KiB of the next one */
#endif
#define DIW_MPA_FIRST 131072u        /* octets of the first write of a run; each further one may have twice as many */
/* The most that a link has to keep: a write that the stream did not take, or an FPDU that was not taken and all that
 * came behind it. */
#define DIW_MPA_OWN DIW_MPA_WRITE
#define DIW_MPA_HEAD (DIW_MPA_LEN + DIW_LINK_MAX_HDR)  /* octets of an FPDU that is received in place, for up->reach */
#define DIW_MPA_EDGES 31             /* FPDUs of one gathered write, and one more */
#define DIW_MPA_PIECES 128           /* of an open write */
#define DIW_MPA_EDGE 64u             /* the end of an FPDU, and the length and header of the next one */

struct diw_mpa {
	struct diw_link l;
	struct diw_stream *s;
	struct diw_mpa_pool *pool;
	uint32_t mulpdu;
	bool crc, tx_markers, rx_markers, packed;

	bool tx_fin, tx_shut;        /* tx_fin: the stream shall end; tx_shut: it was told to end */
	int tx_errno;                /* the stream cannot send any more */
	uint32_t tx_pos;             /* position of the next octet; only its last 9 bits are used */
	uint32_t tx_off, tx_len;     /* the unsent part of tx_own */
	uint8_t *tx_own;             /* NULL when empty */

	bool rx_stalled;             /* segments in rx_own were not taken, and nothing is received */
	bool rx_ended, rx_down;      /* rx_ended: the peer's half has ended; rx_down: the layer above was told */
	uint32_t rx_pos;             /* position of the first octet that is not parsed; only its last 9 bits are used */
	uint32_t rx_len, rx_good;    /* octets in rx_own; of these, octets of FPDUs that were checked and whose markers
				      * were removed */
	uint8_t *rx_own;             /* NULL when empty; begins with an FPDU */
	bool rx_direct;              /* of that FPDU rx_own has only the head, and octets behind the FPDU */
	bool rx_dropped;             /* with rx_direct: its octets have no place any more */
	uint32_t rx_placed;          /* with rx_direct: octets behind the head that have come */
};

struct diw_mpa_pool {
	void *free;                  /* free own buffers, linked through their first word */
	uint32_t nfree;
	struct diw_mpa *stager;      /* the link whose write is open */
	uint32_t staged;             /* octets of `stage` */
	uint32_t limit;              /* octets that the open write may have */
	uint32_t open_len;           /* octets of the open write, and its pieces: parts of `stage`, and payloads that
				      * stay in the caller's memory */
	int npieces;
	struct iovec pieces[DIW_MPA_PIECES];
	uint8_t edge[DIW_MPA_EDGES][DIW_MPA_EDGE];
	uint8_t stage[DIW_MPA_STAGE];
	uint8_t scratch[DIW_MPA_FRONT + DIW_MPA_SCRATCH];
};

static inline struct diw_mpa *diw_mpa_of(struct diw_link *l) { return (struct diw_mpa *)l; }

/* Returns an own buffer, or NULL. */
uint8_t *diw_mpa_own_get(struct diw_mpa_pool *p);
void diw_mpa_own_put(struct diw_mpa_pool *p, uint8_t **own);

/* ---- mpa/tx.c ---- */
int diw_mpa_send(struct diw_link *l, const struct diw_dest *dst, const struct diw_link_seg *segs, int n, uint64_t now);
int diw_mpa_flush(struct diw_link *l, uint64_t now);
void diw_mpa_shutdown(struct diw_link *l, uint64_t now);
void diw_mpa_unstage(struct diw_mpa *m);             /* drops the staged bytes */
/* ---- mpa/rx.c ---- */
int diw_mpa_poll(struct diw_link *l, int budget, uint64_t now);

#endif
