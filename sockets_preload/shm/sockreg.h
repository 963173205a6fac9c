/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The registry of a user's interposed sockets (docs/sockets.md): a file that the processes of one user on one host map.
 * It says which sockets may be sent frames, and with which key.
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

#define DIW_SOCKREG_FILE "sockets"              /* followed by its version */
#define DIW_SOCKREG_MAGIC 0x6b636f7370776964u    /* "diwpsock" */
#define DIW_SOCKREG_VERSION 8u
#define DIW_SOCKREG_OWNERS 4096u
#define DIW_SOCKREG_FIRST 32768u                 /* entries of the first segment; the window has only this one */
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
#define DIW_HEARD_LASTS 80u                      /* in units: the kernel forgets a UDP connection after 30 s */
#define DIW_SOCKREG_NEAR 64u                     /* entries of a segment that may be a port's, from its first one */
#define DIW_SOCKREG_PROBE (DIW_SOCKREG_NEAR * DIW_SOCKREG_SEGMENTS)

/* A robust mutex, which the kernel marks when the thread that holds it ends, is killed or executes another program. A
 * thread that has advertised a socket holds one, so the mutex's word says whether it lives. */
struct diw_sock_owner {
	_Alignas(64) pthread_mutex_t life;
	_Atomic uint32_t epoch;          /* incremented for each holder */
};

/* Writes the program's name, as registries show it. */
static inline void diw_program_put(char to[16])
{
	strncpy(to, program_invocation_short_name, 15);
	to[15] = '\0';
}

#define DIW_SOCK_NO_CRC 1u               /* frames from this host may lack the CRC */
#define DIW_SOCK_V6ONLY 2u
#define DIW_SOCK_WRITE_RECORD 4u
#define DIW_SOCK_STREAM 8u               /* TCP: it listens; or with CONNECTION, it is a connection */
#define DIW_SOCK_CONNECTION 16u          /* stored by its cookie: diw_sockreg_port() */
#define DIW_SOCK_LENT 64u                /* a program that is not interposed has the socket: searches skip it */
#define DIW_SOCK_READS 32u               /* the process has begun to read it by interposed calls */
#define DIW_SOCK_TAG 0xffffff00u         /* tag of the key that its process shares with other hosts; 0: none */

/* The low two bits of seq are the state of the entry; the others grow with each change. 0: it was never used. */
enum { DIW_SOCK_FREE, DIW_SOCK_WRITING, DIW_SOCK_SHOWN };
struct diw_sock_entry {
	_Alignas(128) _Atomic uint64_t seq;
	uint64_t netns, cookie;          /* SO_NETNS_COOKIE, SO_COOKIE */
	union {
		uint64_t key[2];         /* for frames with the CRC, for frames without */
		struct { uint64_t stream_key, seen; };   /* of a connection: diw_reg_accepts(); 0: none */
	};
	struct diw_addr local, remote;   /* remote.port 0: not connected */
	uint32_t owner, owner_epoch;
	uint32_t pid, flags;
	uint32_t stag;                   /* DIW_SOCK_WRITE_RECORD: the region to which frames are written */
	uint32_t forks;                  /* number of forks and execs of the process before it showed the socket */
	char program[16];
};

struct diw_sockreg {
	_Atomic uint64_t magic;          /* written last */
	uint32_t version, owners, entries, size;
	uint64_t secret[2];              /* keys are made of it and the cookie */
	/* Marks of datagrams that have reached a socket, if the kernel tracks connections (docs/sockets.md): a hash of
	 * socket and sender, with the time in the low bits. */
	_Atomic uint64_t heard[DIW_SOCKREG_HEARD];
	/* The last frame that arrived, for each mark: dgram/route.h. */
	_Atomic uint64_t echo[1u << DIW_SOCKREG_ECHO_BITS];
	/* Cookies of accepted connections, by a hash of their addresses: the last one of each hash. */
	_Atomic uint64_t accepted[DIW_SOCKREG_ACCEPTED];
	/* A bit for each page of entries with memory. Entries of other pages were never used, and must not be touched:
	 * a read would allocate memory, or raise SIGBUS if there is none. */
	_Atomic uint64_t backed[DIW_SOCKREG_PAGES / 64];
	_Alignas(4096) struct diw_sock_owner owner[DIW_SOCKREG_OWNERS];
	struct diw_sock_entry entry[DIW_SOCKREG_FIRST];
};

/* Maps the registry; with CREATE, makes it, as diw_regfile_open() does. */
struct diw_sockreg *diw_sockreg_open(bool create, char *path, size_t size, const char **why);

/* The window: the entries that a user shows to other users of the host (docs/sockets.md, "Other users"), without secret
 * and names. It is a System V segment: others can attach it to read, and no user can make it shorter. The kernel
 * confirms that UID has made it. WRITABLE: our own; it is made if there is none. AT not NULL: it replaces the mapping
 * at AT. *ID: the segment's id; the segment *ID is not attached again. NULL: there is none, or the same one. */
struct diw_sockreg *diw_sockwin_open(uint32_t uid, bool writable, void *at, int *id);

_Static_assert(offsetof(struct diw_sockreg, entry) % DIW_SOCKREG_PAGE == 0, "entries begin with a page");
_Static_assert(DIW_SOCKREG_PAGE % sizeof(struct diw_sock_entry) == 0, "pages hold whole entries");

/* The first entry of PORT in segment K. Entries are in segment K if the smaller segments had no room. */
static inline uint32_t diw_sockreg_first(uint32_t port, unsigned k)
{
	return (port * 2654435761u) >> (17 - k);
}
_Static_assert(DIW_SOCKREG_FIRST == 1u << 15, "the hash has as many bits");

/* Connections are stored by this number in place of a port, since many connections may share a port. */
#define DIW_SOCKREG_CONNECTION 0x80000000u
static inline uint32_t diw_sockreg_port(uint64_t cookie) { return (uint32_t)cookie | DIW_SOCKREG_CONNECTION; }
/* The first entries that may be a connection's are a few of the first segment. Short-lived sockets reuse these again
 * and again (the kernel counts cookies up), so that they stay in the processor's cache. */
#define DIW_SOCKREG_OFTEN 8u
#define DIW_SOCKREG_HOMES 256u

/* An entry of segment K, which REG may not have: then an entry that was never used and can have no memory. */
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

/* The entry with number N; the number of E; DIW_SOCKREG_ENTRIES: none. */
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
/* Allocates memory for the page of E, before E is written. False: there is none. */
bool diw_sockreg_back(struct diw_sockreg *reg, const struct diw_sock_entry *e);

/* The seq of E; 0: E was never used. */
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

	/* held by a thread that is not marked dead: a single comparison */
	bool held = (word & (FUTEX_TID_MASK | FUTEX_OWNER_DIED)) - 1 < FUTEX_TID_MASK;

	return held & (atomic_load_explicit(&o->epoch, memory_order_relaxed) == epoch);
}

static inline bool diw_sock_lives(const struct diw_sockreg *reg, uint32_t owner, uint32_t epoch)
{
	return diw_sock_owner_lives(diw_sock_owner_at(reg, owner), epoch);
}

/* Whether E's seq is still SEQ, and its owner lives. */
static inline bool diw_sock_is_current(const struct diw_sockreg *reg, const struct diw_sock_entry *e, uint64_t seq)
{
	return atomic_load_explicit(&e->seq, memory_order_acquire) == seq &&
	       diw_sock_lives(reg, e->owner, e->owner_epoch);
}

/* Makes REG an empty registry; the caller then writes its magic. False: there are no robust mutexes. */
bool diw_sockreg_init(struct diw_sockreg *reg);
bool diw_sockreg_is_complete(const struct diw_sockreg *reg);

/* A consistent copy of an entry that is shown and whose owner lives. */
bool diw_sock_read(const struct diw_sockreg *reg, const struct diw_sock_entry *e, struct diw_sock_entry *copy);

#endif
