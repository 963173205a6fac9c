/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the io_uring dgram meets the kernel. The unit tests put another kernel in this place. */
#ifdef HAVE_URING
#include "llp/uring.h"

#define TRIES 100

/* An entry that the kernel has not fetched is still ours (there is no polling kernel thread): it can be taken back, so
 * that nothing is sent later that was reported as not sent. */
static void withdraw_entry(struct io_uring_sq *sq)
{
	unsigned head = *sq->khead;

	sq->sqe_head = sq->sqe_tail = head;
	*sq->ktail = head;
}

int diw_sys_ring_submit(struct diw_uring *r)
{
	int n = 0;

	for (int i = 0; i < TRIES; i++) {
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
