/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw_provider.h - calls for libraries that give another interface to queue pairs of diw.h, as verbs/of does libibverbs
 * and librdmacm and verbs/rs does rsockets: states that diw.h does not have, attributes that change later, lists that
 * are posted whole. A program of the native verbs needs none of them. The conventions of diw.h hold here.
 */
#ifndef DIW_PROVIDER_H
#define DIW_PROVIDER_H

#include "diw_cm.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)         /* the library is built with hidden visibility */
#endif

/* ---- Completions and requests ---------------------------------------------------------------------------------- */

/* As diw_cq_arm(), but a completion that is in the queue already does not count: the caller polls once more before it
 * sleeps, as in libibverbs. */
int diw_cq_arm_later(struct diw_cq *cq, bool solicited_only);
/* All of the list or nothing. */
int diw_post_send_all(struct diw_qp *qp, const struct diw_send_wr *wr);

/* ---- Queue pairs ------------------------------------------------------------------------------------------------ */

/* UD, UC: what arriving segments must carry from now on. -EINVAL RC. */
int diw_qp_set_qkey(struct diw_qp *qp, uint32_t qkey);
/* What peers may do by this queue pair: of DIW_ACCESS_REMOTE_WRITE, READ and ATOMIC, all to begin with. The STag must
 * allow it, too. Without REMOTE_WRITE there is no DIW_ACCESS_GROUP_WRITE either. */
int diw_qp_set_access(struct diw_qp *qp, unsigned access);
/* RC: the attribute confirm from now on. */
int diw_qp_confirm(struct diw_qp *qp, bool confirm);
/* RC: how often a message of ours may wait for a receive of the peer, 0 to 6, or 7 without a limit, from the next
 * message that begins; and how long, in ns, each such retry of the peer's takes here, 0: the peer may not say. It holds
 * if both ends take RFC 7306, and is a fault then (DDP 0x1202). -EINVAL */
int diw_qp_set_rnr(struct diw_qp *qp, unsigned retry, int64_t timer_ns);
/* RC with keep_recvs: after a stream has ended without a fault, send requests that are not complete are flushed only
 * when so many ns have passed, as by an adapter that first retries; those that are posted meanwhile, too. 0, the
 * default: at once. -EINVAL */
int diw_qp_set_retry(struct diw_qp *qp, int64_t retry_ns);
/* Send requests that have not begun wait until it is not held any more; they may be posted. */
int diw_qp_hold(struct diw_qp *qp, bool hold);
/* One DIW_EVENT_SQ_DRAINED when those that had begun are complete; now, if there is none. -EINVAL it is not held. */
int diw_qp_drained(struct diw_qp *qp);

/* ---- The end of a queue pair ------------------------------------------------------------------------------------ */

/* RC: state ERROR at once, requests that were not executed are flushed; but the peer still gets what was, and then the
 * end of the stream. */
int diw_leave(struct diw_qp *qp);
/* Before it is reset or destroyed: as diw_leave() (UD and UC as diw_abort()), but its requests vanish without
 * completions, and neither a completion channel nor the device tells an event. Completions that are in a queue already
 * stay. */
int diw_qp_withdraw(struct diw_qp *qp);

/* ---- Connections ------------------------------------------------------------------------------------------------ */

/* The request is CM's from now on, of another device maybe, whose queue pair may then accept it: for a listener on
 * every address, whose connections belong to the device that has the address they came to. -ECONNRESET when its peer is
 * gone, -ENOMEM: the request is still there, diw_reject() then only forgets it. */
int diw_conn_req_move(struct diw_conn_req *req, struct diw_cm *cm);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
