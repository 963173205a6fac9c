/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diw cp --group on virtual time: one sender and up to seven receivers. The network loses, repeats and delays the
 * datagrams to each receiver separately; receivers come late or end. Every receiver that is there until the end has the
 * file. The sender ends in bounded time, after a bounded number of bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/sim.h"
#include "tools/cp/group_recv.h"
#include "tools/cp/group_send.h"

#define RECEIVERS 7
#define LIMIT (120 * DIW_S)          /* in virtual time; a transfer of these sizes takes some seconds */
#define TICK (DIW_MS / 2)            /* poll interval of an application that waits */

static struct receiver {
	struct group_recv r;
	struct group_options o;
	struct net_host *host;
	char dir[256];
	uint64_t begins_at, dies_at;
	uint64_t begins_after, dies_after;   /* counted from when all that are there from the beginning have joined */
	bool lives, saved;
} receiver[RECEIVERS];

static struct group_send cp;
static struct group_options cp_options;
static struct net_host *cp_host;
static uint8_t *file;
static int receivers;

/* Replaces the function of group_told.c. */
void transfer_report(const struct transfer *t)
{
	struct receiver *r = diw_container(t->port, struct receiver, r.port);

	must(t->sha_ok && !t->why[0], "receiver %d: %s", (int)(r - receiver), t->why);
	r->saved = true;
}

/* ---- The ends ---- */

static void port_begin(struct xfer_port *p, struct net_host *host)
{
	struct diw_qp_attr attr = DIW_QP_ATTR_INIT;

	attr.mulpdu = 1032;
	attr.dgram.record_timeout_ns = (int64_t)GROUP_RECORD_NS;
	attr.dgram.local = host->addr;
	p->ep.dev = host->dev;
	must(diw_pd_alloc(host->dev, &p->ep.pd) == 0 &&
	     diw_cq_create(host->dev, XFER_CQ, NULL, NULL, &p->ep.cq) == 0 && xfer_start(p, &attr) == 0,
	     "no queue pair");
}

static void port_end(struct xfer_port *p, struct net_host *host)
{
	xfer_close(p);
	host->dev = NULL;
}

static struct diw_addr the_group(void)
{
	return net_addr4(0xef010101, DIW_GROUP_PORT);
}

static void receiver_begin(struct receiver *x)
{
	struct diw_addr group = the_group();

	x->o.count = 1;
	x->o.dirfd = open(x->dir, O_RDONLY | O_DIRECTORY);
	x->r.o = &x->o;
	port_begin(&x->r.port, x->host);
	must(x->o.dirfd >= 0 && group_recv_init(&x->r) == 0, "no receiver");
	must(diw_qp_attach(x->r.port.ep.qp, &group) == 0, "not attached");
	x->begins_at = DIW_NEVER;
	x->lives = true;
}

static void receiver_close(struct receiver *x)
{
	port_end(&x->r.port, x->host);
	close(x->o.dirfd);
	x->lives = false;
}

/* Its process is killed, so it sends no message. */
static void receiver_die(struct receiver *x)
{
	say("receiver %d dies", (int)(x - receiver));
	for (uint32_t i = 0; i < GROUP_PLACES; i++)
		transfer_drop(&x->r.place[i]);
	receiver_close(x);
}

static void receiver_end(struct receiver *x)
{
	group_recv_fini(&x->r);
	receiver_close(x);
}

static void cp_begin(uint64_t size)
{
	file = malloc(size + 1);
	for (uint64_t i = 0; i < size; i++)
		file[i] = (uint8_t)below(256);
	cp = (struct group_send){ .o = &cp_options, .name = "file", .out = { .path = "file", .size = size } };
	cp.out.map = size ? file : NULL;
	port_begin(&cp.port, cp_host);
	cp.to = (struct xfer_peer){ cp.port.ep.qp, the_group(), DIW_QP_UD };
	must(group_send_init(&cp) == 0, "no sender");
}

static bool hash_tick(void *ctx, uint64_t done)
{
	(void)ctx;
	(void)done;
	return true;
}

/* ---- The world ---- */

static void world_begin(int n)
{
	const char *tmp = getenv("TMPDIR");  /* tests/run removes it, also when a test was killed */

	memset(receiver, 0, sizeof receiver);
	sim.groups = true;
	receivers = n;
	cp_options = (struct group_options){ .receivers = (uint64_t)n, .message = XFER_MESSAGE };
	cp_host = net_host_add(sim.net);
	for (int i = 0; i < n; i++) {
		struct receiver *x = &receiver[i];

		x->host = net_host_add(sim.net);
		x->dies_at = DIW_NEVER;
		snprintf(x->dir, sizeof x->dir, "%s/diw-sim-group.XXXXXX", tmp ? tmp : "/dev/shm");
		must(mkdtemp(x->dir) != NULL, "mkdtemp: %s", strerror(errno));
	}
}

static void receiver_turn(struct receiver *x)
{
	struct diw_wc wc[64];
	int n;

	if (sim.net->now >= x->begins_at)
		receiver_begin(x);
	if (!x->lives)
		return;
	n = diw_cq_poll(x->r.port.ep.cq, wc, 64, 0);
	must(n >= 0, "diw_cq_poll: %d", n);
	group_recv_turn(&x->r, wc, n, sim.net->now);
	if (sim.net->now >= x->dies_at)
		receiver_die(x);
	else if (group_recv_is_over(&x->r, sim.net->now))
		receiver_end(x);
}

static void receivers_turn(void)
{
	for (int i = 0; i < receivers; i++)
		receiver_turn(&receiver[i]);
}

static void cp_turn(bool *more)
{
	struct diw_wc wc[64];
	int n = diw_cq_poll(cp.port.ep.cq, wc, 64, 0);

	must(n >= 0, "diw_cq_poll: %d", n);
	must(group_send_turn(&cp, wc, n, more, sim.net->now) == 0, "the sender fails");
}

static void world_step(bool *more)
{
	net_step(sim.net, sim.net->now + (*more ? 0 : TICK));
	receivers_turn();
	cp_turn(more);
}

/* Runs until all awaited receivers have joined. */
static void world_gather(void)
{
	bool more = false;

	xfer_sha256(cp.out.map, cp.out.size, cp.out.sha, hash_tick, NULL);
	group_send_start(&cp, sim.net->now);
	while (cp.phase == GROUP_GATHERING)
		world_step(&more);
	for (int i = 0; i < receivers; i++) {
		struct receiver *x = &receiver[i];

		if (x->begins_after)
			x->begins_at = sim.net->now + x->begins_after;
		if (x->dies_after)
			x->dies_at = sim.net->now + x->dies_after;
	}
}

/* Runs until the sender has ended, and its BYE has come. */
static void world_send(void)
{
	uint64_t began = sim.net->now;
	bool more = false;

	while (!group_send_is_over(&cp)) {
		world_step(&more);
		must(sim.net->now - began < LIMIT, "the sender does not end");
	}
	group_send_bye(&cp);
	for (uint64_t end = sim.net->now + 3 * DIW_S; sim.net->now < end;) {
		net_run(sim.net, TICK);
		receivers_turn();
	}
}

static void file_check(const struct receiver *x)
{
	char path[sizeof x->dir + 8];
	uint8_t *got = malloc(cp.out.size + 1);
	int fd;

	snprintf(path, sizeof path, "%s/file", x->dir);
	fd = open(path, O_RDONLY);
	must(fd >= 0 && read(fd, got, cp.out.size + 1) == (ssize_t)cp.out.size &&
	     memcmp(got, file, cp.out.size) == 0, "receiver %d: not the file", (int)(x - receiver));
	close(fd);
	free(got);
}

static struct receiver *receiver_of(const struct member *m)
{
	for (int i = 0; i < receivers; i++)
		if (memcmp(m->addr.ip, receiver[i].host->addr.ip, sizeof m->addr.ip) == 0)
			return &receiver[i];
	sim_fail("a member that is no receiver");
}

static void members_check(void)
{
	for (uint32_t i = 0; i < cp.members.n; i++) {
		const struct member *m = &cp.members.m[i];
		struct receiver *x = receiver_of(m);

		must((m->state == MEMBER_DONE && x->saved) || x->dies_at != DIW_NEVER, "receiver %d is %s: %s",
		     (int)(x - receiver), member_state_str(m->state), m->why);
	}
	must(cp.sent <= (cp.out.size + XFER_BITS * cp.block) * (1 + 3 * cp.members.n), "%llu bytes were sent",
	     (unsigned long long)cp.sent);
}

/* Nothing but the file is left of a receiver. */
static void receivers_check(void)
{
	char path[sizeof receiver->dir + 8];

	for (int i = 0; i < receivers; i++) {
		struct receiver *x = &receiver[i];

		if (x->saved)
			file_check(x);
		snprintf(path, sizeof path, "%s/file", x->dir);
		unlink(path);
		must(rmdir(x->dir) == 0, "receiver %d leaves something behind: %s", i, strerror(errno));
	}
}

static void world_end(void)
{
	for (int i = 0; i < receivers; i++)
		if (receiver[i].lives)
			receiver_end(&receiver[i]);
	members_check();
	receivers_check();
	group_send_fini(&cp);
	port_end(&cp.port, cp_host);
	free(file);
	for (int i = 0; i < sim.net->nhosts; i++)
		if (sim.net->host[i].dev)
			diw_dev_close(sim.net->host[i].dev);
	net_free(sim.net);
	sim.net = NULL;
}

static void quiet(void)
{
	if (!getenv("SIM_SEED") && !freopen("/dev/null", "w", stderr))
		abort();
}

/* ---- Scenarios ---- */

/* A receiver that loses most of the data closes the window for a second, and not until the end (11 s). */
START_TEST(deaf)
{
	quiet();
	sim_begin(1);
	world_begin(3);
	cp_begin(10000000);
	world_gather();
	receiver[2].host->loss = 0.7;
	world_send();
	for (int i = 0; i < 3; i++) {
		const struct member *m = &cp.members.m[i];

		if (receiver_of(m) == &receiver[2])
			continue;
		must(m->state == MEMBER_DONE, "receiver %d has no file", i);
		must(!m->behind && m->elapsed_ns < 5 * DIW_S, "receiver %d took %.3f s", i,
		     (double)m->elapsed_ns / 1e9);
	}
	world_end();
}
END_TEST

/* A receiver without a processor for half a second reports late, and loses nothing: 2 s, and 16 s if each such time
 * halved the window for good. */
START_TEST(stalled)
{
	uint64_t began;
	bool more = false;

	quiet();
	sim_begin(1);
	world_begin(2);
	sim.net->latency = 20 * DIW_MS;
	cp_begin(20000000);
	world_gather();
	began = sim.net->now;
	while (!group_send_is_over(&cp)) {
		net_step(sim.net, sim.net->now + (more ? 0 : TICK));
		receiver_turn(&receiver[0]);
		if ((sim.net->now - began) % DIW_S > DIW_S / 2)
			receiver_turn(&receiver[1]);
		cp_turn(&more);
		must(sim.net->now - began < LIMIT, "the sender does not end");
	}
	must(sim.net->now - began < 5 * DIW_S && cp.cwnd.timeouts, "%.3f s, %llu timeouts",
	     (double)(sim.net->now - began) / 1e9, (unsigned long long)cp.cwnd.timeouts);
	world_send();
	must(receiver[0].saved && receiver[1].saved, "no file");
	world_end();
}
END_TEST

/* ---- The random mix ---- */

static void choose_network(void)
{
	struct net *net = sim.net;

	net->latency = 1 + below(2000) * DIW_US;
	net->jitter = below(2) ? 1 + below(1000) * DIW_US : 0;
	net->dup = below(2) ? below(10) / 100.0 : 0;
	net->block = below(3) ? 0 : below(30) / 100.0;
	if (below(4) == 0)
		net->max_queue = 64 + below(200);
	for (int i = 0; i < receivers; i++)
		receiver[i].host->loss = below(3) ? below(30) / 100.0 : 0;
	cp_host->loss = below(3) ? 0 : below(20) / 100.0;
}

/* The first receiver is there from the beginning to the end. Some of the others come late, and some are killed. */
START_TEST(group_mix)
{
	quiet();
	sim_begin((uint64_t)_i);
	world_begin(1 + (int)below(RECEIVERS));
	choose_network();
	for (int i = 1; i < receivers; i++) {
		if (below(4) == 0) {
			receiver[i].begins_at = DIW_NEVER;
			receiver[i].begins_after = 1 + below(1000) * DIW_MS;
			cp_options.receivers--;
		}
		if (below(4) == 0)
			receiver[i].dies_after = 1 + below(2000) * DIW_MS;
	}
	cp_begin(below(4) ? below(1000000) : below(3000));
	world_gather();
	world_send();
	must(receiver[0].saved, "the first receiver has no file");
	world_end();
}
END_TEST

Suite *suite_group(int first, int last)
{
	Suite *s = suite_create("group");
	TCase *tc = tcase_create("group");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, deaf);
	tcase_add_test(tc, stalled);
	tcase_add_loop_test(tc, group_mix, first, last);
	suite_add_tcase(s, tc);
	return s;
}
