/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What our librdmacm.so.1 needs of our libibverbs.so.1 that verbs has no words for, in a version node of its own.
 * Queue pairs are named by their numbers, so that one that its owner has destroyed is only not found.
 */
#ifndef DIW_OF_BRIDGE_H
#define DIW_OF_BRIDGE_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#include <stdbool.h>

struct diw_dev;
struct diw_qp;

/* What rdma_init_qp_attr() gives as the peer's number: a queue pair that librdmacm connects needs none, and it may
 * not have been claimed yet. No queue pair has this number, a port 0. */
#define DIW_OF_QPN_CM 0xff0000u

/* The native device behind a context. */
struct diw_dev *diw_of_dev(struct ibv_context *c);
/* Whether it has RC queue pairs. */
bool diw_of_has_rc(struct ibv_context *c);
/* The caller connects the RC queue pair of that number from now on, ibv_modify_qp() no more. NULL: there is none. */
struct diw_qp *diw_of_claim(struct ibv_context *c, uint32_t qp_num);
/* The connection stands: state RTS, with the attributes of RTR and RTS that are told. */
void diw_of_connected(struct ibv_context *c, uint32_t qp_num, const struct ibv_qp_attr *attr);
/* As rdma_disconnect(3) leaves it, if it still is the one that was claimed: a channel adapter's in state ERR, an RNIC's
 * too unless it has nothing left to do: then it waits for its peer. */
void diw_of_disconnect(struct ibv_context *c, uint32_t qp_num, const struct diw_qp *qp);
#pragma GCC visibility pop

#endif
