/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a queue pair over reliable datagrams knows of its peers: of each at most one message, which has come in part.
 * A peer without one takes no memory.
 */
#ifndef DIW_DDP_PEERS_H
#define DIW_DDP_PEERS_H

#include <stdint.h>

#include "base/addr.h"
#include "base/list.h"
#include "base/pool.h"
#include "wire/hdr.h"

struct diw_ddp;
struct diw_recv;

struct diw_peer_msg {                /* a Send, Write or Write-Record of several segments */
	struct diw_peer_msg *hnext;
	struct diw_list age;         /* by last_ns */
	struct diw_addr addr;
	struct diw_recv *recv;       /* of a Send; else NULL */
	struct diw_ddp_hdr first;    /* of its first segment */
	uint32_t got;                /* its bytes that are in place */
	uint64_t last_ns;            /* when a segment of it came */
};

struct diw_peers {
	struct diw_arena arena;      /* it lies in that itself */
	struct diw_pool pool;
	struct diw_peer_msg **bucket;
	uint32_t mask;
	uint64_t seed;
	struct diw_list age;
};

int diw_peers_init(struct diw_ddp *d);           /* -ENOMEM */
void diw_peers_fini(struct diw_ddp *d);          /* held receives go back */
void diw_peers_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_peers_deadline(const struct diw_ddp *d);

#endif
