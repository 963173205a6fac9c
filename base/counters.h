/* SPDX-License-Identifier: BSD-2-Clause */
/* Every counter of a queue pair, by the name that operators see. Layers hold a pointer to the queue pair's set. */
#ifndef DIW_BASE_COUNTERS_H
#define DIW_BASE_COUNTERS_H

#include <stdint.h>

#define DIW_COUNTERS(X) \
	/* llp: dgram */ \
	X(tx_bursts)            /* super-buffers (system calls that sent) */ \
	X(tx_datagrams) \
	X(tx_bytes)             /* UDP payload */ \
	X(tx_blocked)           /* the socket was full */ \
	X(tx_error)             /* datagrams that the kernel refused */ \
	X(tx_emsgsize)          /* a path's MTU became smaller */ \
	X(rx_bursts) \
	X(rx_datagrams) \
	X(rx_bytes) \
	X(rx_truncated)         /* a datagram larger than the receive buffer: dropped */ \
	/* llp: impair */ \
	X(impair_lost) \
	X(impair_duplicated) \
	X(impair_reordered) \
	X(impair_delayed) \
	X(impair_corrupted) \
	/* llp: seal */ \
	X(rx_short)             /* too short for a header and a CRC */ \
	X(rx_crc)               /* CRC failed */ \
	/* ddp */ \
	X(tx_segments) \
	X(rx_segments)          /* good CRC */ \
	X(rx_version)           /* DV, RV or reserved bits */ \
	X(rx_malformed)         /* header shorter than its kind, L, MO and length contradict each other */ \
	X(rx_opcode)            /* unknown, or not of this queue pair type */ \
	X(rx_qn)                /* queue number does not fit the opcode */ \
	X(rx_qkey) \
	X(rx_peer)              /* UC: not from the peer */ \
	X(rx_stag)              /* unknown STag or key, of another protection domain, or bound to another peer */ \
	X(rx_bounds) \
	X(rx_wrap) \
	X(rx_access) \
	X(rx_no_recv)           /* no receive posted */ \
	X(rx_too_long)          /* message longer than the receive */ \
	X(rx_cq_full)           /* no room for its completion */ \
	X(rx_local_prot)        /* a posted receive names memory that is not registered (any more) */ \
	X(source_full)          /* source table full: refused */ \
	X(source_epoch_old)     /* segment of an epoch that ended */ \
	X(source_expired) \
	X(record_opened) \
	X(record_complete) \
	X(record_closed_window) \
	X(record_closed_timeout) \
	X(record_evicted) \
	X(record_closed_dereg) \
	X(record_closed_epoch) \
	X(record_abandoned)     /* record_close=last, last segment lost: never reported */ \
	X(record_full)          /* record table full: refused */ \
	X(record_ranges_full)   /* segment would exceed the ranges of a record, or of all */ \
	X(record_mismatch)      /* segment disagrees with its record */ \
	X(record_late)          /* segment of a closed record */ \
	X(record_duplicate)     /* bytes were there already */ \
	X(reasm_opened) \
	X(reasm_complete) \
	X(reasm_timeout) \
	X(reasm_evicted) \
	X(reasm_limit)          /* half of the receives, or four of this source, are already held */ \
	X(reasm_mismatch) \
	X(reasm_late)           /* segment of a message that ended */ \
	X(reasm_duplicate) \
	/* rdmap */ \
	X(tx_messages) \
	X(rx_messages)          /* completions delivered from the wire */ \
	X(rx_payload)           /* bytes placed */ \
	X(tx_payload) \
	X(write_incomplete)     /* UC Write with immediate that lacked bytes: dropped */ \
	X(read_requests_tx) \
	X(read_requests_rx) \
	X(read_answered) \
	X(read_limit)           /* inbound Read Requests over the limits: dropped */ \
	X(rx_group)             /* Read Request to a group or broadcast address: dropped */ \
	X(read_merged)          /* duplicate of a request in progress */ \
	X(read_timeouts) \
	X(read_unmatched)       /* response that no outstanding read authorises */ \
	X(error_tx) \
	X(error_suppressed)     /* rate limit, or larger than its cause */ \
	X(error_rx) \
	X(error_rx_ignored)     /* names no recent message of ours */ \
	/* verbs */ \
	X(rate_limited)         /* times the send queue waited for the rate limit */ \
	X(wakeups)              /* times a thread slept for this device and woke */

struct diw_counters {
#define X(name) uint64_t name;
	DIW_COUNTERS(X)
#undef X
};

#endif
