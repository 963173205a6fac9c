/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slots of streams (shm/streamreg.h), as a process uses them. The cookie of a slot is its state:
 *
 *   0               the slot was never used. A search for a cookie ends here
 *   a cookie        a socket has the slot. It ends when the last descriptor is closed, or both directions are plain
 *   SLOT_WRITING    a process fills the slot
 *   SLOT_FREED      the slot is free, and searches go on behind it
 *
 * A slot whose processes have ended without closing their descriptors keeps its cookie. The next stream that looks for
 * a slot finds it so, asks the kernel about the socket, and takes the slot.
 */
#include <limits.h>
#include <string.h>

#include "sockets_preload/stream/stream.h"

#define SLOT_FREED 1u                    /* no socket has these cookies */
#define SLOT_WRITING UINT64_MAX
#define SLOT_ASKS 16u                    /* questions to the kernel in one search for a slot */

static struct diw_streamreg *stream_reg;
static struct diw_once stream_once = DIW_ONCE;
static _Atomic uint32_t own_process;

/* Slots of descriptors that this process has closed. It has not asked the kernel yet whether other descriptors have
 * these sockets. A thread that looks for a slot meanwhile asks about each slot that it finds. */
static struct {
	_Atomic bool busy;                   /* a thread changes the list */
	unsigned n;
	uint64_t netns;
	struct { struct diw_sock_stream *st; uint64_t cookie; } of[DIW_ASK_MOST];
	struct diw_ends ends[DIW_ASK_MOST];
} closed_slots;

/* ---- Opening ---- */

static bool stream_reg_opens(void)
{
	static char path[PATH_MAX];          /* threads may have little stack; this function is called once */
	const char *why;

	if (diw_denied & DIW_DENIED_OPENING)
		return false;
	stream_reg = diw_streamreg_open(true, path, sizeof path, &why);
	if (!stream_reg)
		diw_log(DIW_LOG_WARN, "%s: %s; streams are plain", path, why ? why : "not there");
	return stream_reg;
}

bool diw_stream_open(void)
{
	if (!diw_reg_open() || !diw_once(&stream_once, stream_reg_opens))
		return false;
	diw_sock_stat_open();
	return true;
}

void diw_stream_forked(void)
{
	diw_stream_lock_forked();
	atomic_store(&own_process, 0);
	closed_slots.n = 0;
	atomic_store(&closed_slots.busy, false);
	diw_once_forked(&stream_once);
}

void diw_stream_fix(void)
{
	if (stream_reg)
		diw_streamreg_map_used(stream_reg);
	diw_segments_fix();
}

static uint32_t this_process(void)
{
	uint32_t pid = atomic_load_explicit(&own_process, memory_order_relaxed);

	if (!pid) {
		pid = (uint32_t)getpid();
		atomic_store_explicit(&own_process, pid, memory_order_relaxed);
	}
	return pid;
}

/* ---- Slots ---- */

struct diw_sock_stream *diw_stream_seek(uint64_t cookie)
{
	return diw_streamreg_find(stream_reg, cookie);
}

struct diw_sock_stream *diw_stream_find(uint64_t cookie)
{
	struct diw_sock_stream *st = diw_stream_seek(cookie);

	if (st)
		atomic_store_explicit(&st->user, this_process(), memory_order_relaxed);
	return st;
}

static void slot_fill(struct diw_sock_stream *st, const struct diw_sock *s, bool initiator)
{
	memset((char *)st + sizeof st->cookie, 0, sizeof *st - sizeof st->cookie);
	st->netns = s->netns;
	st->key = s->keys.stream_key;
	st->initiator = initiator;
	st->tx.msn = st->rx.msn = 1;
	st->local = s->local;
	st->remote = s->peer;
	diw_program_put(st->program);
	atomic_store_explicit(&st->user, this_process(), memory_order_relaxed);
	atomic_store_explicit(&st->cookie, s->cookie, memory_order_release);
}

/* Whether the kernel says that no descriptor has the socket COOKIE. It says nothing about sockets of another network
 * namespace. */
static bool slot_socket_is_gone(const struct diw_sock_stream *st, uint64_t netns, uint64_t cookie)
{
	struct diw_told told;

	if (st->netns != netns || !diw_may_ask())
		return false;
	if (!st->local.port || !st->remote.port)
		return true;
	return diw_ask_peer(netns, &st->remote, &st->local, &told) &&
	       (told.cookie != cookie || told.inode == 0);
}

/* ---- Slots whose descriptors were closed ---- */

static void closed_slots_free(void)
{
	struct diw_told told[DIW_ASK_MOST];
	unsigned n = closed_slots.n;

	closed_slots.n = 0;
	if (!diw_ask_peers(closed_slots.netns, closed_slots.ends, n, told))
		return;
	for (unsigned i = 0; i < n; i++) {
		uint64_t cookie = closed_slots.of[i].cookie;

		if (told[i].cookie != cookie || told[i].inode == 0)
			atomic_compare_exchange_strong(&closed_slots.of[i].st->cookie, &cookie, SLOT_FREED);
	}
}

/* A question to the kernel takes longer than the rest of close(2), so DIW_ASK_MOST slots are asked about together. */
void diw_stream_closed(struct diw_sock_stream *st, uint64_t cookie, bool gone)
{
	if (gone)
		atomic_compare_exchange_strong(&st->cookie, &cookie, SLOT_FREED);
	if (gone || !diw_stream_is(st, cookie) || !st->local.port || !st->remote.port || !diw_may_ask() ||
	    atomic_exchange(&closed_slots.busy, true))
		return;
	if (closed_slots.n && closed_slots.netns != st->netns)
		closed_slots_free();
	closed_slots.netns = st->netns;
	closed_slots.of[closed_slots.n].st = st;
	closed_slots.of[closed_slots.n].cookie = cookie;
	closed_slots.ends[closed_slots.n++] = (struct diw_ends){ .local = st->remote, .peer = st->local };
	if (closed_slots.n == DIW_ASK_MOST)
		closed_slots_free();
	atomic_store(&closed_slots.busy, false);
}

/* ---- Allocation of slots ---- */

/* Whether the slot of the socket COOKIE may be taken: the process that used it last has closed it or has ended, and the
 * kernel knows no descriptor of the socket. *ASKS: how many questions to the kernel are left. */
static bool slot_is_left_over(const struct diw_sock_stream *st, uint64_t netns, uint64_t cookie, unsigned *asks)
{
	uint32_t user = atomic_load_explicit(&st->user, memory_order_relaxed);

	if (!*asks || cookie == SLOT_WRITING || st->netns != netns || (user && !diw_stream_thread_is_dead(user)))
		return false;
	(*asks)--;
	return slot_socket_is_gone(st, netns, cookie);
}

/* An initiator without a slot is plain from the beginning. So it chooses from fewer slots, and the others are left to
 * acceptors. The search ends at a slot that was never used, as does a search for a cookie. */
static struct diw_sock_stream *stream_slot_take(const struct diw_sock *s, bool initiator)
{
	const uint32_t each = initiator ? DIW_STREAMREG_INITIATOR : DIW_STREAMREG_WINDOW;
	unsigned asks = SLOT_ASKS;

	for (uint32_t i = 0; i < each * DIW_STREAMREG_SEGMENTS; i++) {
		uint32_t n = diw_streamreg_at(s->cookie, i / each, i % each);
		struct diw_sock_stream *st;
		uint64_t is = diw_streamreg_used(stream_reg, n, &st);

		if (!is && !(st = diw_streamreg_back(stream_reg, n)))
			return NULL;
		if ((is <= SLOT_FREED || slot_is_left_over(st, s->netns, is, &asks)) &&
		    atomic_compare_exchange_strong(&st->cookie, &is, SLOT_WRITING)) {
			slot_fill(st, s, initiator);
			return st;
		}
	}
	return NULL;
}

void diw_stream_free(struct diw_sock_stream *st)
{
	atomic_store_explicit(&st->cookie, SLOT_FREED, memory_order_release);
}

struct diw_sock_stream *diw_stream_make(const struct diw_sock *s, bool initiator)
{
	int saved = errno;
	struct diw_sock_stream *st = stream_slot_take(s, initiator);

	if (!st)
		diw_count(DIW_C_sock_stream_full);
	errno = saved;
	return st;
}

void diw_stream_settle(struct diw_sock_stream *st)
{
	uint64_t cookie = atomic_load_explicit(&st->cookie, memory_order_acquire);

	if (atomic_load(&st->tx.state) == DIW_STREAM_PLAIN && atomic_load(&st->rx.state) == DIW_STREAM_PLAIN)
		atomic_compare_exchange_strong(&st->cookie, &cookie, SLOT_FREED);
}

/* ---- Parts of FPDUs ---- */

/* A part may be taken if the socket of its cookie has no slot any more. */
uint16_t diw_stream_hold(uint64_t cookie)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_PARTS; i++) {
		uint32_t n = (uint32_t)(cookie + i) % DIW_STREAMREG_PARTS;
		_Atomic uint64_t *owner = &stream_reg->part[n].cookie;
		uint64_t is;

		if (!diw_streamreg_back_part(stream_reg, n))
			return 0;
		is = atomic_load_explicit(owner, memory_order_relaxed);
		if ((!is || !diw_stream_seek(is)) && atomic_compare_exchange_strong(owner, &is, cookie))
			return (uint16_t)(n + 1);
	}
	return 0;
}

uint8_t *diw_stream_part(uint16_t part)
{
	return stream_reg->part[(part - 1u) % DIW_STREAMREG_PARTS].data;
}

void diw_stream_let_go(uint16_t part)
{
	atomic_store(&stream_reg->part[(part - 1u) % DIW_STREAMREG_PARTS].cookie, 0);
}
