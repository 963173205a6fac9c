/* SPDX-License-Identifier: BSD-2-Clause */
/* An RC queue pair with a hand-written peer, beside two on the same device that communicate undisturbed. */
#ifndef DIW_TESTS_WIRE_KIT_H
#define DIW_TESTS_WIRE_KIT_H

#include "base/fault.h"
#include "tests/unit/raw_peer.h"
#include "tests/unit/rc_kit.h"

#define REGION 4096u                 /* octets that the peer may access */
#define RECV 64u                     /* octets of a posted receive */
#define GUARD 4096u                  /* octets around both that must not change */
#define STAG 0x11223344u             /* of the peer's memory; a tagged offset in it */
#define TO 0x1122334455667788ull

struct wire_attr {
	bool responder;              /* the peer connects, this end accepts */
	bool confirm;
	bool keep;                   /* of this end: attribute keep_recvs */
	bool words;                  /* the peer accepts placement words */
	bool no_crc, markers, plain; /* plain: the peer does not know RFC 7306 */
	uint16_t ird;                /* of this end; 0: 16 */
	uint32_t mulpdu;
	int64_t rnr_ns;
	unsigned rtr;                /* revision 2 of MPA with this message; a responder is not established then */
	int receives;
};

struct wire {
	struct pair p;
	struct end e;
	struct raw r;
	uint8_t *arena, *region, *recv;
	struct diw_pd *other_pd;
	struct diw_mr *mr;           /* of the region, with every remote right except invalidation */
	struct diw_mr *recv_mr;      /* of the receives, without remote rights */
	struct diw_mr *other;        /* of the region, in another protection domain */
	struct diw_mr *may_end;      /* of the region: readable, may be invalidated */
};

/* ATTR NULL: all zero. */
void wire_open(struct wire *w, const struct wire_attr *attr);
void wire_close(struct wire *w);
/* Call after a write to memory that the peer's next request reads, and before a read of memory that it wrote. It takes
 * the device's lock, since ThreadSanitizer sees no order in data that a socket carries. */
void wire_share_memory(struct wire *w);
/* Makes another connection after the first. */
void wire_join(struct wire *w, const struct wire_attr *attr);
void wire_leave(struct wire *w);
void wire_receive(struct wire *w, uint64_t wr_id);
/* A request of this end: LEN octets at OFF of w->p.k.mem to or from the peer's memory. */
void wire_post(struct wire *w, struct diw_send_wr *wr, uint32_t off, uint32_t len);
/* Memory that the stack must not write is unchanged. */
void wire_check_guards(const struct wire *w);
/* The neighbours can still communicate. */
void wire_check_neighbours(struct wire *w);
/* Our Terminate has exactly this fault and quoted header; with R, RDMAP's header of a Read Request, too. */
void wire_expect_terminate(struct wire *w, uint16_t fault, const struct seg *cause, bool quote, bool r);
/* The event that ends the connection. */
void wire_expect_down(struct wire *w, uint16_t fault, int errnum);
void wire_expect_wc(struct diw_cq *cq, uint64_t wr_id, int status);

#endif
