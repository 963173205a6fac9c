/* SPDX-License-Identifier: BSD-2-Clause */
/* The answers of other kernels: kernel.c replaces llp/udp_sys.c, llp/uring_sys.c and libc's getsockopt for the whole
 * program. If nothing is set here, they work as usual. */
#ifndef DIW_TESTS_KERNEL_H
#define DIW_TESTS_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

extern int (*kernel_refuse)(const struct msghdr *m, int call);  /* errno for this send, 0: let it pass */
extern atomic_int kernel_sends, kernel_receives;     /* calls so far */
extern int kernel_mtu;               /* the value of IP_MTU and IPV6_MTU; 0: the kernel's */
extern int kernel_truncate;          /* number of receives that report MSG_TRUNC */
extern void (*kernel_read)(void);   /* called when a receive has had a datagram */
extern void (*kernel_peek)(int fd); /* called once, when a receive has peeked and has found none */
extern void (*kernel_looked)(int fd);        /* called when a look has had a datagram, which is still there */

uint32_t kernel_gso_of(const struct msghdr *m);          /* UDP_SEGMENT of the message, or 0 */
uint32_t kernel_bytes_of(const struct msghdr *m);

/* A separate network namespace, with only lo, which is up. */
bool kernel_own_network(void);
bool kernel_can_own_network(void);
bool kernel_has_uring(void);                             /* prints SKIP if not */

#endif
