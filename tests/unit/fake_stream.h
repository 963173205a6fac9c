/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream that keeps what is sent, and delivers what a test puts in, in pieces as large as the test says. */
#ifndef DIW_TESTS_FAKE_STREAM_H
#define DIW_TESTS_FAKE_STREAM_H

#include "llp/stream.h"

struct fake_stream {
	struct diw_stream s;
	uint8_t *tx;                 /* everything that was sent */
	size_t ntx, tx_cap;
	size_t room;                 /* bytes taken before it blocks */
	size_t last_send;            /* bytes of the last send that took any */
	int sends, tx_err;
	const uint8_t *rx;           /* belongs to the test */
	size_t nrx, rx_at;
	size_t piece;                /* bytes of one recv, at most */
	int recvs, rx_err;
	bool eof;                    /* behind rx comes the end; otherwise -EAGAIN, or rx_err */
	uint32_t emss;
	int shut, closed;
	bool aborted;
};

struct fake_stream *fake_stream_new(void);
void fake_stream_free(struct fake_stream *f);

#endif
