/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The streams of a user's interposed programs (docs/streams.md): the position in its frames of each direction of a
 * connection. All processes with the socket map the file, since a socket may be inherited, kept over execve(), or
 * passed.
 */
#ifndef DIW_SOCKETS_STREAMREG_H
#define DIW_SOCKETS_STREAMREG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "sockets_preload/shm/regfile.h"
#include "wire/fpdu.h"
#include "wire/hdr.h"
#include "wire/private.h"

#define DIW_STREAMREG_FILE "streams"             /* followed by its version and the PID namespace */
#define DIW_STREAMREG_MAGIC 0x6d72747370776964u  /* "diwpstrm" */
#define DIW_STREAMREG_VERSION 14u
#define DIW_STREAMREG_FIRST 1024u                /* slots of the first segment */
#define DIW_STREAMREG_SEGMENTS 11u
#define DIW_STREAMREG_SLOTS DIW_SEGMENTS_ALL(DIW_STREAMREG_FIRST, DIW_STREAMREG_SEGMENTS)
#define DIW_STREAMREG_WINDOW 32u                 /* slots of a segment that may be a cookie's */
#define DIW_STREAMREG_INITIATOR 24u              /* those of them that may be an initiator's */
#define DIW_STREAMREG_PARTS 512u
#define DIW_STREAM_MOST_CRC 4096u                /* payload of an FPDU with the CRC on */

/* The MPA length, and the header of an untagged segment. */
#define DIW_STREAM_HEAD (DIW_MPA_LEN + DIW_DDP_PLAIN_UNTAGGED_LEN)
#define DIW_STREAM_STALE 15u                     /* the most bytes before a head that were urgent */

/* START: no byte was sent or received. BROKEN: it can only be reset. */
enum { DIW_STREAM_START, DIW_STREAM_PLAIN, DIW_STREAM_FRAMED, DIW_STREAM_BROKEN };

/* The lock of a direction: its holder's thread in the upper bits, and the position of a mark in the holder's stack. 0:
 * free. */
#define DIW_STREAM_LOCK_ALIGN 64u
#define DIW_STREAM_LOCK_BITS 42u                 /* the kernel's PID_MAX_LIMIT has 22 */
static inline uint64_t diw_stream_lock_word(uint32_t thread, uintptr_t mark)
{
	return (uint64_t)thread << DIW_STREAM_LOCK_BITS | (mark >> 48 ? 0 : mark / DIW_STREAM_LOCK_ALIGN);
}
static inline uint32_t diw_stream_lock_thread(uint64_t word) { return (uint32_t)(word >> DIW_STREAM_LOCK_BITS); }
static inline uintptr_t diw_stream_lock_mark(uint64_t word)
{
	return (word & ((1ull << DIW_STREAM_LOCK_BITS) - 1)) * DIW_STREAM_LOCK_ALIGN;
}

/* The sending direction. If the kernel took a part of an FPDU, the next send continues it with its own payload. */
struct diw_stream_tx {
	_Atomic uint64_t lock;
	_Atomic uint8_t state;
	bool crc;
	uint8_t head_len, head_at;       /* of an unfinished FPDU: its last bytes, or its head, of which so much has
					  * left */
	uint16_t ulpdu;
	uint32_t owed;                   /* payload of it that is still to be sent */
	uint32_t sum;                    /* the CRC of its bytes so far */
	uint32_t msn;
	int64_t budget;                  /* bytes that the kernel certainly takes */
	uint8_t head[DIW_STREAM_HELLO + DIW_STREAM_HEAD];
};

/* The known part of the queue ahead of the program's position: how many bytes it has, and how many of these are
 * payload. Its last byte is payload, and may still be to come. */
struct diw_stream_ahead {
	uint32_t bytes, payload;
	uint32_t seen;                   /* up to this many bytes in the queue, there is no other payload */
	bool moved;                      /* bytes were taken since the last FIONREAD */
	bool told;                       /* FIONREAD has reported payload, and the bytes behind its end were not checked
					  * yet */
};

struct diw_stream_rx {
	_Atomic uint64_t lock;
	_Atomic uint8_t state;
	bool crc;
	bool verified;                   /* the CRC of the FPDU that is being delivered was good */
	bool urgent;                     /* SO_OOBINLINE */
	bool little;                     /* the last FPDU had little payload */
	uint8_t got;                     /* bytes of the head that have come */
	uint8_t tail;                    /* bytes of pad and CRC still to come */
	uint16_t part;                   /* index + 1 of the place that holds the first bytes of an incomplete FPDU */
	uint16_t held, given;            /* the bytes there; of these, bytes delivered since it is complete */
	uint32_t low;                    /* SO_RCVLOWAT as set by us */
	_Atomic uint32_t want;           /* SO_RCVLOWAT of the program; 0: not known yet */
	uint32_t left;                   /* payload to come, or to be delivered */
	uint32_t msn;
	int error;                       /* for the next call */
	_Atomic uint8_t idle;            /* counts receives that had to wait */
	uint8_t head[DIW_STREAM_HEAD];
	uint8_t n_stale, stale[DIW_STREAM_STALE];        /* urgent bytes that became ordinary ones: delivered first */
	struct diw_stream_ahead ahead;
};

/* How an initiator knows that its listener is capable. HERE: a registry or window of its network namespace has it, and
 * the kernel will say which socket was accepted. NETNS: the configuration vouches for an address of another network
 * namespace, whose listener this user's registry has. HOST: the configuration vouches for another host. */
enum { DIW_STREAM_HERE, DIW_STREAM_NETNS, DIW_STREAM_HOST };

struct diw_sock_stream {
	_Alignas(64) _Atomic uint64_t cookie;    /* SO_COOKIE; 0: free */
	uint64_t netns;
	uint64_t key, peer_key;          /* the key with which received data begins; the key that is sent; 0: not known
					  * yet */
	_Atomic uint64_t peer;           /* acceptor: the initiator's cookie, written by the initiator; 0: not known */
	uint64_t connected;              /* initiator: ticks at which it was connected and not bound to a device; 0: not
					  * known */
	uint64_t seq;                    /* of the listener's entry before this socket connected */
	uint32_t entry;                  /* number of that entry in this user's registry */
	uint8_t known_by;
	bool to_self;                    /* the listener belongs to the process that connects */
	bool initiator;
	bool crc;                        /* as the initiator has chosen */
	_Atomic uint32_t user;           /* the process that used it last; 0: it has closed the socket */
	_Atomic bool outside;            /* a program that is not interposed has the socket, too */
	struct diw_stream_tx tx;
	struct diw_stream_rx rx;
	struct diw_addr local, remote;   /* port 0: not known yet */
	char program[16];
};

/* The first bytes of an FPDU that is not complete. */
struct diw_stream_part {
	_Alignas(4096) _Atomic uint64_t cookie;
	uint8_t data[DIW_STREAM_MOST_CRC + DIW_MPA_MAX_TAIL];
};

#define DIW_STREAMREG_GROUP 64u                  /* slots that get memory together: whole pages */

struct diw_streamreg {
	_Atomic uint64_t magic;          /* written last */
	uint32_t version, slots;
	uint64_t size, boot;             /* boot: the boot to which the cookies belong */
	/* A bit for each group of slots, and each part, that has memory. The others were never used, and must not be
	 * touched. */
	_Atomic uint64_t backed[DIW_STREAMREG_SLOTS / DIW_STREAMREG_GROUP / 64 + 1];
	_Atomic uint64_t backed_part[DIW_STREAMREG_PARTS / 64];
	struct diw_stream_part part[DIW_STREAMREG_PARTS];
	struct diw_sock_stream slot[DIW_STREAMREG_FIRST];
};
_Static_assert(offsetof(struct diw_streamreg, slot) % 4096 == 0 &&
	       sizeof(struct diw_sock_stream) * DIW_STREAMREG_GROUP % 4096 == 0, "groups are whole pages");

/* Maps the file; with CREATE, makes it, as diw_regfile_open() does. */
struct diw_streamreg *diw_streamreg_open(bool create, char *path, size_t size, const char **why);

/* Slot N of the registry opened last. NULL: its segment cannot be mapped. */
struct diw_sock_stream *diw_streamreg_slot(uint32_t n);
/* The kernel counts cookies up, so short-lived sockets reuse the same few slots, which stay in the processor's
 * cache. */
#define DIW_STREAMREG_STRIDE 8u
/* Number of the Ith slot that may be COOKIE's in segment K. Slots are in segment K if the smaller segments had no
 * room. */
static inline uint32_t diw_streamreg_at(uint64_t cookie, unsigned k, uint32_t i)
{
	uint32_t first = k ? (uint32_t)(cookie * 0x9e3779b97f4a7c15u >> (54 - k)) :
			     (uint32_t)cookie * DIW_STREAMREG_STRIDE;

	return DIW_STREAMREG_FIRST * ((1u << k) - 1) + (first + i) % (DIW_STREAMREG_FIRST << k);
}
_Static_assert(DIW_STREAMREG_FIRST == 1u << 10, "the hash has as many bits");

static inline bool diw_streamreg_is_backed(const struct diw_streamreg *reg, uint32_t n)
{
	uint32_t group = n / DIW_STREAMREG_GROUP;

	return atomic_load_explicit(&reg->backed[group / 64], memory_order_acquire) >> group % 64 & 1;
}
/* The cookie of slot N, which is *ST; 0: it was never used. */
static inline uint64_t diw_streamreg_used(const struct diw_streamreg *reg, uint32_t n, struct diw_sock_stream **st)
{
	*st = diw_streamreg_is_backed(reg, n) ? diw_streamreg_slot(n) : NULL;
	return *st ? atomic_load_explicit(&(*st)->cookie, memory_order_acquire) : 0;
}
/* The slot of the socket COOKIE, or NULL. */
struct diw_sock_stream *diw_streamreg_find(const struct diw_streamreg *reg, uint64_t cookie);
/* Maps the segments with memory. */
void diw_streamreg_map_used(const struct diw_streamreg *reg);
/* Allocates memory for slot N before it is written. NULL: there is none. */
struct diw_sock_stream *diw_streamreg_back(struct diw_streamreg *reg, uint32_t n);
bool diw_streamreg_back_part(struct diw_streamreg *reg, uint32_t part);

#endif
