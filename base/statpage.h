/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page in which a process shows its counters: a file /dev/shm/diwarp.PID.RANDOM of mode 0600, whose writer
 * (verbs/stat.c) holds a lock on it as long as it lives. A reader does not trust it: another build may have
 * written it, or any process.
 */
#ifndef DIW_BASE_STATPAGE_H
#define DIW_BASE_STATPAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/addr.h"
#include "base/counters.h"

#define DIW_STAT_DIR "/dev/shm"
#define DIW_STAT_PREFIX "diwarp."            /* then PID.RANDOM */
#define DIW_STAT_MAGIC 0x7461747370776964u   /* "diwpstat" */
#define DIW_STAT_VERSION 2u
#define DIW_STAT_NAME 32                     /* bytes of a name, with its end */
#define DIW_STAT_SLOTS 1024u                 /* queue pairs that one process shows */
#define DIW_STAT_PEERS 16u                   /* peers that an RD queue pair shows */
#define DIW_STAT_SOCKETS 0x534fu             /* a type that is no queue pair's: the interposed sockets of a process */

/* What is not a sum but a state. */
#define DIW_GAUGES(X) \
	X(sq_pending, "send requests that are not executed yet") \
	X(rq_posted, "receives posted") \
	X(sources, "peers with state") \
	X(records_open, "records that are open") \
	X(records_held, "records closed but not polled, or not released") \
	X(reasm_open, "messages in reassembly") \
	X(reads_open, "Reads that are outstanding") \
	X(memory, "bytes that the state of peers holds")

struct diw_gauges {
#define X(name, text) uint64_t name;
	DIW_GAUGES(X)
#undef X
};

/* Then nvalues names, each DIW_STAT_NAME bytes; the first ncounters are counters, the others gauges. */
struct diw_stat_head {
	_Atomic uint64_t magic;      /* written last */
	uint32_t version;
	uint32_t nvalues, ncounters;
	uint32_t slots_off, slot_size, values_off;   /* bytes; values_off in a slot */
	uint32_t peers_off, peers;   /* the struct diw_stat_peers of a slot, and its rows at most; 0: none */
	uint32_t slots;
	_Atomic uint32_t used;       /* slots that were ever taken */
	_Atomic uint32_t hidden;     /* queue pairs that found no slot */
	uint32_t pid;
	uint64_t started_ns;         /* of the page; CLOCK_REALTIME */
	char program[16];
};

/* Which queue pair it is; nothing of it changes while seq is odd and stays the same. */
struct diw_stat_id {
	_Atomic uint64_t seq;        /* odd: in use */
	uint64_t created_ns;         /* CLOCK_REALTIME */
	uint32_t num, type;
	struct diw_addr local;
	char device[24];
	struct diw_addr peer;        /* RC: many have the same local address */
};

/* A peer of an RD queue pair, as its sender sees it. */
struct diw_stat_peer {
	struct diw_addr addr;
	uint32_t window;             /* segments that may be under way: congestion window */
	uint32_t flight;             /* segments under way */
	uint64_t srtt_ns;            /* smoothed round trip; 0: not measured */
	uint64_t retransmits;        /* segments sent again */
};
struct diw_stat_peers {
	_Atomic uint64_t seq;        /* odd: is being written */
	uint32_t n, all;             /* rows; peers that there are */
	struct diw_stat_peer row[DIW_STAT_PEERS];
};

struct diw_stat_slot {
	struct diw_stat_id id;
	_Alignas(64) struct diw_counters counters;   /* the data path counts here */
	struct diw_gauges gauges;
	struct diw_stat_peers peers;
};
_Static_assert(sizeof(struct diw_stat_slot) % 64 == 0, "queue pairs share no cache line");

/* ---- Reading (base/statpage.c) ---- */

struct diw_stat_qp {
	uint32_t slot;
	struct diw_stat_id id;
	const uint64_t *values;
	uint32_t npeers, all_peers;
	const struct diw_stat_peer *peer;
};

/* What a page held at one time. */
struct diw_stat_copy {
	struct diw_stat_head head;
	const char (*names)[DIW_STAT_NAME];          /* lower case, digits, '_'; each once */
	uint32_t nqps;
	struct diw_stat_qp *qp;
};

/* Copies what SIZE bytes at PAGE (8-byte aligned) show, each counter by one load, and checks all of it. -EINVAL with
 * the reason in *why, -ENOMEM. */
int diw_stat_copy(const void *page, size_t size, struct diw_stat_copy **copy, const char **why);
void diw_stat_copy_free(struct diw_stat_copy *copy);
/* The value of that name, or NULL. */
const uint64_t *diw_stat_value(const struct diw_stat_copy *copy, const struct diw_stat_qp *qp, const char *name);

/* Does a process hold the page? Its id then, as we see it, or 0 when it is in a PID namespace that we do not see.
 * Never true of the caller's own pages: locks do not exclude their owner. */
bool diw_stat_is_held(int fd, pid_t *pid);

#endif
