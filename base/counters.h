/* SPDX-License-Identifier: BSD-2-Clause */
/* Every counter of a queue pair: the name that operators see, and what it counts. Layers hold a pointer to the queue
 * pair's set. */
#ifndef DIW_BASE_COUNTERS_H
#define DIW_BASE_COUNTERS_H

#include <stdint.h>

#define DIW_COUNTERS(X) \
	/* llp: dgram, stream */ \
	X(tx_bursts, "super-buffers sent, writes to a stream: system calls") \
	X(tx_datagrams, "datagrams sent") \
	X(tx_bytes, "UDP payload, or bytes of the stream, sent") \
	X(tx_blocked, "the socket was full") \
	X(tx_error, "datagrams that the kernel refused") \
	X(tx_emsgsize, "a path's MTU became smaller") \
	X(rx_bursts, "super-buffers received, reads of a stream") \
	X(rx_datagrams, "datagrams received") \
	X(rx_bytes, "UDP payload, or bytes of the stream, received") \
	X(rx_in_place, "of the datagrams received, those whose payload was copied straight to its place") \
	X(rx_truncated, "a datagram larger than the receive buffer: dropped") \
	/* llp: shared memory */ \
	X(shm_tx_datagrams, "of the datagrams sent, those by shared memory") \
	X(shm_rx_datagrams, "of the datagrams received, those by shared memory") \
	X(shm_tx_bytes, "of the octets sent on a stream, those by shared memory") \
	X(shm_rx_bytes, "of the octets received on a stream, those by shared memory") \
	X(shm_refused, "shared memory given up: the other process did not keep to the protocol") \
	/* llp: impair */ \
	X(impair_lost, "lost by the impairment") \
	X(impair_duplicated, "sent or delivered twice by the impairment") \
	X(impair_reordered, "held back by the impairment, others pass") \
	X(impair_delayed, "delayed by the impairment") \
	X(impair_corrupted, "a bit flipped by the impairment") \
	/* llp: seal */ \
	X(rx_short, "too short for a header and a CRC") \
	X(rx_crc, "CRC failed") \
	/* llp: rd */ \
	X(rd_malformed, "RD: header shorter than its kind, or reserved bits") \
	X(rd_stray, "RD: of no existing association: dropped") \
	X(rd_acks, "RD: acknowledgements that were no segment's") \
	X(rd_ack_ignored, "RD: acknowledgements of segments that were never sent: dropped") \
	X(rd_lost, "RD: segments that count as lost") \
	X(rd_bare, "RD: segments sent without CRC, to a peer at the own address") \
	X(rd_retransmits, "RD: segments sent again") \
	X(rd_spurious, "RD: segments sent again that had only been late") \
	X(rd_timeouts, "RD: timeouts without an acknowledgement") \
	X(rd_duplicates, "RD: segments that were there already: dropped") \
	X(rd_beyond, "RD: segments behind the window: dropped") \
	X(rd_held_full, "RD: segments that came too early, and found no room: dropped") \
	X(rd_peers_full, "RD: peers refused, since the table was full") \
	X(rd_forgotten, "RD: peers forgotten after a silence") \
	X(rd_restarts, "RD: peers that restarted") \
	X(rd_refused, "RD: senders whose segments are refused for a fault") \
	X(rd_rejected, "RD: peers that refused a segment of ours") \
	X(rd_dead, "RD: peers given up, since they acknowledged nothing") \
	/* mpa */ \
	X(tx_fpdus, "FPDUs sent") \
	X(rx_fpdus, "FPDUs received with a good CRC") \
	X(mpa_closed, "the stream broke, or ended within an FPDU") \
	X(mpa_marker, "marker that does not point at its FPDU") \
	X(mpa_frame, "malformed request or reply frame") \
	X(mpa_local, "no memory or no descriptor for the stream") \
	X(mpa_ird, "the peer offers less IRD than is needed") \
	X(mpa_rtr, "no ready-to-receive message that both ends support") \
	X(rx_stalled, "RC, UC, RD: times that a segment waited for a receive") \
	/* ddp */ \
	X(tx_segments, "segments sent") \
	X(rx_segments, "segments received with a good CRC") \
	X(rx_dead, "segments for a queue pair in state ERROR: dropped") \
	X(rx_version, "DV, RV or reserved bits") \
	X(rx_malformed, "header shorter than its kind, L, MO and length contradict each other") \
	X(rx_opcode, "unknown, or not of this queue pair type") \
	X(rx_qn, "queue number does not fit the opcode") \
	X(rx_qkey, "wrong Q_Key") \
	X(rx_peer, "UC: not from the peer") \
	X(rx_msn, "RC: MSN out of order") \
	X(rx_stag, "unknown STag or key, of another protection domain, or bound to another peer") \
	X(rx_bounds, "outside the memory that its STag names") \
	X(rx_wrap, "the tagged offset wraps") \
	X(rx_access, "the STag does not allow it") \
	X(rx_no_recv, "no receive posted") \
	X(rx_too_long, "message longer than the receive, or than any such message may be") \
	X(rx_cq_full, "no room for its completion") \
	X(rx_local_prot, "a posted receive or Read names memory that is not registered (any more)") \
	X(source_full, "source table full: refused") \
	X(source_epoch_old, "segment of an epoch that ended") \
	X(source_epoch_ended, "epochs that ended because their source proved another") \
	X(source_evicted, "sources that held nothing, forgotten to make room for others") \
	X(source_expired, "sources forgotten after a silence") \
	X(record_opened, "records begun") \
	X(record_complete, "records closed with every byte") \
	X(record_closed_window, "records closed by the reorder window") \
	X(record_closed_timeout, "records closed by the record timeout") \
	X(record_evicted, "records closed to make room for others") \
	X(record_closed_dereg, "records closed because their memory was deregistered") \
	X(record_closed_epoch, "records closed because their source proved another epoch") \
	X(record_abandoned, "record_close=last, last segment lost: never reported") \
	X(record_full, "record table full: refused") \
	X(record_ranges_full, "segment would exceed the ranges of a record, or of all") \
	X(record_mismatch, "segment disagrees with its record") \
	X(record_late, "segment of a closed record") \
	X(record_duplicate, "bytes were there already") \
	X(reasm_opened, "reassemblies begun") \
	X(reasm_complete, "reassemblies that became a message") \
	X(reasm_timeout, "reassemblies given up: nothing came in time; RD: the message is not continued") \
	X(reasm_evicted, "reassemblies given up for a newer one of the same source") \
	X(reasm_limit, "half of the receives, or four of this source, are already held") \
	X(reasm_mismatch, "segment disagrees with its reassembly") \
	X(reasm_late, "segment of a message that ended") \
	X(reasm_duplicate, "bytes were there already") \
	/* rdmap */ \
	X(tx_messages, "messages sent") \
	X(tx_appended, "diw_post_append(): parts that joined a Send of the same burst; libfabric's short messages") \
	X(rx_messages, "messages received: completions delivered from the wire") \
	X(rx_payload, "bytes of messages placed") \
	X(tx_payload, "bytes of messages sent") \
	X(write_incomplete, "UC Write with immediate that lacked bytes: dropped") \
	X(flow_asked, "UC: requests of flow control sent to the peer") \
	X(flow_answered, "UC: answers of flow control sent to the peer") \
	X(flow_waits, "UC: times that requests waited for the peer's answer") \
	X(flow_ignored, "UC: answers to no recent request: dropped") \
	X(read_requests_tx, "Read Requests sent") \
	X(read_requests_rx, "Read Requests received") \
	X(read_answered, "Reads answered") \
	X(read_copied, "RC: Reads whose source was copied, since later messages could change it") \
	X(read_uncopied, "RC: Reads too large for that: their responses may show later data") \
	X(read_limit, "inbound Read Requests over the limits: dropped") \
	X(rx_group, "neither Send nor Write-Record at the group port, or a Read to a group: dropped") \
	X(rx_group_stray, "at the group port, to a group without attached queue pair; the first attached one counts") \
	X(read_unproved, "Read Request of an address that is not proved: dropped, challenged") \
	X(read_displaced, "answers given up for a source that has fewer") \
	X(read_expired, "answers given up: requested long ago, and others wait") \
	X(read_merged, "duplicate of a request in progress") \
	X(challenge_tx, "challenges sent: is this address yours, and this epoch?") \
	X(challenge_ignored, "challenges that name no message of ours: dropped") \
	X(proof_tx, "challenges answered") \
	X(proof_rx, "sources that proved their address and epoch") \
	X(proof_ignored, "proofs with a token that is not ours, or of an epoch that ended: dropped") \
	X(confirm_asked, "RC: times that the peer was asked for its placement") \
	X(confirm_told, "RC: times that the peer was told, by a message of its own") \
	X(confirm_carried, "RC: times that the peer was told by a message of the program") \
	X(atomics_tx, "RC, RD: Atomic Requests sent") \
	X(atomics_rx, "RC, RD: Atomic Requests received") \
	X(read_timeouts, "Reads that ended by their timeout") \
	X(read_unmatched, "response that no outstanding read authorises") \
	X(rx_invalidate, "RC, RD: the STag cannot be invalidated by a peer") \
	X(rx_stream, "RC, RD: atomic at an address that is not aligned, or another fault of a stream or message") \
	X(terminate_tx, "RC: Terminates sent") \
	X(terminate_rx, "RC: Terminates received") \
	X(error_tx, "error messages sent") \
	X(error_suppressed, "error messages not sent: repeated, over the rate limit, or larger than their cause") \
	X(error_rx, "error messages received that name a message of ours") \
	X(error_rx_ignored, "error messages received that name no recent message of ours") \
	/* verbs */ \
	X(request_failed, "RC: send requests of this end that could not be executed, which ended the connection") \
	X(rate_limited, "times the send queue waited for the rate limit") \
	X(weight_limited, "times the send queue waited for queue pairs of the device that its weight lets go first") \
	X(wakeups, "times a thread slept for this device and woke") \
	X(thread_receives, "times the device's progress thread received what no call of the program had received") \
	/* a library above, by diw_qp_count(): fabric_malformed to fabric_held, the libfabric provider */ \
	X(fabric_malformed, "libfabric provider: messages that are none of its protocol: dropped") \
	X(fabric_stray, "libfabric provider: messages of no operation under way: dropped") \
	X(fabric_flood, "libfabric provider: messages over the limit of a peer: dropped") \
	X(fabric_no_room, "libfabric provider: messages for which there was no room: dropped") \
	X(fabric_refused, "libfabric provider: connection requests of no endpoint of the job: refused") \
	X(fabric_held, "libfabric provider: times a peer was held, since its messages found no receive")

struct diw_counters {
#define X(name, text) uint64_t name;
	DIW_COUNTERS(X)
#undef X
};

#endif
