/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures the packets of a queue pair inside the stack (DIWARP_PCAP, diwarp(7)). For datagrams there are two dgrams
 * with the impairment between them: the lower one captures what leaves, the upper one what DDP receives, and the
 * impairment reports the datagrams that it loses. For a connection there is a stream around the socket's
 * (llp/capture_stream.c).
 */
#ifndef DIW_LLP_CAPTURE_H
#define DIW_LLP_CAPTURE_H

#include "llp/dgram.h"
#include "llp/stream.h"

struct diw_capture;
struct diw_pcapng;

/* The value of DIWARP_PCAP. NULL: not set, or the program has privileges that its user does not have. The file would
 * then be written with these privileges. */
const char *diw_capture_path(void);
/* The process's file, opened at the first call; in PATH, %p is the process id and %% is %. NULL if it cannot be opened,
 * which is logged once. */
struct diw_pcapng *diw_capture_file(const char *path);
/* Call in a child after fork(2): the file stays the parent's. */
void diw_capture_forked(void);
/* Opens the part below the impairment: *WIRE is made over LOWER and owns it. EPOCH_NS: the time since 1970 at which the
 * caller's clock was 0. -ENOMEM */
int diw_capture_open(struct diw_pcapng *file, uint64_t epoch_ns, struct diw_dgram *lower, struct diw_capture **c,
		     struct diw_dgram **wire);
/* Opens the part above the impairment; cannot fail. *TOP owns IMPAIR. */
void diw_capture_top(struct diw_capture *c, struct diw_dgram *impair, struct diw_dgram **top);
/* Logs once that writing the process's file has failed with RC. */
void diw_capture_check(int rc);

/* A stream's calls have no clock parameter. NOW(CTX) plus EPOCH_NS is the time since 1970. */
struct diw_capture_clock { uint64_t (*now)(void *ctx); void *ctx; uint64_t epoch_ns; };
/* Replaces *S by a stream that captures it and owns it. *S was ACCEPTED, or is about to connect. Captured data is in
 * FILE when the stream's call returns. -ENOMEM */
int diw_capture_stream(struct diw_pcapng *file, const struct diw_capture_clock *clock, bool accepted,
		       struct diw_stream **s);

#endif
