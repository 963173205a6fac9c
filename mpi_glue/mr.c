/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered memory. With FI_MR_PROV_KEY the key of a region is its STag, which cannot be guessed. Otherwise the
 * application chooses the key, which becomes the index of a chosen STag (docs/mpi-wire.md section 5). */
#include <errno.h>
#include <stdlib.h>

#include "mpi_glue/glue.h"

#define CHOSEN_KEYS ((DIW_STAG_CHOSEN_MAX + 1) / DIW_STAG_CHOSEN_MIN - 1)

struct glue_mr {
	struct fid_mr fid;
	struct diw_list link;            /* in its bucket */
	uint64_t access;
	struct glue_domain *domain;
	struct diw_mr *mr;
};

uint32_t diw_glue_mr_stag(const struct glue_domain *d, uint64_t key)
{
	if (d->prov_key)
		return key <= UINT32_MAX ? (uint32_t)key : 0;
	return key < CHOSEN_KEYS ? (uint32_t)(key + 1) * DIW_STAG_CHOSEN_MIN : 0;
}

static struct diw_list *region_bucket(struct glue_domain *d, uint32_t stag)
{
	return &d->regions[(stag >> 8) % GLUE_REGIONS];
}

void *diw_glue_mr_resolve(struct glue_domain *d, uint32_t stag, uint64_t to, uint64_t len, uint64_t access)
{
	struct diw_list *head = region_bucket(d, stag);

	for (struct diw_list *n = head->next; n != head; n = n->next) {
		const struct glue_mr *m = diw_container(n, struct glue_mr, link);

		if (m->mr->stag != stag)
			continue;
		if (access & ~m->access || to < m->mr->to || len > m->mr->length ||
		    to - m->mr->to > m->mr->length - len)
			return NULL;
		return (uint8_t *)m->mr->addr + (to - m->mr->to);
	}
	return NULL;
}

static int mr_close(struct fid *fid)
{
	struct glue_mr *m = (struct glue_mr *)fid;

	glue_lock(m->domain);
	diw_mr_dereg(m->mr);
	diw_list_del(&m->link);
	m->domain->users--;
	glue_unlock(m->domain);
	free(m);
	return 0;
}

static struct fi_ops mr_fi_ops = {
	.size = sizeof(struct fi_ops), .close = mr_close, .bind = diw_glue_no_bind, .control = diw_glue_no_control,
	.ops_open = diw_glue_no_ops,
};

static unsigned region_access(uint64_t access)
{
	unsigned a = 0;

	if (access & (FI_RECV | FI_READ | FI_REMOTE_WRITE))
		a |= DIW_ACCESS_LOCAL_WRITE;
	if (access & FI_REMOTE_WRITE)
		a |= DIW_ACCESS_REMOTE_WRITE;
	if (access & FI_REMOTE_READ)
		a |= DIW_ACCESS_REMOTE_READ;
	return a;
}

/* Without FI_MR_ALLOCATED an application may register its whole address space; only the user's part is used.
 * A region without octets is refused. */
static struct diw_mr_attr region_describe(const struct glue_domain *d, const struct fi_mr_attr *a)
{
	uintptr_t base = (uintptr_t)a->mr_iov->iov_base, at = base ? base : 1;
	size_t len = a->mr_iov->iov_len;

	len -= len ? at - base : 0;
	if (at < GLUE_USER_END && len > GLUE_USER_END - at)
		len = GLUE_USER_END - at;
	return (struct diw_mr_attr){ .addr = (void *)at, .length = len, .access = region_access(a->access),
				     .use_iova = !d->virt_addr, .iova = at - base };
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *a, uint64_t flags, struct fid_mr **out)
{
	struct glue_domain *d = (struct glue_domain *)fid;
	struct diw_mr_attr attr;
	struct glue_mr *m;
	int rc;

	if (a->iov_count != 1 || flags)
		return -FI_EINVAL;
	attr = region_describe(d, a);
	if (!d->prov_key) {
		attr.stag = diw_glue_mr_stag(d, a->requested_key);
		if (!attr.stag)
			return -FI_EKEYREJECTED;
	}
	m = calloc(1, sizeof *m);
	if (!m)
		return -FI_ENOMEM;
	rc = diw_mr_reg_attr(d->pd, &attr, &m->mr);
	if (rc < 0) {
		free(m);
		return rc == -EEXIST ? -FI_ENOKEY : rc;
	}
	m->domain = d;
	m->fid = (struct fid_mr){ .fid = { FI_CLASS_MR, a->context, &mr_fi_ops },
				  .key = d->prov_key ? m->mr->stag : a->requested_key };
	m->fid.mem_desc = m;
	m->access = a->access;
	glue_lock(d);
	diw_list_add_tail(region_bucket(d, m->mr->stag), &m->link);
	d->users++;
	glue_unlock(d);
	*out = &m->fid;
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t key, uint64_t flags, struct fid_mr **mr, void *ctx)
{
	struct fi_mr_attr a = { .mr_iov = iov, .iov_count = count, .access = access, .offset = offset,
				.requested_key = key, .context = ctx };

	return mr_regattr(fid, &a, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key,
		  uint64_t flags, struct fid_mr **mr, void *ctx)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };

	return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, ctx);
}

struct fi_ops_mr diw_glue_ops_mr = { .size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regv = mr_regv,
				    .regattr = mr_regattr };
