/* SPDX-License-Identifier: BSD-2-Clause */
/* A dgram that keeps what is sent, refuses when a test says so, and delivers what a test puts in. */
#ifndef DIW_TESTS_FAKE_DGRAM_H
#define DIW_TESTS_FAKE_DGRAM_H

#include "llp/dgram.h"

#define FAKE_BURSTS 4096

struct fake_burst {
	struct diw_dest peer;
	uint32_t len, seg;
	int niov;
	const void *first, *last;    /* bases of the first and last iovec, as given */
	uint8_t *data;
	uint64_t now;
};

struct fake {
	struct diw_dgram d;
	struct diw_counters c;
	struct fake_burst tx[FAKE_BURSTS], rx[FAKE_BURSTS];
	int ntx, nrx, next_rx;
	int room;                    /* bursts taken before it blocks; negative: no limit */
	struct iovec rx_iov[16];
	uint32_t mtu;
	uint64_t deadline;
	int closed;
};

struct fake *fake_new(void);
void fake_free(struct fake *f);
void fake_deliver(struct fake *f, const struct diw_addr *src, const void *data, uint32_t len, uint32_t seg);
struct diw_addr fake_addr(uint8_t host, uint16_t port);

#endif
