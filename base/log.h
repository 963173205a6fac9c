/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log of the libraries: DIWARP_LOG and DIWARP_LOG_FILE (diwarp(7)). A line names the call that failed, the
 * argument, its value and the limit.
 *
 * Each library has its own copy of the log, whose only state is the level. A line is made on the stack and leaves by
 * one write(2), which is no cancellation point. Logging takes no lock, allocates nothing, leaves no descriptor open and
 * keeps errno. A line is lost if the reader of a pipe is too slow.
 */
#ifndef DIW_BASE_LOG_H
#define DIW_BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum diw_log_level {
	DIW_LOG_OFF = -1,
	DIW_LOG_TELL,                /* settings that cannot be obeyed: logged unless the log is off */
	DIW_LOG_ERROR,               /* a call was refused, or failed */
	DIW_LOG_WARN,                /* a call succeeded with less than was asked for */
	DIW_LOG_INFO,                /* an event of the network or of a peer that the program may not notice */
	DIW_LOG_DEBUG,               /* drops and faults of the data path */
	DIW_LOG_UNREAD,              /* the environment has not been read yet */
};

extern atomic_int diw_log_level;             /* lines up to this level are logged; DIW_LOG_UNREAD at first */

/* Settings of a library that differ from the defaults; made before the first line. */
struct diw_log_how {
	const char *name;            /* the beginning of each line */
	int level;                   /* the level without DIWARP_LOG */
	long (*call)(long number, ...);      /* syscall(2), or a function of the library in its place */
	bool (*muted)(void);         /* true while the process must not make the system calls of a line; NULL: never */
};
void diw_log_begin(const struct diw_log_how *how);
/* The next line reads the environment again. */
void diw_log_reread(void);
/* The level of that name, or -2 for an unknown name. */
int diw_log_parse(const char *word);
void diw_log_write(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));
/* Logs a line at DIW_LOG_ERROR that ends in the name of RC's errno, and returns RC. */
int diw_log_fail(int rc, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

#define diw_log(level, ...) do { \
	if (__builtin_expect((level) <= atomic_load_explicit(&diw_log_level, memory_order_relaxed), 0)) \
		diw_log_write(level, __VA_ARGS__); \
} while (0)

/* return diw_fail(-EINVAL, "diw_cq_create: depth %u: not 1 to %u", depth, MAX): logs the line and has the value RC,
 * which may be positive or negative. */
#define diw_fail(rc, ...) (atomic_load_explicit(&diw_log_level, memory_order_relaxed) >= DIW_LOG_ERROR ? \
			   diw_log_fail(rc, __VA_ARGS__) : (rc))

/* Limits messages that a peer or the network can cause at any rate: ten lines a second from one place. NOW in ns. */
struct diw_log_limit { _Atomic uint64_t second; atomic_uint lines; };
bool diw_log_may(struct diw_log_limit *l, uint64_t now);
#define diw_log_often(level, now, ...) do { \
	static struct diw_log_limit limit_; \
	if (__builtin_expect((level) <= atomic_load_explicit(&diw_log_level, memory_order_relaxed), 0) && \
	    diw_log_may(&limit_, now)) \
		diw_log_write(level, __VA_ARGS__); \
} while (0)

#endif
