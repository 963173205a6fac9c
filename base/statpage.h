/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The page in which a process shows its counters: a file /dev/shm/diwarp.PID.RANDOM of mode 0600. The writer
 * (verbs/stat.c) holds a lock on the file while it lives. A reader does not trust the page: another build or any other
 * process may have written it.
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
#define DIW_STAT_NAME 32                     /* bytes of a name, the terminating 0 included */
#define DIW_STAT_SLOTS 1024u                 /* queue pairs that one process shows */
#define DIW_STAT_PEERS 16u                   /* peers that an RD queue pair shows */
#define DIW_STAT_SOCKETS 0x534fu             /* not a queue pair type: the interposed sockets of a process */

/* Values that are a state, not a sum. */
#define DIW_GAUGES(X) \
	X(sq_pending, "send requests that are not executed yet") \
	X(rq_posted, "receives posted") \
	X(sources, "peers with state") \
	X(records_open, "records that are open") \
	X(records_held, "records closed but not polled, or not released") \
	X(reasm_open, "messages in reassembly") \
	X(reads_open, "Reads of UD, and Reads and atomics of RC, that are outstanding") \
	X(crc, "RC: 1 if the stream has CRC-32C") \
	X(memory, "bytes that the state of peers holds")

struct diw_gauges {
#define X(name, text) uint64_t name;
	DIW_GAUGES(X)
#undef X
};

/* The head of a page. Behind it there are nvalues names of DIW_STAT_NAME bytes: first the ncounters counters, then the
 * gauges. */
struct diw_stat_head {
	_Atomic uint64_t magic;      /* written last */
	uint32_t version;
	uint32_t nvalues, ncounters;
	uint32_t slots_off, slot_size, values_off;   /* in bytes; values_off is relative to the slot */
	uint32_t peers_off, peers;   /* position of struct diw_stat_peers in a slot, and the most rows it has; 0:
				      * none */
	uint32_t slots;
	_Atomic uint32_t used;       /* slots that were ever in use */
	_Atomic uint32_t hidden;     /* queue pairs that have no slot */
	uint32_t pid;
	uint64_t started_ns;         /* the page's creation; CLOCK_REALTIME */
	char program[16];
};

/* The identity of a queue pair. A reader's copy is consistent if seq is odd and the same before and after. */
struct diw_stat_id {
	_Atomic uint64_t seq;        /* odd: the slot is in use */
	uint64_t created_ns;         /* CLOCK_REALTIME */
	uint32_t num, type;
	struct diw_addr local;
	char device[24];
	struct diw_addr peer;        /* RC only: there, many queue pairs have the same local address */
};

/* A row of an RD queue pair: one peer, as the sender sees it. */
struct diw_stat_peer {
	struct diw_addr addr;
	uint32_t window;             /* congestion window, in segments */
	uint32_t flight;             /* segments in flight */
	uint64_t srtt_ns;            /* smoothed round trip; 0: not measured */
	uint64_t retransmits;        /* segments sent again */
};
struct diw_stat_peers {
	_Atomic uint64_t seq;        /* odd: a writer is changing the rows */
	uint32_t n, all;             /* rows; all peers of the queue pair */
	struct diw_stat_peer row[DIW_STAT_PEERS];
};

struct diw_stat_slot {
	struct diw_stat_id id;
	_Alignas(64) struct diw_counters counters;   /* the data path increments these */
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

/* A consistent copy of a page. */
struct diw_stat_copy {
	struct diw_stat_head head;
	const char (*names)[DIW_STAT_NAME];          /* unique; lower case letters, digits, '_' */
	uint32_t nqps;
	struct diw_stat_qp *qp;
};

/* Copies and checks the page of SIZE bytes at PAGE, which is 8-byte aligned. Each counter is read by one load. Returns
 * -EINVAL with the reason in *why, or -ENOMEM. */
int diw_stat_copy(const void *page, size_t size, struct diw_stat_copy **copy, const char **why);
void diw_stat_copy_free(struct diw_stat_copy *copy);
/* The value of that name, or NULL. */
const uint64_t *diw_stat_value(const struct diw_stat_copy *copy, const struct diw_stat_qp *qp, const char *name);

/* Whether a process holds the page. *PID is its id in our PID namespace, or 0 if the process is not visible there.
 * Always false for the caller's own pages: locks do not exclude their owner. */
bool diw_stat_is_held(int fd, pid_t *pid);

#endif
