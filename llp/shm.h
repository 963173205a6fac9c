/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A dgram over a dgram: datagrams to another queue pair of the same user on the same host go through shared memory. All
 * others, and all that cannot, take the lower dgram: the wire.
 *
 * Two ports that send to each other make a pair: a UNIX socket, and a memory with a ring for each direction. The pair
 * is used when each end has proved to the other one that datagrams to its address reach it.
 */
#ifndef DIW_LLP_SHM_H
#define DIW_LLP_SHM_H

#include "base/list.h"
#include "llp/dgram.h"
#include "llp/shm_ring.h"
#include "llp/shm_unix.h"

#define DIW_SHM_DSTS 256u            /* a direct-mapped table */
#define DIW_SHM_PROBE 37u            /* octets of a probe: odd, so that few datagrams have the same size */
#define DIW_SHM_SOON_NS (50 * DIW_US)        /* between two looks at the UNIX sockets while a pair is made */

/* The part of a device: its ports, and what they sleep on. */
struct diw_shm_host {
	int epfd;                    /* the UNIX sockets of all ports */
	struct diw_list ports;
	bool rested;                 /* the readers of all rings are marked as asleep */
	uint64_t look_at;            /* when the UNIX sockets are looked at again */
	struct diw_list streams;
	unsigned nstreams;
	/* OWNER's port has datagrams, or its stream octets. False: OWNER takes none at present. */
	bool (*ready)(void *owner);
	/* OWNER's stream has changed: it is to be read and written again. */
	void (*wakes)(void *owner);
};

/* A stream (llp/shm_stream.c), as the host knows it. */
struct diw_shm_stream {
	struct diw_list link;
	struct diw_shm_host *host;
	void *owner;
	bool (*has)(const struct diw_shm_stream *of);        /* octets to read */
	bool (*has_room)(struct diw_shm_stream *of);         /* for a writer that found none; told once */
	void (*sleeps)(struct diw_shm_stream *of, bool asleep);
};

struct diw_shm;

struct diw_shm_pair {
	struct diw_list link;        /* in the port's list */
	struct diw_shm_watch watch;
	struct diw_shm *port;
	int fd;
	bool calls;                  /* this end has called the other one */
	bool shown;                  /* this end has shown that datagrams to `own` reach it */
	bool proved;                 /* the other end has shown the same of `peer` */
	bool ended;                  /* the other end writes no more */
	struct diw_addr peer, own;   /* `own` is known when `shown` is set */
	uint64_t id;                 /* drawn by the end that calls */
	uint64_t token;              /* what the other end must get by a datagram, and return; 0: not sent yet */
	uint64_t until;              /* when an unproved pair is given up */
	uint64_t full_since;         /* 0: the ring has room */
	struct diw_shm_map *map;
	struct diw_shm_tx tx;
	struct diw_shm_rx rx;
};

struct diw_shm_dst {
	struct diw_addr addr;
	struct diw_shm_pair *pair;
	uint32_t bursts, tries;
	uint64_t retry_at;
};

struct diw_shm {
	struct diw_dgram d;
	struct diw_dgram *lower;
	struct diw_shm_host *host;
	void *owner;
	struct diw_list of_host;
	bool begun;                  /* it is in the host's list */
	bool any;
	bool paused;                 /* all datagrams leave by the wire */
	int pid;                     /* a child after fork(2) has not the memory */
	int listen_fd;
	struct diw_shm_watch watch;
	struct diw_list pairs;       /* the first one is read first */
	struct diw_addr wanted;      /* a pair with this destination is to be made; port 0: none */
	struct diw_shm_dst dst[DIW_SHM_DSTS], *last;
	uint64_t wire_ns, wire_at;   /* when the last datagram came by the wire; when the wire is read again */
	bool wire_busy;              /* that read found something */
	unsigned turn;
	uint64_t blocked_until;      /* a ring was full: when to try again; 0: none was */
	struct iovec rx_iov;
	uint8_t rx_buf[DIW_DGRAM_MAX], tx_buf[DIW_DGRAM_MAX];
};

static inline bool diw_shm_is_up(const struct diw_shm_pair *p)
{
	return p->shown && p->proved;
}

/* ---- The dgram (llp/shm.c) ---- */

/* *D is made over LOWER and owns it. */
int diw_shm_open(struct diw_shm_host *h, void *owner, struct diw_dgram *lower, struct diw_dgram **d);
/* PAUSED: datagrams leave and come by the wire. What the rings hold is lost. */
void diw_shm_pause(struct diw_dgram *d, bool paused, uint64_t now);

/* ---- Pairs (llp/shm_pair.c) ---- */

struct diw_shm_dst *diw_shm_dst(struct diw_shm *s, const struct diw_addr *addr);
/* Listens for other processes. The port works without, if it calls. */
void diw_shm_listen(struct diw_shm *s);
/* Calls the port at DST. NULL: there is none that this user may share memory with. */
struct diw_shm_pair *diw_shm_call(struct diw_shm *s, const struct diw_addr *dst, uint64_t now);
/* The datagram at DATA, which came from SRC to TO, is a probe. */
void diw_shm_probed(struct diw_shm *s, const struct diw_addr *src, const struct diw_addr *to, const uint8_t *data,
		    uint64_t now);
bool diw_shm_is_probe(const uint8_t *data);
/* No call to DST before some time has passed; the more, the more calls have failed. */
void diw_shm_retry_later(struct diw_shm_dst *dst, uint64_t now);
/* Ends the pair; its destination takes the wire. */
void diw_shm_pair_free(struct diw_shm_pair *p, uint64_t now);

/* ---- The ports of a device (llp/shm_host.c) ---- */

int diw_shm_host_open(struct diw_shm_host *h);
void diw_shm_host_close(struct diw_shm_host *h);
/* Serves the UNIX sockets if it is time, and reports the owners of ports that have datagrams. ASLEEP: another thread
 * still sleeps on the descriptors. POLLED: all ports have just been polled. */
bool diw_shm_host_serve(struct diw_shm_host *h, bool asleep, bool polled, uint64_t now);
/* Asks to be woken. True: a port has datagrams, so that the thread must not sleep. */
bool diw_shm_host_rest(struct diw_shm_host *h);
/* EVENTS: reads the UNIX sockets, too. They may have a sleeper's wake-up, so the rings are to be marked again. */
void diw_shm_host_look(struct diw_shm_host *h, bool events, uint64_t now);

#endif
