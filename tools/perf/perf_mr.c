/* SPDX-License-Identifier: BSD-2-Clause */
/* diw perf mr: the cost of registering and deregistering memory, against its size. */
#include <string.h>

#include "tools/perf/perf_cost.h"

enum { MR_REGISTER, MR_DEREGISTER, MR_ACTS };

static int mr_once(struct diw_pd *pd, const struct region *memory, struct hist *h)
{
	uint64_t t0 = diw_clock_ns(), t1;
	struct diw_mr *mr;
	int rc = diw_mr_reg(pd, memory->addr, memory->len, DIW_ACCESS_LOCAL_WRITE | DIW_ACCESS_REMOTE_WRITE, &mr);

	if (rc)
		return tool_failed("registering %zu bytes: %s", memory->len, strerror(-rc));
	t1 = diw_clock_ns();
	hist_add(&h[MR_REGISTER], t1 - t0);
	rc = diw_mr_dereg(mr);
	hist_add(&h[MR_DEREGISTER], diw_clock_ns() - t1);
	return rc ? tool_failed("deregistering: %s", strerror(-rc)) : 0;
}

/* All pages are touched before: diw_mr_reg() does not look at them, and a program's memory is in use. */
static int mr_size(const struct cost_plan *p, struct endpoint *ep, uint64_t size)
{
	static const char *const act[MR_ACTS] = { "register", "deregister" };
	uint64_t end;
	struct region memory;
	struct hist h[MR_ACTS];
	int rc = region_alloc(&memory, ep->pd, size, DIW_ACCESS_LOCAL_WRITE);

	if (!rc)
		rc = cost_hists_init(h, MR_ACTS);
	if (rc) {
		region_free(&memory);
		return rc;
	}
	memset(memory.addr, 0x5a, size);
	end = diw_clock_ns() + (uint64_t)(p->secs * 1e9 / p->nsizes);
	do
		rc = mr_once(ep->pd, &memory, h);
	while (!rc && !tool_stopped && diw_clock_ns() < end);
	for (int i = 0; i < MR_ACTS && !rc; i++) {
		struct cost_row r = { .test = "mr", .object = "mr", .act = act[i], .size = size };

		cost_print_hist(p, &r, &h[i]);
	}
	cost_hists_fini(h, MR_ACTS);
	region_free(&memory);
	return rc || !tool_stopped ? rc : tool_failed("interrupted");
}

int cost_mr_run(const struct cost_plan *p)
{
	struct endpoint ep;
	int rc = endpoint_open(&ep, p->dev, &p->local, 1, false);

	for (int i = 0; i < p->nsizes && !rc; i++)
		rc = mr_size(p, &ep, p->sizes[i]);
	endpoint_close(&ep);
	return rc;
}
