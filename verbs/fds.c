/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptors of a queue pair, and the events for which the engine watches them. */
#include "llp/stream.h"
#include "verbs/qp.h"

/* No POLLIN while a message waits for a receive, or after the stream has ended: the wake-up could not consume
 * anything. */
static bool qp_wants_read(const struct diw_qp *qp)
{
	return !diw_rdmap_is_waiting(&qp->rdmap) && !qp->link->down;
}

/* No POLLOUT while the send waits for a time, or for room in shared memory: the socket can be written to, and no thread
 * could sleep. */
static bool qp_wants_write(const struct diw_qp *qp)
{
	const struct diw_link *l = qp->link;

	return qp->blocked && !(l->dgram ? l->dgram->state->tx_timed : l->stream && l->stream->wakes);
}

int diw_qp_fds(const struct diw_member *m, struct pollfd *p)
{
	const struct diw_qp *qp = diw_container((struct diw_member *)m, struct diw_qp, member);
	int fd[DIW_DGRAM_FDS], n = qp->link ? qp->link->ops->fds(qp->link, fd) : 0;

	for (int i = 0; i < n; i++)
		p[i] = (struct pollfd){
			.fd = fd[i],
			.events = (short)((qp_wants_read(qp) ? POLLIN : 0) |
					  (i == 0 && qp_wants_write(qp) ? POLLOUT : 0)),
		};
	return n;
}

void diw_qp_watch(struct diw_qp *qp)
{
	struct diw_engine *e = &qp->dev->engine;

	if (qp->link->dgram && qp->link->dgram->state->fds_changed) {
		qp->link->dgram->state->fds_changed = false;
		diw_ready_open(e, &qp->member);
	}
	if (qp_wants_write(qp) == qp->want_write && qp_wants_read(qp) == qp->want_read)
		return;
	qp->want_write = qp_wants_write(qp);
	qp->want_read = qp_wants_read(qp);
	diw_ready_changed(e, &qp->member);
	if (qp->want_read && (qp->memory || (qp->link->stream && qp->link->stream->wakes)))
		diw_engine_kick(e);             /* the octets that waited are in shared memory: no descriptor tells */
}
