/* SPDX-License-Identifier: BSD-2-Clause */
/* Time in nanoseconds: units, "never", and the calls that read clocks. */
#ifndef DIW_BASE_CLOCK_H
#define DIW_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define DIW_NEVER UINT64_MAX         /* a deadline that never passes */
#define DIW_US 1000ull
#define DIW_MS 1000000ull
#define DIW_S 1000000000ull

/* Only public calls, the progress thread and tools call this function; the other code has the parameter `now`. */
static inline uint64_t diw_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds since 1970, for values that another process reads. */
static inline uint64_t diw_clock_realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
}

/* The time that the host has been suspended, in which CLOCK_MONOTONIC stands still. */
static inline uint64_t diw_clock_suspended_ns(void)
{
	struct timespec ts;
	uint64_t awake = diw_clock_ns(), all;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	all = (uint64_t)ts.tv_sec * DIW_S + (uint64_t)ts.tv_nsec;
	return all > awake ? all - awake : 0;
}

static inline uint64_t diw_min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t diw_max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

#endif
