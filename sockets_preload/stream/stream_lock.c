/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lock of a stream's direction. It is a word of shared memory: the holder's thread, and the place of a struct
 * diw_stream_holder on that thread's stack (shm/streamreg.h). It is not a robust mutex: the kernel finds these by a
 * list of the thread, which a signal handler could find half changed. A holder does not wait for anything. So a thread
 * that finds the lock taken yields the processor and tries again. diw_stream_lock() returns, by the holder that it
 * finds:
 *
 *   no holder                                                DIW_LOCKED
 *   another thread                                           DIW_LOCKED, when that thread has released the lock
 *   a thread that has ended                                  DIW_LOCK_DEAD: the caller has the lock
 *   the caller's thread, in a frame that siglongjmp() or     DIW_LOCK_DEAD: the caller has the lock
 *   execve() has left
 *   the caller's thread, in a frame that a signal handler    DIW_LOCK_OURS: the caller does not have the lock
 *   has interrupted
 *
 * A confined process (confine.c) may not ask the kernel about threads, so it takes every holder for alive.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "sockets_preload/stream/stream.h"

#define LOCK_SPINS 40
#define LOCK_MARK 0xb5297a4d9c3e61f7u

static __thread uint32_t own_thread;
/* Whether the thread could be cancelled when it took a lock that it has not released. */
static __thread bool was_cancelable;

/* ---- Threads ---- */

void diw_stream_lock_forked(void)
{
	own_thread = 0;
}

static uint32_t this_thread(void)
{
	if (!own_thread)
		own_thread = (uint32_t)gettid();
	return own_thread;
}

bool diw_stream_thread_is_dead(uint32_t thread)
{
	return real.syscall(SYS_tkill, (long)thread, 0L) < 0 && errno == ESRCH;
}

/* Whether a thread's process is a zombie: it holds nothing, but the kernel lists it until its parent, which may be this
 * process, has waited for it. */
static bool thread_is_zombie(uint32_t thread)
{
	char path[32], text[128];
	const char *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%u/stat", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = real.read(fd, text, sizeof text - 1);
	real.close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')');
	return end && (end[2] == 'Z' || end[2] == 'X');
}

/* ---- Holders ---- */

static uint64_t holder_mark(uintptr_t at)
{
	return at ^ LOCK_MARK;
}

/* Whether the address AT is readable. The kernel reads the signal set there before it finds that the operation ~0 does
 * not exist. */
static bool holder_is_readable(uintptr_t at)
{
	return real.syscall(SYS_rt_sigprocmask, ~0L, at, NULL, (long)sizeof(uint64_t)) == 0 || errno == EINVAL;
}

/* Whether the frame of this thread that holds the lock is gone. A frame that is in use is at a higher address than
 * HOLDER, and its mark is intact. The stack of a signal handler (sigaltstack(2)) may be anywhere, so the address counts
 * only outside of it. The mark of a frame that is gone may be intact, too: then the lock counts as held. */
__attribute__((no_sanitize("address", "thread")))
static bool holder_is_left(uint64_t word, const struct diw_stream_holder *holder)
{
	uintptr_t at = diw_stream_lock_mark(word);
	stack_t ss;

	if (!at)
		return false;
	if (at <= (uintptr_t)holder && sigaltstack(NULL, &ss) == 0 && !(ss.ss_flags & SS_ONSTACK))
		return true;
	return !holder_is_readable(at) || *(volatile uint64_t *)at != holder_mark(at);
}

static bool lock_is_abandoned(uint64_t word, const struct diw_stream_holder *holder)
{
	uint32_t thread = diw_stream_lock_thread(word);

	if (diw_is_confined())
		return false;
	return thread == this_thread() ? holder_is_left(word, holder) :
					 diw_stream_thread_is_dead(thread) || thread_is_zombie(thread);
}

/* ---- Locks ---- */

bool diw_stream_is_ours(const _Atomic uint64_t *lock)
{
	uint64_t word = atomic_load_explicit(lock, memory_order_relaxed);

	return word && diw_stream_lock_thread(word) == this_thread();
}

/* WORD: the value of the lock, which another frame has. */
static enum diw_lock lock_await(_Atomic uint64_t *lock, struct diw_stream_holder *holder, uint64_t word)
{
	for (int i = 0; ; i++) {
		bool ours = word && diw_stream_lock_thread(word) == this_thread();

		if (word && (ours || i % LOCK_SPINS == LOCK_SPINS - 1) && lock_is_abandoned(word, holder) &&
		    atomic_compare_exchange_strong(lock, &word, holder->word))
			return DIW_LOCK_DEAD;
		if (ours)
			return DIW_LOCK_OURS;
		if (i < LOCK_SPINS && !diw_is_confined())
			sched_yield();
		else
			nanosleep(&(struct timespec){ .tv_nsec = 50 * (long)DIW_US }, NULL);
		word = 0;
		if (atomic_compare_exchange_strong(lock, &word, holder->word))
			return DIW_LOCKED;
	}
}

enum diw_lock diw_stream_lock(_Atomic uint64_t *lock, struct diw_stream_holder *holder)
{
	uint64_t word = 0;
	enum diw_lock rc;
	int saved;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &holder->cancel);
	if (holder->cancel == PTHREAD_CANCEL_ENABLE)
		was_cancelable = true;
	holder->word = diw_stream_lock_word(this_thread(), (uintptr_t)holder);
	atomic_store_explicit(&holder->mark, holder_mark((uintptr_t)holder), memory_order_relaxed);
	if (DIW_LIKELY(atomic_compare_exchange_strong_explicit(lock, &word, holder->word, memory_order_acq_rel,
							       memory_order_relaxed)))
		return DIW_LOCKED;
	saved = errno;
	rc = lock_await(lock, holder, word);
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
