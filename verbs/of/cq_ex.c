/* SPDX-License-Identifier: BSD-2-Clause */
/* The extended completion queue: a cursor over completions, which are taken from the native queue in batches. */
#include <arpa/inet.h>
#include <time.h>

#include "verbs/of/of.h"

static struct of_cq *cq_of_ex(struct ibv_cq_ex *ex)
{
	return OF_CONTAINER(ex, struct of_cq, ex);
}

static void cq_ex_lock(struct of_cq *cq)
{
	if (!cq->single)
		pthread_mutex_lock(&cq->take);
}

static void poll_unlock(struct of_cq *cq)
{
	if (!cq->single)
		pthread_mutex_unlock(&cq->take);
}

/* ibv_poll_cq() on an extended queue first returns the completions that the cursor has not used. */
int of_cq_ex_take(struct of_cq *cq, struct diw_wc *wc, int n)
{
	int got = 0, rc;

	if (cq->extended) {
		cq_ex_lock(cq);
		while (got < n && cq->batch_at < cq->batch_n)
			wc[got++] = cq->batch[cq->batch_at++];
		poll_unlock(cq);
	}
	rc = got < n ? diw_cq_poll(cq->diw, wc + got, n - got, 0) : 0;
	return rc < 0 && !got ? rc : got + (rc < 0 ? 0 : rc);
}

void of_cq_ex_forget(struct of_cq *cq, const struct diw_qp *qp)
{
	uint8_t n = 0;

	if (!cq->extended)
		return;
	cq_ex_lock(cq);
	for (uint8_t i = cq->batch_at; i < cq->batch_n; i++)
		if (cq->batch[i].qp != qp)
			cq->batch[n++] = cq->batch[i];
		else
			diw_wc_release(&cq->batch[i]);
	cq->batch_at = 0;
	cq->batch_n = n;
	if (cq->now.qp == qp)                   /* under the cursor of a single-threaded program */
		diw_wc_release(&cq->now);
	poll_unlock(cq);
}

/* Returns the number of completions in the batch, or -errno. */
static int batch_refill(struct of_cq *cq)
{
	int rc = diw_cq_poll(cq->diw, cq->batch, sizeof cq->batch / sizeof *cq->batch, 0);

	cq->batch_at = 0;
	cq->batch_n = rc > 0 ? (uint8_t)rc : 0;
	return rc;
}

/* 0, or ENOENT: there is no completion. */
static int batch_step(struct of_cq *cq)
{
	diw_wc_release(&cq->now);
	if (cq->batch_at == cq->batch_n) {
		int rc = batch_refill(cq);

		if (rc == 0 && of_cq_empty(cq))
			rc = batch_refill(cq);
		if (rc <= 0)
			return rc < 0 ? -rc : ENOENT;
	}
	cq->now = cq->batch[cq->batch_at++];
	cq->ex.wr_id = cq->now.wr_id;
	cq->ex.status = of_wc_status(cq, &cq->now);
	return 0;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct of_cq *cq = cq_of_ex(ex);
	int rc;

	if (attr->comp_mask)
		return EINVAL;
	cq_ex_lock(cq);
	rc = batch_step(cq);
	if (rc)                                 /* the program does not call end_poll after an error */
		poll_unlock(cq);
	return rc;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return batch_step(cq_of_ex(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct of_cq *cq = cq_of_ex(ex);

	diw_wc_release(&cq->now);
	poll_unlock(cq);
}

/* ---- Fields of the completion under the cursor ---- */

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return of_wc_opcode(&cq_of_ex(ex)->now); }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return of_wc_vendor_err(&cq_of_ex(ex)->now); }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return cq_of_ex(ex)->now.byte_len; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return cq_of_ex(ex)->now.qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return of_wc_src_qp(&cq_of_ex(ex)->now); }
static unsigned read_wc_flags(struct ibv_cq_ex *ex) { return of_wc_flags(cq_of_ex(ex), &cq_of_ex(ex)->now); }
static uint64_t read_completion_ts(struct ibv_cq_ex *ex) { return cq_of_ex(ex)->now.time_ns; }

/* The immediate, or the invalidated key, which verbs.h reads by the same call without conversion. */
static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	const struct diw_wc *wc = &cq_of_ex(ex)->now;

	return wc->flags & DIW_WC_INVALIDATED && !(wc->flags & DIW_WC_IMM) ? wc->stag : htonl(wc->imm);
}

static uint32_t read_slid(struct ibv_cq_ex *ex) { return of_wc_slid(&cq_of_ex(ex)->now); }
static uint8_t read_sl(struct ibv_cq_ex *ex) { return of_wc_sl(&cq_of_ex(ex)->now); }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex) { (void)ex; return 0; }

static int64_t ns_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->now.time_ns + (uint64_t)(ns_of(CLOCK_REALTIME) - ns_of(CLOCK_MONOTONIC));
}

/* Sets all of the calls: one that the program did not ask for must not crash it. */
void of_cq_ex_init(struct of_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	cq->extended = true;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
