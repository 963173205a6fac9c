/* SPDX-License-Identifier: BSD-2-Clause */
/* Between two processes that share memory: UNIX sockets of one user, and the memory that they pass. */
#ifndef DIW_LLP_SHM_UNIX_H
#define DIW_LLP_SHM_UNIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What an event of a UNIX socket is for. It may be gone after the call. */
struct diw_shm_watch {
	void (*event)(struct diw_shm_watch *w, uint64_t now);
};

/* A socket for messages. The descriptor, or -1. */
int diw_shm_socket(void);
/* The other end of the connected socket FD has the user of this process. */
bool diw_shm_same_user(int fd);
bool diw_shm_watch_add(int epfd, int fd, struct diw_shm_watch *w);
/* PASS: a descriptor to pass, or -1. */
bool diw_shm_tell(int fd, const void *msg, size_t len, int pass);
/* The octets of the next message, at most LEN. 0: the other end is gone; -1: there is none yet. *PASSED: a descriptor
 * that came with it, or -1. */
ssize_t diw_shm_hear(int fd, void *msg, size_t len, int *passed);
/* Wakes the other end: a message of one octet. */
void diw_shm_wake(int fd);

/* A memory of SIZE zeros that cannot become smaller, or access to it could end this process. The descriptor, or -1. */
int diw_shm_memory_new(size_t size);
/* FD, of another process, is such a memory. */
bool diw_shm_memory_is_safe(int fd, size_t size);

#endif
