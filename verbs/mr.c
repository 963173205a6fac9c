/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "verbs/qp.h"

_Static_assert((int)DIW_ACCESS_LOCAL_WRITE == (int)DIW_STAG_LOCAL_WRITE &&
	       (int)DIW_ACCESS_REMOTE_WRITE == (int)DIW_STAG_REMOTE_WRITE &&
	       (int)DIW_ACCESS_REMOTE_READ == (int)DIW_STAG_REMOTE_READ, "one set of values");
_Static_assert((int)DIW_RECORD_EPOCH == (int)DIW_CLOSE_EPOCH && (int)DIW_RECORD_DEREG == (int)DIW_CLOSE_DEREG &&
	       (int)DIW_RECORD_EVICTED == (int)DIW_CLOSE_EVICTED, "one set of values");

int diw_pd_alloc(struct diw_dev *dev, struct diw_pd **out)
{
	struct diw_pd *pd = calloc(1, sizeof *pd);
	int rc = pd ? diw_dev_lock(dev) : -ENOMEM;

	if (rc < 0) {
		free(pd);
		return rc;
	}
	pd->dev = dev;
	dev->npds++;
	diw_dev_unlock(dev);
	*out = pd;
	return 0;
}

int diw_pd_free(struct diw_pd *pd)
{
	struct diw_dev *dev = pd->dev;

	if (diw_dev_lock(dev) == 0) {
		if (pd->users) {
			diw_dev_unlock(dev);
			return -EBUSY;
		}
		dev->npds--;
		diw_dev_unlock(dev);
	}
	free(pd);
	return 0;
}

struct mr {
	struct diw_mr pub;           /* first: what the application sees */
	struct diw_stag stag;
};

int diw_mr_reg(struct diw_pd *pd, void *addr, size_t length, unsigned access, struct diw_mr **mr)
{
	return diw_mr_reg_attr(pd, &(struct diw_mr_attr){ .addr = addr, .length = length, .access = access }, mr);
}

int diw_mr_reg_attr(struct diw_pd *pd, const struct diw_mr_attr *a, struct diw_mr **out)
{
	const unsigned known = DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_READ;
	uint64_t to = a->use_iova ? a->iova : (uintptr_t)a->addr;
	struct mr *mr;
	int rc;

	if (!a->addr || a->length == 0 || a->length > 1ull << 48 || (a->access & ~known) ||
	    (uintptr_t)a->addr + a->length < (uintptr_t)a->addr || to + a->length < to)
		return -EINVAL;
	if ((a->access & DIW_ACCESS_REMOTE_WRITE) && !(a->access & DIW_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	mr = calloc(1, sizeof *mr);
	if (!mr)
		return -ENOMEM;
	mr->stag = (struct diw_stag){ .access = a->access, .addr = a->addr, .to = to, .len = a->length, .pd = pd,
				      .bound = a->peer != NULL };
	if (a->peer)
		mr->stag.peer = *a->peer;
	rc = diw_dev_lock(pd->dev);
	if (rc == 0) {
		rc = diw_stag_add(&pd->dev->stags, &mr->stag);
		pd->users += rc == 0;
		diw_dev_unlock(pd->dev);
	}
	if (rc < 0) {
		free(mr);
		return rc;
	}
	mr->pub = (struct diw_mr){ .pd = pd, .addr = a->addr, .length = a->length, .to = to, .stag = mr->stag.stag,
				   .access = a->access };
	*out = &mr->pub;
	return 0;
}

int diw_mr_dereg(struct diw_mr *pub)
{
	struct mr *mr = diw_container(pub, struct mr, pub);
	struct diw_dev *dev = pub->pd->dev;
	struct diw_list *l, *next;

	if (diw_dev_lock(dev) == 0) {
		diw_stag_remove(&dev->stags, &mr->stag);
		diw_list_for_each_safe(l, next, &dev->qps) {
			struct diw_qp *qp = diw_container(l, struct diw_qp, turn);

			if (qp->pd == pub->pd)
				diw_records_dereg(&qp->rdmap.ddp, mr->stag.stag);
		}
		pub->pd->users--;
		diw_dev_unlock(dev);
	}
	free(mr);
	return 0;
}
