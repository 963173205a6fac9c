/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a queue pair's peers with reliable datagrams: at most one unfinished message a peer. A peer without one
 * takes no memory.
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

struct diw_peer_msg {                /* an unfinished Send, Write or Write-Record of several segments */
	struct diw_peer_msg *hnext;
	struct diw_list age;         /* in order of last_ns */
	struct diw_addr addr;
	struct diw_recv *recv;       /* the Send's receive; else NULL */
	struct diw_ddp_hdr first;    /* header of its first segment */
	uint32_t got;                /* its bytes that are placed */
	uint64_t last_ns;            /* when its last segment came */
};

struct diw_peers {
	struct diw_arena arena;      /* the arena holds this struct, too */
	struct diw_pool pool;
	struct diw_peer_msg **bucket;
	uint32_t mask;
	uint64_t seed;
	struct diw_list age;
};

int diw_peers_init(struct diw_ddp *d);           /* -ENOMEM */
void diw_peers_fini(struct diw_ddp *d);          /* returns held receives */
void diw_peers_timers(struct diw_ddp *d, uint64_t now);
uint64_t diw_peers_deadline(const struct diw_ddp *d);

#endif
