/* SPDX-License-Identifier: BSD-2-Clause */
/* Preloaded: simulates a disk that is slow to take pages.
 *   SLOW_DISK=US   microseconds for each MiB of a file that madvise(MADV_POPULATE_WRITE) enters into the page table
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int madvise(void *addr, size_t len, int advice)
{
	const char *us = getenv("SLOW_DISK");

	if (us && advice == MADV_POPULATE_WRITE)
		usleep((useconds_t)(strtoul(us, NULL, 10) * (uint64_t)len >> 20));
	return (int)syscall(SYS_madvise, addr, len, advice);
}
