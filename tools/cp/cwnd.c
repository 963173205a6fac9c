/* SPDX-License-Identifier: BSD-2-Clause */
/* diw cp --group: the congestion window. */
#include "tools/cp/cwnd.h"

#include "base/wire.h"

#define INITIAL 10u                  /* datagrams (RFC 6928) */
#define LEAST 2u

void cwnd_init(struct cwnd *c, uint32_t block, uint64_t cap)
{
	*c = (struct cwnd){ .floor = (uint64_t)LEAST * block, .step = block, .threshold = UINT64_MAX };
	c->cap = cap > c->floor ? cap : c->floor;
	c->window = (uint64_t)INITIAL * block < c->cap ? (uint64_t)INITIAL * block : c->cap;
}

void cwnd_acked(struct cwnd *c, uint64_t bytes)
{
	c->window += c->window < c->threshold ? bytes : c->step * bytes / c->window;
	if (c->window > c->cap)
		c->window = c->cap;
}

static void cwnd_cut(struct cwnd *c, uint64_t window, uint64_t threshold, uint32_t latest)
{
	c->window = window > c->floor ? window : c->floor;
	c->threshold = threshold > c->floor ? threshold : c->floor;
	c->recovery = latest;
	c->cuts++;
}

void cwnd_lost(struct cwnd *c, uint32_t mark, uint32_t latest)
{
	c->doubt = 0;
	if (!c->cuts || diw_serial_after(mark, c->recovery))
		cwnd_cut(c, c->window * 7 / 10, c->window * 7 / 10, latest);
}

void cwnd_timeout(struct cwnd *c, uint32_t latest, uint64_t sent)
{
	if (!c->doubt)
		c->doubted = c->window < c->threshold ? c->threshold : c->window;
	c->doubt = sent;
	cwnd_cut(c, c->floor, c->window / 2, latest);
	c->timeouts++;
}

void cwnd_reported(struct cwnd *c, uint64_t sent)
{
	if (!c->doubt || sent < c->doubt)
		return;
	c->threshold = c->doubted;
	c->doubt = 0;
}
