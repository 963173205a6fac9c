/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * infiniband/diwdv.h - extensions of infiniband/verbs.h for diwarp's devices: records of RDMA Write-Record on UD queue
 * pairs, and queue pairs for reliable datagrams, diwdv(7). A program uses it beside verbs.h, as it would use mlx5dv or
 * efadv.
 *
 * The functions are in diwarp's libibverbs.so.1. A program that is linked with it (pkg-config diwdv) does not start
 * with another libibverbs.
 */
#ifndef DIWDV_H
#define DIWDV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The completion of a Write-Record at its target. It consumes no receive: wr_id is 0. byte_len is the number of valid
 * bytes. */
#define DIWDV_WC_RECORD IBV_WC_DRIVER1

enum diwdv_close {                   /* the reason why a record closed */
	DIWDV_CLOSE_COMPLETE,        /* every byte arrived */
	DIWDV_CLOSE_WINDOW,          /* the reorder window ended, which begins with the message's last segment or the
				      * first of a later message */
	DIWDV_CLOSE_TIMEOUT,         /* no segment arrived within the record timeout */
	DIWDV_CLOSE_EVICTED,         /* there were too many records, and this was the oldest of the source with the
				      * most */
	DIWDV_CLOSE_DEREG,           /* its memory region was deregistered */
	DIWDV_CLOSE_EPOCH,           /* its source was created again, or reset */
};

struct diwdv_record {
	uint64_t addr;               /* the address that the writer named as the start of the message */
	uint32_t rkey;
	uint32_t msg_len;            /* length of the whole message */
	uint32_t byte_len;           /* its valid bytes; with DIWDV_QP_CHUNKS: those of this chunk */
	uint32_t offset;             /* position of the first valid byte in the message */
	uint32_t nranges;            /* number of valid ranges */
	uint32_t number;             /* number of the message, among those of this source */
	union ibv_gid src;           /* the writer: a v4-mapped or an IPv6 address */
	uint32_t src_qp;
	uint32_t waited_ns;          /* DIWDV_CLOSE_WINDOW: time since the window began */
	uint8_t close;               /* enum diwdv_close */
	uint8_t last;                /* 1: the last completion of the message; 0 only with DIWDV_QP_CHUNKS */
	uint8_t reserved[2];
	uint32_t priv_flags;         /* private */
	void *priv[2];
};
struct diwdv_range { uint32_t off, len; };       /* offset in the message, length; bytes */

enum diwdv_qp_mask {                 /* the valid members of struct diwdv_qp_attr */
	DIWDV_QP_FLAGS = 1,
	DIWDV_QP_SEGMENT = 2,
	DIWDV_QP_MAX_RECORDS = 4,
	DIWDV_QP_REORDER_WINDOW = 8,
	DIWDV_QP_RECORD_TIMEOUT = 16,
	DIWDV_QP_READ_TIMEOUT = 32,
	DIWDV_QP_DRIVER_TYPE = 64,
};
enum diwdv_driver_type {             /* for queue pairs whose qp_type is IBV_QPT_DRIVER */
	DIWDV_DRIVER_RD = 1,         /* reliable datagrams */
};
enum diwdv_qp_flags {
	DIWDV_QP_CHUNKS = 1,         /* a completion for each run of bytes that arrives, instead of one a message; no
				      * maps */
	DIWDV_QP_LAST_CLOSES = 2,    /* a message whose last segment is lost is never reported */
	DIWDV_QP_ERROR_ENDS = 4,     /* RD: a destination that is gone, or refuses a request, puts the queue pair into
				      * state ERR; without it only the requests to this destination fail */
};
struct diwdv_qp_attr {
	uint32_t comp_mask;
	uint32_t flags;
	uint32_t segment;            /* bytes of a DDP segment, 128 .. 65503 (RD: 65467); default: what the MTU
	                              * allows */
	uint32_t max_records;        /* the most records that are open, not polled or not released; default 16384 */
	uint64_t reorder_window_ns;  /* default 1 ms; 0: no window */
	uint64_t record_timeout_ns;  /* default 100 ms */
	uint64_t read_timeout_ns;    /* of Reads; default 0: 8 times what Reads took lately, 50 ms to 10 s */
	uint32_t driver_type;        /* enum diwdv_driver_type */
};

/* True for every device that this library lists. */
bool diwdv_is_supported(struct ibv_device *device);

/*
 * Creates a queue pair with ATTR.
 *
 * UD: a queue pair of ibv_create_qp_ex() has the defaults of ATTR. Queue pairs of both calls send and receive
 * Write-Records.
 *
 * IBV_QPT_DRIVER with DIWDV_DRIVER_RD: reliable datagrams. Of the other members only DIWDV_QP_SEGMENT is allowed,
 * and DIWDV_QP_FLAGS with DIWDV_QP_ERROR_ENDS. The queue pair is modified like a UD one, and each request names its
 * destination, as with UD. Sends are posted by ibv_post_send() or ibv_wr_*(), all other operations of RC by ibv_wr_*().
 * A request completes when its destination has taken it. Status IBV_WC_RETRY_EXC_ERR: the destination is gone. Receives
 * have no GRH.
 *
 * NULL with errno: EINVAL for another type, unknown bits, or a value out of bounds; others as of
 * ibv_create_qp_ex(3).
 */
struct ibv_qp *diwdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *init,
			       const struct diwdv_qp_attr *attr);

/* Reads the record of the completion under the cursor, between ibv_start_poll() or ibv_next_poll() and the next of
 * these calls or ibv_end_poll(). ENOENT: the completion belongs neither to a Write-Record at its target nor to a UD
 * Read. */
int diwdv_wc_read_record(struct ibv_cq_ex *cq, struct diwdv_record *record);
/* Like ibv_poll_cq(), with a record for each completion. A completion without a record gets zeros; src and src_qp are
 * set for each message that a datagram queue pair has received. Each record must be released. */
int diwdv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc, struct diwdv_record *records);
/* Writes up to MAX valid ranges, ascending, disjoint and not adjacent. Returns how many there are. */
int diwdv_record_ranges(const struct diwdv_record *record, struct diwdv_range *ranges, int max);
/* Releases a record of diwdv_poll_cq(). For other records, and when called again, it does nothing. Not allowed after
 * the queue pair was destroyed. */
void diwdv_record_release(struct diwdv_record *record);
const char *diwdv_close_str(int close);

#ifdef __cplusplus
}
#endif
#endif
