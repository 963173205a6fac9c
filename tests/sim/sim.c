/* SPDX-License-Identifier: BSD-2-Clause */
/* The simulator's world: devices, queue pairs, random requests, and checks of each completion against the ledger. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

struct sim sim;

uint32_t below(uint32_t n)
{
	return (uint32_t)(diw_rng_next(&sim.rng) % n);
}

bool chance(double p)
{
	return !sim.plain && diw_rng_chance(&sim.rng, p);
}

void say(const char *fmt, ...)
{
	va_list ap;

	if (!sim.verbose)
		return;
	printf("%12.3f us  ", (double)sim.net->now / 1e3);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

void sim_fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	fflush(stdout);
	ck_abort_msg("at %.3f us: %s [replay: SIM_SEED=%s%llu tests/sim]", sim.net ? (double)sim.net->now / 1e3 : 0,
		     text, sim.streams ? "rc" : sim.groups ? "g" : "", (unsigned long long)sim.seed);
	abort();
}

void sim_begin(uint64_t seed)
{
	memset(&sim, 0, sizeof sim);
	sim.seed = seed;
	sim.rng.state = diw_rng_next(&(struct diw_rng){ seed });      /* neighbouring seeds have disjoint sequences */
	sim.verbose = getenv("SIM_SEED") != NULL;
	sim.net = net_new(seed);
	sim.net->verbose = sim.verbose;
}

static void poll_all(void)
{
	for (int i = 0; i < sim.neps; i++) {
		struct ep *ep = &sim.eps[i];
		struct diw_qp_error e;
		struct diw_event ev;

		while (ep_poll(ep, 16) > 0)
			;
		ep_release(ep, SIM_MAX_HELD);
		ep_post_recvs(ep, SIM_MAX_RECVS);
		while (ep->qp && diw_qp_error_get(ep->qp, &e) == 0)
			say("ep%d: error %04x of message %08x", ep->index, e.fault, e.msn);
		while (diw_event_get(ep->host->dev, &ev, 0) == 0)
			;
	}
}

void sim_drain(void)
{
	bool quiet;
	int rounds = 0;

	do {
		poll_all();
		net_run(sim.net, 5 * DIW_MS);
		quiet = sim.net->nheap == 0;
		for (int i = 0; i < sim.neps; i++)
			quiet &= ep_quiet(&sim.eps[i]);
		must(++rounds < 12000, "still busy after a minute of nothing posted");
	} while (!quiet);
	poll_all();
}

static void check_accounts(void)
{
	for (uint32_t i = 0; i < sim.nmsgs; i++) {
		const struct msg *m = &sim.msgs[i];

		if (!m->posted) {
			must(m->send_wcs + m->recv_wcs == 0, "message %u was refused, but completes", m->id);
			continue;
		}
		must(m->send_wcs == 1 || !m->signaled || m->from_life != m->from->life,
		     "ep%d: request %u never completed", m->from->index, m->id);
		if (sim.clean && !m->spoiled && m->kind != MSG_READ && (m->kind != MSG_WRITE || m->has_imm))
			must(m->recv_wcs == 1, "message %u of %u octets never arrived, though nothing was lost", m->id,
			     m->length);
	}
	must(!sim.clean || sim.partial == 0, "%u records were incomplete, though nothing was lost", sim.partial);
}

void sim_end(void)
{
	sim_drain();
	check_accounts();
	for (int i = 0; i < sim.neps; i++)
		memory_check(&sim.eps[i]);
	net_run(sim.net, 60 * DIW_S);
	poll_all();
	for (int i = 0; i < sim.neps; i++)
		ep_close(&sim.eps[i]);
	for (int i = 0; i < sim.net->nhosts; i++) {
		int rc = diw_dev_close(sim.net->host[i].dev);

		must(rc == 0, "diw_dev_close: %s", strerror(-rc));
		sim.net->host[i].dev = NULL;
	}
	for (uint32_t i = 0; i < sim.nmsgs; i++)
		free(sim.msgs[i].declared);
	say("%u messages: %u sends, %u records (%u partial), %u reads, %u writes delivered; %llu datagrams, %llu lost",
	    sim.nmsgs, sim.delivered[MSG_SEND], sim.delivered[MSG_RECORD], sim.partial, sim.delivered[MSG_READ],
	    sim.delivered[MSG_WRITE], (unsigned long long)sim.net->sent, (unsigned long long)sim.net->lost);
	net_free(sim.net);
	sim.net = NULL;
}
