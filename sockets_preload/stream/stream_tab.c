/* SPDX-License-Identifier: BSD-2-Clause */
/* The slots of streams (sockets_preload/shm/streamreg.h), as a process uses them. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"

#define FREED 1u                         /* values of a cookie that no socket has */
#define WRITING UINT64_MAX
#define SPINS 40
#define MARK 0xb5297a4d9c3e61f7u
#define ASKS 16u                         /* questions to the kernel for one slot */

static struct diw_streamreg *reg;
static struct diw_once once = DIW_ONCE;
static __thread uint32_t me;
/* Whether the thread could be cancelled when it took a lock that it has not released. */
static __thread bool was_cancelable;
static _Atomic uint32_t process;

/* Slots of sockets that this process has closed, for which it has not asked the kernel yet whether the sockets are
 * gone. A thread that needs one of these slots earlier asks for that slot itself. */
static struct {
	_Atomic bool busy;
	unsigned n;
	uint64_t netns;
	struct { struct diw_sock_stream *st; uint64_t cookie; } of[DIW_ASK_MOST];
	struct diw_ends ends[DIW_ASK_MOST];
} closed;

/* ---- Opening ---- */

static bool opens(void)
{
	static char path[PATH_MAX];          /* threads may have little stack; this function is called once */
	const char *why;

	if (diw_denied & DIW_DENIED_OPENING)
		return false;
	reg = diw_streamreg_open(true, path, sizeof path, &why);
	if (!reg)
		diw_log(DIW_LOG_WARN, "%s: %s; streams are plain", path, why ? why : "not there");
	return reg;
}

bool diw_stream_open(void)
{
	if (!diw_reg_open() || !diw_once(&once, opens))
		return false;
	diw_sock_stat_open();
	return true;
}

void diw_stream_forked(void)
{
	me = 0;
	atomic_store(&process, 0);
	closed.n = 0;
	atomic_store(&closed.busy, false);
	diw_once_forked(&once);
}

void diw_stream_fix(void)
{
	if (reg)
		diw_streamreg_map_used(reg);
	diw_segments_fix();
}

static uint32_t this_process(void)
{
	uint32_t pid = atomic_load_explicit(&process, memory_order_relaxed);

	if (!pid) {
		pid = (uint32_t)getpid();
		atomic_store_explicit(&process, pid, memory_order_relaxed);
	}
	return pid;
}

/* ---- Locks ---- */

static uint32_t this_thread(void)
{
	if (!me)
		me = (uint32_t)gettid();
	return me;
}

bool diw_stream_is_ours(const _Atomic uint64_t *lock)
{
	uint64_t word = atomic_load_explicit(lock, memory_order_relaxed);

	return word && diw_stream_lock_thread(word) == this_thread();
}

static bool is_dead(uint32_t id)
{
	return real.syscall(SYS_tkill, (long)id, 0L) < 0 && errno == ESRCH;
}

/* Whether a dead thread's process is a zombie: it holds nothing, but the kernel lists it until its parent, which may be
 * this process, has waited for it. */
static bool is_zombie(uint32_t id)
{
	char path[32], text[128];
	const char *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%u/stat", id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = real.read(fd, text, sizeof text - 1);
	real.close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	return end && (end[2] == 'Z' || end[2] == 'X');
}

static uint64_t mark_at(uintptr_t at)
{
	return at ^ MARK;
}

/* Whether the address is readable: the kernel reads it before it notices that nothing is asked for. */
static bool is_readable(uintptr_t at)
{
	return real.syscall(SYS_rt_sigprocmask, ~0L, at, NULL, (long)sizeof(uint64_t)) == 0 || errno == EINVAL;
}

/* Whether the frame that holds the lock of this thread is gone, because siglongjmp() or execve() has left it. A frame
 * that is still in use is further up the stack than HOLDER, at a higher address, and its mark is intact. The mark of a
 * frame that is gone may be intact, too: then the lock counts as held. */
__attribute__((no_sanitize("address", "thread")))
static bool is_left(uint64_t word, const struct diw_stream_holder *holder)
{
	uintptr_t at = diw_stream_lock_mark(word);
	stack_t ss;

	if (!at)
		return false;
	if (at <= (uintptr_t)holder && sigaltstack(NULL, &ss) == 0 && !(ss.ss_flags & SS_ONSTACK))
		return true;
	return !is_readable(at) || *(volatile uint64_t *)at != mark_at(at);
}

static bool is_abandoned(uint64_t word, const struct diw_stream_holder *holder)
{
	uint32_t thread = diw_stream_lock_thread(word);

	if (diw_is_confined())
		return false;
	return thread == this_thread() ? is_left(word, holder) : is_dead(thread) || is_zombie(thread);
}

/* The lock is held by another frame. */
static enum diw_lock lock_slowly(_Atomic uint64_t *lock, struct diw_stream_holder *holder, uint64_t word)
{
	for (int i = 0; ; i++) {
		bool ours = word && diw_stream_lock_thread(word) == this_thread();

		if (word && (ours || i % SPINS == SPINS - 1) && is_abandoned(word, holder) &&
		    atomic_compare_exchange_strong(lock, &word, holder->word))
			return DIW_LOCK_DEAD;
		if (ours)
			return DIW_LOCK_OURS;
		if (i < SPINS && !diw_is_confined())
			sched_yield();
		else
			nanosleep(&(struct timespec){ .tv_nsec = 50 * (long)DIW_US }, NULL);
		word = 0;
		if (atomic_compare_exchange_strong(lock, &word, holder->word))
			return DIW_LOCKED;
	}
}

/* The holder never waits, so the lock needs no sleep. It needs no list of robust mutexes either, which a signal handler
 * could find half changed: a holder is dead if its thread does not exist. */
enum diw_lock diw_stream_lock(_Atomic uint64_t *lock, struct diw_stream_holder *holder)
{
	uint64_t word = 0;
	enum diw_lock rc;
	int saved;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &holder->cancel);
	if (holder->cancel == PTHREAD_CANCEL_ENABLE)
		was_cancelable = true;
	holder->word = diw_stream_lock_word(this_thread(), (uintptr_t)holder);
	atomic_store_explicit(&holder->mark, mark_at((uintptr_t)holder), memory_order_relaxed);
	if (DIW_LIKELY(atomic_compare_exchange_strong_explicit(lock, &word, holder->word, memory_order_acq_rel,
							       memory_order_relaxed)))
		return DIW_LOCKED;
	saved = errno;
	rc = lock_slowly(lock, holder, word);
	if (rc == DIW_LOCK_DEAD && was_cancelable)
		holder->cancel = PTHREAD_CANCEL_ENABLE;
	if (rc == DIW_LOCK_OURS)
		diw_stream_unlock(lock, holder);
	errno = saved;
	return rc;
}

void diw_stream_unlock(_Atomic uint64_t *lock, struct diw_stream_holder *holder)
{
	uint64_t word = holder->word;

	atomic_compare_exchange_strong_explicit(lock, &word, 0, memory_order_release, memory_order_relaxed);
	atomic_store_explicit(&holder->mark, 0, memory_order_relaxed);
	if (holder->cancel == PTHREAD_CANCEL_ENABLE)
		was_cancelable = false;
	pthread_setcancelstate(holder->cancel, NULL);
}

/* ---- Slots ---- */

struct diw_sock_stream *diw_stream_seek(uint64_t cookie)
{
	return diw_streamreg_find(reg, cookie);
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

/* Whether no process has the socket any more. The kernel cannot be asked about sockets of another network namespace. */
static bool is_gone(const struct diw_sock_stream *st, uint64_t netns, uint64_t cookie)
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

static void free_closed(void)
{
	struct diw_told told[DIW_ASK_MOST];
	unsigned n = closed.n;

	closed.n = 0;
	if (!diw_ask_peers(closed.netns, closed.ends, n, told))
		return;
	for (unsigned i = 0; i < n; i++) {
		uint64_t cookie = closed.of[i].cookie;

		if (told[i].cookie != cookie || told[i].inode == 0)
			atomic_compare_exchange_strong(&closed.of[i].st->cookie, &cookie, FREED);
	}
}

/* A question takes longer than the rest of close(2), so several are asked together. */
void diw_stream_closed(struct diw_sock_stream *st, uint64_t cookie, bool gone)
{
	if (gone)
		atomic_compare_exchange_strong(&st->cookie, &cookie, FREED);
	if (gone || !diw_stream_is(st, cookie) || !st->local.port || !st->remote.port || !diw_may_ask() ||
	    atomic_exchange(&closed.busy, true))
		return;
	if (closed.n && closed.netns != st->netns)
		free_closed();
	closed.netns = st->netns;
	closed.of[closed.n].st = st;
	closed.of[closed.n].cookie = cookie;
	closed.ends[closed.n++] = (struct diw_ends){ .local = st->remote, .peer = st->local };
	if (closed.n == DIW_ASK_MOST)
		free_closed();
	atomic_store(&closed.busy, false);
}

/* ---- Allocation of slots ---- */

/* Whether the slot's last user has closed it, or was killed. Another process may still have the socket. *ASKS: how many
 * questions to the kernel are left. */
static bool is_left_over(const struct diw_sock_stream *st, uint64_t netns, uint64_t cookie, unsigned *asks)
{
	uint32_t user = atomic_load_explicit(&st->user, memory_order_relaxed);

	if (!*asks || cookie == WRITING || st->netns != netns || (user && !is_dead(user)))
		return false;
	(*asks)--;
	return is_gone(st, netns, cookie);
}

/* An initiator without a slot is plain from the beginning, so an acceptor has more slots to choose from. The search
 * ends at a slot that was never used, as does a search for the cookie. */
static struct diw_sock_stream *stream_slot_take(const struct diw_sock *s, bool initiator)
{
	const uint32_t each = initiator ? DIW_STREAMREG_INITIATOR : DIW_STREAMREG_WINDOW;
	unsigned asks = ASKS;

	for (uint32_t i = 0; i < each * DIW_STREAMREG_SEGMENTS; i++) {
		uint32_t n = diw_streamreg_at(s->cookie, i / each, i % each);
		struct diw_sock_stream *st;
		uint64_t is = diw_streamreg_used(reg, n, &st);

		if (!is && !(st = diw_streamreg_back(reg, n)))
			return NULL;
		if ((is <= FREED || is_left_over(st, s->netns, is, &asks)) &&
		    atomic_compare_exchange_strong(&st->cookie, &is, WRITING)) {
			slot_fill(st, s, initiator);
			return st;
		}
	}
	return NULL;
}

void diw_stream_free(struct diw_sock_stream *st)
{
	atomic_store_explicit(&st->cookie, FREED, memory_order_release);
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
		atomic_compare_exchange_strong(&st->cookie, &cookie, FREED);
}

/* ---- Parts of FPDUs ---- */

/* A part whose slot belongs to a socket that has ended may be taken. */
uint16_t diw_stream_hold(uint64_t cookie)
{
	for (uint32_t i = 0; i < DIW_STREAMREG_PARTS; i++) {
		uint32_t n = (uint32_t)(cookie + i) % DIW_STREAMREG_PARTS;
		uint64_t is;

		if (!diw_streamreg_back_part(reg, n))
			return 0;
		is = atomic_load_explicit(&reg->part[n].cookie, memory_order_relaxed);

		if ((!is || !diw_stream_seek(is)) && atomic_compare_exchange_strong(&reg->part[n].cookie, &is, cookie))
			return (uint16_t)(n + 1);
	}
	return 0;
}

uint8_t *diw_stream_part(uint16_t part)
{
	return reg->part[(part - 1u) % DIW_STREAMREG_PARTS].data;
}

void diw_stream_let_go(uint16_t part)
{
	atomic_store(&reg->part[(part - 1u) % DIW_STREAMREG_PARTS].cookie, 0);
}
