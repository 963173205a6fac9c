/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures what a queue pair sends and receives, from inside the stack (DIWARP_PCAP, diwarp(7)). Of datagrams: two
 * dgrams with the impairment between them: what is sent is seen below it, as it leaves; what is received above it, as
 * DDP gets it. What the impairment loses is told by the impairment itself. Of a connection: a stream around the
 * socket's (llp/capture_stream.c).
 */
#ifndef DIW_LLP_CAPTURE_H
#define DIW_LLP_CAPTURE_H

#include "llp/dgram.h"
#include "llp/stream.h"

struct diw_capture;
struct diw_pcapng;

/* What DIWARP_PCAP says; NULL nothing, or the program has privileges that its user has not, whose file it could be. */
const char *diw_capture_path(void);
/* The process's file, opened at the first call; NULL where it cannot be (which is told once). %p in PATH is the process
 * id, %% is %. */
struct diw_pcapng *diw_capture_file(const char *path);
/* In a child: the file is its parent's. */
void diw_capture_forked(void);
/* Go below the impairment: *WIRE is made over LOWER and owns it. EPOCH_NS: the clock's 0, since 1970. -ENOMEM */
int diw_capture_open(struct diw_pcapng *file, uint64_t epoch_ns, struct diw_dgram *lower, struct diw_capture **c,
		     struct diw_dgram **wire);
/* And above it: cannot fail. *TOP owns IMPAIR. */
void diw_capture_top(struct diw_capture *c, struct diw_dgram *impair, struct diw_dgram **top);
/* Tells once what RC, of a write to the process's file, has gone wrong. */
void diw_capture_check(int rc);

/* A stream has no clock as its parameter: NOW(CTX) plus EPOCH_NS is the time since 1970. */
struct diw_capture_clock { uint64_t (*now)(void *ctx); void *ctx; uint64_t epoch_ns; };
/* Around *S, whose place it takes and which it owns: ACCEPTED, or about to connect. What it captures is in FILE when
 * the call returns. -ENOMEM */
int diw_capture_stream(struct diw_pcapng *file, const struct diw_capture_clock *clock, bool accepted,
		       struct diw_stream **s);

#endif
