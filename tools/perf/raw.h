/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The honest rivals that `diw perf --against` measures: bare sockets by the best recipe that the kernel offers.
 *
 * raw-udp      connected sockets, UDP_SEGMENT super-buffers, UDP_GRO, one recvmsg a burst     { .gso = 1 }
 * raw-udp-crc  the same, and each segment is staged with an offset and a CRC-32, checked and copied
 *              to its place by the receiver: what any stack over UDP must do at least          { .gso = 1, .crc = 1 }
 * raw-udp-1    one send and one recv a datagram                                                { .gso = 0 }
 * raw-tcp      writev of up to 32 messages or 512 KiB, without TCP_NODELAY, recv into 256 KiB   { .batch = 32 }
 * raw-tcp-1    one send a message, with TCP_NODELAY                                            { .batch = 1 }
 *
 * Use, UDP: both ends raw_udp_open(), tell each other the bound address, raw_udp_connect(), and then each runs
 * raw_udp_run() with the same test, gso, crc, size, seg, window; one of them is the sender. The receiver ends when the
 * sender says so, when *stop becomes true, or after two seconds of silence once data has come (ten before).
 * TCP: one end raw_tcp_listen(), the other raw_tcp_connect(), the first raw_tcp_accept(), and each raw_tcp_run() with
 * the same test, size and warmup_ns, the descriptor not to be used again. The sender ends the stream.
 */
#ifndef DIW_TOOLS_RAW_H
#define DIW_TOOLS_RAW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"

enum raw_test {
	RAW_LAT,                     /* one message there and back; the sender keeps half round trips */
	RAW_STREAM,                  /* one way, as fast as the window allows: goodput, and message rate */
};

struct raw_attr {
	int fd;                      /* connected */
	enum raw_test test;
	bool sender;
	bool gso;                    /* UDP: super-buffers both ways; else one system call a datagram */
	bool crc;                    /* UDP */
	uint32_t batch;              /* TCP: messages a system call, 1 .. RAW_BATCH */
	bool spinning;               /* waits by spinning; else it sleeps in the system call */
	uint32_t size;               /* bytes of a message, 1 .. 1 GiB */
	uint32_t seg;                /* UDP: largest payload of a datagram (crc: 12 bytes of it are not payload) */
	uint32_t slots;              /* message buffers that are used in turn at both ends; 0 = 1 */
	uint64_t window;             /* UDP stream: payload bytes not yet credited; 0 = what the receive buffer holds */
	uint64_t duration_ns;        /* the sender's; measured after warmup_ns */
	uint64_t warmup_ns;          /* not counted; both ends need the same (UDP stream: the sender marks its end) */
	uint64_t max_msgs;           /* sender: stop after so many measured messages; 0 = no limit */
	const atomic_bool *stop;     /* may be NULL */
	uint32_t *lat;               /* RAW_LAT sender: half round trips in ns go here, */
	uint32_t lat_max;            /* at most so many */
};

struct raw_result {
	uint64_t bytes;              /* payload: sender sent, receiver received (crc: checked and placed) */
	uint64_t bytes_all;          /* TCP stream: the warm-up's too; else the same */
	uint64_t msgs;               /* bytes / size; RAW_LAT: round trips */
	uint64_t bytes_sent;         /* what the sender says it sent, at both ends; 0: its last word was lost */
	uint64_t lost;               /* receiver: bytes_sent - bytes; RAW_LAT sender: round trips that timed out */
	uint64_t crc_errors;
	uint64_t calls;              /* system calls that moved data */
	uint64_t elapsed_ns;         /* measured part; receiver: first to last byte of it */
	double cpu_s;                /* this thread's CPU time of the measured part */
	uint32_t lat_n;              /* samples in lat */
};

#define RAW_BATCH 32u

/* A UDP socket bound to LOCAL (port 0: any); BOUND tells where. RCVBUF bytes are asked for (0 = 4 MiB).
 * The descriptor, or -errno. */
int raw_udp_open(const struct diw_addr *local, bool gso, int rcvbuf, struct diw_addr *bound);
int raw_udp_connect(int fd, const struct diw_addr *peer);
/* Run one end in the calling thread. 0 or -errno. */
int raw_udp_run(const struct raw_attr *attr, struct raw_result *result);

/* Descriptors or -errno. Congestion control is cubic where the system lets this process choose it. */
int raw_tcp_listen(const struct diw_addr *local, struct diw_addr *bound);
/* The connection from PEER's host, for which it waits at most ten seconds. */
int raw_tcp_accept(int listener, const struct diw_addr *peer);
int raw_tcp_connect(const struct diw_addr *local, const struct diw_addr *peer);
#define RAW_CONGESTION_LEN 16
/* Its name, "" if the system does not tell. */
const char *raw_tcp_congestion(int fd, char buf[RAW_CONGESTION_LEN]);
/* What a socket of this process gets. */
void raw_tcp_congestion_choice(char buf[RAW_CONGESTION_LEN]);
int raw_tcp_run(const struct raw_attr *attr, struct raw_result *result);

#endif
