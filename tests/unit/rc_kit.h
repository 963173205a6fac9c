/* SPDX-License-Identifier: BSD-2-Clause */
/* Two connected RC queue pairs on lo. */
#ifndef DIW_TESTS_RC_KIT_H
#define DIW_TESTS_RC_KIT_H

#include "tests/unit/verbs_kit.h"

struct pair {
	struct kit k;
	struct diw_cm *cm;
	struct diw_listener *listener;
	struct diw_mr *all;          /* of k.mem, with every right that RC knows */
	struct end a, b;             /* a has connected, b has accepted */
};

/* Attributes for an RC queue pair. */
void rc_attr(struct diw_qp_attr *attr);
/* ATTR and CONN NULL: the defaults. */
void pair_open(struct pair *p, const struct diw_qp_attr *attr, const struct diw_conn_attr *conn);
/* Connects another pair of queue pairs with the attributes of P. */
void pair_connect(struct pair *p, struct end *a, struct end *b, const struct diw_qp_attr *attr,
		  const struct diw_conn_attr *conn);
void pair_close(struct pair *p);
/* The next event, which must be of that type. */
struct diw_cm_event cm_event(struct pair *p, enum diw_cm_event_type type);
/* Posts with memory of p->all: LEN bytes at OFF of the peer's memory, which is the same memory. */
int rc_post(struct pair *p, struct end *e, struct diw_send_wr *wr, uint32_t off, uint32_t len);
int rc_recv(struct pair *p, struct end *e, uint32_t off, uint32_t len, uint64_t wr_id);
struct diw_wc rc_wc(struct diw_cq *cq);
enum diw_qp_state rc_state(struct end *e);

#endif
