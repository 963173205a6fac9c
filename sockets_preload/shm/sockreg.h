/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of a user's interposed sockets (docs/sockets.md): a file that the processes of one user on one host
 * map, to find out which sockets may be sent frames and with which key.
 */
#ifndef DIW_SOCKETS_SOCKREG_H
#define DIW_SOCKETS_SOCKREG_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/addr.h"
#include "base/clock.h"
#include "sockets_preload/shm/regfile.h"

#define DIW_SOCKREG_FILE "sockets"              /* and its version */
#define DIW_SOCKREG_MAGIC 0x6b636f7370776964u    /* "diwpsock" */
#define DIW_SOCKREG_VERSION 8u
#define DIW_SOCKREG_OWNERS 4096u
#define DIW_SOCKREG_FIRST 32768u                 /* entries of the first segment; the window has no other */
#define DIW_SOCKREG_SEGMENTS 6u
#define DIW_SOCKREG_ENTRIES DIW_SEGMENTS_ALL(DIW_SOCKREG_FIRST, DIW_SOCKREG_SEGMENTS)
#define DIW_SOCKREG_PAGE 4096u
#define DIW_SOCKREG_PER_PAGE (DIW_SOCKREG_PAGE / (uint32_t)sizeof(struct diw_sock_entry))
#define DIW_SOCKREG_PAGES (DIW_SOCKREG_ENTRIES / DIW_SOCKREG_PER_PAGE)
#define DIW_SOCKREG_ECHO_BITS 14u
#define DIW_SOCKREG_HEARD 8192u
#define DIW_SOCKREG_ACCEPTED 1024u
#define DIW_HEARD_TIME 0xfffffull
#define DIW_HEARD_UNIT (DIW_S / 4)
#define DIW_HEARD_LASTS 80u                      /* units: the kernel forgets a connection of UDP after 30 s */
#define DIW_SOCKREG_NEAR 64u                     /* entries of a segment, from a port's first one, that may be its */
#define DIW_SOCKREG_PROBE (DIW_SOCKREG_NEAR * DIW_SOCKREG_SEGMENTS)

/* The kernel marks a robust mutex when the thread that holds it ends, is killed or executes another program: so a
 * thread that advertised a socket holds one, and a look at its word tells whether it lives. */
struct diw_sock_owner {
	_Alignas(64) pthread_mutex_t life;
	_Atomic uint32_t epoch;          /* one more with each holder */
};

/* The name of the program, as registries show it. */
static inline void diw_program_put(char to[16])
{
	strncpy(to, program_invocation_short_name, 15);
	to[15] = '\0';
}

#define DIW_SOCK_NO_CRC 1u               /* frames from this host may lack the CRC */
#define DIW_SOCK_V6ONLY 2u
#define DIW_SOCK_WRITE_RECORD 4u
#define DIW_SOCK_STREAM 8u               /* TCP: it listens, or with CONNECTION is one */
#define DIW_SOCK_CONNECTION 16u          /* found by its cookie: diw_sockreg_port() */
#define DIW_SOCK_LENT 64u                /* a program that is not interposed has this socket: it is not found */
#define DIW_SOCK_READS 32u               /* the process that shows it has begun to read it by interposed calls */
#define DIW_SOCK_TAG 0xffffff00u         /* which key its process shares with other hosts; 0: none */

/* The low two bits of seq say what the entry is, the others grow with each change. 0: it was never used. */
enum { DIW_SOCK_FREE, DIW_SOCK_WRITING, DIW_SOCK_SHOWN };
struct diw_sock_entry {
	_Alignas(128) _Atomic uint64_t seq;
	uint64_t netns, cookie;          /* SO_NETNS_COOKIE, SO_COOKIE */
	union {
		uint64_t key[2];         /* of frames with the CRC, of frames without */
		struct { uint64_t stream_key, seen; };   /* of a connection: diw_reg_accepts(); 0: none */
	};
	struct diw_addr local, remote;   /* remote.port 0: not connected */
	uint32_t owner, owner_epoch;
	uint32_t pid, flags;
	uint32_t stag;                   /* DIW_SOCK_WRITE_RECORD: of the region that frames are written to */
	uint32_t forks;                  /* of the process before it showed this, and programs that it executed */
	char program[16];
};

struct diw_sockreg {
	_Atomic uint64_t magic;          /* written last */
	uint32_t version, owners, entries, size;
	uint64_t secret[2];              /* keys are made of it and the cookie */
	/* Marks of datagrams that have reached a socket, where the kernel tracks connections (docs/sockets.md): a hash
	 * of the socket and the sender, and in the low bits when that was. */
	_Atomic uint64_t heard[DIW_SOCKREG_HEARD];
	/* The last frame that has arrived, of a mark that senders and receivers agree on: dgram/route.h. */
	_Atomic uint64_t echo[1u << DIW_SOCKREG_ECHO_BITS];
	/* Cookies of connections that were accepted, by a hash of their addresses: the last of each hash. */
	_Atomic uint64_t accepted[DIW_SOCKREG_ACCEPTED];
	/* A bit for each page of entries that has memory. An entry of another page was never used and must not be
	 * touched: a read would take memory, or end in SIGBUS where there is none. */
	_Atomic uint64_t backed[DIW_SOCKREG_PAGES / 64];
	_Alignas(4096) struct diw_sock_owner owner[DIW_SOCKREG_OWNERS];
	struct diw_sock_entry entry[DIW_SOCKREG_FIRST];
};

/* Maps it, and makes it if CREATE, as diw_regfile_open() does. */
struct diw_sockreg *diw_sockreg_open(bool create, char *path, size_t size, const char **why);

/* What a user shows to the others of the host (docs/sockets.md, "Other users"): the same, without secret and names, in
 * a segment of System V's, which others can attach to read and no user can cut short. UID's, of which the kernel says
 * that UID made it; WRITABLE: our own, made if there is none. At AT, in place of what is there, if that is not NULL.
 * *ID: which segment it is; one that is *ID already is not attached again. NULL: none, or the same. */
struct diw_sockreg *diw_sockwin_open(uint32_t uid, bool writable, void *at, int *id);

_Static_assert(offsetof(struct diw_sockreg, entry) % DIW_SOCKREG_PAGE == 0, "entries begin with a page");
_Static_assert(DIW_SOCKREG_PAGE % sizeof(struct diw_sock_entry) == 0, "pages hold whole entries");

/* Where those of PORT begin in the segment K, in which they are if there was no room before. */
static inline uint32_t diw_sockreg_first(uint32_t port, unsigned k)
{
	return (port * 2654435761u) >> (17 - k);
}
_Static_assert(DIW_SOCKREG_FIRST == 1u << 15, "the hash has as many bits");

/* A connection is where this leads to, in place of a port: its own may be one that many connections share. */
#define DIW_SOCKREG_CONNECTION 0x80000000u
static inline uint32_t diw_sockreg_port(uint64_t cookie) { return (uint32_t)cookie | DIW_SOCKREG_CONNECTION; }
/* The first entries that may be its are a few of the first segment, in which those of the sockets that come and go meet
 * again and again (the kernel counts cookies up), so that they stay in the processor's cache. */
#define DIW_SOCKREG_OFTEN 8u
#define DIW_SOCKREG_HOMES 256u

/* Of the segment K, that REG may not have: then one that was never used, and can have no memory. */
struct diw_sock_entry *diw_sockreg_beyond(struct diw_sockreg *reg, unsigned k, uint32_t at);

static inline struct diw_sock_entry *diw_sockreg_at(struct diw_sockreg *reg, uint32_t port, uint32_t i)
{
	unsigned k = i / DIW_SOCKREG_NEAR;
	uint32_t at;

	if (port & DIW_SOCKREG_CONNECTION && i < DIW_SOCKREG_OFTEN)
		return &reg->entry[port % DIW_SOCKREG_HOMES * DIW_SOCKREG_OFTEN + i];
	at = (diw_sockreg_first(port, k) + i % DIW_SOCKREG_NEAR) % (DIW_SOCKREG_FIRST << k);

	return k == 0 ? &reg->entry[at] : diw_sockreg_beyond(reg, k, at);
}

/* The entry N of all, and which one E is; DIW_SOCKREG_ENTRIES: none. */
struct diw_sock_entry *diw_sockreg_entry(struct diw_sockreg *reg, uint32_t n);
uint32_t diw_sockreg_number_beyond(const struct diw_sockreg *reg, const struct diw_sock_entry *e);
static inline uint32_t diw_sockreg_number(const struct diw_sockreg *reg, const struct diw_sock_entry *e)
{
	uintptr_t at = (uintptr_t)e - (uintptr_t)reg->entry;

	return at < sizeof reg->entry ? (uint32_t)(at / sizeof *e) : diw_sockreg_number_beyond(reg, e);
}

static inline bool diw_sockreg_is_backed(const struct diw_sockreg *reg, const struct diw_sock_entry *e)
{
	uint32_t page = diw_sockreg_number(reg, e) / DIW_SOCKREG_PER_PAGE;

	return page < DIW_SOCKREG_PAGES &&
	       atomic_load_explicit(&reg->backed[page / 64], memory_order_acquire) >> page % 64 & 1;
}
/* Gives the page of E memory, before E is written. False: there is none. */
bool diw_sockreg_back(struct diw_sockreg *reg, const struct diw_sock_entry *e);

/* The seq of E; 0: it was never used. */
static inline uint64_t diw_sock_seq(const struct diw_sockreg *reg, const struct diw_sock_entry *e)
{
	return diw_sockreg_is_backed(reg, e) ? atomic_load_explicit(&e->seq, memory_order_acquire) : 0;
}

static inline const struct diw_sock_owner *diw_sock_owner_at(const struct diw_sockreg *reg, uint32_t owner)
{
	return &reg->owner[owner % DIW_SOCKREG_OWNERS];
}

static inline bool diw_sock_owner_lives(const struct diw_sock_owner *o, uint32_t epoch)
{
	uint32_t word = (uint32_t)__atomic_load_n(&o->life.__data.__lock, __ATOMIC_RELAXED);

	/* Held by a thread that is not marked dead: one comparison. */
	bool held = (word & (FUTEX_TID_MASK | FUTEX_OWNER_DIED)) - 1 < FUTEX_TID_MASK;

	return held & (atomic_load_explicit(&o->epoch, memory_order_relaxed) == epoch);
}

static inline bool diw_sock_lives(const struct diw_sockreg *reg, uint32_t owner, uint32_t epoch)
{
	return diw_sock_owner_lives(diw_sock_owner_at(reg, owner), epoch);
}

/* E is unchanged since its seq was SEQ, and its owner lives. */
static inline bool diw_sock_is_current(const struct diw_sockreg *reg, const struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_load_explicit(&e->seq, memory_order_acquire) == seq &&
	       diw_sock_lives(reg, e->owner, e->owner_epoch);
}

/* REG becomes an empty registry, but for its magic, which is for the caller to write: last. False: no robust mutexes
 * here. */
bool diw_sockreg_init(struct diw_sockreg *reg);
bool diw_sockreg_is_complete(const struct diw_sockreg *reg);

/* A consistent copy of what is shown and lives. */
bool diw_sock_read(const struct diw_sockreg *reg, const struct diw_sock_entry *e, struct diw_sock_entry *copy);

#endif
