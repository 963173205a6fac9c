/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw_provider.h - calls for libraries that give another interface to queue pairs of diw.h, as verbs/of does libibverbs
 * and librdmacm and verbs/rs does rsockets: states that diw.h does not have, attributes that change later, lists that
 * are posted whole. A program of the native verbs needs none of them. The contract of diw.h holds here.
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

/* As diw_cq_arm(), but completions that were in the queue when the last event was raised or fetched raise no other one.
 * So a program that arms before it polls gets one event for them, and one that polls before it arms misses none. */
int diw_cq_arm_later(struct diw_cq *cq, bool solicited_only);
/* The end of CQ's events: its channel returns no more of them. TAKEN: how many the channel has returned. -EBUSY while a
 * queue pair uses CQ. diw_cq_destroy() follows, when these events are acknowledged. */
int diw_cq_retire(struct diw_cq *cq, uint32_t *taken);
/* All of the list or nothing. */
int diw_post_send_all(struct diw_qp *qp, const struct diw_send_wr *wr);
/* Appends LEN octets of DATA, which are copied, to the payload of the request that was posted last, for an interface
 * that packs several messages into one. That request must be a Send with DIW_SEND_INLINE to DST (NULL: any), have room
 * in max_inline, and wait for more posts, as a post within a burst of posts does. It completes as before. -EAGAIN:
 * nothing was done, and the octets need a request of their own. No other thread may post to QP meanwhile. It takes no
 * lock. */
int diw_post_append(struct diw_qp *qp, const struct diw_addr *dst, const void *data, uint32_t len);

/* ---- Devices ---------------------------------------------------------------------------------------------------- */

/* False: the program has closed the device's descriptors, as daemons do. Objects of the device can only be destroyed,
 * and another device takes its place. */
bool diw_dev_has_fds(struct diw_dev *dev);

/* ---- Events ----------------------------------------------------------------------------------------------------- */

/* The events that the device raises from now on: a set of 1u << enum diw_event_type, to begin with all. Without
 * DIW_EVENT_OVERRUN the newest events are lost when none are fetched. -EINVAL: an unknown type. */
int diw_dev_set_events(struct diw_dev *dev, unsigned types);
/* RC: the faults of the peer that raise DIW_EVENT_QP_ERROR even if it is not in the device's set. A lost connection is
 * none. -EINVAL: not RC, or an unknown bit. */
#define DIW_RAISE_FOUND 1u           /* found by this end */
#define DIW_RAISE_TOLD 2u            /* named by a Terminate message of the peer: faults of this end */
int diw_qp_set_errors(struct diw_qp *qp, unsigned raise);

/* ---- Queue pairs ------------------------------------------------------------------------------------------------ */

/* UD, UC, RD: the Q_Key that arriving segments must carry from now on. -EINVAL: RC. */
int diw_qp_set_qkey(struct diw_qp *qp, uint32_t qkey);
/* The access that peers have by this queue pair: DIW_ACCESS_REMOTE_WRITE, READ and ATOMIC, all three to begin with. The
 * STag must allow it, too. Without REMOTE_WRITE there is no DIW_ACCESS_GROUP_WRITE either. */
int diw_qp_set_access(struct diw_qp *qp, unsigned access);
/* RC: change the attribute rc.confirm. */
int diw_qp_confirm(struct diw_qp *qp, bool confirm);
/* RC, from the next message on. RETRY: how often a message of this end may wait for a receive of the peer, 0 to 6, or 7
 * without a limit. TIMER_NS: how long a retry of the peer takes here; 0: the peer's limit is ignored. Both hold if both
 * ends take RFC 7306. A message that exceeds its limit ends the connection with the fault DDP 0x1202. -EINVAL */
int diw_qp_set_rnr(struct diw_qp *qp, unsigned retry, int64_t timer_ns);
/* RC with rc.keep_recvs: when the stream has ended without a fault, send requests are flushed RETRY_NS later, requests
 * that were posted meanwhile included. An adapter spends this time with retries. 0, the default: at once. -EINVAL */
int diw_qp_set_retry(struct diw_qp *qp, int64_t retry_ns);
/* HOLD: send requests that have not begun wait until a call with HOLD false. They may be posted meanwhile. */
int diw_qp_hold(struct diw_qp *qp, bool hold);
/* Raise one DIW_EVENT_SQ_DRAINED when all requests that have begun are complete, which may be now. -EINVAL: QP is not
 * held. */
int diw_qp_drained(struct diw_qp *qp);

/* ---- The end of a queue pair ------------------------------------------------------------------------------------ */

/* RC: state ERROR at once. Requests that were not executed are flushed. The peer gets those that were executed, and
 * then the end of the stream. -EINVAL: not RC. */
int diw_leave(struct diw_qp *qp);
/* As diw_leave() (UD, UC and RD: as diw_abort()), but requests vanish without completions, and neither a completion
 * channel nor the device has an event of them. Completions that are in a completion queue stay. diw_qp_reset() or
 * diw_qp_destroy() follows. */
int diw_qp_withdraw(struct diw_qp *qp);

/* ---- Connections ------------------------------------------------------------------------------------------------ */

/* Give the request to CM, which may be of another device. A queue pair of that device may then accept it. A listener on
 * every address needs this: its connections belong to the device that has the address they came to. -ECONNRESET when
 * the peer is gone, and -ENOMEM, leave the request: diw_reject() ends it then. */
int diw_conn_req_move(struct diw_conn_req *req, struct diw_cm *cm);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
