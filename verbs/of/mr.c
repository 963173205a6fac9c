/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions and windows. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/of/of.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

int of_access(unsigned access)
{
	static const struct { unsigned of, diw; } map[] = {
		{ IBV_ACCESS_LOCAL_WRITE, DIW_ACCESS_LOCAL_WRITE },
		{ IBV_ACCESS_REMOTE_WRITE, DIW_ACCESS_REMOTE_WRITE },
		{ IBV_ACCESS_REMOTE_READ, DIW_ACCESS_REMOTE_READ },
		{ IBV_ACCESS_REMOTE_ATOMIC, DIW_ACCESS_REMOTE_ATOMIC },
		{ IBV_ACCESS_MW_BIND, DIW_ACCESS_MW_BIND },
		{ IBV_ACCESS_ZERO_BASED, 0 },
		{ IBV_ACCESS_HUGETLB, 0 },
	};
	unsigned diw = 0;

	access &= ~IBV_ACCESS_OPTIONAL_RANGE;   /* optional flags, such as relaxed ordering, may be ignored */
	for (size_t i = 0; i < sizeof map / sizeof *map; i++) {
		if (access & map[i].of)
			diw |= map[i].diw;
		access &= ~map[i].of;
	}
	return access ? -1 : (int)diw;
}

/* Whether the memory is mapped. Hardware would find out when it pins the pages. Here a peer's access would be the first
 * to find out. */
static bool is_mapped(const void *addr, size_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr & ~(page - 1);
	uintptr_t end = (uintptr_t)addr + length;
	unsigned char in_core[8192];

	if (!addr || end < (uintptr_t)addr)
		return false;
	for (; at < end; at += page * sizeof in_core) {
		size_t left = end - at;

		if (mincore((void *)at, left < page * sizeof in_core ? left : page * sizeof in_core, in_core) < 0)
			return false;
	}
	return true;
}

/* 0, or -errno. */
static int mr_attr(struct diw_mr_attr *a, void *addr, size_t length, uint64_t iova, unsigned access)
{
	int diw = of_access(access);

	if (access & IBV_ACCESS_ON_DEMAND)
		return diw_fail(-EOPNOTSUPP, "ibv_reg_mr: access %#x: no on-demand paging", access);
	if (diw < 0)
		return diw_fail(-EINVAL, "ibv_reg_mr: access %#x", access);
	*a = (struct diw_mr_attr){ .addr = addr, .length = length, .access = (unsigned)diw, .use_iova = true,
				   .iova = iova };
	if (access & IBV_ACCESS_ZERO_BASED)
		a->iova = 0;
	return length && length <= 1ull << 48 && !is_mapped(addr, length) ?
	       diw_fail(-EFAULT, "ibv_reg_mr: %zu bytes at %p: not all of it is mapped", length, addr) : 0;
}

static void mr_show(struct of_mr *m, struct ibv_pd *pd, const struct diw_mr_attr *a, unsigned access)
{
	m->mr.pd = pd;
	m->mr.addr = a->addr;
	m->mr.length = a->length;
	m->mr.lkey = m->mr.rkey = m->mr.handle = m->diw->stag;
	m->access = access;
}

static struct ibv_mr *mr_make(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct of_mr *m = calloc(1, sizeof *m);
	struct diw_mr_attr a;
	int rc = m ? mr_attr(&a, addr, length, iova, access) : -ENOMEM;

	if (rc == 0)
		rc = diw_mr_reg_attr(of_diw_pd(pd), &a, &m->diw);
	if (rc < 0) {
		free(m);
		return of_null(-rc);
	}
	m->mr.context = pd->context;
	mr_show(m, pd, &a, access);
	of_pd_hold(pd);
	return &m->mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return mr_make(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return mr_make(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	return mr_make(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return of_null(EOPNOTSUPP);
}

/* The keys stay the same, so peers that know them use the changed region. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct of_mr *m = (struct of_mr *)mr;
	struct ibv_pd *new_pd = flags & IBV_REREG_MR_CHANGE_PD ? pd : mr->pd, *old_pd = mr->pd;
	unsigned new_access = flags & IBV_REREG_MR_CHANGE_ACCESS ? (unsigned)access : m->access;
	struct diw_mr_attr a;
	uint64_t iova = m->diw->to;
	int rc;

	if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || !new_pd || new_pd->context != mr->context) {
		errno = diw_fail(EINVAL, "ibv_rereg_mr: flags %#x, or the domain is of another device", flags);
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->addr;
		length = mr->length;
	} else {
		iova = (uintptr_t)addr;
	}
	rc = mr_attr(&a, addr, length, iova, new_access);
	if (rc == 0)
		rc = diw_mr_rereg(m->diw, of_diw_pd(new_pd), &a);
	if (rc < 0) {
		errno = -rc;
		return IBV_REREG_MR_ERR_INPUT;
	}
	of_pd_hold(new_pd);
	of_pd_drop(old_pd);
	mr_show(m, new_pd, &a, new_access);
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct of_mr *m = (struct of_mr *)mr;
	int rc = diw_mr_dereg(m->diw);

	if (rc < 0)
		return of_result(-rc);
	of_pd_drop(mr->pd);
	free(m);
	return 0;
}

/* Not possible, for the reason of ibv_import_device(). */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	return of_null(EOPNOTSUPP);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
	(void)c, (void)handle;
	return of_null(EOPNOTSUPP);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}

/* ---- Windows ---- */

struct ibv_mw *of_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct of_mw *w;
	int rc;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return of_null(diw_fail(EINVAL, "ibv_alloc_mw: type %d", (int)type));
	w = calloc(1, sizeof *w);
	rc = w ? diw_mw_alloc(of_diw_pd(pd), type == IBV_MW_TYPE_1 ? DIW_MW_TYPE_1 : DIW_MW_TYPE_2, &w->diw) : -ENOMEM;
	if (rc < 0) {
		free(w);
		return of_null(-rc);
	}
	w->mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .rkey = w->diw->stag, .handle = w->diw->stag,
				 .type = type };
	pthread_mutex_init(&w->bind, NULL);
	of_pd_hold(pd);
	return &w->mw;
}

int of_dealloc_mw(struct ibv_mw *mw)
{
	struct of_mw *w = (struct of_mw *)mw;
	int rc = diw_mw_free(w->diw);

	if (rc < 0)
		return of_result(-rc);
	of_pd_drop(mw->pd);
	pthread_mutex_destroy(&w->bind);
	free(w);
	return 0;
}

/* ---- fork(2): no page is pinned, so copy-on-write leaves the registered memory with the parent ---- */

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

#pragma GCC visibility push(default)
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
#pragma GCC visibility pop

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base, (void)size;
	return 0;
}
