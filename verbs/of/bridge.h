/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions of our libibverbs.so.1 that our librdmacm.so.1 needs and verbs does not have. They have a version node
 * of their own. Queue pairs are named by number: if the owner has destroyed one, it is not found, and nothing else
 * happens.
 */
#ifndef DIW_OF_BRIDGE_H
#define DIW_OF_BRIDGE_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <stdbool.h>

struct diw_dev;
struct diw_qp;

/* The peer's queue pair number that rdma_init_qp_attr() returns. A queue pair that librdmacm connects needs none, and
 * may not have been claimed yet. No queue pair has this number, whose port is 0. */
#define DIW_OF_QPN_CM 0xff0000u

/* The native device behind a context. */
struct diw_dev *diw_of_dev(struct ibv_context *c);
/* Whether it has RC queue pairs. */
bool diw_of_has_rc(struct ibv_context *c);
/* From here on the caller connects the RC queue pair with that number, and ibv_modify_qp() does not. NULL: there is
 * none. */
struct diw_qp *diw_of_claim(struct ibv_context *c, uint32_t qp_num);
/* The connection is established: state RTS, with the given attributes of RTR and RTS. */
void diw_of_connected(struct ibv_context *c, uint32_t qp_num, const struct ibv_qp_attr *attr);
/* The state after rdma_disconnect(3), if the number still belongs to the claimed queue pair. A channel adapter's goes
 * to ERR. So does an RNIC's, unless no request is outstanding: then it waits for its peer. */
void diw_of_disconnect(struct ibv_context *c, uint32_t qp_num, const struct diw_qp *qp);
#pragma GCC visibility pop

#endif
