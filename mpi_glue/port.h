/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pairs below an endpoint: a table of operations. port_rd.c implements it by one queue pair of reliable
 * datagrams, port_rc.c by an RC queue pair a peer. No other file knows the type of the queue pairs.
 */
#ifndef DIW_MPI_GLUE_PORT_H
#define DIW_MPI_GLUE_PORT_H

#include "mpi_glue/glue.h"

/* A wr_id is a pointer to a buffer or a peer, or the id of an operation; its last PORT_WR_BITS bits say which.
 * PORT_WR_QUESTION: to a peer, and no message of the application (alive.c, gone.c). */
enum port_wr { PORT_WR_RX, PORT_WR_TX, PORT_WR_OP, PORT_WR_PEER, PORT_WR_QUESTION };
#define PORT_WR_BITS 3
#define PORT_WR_MASK ((1u << PORT_WR_BITS) - 1)

struct glue_port_ops {
	enum diw_wr_opcode write;        /* of a rendezvous */
	bool write_notes_each;           /* each such Write tells the receiver; otherwise the last one tells for all */
	bool threaded;                   /* a thread uses the domain, too */
	/* Begin and end of a domain; NULL: nothing to do. */
	int (*begin)(struct glue_domain *d);
	void (*end)(struct glue_domain *d);
	/* Set ep->port and ep->local; -errno. Ends it: posted requests vanish. */
	int (*open)(struct glue_ep *ep);
	void (*close)(struct glue_ep *ep);
	/* Post requests. -ENOMEM: no room. */
	int (*post_send)(struct glue_ep *ep, const struct glue_peer *to, struct diw_send_wr *wr);
	/* As diw_post_append(). */
	int (*append)(struct glue_ep *ep, const struct glue_peer *to, const void *data, uint32_t len);
	int (*post_recv)(struct glue_ep *ep, const struct diw_recv_wr *wr, const struct diw_recv_wr **bad);
	bool (*has_room)(struct glue_ep *ep, const struct glue_peer *to, uint32_t n);
	/* Where operations wait that may not be posted to PEER yet. */
	struct glue_queue *(*queue)(struct glue_ep *ep, const struct glue_peer *peer);
	/* The address that PEER's requests come from, to which an STag can be bound; NULL: not known yet. */
	const struct diw_addr *(*source)(struct glue_ep *ep, const struct glue_peer *peer);
	/* The queue pair that counts what PEER, which may be NULL, sends; NULL: none. */
	struct diw_qp *(*counts)(struct glue_ep *ep, const struct glue_peer *peer);
	/* The peer of a received message; NULL: no room. */
	struct glue_peer *(*sender)(struct glue_ep *ep, const struct diw_wc *wc);
	/* A peer's Write of a rendezvous has come. */
	void (*written)(struct glue_ep *ep, const struct diw_wc *wc);
	/* A send request has left the send queue; NULL: nothing to do. */
	void (*sent)(struct glue_ep *ep, const struct diw_wc *wc);
	/* libfabric's error for a request that was flushed. */
	int (*flushed)(struct glue_ep *ep, const struct diw_wc *wc);
	/* The error with which requests to PEER fail, or 0; NULL: 0. */
	int (*lost)(struct glue_ep *ep, const struct glue_peer *peer);
	/* The times of diw_qp_peer(); false: PEER is not known. NULL: connections end instead. */
	bool (*renewed)(struct glue_ep *ep, const struct glue_peer *peer, uint64_t *renewed, uint64_t *restarted);
	/* Whether requests wait for a connection that is being made; NULL: there are no connections. */
	bool (*connects)(struct glue_ep *ep);
	/* Called if ep->unsettled, when no completion is there. */
	void (*settle)(struct glue_ep *ep);
};

/* The queue pairs of an endpoint: the first member of the struct of the implementation. */
struct glue_port { const struct glue_port_ops *ops; };

extern const struct glue_port_ops diw_glue_port_rd, diw_glue_port_rc;

/* ---- port.c ---- */
void diw_glue_queue_init(struct glue_queue *q);
/* EP's requests have ended: takes them off the counts of their peers, which other endpoints may know, too. */
void diw_glue_port_forget(struct glue_ep *ep);

#endif
