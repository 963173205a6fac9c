/* SPDX-License-Identifier: BSD-2-Clause */
/* The system calls of the io_uring dgram. The unit tests replace this file by a simulated kernel. */
#ifdef HAVE_URING
#include "llp/uring.h"

#define URING_TRIES 100

/* There is no polling kernel thread, so an entry that the kernel has not fetched can be withdrawn. Otherwise a datagram
 * that was reported as not sent would be sent later. */
static void withdraw_entry(struct io_uring_sq *sq)
{
	unsigned head = *sq->khead;

	sq->sqe_head = sq->sqe_tail = head;
	*sq->ktail = head;
}

int diw_sys_ring_submit(struct diw_uring *r)
{
	int n = 0;

	for (int i = 0; i < URING_TRIES; i++) {
		n = io_uring_submit(&r->ring);
		if (n > 0)
			return 0;
	}
	withdraw_entry(&r->ring.sq);
	return n < 0 ? n : -EAGAIN;
}

struct io_uring_cqe *diw_sys_ring_peek(struct diw_uring *r)
{
	struct io_uring_cqe *cqe;

	return io_uring_peek_cqe(&r->ring, &cqe) ? NULL : cqe;
}
#endif
