/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens the ring of an io_uring dgram: queues, registered sockets, provided buffers. */
#ifdef HAVE_URING
#include <sys/mman.h>
#include <unistd.h>

#include "llp/uring.h"

#define SQ_ENTRIES 8u
/* Every completion of a receive holds a buffer, except the last one of a multishot. Beside these there are one send and
 * a few cancellations, so the queue cannot overflow. */
#define CQ_ENTRIES 64u

static size_t ring_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t map_bytes(void)
{
	return 2 * (ring_bytes() + DIW_URING_BUFS * DIW_URING_BUF);
}

void diw_uring_add_buf(struct diw_uring_rx *rx, unsigned bid)
{
	io_uring_buf_ring_add(rx->ring, rx->bufs + bid * DIW_URING_BUF, DIW_URING_BUF, (unsigned short)bid,
			      io_uring_buf_ring_mask(DIW_URING_BUFS), 0);
	io_uring_buf_ring_advance(rx->ring, 1);
}

/* Pages are used only as far as datagrams come. A child gets no copy: the kernel has pinned the pages of the rings, and
 * after a fork the parent would write to copies. */
static int map_buffers(struct diw_uring *r)
{
	uint8_t *at = mmap(NULL, map_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	r->map = at;
	madvise(at, map_bytes(), MADV_DONTFORK);
	for (int i = 0; i < 2; i++)
		r->rx[i].ring = (void *)(at + (size_t)i * ring_bytes());
	for (size_t i = 0; i < 2; i++)
		r->rx[i].bufs = at + 2 * ring_bytes() + i * DIW_URING_BUFS * DIW_URING_BUF;
	return 0;
}

static int provide_buffers(struct diw_uring *r)
{
	int rc = map_buffers(r);

	for (int i = 0; i < 2 && !rc; i++) {
		struct io_uring_buf_reg reg = { .ring_addr = (uintptr_t)r->rx[i].ring,
			.ring_entries = DIW_URING_BUFS, .bgid = (uint16_t)i };

		io_uring_buf_ring_init(r->rx[i].ring);
		rc = io_uring_register_buf_ring(&r->ring, &reg, 0);
		for (unsigned bid = 0; bid < DIW_URING_BUFS && !rc; bid++)
			diw_uring_add_buf(&r->rx[i], bid);
	}
	return rc;
}

int diw_uring_add_file(struct diw_uring *r, int i, int fd)
{
	int rc = io_uring_register_files_update(&r->ring, (unsigned)i, &fd, 1);

	r->rx[i].file = rc == 1;
	return rc == 1 ? 0 : rc < 0 ? rc : -EBADF;
}

int diw_uring_setup(struct diw_uring *r)
{
	struct io_uring_params p = { .cq_entries = CQ_ENTRIES,
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG };
	int files[2] = { r->u.fd, -1 }, rc = io_uring_queue_init_params(SQ_ENTRIES, &r->ring, &p);

	if (rc)
		return rc;
	r->pid = getpid();
	rc = io_uring_register_files(&r->ring, files, 2);
	r->rx[0].file = !rc;
	if (!rc)
		rc = provide_buffers(r);
	if (rc)
		diw_uring_end(r);
	return rc;
}

/* Sockets are unregistered first. The kernel releases a ring some time after it is closed, and would hold the ports
 * until then. */
void diw_uring_end(struct diw_uring *r)
{
	if (r->rx[0].file && getpid() == r->pid)
		io_uring_unregister_files(&r->ring);
	io_uring_queue_exit(&r->ring);
	if (r->map)
		munmap(r->map, map_bytes());
}
#endif
