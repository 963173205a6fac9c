/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of a rig, for perf_lat.c, perf_stream.c, perf_read.c and perf_raw.c. */
#ifndef DIW_TOOLS_PERF_RIG_H
#define DIW_TOOLS_PERF_RIG_H

#include "tools/perf/perf.h"
#include "verbs/diw_cm.h"

#define RIG_RING 128u                /* work requests that are made once, and posted repeatedly as lists */
#define RIG_CTL 32u                  /* bytes of the smallest receive */
#define RIG_CREDIT_LEN 24u
#define RIG_SIGNALED 16u             /* RC: the most consecutive requests without a completion */
#define RIG_READS 16u                /* outstanding Reads of one source that a target serves */

#define RIG_NEW_BYTES (64u << 20)    /* --scheme 2: the new buffers come round after so many bytes, */
#define RIG_NEW_SLOTS 16384u         /* or after so many buffers */

static inline bool op_asks(enum perf_op op)  /* true: the requester is the sink */
{
	return op >= PERF_READ;
}

/* Memory of a rig: the key for this end and the one for the other end. */
struct ibv_mr;
struct rig_mem {
	void *addr;
	size_t len;
	uint32_t key, remote_key;
	uint64_t to;
	struct region region;
	struct ibv_mr *mr;                   /* --provider verbs */
};

struct ibv_rig;
struct streams;
struct load;
struct rig {
	struct perf_case pc;
	struct perf_side side;
	bool raw;
	int fd[2];                           /* raw: bibw has one socket for each direction */
	uint16_t port[2];
	uint32_t raw_seg;
	struct endpoint ep;
	struct diw_cm *cm;                   /* only RC, as are the next two */
	struct diw_listener *listener;
	uint32_t nqps, active;               /* queue pairs, of which ep.qp is the first; those that send */
	struct diw_qp **qps;                 /* with --qps, as are the next four */
	struct diw_addr *dsts;               /* of those that send */
	struct diw_srq *srq;
	uint32_t turn;                       /* which one sends next */
	uint32_t accepted, connected;        /* RC */
	uint32_t window;                     /* the most messages without a credit */
	uint32_t slots;                      /* message buffers, used in turn */
	size_t stride;                       /* from one to the next */
	struct streams *streams;             /* --streams; then everything else is empty */
	struct load *load;                   /* --load */
	struct ibv_rig *ibv;                 /* --provider verbs; then ep is empty */
	struct rig_mem tx, rx, target;        /* for sends; for receives; for Writes, and both ends of Reads */
	struct diw_addr dst;
	uint32_t stag;                       /* of the peer's target */
	uint64_t to;
	struct diw_send_wr wr[RIG_RING];
	struct diw_sge sge[RIG_RING * DIW_MAX_SGE];
	uint32_t ring, at;                   /* how many requests are in use; the next one */
	uint64_t seq;                        /* how many were posted */
	uint32_t signal;                     /* --signal: one in so many; 0: as the ring says */
	uint32_t nrecv, recv_size;
	struct diw_recv_wr *recv;            /* by slot, which is the wr_id */
	struct diw_sge *recv_sge;
	struct diw_recv_wr *again, *again_last;      /* to be posted again */
	uint32_t round;
	struct hist *all;                    /* the latencies of all rounds; or NULL */
};

/* The measured interval. It begins at a batch after the warm-up, which does not count. */
struct meter {
	uint64_t ns, warm_ns, first, begin, end;
	double msgs, bytes, m_msgs, m_bytes;
	double cpu0, cpu_s;
	bool over;
};
void meter_init(struct meter *m, uint64_t ns);
void meter_batch(struct meter *m, uint64_t now, uint64_t msgs, uint64_t bytes);
void meter_stop(struct meter *m);            /* CPU time counts until this call */
void meter_part(const struct meter *m, struct perf_part *p);

#define RIG_SQ_DEPTH(r) ((uint32_t)(r)->pc.depth + 16)
/* How many messages may be outstanding: what the case says, or, if it says nothing, the send queue's depth. */
uint32_t rig_recv_depth(const struct rig *r);
uint32_t rig_outstanding(const struct rig *r);
/* ---- perf_ring.c: the buffers, and the requests that use them in turn ---- */
void ring_plan(struct rig *r);               /* how many buffers; before everything else */
int ring_make_memory(struct rig *r);
void ring_make(struct rig *r);

/* ---- perf_rig.c ---- */
/* Takes up to n completions, and waits as the case says. */
int rig_take(struct rig *r, struct diw_wc *wc, int n, int64_t timeout_ns);
/* Posts up to n requests of the ring. Returns how many there was room for, or -errno. */
int rig_post(struct rig *r, uint32_t n);
void rig_recv_again(struct rig *r, uint64_t slot);
int rig_recv_flush(struct rig *r);

/* One request beside the ring: a credit. 0 or -errno. */
int rig_send(struct rig *r, const struct diw_send_wr *wr);
int rig_mem_alloc(struct rig *r, struct rig_mem *m, size_t len, unsigned access);
void rig_mem_free(struct rig_mem *m);

/* ---- perf_streams.c: --streams, rigs that run at once ---- */
static inline bool rig_has_streams(const struct rig *r)
{
	return r->pc.streams > 1 && !r->raw;
}
int streams_open(struct rig *r);
void streams_describe(const struct rig *r, cJSON *o);
int streams_connect(struct rig *r, const cJSON *peer);
int streams_run(struct rig *r, uint64_t ns, struct hist *all, struct perf_part *part);
const struct rig *streams_first(const struct rig *r);
void streams_close(struct rig *r);

/* ---- perf_load.c: --load, others that write to the device of the client ---- */
int load_open(struct rig *r);
void load_describe(const struct rig *r, cJSON *o);
int load_connect(struct rig *r, const cJSON *peer);
int load_start(struct rig *r);               /* the server's threads write until load_stop() */
void load_stop(struct rig *r);
void load_close(struct rig *r);              /* before the device's end */

/* ---- perf_ibv.c: --provider verbs, the same rig over libibverbs ---- */
int ibv_rig_open(struct rig *r, uint32_t max_sge);
void ibv_rig_describe(const struct rig *r, cJSON *o);
int ibv_rig_connect(struct rig *r, const cJSON *peer);
int ibv_rig_establish(struct rig *r);        /* called at both ends at the same time */
int ibv_rig_mem_alloc(struct rig *r, struct rig_mem *m, unsigned access);   /* registers mapped memory */
void ibv_rig_mem_free(struct rig_mem *m);
int ibv_rig_take(struct rig *r, struct diw_wc *wc, int n, int64_t timeout_ns);
/* Posts N requests of the ring from R->at on. Returns how many there was room for, or -errno. */
int ibv_rig_post(struct rig *r, uint32_t n);
int ibv_rig_send(struct rig *r, const struct diw_send_wr *wr);
int ibv_rig_recv(struct rig *r, const struct diw_recv_wr *list);
void ibv_rig_end(struct rig *r);             /* destroys the queue pair; the memory goes next, then the rest */
void ibv_rig_close(struct rig *r);

/* ---- perf_qps.c: --qps, many queue pairs with one completion queue and one shared receive queue ---- */
static inline bool rig_has_many(const struct rig *r)
{
	return r->pc.qps > 1;
}
/* Before the first queue pair: the shared receive queue; raises the limit of descriptors. */
int qps_prepare(struct rig *r, struct diw_qp_attr *attr);
/* The other queue pairs, of the same attributes. */
int qps_open(struct rig *r, struct diw_qp_attr *attr);
void qps_describe(const struct rig *r, cJSON *o);
int qps_connect(struct rig *r, const cJSON *peer);
/* The queue pair that sends next; sets the destination of N requests from WR on. */
struct diw_qp *qps_next(struct rig *r, struct diw_send_wr *wr, uint32_t n);
void qps_close(struct rig *r);
struct diw_qp *rig_qp(const struct rig *r, uint32_t i);
uint32_t rig_pending(const struct rig *r);   /* send requests of all queue pairs that are not complete */

int rc_rig_open(struct rig *r);
int rc_rig_connect(struct rig *r);
int rc_rig_establish(struct rig *r);         /* called once, at both ends at the same time */
void rc_rig_close(struct rig *r);

int raw_rig_open(struct rig *r);
int raw_rig_connect(struct rig *r, const cJSON *peer);
int raw_rig_run(struct rig *r, uint64_t ns, struct perf_part *part);
void raw_rig_close(struct rig *r);
const char *raw_rig_congestion(const struct rig *r, char buf[RAW_CONGESTION_LEN]);

/* Rounds of tests. stream_run: of Sends and Writes; read_run: of Reads and atomics; bw_run: one of these two. */
perf_run_fn lat_run, bw_run, stream_run, read_run;

#endif
