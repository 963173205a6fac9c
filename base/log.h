/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the libraries say to the person who runs the program: DIWARP_LOG and DIWARP_LOG_FILE (diwarp(7)). A line tells
 * which call refused, which argument, its value, and the limit.
 *
 * Each library has a copy of its own, whose state is a level. A line is made on the stack and leaves by one write that
 * is no cancellation point: no lock, no allocation, no descriptor that stays open, errno as it was. What the reader of
 * a pipe does not take in time is lost.
 */
#ifndef DIW_BASE_LOG_H
#define DIW_BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum diw_log_level {
	DIW_LOG_OFF = -1,
	DIW_LOG_TELL,                /* settings that cannot be obeyed: told unless the log is off */
	DIW_LOG_ERROR,               /* a call was refused, or failed */
	DIW_LOG_WARN,                /* it goes on, with less than was asked for */
	DIW_LOG_INFO,                /* what the network or a peer did that the program may not notice */
	DIW_LOG_DEBUG,               /* drops and faults of the data path */
	DIW_LOG_UNREAD,              /* the environment was not looked at yet */
};

extern atomic_int diw_log_level;             /* what is said; DIW_LOG_UNREAD at first */

/* Before the first line, of a library that needs it otherwise. */
struct diw_log_how {
	const char *name;            /* which its lines begin with */
	int level;                   /* where DIWARP_LOG says nothing */
	long (*call)(long number, ...);      /* syscall(2), if that is not the C library's */
	bool (*muted)(void);         /* the process may make no system call that a line takes; NULL: it may */
};
void diw_log_begin(const struct diw_log_how *how);
/* The environment is read again at the next line. */
void diw_log_reread(void);
/* The level of that name, or -2. */
int diw_log_parse(const char *word);
void diw_log_write(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* diw_log_write at DIW_LOG_ERROR, and returns RC. The name of RC's errno is the end of the line. */
int diw_log_fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

#define diw_log(level, ...) do { \
	if (__builtin_expect((level) <= atomic_load_explicit(&diw_log_level, memory_order_relaxed), 0)) \
		diw_log_write(level, __VA_ARGS__); \
} while (0)

/* return diw_fail(-EINVAL, "diw_cq_create: depth %u: not 1 to %u", depth, MAX): RC, positive or negative, is the
 * value. */
#define diw_fail(rc, ...) (atomic_load_explicit(&diw_log_level, memory_order_relaxed) >= DIW_LOG_ERROR ? \
			   diw_log_fail(rc, __VA_ARGS__) : (rc))

/* For what a peer or the network can cause as often as it likes: ten lines a second from one place. NOW in ns. */
struct diw_log_limit { _Atomic uint64_t second; atomic_uint lines; };
bool diw_log_may(struct diw_log_limit *l, uint64_t now);
#define diw_log_often(level, now, ...) do { \
	static struct diw_log_limit limit_; \
	if (__builtin_expect((level) <= atomic_load_explicit(&diw_log_level, memory_order_relaxed), 0) && \
	    diw_log_may(&limit_, now)) \
		diw_log_write(level, __VA_ARGS__); \
} while (0)

#endif
