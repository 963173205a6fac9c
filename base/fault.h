/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults of peers. A fault is a 16-bit number: Terminate layer << 12 | error type << 8 | error code (RFC 5040 section
 * 4.8, RFC 5041 section 7). Layer F is diwarp's own: its faults are counted and never reported to the peer.
 */
#ifndef DIW_BASE_FAULT_H
#define DIW_BASE_FAULT_H

#include <stdint.h>

#include "base/counters.h"

/* name, code, counter, text */
#define DIW_FAULTS(X) \
	X(READ_STAG, 0x0100, rx_stag, "invalid STag (of a Read's source)") \
	X(READ_BOUNDS, 0x0101, rx_bounds, "base or bounds violation (of a Read's source)") \
	X(ACCESS, 0x0102, rx_access, "access rights violation") \
	X(READ_WRAP, 0x0104, rx_wrap, "tagged offset wrap (of a Read's source)") \
	X(INVALIDATE, 0x0109, rx_invalidate, "STag cannot be invalidated") \
	X(RDMAP_VERSION, 0x0205, rx_version, "invalid RDMAP version") \
	X(OPCODE, 0x0206, rx_opcode, "unexpected opcode") \
	X(STREAM, 0x0207, rx_stream, "catastrophic error, localized to the stream") \
	X(ATOMIC_OPCODE, 0x0209, rx_opcode, "invalid atomic operation") \
	X(STAG, 0x1100, rx_stag, "invalid STag") \
	X(BOUNDS, 0x1101, rx_bounds, "base or bounds violation") \
	X(WRAP, 0x1103, rx_wrap, "tagged offset wrap") \
	X(TAGGED_VERSION, 0x1104, rx_version, "invalid DDP version (tagged)") \
	X(QN, 0x1201, rx_qn, "invalid queue number") \
	X(NO_BUFFER, 0x1202, rx_no_recv, "no buffer available") \
	X(MSN, 0x1203, rx_msn, "MSN out of range") \
	X(MO, 0x1204, rx_malformed, "invalid message offset") \
	X(TOO_LONG, 0x1205, rx_too_long, "message too long for the buffer") \
	X(UNTAGGED_VERSION, 0x1206, rx_version, "invalid DDP version (untagged)") \
	X(MPA_CLOSED, 0x2001, mpa_closed, "TCP connection lost") \
	X(MPA_CRC, 0x2002, rx_crc, "MPA CRC failed") \
	X(MPA_MARKER, 0x2003, mpa_marker, "MPA marker and length disagree") \
	X(MPA_FRAME, 0x2004, mpa_frame, "invalid MPA request or reply frame") \
	X(MPA_LOCAL, 0x2005, mpa_local, "local catastrophic MPA error") \
	X(MPA_IRD, 0x2006, mpa_ird, "insufficient IRD resources") \
	X(MPA_RTR, 0x2007, mpa_rtr, "no matching RTR option") \
	X(SHORT, 0xf001, rx_malformed, "segment shorter than its header") \
	X(QKEY, 0xf002, rx_qkey, "wrong Q_Key") \
	X(PEER, 0xf003, rx_peer, "not from the peer") \
	X(CQ_FULL, 0xf004, rx_cq_full, "completion queue full") \
	X(SOURCE_FULL, 0xf005, source_full, "source table full") \
	X(EPOCH_OLD, 0xf006, source_epoch_old, "epoch that ended") \
	X(RECORD_FULL, 0xf007, record_full, "record table full") \
	X(RECORD_RANGES, 0xf008, record_ranges_full, "too many ranges") \
	X(RECORD_MISMATCH, 0xf009, record_mismatch, "disagrees with its record") \
	X(RECORD_LATE, 0xf00a, record_late, "record is closed") \
	X(REASM_LIMIT, 0xf00b, reasm_limit, "too many incomplete messages") \
	X(REASM_MISMATCH, 0xf00c, reasm_mismatch, "disagrees with its message") \
	X(REASM_LATE, 0xf00d, reasm_late, "message has ended") \
	X(READ_UNMATCHED, 0xf00e, read_unmatched, "no outstanding read") \
	X(READ_LIMIT, 0xf00f, read_limit, "too many inbound reads") \
	X(LOCAL_PROT, 0xf010, rx_local_prot, "a posted receive or Read names memory that is not registered") \
	X(GROUP, 0xf011, rx_group, "only a Send or a Write-Record may come to a group") \
	X(READ_UNPROVED, 0xf013, read_unproved, "read of an address that has not proved itself") \
	X(REQUEST, 0xf012, request_failed, "a send request of this end could not be executed")

enum diw_fault {
	DIW_FAULT_NONE = 0,
#define X(name, code, counter, text) DIW_FAULT_##name = code,
	DIW_FAULTS(X)
#undef X
};

static inline int diw_fault_is_local(uint16_t fault) { return fault >> 12 == 0xf; }

/* The fault as a peer is told of it. A local fault has no code on the wire. */
static inline uint16_t diw_fault_for_peer(uint16_t fault)
{
	return diw_fault_is_local(fault) ? DIW_FAULT_STREAM : fault;
}

/* The name of the fault's counter; NULL for a number that is no fault. */
const char *diw_fault_counter(uint16_t fault);
/* Adds 1 to the fault's counter. */
void diw_fault_count(struct diw_counters *c, uint16_t fault);

#endif
