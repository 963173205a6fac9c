/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of the interposer in a process (docs/sockets.md): the name that operators see, and its meaning. */
#ifndef DIW_SOCKETS_SOCKCOUNT_H
#define DIW_SOCKETS_SOCKCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

#define DIW_SOCK_COUNTERS(X) \
	X(sock_tx_framed, "messages sent in a frame") \
	X(sock_rx_framed, "messages received in a frame") \
	X(sock_rx_plain, "messages received without a frame") \
	X(sock_plain_unknown, "sent plain: the destination is not known to be capable") \
	X(sock_plain_size, "sent plain: too large with a frame for UDP or for the path") \
	X(sock_plain_option, "sent plain: UDP_CORK, seccomp, or IP_RECVERR with an option that reveals frames") \
	X(sock_plain_flags, "sent plain: MSG_MORE, MSG_ZEROCOPY, or control data with IPV6_DONTFRAG") \
	X(sock_plain_group, "sent plain: to a multicast or broadcast address, and not all receivers are known") \
	X(sock_plain_away, "sent plain: to such an address, and it may leave this host") \
	X(sock_rx_crc, "frames dropped: the CRC failed") \
	X(sock_rx_malformed, "frames dropped: the header contradicts itself") \
	X(sock_rx_strange, "looked like a frame, with another key: delivered as it was") \
	X(sock_rx_sibling, "frames with the key of another socket of the same port") \
	X(sock_rx_mixed, "messages dropped: the kernel put them together with others of another size (UDP_GRO)") \
	X(sock_tx_lost, "messages lost: the kernel took only the first of two super-buffers (UDP_SEGMENT)") \
	X(sock_impair_lost, "datagrams that the impairment lost (DIWARP_IMPAIR)") \
	X(sock_impair_duplicated, "datagrams that the impairment doubled") \
	X(sock_impair_corrupted, "datagrams that the impairment damaged") \
	X(sock_impair_delayed, "datagrams that the impairment delayed") \
	X(sock_impair_reordered, "datagrams that the impairment held back until others had passed") \
	X(sock_err_framed, "own frames that came back by the error queue") \
	X(sock_advertised, "sockets advertised, again after each withdrawal") \
	X(sock_withdrawn, "advertisements withdrawn") \
	X(sock_hidden, "advertisements that found no room") \
	X(sock_stream_tx, "bytes sent in FPDUs") \
	X(sock_stream_rx, "bytes received in FPDUs") \
	X(sock_stream_tx_plain, "bytes of TCP sent without FPDUs") \
	X(sock_stream_rx_plain, "bytes of TCP received without FPDUs") \
	X(sock_stream_framed, "directions of streams that were found to have FPDUs") \
	X(sock_stream_unknown, "plain: no known listener is there, or no known reader of a connection from there") \
	X(sock_stream_gone, "plain: the process at the other end is not known to read by the interposer") \
	X(sock_stream_option, "plain: the configuration, SO_ZEROCOPY, TCP_ULP or TCP_FASTOPEN") \
	X(sock_stream_full, "plain: no slot is free") \
	X(sock_stream_crc, "streams reset: a CRC failed") \
	X(sock_stream_malformed, "streams reset: the received bytes are not the expected FPDU") \
	X(sock_stream_cut, "streams reset: they ended within an FPDU") \
	X(sock_stream_orphan, "streams reset: a thread was killed in a send or receive, or left it by siglongjmp()")

enum diw_sock_counter {
#define X(name, text) DIW_C_##name,
	DIW_SOCK_COUNTERS(X)
#undef X
	DIW_SOCK_NCOUNTERS
};

#endif
