/* SPDX-License-Identifier: BSD-2-Clause */
/* The random mix: a seed chooses the network, the queue pairs and the applications' calls. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim.h"

static const char *impairment(char *spec, size_t len)
{
	static const char *const dir[] = { "", "rx." };
	const char *d = dir[below(2)];

	snprintf(spec, len, "%sloss=%u%%,%sdup=%u%%,%sreorder=%u%%,%sdelay=%uus,%scorrupt=%u%%,seed=%u",
		 d, chance(0.7) ? below(31) : 0, d, chance(0.4) ? below(20) : 0, d, chance(0.5) ? below(20) : 0,
		 d, chance(0.3) ? below(500) : 0, d, chance(0.4) ? below(10) : 0, 1 + below(1000000));
	return spec;
}

static void choose_network(void)
{
	struct net *net = sim.net;

	net->latency = 1 + below(200) * DIW_US;
	net->gro = chance(0.8);
	if (chance(0.2))
		net->mtu = 8972;
	if (sim.clean)
		return;
	net->jitter = chance(0.5) ? 1 + below(300) * DIW_US : 0;
	net->loss = chance(0.3) ? below(20) / 100.0 : 0;
	net->dup = chance(0.3) ? below(20) / 100.0 : 0;
	net->block = chance(0.3) ? below(30) / 100.0 : 0;
	if (chance(0.1))
		net->max_queue = 8 + below(100);
	sim.may_dup = true;                              /* impairments may duplicate, too */
}

static void choose_attr(struct diw_qp_attr *attr)
{
	static const int64_t windows[] = { 0, 100 * DIW_US, DIW_MS, DIW_MS, 5 * DIW_MS };

	*attr = (struct diw_qp_attr)DIW_QP_ATTR_INIT;
	attr->sq_depth = 1 + below(64);
	attr->rq_depth = SIM_MAX_RECVS;
	if (chance(0.7))
		attr->mulpdu = 128 + below(1300);
	else if (chance(0.2))
		attr->mulpdu = 2000 + below(20000);
	if (chance(0.3))
		attr->dgram.record_mode = DIW_RECORD_CHUNK;
	attr->dgram.reorder_window_ns = windows[below(5)];
	if (chance(0.25)) {
		attr->rate_limit = 2000000 + below(50000000);
		attr->rate_burst = 3000 + below(60000);
	}
	if (sim.clean)
		return;
	attr->dgram.record_close_last = chance(0.1);
	if (chance(0.3))
		attr->dgram.max_records = 1 + below(8);
	if (chance(0.1))
		attr->dgram.max_sources = 1 + below(4);
	attr->dgram.record_timeout_ns = (int64_t)((5 + below(100)) * DIW_MS);
	attr->dgram.reasm_timeout_ns = (int64_t)((5 + below(100)) * DIW_MS);
}

static struct ep *open_one(struct net_host *host, struct diw_qp_attr *attr)
{
	struct ep *ep;
	char spec[256], err[128];
	uint32_t cq_depth = sim.clean ? 4096 : 1 + below(chance(0.5) ? 8 : 256);
	uint32_t nrecvs = sim.clean ? SIM_MAX_RECVS : 1 + below(chance(0.5) ? 4 : SIM_MAX_RECVS);

	ep = ep_open(host, attr, cq_depth, nrecvs, 64 + below(20000));
	if (!sim.clean && chance(0.7)) {
		impairment(spec, sizeof spec);
		say("ep%d: impaired by %s", ep->index, spec);
		must(diw_qp_impair(ep->qp, spec, err, sizeof err) == 0, "diw_qp_impair: %s", err);
	}
	return ep;
}

/* No segment is larger than its sender's MULPDU. */
static void check_size(void *ctx, const struct diw_addr *src, const struct diw_addr *dst, const uint8_t *data,
		       uint32_t len)
{
	(void)ctx;
	(void)dst;
	(void)data;
	for (int i = 0; i < sim.neps; i++)
		if (diw_addr_eq(&sim.eps[i].addr, src))
			must(len <= sim.eps[i].mtu_payload + 28 + 4, "ep%d: a datagram of %u octets", i, len);
}

static void open_world(void)
{
	uint32_t nhosts = 2 + below(2), nud = 2 + below(4);
	struct diw_qp_attr attr;

	sim.net->tap = check_size;
	for (uint32_t i = 0; i < nhosts; i++)
		net_host_add(sim.net);
	for (uint32_t i = 0; i < nud; i++) {
		choose_attr(&attr);
		open_one(&sim.net->host[i % nhosts], &attr);
	}
	for (uint32_t i = 0; i < 2 && chance(0.5); i++) {
		struct ep *a, *b;

		choose_attr(&attr);
		attr.dgram.record_mode = DIW_RECORD_MESSAGE;
		attr.type = DIW_QP_UC;
		attr.dgram.local = sim.net->host[0].addr;
		attr.dgram.peer = sim.net->host[1].addr;
		attr.dgram.local.port = attr.dgram.peer.port = (uint16_t)(6000 + i);
		a = open_one(&sim.net->host[0], &attr);
		attr.dgram.peer = a->addr;
		attr.dgram.local = sim.net->host[1].addr;
		attr.dgram.local.port = a->addr.port;
		b = open_one(&sim.net->host[1], &attr);
		a->peer = b;
		b->peer = a;
	}
}

static uint32_t some_length(void)
{
	switch (below(5)) {
	case 0: return below(16);
	case 1: return below(200);
	case 2: return below(1500);
	case 3: return below(6000);
	default: return below(60000);
	}
}

static struct ep *some_ep(void)
{
	return &sim.eps[below((uint32_t)sim.neps)];
}

static void post_something(struct ep *from)
{
	uint32_t length = some_length();
	uint64_t timeout_ns;
	struct ep *to = from->peer ? from->peer : some_ep();

	if (!from->qp || to->attr.type != from->attr.type || from->send_used + length > SIM_SEND_MEM)
		return;
	if (from->peer) {
		if (chance(0.4))
			post_send(from, to, sim.clean && length > to->recv_size ? to->recv_size : length);
		else
			post_write(from, length);
		return;
	}
	switch (below(4)) {
	case 0:
		/* now and then a message is too long for the receive */
		post_send(from, to, length > to->recv_size && (sim.clean || chance(0.8)) ? to->recv_size : length);
		break;
	case 1:
		timeout_ns = sim.clean ? 10 * DIW_S : below(3) ? (1 + below(20)) * DIW_MS : 0;
		post_read(from, to, length, (int64_t)timeout_ns);
		break;
	default:
		post_record(from, to, length);
	}
}

static void rare_event(struct ep *ep)
{
	char spec[256], err[128];

	if (sim.clean || !ep->qp)
		return;
	switch (below(8)) {
	case 0:
		if (!ep->peer)
			ep_restart(ep);
		break;
	case 1:
		if (chance(0.2) && !ep->peer)
			ep_kill(ep);
		break;
	case 2: case 3:
		ep_dereg(ep);
		break;
	case 4:
		must(diw_qp_impair(ep->qp, chance(0.3) ? NULL : impairment(spec, sizeof spec), err, sizeof err) == 0,
		     "diw_qp_impair: %s", err);
		break;
	case 5:
		net_run(sim.net, DIW_S + below(1000) * DIW_MS);
		break;
	default:
		net_run(sim.net, below(150) * DIW_MS);
	}
}

/* In a clean world there are always receives, and completion queues are never full. */
static void look_after(void)
{
	for (int i = 0; sim.clean && i < sim.neps; i++) {
		while (ep_poll(&sim.eps[i], 64) > 0)
			;
		ep_post_recvs(&sim.eps[i], SIM_MAX_RECVS);
		ep_release(&sim.eps[i], SIM_MAX_HELD);
	}
}

static void act(void)
{
	struct ep *ep = some_ep();

	switch (below(10)) {
	case 0: case 1:
		ep_poll(ep, 1 + (int)below(20));
		break;
	case 2:
		ep_post_recvs(ep, 1 + (int)below(8));
		break;
	case 3:
		ep_release(ep, (int)below(4));
		break;
	case 4:
		records_check(ep);
		break;
	case 5:
		if (chance(0.25))
			rare_event(ep);
		break;
	default:
		for (uint32_t n = 1 + below(4); n > 0 && sim.nmsgs < SIM_MAX_MSGS - 4; n--)
			post_something(ep);
	}
	look_after();
}

START_TEST(mix_of_everything)
{
	sim_begin((uint64_t)_i);
	sim.clean = _i % 4 == 0;
	choose_network();
	open_world();
	for (int n = 100 + (int)below(200); n > 0; n--) {
		act();
		if (chance(0.8))
			net_run(sim.net, below(300) * DIW_US);
		look_after();
	}
	sim_end();
}
END_TEST

Suite *suite_mix(int first, int last)
{
	Suite *s = suite_create("mix");
	TCase *tc = tcase_create("seeds");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, mix_of_everything, first, last);
	suite_add_tcase(s, tc);
	return s;
}
