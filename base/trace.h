/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Static trace points (USDT), provider `diw`; docs/tracing.md lists them. A trace point is one `nop` and a note in the
 * ELF file that tells a tracer where the trace point and its arguments are. Arguments are values that the code has
 * computed anyway. Small integers are widened, since gdb does not know the names of partial registers such as r12b.
 * `qp` is the address of the queue pair's counters, which every layer knows.
 */
#ifndef DIW_BASE_TRACE_H
#define DIW_BASE_TRACE_H

#ifdef HAVE_SDT
#include <sys/sdt.h>
#define DIW_TRACE2(name, a, b) STAP_PROBE2(diw, name, a, b)
#define DIW_TRACE3(name, a, b, c) STAP_PROBE3(diw, name, a, b, c)
#define DIW_TRACE4(name, a, b, c, d) STAP_PROBE4(diw, name, a, b, c, d)
#define DIW_TRACE5(name, a, b, c, d, e) STAP_PROBE5(diw, name, a, b, c, d, e)
#define DIW_TRACE6(name, a, b, c, d, e, f) STAP_PROBE6(diw, name, a, b, c, d, e, f)
#else
int diw_trace_args(const void *, ...);          /* never called; it makes arguments count as used in a build without
						 * trace points */
#define DIW_TRACE2(name, ...) ((void)sizeof(diw_trace_args(__VA_ARGS__)))
#define DIW_TRACE3 DIW_TRACE2
#define DIW_TRACE4 DIW_TRACE2
#define DIW_TRACE5 DIW_TRACE2
#define DIW_TRACE6 DIW_TRACE2
#endif

/* verbs */
#define DIW_TRACE_POST_SEND(qp, wr_id, opcode, len, port) DIW_TRACE5(post_send, qp, wr_id, opcode, len, port)
#define DIW_TRACE_COMPLETION(qp, cq, wr_id, opcode, status, len) \
	DIW_TRACE6(completion, qp, cq, wr_id, opcode, (int)(status), len)
#define DIW_TRACE_RC_PHASE(qp, from, to) DIW_TRACE3(rc_phase, qp, from, to)
#define DIW_TRACE_WAKEUP(dev, ready) DIW_TRACE2(wakeup, dev, ready)
/* rdmap */
#define DIW_TRACE_READ_TIMEOUT(qp, msn, len, valid, port) DIW_TRACE5(read_timeout, qp, msn, len, valid, port)
/* ddp */
#define DIW_TRACE_SEGMENT_SENT(qp, opcode, msn, mo, len, port) DIW_TRACE6(segment_sent, qp, opcode, msn, mo, len, port)
#define DIW_TRACE_SEGMENT_RECEIVED(qp, opcode, msn, mo, len, port) \
	DIW_TRACE6(segment_received, qp, opcode, msn, mo, len, port)
#define DIW_TRACE_SEGMENT_DROPPED(qp, fault, len, port) DIW_TRACE4(segment_dropped, qp, fault, len, port)
#define DIW_TRACE_RECORD_OPENED(qp, msn, stag, len, port) DIW_TRACE5(record_opened, qp, msn, stag, len, port)
#define DIW_TRACE_RECORD_CLOSED(qp, msn, reason, len, valid, ranges) \
	DIW_TRACE6(record_closed, qp, msn, (int)(reason), len, valid, ranges)
/* llp */
#define DIW_TRACE_DATAGRAM_DROPPED(qp, len, port) DIW_TRACE3(datagram_dropped, qp, len, port)

#endif
