/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The baselines of `diw perf --against`: bare sockets, used in the fastest way that the kernel offers.
 *
 * raw-udp      connected sockets, UDP_SEGMENT super-buffers, UDP_GRO, one recvmsg a burst     { .gso = 1 }
 * raw-udp-crc  the same; each segment is staged with an offset and a CRC-32, checked and copied
 *              to its place by the receiver: the least that a stack over UDP must do          { .gso = 1, .crc = 1 }
 * raw-udp-1    one send and one recv a datagram                                                { .gso = 0 }
 * raw-tcp      writev of up to 32 messages or 512 KiB, without TCP_NODELAY, recv into 256 KiB   { .batch = 32 }
 * raw-tcp-1    one send a message, with TCP_NODELAY                                            { .batch = 1 }
 *
 * UDP: both ends call raw_udp_open(), exchange the bound addresses, and call raw_udp_connect(). Then each runs
 * raw_udp_run() with the same test, gso, crc, size, seg and window; one of them is the sender. The receiver ends when
 * the sender says so, when *stop is no longer 0, or after two seconds of silence after the first data (ten seconds
 * before it).
 *
 * TCP: one end calls raw_tcp_listen(), the other raw_tcp_connect(), the first raw_tcp_accept(). Then each runs
 * raw_tcp_run() with the same test, size and warmup_ns; the descriptor must not be used afterwards. The sender ends the
 * stream.
 */
#ifndef DIW_TOOLS_RAW_H
#define DIW_TOOLS_RAW_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum raw_test {
	RAW_LAT,                     /* one message there and back; the sender records half round trips */
	RAW_STREAM,                  /* one direction, as fast as the window allows: goodput, and message rate */
};

struct raw_attr {
	int fd;                      /* connected */
	enum raw_test test;
	bool sender;
	bool gso;                    /* UDP: super-buffers in both directions; else one system call a datagram */
	bool crc;                    /* UDP */
	uint32_t batch;              /* TCP: messages in a system call, 1 .. RAW_BATCH */
	bool spinning;               /* waits by spinning; else it sleeps in the system call */
	uint32_t size;               /* bytes of a message, 1 .. 1 GiB */
	uint32_t seg;                /* UDP: largest payload of a datagram (with crc, 12 bytes of it are not payload) */
	uint32_t slots;              /* message buffers used in turn at both ends; 0 = 1 */
	uint64_t window;             /* UDP stream: payload bytes without a credit; 0 = as the receive buffer allows */
	uint64_t duration_ns;        /* of the sender; measured after warmup_ns */
	uint64_t warmup_ns;          /* not counted; must be the same at both ends (UDP stream: the sender marks its
				      * end) */
	uint64_t max_msgs;           /* sender: stop after this many measured messages; 0 = no limit */
	const volatile sig_atomic_t *stop;   /* may be NULL */
	uint32_t *lat;               /* RAW_LAT sender: array for half round trips in ns */
	uint32_t lat_max;            /* the length of that array */
};

struct raw_result {
	uint64_t bytes;              /* payload: sender sent, receiver received (crc: checked and placed) */
	uint64_t bytes_all;          /* TCP stream: with the warm-up; else the same */
	uint64_t msgs;               /* bytes / size; RAW_LAT: round trips */
	uint64_t bytes_sent;         /* the sender's count, at both ends; 0: its last message was lost */
	uint64_t lost;               /* receiver: bytes_sent - bytes; RAW_LAT sender: round trips that timed out */
	uint64_t crc_errors;
	uint64_t calls;              /* system calls that moved data */
	uint64_t elapsed_ns;         /* the measured part; receiver: from its first to its last byte */
	double cpu_s;                /* this thread's CPU time in the measured part */
	uint32_t lat_n;              /* samples in `lat` */
};

#define RAW_BATCH 32u

/* Opens a UDP socket bound to LOCAL (port 0: any); BOUND is the bound address. Asks for RCVBUF bytes (0 = 4 MiB). The
 * descriptor, or -errno. */
int raw_udp_open(const struct diw_addr *local, bool gso, int rcvbuf, struct diw_addr *bound);
int raw_udp_connect(int fd, const struct diw_addr *peer);
/* Runs one end in the calling thread. 0 or -errno. */
int raw_udp_run(const struct raw_attr *attr, struct raw_result *result);

/* These return descriptors, or -errno. Congestion control is cubic if the system allows this process to choose it. */
int raw_tcp_listen(const struct diw_addr *local, struct diw_addr *bound);
/* Accepts the connection from PEER's host; waits at most ten seconds. */
int raw_tcp_accept(int listener, const struct diw_addr *peer);
int raw_tcp_connect(const struct diw_addr *local, const struct diw_addr *peer);
#define RAW_CONGESTION_LEN 16
/* The name of its congestion control; "": unknown. */
const char *raw_tcp_congestion(int fd, char buf[RAW_CONGESTION_LEN]);
/* The congestion control that a socket of this process gets. */
void raw_tcp_congestion_choice(char buf[RAW_CONGESTION_LEN]);
int raw_tcp_run(const struct raw_attr *attr, struct raw_result *result);

#endif
