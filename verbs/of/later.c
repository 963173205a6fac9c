/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that libibverbs got after rdma-core 44, versions 1.15 to 1.18. The installed headers may declare none of them,
 * or all. So each call has a name of ours in C and the library's name for the linker; the types have names of ours,
 * too.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/of/of.h"

#define SPEED_100_MBPS 100            /* 10 Gb/s, which of_query_port() reports as width and speed */

enum {
	MR_IOVA = 1 << 0, MR_ADDR = 1 << 1, MR_FD = 1 << 2, MR_FD_OFFSET = 1 << 3, MR_BUF = 1 << 5,
	MR_KNOWN = MR_IOVA | MR_ADDR | MR_FD | MR_FD_OFFSET | MR_BUF,   /* 1 << 4 is a DMA handle */
};

/* struct ibv_mr_init_attr. Members that comp_mask does not name may lie beyond the caller's struct. */
struct of_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct of_buf *buf;
};

/* struct ibv_buf, of which programs only have pointers. */
struct of_buf {
	struct ibv_pd *pd;
	char *addr;
	size_t size;
};

#pragma GCC visibility push(default)
#define LATER(type, name, parameters) type of_##name parameters __asm__("ibv_" #name)
LATER(struct ibv_mr *, reg_mr_ex, (struct ibv_pd *pd, struct of_mr_init_attr *attr));
LATER(void *, alloc_buf, (struct ibv_pd *pd, size_t size, struct of_buf **buf));
LATER(void, free_buf, (struct of_buf *buf));
LATER(struct ibv_mr *, reg_buf_mr, (struct ibv_pd *pd, struct of_buf *buf, void *addr, size_t length, int access));
LATER(int, export_buf_dmabuf_fd, (struct of_buf *buf));
LATER(int, query_port_speed, (struct ibv_context *c, uint32_t port, uint64_t *speed));
LATER(int, dm_export_dmabuf_fd, (struct ibv_dm *dm));
LATER(void *, alloc_dmah, (struct ibv_context *c, void *attr));
LATER(int, dealloc_dmah, (void *dmah));
LATER(void *, create_comp_cntr, (struct ibv_context *c, void *attr));
#pragma GCC visibility pop

/* ---- Registration ---- */

static bool is_within(const struct of_buf *buf, const void *addr, size_t length)
{
	const uintptr_t base = (uintptr_t)buf->addr, at = (uintptr_t)addr;

	return at >= base && at - base <= buf->size && length <= buf->size - (at - base);
}

struct ibv_mr *of_reg_mr_ex(struct ibv_pd *pd, struct of_mr_init_attr *attr)
{
	const uint64_t mask = attr->comp_mask;

	if (mask & ~(uint64_t)MR_KNOWN)
		return of_null(diw_fail(EOPNOTSUPP, "ibv_reg_mr_ex: comp_mask %#llx", (unsigned long long)mask));
	if (mask & (MR_FD | MR_FD_OFFSET))
		return of_null(diw_fail(mask & MR_BUF ? EINVAL : EOPNOTSUPP, "ibv_reg_mr_ex: DMA buffers"));
	if (!(mask & MR_ADDR))
		return of_null(diw_fail(EINVAL, "ibv_reg_mr_ex: no address"));
	if ((mask & MR_BUF) && (attr->buf->pd != pd || !is_within(attr->buf, attr->addr, attr->length)))
		return of_null(EINVAL);
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, mask & MR_IOVA ? attr->iova : (uintptr_t)attr->addr,
				(unsigned)attr->access);
}

/* ---- Buffers: the host's memory, in whole pages ---- */

void *of_alloc_buf(struct ibv_pd *pd, size_t size, struct of_buf **buf)
{
	struct of_buf *b = calloc(1, sizeof *b);
	void *addr = NULL;
	int rc = b ? posix_memalign(&addr, (size_t)sysconf(_SC_PAGESIZE), size) : ENOMEM;

	if (rc) {
		free(b);
		return of_null(rc);
	}
	*b = (struct of_buf){ .pd = pd, .addr = addr, .size = size };
	*buf = b;
	return addr;
}

void of_free_buf(struct of_buf *buf)
{
	free(buf->addr);
	free(buf);
}

struct ibv_mr *of_reg_buf_mr(struct ibv_pd *pd, struct of_buf *buf, void *addr, size_t length, int access)
{
	struct of_mr_init_attr attr = {
		.length = length, .access = access, .comp_mask = MR_BUF | MR_ADDR, .addr = addr, .buf = buf,
	};

	return of_reg_mr_ex(pd, &attr);
}

int of_export_buf_dmabuf_fd(struct of_buf *buf)
{
	(void)buf;
	errno = ENODATA;                        /* not a DMA buffer */
	return -1;
}

/* ---- The port ---- */

int of_query_port_speed(struct ibv_context *c, uint32_t port, uint64_t *speed)
{
	(void)c;
	if (port != OF_PORT)
		return EINVAL;
	*speed = SPEED_100_MBPS;
	return 0;
}

/* ---- Features that no software device has: its own memory, hints for a PCIe root, counters of completions ---- */

int of_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	(void)dm;
	errno = EOPNOTSUPP;
	return -1;
}

void *of_alloc_dmah(struct ibv_context *c, void *attr)
{
	(void)c, (void)attr;
	return of_null(EOPNOTSUPP);
}

int of_dealloc_dmah(void *dmah)
{
	(void)dmah;
	return EOPNOTSUPP;
}

void *of_create_comp_cntr(struct ibv_context *c, void *attr)
{
	(void)c, (void)attr;
	return of_null(EOPNOTSUPP);
}

/* These return EOPNOTSUPP for any arguments. */
#define REFUSED(X) \
	X(ibv_destroy_comp_cntr) X(ibv_inc_comp_cntr) X(ibv_inc_err_comp_cntr) X(ibv_qp_attach_comp_cntr) \
	X(ibv_read_comp_cntr) X(ibv_read_err_comp_cntr) X(ibv_set_comp_cntr) X(ibv_set_err_comp_cntr) \
	X(_ibv_query_comp_cntr_caps)
#define DEFINE(name) \
	__attribute__((visibility("default"))) int of##name(void) __asm__(#name); \
	int of##name(void) { return EOPNOTSUPP; }
REFUSED(DEFINE)
