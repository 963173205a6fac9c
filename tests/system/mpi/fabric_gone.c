/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that ends while messages to it are under way, by libfabric's calls. The sends of short messages complete at
 * once, so they cannot fail any more: what comes behind them must fail.
 * usage: fabric_gone DEVICE
 */
#include "tests/system/mpi/fabric_kit.h"

static struct fi_cq_tagged_entry c;

/* A receive that names the peer, posted before the peer's end is known. */
static void test_receive_fails(void)
{
	doing = "a receive from the peer fails";
	REQUIRE(fi_trecv(a.ep, in, sizeof in, NULL, b.addr, 1, 0, &in) == 0);
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 1) == 0);
	REQUIRE(next(&a, &a, &c, NULL) == FI_ETIMEDOUT && c.op_context == &in);
}

static void test_later_fail(void)
{
	doing = "later calls fail";
	REQUIRE(fi_tsend(a.ep, out, 8, NULL, b.addr, 1, NULL) == -FI_ETIMEDOUT);
	REQUIRE(fi_tsend(a.ep, out, LARGE, NULL, b.addr, 1, NULL) == -FI_ETIMEDOUT);
	REQUIRE(fi_trecv(a.ep, in, sizeof in, NULL, b.addr, 1, 0, &in) == 0);
	REQUIRE(next(&a, &a, &c, NULL) == FI_ETIMEDOUT && c.op_context == &in);
}

/* Another endpoint, which has nothing to do with the peer, goes on. */
static void test_others_go_on(const void *name)
{
	doing = "messages to others, and to the address inserted again";
	REQUIRE(fi_tsend(a.ep, out, 8, NULL, a.addr, 2, &out) == 0 && next(&a, &a, &c, NULL) == 0);
	REQUIRE(fi_trecv(a.ep, in, 8, NULL, a.addr, 2, 0, &in) == 0 && next(&a, &a, &c, NULL) == 0);
	expect_in(8);
	REQUIRE(fi_av_insert(av, name, 1, &b.addr, 0, NULL) == 1);
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 1) == 0);
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();
	uint8_t name[64];
	size_t len = sizeof name;

	hints->caps = FI_TAGGED | FI_DIRECTED_RECV;
	ends_open(argc > 1 ? argv[1] : "diw_lo", FI_VERSION(1, 10), hints);
	fill(1);
	doing = "a message to the peer";
	REQUIRE(fi_getname(&b.ep->fid, name, &len) == 0);
	REQUIRE(fi_tinject(a.ep, out, 8, b.addr, 1) == 0);
	REQUIRE(fi_trecv(b.ep, in, 8, NULL, a.addr, 1, 0, &in) == 0 && next(&b, &a, &c, NULL) == 0);
	REQUIRE(fi_close(&b.ep->fid) == 0);
	test_receive_fails();
	test_later_fail();
	test_others_go_on(name);
	printf("done\n");
	fflush(stdout);
	_Exit(0);                        /* closing the endpoint would wait for the lost message */
}
