/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that libibverbs got after rdma-core 44, as a program of rdma-core 65 makes them. Their types are declared here
 * under other names, with the layout of <infiniband/verbs.h> of that release: the installed header may not have
 * them.
 */
#include "tests/system/ibverbs/of_kit.h"

#include <stdint.h>
#include <unistd.h>

enum { IOVA = 1 << 0, ADDR = 1 << 1, FD = 1 << 2, FD_OFFSET = 1 << 3, DMAH = 1 << 4, BUF = 1 << 5 };

struct mr_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

#define NAMED(name) __asm__("ibv_" #name)
struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, struct mr_attr *attr) NAMED(reg_mr_ex);
void *alloc_buf(struct ibv_pd *pd, size_t size, void **buf) NAMED(alloc_buf);
void free_buf(void *buf) NAMED(free_buf);
struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, void *buf, void *addr, size_t length, int access) NAMED(reg_buf_mr);
int export_buf_dmabuf_fd(void *buf) NAMED(export_buf_dmabuf_fd);
int query_port_speed(struct ibv_context *c, uint32_t port, uint64_t *speed) NAMED(query_port_speed);
int dm_export_dmabuf_fd(void *dm) NAMED(dm_export_dmabuf_fd);
void *alloc_dmah(struct ibv_context *c, void *attr) NAMED(alloc_dmah);
int dealloc_dmah(void *dmah) NAMED(dealloc_dmah);
void *create_comp_cntr(struct ibv_context *c, void *attr) NAMED(create_comp_cntr);
int destroy_comp_cntr(void *cntr) NAMED(destroy_comp_cntr);
int read_comp_cntr(void *cntr, uint64_t *value) NAMED(read_comp_cntr);
int qp_attach_comp_cntr(struct ibv_qp *qp, void *cntr, void *attr) NAMED(qp_attach_comp_cntr);
int query_comp_cntr_caps(struct ibv_context *c, void *caps, size_t size) __asm__("_ibv_query_comp_cntr_caps");

static void test_reg_mr_ex(struct ibv_pd *pd)
{
	char memory[256];
	struct mr_attr a = { .length = sizeof memory, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = ADDR,
			     .addr = memory, .iova = 0x1000, .fd = 0 };
	struct ibv_mr *mr = reg_mr_ex(pd, &a);

	CHECK(mr && mr->addr == memory && mr->length == sizeof memory && mr->pd == pd && mr->context == pd->context,
	      "ibv_reg_mr_ex registers memory");
	CHECK(mr && ibv_dereg_mr(mr) == 0, "... which ibv_dereg_mr ends");
	a.comp_mask = ADDR | IOVA;
	mr = reg_mr_ex(pd, &a);
	CHECK(mr && mr->addr == memory && ibv_dereg_mr(mr) == 0, "... with an address of its own");
	a.comp_mask = IOVA;
	CHECK(REFUSED(reg_mr_ex(pd, &a), EINVAL), "... not without memory");
	a.comp_mask = FD | FD_OFFSET | IOVA;
	CHECK(REFUSED(reg_mr_ex(pd, &a), EOPNOTSUPP), "... not a DMA buffer");
	a.comp_mask = ADDR | DMAH;
	CHECK(REFUSED(reg_mr_ex(pd, &a), EOPNOTSUPP), "... not with a DMA handle");
	a.comp_mask = ADDR | 1 << 20;
	CHECK(REFUSED(reg_mr_ex(pd, &a), EOPNOTSUPP), "... not with what nobody knows");
}

static void test_buffers(struct ibv_pd *pd, struct ibv_pd *other)
{
	void *buf = NULL;
	char *memory = alloc_buf(pd, 10000, &buf);
	struct mr_attr a = { .length = 100, .access = IBV_ACCESS_LOCAL_WRITE, .comp_mask = BUF, .addr = memory };
	struct ibv_mr *mr;

	if (!CHECK(memory && buf && (uintptr_t)memory % (uintptr_t)getpagesize() == 0, "ibv_alloc_buf gives pages"))
		return;
	a.buf = buf;
	memset(memory, 1, 10000);
	mr = reg_buf_mr(pd, buf, memory + 5000, 5000, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->addr == memory + 5000 && mr->length == 5000 && ibv_dereg_mr(mr) == 0,
	      "a part of it is registered");
	CHECK(REFUSED(reg_buf_mr(pd, buf, memory + 5000, 5001, 0), EINVAL), "... none that goes beyond it");
	CHECK(REFUSED(reg_buf_mr(pd, buf, memory - 1, 10, 0), EINVAL), "... or begins before it");
	CHECK(REFUSED(reg_buf_mr(pd, buf, memory, SIZE_MAX, 0), EINVAL), "... or wraps");
	CHECK(REFUSED(reg_buf_mr(other, buf, memory, 10, 0), EINVAL), "... or is of another protection domain");
	CHECK(REFUSED(reg_mr_ex(pd, &a), EINVAL), "... or does not say where");
	a.comp_mask = BUF | ADDR | FD;
	CHECK(REFUSED(reg_mr_ex(pd, &a), EINVAL), "... or is a file as well");
	errno = 0;
	CHECK(export_buf_dmabuf_fd(buf) == -1 && errno == ENODATA, "it is no DMA buffer");
	free_buf(buf);
	CHECK(true, "it can be freed");
}

static void test_refusals(struct ibv_context *c)
{
	uint64_t value;

	errno = 0;
	CHECK(dm_export_dmabuf_fd(NULL) == -1 && errno == EOPNOTSUPP, "no device memory to export");
	CHECK(REFUSED(alloc_dmah(c, NULL), EOPNOTSUPP) && dealloc_dmah(NULL) == EOPNOTSUPP, "no DMA handles");
	CHECK(REFUSED(create_comp_cntr(c, NULL), EOPNOTSUPP) && destroy_comp_cntr(NULL) == EOPNOTSUPP &&
	      read_comp_cntr(NULL, &value) == EOPNOTSUPP && qp_attach_comp_cntr(NULL, NULL, NULL) == EOPNOTSUPP &&
	      query_comp_cntr_caps(c, NULL, 0) == EOPNOTSUPP, "no completion counters");
}

int main(void)
{
	struct ibv_context *c = open_lo();
	struct ibv_pd *pd = ibv_alloc_pd(c), *other = ibv_alloc_pd(c);
	uint64_t speed = 0;

	CHECK(query_port_speed(c, 1, &speed) == 0 && speed == 100, "the port's speed is 10 Gb/s");
	CHECK(query_port_speed(c, 2, &speed) == EINVAL, "... there is one port");
	test_reg_mr_ex(pd);
	test_buffers(pd, other);
	test_refusals(c);
	CHECK(ibv_dealloc_pd(other) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(c) == 0, "nothing is left");
	return failed;
}
