/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A stream over a stream: two ends of one user on one host exchange their octets by shared memory. The lower stream has
 * carried the negotiation. Then it reports the end of the connection, however a process ends.
 *
 * The responder, before it answers, listens at a UNIX socket whose name has the two addresses of the lower stream. The
 * initiator, before its first octet, connects to that name and passes the memory. It decides: its octets come by the
 * memory if it has passed one, otherwise by the lower stream. The responder sends nothing before those octets, so it
 * follows. A name that is not there means the lower stream. Abstract names are those of the network namespace, as
 * addresses are, and both ends check the user.
 */
#ifndef DIW_LLP_SHM_STREAM_H
#define DIW_LLP_SHM_STREAM_H

#include "llp/shm.h"
#include "llp/stream.h"

/* Wraps *S, with the wrapper as its owner, if both ends are on this host. C counts. OWNER is called by the host.
 * Otherwise, and without memory, *S stays as it is. */
void diw_shm_stream_offer(struct diw_shm_host *h, void *owner, struct diw_counters *c, struct diw_stream **s);
void diw_shm_stream_join(struct diw_shm_host *h, void *owner, struct diw_counters *c, struct diw_stream **s);

#endif
