/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a pcapng file (draft-ietf-opsawg-pcapng) of IP packets: one section, one interface, nanoseconds, a comment a
 * packet. A file that cannot be written any more ends with its last whole packet; no thread waits for a disk but in
 * write(2).
 */
#ifndef DIW_LLP_PCAPNG_H
#define DIW_LLP_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"

struct diw_pcapng;

enum { DIW_PCAPNG_FIN = 1, DIW_PCAPNG_SYN = 2, DIW_PCAPNG_RST = 4, DIW_PCAPNG_PSH = 8, DIW_PCAPNG_ACK = 16 };
#define DIW_PCAPNG_MAX_TCP 65495u    /* payload of a TCP segment that IPv4's length field has room for */

struct diw_pcapng_tcp { uint32_t seq, ack; uint8_t flags; };

struct diw_pcapng_packet {           /* a UDP datagram, or a TCP segment; its IP and UDP or TCP headers are made up */
	const struct diw_addr *src, *dst;
	bool outbound;
	uint64_t ns;                 /* since 1970 */
	const struct iovec *iov;     /* payload: LEN bytes from byte OFF of the first entry on */
	size_t off;
	uint32_t len;
	const char *comment;         /* or NULL */
	const struct diw_pcapng_tcp *tcp;    /* NULL: a UDP datagram */
};

/* Make PATH, an ordinary file or a character device, empty and lock it. -errno; -EBUSY: another writer has it; -ELOOP:
 * a symbolic link; -EPERM: another user's, or one with a second name; -EEXIST: it holds something that is no
 * capture. */
int diw_pcapng_open(const char *path, struct diw_pcapng **p);
/* Thread-safe. They return 0, or once -errno: the disk is full, say, and nothing is written from then on. */
int diw_pcapng_write(struct diw_pcapng *p, const struct diw_pcapng_packet *k);
int diw_pcapng_flush(struct diw_pcapng *p);
void diw_pcapng_close(struct diw_pcapng *p);
/* In a child: let go of the parent's file, which would stay locked as long as the child lives. P is as good as
 * closed. */
void diw_pcapng_forked(struct diw_pcapng *p);

#endif
