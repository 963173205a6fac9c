/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes a pcapng file (draft-ietf-opsawg-pcapng) of IP packets: one section, one interface, nanoseconds, one comment a
 * packet. When the file cannot be written any more, it ends with its last whole packet. Packets are written from a
 * buffer by write(2); no call waits until the disk has them.
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
#define DIW_PCAPNG_MAX_TCP 65495u    /* the payload that IPv4's length field allows in a TCP segment */

struct diw_pcapng_tcp { uint32_t seq, ack; uint8_t flags; };

struct diw_pcapng_packet {           /* a UDP datagram or TCP segment, whose headers are made up */
	const struct diw_addr *src, *dst;
	bool outbound;
	uint64_t ns;                 /* since 1970 */
	const struct iovec *iov;     /* payload: LEN bytes, from byte OFF of the first entry */
	size_t off;
	uint32_t len;
	const char *comment;         /* or NULL */
	const struct diw_pcapng_tcp *tcp;    /* NULL: a UDP datagram */
};

/* Creates or empties PATH, an ordinary file or a character device, and locks it. -errno; -EBUSY: another writer has it;
 * -ELOOP: a symbolic link; -EPERM: it belongs to another user, or has a second name; -EEXIST: its content is no
 * capture. */
int diw_pcapng_open(const char *path, struct diw_pcapng **p);
/* Thread-safe. They return 0, or once -errno, for example if the disk is full; from then on they write nothing. */
int diw_pcapng_write(struct diw_pcapng *p, const struct diw_pcapng_packet *k);
int diw_pcapng_flush(struct diw_pcapng *p);
void diw_pcapng_close(struct diw_pcapng *p);
/* Call in a child: releases the parent's file, which would otherwise stay locked while the child lives. P is closed by
 * that. */
void diw_pcapng_forked(struct diw_pcapng *p);

#endif
