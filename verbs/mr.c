/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains and memory regions. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/wire.h"
#include "verbs/qp.h"

_Static_assert((int)DIW_ACCESS_LOCAL_WRITE == (int)DIW_STAG_LOCAL_WRITE &&
	       (int)DIW_ACCESS_REMOTE_WRITE == (int)DIW_STAG_REMOTE_WRITE &&
	       (int)DIW_ACCESS_REMOTE_READ == (int)DIW_STAG_REMOTE_READ &&
	       (int)DIW_ACCESS_REMOTE_ATOMIC == (int)DIW_STAG_REMOTE_ATOMIC &&
	       (int)DIW_ACCESS_MW_BIND == (int)DIW_STAG_MW_BIND &&
	       (int)DIW_ACCESS_REMOTE_INVALIDATE == (int)DIW_STAG_REMOTE_INVALIDATE &&
	       (int)DIW_ACCESS_GROUP_WRITE == (int)DIW_STAG_GROUP_WRITE, "one set of values");
_Static_assert(DIW_STAG_CHOSEN_MIN == 1 << 8 && DIW_STAG_CHOSEN_MAX == (DIW_STAG_INDEX_CHOSEN << 8 | 0xff),
	       "one range");
_Static_assert((int)DIW_RECORD_EPOCH == (int)DIW_CLOSE_EPOCH && (int)DIW_RECORD_DEREG == (int)DIW_CLOSE_DEREG &&
	       (int)DIW_RECORD_EVICTED == (int)DIW_CLOSE_EVICTED, "one set of values");

static int pd_enlist(struct diw_pd *pd, struct diw_dev *dev)
{
	int rc = diw_engine_lock(&dev->engine);

	if (rc < 0)
		return rc;
	rc = diw_dev_has_room(dev->npds);
	dev->npds += rc == 0;
	pd->dev = dev;
	diw_engine_unlock(&dev->engine);
	return rc;
}

int diw_pd_alloc(struct diw_dev *dev, struct diw_pd **out)
{
	struct diw_pd *pd = calloc(1, sizeof *pd);
	int rc = pd ? diw_thread_use(&dev->engine) : -ENOMEM;

	if (rc == 0) {
		rc = pd_enlist(pd, dev);
		if (rc < 0)
			diw_thread_unuse(&dev->engine);
	}
	if (rc < 0) {
		free(pd);
		return diw_fail(rc, "diw_pd_alloc");
	}
	*out = pd;
	return 0;
}

int diw_pd_free(struct diw_pd *pd)
{
	struct diw_dev *dev = pd->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (pd->users) {
			diw_engine_unlock(&dev->engine);
			return diw_fail(-EBUSY, "diw_pd_free: a region, window, queue pair or shared queue uses it");
		}
		dev->npds--;
		diw_engine_unlock(&dev->engine);
		diw_thread_unuse(&dev->engine);
	}
	free(pd);
	return 0;
}

#define MAX_REGION (1ull << 48)

struct mr {
	struct diw_mr pub;           /* must be first: the application's view */
	struct diw_stag stag;
};

int diw_mr_reg(struct diw_pd *pd, void *addr, size_t length, unsigned access, struct diw_mr **mr)
{
	return diw_mr_reg_attr(pd, &(struct diw_mr_attr){ .addr = addr, .length = length, .access = access }, mr);
}

static uint64_t first_offset(const struct diw_mr_attr *a)
{
	return a->use_iova ? a->iova : (uintptr_t)a->addr;
}

static int check_attr(const struct diw_mr_attr *a)
{
	const unsigned writes = DIW_ACCESS_REMOTE_WRITE | DIW_ACCESS_REMOTE_ATOMIC | DIW_ACCESS_GROUP_WRITE;
	const unsigned known = writes | DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_READ | DIW_ACCESS_MW_BIND |
			       DIW_ACCESS_REMOTE_INVALIDATE;
	uint64_t to = first_offset(a);

	if (!a->addr || a->length == 0 || a->length > MAX_REGION)
		return diw_fail(-EINVAL, "diw_mr_reg: address %p, length %zu: not 1 to %llu bytes", a->addr, a->length,
				MAX_REGION);
	if ((uintptr_t)a->addr + a->length < (uintptr_t)a->addr)
		return diw_fail(-EINVAL, "diw_mr_reg: address %p, length %zu: it wraps", a->addr, a->length);
	if (diw_to_wraps(to, a->length))
		return diw_fail(-EINVAL, "diw_mr_reg: iova %#llx, length %zu: it wraps", (unsigned long long)to,
				a->length);
	if (a->access & ~known)
		return diw_fail(-EINVAL, "diw_mr_reg: access %#x: %#x is unknown", a->access, a->access & ~known);
	if ((a->access & writes) && !(a->access & DIW_ACCESS_LOCAL_WRITE))
		return diw_fail(-EINVAL, "diw_mr_reg: access %#x: a peer's write or atomic needs LOCAL_WRITE",
				a->access);
	return 0;
}

static int stag_register(struct diw_stag_table *t, struct diw_stag *s, uint32_t chosen)
{
	if (!chosen)
		return diw_stag_add(t, s);
	s->stag = chosen;
	return diw_stag_add_chosen(t, s);
}

static int mr_not_registered(int rc, uint32_t chosen)
{
	if (rc == -EINVAL)
		return diw_fail(rc, "diw_mr_reg: STag %#x: choose one of %#x to %#x, or 0", chosen, DIW_STAG_CHOSEN_MIN,
				DIW_STAG_CHOSEN_MAX);
	if (rc == -EEXIST)
		return diw_fail(rc, "diw_mr_reg: STag %#x: the device has a region with its index %#x", chosen,
				chosen >> 8);
	return diw_fail(rc, "diw_mr_reg: no STag is left, or no memory");
}

/* Sets all fields except the STag. */
static void mr_describe(struct mr *mr, struct diw_pd *pd, const struct diw_mr_attr *a)
{
	uint32_t stag = mr->stag.stag;

	mr->stag = (struct diw_stag){ .stag = stag, .access = a->access, .addr = a->addr, .to = first_offset(a),
				      .len = a->length, .pd = pd, .bound = a->peer != NULL };
	if (a->peer)
		mr->stag.peer = *a->peer;
	mr->pub = (struct diw_mr){ .pd = pd, .addr = a->addr, .length = a->length, .to = mr->stag.to, .stag = stag,
				   .access = a->access };
}

int diw_mr_reg_attr(struct diw_pd *pd, const struct diw_mr_attr *a, struct diw_mr **out)
{
	struct mr *mr;
	int rc = check_attr(a);

	if (rc < 0)
		return rc;
	mr = calloc(1, sizeof *mr);
	if (!mr)
		return -ENOMEM;
	mr_describe(mr, pd, a);
	rc = diw_engine_lock(&pd->dev->engine);
	if (rc == 0) {
		rc = stag_register(&pd->dev->stags, &mr->stag, a->stag);
		pd->users += rc == 0;
		diw_engine_unlock(&pd->dev->engine);
	}
	if (rc < 0) {
		free(mr);
		return mr_not_registered(rc, a->stag);
	}
	mr->pub.stag = mr->stag.stag;
	*out = &mr->pub;
	return 0;
}

static void close_records(const struct diw_mr *pub)
{
	struct diw_dev *dev = pub->pd->dev;
	struct diw_list *l, *next;

	if (dev->stags.records == 0)
		return;
	diw_list_for_each_safe(l, next, &dev->qps) {
		struct diw_qp *qp = diw_container(l, struct diw_qp, of_dev);

		if (qp->pd == pub->pd)
			diw_rdmap_dereg(&qp->rdmap, pub->stag);
	}
}

int diw_mr_rereg(struct diw_mr *pub, struct diw_pd *pd, const struct diw_mr_attr *a)
{
	struct mr *mr = diw_container(pub, struct mr, pub);
	struct diw_dev *dev = pub->pd->dev;
	int rc = pd->dev != dev ? diw_fail(-EINVAL, "diw_mr_rereg: a protection domain of another device") :
		 a->stag && a->stag != pub->stag ? diw_fail(-EINVAL, "diw_mr_rereg: STag %#x: the region keeps %#x",
							    a->stag, pub->stag) : check_attr(a);

	if (rc == 0)
		rc = diw_engine_lock(&dev->engine);
	if (rc < 0)
		return rc;
	if (mr->stag.windows) {
		rc = -EBUSY;
	} else {
		close_records(pub);
		pub->pd->users--;
		pd->users++;
		mr_describe(mr, pd, a);
	}
	diw_engine_unlock(&dev->engine);
	return rc < 0 ? diw_fail(rc, "diw_mr_rereg: a memory window is bound to it") : 0;
}

int diw_mr_dereg(struct diw_mr *pub)
{
	struct mr *mr = diw_container(pub, struct mr, pub);
	struct diw_dev *dev = pub->pd->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		if (mr->stag.windows) {
			diw_engine_unlock(&dev->engine);
			return diw_fail(-EBUSY, "diw_mr_dereg: a memory window is bound to it");
		}
		diw_stag_remove(&dev->stags, &mr->stag);
		close_records(pub);
		pub->pd->users--;
		diw_engine_unlock(&dev->engine);
	}
	free(mr);
	return 0;
}

/* ---- Memory windows ---- */

struct mw {
	struct diw_mw pub;           /* must be first: the application's view */
	struct diw_stag stag;
	pthread_mutex_t post;        /* between posters of several queue pairs: pub.stag and `turn` */
	uint32_t turn;               /* binds that were posted */
};

int diw_mw_alloc(struct diw_pd *pd, enum diw_mw_type type, struct diw_mw **out)
{
	struct mw *mw;
	int rc;

	if (type != DIW_MW_TYPE_1 && type != DIW_MW_TYPE_2)
		return diw_fail(-EINVAL, "diw_mw_alloc: type %d: not DIW_MW_TYPE_1 or DIW_MW_TYPE_2", (int)type);
	mw = calloc(1, sizeof *mw);
	if (!mw)
		return -ENOMEM;
	mw->stag = (struct diw_stag){ .pd = pd, .window = true, .invalid = true };
	rc = diw_engine_lock(&pd->dev->engine);
	if (rc == 0) {
		rc = diw_stag_add(&pd->dev->stags, &mw->stag);
		pd->users += rc == 0;
		diw_engine_unlock(&pd->dev->engine);
	}
	if (rc < 0) {
		free(mw);
		return diw_fail(rc, "diw_mw_alloc: no STag is left, or no memory");
	}
	mw->pub = (struct diw_mw){ .pd = pd, .type = type, .stag = mw->stag.stag };
	pthread_mutex_init(&mw->post, NULL);
	*out = &mw->pub;
	return 0;
}

int diw_mw_free(struct diw_mw *pub)
{
	struct mw *mw = diw_container(pub, struct mw, pub);
	struct diw_dev *dev = pub->pd->dev;

	if (diw_engine_lock(&dev->engine) == 0) {
		diw_stag_invalidate(&dev->stags, &mw->stag);
		diw_stag_remove(&dev->stags, &mw->stag);
		pub->pd->users--;
		diw_engine_unlock(&dev->engine);
	}
	pthread_mutex_destroy(&mw->post);
	free(mw);
	return 0;
}

/* The request names window and region by STag: both may have been freed when it is executed. */
void diw_mw_post_bind(struct diw_rdmap_wr *w, const struct diw_send_wr *wr)
{
	struct mw *mw = diw_container(wr->bind.mw, struct mw, pub);
	bool type2 = mw->pub.type == DIW_MW_TYPE_2;
	uint8_t key;

	pthread_mutex_lock(&mw->post);
	key = type2 ? wr->bind.key : (uint8_t)(mw->pub.stag + 1);
	mw->pub.stag = (mw->pub.stag & ~0xffu) | key;
	w->bind.window = mw->pub.stag;
	w->bind.turn = ++mw->turn;
	pthread_mutex_unlock(&mw->post);
	w->bind.region = wr->bind.mr ? wr->bind.mr->stag : 0;
	w->bind.to = wr->bind.to;
	w->bind.len = wr->bind.length;
	w->bind.access = wr->bind.access;
	w->bind.key = key;
	w->bind.type2 = type2;
}
