/* SPDX-License-Identifier: BSD-2-Clause */
/* What the kernel would answer on other machines: kernel.c replaces llp/udp_sys.c, llp/uring_sys.c and libc's
 * getsockopt, for the whole program. As long as nothing is set here they do what they always do. */
#ifndef DIW_TESTS_KERNEL_H
#define DIW_TESTS_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

extern int (*kernel_refuse)(const struct msghdr *m, int call);  /* errno for this send, 0: let it pass */
extern atomic_int kernel_sends;      /* calls so far */
extern int kernel_mtu;               /* what IP_MTU and IPV6_MTU say; 0: the truth */
extern int kernel_truncate;          /* so many receives say MSG_TRUNC */

uint32_t kernel_gso_of(const struct msghdr *m);          /* UDP_SEGMENT of it, 0 without */
uint32_t kernel_bytes_of(const struct msghdr *m);

/* A network namespace of our own, with only lo, which is up. */
bool kernel_own_network(void);
bool kernel_can_own_network(void);
bool kernel_has_uring(void);                             /* says SKIP if not */

#endif
