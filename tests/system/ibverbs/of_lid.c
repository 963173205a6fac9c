/* SPDX-License-Identifier: BSD-2-Clause */
/* of_lid DEVICE: programs that use LIDs only, and no GIDs. */
#include "of_pair.h"

static uint16_t lid;

static struct ibv_ah_attr to_lid(uint16_t dlid)
{
	struct ibv_ah_attr a = { .dlid = dlid, .port_num = 1 };

	/* an address that is not global has no route, so the field is ignored */
	memset(&a.grh, 0xff, sizeof a.grh);
	return a;
}

static int rtr_to(struct side *s, struct side *peer)
{
	struct ibv_qp_attr a = attr_of(IBV_QPS_RTR, &gid, peer->qp->qp_num);

	a.ah_attr = to_lid(lid);
	return ibv_modify_qp(s->qp, &a, rtr_mask(s->qp->qp_type));
}

static void connected(enum ibv_qp_type type)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr q;

	CHECK(side_open(&a, type, 0, NULL) && side_open(&b, type, 0, NULL) && to_init(&a) == 0 && to_init(&b) == 0 &&
	      rtr_to(&a, &b) == 0 && rtr_to(&b, &a) == 0 && to_rts(&a) == 0 && to_rts(&b) == 0,
	      type == IBV_QPT_RC ? "RC: a pair by LID" : "UC: a pair by LID");
	memset(mem, 0x31 + type, 100);
	CHECK(post_recv(&b, HALF, 100, 1) == 0 && post_send(&a, 0, 100, 2) == 0 && next_is(&a, 2, IBV_WC_SUCCESS) &&
	      next_is(&b, 1, IBV_WC_SUCCESS) && memcmp(mem, mem + HALF, 100) == 0, "a message arrives");
	CHECK(ibv_query_qp(a.qp, &q, IBV_QP_AV, &init) == 0 && !q.ah_attr.is_global && q.ah_attr.dlid == lid,
	      "the queue pair says so");
	pair_close(&a, &b);
}

static void datagrams(void)
{
	struct side a = { 0 }, b = { 0 };
	struct ibv_ah_attr attr = to_lid(lid);
	struct ibv_ah *ah = ibv_create_ah(pd, &attr);
	struct ibv_wc wc;

	CHECK(pair_open(&a, &b, IBV_QPT_UD, 0) && ah, "UD: an address handle with a LID");
	CHECK(post_recv(&b, HALF, 140, 1) == 0 && post_ud(&a, ah, b.qp->qp_num, 2) == 0 &&
	      next_is(&a, 2, IBV_WC_SUCCESS) && next_wc(&b, &wc, SOON) && wc.status == IBV_WC_SUCCESS,
	      "a datagram arrives");
	CHECK(wc.slid == lid, "its completion has the sender's LID");
	attr = to_lid(wc.slid);
	ibv_destroy_ah(ah);
	ah = ibv_create_ah(pd, &attr);
	CHECK(ah && post_recv(&a, HALF, 140, 3) == 0 && post_ud(&b, ah, wc.src_qp, 4) == 0 &&
	      next_is(&b, 4, IBV_WC_SUCCESS) && next_is(&a, 3, IBV_WC_SUCCESS), "by which it is answered");
	ibv_destroy_ah(ah);
	pair_close(&a, &b);
}

static void nobody(void)
{
	struct ibv_ah_attr attr = to_lid(0);

	errno = 0;
	CHECK(!ibv_create_ah(pd, &attr) && errno == EINVAL, "LID 0 is nobody's: EINVAL");
	attr = to_lid(lid);
	attr.port_num = 2;
	errno = 0;
	CHECK(!ibv_create_ah(pd, &attr) && errno == EINVAL, "a port that is not there: EINVAL");
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port;

	open_all_of(argc > 1 ? argv[1] : "diw_lo");
	CHECK(ibv_query_port(dev, 1, &port) == 0 && port.lid == (gid.raw[14] << 8 | gid.raw[15]) && port.lmc == 0,
	      "a port's LID is the end of its first address");
	lid = port.lid;
	connected(IBV_QPT_RC);
	connected(IBV_QPT_UC);
	datagrams();
	nobody();
	CHECK(close_all() == 0, "nothing is left");
	return failed;
}
