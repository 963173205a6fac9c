/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of a rig over libibverbs, for perf_ibv.c and perf_ibv_cm.c. */
#ifndef DIW_TOOLS_PERF_IBV_H
#define DIW_TOOLS_PERF_IBV_H

#include "tools/perf/perf_rig.h"

#ifdef HAVE_IBV
#include <infiniband/verbs.h>

#define IBV_GRH_LEN 40

struct ibv_link;
struct ibv_rig {
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;                   /* NULL: the link makes it as it connects */
	struct ibv_link *link;               /* or NULL: ibv_modify_qp() connects */
	struct ibv_ah *ah;
	uint32_t peer_qpn, max_inline, seq, credits; /* credits: RC's that have come, whose order is that of sending */
	uint8_t grh[IBV_GRH_LEN];            /* of all UD receives: nothing reads it */
	struct ibv_mr *grh_mr;
	struct ibv_sge sge[RIG_RING * DIW_MAX_SGE];
};

/* ---- perf_ibv_cm.c: RC by librdmacm, for devices whose GIDs are no IP addresses ---- */

/* Sets CTX to the device that has the address of this end; the server listens. -1: there is none. */
int ibv_link_open(struct rig *r);
int ibv_link_connect(struct rig *r);         /* the client's */
int ibv_link_establish(struct rig *r);       /* at both ends at the same time */
void ibv_link_end(struct rig *r);            /* destroys the queue pair */
void ibv_link_close(struct ibv_rig *v);
#endif

#endif
