/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * infiniband/diwdv.h - what infiniband/verbs.h has no words for in diwarp's devices: the records of RDMA Write-Record
 * on UD queue pairs, and queue pairs for reliable datagrams, diwdv(7). As with mlx5dv and efadv, a program uses it
 * beside verbs.h.
 *
 * The functions are in diwarp's libibverbs.so.1, with which a program is linked (pkg-config diwdv); with another it
 * does not start.
 */
#ifndef DIWDV_H
#define DIWDV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The completion of a Write-Record at its target. It takes no receive: wr_id is 0; byte_len is how much is valid. */
#define DIWDV_WC_RECORD IBV_WC_DRIVER1

enum diwdv_close {                   /* why a record has closed */
	DIWDV_CLOSE_COMPLETE,        /* every byte is there */
	DIWDV_CLOSE_WINDOW,          /* the reorder window after its last segment, or a later message's first, passed */
	DIWDV_CLOSE_TIMEOUT,         /* nothing came for the record timeout */
	DIWDV_CLOSE_EVICTED,         /* there were too many, and this was the heaviest source's oldest */
	DIWDV_CLOSE_DEREG,           /* its memory region was deregistered */
	DIWDV_CLOSE_EPOCH,           /* its source was created anew, or reset */
};

struct diwdv_record {
	uint64_t addr;               /* as the writer named it: where the message was to begin */
	uint32_t rkey;
	uint32_t msg_len;            /* of the whole message */
	uint32_t byte_len;           /* how many of its bytes are valid; with DIWDV_QP_CHUNKS of this chunk */
	uint32_t offset;             /* in the message, of the first of them */
	uint32_t nranges;            /* in how many pieces */
	uint32_t number;             /* the message's, of those from this source */
	union ibv_gid src;           /* the writer: a v4-mapped or an IPv6 address */
	uint32_t src_qp;
	uint32_t waited_ns;          /* DIWDV_CLOSE_WINDOW: so long, before it closed */
	uint8_t close;               /* enum diwdv_close */
	uint8_t last;                /* the message's last completion; 0 only with DIWDV_QP_CHUNKS */
	uint8_t reserved[2];
	uint32_t priv_flags;         /* private */
	void *priv[2];
};
struct diwdv_range { uint32_t off, len; };       /* offset in the message, length; bytes */

enum diwdv_qp_mask {                 /* which members of struct diwdv_qp_attr count */
	DIWDV_QP_FLAGS = 1,
	DIWDV_QP_SEGMENT = 2,
	DIWDV_QP_MAX_RECORDS = 4,
	DIWDV_QP_REORDER_WINDOW = 8,
	DIWDV_QP_RECORD_TIMEOUT = 16,
	DIWDV_QP_READ_TIMEOUT = 32,
	DIWDV_QP_DRIVER_TYPE = 64,
};
enum diwdv_driver_type {             /* of a queue pair whose qp_type is IBV_QPT_DRIVER */
	DIWDV_DRIVER_RD = 1,         /* reliable datagrams */
};
enum diwdv_qp_flags {
	DIWDV_QP_CHUNKS = 1,         /* a completion for each run of bytes that came, not one a message: no maps */
	DIWDV_QP_LAST_CLOSES = 2,    /* a message whose last segment is lost is never told */
};
struct diwdv_qp_attr {
	uint32_t comp_mask;
	uint32_t flags;
	uint32_t segment;            /* bytes of a DDP segment, 128 .. 65503; default: what the MTU allows */
	uint32_t max_records;        /* open, not yet polled, and not released ones; default 16384 */
	uint64_t reorder_window_ns;  /* default 1 ms; 0: at once */
	uint64_t record_timeout_ns;  /* default 100 ms */
	uint64_t read_timeout_ns;    /* of Reads; default 0: a multiple of the measured round trip */
	uint32_t driver_type;        /* enum diwdv_driver_type */
};

/* Every device that this library lists is. */
bool diwdv_is_supported(struct ibv_device *device);

/*
 * A queue pair with ATTR.
 * UD: without ATTR, as ibv_create_qp_ex() makes it, it has the defaults; both take and send Write-Records.
 * IBV_QPT_DRIVER with DIWDV_DRIVER_RD: reliable datagrams; of the other members only DIWDV_QP_SEGMENT. It is modified
 * as UD is, and each request names its destination as on UD: Sends by ibv_post_send() or ibv_wr_*(); RDMA Writes, also
 * with an immediate, RDMA Reads and atomics by ibv_wr_*(). A request completes when its destination has taken it.
 * Status IBV_WC_RETRY_EXC_ERR: the destination is gone. Receives have no GRH.
 * NULL: EINVAL another type, unknown bits, out of bounds; and what ibv_create_qp_ex(3) says.
 */
struct ibv_qp *diwdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *init,
			       const struct diwdv_qp_attr *attr);

/* The record of the completion under the cursor, from ibv_start_poll() or ibv_next_poll(), until the next of these or
 * ibv_end_poll(). ENOENT: it is the completion neither of a Write-Record at its target nor of a UD Read. */
int diwdv_wc_read_record(struct ibv_cq_ex *cq, struct diwdv_record *record);
/* As ibv_poll_cq(), with a record for each completion: zeros for one that has none, except src and src_qp of what a
 * datagram queue pair has received. Each is to be released. */
int diwdv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records);
/* Up to MAX ranges of what is valid, ascending, disjoint, not adjacent; returns how many there are. */
int diwdv_record_ranges(const struct diwdv_record *record, struct diwdv_range *ranges, int max);
/* What diwdv_poll_cq() gave; of others harmless, and so a second time. Not after the queue pair was destroyed. */
void diwdv_record_release(struct diwdv_record *record);
const char *diwdv_close_str(int close);

#ifdef __cplusplus
}
#endif
#endif
