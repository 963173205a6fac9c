/* SPDX-License-Identifier: BSD-2-Clause */
/* Code for the exact scenarios: two queue pairs, and a network that loses the datagrams it is told to lose. */
#include <string.h>

#include "base/wire.h"
#include "tests/sim/sim.h"

struct seen seen[8192];
int nseen;

void pair_attr(struct diw_qp_attr *attr)
{
	*attr = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	attr->mulpdu = 1032;
}

void pair_begin(struct ep **a, struct ep **b, const struct diw_qp_attr *attr)
{
	struct diw_qp_attr def;

	pair_attr(&def);
	sim_begin(1);
	sim.plain = true;
	*a = ep_open(net_host_add(sim.net), attr ? attr : &def, 16384, 32, 20000);
	*b = ep_open(net_host_add(sim.net), attr ? attr : &def, 16384, 32, 20000);
}

bool pair_wc(struct ep *ep, struct diw_wc *wc, struct diw_range *ranges, uint64_t limit)
{
	uint64_t end = sim.net->now + limit;

	for (;;) {
		int n = diw_cq_poll(ep->rcq, wc, 1, 0);

		must(n >= 0, "diw_cq_poll: %d", n);
		if (n == 1)
			break;
		if (!net_step(sim.net, end))
			return false;
	}
	if (ranges)
		diw_wc_ranges(wc, ranges, DIW_MAX_RANGES);
	wc_recv(ep, wc);
	diw_wc_release(&(struct diw_wc){ .qp = wc->qp, .map = wc->map, .opcode = wc->opcode });
	return true;
}

uint64_t counter(struct ep *ep, const char *name)
{
	uint64_t v[256];

	diw_qp_counters(ep->qp, v, 256);
	for (int i = 0; i < diw_counter_count(); i++)
		if (strcmp(diw_counter_name(i), name) == 0)
			return v[i];
	sim_fail("no counter %s", name);
}

static void see(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *data, uint32_t len)
{
	struct seen *s = &seen[nseen];

	(void)ctx;
	if (nseen == (int)(sizeof seen / sizeof *seen) || len > sizeof s->data)
		return;
	s->src = *src;
	s->dst = *dst;
	s->len = len;
	memcpy(s->data, data, len);
	nseen++;
}

void watch(void)
{
	nseen = 0;
	sim.net->tap = see;
}

void replay(const struct seen *s)
{
	net_inject(sim.net, &s->src, &s->dst, s->data, s->len, sim.net->now);
	net_settle(sim.net);
}

uint32_t seen_mo(const uint8_t *data)
{
	return diw_get32(data + 24);
}

bool is_record(const uint8_t *data)
{
	return (data[1] & 0x0f) == 0x0c;
}

bool is_last(const uint8_t *data)
{
	return data[0] & 0x40;
}
