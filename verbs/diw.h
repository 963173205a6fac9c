/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw.h - the native verbs of diwarp, a software RNIC for datagram-iWARP (RDMAP and DDP over UDP: UD, UC and RD queue
 * pairs) and for iWARP (over MPA and TCP: RC queue pairs): objects, work requests, completions. diw_cm.h has the
 * connections of RC queue pairs. diw_provider.h has calls for libraries that give another interface to queue pairs.
 */
#ifndef DIW_H
#define DIW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The contract of every call of the three headers, unless the call says otherwise.
 *
 * Results
 * - A call returns 0 (or a count) on success and a negative errno on misuse. A work request's own failure is the
 *   status of its completion, never a return value.
 * - Times are nanoseconds. A timeout < 0 waits for ever, 0 looks once.
 * - Multi-byte fields are in host byte order; the library converts.
 *
 * Ownership
 * - Arguments are read during the call: attributes, strings, private data, lists of work requests and their
 *   scatter/gather entries may change or end when the call returns.
 * - The memory that a work request names belongs to the library from the post until the request completes, with
 *   DIW_SEND_INLINE until the post returns. A program that changes the memory of a Send or Write earlier sends old or
 *   new octets; where RC has CRC-32C, the peer may then find it wrong and end the connection. A request without a
 *   completion of its own is complete when a later one of the same queue is (RD: of the same destination; UD: Reads
 *   imply nothing and are not implied).
 * - A region's memory stays mapped until diw_mr_dereg() returns. struct diw_mr and struct diw_mw are read-only.
 * - A completion and an event are copies that belong to the program. A completion's validity map belongs to the
 *   library; it may be read until diw_wc_release(), or until its queue pair is reset or destroyed.
 * - A program destroys its objects, users first: a call that destroys an object in use returns -EBUSY. Descriptors
 *   (diw_*_fd) and strings that calls return belong to the library: a program polls a descriptor, and neither reads
 *   nor closes it.
 *
 * Threads
 * - Every call may be made by any thread at any time, by several at once on the same object, too. The exception: an
 *   object must not be used while or after it is destroyed. Requests that one thread posts to a queue keep their order.
 * - The library calls no function of the program, so no call is made from a callback. None may be made in a signal
 *   handler.
 * - A call may wait for the lock of its device, which no thread holds while it sleeps.
 * - diw_cq_wait, diw_channel_get, diw_event_get and diw_cm_get sleep, and are cancellation points (pthread_cancel),
 *   unless their timeout is 0. No other call is a cancellation point. Asynchronous cancellation
 *   (PTHREAD_CANCEL_ASYNCHRONOUS) is not supported.
 * - In a child after fork() every call on an inherited object returns -ENODEV, and a call that destroys one returns 0.
 *   The parent's objects go on.
 *
 * Versions
 * - A struct of attributes with a member `size` begins as its DIW_*_ATTR_INIT, which sets the defaults. The library
 *   takes the size of an earlier version of the header: members behind it have their defaults. It takes the size of a
 *   later version if the members that it does not know are 0, and returns -E2BIG otherwise. Without a size it returns
 *   -EINVAL. Members called `reserved` are 0.
 * - Before 1.0 this header promises no binary compatibility.
 */

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)         /* the library is built with hidden visibility */
#endif

#define DIW_PORT 4791u               /* the tools' default UDP port; a queue pair may take any */
#define DIW_GROUP_PORT 4793u         /* the UDP port of multicast groups (diw_qp_attach); of no queue pair */
#define DIW_MAX_GROUPS 256           /* groups that the queue pairs of a device are attached to */
#define DIW_MAX_SGE 16               /* scatter/gather entries of one work request */
#define DIW_MAX_SEND (16u << 20)     /* bytes of one Send message */
#define DIW_MAX_RDMA (1u << 30)      /* bytes of one Write-Record or Write */
#define DIW_MAX_READ (16u << 20)     /* bytes of one Read */
#define DIW_MAX_RC (1u << 30)        /* bytes of any message of an RC queue pair */
#define DIW_MAX_IRD 128              /* Reads and atomics of a peer that an RC queue pair holds at a time */
#define DIW_MAX_INLINE 512u          /* bytes of inline data of one work request */
#define DIW_MAX_WEIGHT 255           /* of a queue pair in the send arbiter */
#define DIW_MAX_RANGES 4096          /* ranges that one record can hold */

/* ---- Addresses ------------------------------------------------------------------------------------------------ */

/* Which queue pair: an IP address and a port. Two addresses are equal if memcmp() says so: there is no padding. */
#ifndef DIW_ADDR_DEFINED
#define DIW_ADDR_DEFINED
struct diw_addr {
	uint8_t ip[16];              /* an IPv4 address is v4-mapped */
	uint32_t scope;              /* of a link-local address: the index of its interface; else 0 */
	uint16_t port;               /* host byte order */
	uint16_t reserved;           /* 0 */
};
/* Where the packets of a request go, and how they travel. */
struct diw_dest {
	struct diw_addr addr;
	uint8_t tclass;              /* traffic class (IPv4: TOS); 0: the system's */
	uint8_t hop_limit;           /* hop limit (IPv4: TTL); 0: the system's */
	uint16_t reserved;           /* 0 */
};
#endif
#define DIW_ADDR_STRLEN 72

/* Resolve HOST (a number, "fe80::1%eth0", or a name) with PORT. -EINVAL no such host, -ENOMEM. */
int diw_addr_parse(const char *host, uint16_t port, struct diw_addr *addr);
/* "192.0.2.1:4791", "[2001:db8::1]:4791"; returns buf, of at least DIW_ADDR_STRLEN bytes. */
const char *diw_addr_str(const struct diw_addr *addr, char *buf);

/* ---- Devices -------------------------------------------------------------------------------------------------- */

struct diw_dev;                      /* one network interface seen as an RNIC; holds one lock and one progress thread */

#define DIW_MAX_DEV_ADDRS 16
struct diw_dev_info {
	char name[24];               /* diw_<interface> */
	char ifname[16];
	unsigned ifindex;
	uint32_t mtu;                /* of the interface, bytes */
	bool up;
	int naddrs;
	struct diw_addr addrs[DIW_MAX_DEV_ADDRS];   /* IPv4 first; port 0 */
	uint32_t mulpdu;             /* largest DDP segment that fits the MTU (RFC 5041 section 5.3) */
	bool gso, gro;               /* a pair of sockets on loopback has shown at start-up that they work */
	const char *crc_engine;      /* "isal" or "zlib" */
	const char *llp;             /* "udp", or "uring": the same through io_uring */
	int llp_errno;               /* why llp is "udp" although io_uring was asked for; else 0 */
	bool progress_thread, progress_spins;
	uint32_t rcvbuf;             /* of a queue pair without privilege; bytes as the kernel counts them */
	uint32_t max_qp, max_cq, max_mr, max_pd, max_srq, max_wr, max_sge, max_inline, max_cqe;
	uint32_t max_send, max_rdma, max_read; /* bytes of one message */
};

enum diw_progress { DIW_PROGRESS_DEFAULT, DIW_PROGRESS_THREAD, DIW_PROGRESS_INLINE, DIW_PROGRESS_SPIN };
enum diw_llp { DIW_LLP_DEFAULT, DIW_LLP_UDP, DIW_LLP_URING };

struct diw_dev_attr {
	enum diw_progress progress;  /* default: DIWARP_PROGRESS=thread|inline|spin, else a thread */
	enum diw_llp llp;            /* default: DIWARP_LLP=udp|uring, else udp; uring falls back to udp */
};

/* Fill at most MAX entries, in interface order with lo last; returns how many devices exist. */
int diw_dev_list(struct diw_dev_info *list, int max);
/* Open by name; NULL opens the first device that is up, has an address and is not lo, else diw_lo. ATTR may be NULL.
 * -ENODEV no such device, -EINVAL unknown progress or llp, -ENOMEM, -EMFILE. */
int diw_dev_open(const char *name, const struct diw_dev_attr *attr, struct diw_dev **dev);
/* Open the device whose interface the kernel's route to DST uses: lo for an address of this host. */
int diw_dev_open_route(const struct diw_addr *dst, const struct diw_dev_attr *attr, struct diw_dev **dev);
int diw_dev_query(struct diw_dev *dev, struct diw_dev_info *info);
/* How queue pairs share what the device sends, unless all weights are 1: in proportion, or largest weights first. */
enum diw_arbiter_mode { DIW_ARBITER_WEIGHTED, DIW_ARBITER_BLOCKING };
int diw_dev_set_arbiter(struct diw_dev *dev, enum diw_arbiter_mode mode);      /* default: weighted. -EINVAL */
/* -EBUSY while a PD, CQ, channel, SRQ or QP of it exists. */
int diw_dev_close(struct diw_dev *dev);

/* ---- Asynchronous events -------------------------------------------------------------------------------------- */

enum diw_event_type {
	DIW_EVENT_QP_ERROR,          /* the queue pair's error queue (diw_qp_error_get) has an entry */
	DIW_EVENT_SRQ_LIMIT,         /* a message took a receive, and fewer than the limit are left; it is now 0 */
	DIW_EVENT_MTU_CHANGE,        /* a path's MTU became smaller; later segments are cut to it */
	DIW_EVENT_OVERRUN,           /* events, or entries of qp's error queue, were lost: they were not fetched */
	DIW_EVENT_LAST_WQE,          /* with an SRQ, in state ERROR: it takes no receive any more */
	DIW_EVENT_SQ_DRAINED,        /* diw_qp_drained() of diw_provider.h asked for it */
};
struct diw_event {
	enum diw_event_type type;
	struct diw_qp *qp;           /* or NULL */
	struct diw_srq *srq;         /* or NULL */
	void *ctx;                   /* the ctx of that object */
};
/* Readable when an event is there. */
int diw_event_fd(struct diw_dev *dev);
/* 0 and an event; -EAGAIN none came within the timeout. At most 256 are kept. */
int diw_event_get(struct diw_dev *dev, struct diw_event *ev, int64_t timeout_ns);

/* ---- Protection domains and memory ---------------------------------------------------------------------------- */

struct diw_pd;
/* The first protection domain or connection channel of a device starts its progress thread, and the end of the last
 * one ends it. -EAGAIN: the thread could not be created. */
int diw_pd_alloc(struct diw_dev *dev, struct diw_pd **pd);
int diw_pd_free(struct diw_pd *pd);             /* -EBUSY while an MR, MW, SRQ or QP uses it */

enum diw_access {
	DIW_ACCESS_LOCAL_READ = 0,              /* always given */
	DIW_ACCESS_LOCAL_WRITE = 1,             /* needed by receives and by the sink of a Read */
	DIW_ACCESS_REMOTE_WRITE = 2,            /* Write, Write-Record; needs LOCAL_WRITE */
	DIW_ACCESS_REMOTE_READ = 4,
	DIW_ACCESS_REMOTE_ATOMIC = 8,           /* needs LOCAL_WRITE */
	DIW_ACCESS_MW_BIND = 16,                /* memory windows may be bound to it */
	DIW_ACCESS_REMOTE_INVALIDATE = 32,      /* a peer's Send with Invalidate may end its STag's use */
	DIW_ACCESS_GROUP_WRITE = 64,            /* UD: Write-Records that came to a group or broadcast address, and no
	                                         * others unless REMOTE_WRITE is given, too; needs LOCAL_WRITE */
};

/* The STags that an application may choose: an index of 1 to 0xffff and any key. diwarp draws none of them. */
#define DIW_STAG_CHOSEN_MIN 0x00000100u
#define DIW_STAG_CHOSEN_MAX 0x00ffffffu

/* A registered region; the fields are read-only. The STag is a random 24-bit index and an 8-bit key, unless it was
 * chosen, and serves locally and remotely. */
struct diw_mr {
	struct diw_pd *pd;
	void *addr;
	size_t length;
	uint64_t to;                 /* tagged offset of the first byte: the address, unless an iova was given */
	uint32_t stag;
	unsigned access;
};

struct diw_mr_attr {
	void *addr;
	size_t length;               /* 1 .. 2^48 */
	unsigned access;             /* enum diw_access */
	bool use_iova;               /* tagged offsets begin at iova, not at the address */
	uint64_t iova;
	const struct diw_addr *peer; /* the only peer that may use the STag; port 0: any port of that host; NULL: all */
	uint32_t stag;               /* 0: diwarp draws one; else this one, DIW_STAG_CHOSEN_MIN .. MAX */
};

/* The members of a group register the same STag and tagged offsets, so that one Write-Record to the group writes into
 * the memory of each. A random STag cannot be guessed; a chosen one can. Only the Q_Key and attr.peer, whose address
 * others can forge, protect such a region: give it no more access than the group needs. A device has at most one region
 * for an index, whatever the keys.
 * -EINVAL empty, longer than 2^48 bytes, wraps, unknown access, REMOTE_WRITE, REMOTE_ATOMIC or GROUP_WRITE without
 * LOCAL_WRITE, an STag that is not to be chosen; -EEXIST the chosen STag's index is in use on this device; -ENOMEM. */
int diw_mr_reg(struct diw_pd *pd, void *addr, size_t length, unsigned access, struct diw_mr **mr);
int diw_mr_reg_attr(struct diw_pd *pd, const struct diw_mr_attr *attr, struct diw_mr **mr);
/* When the call returns, the library does not touch the memory any more. Open records on it are closed, later segments
 * are refused, and work requests that still name it complete with DIW_WC_LOC_PROT_ERR. -EBUSY while a memory window is
 * bound to the region. */
int diw_mr_dereg(struct diw_mr *mr);
/* The region keeps its STag. From now on it has the attributes of ATTR, peer included, and the protection domain PD.
 * Open records on it are closed. -EINVAL as above, a PD of another device, or another STag in ATTR than 0 and the
 * region's own; -EBUSY while a memory window is bound to it. */
int diw_mr_rereg(struct diw_mr *mr, struct diw_pd *pd, const struct diw_mr_attr *attr);

/* A memory window: an STag of its own for a part of a region, bound and unbound by work requests (DIW_WR_BIND_MW,
 * DIW_WR_LOCAL_INV). Unbound, no access is possible. */
enum diw_mw_type {
	DIW_MW_TYPE_1,               /* for every queue pair of the protection domain; each bind draws a new key */
	DIW_MW_TYPE_2,               /* for the queue pair that bound it; the request brings the key */
};
struct diw_mw {
	struct diw_pd *pd;
	enum diw_mw_type type;
	uint32_t stag;               /* of the last bind that was posted; good when that has completed */
};
int diw_mw_alloc(struct diw_pd *pd, enum diw_mw_type type, struct diw_mw **mw);      /* -EINVAL, -ENOMEM */
int diw_mw_free(struct diw_mw *mw);             /* bound or not: its STag gives no access any more */

/* ---- Completion queues ---------------------------------------------------------------------------------------- */

struct diw_channel;
struct diw_cq;

enum diw_wc_status {
	DIW_WC_SUCCESS,              /* a Write-Record may still be incomplete: compare byte_len with msg_len */
	DIW_WC_LOC_PROT_ERR,         /* a scatter/gather entry has a wrong STag, bounds or access */
	DIW_WC_REM_ACCESS_ERR,       /* refused by the target; wc.fault says why. On UD a Read alone is told so */
	DIW_WC_TIMEOUT,              /* a Read's timeout passed; its map says which bytes arrived */
	DIW_WC_LOC_LEN_ERR,          /* RC: the message is longer than the receive; the connection has ended */
	DIW_WC_REM_OP_ERR,           /* RC, RD: it could not be executed there (alignment, ...); wc.fault says why */
	DIW_WC_MW_BIND_ERR,          /* the window or its region does not allow it */
	DIW_WC_FLUSHED,              /* the queue pair was or went into state ERROR. RD: an earlier request to the same
	                              * destination was refused */
	DIW_WC_LOC_QP_OP_ERR,        /* UD, UC: the kernel refused a datagram of it (a firewall, no route, ...);
	                              * wc.errnum says why. The next request may succeed. An unsignalled request has
	                              * this completion only if the completion queue has room */
	DIW_WC_PEER_GONE,            /* RD: the destination does not answer (wc.errnum ETIMEDOUT), has restarted
	                              * (ECONNRESET), or refused an answer to its own request (ECANCELED). The
	                              * request may or may not have taken effect */
};
enum diw_wc_opcode { DIW_WC_SEND, DIW_WC_WRITE, DIW_WC_WRITE_RECORD, DIW_WC_READ, /* of send-side requests */
	DIW_WC_RECV, DIW_WC_RECV_WRITE_RECORD, DIW_WC_RECV_WRITE_IMM,             /* in the receive completion queue */
	DIW_WC_FETCH_ADD, DIW_WC_CMP_SWAP, DIW_WC_BIND_MW, DIW_WC_LOCAL_INV };    /* of send-side requests */
enum diw_wc_flags {
	DIW_WC_IMM = 1,              /* wc.imm is valid */
	DIW_WC_SOLICITED = 2,
	DIW_WC_END = 4,              /* record_mode chunk: the record's last completion; always set in message mode */
	DIW_WC_INVALIDATED = 8,      /* RC, RD, receive: the peer has invalidated wc.stag */
	DIW_WC_GRH = 16,             /* UD, receive: the header is in front (diw_qp_attr.dgram.grh) */
};
enum diw_record_close {
	DIW_RECORD_COMPLETE,         /* every byte is there */
	DIW_RECORD_WINDOW,           /* the reorder window after its last segment, or a later message's first, passed */
	DIW_RECORD_TIMEOUT,          /* nothing came for the record timeout */
	DIW_RECORD_EVICTED,          /* the table was full, and it was the oldest of the source with most records */
	DIW_RECORD_DEREG,            /* its STag was deregistered */
	DIW_RECORD_EPOCH,            /* its source began a new epoch */
};

struct diw_wc {
	uint64_t wr_id;              /* of the request; 0 for DIW_WC_RECV_WRITE_RECORD, which consumes none */
	uint64_t time_ns;            /* CLOCK_MONOTONIC when the library received it, or ended the request */
	struct diw_qp *qp;
	uint32_t qp_num;             /* the attribute num, or the queue pair's own number (diw_qp_info.num) */
	uint16_t epoch;              /* receive side, UD, UC and RD: the sender's epoch (diw_qp_info.epoch) */
	void *map;                   /* private: the validity map */
	uint64_t to;                 /* Write-Record: tagged offset of the message's first byte */
	uint32_t stag;               /* Write-Record, Write with immediate on UC and RD: its target;
	                              * DIW_WC_INVALIDATED: that STag */
	uint32_t msg_len;            /* length of the whole message */
	uint32_t byte_len;           /* bytes that are valid; in chunk mode of this chunk */
	uint32_t mo;                 /* offset in the message of the first valid byte; chunk mode: of the chunk */
	uint32_t nranges;            /* how many ranges are valid */
	uint32_t imm;
	uint32_t msn;
	uint32_t waited_ns;          /* DIW_RECORD_WINDOW: how long the window was open */
	uint16_t fault;              /* DIW_WC_REM_*: the Terminate code; diw_fault_str() names it */
	uint8_t status, opcode, flags, close;
	uint16_t errnum;             /* DIW_WC_LOC_QP_OP_ERR: the kernel's errno; DIW_WC_PEER_GONE; else 0 */
	struct diw_addr src;         /* receive side: the sender; Read: the responder */
};
struct diw_range { uint32_t off, len; };        /* offset in the message, length; bytes */

/* Room for DEPTH completions at least, 1 .. 2^22. CHANNEL may be NULL; CTX is what diw_cq_ctx() returns. A completion
 * queue never overruns. While it is full, send requests wait in their queue and records wait in their table. Messages
 * that arrive wait (RC, RD), or are dropped and counted. -EINVAL: DEPTH, or a channel of another device; -ENOMEM. */
int diw_cq_create(struct diw_dev *dev, uint32_t depth, struct diw_channel *channel, void *ctx, struct diw_cq **cq);
int diw_cq_destroy(struct diw_cq *cq);          /* -EBUSY while a queue pair uses it */
/* Room for DEPTH completions at least from now on. -EINVAL: DEPTH, or more than that are there now; -ENOMEM. */
int diw_cq_resize(struct diw_cq *cq, uint32_t depth);
/* The completions of QP that are in CQ vanish, their maps with them. */
int diw_cq_forget(struct diw_cq *cq, const struct diw_qp *qp);
uint32_t diw_cq_depth(const struct diw_cq *cq);        /* how many it has room for */
void *diw_cq_ctx(const struct diw_cq *cq);

/* Take up to N completions and return how many; 0: the timeout passed. diw_cq_poll() spins, for the lowest latency.
 * diw_cq_wait() sleeps on the device's sockets: one wake-up leads to a completion. Both do the device's work. */
int diw_cq_poll(struct diw_cq *cq, struct diw_wc *wc, int n, int64_t timeout_ns);
int diw_cq_wait(struct diw_cq *cq, struct diw_wc *wc, int n, int64_t timeout_ns);

/* The validity map of a completion: up to MAX ranges, ascending, disjoint, not adjacent; returns how many there are. */
int diw_wc_ranges(const struct diw_wc *wc, struct diw_range *ranges, int max);
/* Give the map back. A completion with nranges > 1 needs this call; for others it does nothing. Maps that are not
 * released count as records (max_records). Do not call it after the queue pair was destroyed: its maps are gone. */
void diw_wc_release(struct diw_wc *wc);

const char *diw_wc_status_str(int status);
const char *diw_wc_opcode_str(int opcode);
const char *diw_record_close_str(int close);
/* Names a fault: the Terminate layer << 12 | etype << 8 | code (RFC 5040 section 4.8). */
const char *diw_fault_str(uint16_t fault);

/* A channel gathers the events of armed completion queues. Its descriptor is readable only when an event is there. */
int diw_channel_create(struct diw_dev *dev, struct diw_channel **channel);
int diw_channel_destroy(struct diw_channel *channel);  /* -EBUSY while a completion queue uses it */
int diw_channel_fd(const struct diw_channel *channel);
/* The completion queue of the next event. -EAGAIN: none came within the timeout. -EINTR: a signal handler ran. An event
 * costs one wake-up of a thread that sleeps in this call, or one of it and one of the progress thread (poll(2)). */
int diw_channel_get(struct diw_channel *channel, struct diw_cq **cq, int64_t timeout_ns);
/* Raise one event at the next completion; with SOLICITED_ONLY, at the next that is solicited or failed. A completion
 * that came between the last poll and this call counts: no completion is missed. */
int diw_cq_arm(struct diw_cq *cq, bool solicited_only);

/* ---- Queue pairs ---------------------------------------------------------------------------------------------- */

struct diw_srq;
struct diw_qp;

enum diw_qp_type { DIW_QP_UD, DIW_QP_UC, DIW_QP_RC, DIW_QP_RD };
enum diw_record_mode { DIW_RECORD_MESSAGE, DIW_RECORD_CHUNK };
enum diw_rd_error { DIW_RD_ERROR_PEER, DIW_RD_ERROR_QP };

/* Of UD, UC and RD. */
struct diw_qp_dgram_attr {
	struct diw_addr local;       /* ip all zero: the device's first address; port 0: the kernel chooses */
	struct diw_addr peer;        /* UC: the one peer; port 0: diw_qp_set_peer() names it later */
	uint32_t qkey;               /* arriving segments with another Q_Key are dropped */
	uint32_t rcvbuf;             /* bytes of receive buffer asked of the kernel; > 0 */
	bool any_addr;               /* bind to the wildcard address; answers leave from the address that was asked */
	bool broadcast;              /* sends to broadcast addresses are allowed */
	bool grh;                    /* UD: the first 40 bytes of every receive are for the header that the message came
	                              * with: an IPv6 one, or an IPv4 one in the last 20; byte_len counts them */
	bool record_close_last;      /* a message whose last segment is lost is never reported (thesis section 6.6.1) */
	enum diw_record_mode record_mode;
	int64_t reorder_window_ns;   /* 0: a record closes as soon as its last segment or a later message has come */
	int64_t record_timeout_ns, reasm_timeout_ns;         /* > 0 */
	int64_t read_timeout_ns;     /* UD, of a Read that has none; 0: 8 times what Reads took lately, 50 ms to 10 s */
	uint32_t max_sources;        /* peers with state at a time, 1 .. 2^20 */
	uint32_t max_records;        /* records that are open, not polled, or whose map is not released, 1 .. 2^20 */
	uint64_t reserved[4];        /* 0 */
};
struct diw_qp_rc_attr {
	int64_t rnr_timeout_ns;      /* how long a message, and the stream behind it, waits for a receive; then the
	                              * connection ends by a Terminate. 0: at once. A message that waits for room in the
	                              * completion queue has no limit */
	bool packed;                 /* every FPDU fits a TCP segment (RFC 5044 section 5.1) */
	bool confirm;                /* a signalled request completes when the peer has placed it and all before it, as
	                              * on InfiniBand. Without `confirm`, or with ORD 0 and a peer without this library,
	                              * it completes when TCP has taken it (RFC 5040 section 5.1) */
	bool early;                  /* requests may be posted in state IDLE, and immediates and atomics before the
	                              * peer has said that it takes them: all wait for the connection */
	bool keep_recvs;             /* a stream that ends without a fault flushes send requests only; receives stay
	                              * posted until diw_leave() or diw_abort() */
	bool tell_end;               /* DIW_CM_DISCONNECTED does not wait for messages that wait for the program */
	uint64_t reserved[4];        /* 0 */
};
struct diw_qp_rd_attr {
	enum diw_rd_error error;     /* of a request that its destination refuses or does not answer. PEER: it fails,
	                              * and so do the requests to that destination that had begun. QP: state ERROR */
	uint64_t reserved[4];        /* 0 */
};
struct diw_qp_attr {
	size_t size;                 /* of this struct: DIW_QP_ATTR_INIT sets it */
	enum diw_qp_type type;
	struct diw_cq *send_cq, *recv_cq;
	struct diw_srq *srq;         /* or NULL: a receive queue of its own */
	void *ctx;                   /* given back in events */
	uint32_t sq_depth, rq_depth; /* 1 .. 65536 work requests */
	uint32_t max_sge;            /* 1 .. DIW_MAX_SGE; both queues */
	uint32_t max_inline;         /* 0 .. DIW_MAX_INLINE */
	uint32_t num;                /* wc.qp_num of its completions; 0: the queue pair's own number */
	uint32_t mulpdu;             /* bytes of a DDP segment, 128 .. 65503 (RD: 65467, RC: 65535); 0: what the MTU
	                              * allows, RC: 65535. Longer ones become IP fragments, or TCP segments */
	uint64_t rate_limit;         /* bytes a second of segments, answers to Reads included; 0: none */
	uint32_t rate_burst;         /* bytes that may leave at once; a smaller burst keeps below the limit */
	bool sq_sig_all;             /* every send request completes, signalled or not */
	const char *impair;          /* impairment below the CRC, see diwarp(7); NULL: DIWARP_IMPAIR. RC has none:
	                              * -EOPNOTSUPP unless it is "", or NULL and DIWARP_IMPAIR is unset */
	struct diw_qp_dgram_attr dgram;      /* read where the type is UD, UC or RD */
	struct diw_qp_rc_attr rc;            /* read where the type is RC */
	struct diw_qp_rd_attr rd;            /* read where the type is RD */
	uint32_t weight;             /* 1 .. DIW_MAX_WEIGHT; 1. See diw_dev_set_arbiter() */
};
/* UD, depths 128, 4 entries, inline 128, window 1 ms, timeouts 100 ms, 16384 sources and records, 4 MiB, RNR 5 s. */
#define DIW_QP_ATTR_INIT { \
	.size = sizeof(struct diw_qp_attr), .type = DIW_QP_UD, \
	.sq_depth = 128, .rq_depth = 128, .max_sge = 4, .max_inline = 128, .rate_burst = 256 << 10, \
	.dgram = { .rcvbuf = 4 << 20, .reorder_window_ns = 1000000, .record_timeout_ns = 100000000, \
		   .reasm_timeout_ns = 100000000, .max_sources = 16384, .max_records = 16384 }, \
	.rc = { .rnr_timeout_ns = 5000000000 }, .weight = 1, \
}
/* UD, UC, RD: ready to send and receive at once. RC: takes receives, and sends when it is connected (diw_cm.h).
 * -EADDRINUSE, -EADDRNOTAVAIL, -EINVAL, -ENOMEM, -EMFILE. */
int diw_qp_create(struct diw_pd *pd, const struct diw_qp_attr *attr, struct diw_qp **qp);
/* Requests that were not executed, on RD not taken, vanish. Completions in a queue stay, without maps. RC: the stream
 * is reset. docs/concepts.md compares this call with diw_abort(), diw_qp_reset(), diw_leave() and diw_disconnect(). */
int diw_qp_destroy(struct diw_qp *qp);

/* The states of the stream (RFC 5040 section 5), with the names of the iWARP verbs. UD, UC and RD are in RTS from their
 * creation until diw_abort(), RD with DIW_RD_ERROR_QP also until a request fails. */
enum diw_qp_state {
	DIW_QPS_IDLE,                /* not connected yet: receives may be posted */
	DIW_QPS_CONNECTING,          /* requests may be posted, and wait */
	DIW_QPS_RTS,
	DIW_QPS_CLOSING,             /* diw_disconnect(): requests that were posted are executed, then the stream ends.
	                              * Or the peer has ended its half: its Reads and atomics are answered first */
	DIW_QPS_ERROR,               /* ended: all requests, and those posted from now on, are flushed */
};
const char *diw_qp_state_str(int state);

/* UC: requests go to PEER and segments of other sources are dropped, from now on. All state of the peer before it is
 * gone. LOCAL: source address of a queue pair with any_addr; NULL: where PEER sends to. -EINVAL, -EAFNOSUPPORT. */
int diw_qp_set_peer(struct diw_qp *qp, const struct diw_dest *peer, const struct diw_addr *local);
int diw_qp_set_weight(struct diw_qp *qp, uint32_t weight);     /* 1 .. DIW_MAX_WEIGHT. -EINVAL */
/* UD: receive also Sends and Write-Records to the multicast address GROUP and DIW_GROUP_PORT, if they reach the
 * device's interface and carry the queue pair's Q_Key. They may come from this host and this queue pair, too. Their
 * source is the queue pair that sent them. A second call for the same group has no effect; destroying the queue pair
 * detaches it. -EINVAL no group, not UD; -EADDRINUSE; -ENOBUFS DIW_MAX_GROUPS, or the kernel's limit (IPv4:
 * net.ipv4.igmp_max_memberships a device); -EAFNOSUPPORT; -ENODEV; -ENOMEM. */
int diw_qp_attach(struct diw_qp *qp, const struct diw_addr *group);
int diw_qp_detach(struct diw_qp *qp, const struct diw_addr *group);    /* -EINVAL: it is not attached */
/* Puts the queue pair into the state after its creation; it keeps its address and its groups. Requests vanish without
 * completions, and so does all state of peers. RC: the stream is reset, and the state is IDLE. -EBUSY: CONNECTING. */
int diw_qp_reset(struct diw_qp *qp);
/* State ERROR at once: requests are flushed. RC: the stream is reset, or its setup. Others: what arrives is dropped. */
int diw_abort(struct diw_qp *qp);

struct diw_qp_info {
	uint32_t num;                /* the attribute num, or kind << 16 | port: 0 and UDP's, RC: 1 and TCP's */
	enum diw_qp_state state;
	struct diw_addr local;
	struct diw_addr peer;        /* UC: its one peer; RC: of the connection; else zeros */
	uint16_t ird, ord;           /* RC, as negotiated */
	bool crc, rfc7306;           /* RC: CRC-32C is on; the peer takes immediates and atomics */
	bool leaving;                /* RC, after diw_leave(): TCP has not taken all that was executed */
	bool sq_busy;                /* a send request has begun and is not complete */
	uint32_t mulpdu, rcvbuf;     /* bytes: of a DDP segment; UD, UC, RD: of receive buffer, as the kernel counts */
	uint16_t epoch;              /* UD, UC, RD */
	uint32_t sq_pending, rq_posted;      /* send requests not executed, RC: not complete; posted receives */
	uint32_t sources, records_open, records_held;        /* peers with state; records open; closed, not released */
	uint32_t reasm_open, reads_open;     /* Sends in reassembly; UD, RC: Reads and, on RC, atomics outstanding */
	size_t memory;               /* bytes of state of peers */
};
int diw_qp_query(struct diw_qp *qp, struct diw_qp_info *info);
/* RD: when PEER was met, restarted, had forgotten this end or had given it up (CLOCK_MONOTONIC); and when it restarted
 * without having been given up before, or 0. -ENOENT: PEER is not known. -EOPNOTSUPP: not RD. */
int diw_qp_peer(struct diw_qp *qp, const struct diw_addr *peer, uint64_t *renewed_ns, uint64_t *restarted_ns);
/* Change the impairment; NULL or "" ends it. -EINVAL: ERR, unless it is NULL, says why. -EOPNOTSUPP: RC. */
int diw_qp_impair(struct diw_qp *qp, const char *spec, char *err, size_t errlen);

/* Faults never tear a UD queue pair down: the newest 64 are kept here. An RC queue pair keeps 4, and the last one says
 * why the connection ended. */
struct diw_qp_error {
	uint16_t fault;              /* what went wrong (diw_fault_str()); 0: errnum says it */
	bool remote;                 /* the peer reported it, of a message of this queue pair */
	int errnum;                  /* why the kernel refused to send to `peer`: ENETUNREACH, EPERM, ... With `remote`:
	                              * the error of an ICMP message about a datagram that was sent: ECONNREFUSED (no
	                              * socket has that port), ... Any host can send ICMP. At most ten a second */
	uint32_t msn;                /* the message, where known */
	struct diw_addr peer;
};
int diw_qp_error_get(struct diw_qp *qp, struct diw_qp_error *e);  /* -EAGAIN none */

/* Counters: COUNT values by index; names are stable, indices are not. diw_qp_count() adds N to a counter that a library
 * above keeps: fabric_* (-EINVAL: another one). It takes no lock. */
int diw_counter_count(void);
const char *diw_counter_name(int i);
int diw_qp_counters(struct diw_qp *qp, uint64_t *values, int max);
int diw_qp_count(struct diw_qp *qp, int i, uint64_t n);

/* Records that are still open. -EINVAL: RC, which has none. */
struct diw_record_info {
	struct diw_addr src;
	uint32_t msn, stag, msg_len, byte_len, nranges;
	uint64_t to;
};
int diw_qp_records(struct diw_qp *qp, struct diw_record_info *info, int max);  /* returns how many are open */
/* The validity map of an open record, as diw_wc_ranges() gives it. -ENOENT: the record has closed. */
int diw_qp_record_ranges(struct diw_qp *qp, const struct diw_record_info *info, struct diw_range *ranges, int max);

/* ---- Work requests -------------------------------------------------------------------------------------------- */

/* addr: an address, or a tagged offset in a region with an iova. An entry of length 0 needs no STag. */
struct diw_sge { void *addr; uint32_t length; uint32_t stag; };

enum diw_wr_opcode {
	DIW_WR_SEND,
	DIW_WR_WRITE,                /* UC, RC, RD: no record; with an immediate it consumes a receive, on UC only if it
	                              * came whole */
	DIW_WR_WRITE_RECORD,         /* UD, RD */
	DIW_WR_READ,                 /* UD, RC, RD; the entries are the sink */
	DIW_WR_FETCH_ADD,            /* RC, RD: adds compare_add to 8 aligned bytes; the entry receives the old value */
	DIW_WR_CMP_SWAP,             /* RC, RD: 8 aligned bytes become swap if they are compare_add; the entry receives
	                              * the old value */
	/* RC, RD */
	DIW_WR_LOCAL_INV,            /* ends the use of inv_stag, a region's or a type 2 window's */
	DIW_WR_BIND_MW,
};
enum diw_send_flags {
	DIW_SEND_SIGNALED = 1, DIW_SEND_SOLICITED = 2,
	DIW_SEND_INLINE = 4,         /* data is copied at the post; entries need no STag */
	DIW_SEND_IMM = 8,            /* the message carries imm; not for Reads */
	DIW_SEND_FENCE = 32,         /* RC, RD: waits until all earlier Reads and atomics (RD: to dst) are complete */
	DIW_SEND_INVALIDATE = 64,    /* RC, RD. A Send ends the use of the peer's inv_stag, a Read its first entry's */
	DIW_SEND_APART = 128,        /* RD: if dst refuses an earlier one, this and later requests are sent again */
	DIW_SEND_MORE = 16,          /* hint: another post follows at once; the request may wait for it or for a poll */
};
struct diw_send_wr {
	struct diw_send_wr *next;
	uint64_t wr_id;
	const struct diw_sge *sge;
	int num_sge;
	enum diw_wr_opcode opcode;
	unsigned flags;
	uint32_t imm;
	uint32_t qkey;               /* of the destination queue pair */
	struct diw_dest dst;         /* UD, RD */
	uint32_t stag;               /* remote STag and tagged offset: Write, Write-Record, Read */
	uint64_t to;
	int64_t timeout_ns;          /* UD Read: 0 = the queue pair's */
	uint32_t inv_stag;
	uint64_t compare_add, swap;
	struct {                     /* DIW_WR_BIND_MW */
		struct diw_mw *mw;
		struct diw_mr *mr;   /* of the same protection domain, with DIW_ACCESS_MW_BIND */
		uint64_t to, length; /* within the region, by its tagged offsets; 0 bytes unbind a window of type 1 */
		unsigned access;     /* REMOTE_*; what writes needs the region's LOCAL_WRITE */
		uint8_t key;         /* type 2: the low 8 bits of its STag from now on */
	} bind;
};
struct diw_recv_wr {
	struct diw_recv_wr *next;
	uint64_t wr_id;
	const struct diw_sge *sge;
	int num_sge;
};
/* Post a list. The call stops at the first request that cannot be posted and stores it in *BAD, which may be NULL. A
 * send request completes when the lower layer has taken it; on RC in the order of the posts. On RD it completes when
 * the destination has taken it, in the order of the posts to that destination. In state ERROR requests are flushed. A
 * post that follows another one at once may leave its request to the next call, or to the progress thread for 0.4 ms.
 * -ENOMEM: the queue is full. -EINVAL. -EMSGSIZE: longer than such a message may be. -EAFNOSUPPORT: UD, RD: the
 * destination is of another version of IP than the queue pair. -ENOTCONN: RC in state IDLE. -EOPNOTSUPP: an immediate
 * or an atomic to a peer that has not said yet that it takes them; a Read or an atomic where ORD is 0. */
int diw_post_send(struct diw_qp *qp, const struct diw_send_wr *wr, const struct diw_send_wr **bad);
int diw_post_recv(struct diw_qp *qp, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad);

/* A shared queue of DEPTH receives, 1 .. 65536, of up to MAX_SGE entries, 1 .. DIW_MAX_SGE. -EINVAL, -ENOMEM. */
int diw_srq_create(struct diw_pd *pd, uint32_t depth, uint32_t max_sge, void *ctx, struct diw_srq **srq);
/* One DIW_EVENT_SRQ_LIMIT when a message takes a receive and fewer than LIMIT are left. -EINVAL: it exceeds depth. */
int diw_srq_set_limit(struct diw_srq *srq, uint32_t limit);
struct diw_srq_info { uint32_t posted, limit; };
int diw_srq_query(struct diw_srq *srq, struct diw_srq_info *info);
int diw_srq_destroy(struct diw_srq *srq);       /* -EBUSY while a queue pair uses it */
int diw_post_srq_recv(struct diw_srq *srq, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
