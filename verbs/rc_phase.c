/* SPDX-License-Identifier: BSD-2-Clause */
/* The phases of an RC queue pair: the table of transitions, and the one function that changes the phase. */
#include <stdlib.h>

#include "base/log.h"
#include "base/trace.h"
#include "verbs/qp.h"

#define TO(phase) (1u << DIW_RC_##phase)
/* Any stream may break or meet a fault. Any queue pair that is not connecting may be reset. */
#define BREAK (TO(ENDED) | TO(ENDED_KEPT) | TO(IDLE))
#define END (TO(DRAINING) | BREAK)
#define END_SHUT (TO(DRAINED) | BREAK)       /* no Terminate may be sent after the end of our half */

const struct diw_rc_phase_info diw_rc_phases[DIW_RC_PHASES] = {
#define PHASE(phase, qp_state, has, leads) \
	[DIW_RC_##phase] = { .name = #phase, .state = DIW_QPS_##qp_state, .traits = (has), .next = (leads) }
	PHASE(IDLE, IDLE, 0, TO(IDLE) | TO(CONNECTING) | TO(DOWN) | TO(KEPT)),
	PHASE(CONNECTING, CONNECTING, 0, TO(IDLE) | TO(HELD) | TO(OPEN) | TO(DOWN) | TO(KEPT)),
	PHASE(HELD, RTS, DIW_RC_HOLDS, TO(OPEN) | TO(HELD_CLOSING) | TO(FINISHING) | END),
	PHASE(OPEN, RTS, DIW_RC_SENDS, TO(CLOSING) | TO(FINISHING) | END),
	PHASE(HELD_CLOSING, CLOSING, DIW_RC_HOLDS, TO(CLOSING) | TO(HELD_SHUT) | TO(FINISHING) | END),
	PHASE(CLOSING, CLOSING, DIW_RC_SENDS, TO(SHUT) | TO(ANSWERING) | END),
	PHASE(HELD_SHUT, CLOSING, DIW_RC_HOLDS | DIW_RC_IS_SHUT, TO(SHUT) | TO(BOTH_SHUT) | END_SHUT),
	PHASE(SHUT, CLOSING, DIW_RC_SENDS | DIW_RC_IS_SHUT, TO(BOTH_SHUT) | END_SHUT),
	PHASE(ANSWERING, CLOSING, DIW_RC_SENDS | DIW_RC_PEER_ENDED, TO(FINISHING) | TO(BOTH_SHUT) | END),
	PHASE(FINISHING, CLOSING, DIW_RC_SENDS | DIW_RC_PEER_ENDED | DIW_RC_LAST, TO(BOTH_SHUT) | END),
	PHASE(BOTH_SHUT, CLOSING, DIW_RC_SENDS | DIW_RC_PEER_ENDED | DIW_RC_LAST | DIW_RC_IS_SHUT, END_SHUT),
	PHASE(DRAINING, ERROR, DIW_RC_DRAINS, TO(DRAINED) | TO(ENDED) | TO(IDLE)),
	PHASE(DRAINED, ERROR, DIW_RC_DRAINS | DIW_RC_IS_SHUT, TO(ENDED) | TO(IDLE)),
	/* diw_leave() waits for the peer, even if the stream has ended regularly. */
	PHASE(ENDED, ERROR, DIW_RC_IS_SHUT, TO(DRAINED) | TO(DOWN) | TO(IDLE)),
	PHASE(ENDED_KEPT, ERROR, DIW_RC_IS_SHUT | DIW_RC_KEEPS, TO(ENDED) | TO(KEPT) | TO(IDLE)),
	PHASE(DOWN, ERROR, 0, TO(IDLE)),
	PHASE(KEPT, ERROR, DIW_RC_KEEPS, TO(DOWN) | TO(IDLE)),
#undef PHASE
};

void diw_rc_move(struct diw_qp *qp, enum diw_rc_phase to)
{
	const struct diw_rc_phase_info *from = &diw_rc_phases[qp->rc.phase];

	if (!(from->next & 1u << to)) {
		diw_log(DIW_LOG_TELL, "queue pair %u: phase %s does not lead to %s", diw_qp_num(qp), from->name,
			diw_rc_phases[to].name);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
		abort();                        /* only in a build for tests */
#endif
	}
	DIW_TRACE_RC_PHASE(qp->c, (int)qp->rc.phase, (int)to);
	qp->rc.phase = to;
	qp->state = diw_rc_phases[to].state;
}
