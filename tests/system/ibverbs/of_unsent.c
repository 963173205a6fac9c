/* SPDX-License-Identifier: BSD-2-Clause */
/* of_unsent DEVICE HOST QPN ERRNO: what the kernel refuses to send to that queue pair fails, for that reason, and
 * nothing else does. */
#include <arpa/inet.h>

#include "of_pair.h"

#define MESSAGE 100000u               /* of UC, many segments */

static struct side from, to;
static union ibv_gid bad_gid;
static uint32_t bad_qpn, reason;

static bool unsent(struct side *s, uint64_t id)
{
	struct ibv_wc wc;
	bool is = next_wc(s, &wc, SOON) && wc.wr_id == id && wc.status == IBV_WC_LOC_QP_OP_ERR &&
		  wc.vendor_err == reason;

	if (!is)
		printf("# wr_id %llu: %s, vendor_err %u\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status),
		       wc.vendor_err);
	return is;
}

static struct ibv_ah *handle(const union ibv_gid *dst)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh = { .dgid = *dst, .hop_limit = 8 } };

	return ibv_create_ah(pd, &a);
}

static void datagrams(void)
{
	struct ibv_ah *bad = handle(&bad_gid), *good = handle(&gid);
	struct ibv_sge sge = sge_at(0, 100);
	struct ibv_send_wr wr[4] = { 0 }, *at;

	CHECK(bad && good, "UD: address handles");
	for (int i = 0; i < 4; i++) {
		wr[i] = (struct ibv_send_wr){ .wr_id = 10 + (uint64_t)i, .sg_list = &sge, .num_sge = 1,
					      .opcode = IBV_WR_SEND, .next = i < 3 ? &wr[i + 1] : NULL,
					      .send_flags = i == 2 ? 0 : IBV_SEND_SIGNALED };
		wr[i].wr.ud.ah = i % 2 ? good : bad;
		wr[i].wr.ud.remote_qpn = i % 2 ? to.qp->qp_num : bad_qpn;
		wr[i].wr.ud.remote_qkey = QKEY;
		post_recv(&to, HALF, 140, 20 + (uint64_t)i);
	}
	CHECK(post_ud(&from, bad, bad_qpn, 1) == 0 && unsent(&from, 1),
	      "a Send that the kernel refuses: LOC_QP_OP_ERR");
	CHECK(ibv_post_send(from.qp, wr, &at) == 0, "Sends that it refuses, and others, in turn");
	CHECK(unsent(&from, 10), "the first fails");
	CHECK(next_is(&from, 11, IBV_WC_SUCCESS), "the second does not");
	CHECK(unsent(&from, 12), "the third does, though it is unsignaled");
	CHECK(next_is(&from, 13, IBV_WC_SUCCESS), "the fourth does not");
	CHECK(next_is(&to, 20, IBV_WC_SUCCESS) && next_is(&to, 21, IBV_WC_SUCCESS), "those two arrive");
	CHECK(state_of(&from) == IBV_QPS_RTS && none(&from) && none(&to),
	      "the queue pair is in RTS, and nothing else came");
	ibv_destroy_ah(bad);
	ibv_destroy_ah(good);
}

static void unreliable_connection(void)
{
	struct side s = { 0 };
	struct ibv_qp_attr a = attr_of(IBV_QPS_RTR, &bad_gid, bad_qpn);

	CHECK(side_open(&s, IBV_QPT_UC, 0, NULL) && to_init(&s) == 0 &&
	      ibv_modify_qp(s.qp, &a, rtr_mask(IBV_QPT_UC)) == 0 && to_rts(&s) == 0, "UC: a queue pair of that peer");
	for (uint64_t id = 1; id <= 3; id++)
		CHECK(post_send(&s, 0, MESSAGE, id) == 0 && unsent(&s, id), "a Send of many segments fails");
	CHECK(state_of(&s) == IBV_QPS_RTS, "the queue pair is in RTS");
	side_close(&s);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	open_all_of(argv[1]);
	bad_gid.raw[10] = bad_gid.raw[11] = 0xff;
	if (inet_pton(AF_INET, argv[2], bad_gid.raw + 12) != 1 && inet_pton(AF_INET6, argv[2], bad_gid.raw) != 1)
		return 2;
	bad_qpn = (uint32_t)atoi(argv[3]);
	reason = (uint32_t)atoi(argv[4]);
	CHECK(pair_open(&from, &to, IBV_QPT_UD, 0), "two queue pairs of UD");
	datagrams();
	unreliable_connection();
	CHECK(pair_close(&from, &to) == 0 && close_all() == 0, "all is closed");
	return failed;
}
